package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// Of the figures of Theorem 3 that do not vary σ: σ, and the most iterations, as rates
// near 1 take.
const (
	moreSigma      = 0.1
	moreIterations = 1000
)

// ratesOverD is Theorem 3's "dimension-independent".
func ratesOverD(z size) *Figure {
	perFeature, sets := z.of(500, 2000), z.of(6, 10)
	f := &Figure{
		ID: "002-T3d", Title: "Contraction of the gating error in a step, against d",
		Source: "002 Theorem 3; 001, EM for the gate",
		Claim:  "The rate at which the gate's iterates converge does not depend on d.",
		Settings: fmt.Sprintf("As 002-T3, at σ = %g, with %d rows a feature: at n rows the information's "+
			"eigenvalues, equal in the population but for one, spread by some ±2√(d/n) of themselves, and with them "+
			"the rate of gradient descent. EM, and projected gradient descent with step 1; %d data sets. A run's "+
			"rate is its last contraction, below ρ as long as a start has little in the slowest direction: the "+
			"verdict is about the largest over the data sets, which may differ by 0.05 between the d.", moreSigma,
			perFeature, sets),
		X: Axis{Label: "d", Log: true}, Y: Axis{Label: "rate per step"}, measure: measureRate, judge: judgeRatesOverD,
	}
	for _, g := range []string{"identity", "relu"} {
		for run := range sets {
			for _, d := range []int{5, 10, 20, 40} {
				s := paper(g, 2)
				s.d, s.sigma = d, moreSigma
				f.units = append(f.units, approachUnit(s, perFeature*d, run, float64(d), math.Sqrt2))
			}
		}
	}
	return f
}

// ratesOverDistance is Theorem 3 with regressors that are nearer to each other.
func ratesOverDistance(z size) *Figure {
	n, sets := z.of(4000, 10000), z.of(2, 10)
	f := &Figure{
		ID: "002-T3a", Title: "Contraction of the gating error in a step, against ‖a_1 − a_2‖",
		Source: "001, EM for the gate; 002 Theorem 3",
		Claim: "With the regressors known EM for the gate converges from any start, at a rate that falls with " +
			"‖a_1 − a_2‖/σ.",
		Settings: fmt.Sprintf("As 002-T3, at σ = %g; a_2 is turned towards a_1, so that ‖a_1 − a_2‖ is the abscissa; "+
			"%d rows, %d data sets. EM, and projected gradient descent with step 1.", moreSigma, n, sets),
		X: Axis{Label: "‖a_1 − a_2‖", Log: true}, Y: Axis{Label: "rate per step"}, measure: measureRate,
		judge: judgeRatesOverDistance,
	}
	for _, g := range []string{"identity", "relu"} {
		for run := range sets {
			for _, distance := range []float64{0.1, 0.2, 0.5, 1, math.Sqrt2} {
				s := paper(g, 2)
				s.sigma = moreSigma
				f.units = append(f.units, approachUnit(s, n, run, distance, distance))
			}
		}
	}
	return f
}

// approachUnit measures the contraction of EM and of gradient descent with step 1, of
// regressors at a distance.
func approachUnit(s setting, n, run int, x, distance float64) unit {
	key := fmt.Sprintf("approach %+v n %d distance %g run %d", s, n, distance, run)
	return s.unit(key, n, func(ctx context.Context, st *study, out *output) error {
		turn(st.truth, distance)
		data, err := st.table(ctx)
		if err != nil {
			return err
		}
		em, steps, err := approach(ctx, st, data, []float64{1}, moreIterations)
		if err != nil {
			return err
		}
		out.point(measureRate, byEM(s.g), run, x, em.last)
		out.point(measureRate, byStep(1, s.g), run, x, steps[0].last)
		out.point(measureLargest, byEM(s.g), run, x, em.far)
		return nil
	})
}

// turn moves the second of two orthonormal regressors towards the first, to that
// distance from it.
func turn(p *model.Params, distance float64) {
	sin, cos := math.Sincos(2 * math.Asin(distance/2))
	for j, a := range p.Regressor(0) {
		p.Regressor(1)[j] = cos*a + sin*p.Regressor(1)[j]
	}
}

func judgeRatesOverD(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured, differ []string
	for _, g := range []string{"identity", "relu"} {
		for _, s := range []string{byEM(g), byStep(1, g)} {
			x, y := o.means(s, worst)
			measured = append(measured, fmt.Sprintf("%s %.3f at d = %g, %.3f at d = %g", s, y[0], x[0], y[len(y)-1],
				x[len(x)-1]))
			if slices.Max(y)-slices.Min(y) >= 0.05 {
				differ = append(differ, s)
			}
		}
	}
	v.Measured = "largest rate of " + strings.Join(measured, "; ")
	if len(differ) > 0 {
		v.Agrees, v.Because = false, "the largest rates differ by 0.05 or more for "+strings.Join(differ, " and ")
	}
	return v
}

