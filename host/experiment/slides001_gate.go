package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

const (
	measureGateEnd = "gate's end"
	gateEpsilon    = 1.0 // of the picture
	gateIterations = 1000
)

var (
	gateSigmas   = []float64{0.03, 0.1, 0.2, 0.3, 0.5, 1}
	gateEpsilons = []float64{0.1, gateEpsilon}
)

// gateEnds is what 001 says of EM for the gate.
func gateEnds(z size) *Figure {
	n, sets := z.of(4000, 10000), z.of(2, 8)
	f := &Figure{
		ID: "001-gate", Title: "Where EM for the gate ends with regressors in error",
		Source: "001, Learning the gating parameters",
		Claim: "With ‖â_i − a_i‖ ≤ σ²ε and σ below some σ_0, EM for the gate converges geometrically to a ŵ that is " +
			"ε-close to w.",
		Settings: fmt.Sprintf("k = 2, d = 10, %d rows in place of the population and the minimum of L_log at the true "+
			"regressors in place of w; %d data sets for each σ. The regressors are moved by σ²ε, ε = 0.1 and 1: each "+
			"in a random direction, and so that ŵ moves most, to first order: along the leading right singular vector "+
			"of the derivative of the minimum in both regressors, by differences. EM from a random W in the ball of "+
			"radius %d, until W moves by less than 1e−5 of the minimum that Newton's method finds with the same "+
			"regressors, at most %d iterations; its rate is the last ratio of the distances from there. The picture "+
			"has ε = 1. There is a σ_0 where at the least σ, or at more of them from there on, all runs converge with "+
			"a rate below 1 and end within ε.", n, sets, rateRadius, gateIterations),
		X: Axis{Label: "σ", Log: true}, Y: Axis{Label: "‖ŵ − w‖/ε", Log: true}, Level: 1, measure: measureGateEnd,
		Columns: []string{"g", "σ", "largest ‖ŵ − w‖/ε, random errors", "the worst errors", "largest rate of EM"},
		judge:   judgeGateEnds, table: gateEndsTable,
	}
	for _, g := range []string{"identity", "relu"} {
		for _, sigma := range gateSigmas {
			for run := range sets {
				s := paper(g, 2)
				s.sigma = sigma
				f.units = append(f.units, gateEndUnit(s, n, run))
			}
		}
	}
	return f
}

const worstErrors = "worst errors"

func gateEndUnit(s setting, n, run int) unit {
	key := fmt.Sprintf("gate's end by EM %+v n %d run %d", s, n, run)
	return s.onTable(key, n, func(ctx context.Context, st *study, data *model.Data, out *output) error {
		best, err := gateMinimum(ctx, st, data, st.truth, st.truth.Gating)
		if err != nil {
			return err
		}
		start, random := randomGate(st), st.unitRows(s.k)
		least, err := mostMoving(ctx, st, data, best)
		if err != nil {
			return err
		}
		for i, direction := range [][]float64{random, least} {
			series := floorSeries(s.g, []string{atRandom, worstErrors}[i])
			for _, epsilon := range gateEpsilons {
				moved := st.truth.Clone()
				floats.AddScaled(moved.Regressors, s.sigma*s.sigma*epsilon, direction)
				end, rate, err := gateByEM(ctx, st, data, moved, start)
				if err != nil {
					return err
				}
				measure := measureGateEnd
				if epsilon != gateEpsilon {
					measure = "smaller ε"
				}
				out.point(measure, series, run, s.sigma, floats.Distance(end, best, 2)/epsilon)
				out.point("rate", "rate, "+series, run, s.sigma, rate)
			}
		}
		return nil
	})
}

// gateMinimum is the minimum of L_log with these regressors, by Newton's method.
func gateMinimum(ctx context.Context, st *study, data *model.Data, of *model.Params,
	from []float64) ([]float64, error) {
	r, err := optim.Newton(ctx, loss.Log(data, st.act, of, 1), slices.Clone(from), optim.Settings{Tolerance: 1e-24})
	if err != nil {
		return nil, err
	}
	return r.X, nil
}

