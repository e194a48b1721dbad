package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/minibatch"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/stream"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// setting is a mixture that an experiment draws from.
type setting struct {
	mixture
	given *Given // the activation; nil for the built-in of the name
}

// String is how units' keys name a setting: a built-in by its name, an activation
// that was given by its values too.
func (s setting) String() string {
	text := fmt.Sprintf("%+v", s.mixture)
	if s.given != nil {
		text += " " + s.given.ID
	}
	return text
}

// mixture is a setting but for an activation of which the name does not say all.
type mixture struct {
	g      string // the activation's name
	slope  float64
	k, d   int
	sigma  float64
	design sample.Design
	inputs sample.Inputs

	oblique bool // the gating vectors are random unit vectors instead
}

// paper is the setting of 002 Section 4: d = 10, σ = 0.05, a_i = e_i, w_i = e_{k+i}.
func paper(g string, k int) setting {
	return setting{mixture: mixture{g: g, k: k, d: 10, sigma: 0.05, design: sample.Paper}}
}

// study is a setting made ready: its activation, transforms and sampler.
type study struct {
	setting
	act     sdk.Activation
	moments sdk.Moments
	out     solver.Transform
	sampler *sample.Sampler
	truth   *model.Params
	seed    uint64
	rng     *rand.Rand // for starts
}

// open makes a study; rows is how many the sampler gives as a table.
func (s setting) open(ctx context.Context, seed uint64, rows int) (*study, error) {
	act, err := s.activation(ctx)
	if err != nil {
		return nil, err
	}
	st := &study{setting: s, act: act, seed: seed, rng: stream.New(seed, stream.Study, 1)}
	if st.moments, err = sdk.MomentsOf(ctx, st.act); err != nil {
		return nil, err
	}
	system, err := sdk.SystemFrom(ctx, st.act, st.moments, s.sigma)
	if err != nil {
		return nil, err
	}
	st.out, _ = solver.Solve(st.moments, system, s.sigma)
	st.sampler, err = sample.New(sample.Config{
		Activation: st.act, K: s.k, D: s.d, N: rows, Sigma: s.sigma, Design: s.design, Inputs: s.inputs, Seed: seed,
	})
	if err != nil {
		return nil, err
	}
	st.truth = st.sampler.Truth
	if s.oblique {
		copy(st.truth.Gating, st.unitRows(s.k-1))
	}
	return st, nil
}

// activation is the one that was given, or the built-in of the name.
func (s setting) activation(ctx context.Context) (sdk.Activation, error) {
	if s.given != nil {
		return s.given.Activation, nil
	}
	var params sdk.Params
	if s.slope != 0 {
		params = sdk.Params{"slope": s.slope}
	}
	plugin, err := catalog.Open(ctx, s.g, params)
	if err != nil {
		return nil, err
	}
	return plugin.Activation, nil
}

// table draws the sampler's rows.
func (s *study) table(ctx context.Context) (*model.Data, error) { return dataset.Load(ctx, s.sampler) }

// openTable makes a study and draws its rows.
func (s setting) openTable(ctx context.Context, seed uint64, rows int) (*study, *model.Data, error) {
	st, err := s.open(ctx, seed, rows)
	if err != nil {
		return nil, nil, err
	}
	data, err := st.table(ctx)
	return st, data, err
}

// descent is how mini-batches are descended.
type descent struct {
	batch, steps int
	size         float64
	schedule     string  // of the step size: cosine, or "" for constant; a part of the unit's key
	mu, lambda   float64 // of L4
	ridge        float64 // of L4
	adam         bool    // for ℓ2
	points       int     // of the curve
}

// cosine is the name of the one schedule that is not constant.
var cosine = optim.Cosine{}.Name()

func (d descent) scheduled() optim.Schedule {
	if d.schedule == cosine {
		return optim.Cosine{}
	}
	return optim.Constant{}
}

// trace records a curve: one point every few steps, and how it ended where it
// did not just end.
type trace struct {
	x, y   []float64
	status string
}

// ended notes the end of a run.
func (t *trace) ended(r *optim.Result) {
	if r.Status == optim.Diverged {
		t.status = fmt.Sprintf("diverged after %d steps", r.Iterations)
	}
}

func (t *trace) add(x, y float64) { t.x, t.y = append(t.x, x), append(t.y, y) }

func (t *trace) n() int { return len(t.x) }

func (t *trace) last() float64 { return t.y[len(t.y)-1] }

// l4 descends L4 from a random start with unit rows, and returns the
// regressors with their signs, and the curve of E_reg over steps.
func (s *study) l4(ctx context.Context, batches minibatch.Batches, how descent) (*model.Params, *trace, error) {
	l := minibatch.NewL4(s.k, s.d, s.out, how.mu, how.lambda, how.ridge)
	curve := new(trace)
	r, err := optim.SGD(ctx, minibatch.Batched{Loss: l, Batches: batches}, s.unitRows(s.k), optim.StochasticSettings{
		Steps: how.steps, StepSize: how.size, Schedule: how.scheduled(), Every: max(1, how.steps/how.points),
		Bound: 100,
		Watch: func(step int, x []float64) bool { curve.add(float64(step), s.ereg(s.regressors(x))); return false },
	})
	if err != nil {
		return nil, nil, err
	}
	curve.ended(r)
	return s.regressors(r.X), curve, nil
}

// unitRows draws m random directions.
func (s *study) unitRows(m int) []float64 { return model.RandomDirections(s.rng, m, s.d) }

