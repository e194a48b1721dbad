package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// rates is Theorem 3: the contraction per step against σ.
func rates(z size) *Figure {
	n := z.of(10000, 40000)
	f := &Figure{
		ID: "002-T3", Title: "Contraction of the gating error in a step", Source: "002 Theorem 3",
		Claim: "At step sizes and σ below some constants the population iterates of projected gradient descent " +
			"converge almost geometrically from any start in Ω, with a rate ρ_σ = o_σ(1).",
		Settings: fmt.Sprintf("Regressors at the truth, k = 2, d = 10, %d rows in place of the population and their "+
			"minimum Ŵ in place of W*; Ω the ball of radius 2, W_0 random in it. The rate is the last ratio ‖W_{t+1} "+
			"− Ŵ‖/‖W_t − Ŵ‖ before rounding, within 200 steps. Projected gradient descent with steps 1, 2 and 4, and "+
			"EM. Dashed: max |1 − step·λ| over the eigenvalues λ of E[p(1−p)·xxᵀ], the logistic information, which "+
			"is all that is left of the Hessian where y tells the expert.", n),
		X: Axis{Label: "σ", Log: true}, Y: Axis{Label: "rate per step"}, measure: measureRate, judge: judgeRates,
	}
	for _, g := range []string{"identity", "relu"} {
		for run := range z.of(2, 10) {
			for _, sigma := range rateSigmas {
				f.units = append(f.units, rateUnit(paper(g, 2), sigma, n, run))
			}
		}
	}
	f.units = append(f.units, limitUnit(paper("identity", 2), n))
	return f
}

var (
	rateSigmas = []float64{0.01, 0.03, 0.1, 0.3, 1}
	rateSteps  = []float64{1, 2, 4}
)

const (
	measureRate    = "rate"
	measureLargest = "largest ratio of a run"
	rateRadius     = 2
)

func byEM(g string) string                 { return "EM, " + g }
func byStep(step float64, g string) string { return fmt.Sprintf("step %g, %s", step, g) }
func limitOf(step float64) string          { return fmt.Sprintf("step %g, σ → 0", step) }

// rateUnit measures the contraction at one σ.
func rateUnit(s setting, sigma float64, n, run int) unit {
	s.sigma = sigma
	key := fmt.Sprintf("rates %+v n %d run %d", s, n, run)
	return s.onTable(key, n, func(ctx context.Context, st *study, data *model.Data, out *output) error {
		em, steps, err := approach(ctx, st, data, rateSteps, rateIterations)
		if err != nil {
			return err
		}
		out.point(measureRate, byEM(s.g), run, sigma, em.last)
		for i, size := range rateSteps {
			out.point(measureRate, byStep(size, s.g), run, sigma, steps[i].last)
			out.point(measureLargest, byStep(size, s.g), run, sigma, steps[i].largest)
		}
		return nil
	})
}

// approach is how EM, and projected gradient descent with steps of these sizes, come to
// the minimum of L_log with the true regressors, from a random start in Ω.
func approach(ctx context.Context, st *study, data *model.Data, sizes []float64,
	iterations int) (em *contraction, steps []*contraction, err error) {
	l := loss.Log(data, st.act, st.truth, 1)
	best, err := optim.Newton(ctx, l, slices.Clone(st.truth.Gating), optim.Settings{Tolerance: 1e-24})
	if err != nil {
		return nil, nil, err
	}
	start := randomGate(st)
	em, at := &contraction{fixed: best.X}, &lastIterate{Likelihood: l}
	em.watch(0, start)
	if _, err := optim.EM(ctx, at, start, optim.Settings{
		Iterations: iterations, Tolerance: 1e-18, Stop: func(t int, _ float64) bool { return em.watch(t, at.x) },
	}); err != nil {
		return nil, nil, err
	}
	for _, size := range sizes {
		c := &contraction{fixed: best.X}
		if _, err := optim.Projected(ctx, l, start, optim.ProjectedSettings{
			Iterations: iterations, StepSize: size, Tolerance: 1e-15, Project: optim.RowBall(st.d, rateRadius),
			Watch: c.watch,
		}); err != nil {
			return nil, nil, err
		}
		steps = append(steps, c)
	}
	return em, steps, nil
}

