package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"

	densities "github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/steps"
	"github.com/gatedlearning/moe/solver"
)

// lawOfY is a law of y that the figure has.
type lawOfY struct {
	name   string
	g      string
	family string
	sigma  float64   // the first own parameter
	own    []float64 // the others
	trials int
}

func lawsOfY() []lawOfY {
	return []lawOfY{
		{name: "Poisson by exp", g: "exp", family: "poisson"},
		{name: "negative binomial of θ = 2 by exp", g: "exp", family: "negative-binomial", sigma: 2},
		{name: "binomial of 10 trials by sigmoid", g: "sigmoid", family: "binomial", trials: 10},
		{name: "gamma of shape 3 by exp", g: "exp", family: "gamma", sigma: 3},
		{name: "t of 3 degrees of freedom by identity", g: "identity", family: "student-t", sigma: 0.1,
			own: []float64{3}},
		{name: "Cauchy by identity", g: "identity", family: "student-t", sigma: 0.1, own: []float64{1}},
	}
}

// The curves of a law, by the ends of their names.
func (l lawOfY) moments() string    { return l.name + ", moments" }
func (l lawOfY) likelihood() string { return l.name + ", likelihood" }
func (l lawOfY) predicted() string  { return l.name + ", moments as predicted" }

// families shows the moment estimate, and the likelihood from there, of y that is not normal about its mean.
func families(z size) *Figure {
	ns, sets := []int{5000, 15000, 50000}, z.of(3, 10)
	if z.quick {
		ns = []int{5000, 15000}
	}
	laws := lawsOfY()
	k, d := laws[0].setting().k, laws[0].setting().d
	f := &Figure{
		ID: "families", Title: "Regressors for six laws of y", Source: "beyond the papers", Own: true,
		Claim: "Transforms of minimum variance find the regressors of counts, shares, positive numbers and targets " +
			"with heavy tails from moments, of Cauchy noise too, with errors that fall like 1/n and are those " +
			"predicted; the likelihood from there has smaller ones.",
		Settings: fmt.Sprintf("k = %d, d = %d, a_i = e_i, w_i = e_{k+i}, a scale of 0.1 of the t laws, %d data sets "+
			"of each size. Moments: the cubic spectral estimate, own parameters and norm told by the values of y; "+
			"E_reg is 1 where there is none. Likelihood: as by moe fit. Predicted: from the true law.", k, d,
			sets),
		X: Axis{Label: "n", Log: true}, Y: axisReg, measure: regressors, judge: judgeFamilies(z),
	}
	for _, l := range laws {
		f.Views = append(f.Views, views(l.name)...)
		f.units = append(f.units, l.prediction(ns))
		for run := range sets {
			f.units = append(f.units, l.unit(ns, run))
		}
	}
	return f
}

// setting is the law's mixture, as the papers draw it.
func (l lawOfY) setting() setting { return paper(l.g, 3) }

// open makes a study of n rows.
func (l lawOfY) open(ctx context.Context, seed uint64, n int) (*study, error) {
	st := &study{setting: l.setting(), seed: seed}
	var err error
	if st.act, err = st.activation(ctx); err != nil {
		return nil, err
	}
	st.sampler, err = sample.New(sample.Config{
		Activation: st.act, K: st.k, D: st.d, N: n, Sigma: l.sigma, Own: l.own, Family: l.family, Trials: l.trials,
		Design: st.design, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	st.truth = st.sampler.Truth
	return st, nil
}

// unit is one data set of every size.
func (l lawOfY) unit(ns []int, run int) unit {
	return unit{key: fmt.Sprintf("family %+v n %v run %d", l, ns, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			moments, likelihood := new(trace), new(trace)
			for i, n := range ns {
				st, err := l.open(ctx, seed+uint64(i), n)
				if err != nil {
					return nil, err
				}
				p, err := problem.Load(ctx, st.sampler, st.act,
					problem.Request{K: st.k, Family: l.family, Seed: seed, Threads: 1})
				if err != nil {
					return nil, err
				}
				e, err := moment.Measure(ctx, p, moment.Want{})
				if err != nil {
					return nil, err
				}
				est, _, err := moment.EstimateSpectral(ctx, p, e)
				if err != nil {
					return nil, err
				}
				v := 1.0
				if est != nil {
					v = st.ereg(p.Units.OutOf(est.Params))
				}
				moments.add(float64(n), v)
				found, err := search.Auto(ctx, p, e,
					search.Settings{Mu: moment.UnitMu, Starts: search.DefaultStarts, Steps: steps.All()})
				if err != nil {
					return nil, err
				}
				likelihood.add(float64(n), st.ereg(p.Units.OutOf(found.Best.Params)))
			}
			out := new(output)
			out.add(regressors, l.moments(), run, moments)
			out.add(regressors, l.likelihood(), run, likelihood)
			return out, nil
		}}
}

// prediction is the median error of moments that the true law predicts.
func (l lawOfY) prediction(ns []int) unit {
	return unit{key: fmt.Sprintf("family %+v n %v predicted", l, ns),
		run: func(ctx context.Context, _ uint64) (*output, error) {
			s, err := l.open(ctx, 1, 1) // of which the truth's own parameters are wanted, which all seeds have
			if err != nil {
				return nil, err
			}
			density := densities.DensityOf(l.family)
			if l.trials > 0 {
				density = densities.OfTrials(density, []float64{float64(l.trials)})
			}
			law := densities.NewGiven(density, s.truth.OwnOf(nil, 0))
			o, err := solver.NewOptimalOf(ctx, s.act, law, s.k)
			if err != nil {
				return nil, err
			}
			rows := o.Noise.Samples(solver.Design{K: s.k, D: s.d, Order: 3}, recovered)
			t := new(trace)
			for _, n := range ns {
				t.add(float64(n), recovered*rows/float64(n))
			}
			out := new(output)
			out.reference(regressors, l.predicted(), t)
			return out, nil
		}}
}

// asPredicted is how many times what is predicted the median error of moments may be, or less by as much.
const asPredicted = 2.5

// judgeFamilies asks at the largest n for errors of moments that are as predicted, and smaller ones of the likelihood;
// at full size, where data sets are enough to tell, for a slope of the former within 0.35 of −1.
func judgeFamilies(z size) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		v := Verdict{Agrees: true}
		fail := func(format string, args ...any) { v.Agrees, v.Because = false, fmt.Sprintf(format, args...) }
		var measured []string
		for _, l := range lawsOfY() {
			x, moments := o.medians(l.moments())
			_, likelihood := o.medians(l.likelihood())
			last := len(x) - 1
			ratio, by := moments[last]/o.computed(l.predicted()).Last(), slope(x, moments)
			measured = append(measured, fmt.Sprintf("%s %s, %.2f times (power %.2f), and %s", l.name, g2(moments[last]),
				ratio, by, g2(likelihood[last])))
			switch {
			case !(ratio > 1/asPredicted && ratio < asPredicted):
				fail("moments of %s have %.2f times the error that is predicted", l.name, ratio)
			case !z.quick && !(math.Abs(by+1) <= 0.35):
				fail("the error by moments of %s goes like n to the %.2f", l.name, by)
			case !(likelihood[last] < moments[last]):
				fail("the likelihood of %s is no better than its moments", l.name)
			}
		}
		v.Measured = "median E_reg at the largest n of moments, as multiples of that predicted, their power of n, " +
			"and that of the likelihood: " + strings.Join(measured, "; ")
		return v
	}
}
