package experiment

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/optim"
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
	axisReg     = Axis{Label: "E_reg", Log: true}
	axisGating  = Axis{Label: "E_gating", Log: true}
)

var axisRows = Axis{Label: "rows processed", Log: true}

// l4Descent is SGD on L4 as in 002 Section 4: batch 1024 and, left out there and
// chosen here, step 4e−3 falling to 0 along a cosine, μ = 0.01, λ = 20, ridge 1.
// The ridge takes out what of A's start lies outside the regressors' span, which
// nothing else in L4 does. λ = 50, from where on Remark 2 has guarantees for the
// population value, weighs the noise of a batch with 50/1024 and ends two to three
// times as far from the truth; λ = 10 is as good as 20. With step 2e−3 one start in
// 300 at k = 3 is still at a saddle after 3000 steps.
func l4Descent(steps int) descent {
	return descent{batch: 1024, steps: steps, size: 4e-3, schedule: optim.Cosine{}, mu: 0.01, lambda: 20, ridge: 1, points: 100}
}

// gateDescent is SGD on L_log.
func gateDescent(steps int) descent {
	return descent{batch: 1024, steps: steps, size: 1, schedule: optim.Cosine{}, points: 50}
}

// l2Descent is SGD on ℓ2 with the best of the steps 0.1, 0.3, 1 and 3, or Adam
// with the best of 0.01, 0.03, 0.1 and 0.3: those that get stuck least often.
func l2Descent(steps int, adam bool) descent {
	how := descent{batch: 1024, steps: steps, size: 1, schedule: optim.Cosine{}, points: 100}
	if adam {
		how.size, how.adam = 0.1, true
	}
	return how
}

const l4Settings = "Each mini-batch is 1024 fresh rows. L4: step 4e−3 falling to 0 along a cosine, μ = 0.01, λ = 20, ridge 1, rows of A start as random unit vectors. 002 gives the batch; its Remark 2 suggests for k = 2 μ = 0.01, λ from 50 on and a small ridge, for the population value, where batches have no noise. "

const l2Settings = "ℓ2: SGD with step 1, the best of 0.1, 0.3, 1 and 3, and Adam with step 0.1, the best of 0.01, 0.03, 0.1 and 0.3, all falling to 0 along a cosine; A and W start as random unit rows. "

const gateSettings = "L_log: mini-batches of 1024 fresh rows, step 1 falling to 0 along a cosine, from W = 0, σ known. "

// l4Unit is one run of the papers' method: L4 by SGD on fresh samples, and
// where gate is set L_log by SGD with what it found.
func l4Unit(s setting, how, gate descent, series, gateSeries string, run int) unit {
	return unit{
		key: fmt.Sprintf("l4 %+v %+v gate %+v %q %q run %d", s, how, gate, series, gateSeries, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			st, err := s.open(ctx, seed, 1)
			if err != nil {
				return nil, err
			}
			batches := st.sampler.Batches(how.batch)
			p, curve, err := st.l4(ctx, batches, how)
			if err != nil {
				return nil, err
			}
			out := new(output)
			out.add(regressors, series, run, curve)
			if gate.steps == 0 {
				return out, nil
			}
			if err := st.sign(ctx, p, batches); err != nil {
				return nil, err
			}
			curve, err = st.gate(ctx, p, batches, gate)
			if err != nil {
				return nil, err
			}
			out.add(gating, gateSeries, run, curve)
			return out, nil
		},
	}
}

// l2Unit is one run of SGD or Adam on ℓ2, and where gate is set L_log by SGD with
// its regressors.
func l2Unit(s setting, how, gate descent, series, gateSeries string, run int) unit {
	return unit{
		key: fmt.Sprintf("l2 %+v %+v gate %+v %q %q run %d", s, how, gate, series, gateSeries, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			st, err := s.open(ctx, seed, 1)
			if err != nil {
				return nil, err
			}
			batches := st.sampler.Batches(how.batch)
			p, reg, joint, err := st.l2(ctx, batches, how)
			if err != nil {
				return nil, err
			}
			out := new(output)
			out.add(regressors, series, run, reg)
			if gate.steps > 0 {
				if joint, err = st.gate(ctx, p, batches, gate); err != nil {
					return nil, err
				}
			}
			out.add(gating, gateSeries, run, joint)
			return out, nil
		},
	}
}

// truthUnit is L_log by SGD at the true regressors.
func truthUnit(s setting, gate descent, run int) unit {
	return unit{
		key: fmt.Sprintf("truth %+v gate %+v run %d", s, gate, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			st, err := s.open(ctx, seed, 1)
			if err != nil {
				return nil, err
			}
			curve, err := st.gate(ctx, st.truth, st.sampler.Batches(gate.batch), gate)
			if err != nil {
				return nil, err
			}
			out := new(output)
			out.add(gating, seriesTrue, run, curve)
			return out, nil
		},
	}
}

// emRows is the table that EM has, emSteps its most iterations.
const (
	emRows  = 10000
	emSteps = 300
)

// emUnit is one run of EM on a table of n rows.
func emUnit(s setting, fixed bool, n, steps, run int) unit {
	return unit{
		key: fmt.Sprintf("em %+v fixed %v n %d steps %d run %d", s, fixed, n, steps, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			st, data, err := s.openTable(ctx, seed, n)
			if err != nil {
				return nil, err
			}
			reg, gate, err := st.em(ctx, data, fixed, steps)
			if err != nil {
				return nil, err
			}
			series := seriesFree
			if fixed {
				series = seriesFixed
			}
			out := new(output)
			out.add(regressors, series, run, reg)
			out.add(gating, series, run, gate)
			return out, nil
		},
	}
}

func isRequest(err error) bool {
	var r *host.RequestError
	return errors.As(err, &r)
}