// randomGate is a random point of Ω, for two experts.
func randomGate(st *study) []float64 {
	w := st.unitRows(1)
	floats.Scale(rateRadius*math.Pow(st.rng.Float64(), 1/float64(st.d)), w)
	return w
}

const rateIterations = 200

// contraction watches iterates come to a fixed point: the ratios of their
// distances from it, the last and the largest.
type contraction struct {
	fixed         []float64
	far           float64
	last, largest float64
}

// watch takes the next iterate and says whether it is so near that the next
// would show how far the fixed point is itself known: Newton leaves 1e−7.
func (c *contraction) watch(t int, x []float64) bool {
	far := floats.Distance(x, c.fixed, 2)
	if t > 0 {
		c.last = far / c.far
		c.largest = max(c.largest, c.last)
	}
	c.far = far
	return far < 1e-5
}

// limitUnit computes the rates of gradient descent where y tells the expert:
// max |1 − step·λ| over the eigenvalues of the logistic information at the truth.
func limitUnit(s setting, n int) unit {
	key := fmt.Sprintf("rate limits %+v n %d", s, n)
	return s.onTable(key, n, func(_ context.Context, st *study, data *model.Data, out *output) error {
		var eig mat.EigenSym
		if !eig.Factorize(logisticInformation(st.truth, data), false) {
			return errors.New("the logistic information has no eigenvalues")
		}
		for _, step := range rateSteps {
			rate := 0.0
			for _, v := range eig.Values(nil) {
				rate = max(rate, math.Abs(1-step*v))
			}
			t := new(trace)
			for _, sigma := range rateSigmas {
				t.add(sigma, rate)
			}
			out.reference(measureRate, limitOf(step), t)
		}
		return nil
	})
}

// logisticInformation is the mean of p(1−p)·xxᵀ over the rows, of two experts.
func logisticInformation(truth *model.Params, data *model.Data) *mat.SymDense {
	d := truth.D
	h := mat.NewSymDense(d, nil)
	p, x := make([]float64, truth.K*model.BlockRows), make([]float64, d)
	for t := range data.Blocks {
		b := &data.Blocks[t]
		truth.GateLogits(p[:truth.K*b.N], b)
		model.Softmax(p[:truth.K*b.N], nil, p[:truth.K*b.N], b.N)
		for r := range b.N {
			for j := range x {
				x[j] = b.X[j*b.N+r]
			}
			h.SymRankOne(h, p[r]*(1-p[r])/float64(data.N), mat.NewVecDense(d, x))
		}
	}
	return h
}

func judgeRates(o *Outcome) Verdict {
	v := Verdict{Measured: "rate at σ = 0.01 and 1:"}
	smallest := map[string]float64{}
	for _, g := range []string{"identity", "relu"} {
		for _, s := range []string{byEM(g), byStep(1, g), byStep(4, g)} {
			_, y := o.medians(s)
			smallest[s] = y[0]
			v.Measured += fmt.Sprintf(" %s %.2g and %.2g;", s, y[0], y[len(y)-1])
		}
	}
	limit, largest := o.computed(limitOf(1)).Last(), 0.0
	for _, c := range o.aside {
		largest = max(largest, c.Last())
	}
	v.Measured += fmt.Sprintf(" largest ratio in any step of gradient descent %.2g; limit of step 1 for σ → 0 %.2g",
		largest, limit)
	switch {
	case largest >= 1:
		v.Because = "a step led away from the minimum"
	case smallest[byStep(1, "identity")] < 0.1:
		v.Agrees = true
	default:
		v.Because = fmt.Sprintf("the iterates do converge geometrically, but at a fixed step the rate of gradient "+
			"descent does not go to 0 with σ: at σ = 0.01 that of step 1 is %.2g for identity experts, where max |1 "+
			"− step·λ| of the logistic information is %.2g, and %.2g for ReLU. That of EM is %.2g and %.2g there: of "+
			"ReLU y does not tell the expert when both predictors are negative",
			smallest[byStep(1, "identity")], limit, smallest[byStep(1, "relu")], smallest[byEM("identity")],
			smallest[byEM("relu")])
	}
	return v
}