func judgeRatesOverDistance(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured, rising []string
	away := 0.0
	for _, far := range append(o.beside(byEM("identity")), o.beside(byEM("relu"))...) {
		away = max(away, far)
	}
	for _, g := range []string{"identity", "relu"} {
		x, y := o.medians(byEM(g))
		_, step := o.medians(byStep(1, g))
		last := len(x) - 1
		measured = append(measured, fmt.Sprintf("%s %.2f at %g and %.2f at %.3g, of step 1 %.2f and %.2f", byEM(g),
			y[0], x[0], y[last], x[last], step[0], step[last]))
		for i := range last {
			if y[i+1] >= y[i] {
				rising = append(rising, fmt.Sprintf("%s from %.3g to %.3g", byEM(g), x[i], x[i+1]))
			}
		}
	}
	v.Measured = "median rate of " + strings.Join(measured, "; ") + fmt.Sprintf("; EM ends at most %s from the minimum",
		g2(away))
	switch {
	case away > 1e-3:
		v.Agrees, v.Because = false, "a run of EM did not come to the minimum"
	case len(rising) > 0:
		v.Agrees, v.Because = false, "the median rate does not fall for "+strings.Join(rising, ", ")
	}
	return v
}

// gateFloor is Theorem 3 with ε_reg > 0.
func gateFloor(z size) *Figure {
	n, sets := z.of(4000, 10000), z.of(2, 8)
	f := &Figure{
		ID: "002-T3e", Title: "Where the gate's iterates end with regressors in error", Source: "002 Theorem 3",
		Claim: "With ‖a_i − a_i*‖ = σ²ε the iterates of projected gradient descent end within κε/(1−ρ) of W*, κ " +
			"as in Lemma 3.",
		Settings: fmt.Sprintf("k = 2, d = 10, σ = %g, %d rows in place of the population and the minimum Ŵ of L_log "+
			"at the true regressors in place of W*; %d data sets; %d steps of length 1 from a random W in the ball "+
			"of radius %d. Regressors are moved by σ²ε in random directions, and both along w. In the bound κε/(1−ρ) "+
			"κ = √(6(2+σ²))/2 is that of Lemma 3, ρ the last contraction with the true regressors.", moreSigma, n, sets,
			rateIterations, rateRadius),
		X: Axis{Label: "ε", Log: true}, Y: Axis{Label: "‖W − Ŵ‖ at the end", Log: true}, measure: measureFloor,
		judge: judgeFloor,
	}
	for _, g := range []string{"identity", "relu"} {
		for run := range sets {
			s := paper(g, 2)
			s.sigma = moreSigma
			f.units = append(f.units, floorUnit(s, n, run))
		}
	}
	return f
}

const (
	measureFloor = "floor"
	atRandom     = "random errors"
	alongGate    = "errors along w"
	floorBound   = "κε/(1−ρ)"
)

var floorErrors = []float64{0.1, 0.3, 1, 3, 10}

func floorUnit(s setting, n, run int) unit {
	key := fmt.Sprintf("floor %+v n %d run %d", s, n, run)
	return s.onTable(key, n, func(ctx context.Context, st *study, data *model.Data, out *output) error {
		l := loss.Log(data, st.act, st.truth, 1)
		best, err := optim.Newton(ctx, l, slices.Clone(st.truth.Gating), optim.Settings{Tolerance: 1e-24})
		if err != nil {
			return err
		}
		start, random := randomGate(st), st.unitRows(2)
		along := make([]float64, 2*s.d)
		copy(along, st.truth.Gating)
		copy(along[s.d:], st.truth.Gating)
		floats.Scale(1/floats.Norm(st.truth.Gating, 2), along)
		descend := func(of *model.Params, watch func(int, []float64) bool) (*optim.Result, error) {
			return optim.Projected(ctx, loss.Log(data, st.act, of, 1), start, optim.ProjectedSettings{
				Iterations: rateIterations, StepSize: 1, Tolerance: 1e-12, Project: optim.RowBall(s.d, rateRadius),
				Watch: watch,
			})
		}
		c := &contraction{fixed: best.X}
		if _, err := descend(st.truth, c.watch); err != nil {
			return err
		}
		bound := new(trace)
		for _, epsilon := range floorErrors {
			bound.add(epsilon, kappaBound(s.sigma)*epsilon/(1-c.last))
		}
		for i, direction := range [][]float64{random, along} {
			floor := new(trace)
			for _, epsilon := range floorErrors {
				moved := st.truth.Clone()
				floats.AddScaled(moved.Regressors, s.sigma*s.sigma*epsilon, direction)
				r, err := descend(moved, nil)
				if err != nil {
					return err
				}
				floor.add(epsilon, floats.Distance(r.X, best.X, 2))
			}
			out.add(measureFloor, floorSeries(s.g, []string{atRandom, alongGate}[i]), run, floor)
		}
		out.add(measureFloor, floorSeries(s.g, floorBound), run, bound)
		return nil
	})
}

func floorSeries(g, of string) string { return g + ", " + of }

func judgeFloor(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured []string
	for _, g := range []string{"identity", "relu"} {
		var largest float64
		var slopes []float64
		bounds := o.Of(floorSeries(g, floorBound))
		for _, of := range []string{atRandom, alongGate} {
			for i, c := range o.Of(floorSeries(g, of)) {
				for j, y := range c.Y {
					largest = max(largest, y/bounds[i].Y[j])
				}
			}
			x, y := o.geometric(floorSeries(g, of))
			slopes = append(slopes, slope(x, y))
		}
		measured = append(measured, fmt.Sprintf("%s at most %s of κε/(1−ρ), growing as ε^%.2f with random errors and "+
			"ε^%.2f with errors along w", g, g2(largest), slopes[0], slopes[1]))
		if largest > 1 {
			v.Agrees, v.Because = false, "the bound is exceeded for "+g
		}
	}
	v.Measured = "where the iterates end: " + strings.Join(measured, "; ")
	return v
}
