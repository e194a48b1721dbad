package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/steps"
)

var axisRatio = Axis{Label: "MSE / bound", Log: true}

// efficiencyBuiltins are the built-ins of the figure with k experts, in the order of
// the table.
func efficiencyBuiltins(k int) []setting {
	leaky := paper("leakyrelu", k)
	leaky.slope = 0.1
	return []setting{paper("identity", k), paper("relu", k), paper("sigmoid", k), leaky}
}

// efficiency compares the mean squared error of the regressors with the
// Cramér–Rao bound, for activations with the same number of experts.
func efficiency(z size, of []setting) *Figure {
	const perUnit = 10
	k := of[0].k
	leaky := ""
	if slices.ContainsFunc(of, func(s setting) bool { return s.slope == 0.1 }) {
		leaky = "leaky ReLU with slope 0.1, "
	}
	sets, rows, ns := z.of(40, 400), z.of(100000, 400000), []int{1000, 10000}
	if !z.quick {
		ns = []int{1000, 3000, 10000, 30000}
	}
	f := &Figure{
		ID: fmt.Sprintf("efficiency-%d", k), Title: fmt.Sprintf("Mean squared error over the Cramér–Rao bound, k = %d",
			k), Source: "beyond the papers",
		Claim: "The likelihood refinement reaches the Cramér–Rao bound, which the moment estimate is far from.",
		Own:   true,
		Settings: fmt.Sprintf("d = 10, σ = 0.05, %s%d data sets of each size. Σ‖â_i − a_i*‖² over the trace of the "+
			"regressors' block of the inverse Fisher information at the truth, all parameters unknown, its mean "+
			"taken over %d rows. The moment estimate has unit norm, the refined one does not.", leaky, sets, rows),
		X: Axis{Label: "n", Log: true}, Y: axisRatio, Plain: true, Errors: true, Level: 1, judge: judgeEfficiency(z,
			of),
		Views: []View{{Title: "both estimates", Y: axisRatio},
			{Title: "close to the bound", Y: Axis{Label: axisRatio.Label, Min: 0.8, Max: 1.3}}},
		Columns: []string{"g", "n", "refined: MSE / bound", "standard error", "data sets", "moments: MSE / bound",
			"data sets with moments"}, table: efficiencyTable(of),
	}
	order := slices.Clone(of)
	last := len(of) - 1
	order[0], order[last] = of[last], of[0] // the dearest first
	for _, s := range order {
		bound := &bound{setting: s, rows: rows}
		for first := 0; first < sets; first += perUnit {
			f.units = append(f.units, efficiencyUnit(bound, first, perUnit, ns))
		}
	}
	return f
}

func efficiencyUnit(b *bound, first, sets int, ns []int) unit {
	s := b.setting
	return unit{key: fmt.Sprintf("efficiency %+v rows %d n %v sets %d from %d", s, b.rows, ns, sets, first),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			bound, err := b.get(ctx)
			if err != nil {
				return nil, err
			}
			out := new(output)
			for i := range sets {
				moments, refined := new(trace), new(trace)
				for j, n := range ns {
					st, err := s.open(ctx, seed+uint64(len(ns)*i+j), n)
					if err != nil {
						return nil, err
					}
					p, e, err := st.measured(ctx, seed)
					if err != nil {
						return nil, err
					}
					found, err := search.Auto(ctx, p, e,
						search.Settings{Mu: moment.UnitMu, Starts: search.DefaultStarts, Steps: steps.All()})
					if err != nil {
						return nil, err
					}
					share := func(q *model.Params) float64 {
						return squaredError(p.Units.OutOf(q),
							st.truth) / (bound / float64(n))
					}
					refined.add(float64(n), share(found.Best.Params))
					if found.Estimate != nil {
						moments.add(float64(n), share(found.Estimate.Params))
					}
				}
				if moments.n() > 0 {
					out.add("moments", "moments, "+s.g, first+i, moments)
				}
				out.add(regressors, "refined, "+s.g, first+i, refined)
			}
			return out, nil
		}}
}

// squaredError is Σ‖â_i − a_i*‖² after relabelling.
func squaredError(p, truth *model.Params) float64 {
	_, perm := metric.Ereg(p, truth)
	p = p.Relabel(perm)
	d := floats.Distance(p.Regressors, truth.Regressors, 2)
	return d * d
}

// bound is the trace of the regressors' block of the inverse Fisher information
// of one row, which all units of a setting share.
type bound struct {
	setting
	rows int // that the information is the mean over

	mu    sync.Mutex
	value float64 // 0 until it is known
}

// get computes the bound when it is first asked for.
func (b *bound) get(ctx context.Context) (float64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.value == 0 {
		b.value, err = b.setting.bound(ctx, b.rows)
	}
	return b.value, err
}

// bound estimates the Fisher information by the Hessian at the truth over rows
// of its own.
func (s setting) bound(ctx context.Context, rows int) (float64, error) {
	st, data, err := s.openTable(ctx, 7, rows)
	if err != nil {
		return 0, err
	}
	l := loss.NewLikelihood(data, st.act, st.truth, loss.All, 1)
	h := mat.NewSymDense(l.Dim(), nil)
	if _, err := l.Hessian(ctx, h, make([]float64, l.Dim()), l.Theta(st.truth)); err != nil {
		return 0, err
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) {
		return 0, fmt.Errorf("the Fisher information of %s is singular", s.g)
	}
	var inverse mat.SymDense
	if err := chol.InverseTo(&inverse); err != nil {
		return 0, err
	}
	sum := 0.0
	for i := range s.k * s.d {
		sum += inverse.At(i, i)
	}
	return sum, nil
}

// ratios are the refined estimate's mean of MSE over bound at n, with its
// standard error, and the moments' mean: NaN where there was no estimate.
func (o *Outcome) ratios(g string, n float64) (refined, se, moments float64) {
	all := o.at("refined, "+g, n)
	refined, sd := stat.MeanStdDev(all, nil)
	return refined, sd / math.Sqrt(float64(len(all))), stat.Mean(o.at("moments, "+g, n), nil)
}

func efficiencyTable(of []setting) func(*Outcome) [][]string {
	return func(o *Outcome) (rows [][]string) {
		for _, s := range of {
			x, _ := o.medians("refined, " + s.g)
			for _, n := range x {
				refined, se, moments := o.ratios(s.g, n)
				rows = append(rows, []string{s.g, fmt.Sprint(n), fmt.Sprintf("%.3f", refined), fmt.Sprintf("%.3f", se),
					fmt.Sprint(len(o.at("refined, "+s.g, n))),
					fmt.Sprintf("%.3g", moments), fmt.Sprint(len(o.at("moments, "+s.g, n)))})
			}
		}
		return rows
	}
}

func judgeEfficiency(z size, of []setting) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		v := Verdict{Agrees: true}
		var measured []string
		for _, s := range of {
			g := s.g
			r, se, moments := o.ratios(g, 10000)
			measured = append(measured, fmt.Sprintf("%s %.3f ± %.3f (%.3g)", g, r, se, moments))
			if math.Abs(r-1) > efficiencyTolerance(z) {
				v.Agrees, v.Because = false, "the refined estimate of "+g+" is not within the tolerance of the bound"
			}
		}
		v.Measured = "mean squared error over the bound at n = 10000, refined ± standard error (moments): " +
			strings.Join(measured, "; ")
		return v
	}
}

// efficiencyTolerance is how far the ratio may be from 1.
func efficiencyTolerance(z size) float64 { return float64(z.of(25, 10)) / 100 }
