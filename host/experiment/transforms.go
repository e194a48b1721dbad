package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
)

// transforms compares the transforms of y that the moment tensors are made of.
func transforms(z size, k int) *Figure {
	ns, sets := []int{3000, 10000}, z.of(4, 20)
	switch {
	case !z.quick:
		ns = append(ns, 30000)
	case k == 6: // of six ReLU experts 10,000 rows tell nothing by either
		ns = []int{10000, 30000}
	}
	f := &Figure{
		ID:    fmt.Sprintf("transforms-%d", k),
		Title: fmt.Sprintf("Polynomials and transforms of minimum variance, k = %d", k), Source: "beyond the papers",
		Claim: "By transforms of minimum variance the regressors are found from no more rows than by the papers' " +
			"polynomials, for ReLU from several times fewer.", Own: true,
		Settings: fmt.Sprintf("d = %d, σ = 0.05 and not given, %d data sets of each size, leaky ReLU with slope 0.1. "+
			"Cubic: the spectral estimate. Quartic: L4 on the reduced problem with μ = 1. E_reg is 1 where there is "+
			"no estimate. In the picture means and bands are of the estimates below %g, half of the error of one that "+
			"lies halfway between two regressors, and numbers say how many those are where not all.", 2*k+6, sets,
			lostEstimate),
		Lost: lostEstimate,
		X:    Axis{Label: "n", Log: true}, Y: axisReg, measure: regressors,
		judge: func(o *Outcome) Verdict { return judgeTransforms(z, o) },
		Views: views("relu", "leakyrelu", "identity", "sigmoid"),
	}
	for _, g := range []string{"relu", "leakyrelu", "identity", "sigmoid"} {
		s := paper(g, k)
		s.d = 2*k + 6
		if g == "leakyrelu" {
			s.slope = 0.1
		}
		for run := range sets {
			f.units = append(f.units, transformsUnit(s, ns, run))
		}
	}
	return f
}

// lostEstimate is the E_reg from which on an estimate is lost: half of 1 − cos 45°, the error of one that lies halfway
// between two orthogonal regressors, where lost ones are found.
const lostEstimate = 0.146

// estimates are what the figure compares, by the dashes of its lines.
var estimates = []struct {
	name string
	want moment.Want
}{
	{"quartic polynomial", moment.Want{Transform: moment.Polynomial, Order: 4}},
	{"cubic polynomial", moment.Want{Transform: moment.Polynomial, Order: 3}},
	{"quartic optimal", moment.Want{Transform: moment.Optimal, Order: 4}},
	{"cubic optimal", moment.Want{Transform: moment.Optimal, Order: 3}},
}

// transformsUnit is one data set of every size by every estimate.
func transformsUnit(s setting, ns []int, run int) unit {
	return unit{key: fmt.Sprintf("transforms %+v n %v run %d", s, ns, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			out := new(output)
			curves := make([]trace, len(estimates))
			for i, n := range ns {
				st, err := s.open(ctx, seed+uint64(i), n)
				if err != nil {
					return nil, err
				}
				p, err := problem.Load(ctx, st.sampler, st.act, problem.Request{K: s.k, Seed: seed, Threads: 1})
				if err != nil {
					return nil, err
				}
				for j, e := range estimates {
					v, err := errorBy(ctx, st, p, e.want)
					if err != nil {
						return nil, err
					}
					curves[j].add(float64(n), v)
				}
			}
			for j, e := range estimates {
				out.add(regressors, s.g+", "+e.name, run, &curves[j])
			}
			return out, nil
		}}
}

// errorBy is E_reg of an estimate; 1 where there is none.
func errorBy(ctx context.Context, s *study, p *problem.Problem, w moment.Want) (float64, error) {
	e, err := moment.Measure(ctx, p, w)
	if err != nil {
		return 0, err
	}
	var est *moment.Estimate
	if w.Order == 3 {
		est, _, err = moment.EstimateSpectral(ctx, p, e)
	} else {
		est, _, err = moment.EstimateParams(ctx, p, e, 0)
	}
	if err != nil || est == nil {
		return 1, err
	}
	return s.ereg(p.Units.OutOf(est.Params)), nil
}

// asGood is how much larger a median of 20 may be that is no larger: its standard error
// is some 15 %, and of four at quick size more than twice that.
func asGood(z size) float64 { return float64(z.of(150, 115)) / 100 }

// judgeTransforms asks, at the largest n, that the optimal cubic tensor's median is no
// larger than the polynomial one's for any activation, and clearly smaller for ReLU.
func judgeTransforms(z size, o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var parts []string
	for _, g := range []string{"relu", "leakyrelu", "identity", "sigmoid"} {
		x, polynomial := o.medians(g + ", cubic polynomial")
		_, least := o.medians(g + ", cubic optimal")
		last := len(x) - 1
		parts = append(parts, fmt.Sprintf("%s %s and %s", g, g2(polynomial[last]), g2(least[last])))
		bound := asGood(z)
		if g == "relu" {
			bound = 0.75 // at k = 6 and 10,000 rows it is .44 to .6, at 30,000 .3
		}
		if !(least[last] <= bound*polynomial[last]) {
			v.Agrees = false
			v.Because = fmt.Sprintf("for %s it is %s of the polynomial's", g, g2(least[last]/polynomial[last]))
		}
	}
	v.Measured = "median E_reg at the largest n from the cubic tensor, polynomial and optimal: " + strings.Join(parts,
		"; ")
	return v
}