// gateByEM is where EM for the gate ends, and its last contraction. A run that does not come to the minimum has the
// rate of 1.
func gateByEM(ctx context.Context, st *study, data *model.Data, of *model.Params, start []float64) (end []float64,
	rate float64, err error) {
	best, err := gateMinimum(ctx, st, data, of, st.truth.Gating)
	if err != nil {
		return nil, 0, err
	}
	c, at, arrived := &contraction{fixed: best}, &lastIterate{Likelihood: loss.Log(data, st.act, of, 1)}, false
	c.watch(0, start)
	r, err := optim.EM(ctx, at, start, optim.Settings{Iterations: gateIterations, Tolerance: 1e-18,
		Stop: func(t int, _ float64) bool { arrived = c.watch(t, at.x); return arrived }})
	if err != nil {
		return nil, 0, err
	}
	if !arrived && floats.Distance(r.X, best, 2) > 1e-4 {
		return r.X, 1, nil
	}
	return r.X, c.last, nil
}

// mostMoving are errors of the regressors, the longest of length 1, along which the minimum of L_log moves most.
func mostMoving(ctx context.Context, st *study, data *model.Data, best []float64) ([]float64, error) {
	const h = 1e-4
	derivative := mat.NewDense(len(best), len(st.truth.Regressors), nil)
	for j := range st.truth.Regressors {
		moved, sides := st.truth.Clone(), [2][]float64{}
		for i, by := range []float64{-h, h} {
			moved.Regressors[j] = st.truth.Regressors[j] + by
			at, err := gateMinimum(ctx, st, data, moved, best)
			if err != nil {
				return nil, err
			}
			sides[i] = at
		}
		for i := range best {
			derivative.Set(i, j, (sides[1][i]-sides[0][i])/(2*h))
		}
	}
	var svd mat.SVD
	if !svd.Factorize(derivative, mat.SVDThin) {
		return nil, errors.New("the derivative of the gate has no singular values")
	}
	var right mat.Dense
	svd.VTo(&right)
	out, longest := mat.Col(nil, 0, &right), 0.0
	for i := range st.k {
		longest = max(longest, floats.Norm(out[i*st.d:(i+1)*st.d], 2))
	}
	floats.Scale(1/longest, out)
	return out, nil
}

// gateEndAt is the largest ‖ŵ − w‖/ε of the runs at σ over both ε, and the largest rate.
func gateEndAt(o *Outcome, series string, sigma float64) (far, rate float64) {
	return worst(append(o.at(series, sigma), o.besideAt(series, sigma)...)), worst(o.besideAt("rate, "+series, sigma))
}

func gateEndsTable(o *Outcome) (rows [][]string) {
	for _, g := range []string{"identity", "relu"} {
		for _, sigma := range gateSigmas {
			random, first := gateEndAt(o, floorSeries(g, atRandom), sigma)
			directed, second := gateEndAt(o, floorSeries(g, worstErrors), sigma)
			rows = append(rows, []string{g, fmt.Sprint(sigma), g2(random), g2(directed), g2(max(first, second))})
		}
	}
	return rows
}

func judgeGateEnds(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured, missed []string
	for _, g := range []string{"identity", "relu"} {
		largest, fastest, upTo, beyond, holds := 0.0, 0.0, 0.0, 0.0, true
		for _, sigma := range gateSigmas {
			random, first := gateEndAt(o, floorSeries(g, atRandom), sigma)
			directed, second := gateEndAt(o, floorSeries(g, worstErrors), sigma)
			if holds = holds && max(random, directed) <= 1 && max(first, second) < 1; holds {
				upTo, largest, fastest = sigma, max(largest, random, directed), max(fastest, first, second)
			} else {
				beyond = max(beyond, random, directed)
			}
		}
		if upTo == 0 {
			missed = append(missed, g)
			continue
		}
		text := fmt.Sprintf("%s: within ε at all σ up to %g, at most %s of ε, with rates of at most %.2f", g, upTo,
			g2(largest), fastest)
		if beyond > 0 {
			text += fmt.Sprintf("; up to %s times ε above", g2(beyond))
		}
		measured = append(measured, text)
	}
	v.Measured = strings.Join(measured, "; ")
	if len(missed) > 0 {
		v.Agrees, v.Because = false, "at the least σ EM does not end within ε for "+strings.Join(missed, " and ")
	}
	return v
}
