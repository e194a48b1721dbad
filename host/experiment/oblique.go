package experiment

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/host/tensor"
)

// The ways of the figure oblique to estimate, and what the population has of the first two, which
// host/moment.TestObliqueGates finds by quadrature.
const (
	seriesDeflated  = "power iterations"
	seriesJointly   = "least-squares fit"
	seriesFromThere = "likelihood from there"

	populationDeflated, populationJointly = .2506, .0239
)

// obliqueGate is what a gate between the regressors does to the moments of ReLU experts.
func obliqueGate(z size) *Figure {
	ns, sets := []int{10000, 100000, 1000000}, z.of(6, 20)
	if z.quick {
		ns = []int{100000, 1000000}
	}
	f := &Figure{
		ID: "oblique", Title: "A gate between the regressors, ReLU",
		Source: "beyond the papers; 002 Figure 3", Own: true,
		Claim: "A gate along the regressors biases the moment estimate of ReLU experts by as much as the " +
			"population's moments have it, at any number of rows; the likelihood from there has no such bias.",
		Settings: fmt.Sprintf("ReLU, k = 2, d = 10, σ = .05, a_i = e_i and w_1 = (e_1 + e_2)/√2, %d data sets of each "+
			"size. The cubic tensor with polynomials: by power iterations with deflation, as 001 has it, and by the "+
			"least-squares fit that follows them here. E_reg of the population's tensors is %g and %g, by quadrature "+
			"(host/moment.TestObliqueGates). The likelihood is climbed from the former, EM for the gate "+
			"first, on up to 100,000 rows.", sets, populationDeflated, populationJointly),
		X: Axis{Label: "n", Log: true}, Y: axisReg, Apart: true, measure: regressors, judge: judgeObliqueGate,
	}
	s := paper("relu", 2)
	for _, n := range ns {
		for run := range sets {
			f.units = append(f.units, s.unit(fmt.Sprintf("oblique gate n %d run %d", n, run), n,
				func(ctx context.Context, st *study, out *output) error { return obliquePoint(ctx, st, n, run, out) }))
		}
	}
	return f
}

// obliquePoint adds the errors on one data set.
func obliquePoint(ctx context.Context, s *study, n, run int, out *output) error {
	clear(s.truth.Gating)
	s.truth.Gating[0], s.truth.Gating[1] = math.Sqrt(.5), math.Sqrt(.5)
	p, err := problem.Load(ctx, s.sampler, s.act, problem.Request{K: s.k, Seed: s.seed, Threads: 1})
	if err != nil {
		return err
	}
	e, err := moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial, Order: 3})
	if err != nil {
		return err
	}
	joint, _, err := moment.EstimateSpectral(ctx, p, e)
	if err != nil || joint == nil {
		return err // too few rows for an estimate
	}
	out.point(regressors, seriesJointly, run, float64(n), s.ereg(p.Units.OutOf(joint.Params)))
	deflated, err := byDeflation(ctx, s, p, e, joint.Params)
	if err != nil {
		return err
	}
	out.point(regressors, seriesDeflated, run, float64(n), s.ereg(p.Units.OutOf(deflated)))
	if n > 100000 {
		return nil
	}
	q, _, err := starts.FitGate(ctx, p, p.Rows, p.Shape.Adopt(deflated), 0, 1)
	if err != nil {
		return err
	}
	l := loss.NewLikelihood(p.Rows, s.act, q, loss.All, 1)
	r, err := climb.Climb(ctx, l, l.Theta(q), nil)
	if err != nil {
		return err
	}
	out.point(regressors, seriesFromThere, run, float64(n), s.ereg(p.Units.OutOf(l.Params(r.X))))
	return nil
}

// byDeflation is the estimate of 001, method 1, by power iterations and deflation alone: the whitened T̂3's vectors v
// make the directions UΛ^{1/2}v. The rest is that of like.
func byDeflation(ctx context.Context, s *study, p *problem.Problem, e *moment.Evidence,
	like *model.Params) (*model.Params, error) {
	sums, err := tensor.SumTransformed(ctx, p.Rows, e.Transform, 3, e.Subspace.Basis, e.Subspace.Centre, 1)
	if err != nil {
		return nil, err
	}
	t3, scale := sums.T3(), make([]float64, like.K)
	for i, v := range e.Subspace.Values {
		scale[i] = 1 / math.Sqrt(v)
	}
	t3.ScaleModes(scale)
	found, out := t3.Power(s.rng, 30), like.Clone()
	for i := range like.K {
		a := out.Regressor(i)
		clear(a)
		for j := range like.K {
			for row := range a {
				a[row] += e.Subspace.Basis.At(row, j) * found.Vectors.At(i, j) / scale[j]
			}
		}
		floats.Scale(1/floats.Norm(a, 2), a)
	}
	return out, nil
}

// judgeObliqueGate asks for medians of the moments at the largest n within a half of the population's, and for one of
// the likelihood below a hundredth of the lesser. How many of its runs end in another optimum is said.
func judgeObliqueGate(o *Outcome) Verdict {
	x, deflated := o.medians(seriesDeflated)
	_, joint := o.medians(seriesJointly)
	lx, likelihood := o.medians(seriesFromThere)
	last, end := len(x)-1, len(lx)-1
	lost := o.at(seriesFromThere, lx[end])
	v := Verdict{Agrees: true, Measured: fmt.Sprintf("median E_reg at n = %g: %s by power iterations, where the "+
		"population has %g, and %s by the least-squares fit, where it has %g; of the likelihood from there %s at n = "+
		"%g", x[last], g2(deflated[last]), populationDeflated, g2(joint[last]), populationJointly, g2(likelihood[end]),
		lx[end])}
	if n := len(lost) - below(lost, recovered); n > 0 {
		v.Because = fmt.Sprintf("but %d of %d climbs end at another optimum, above %g", n, len(lost), recovered)
	}
	switch {
	case !(math.Abs(deflated[last]/populationDeflated-1) < .5 && math.Abs(joint[last]/populationJointly-1) < .5):
		v.Agrees, v.Because = false, "the moments have another error than the population's"
	case !(likelihood[end] < populationJointly/100):
		v.Agrees, v.Because = false, "the likelihood keeps an error"
	}
	return v
}