// regressors reads the regressors from an A of L4.
func (s *study) regressors(a []float64) *model.Params {
	p := moment.FromL4(a, s.k, nil).Params
	p.Sigma[0] = s.sigma
	return p
}

// sign gives regressors the signs that the first moment of fresh rows asks for, or
// says why it cannot tell.
func (s *study) sign(ctx context.Context, p *model.Params, batches minibatch.Batches) (obstacle string, err error) {
	yx := make([]float64, s.d)
	for range 16 {
		data, err := batches.Next(ctx)
		if err != nil {
			return "", err
		}
		for i := range data.Blocks {
			b := &data.Blocks[i]
			for j := range yx {
				yx[j] += floats.Dot(b.Y, b.Col(j))
			}
		}
	}
	if why := moment.ChooseSigns(p, yx, s.moments); why != "" {
		return "the regressors' signs cannot be told: " + why, nil
	}
	return "", nil
}

// gate descends L_log over the gating with the regressors of p, from W = 0, and
// returns the curve of E_gating over steps.
func (s *study) gate(ctx context.Context, p *model.Params, batches minibatch.Batches, how descent) (*trace, error) {
	p = p.Clone()
	clear(p.Gating)
	p.Sigma[0] = s.sigma
	curve := new(trace)
	r, err := optim.SGD(ctx, minibatch.Batched{Loss: minibatch.NewGate(s.act, p), Batches: batches}, p.Gating,
		optim.StochasticSettings{
			Steps: how.steps, StepSize: how.size, Schedule: how.scheduled(), Every: max(1, how.steps/how.points),
			Watch: func(step int, w []float64) bool {
				copy(p.Gating, w)
				curve.add(float64(step), s.egating(p))
				return false
			},
		})
	if err != nil {
		return nil, err
	}
	curve.ended(r)
	return curve, nil
}

// l2 descends the squared loss over regressors and gating together from random
// unit rows, and returns the curves of E_reg and E_gating.
func (s *study) l2(ctx context.Context, batches minibatch.Batches,
	how descent) (p *model.Params, reg, gate *trace, err error) {
	l := minibatch.NewL2(s.k, s.d, s.act)
	minimise := optim.SGD
	if how.adam {
		minimise = optim.Adam
	}
	reg, gate = new(trace), new(trace)
	r, err := minimise(ctx, minibatch.Batched{Loss: l, Batches: batches}, s.unitRows(2*s.k-1), optim.StochasticSettings{
		Steps: how.steps, StepSize: how.size, Schedule: how.scheduled(), Every: max(1, how.steps/how.points),
		Watch: func(step int, x []float64) bool {
			p := l.Params(x, s.sigma)
			reg.add(float64(step), s.ereg(p))
			gate.add(float64(step), s.egating(p))
			return false
		},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	reg.ended(r)
	gate.ended(r)
	return l.Params(r.X, s.sigma), reg, gate, nil
}

// em runs joint EM from random unit regressors and W = 0 on a table, with σ
// fixed at the truth or free and started at the target's rms, until the mean
// log-likelihood rises by less than 1e−9 in an iteration, and returns the curves
// of E_reg and E_gating over the iterations 0 … steps. A run that ends earlier
// stays where it ended.
func (s *study) em(ctx context.Context, data *model.Data, fixed bool, steps int) (reg, gate *trace, err error) {
	p := model.NewParams(s.k, s.d)
	copy(p.Regressors, s.unitRows(s.k))
	p.Sigma[0] = s.sigma
	if !fixed {
		p.Sigma[0] = rms(data)
	}
	l := &lastIterate{Likelihood: loss.NewLikelihood(data, s.act, p,
		loss.Free{Regressors: true, Gating: true, Sigma: !fixed}, 1)}
	reg, gate = new(trace), new(trace)
	add := func(t int, theta []float64) {
		p := l.Params(theta)
		reg.add(float64(t), s.ereg(p))
		gate.add(float64(t), s.egating(p))
	}
	start := l.Theta(p)
	add(0, start)
	r, err := optim.EM(ctx, l, start, optim.Settings{Iterations: steps, Tolerance: 1e-9,
		Stop: func(t int, _ float64) bool {
			add(t, l.x)
			return false
		}})
	if err != nil {
		return nil, nil, err
	}
	for t := len(reg.x); t <= steps; t++ {
		add(t, r.X)
	}
	return reg, gate, nil
}

// lastIterate is a likelihood that remembers where EM stands: the last point
// that it was evaluated at, when [optim.EM] asks whether to stop.
type lastIterate struct {
	*loss.Likelihood
	x []float64
}

// EMStep is that of the likelihood.
func (l *lastIterate) EMStep(ctx context.Context, dst, x []float64) (float64, error) {
	l.x = append(l.x[:0], x...)
	return l.Likelihood.EMStep(ctx, dst, x)
}

func rms(data *model.Data) float64 {
	sum := 0.0
	for i := range data.Blocks {
		sum += floats.Dot(data.Blocks[i].Y, data.Blocks[i].Y)
	}
	return math.Sqrt(sum / float64(data.N))
}

func (s *study) ereg(p *model.Params) float64 {
	e, _ := metric.Ereg(p, s.truth)
	return e
}

func (s *study) egating(p *model.Params) float64 {
	_, perm := metric.Ereg(p, s.truth)
	return metric.Egating(p, s.truth, perm)
}
