package experiment

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/host/tensor"
)

// Names of the series.
const (
	seriesL4     = "L4, SGD"
	seriesL2     = "ℓ2, SGD"
	seriesL2Adam = "ℓ2, Adam"
	seriesFree   = "EM, σ free"
	seriesFixed  = "EM, σ fixed"
	seriesTrue   = "L_log, A = A*"
	seriesByL4   = "L_log, A by L4"
	seriesByL2   = "L_log, A by ℓ2"
	seriesByAdam = "L_log, A by ℓ2, Adam"
)

// Measures of the units' curves.
const (
	regressors = "regressors"
	gating     = "gating"
)

var (
	axisBatches = Axis{Label: "mini-batches"}
	axisRows    = Axis{Label: "rows processed", Log: true}
	axisReg     = Axis{Label: "E_reg", Log: true}
	axisGating  = Axis{Label: "E_gating", Log: true}
)

// l4Descent is SGD on L4 as in 002 Section 4: batch 1024 and, left out there and
// chosen here, step 4e−3 falling to 0 along a cosine, μ = 0.01, λ = 20, ridge 1.
// The ridge takes out what of A's start lies outside the regressors' span, which
// nothing else in L4 does. λ = 50, from where on Remark 2 has guarantees for the
// population value, weighs the noise of a batch with 50/1024 and ends two to three
// times as far from the truth; λ = 10 is as good as 20. With step 2e−3 one start in
// 300 at k = 3 is still at a saddle after 3000 steps.
func l4Descent(steps int) descent {
	return descent{batch: 1024, steps: steps, size: 4e-3, schedule: cosine, mu: 0.01, lambda: 20, ridge: 1, points: 100}
}

// gateDescent is SGD on L_log.
func gateDescent(steps int) descent {
	return descent{batch: 1024, steps: steps, size: 1, schedule: cosine, points: 50}
}

// l2Descent is SGD on ℓ2 with the best of the steps 0.1, 0.3, 1 and 3, or Adam
// with the best of 0.01, 0.03, 0.1 and 0.3: those that get stuck least often.
func l2Descent(steps int, adam bool) descent {
	how := descent{batch: 1024, steps: steps, size: 1, schedule: cosine, points: 100}
	if adam {
		how.size, how.adam = 0.1, true
	}
	return how
}

const l4Settings = "Each mini-batch is 1024 fresh rows. L4: step 4e−3 falling to 0 along a cosine, μ = 0.01, λ = 20, " +
	"ridge 1, rows of A start as random unit vectors. 002 gives the batch; its Remark 2 suggests for k = 2 μ = 0.01, " +
	"λ from 50 on and a small ridge, for the population value, where batches have no noise. "

const l2Settings = "ℓ2: SGD with step 1, the best of 0.1, 0.3, 1 and 3, and Adam with step 0.1, the best of 0.01, " +
	"0.03, 0.1 and 0.3, all falling to 0 along a cosine; A and W start as random unit rows. "

const gateSettings = "L_log: mini-batches of 1024 fresh rows, step 1 falling to 0 along a cosine, from W = 0, σ known. "

// unit makes a unit that runs in the setting, on a study of n rows.
func (s setting) unit(key string, n int, run func(ctx context.Context, st *study, out *output) error) unit {
	return unit{key: key, run: func(ctx context.Context, seed uint64) (*output, error) {
		st, err := s.open(ctx, seed, n)
		if err != nil {
			return nil, err
		}
		out := new(output)
		return out, run(ctx, st, out)
	}}
}

// onTable is unit for runs on the study's rows as a table.
func (s setting) onTable(key string, n int,
	run func(ctx context.Context, st *study, data *model.Data, out *output) error) unit {
	return s.unit(key, n, func(ctx context.Context, st *study, out *output) error {
		data, err := st.table(ctx)
		if err != nil {
			return err
		}
		return run(ctx, st, data, out)
	})
}

// l4Unit is one run of the papers' method: L4 by SGD on fresh samples, and
// where gate is set L_log by SGD with what it found.
func l4Unit(s setting, how, gate descent, series, gateSeries string, run int) unit {
	key := fmt.Sprintf("l4 %+v %+v gate %+v %q %q run %d", s, how, gate, series, gateSeries, run)
	return s.unit(key, 1, func(ctx context.Context, st *study, out *output) error {
		batches := st.sampler.Batches(how.batch)
		p, curve, err := st.l4(ctx, batches, how)
		if err != nil {
			return err
		}
		out.add(regressors, series, run, curve)
		if gate.steps == 0 {
			return nil
		}
		obstacle, err := st.sign(ctx, p, batches)
		if err != nil {
			return err
		}
		if obstacle != "" { // L4 ended where two rows are one: no gate to learn
			out.add(gating, gateSeries, run, &trace{x: []float64{0, float64(gate.steps)}, y: []float64{1, 1},
				status: obstacle})
			return nil
		}
		if curve, err = st.gate(ctx, p, batches, gate); err != nil {
			return err
		}
		out.add(gating, gateSeries, run, curve)
		return nil
	})
}

// l2Unit is one run of SGD or Adam on ℓ2, and where gate is set L_log by SGD with
// its regressors.
func l2Unit(s setting, how, gate descent, series, gateSeries string, run int) unit {
	key := fmt.Sprintf("l2 %+v %+v gate %+v %q %q run %d", s, how, gate, series, gateSeries, run)
	return s.unit(key, 1, func(ctx context.Context, st *study, out *output) error {
		batches := st.sampler.Batches(how.batch)
		p, reg, joint, err := st.l2(ctx, batches, how)
		if err != nil {
			return err
		}
		out.add(regressors, series, run, reg)
		if gate.steps > 0 {
			if joint, err = st.gate(ctx, p, batches, gate); err != nil {
				return err
			}
		}
		out.add(gating, gateSeries, run, joint)
		return nil
	})
}

// truthUnit is L_log by SGD at the true regressors.
func truthUnit(s setting, gate descent, run int) unit {
	key := fmt.Sprintf("truth %+v gate %+v run %d", s, gate, run)
	return s.unit(key, 1, func(ctx context.Context, st *study, out *output) error {
		curve, err := st.gate(ctx, st.truth, st.sampler.Batches(gate.batch), gate)
		if err != nil {
			return err
		}
		out.add(gating, seriesTrue, run, curve)
		return nil
	})
}

// emRows is the table that EM has, emSteps its most iterations.
const (
	emRows  = 10000
	emSteps = 300
)

// emSeries names EM with σ fixed or free.
func emSeries(fixed bool) string {
	if fixed {
		return seriesFixed
	}
	return seriesFree
}

// emUnit is one run of EM on a table of n rows.
func emUnit(s setting, fixed bool, n, steps, run int) unit {
	key := fmt.Sprintf("em %+v fixed %v n %d steps %d run %d", s, fixed, n, steps, run)
	return s.onTable(key, n, func(ctx context.Context, st *study, data *model.Data, out *output) error {
		reg, gate, err := st.em(ctx, data, fixed, steps)
		if err != nil {
			return err
		}
		out.add(regressors, emSeries(fixed), run, reg)
		out.add(gating, emSeries(fixed), run, gate)
		return nil
	})
}

// byMoments is E_reg of the moment estimate from the study's rows, and 1 where
// they are too few for one.
func (s *study) byMoments(ctx context.Context) (float64, error) {
	p, e, err := s.measured(ctx, s.seed)
	if err != nil {
		return 0, err
	}
	estimate, _, err := moment.EstimateParams(ctx, p, e, moment.UnitMu)
	if err != nil {
		return 0, err
	}
	if estimate == nil {
		return 1, nil
	}
	return s.ereg(p.Units.OutOf(estimate.Params)), nil
}

// bySpectral is 001, method 1, on the study's rows: E_reg of the cubic tensor, and
// E_gating of EM for the gate with its regressors; 1 where there is no estimate.
func (s *study) bySpectral(ctx context.Context) (reg, gate float64, err error) {
	p, e, err := s.measured(ctx, s.seed)
	if err != nil {
		return 0, 0, err
	}
	estimate, _, err := moment.EstimateSpectral(ctx, p, e)
	if err != nil || estimate == nil {
		return 1, 1, err
	}
	q, _, err := starts.FitGate(ctx, p, p.Rows, p.Shape.Adopt(estimate.Params), 0, 1)
	if err != nil {
		return 0, 0, err
	}
	q = p.Units.OutOf(q)
	return s.ereg(q), s.egating(q), nil
}

// measured is the fit of the study's rows as far as one pass goes.
func (s *study) measured(ctx context.Context, seed uint64) (*problem.Problem, *moment.Evidence, error) {
	p, err := problem.Load(ctx, s.sampler, s.act, problem.Request{K: s.k, Seed: seed, Threads: 1})
	if err != nil {
		return nil, nil, err
	}
	e, err := moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial})
	return p, e, err
}

// byTensors is E_reg of L4 on the tensors that the parts add up to, and 1 where there
// is no estimate.
func (s *study) byTensors(ctx context.Context, parts []tensorPart) (float64, error) {
	t2 := mat.NewSymDense(s.d, nil)
	for _, part := range parts {
		sums, err := tensor.SumSecond(ctx, part.rows, 1)
		if err != nil {
			return 0, err
		}
		of := sums.T2(s.out.Delta, part.centre)
		of.ScaleSym(part.share/s.out.C2, of)
		t2.AddSym(t2, of)
	}
	estimate, err := moment.FromTensors(t2, func(basis *mat.Dense) (*tensor.Sym4, error) {
		_, m := basis.Dims()
		t4 := tensor.NewSym4(m)
		for _, part := range parts {
			sums, err := tensor.SumFourth(ctx, part.rows, basis, part.centre, 1)
			if err != nil {
				return nil, err
			}
			for i, v := range sums.T4(s.out).Data {
				t4.Data[i] += part.share / s.out.C4 * v
			}
		}
		return t4, nil
	}, s.k, s.seed)
	if err != nil || estimate == nil {
		return 1, err
	}
	return s.ereg(estimate.Params), nil
}
