package search

import (
	"context"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
)

// VectorTask is the search for a mixture of several targets under one gate. Every target is
// a problem of its own, of the same features, shape and rows.
type VectorTask struct {
	Problems []*problem.Problem
	Evidence []*moment.Evidence // of every target
	Rows     model.Rows         // with all targets, see model.Beside
	Full     bool               // whether the noise of a row's targets may be correlated
	Starts   int                // at most
	Own      *model.VectorParams
	Follow
}

// VectorStart is where candidates with vector outputs begin, see [Start].
type VectorStart struct {
	Kind string
	Draw func(ctx context.Context, rng *rand.Rand) (*model.VectorParams, error)
}

// one is what the targets share.
func (t *VectorTask) one() *problem.Problem { return t.Problems[0] }

// Parameters counts the parameters of the mixture.
func (t *VectorTask) Parameters() int { return loss.VectorDim(t.blank(), t.one().Shape.Free()) }

// likelihood is that of rows, with the ridge of the screening.
func (t *VectorTask) likelihood(rows model.Rows, p *model.VectorParams, workers int) *loss.Vector {
	l := loss.NewVector(rows, t.one().G, p, t.one().Shape.Free(), workers)
	l.PenaliseGate(screenRidge)
	return l
}

// Likelihood returns that of all rows with the weights as they were given, given the rows
// with those.
func (t *VectorTask) Likelihood(given model.Rows, p *model.VectorParams) *loss.Vector {
	l := t.likelihood(given, p, t.one().Threads)
	l.PenaliseGate(0)
	return l
}

// blank returns zero parameters of the task's shape, with noise as large as the targets.
func (t *VectorTask) blank() *model.VectorParams {
	coordinates := make([]*model.Params, len(t.Problems))
	for c, p := range t.Problems {
		coordinates[c] = p.Shape.Blank(p.RMS())
	}
	return t.join(coordinates)
}

// join makes a start of those of the targets, whose noise is independent at first.
func (t *VectorTask) join(coordinates []*model.Params) *model.VectorParams {
	noise := make([]model.VectorNoise, len(coordinates[0].Sigma))
	for i := range noise {
		noise[i] = model.NewVectorNoise(len(coordinates), t.Full)
		for c, q := range coordinates {
			noise[i].Scale[c] = q.SigmaOf(i)
		}
	}
	return model.JoinCoordinates(coordinates, noise)
}

// Vector looks for the highest joint likelihood: starts are screened on part of the rows
// with a ridge on the gate until several agree on the best, as [Run] does, and the best
// refined on all rows, where the ridge comes off. The candidates come back best first.
func Vector(ctx context.Context, t *VectorTask) (best *Candidate, all []*Candidate, err error) {
	part, err := screeningPart(ctx, t.Rows, t.Parameters())
	if err != nil {
		return nil, nil, err
	}
	first, cycle, err := t.starts(ctx, part)
	if err != nil {
		return nil, nil, err
	}
	n, _ := part.Dims()
	k := t.one().Shape.K
	for len(all) < t.Starts {
		if t.Screening != nil {
			t.Screening(len(all), t.Starts)
		}
		var wave []*Candidate
		var draws []VectorStart
		for i := len(all); i < min(len(all)+waveSize, t.Starts); i++ {
			s := cycle[i%len(cycle)]
			if i < len(first) {
				s = first[i]
			}
			wave, draws = append(wave, &Candidate{Kind: s.Kind}), append(draws, s)
		}
		err := Each(ctx, t.one(), wave, len(all), func(ctx context.Context, c *Candidate, rng *rand.Rand) (err error) {
			if c.Vector, err = draws[slices.Index(wave, c)].Draw(ctx, rng); err != nil {
				return err
			}
			return t.climb(ctx, c, t.likelihood(part, c.Vector, 1), n, screenRidge)
		})
		if err != nil {
			return nil, nil, err
		}
		all = append(all, wave...)
		if Agree(all, k, SameOptimum(n)) && len(all) >= len(first) {
			break
		}
	}
	if all[0].Failed() {
		return nil, nil, NoneFinite(t.one().Schema)
	}
	if best, err = t.refine(ctx, all, n); err != nil {
		return nil, nil, err
	}
	return best, all, t.measure(ctx, all)
}

// measure sets the value on all rows of the candidates whose run was on others, or with a
// ridge.
func (t *VectorTask) measure(ctx context.Context, all []*Candidate) error {
	for _, c := range all {
		if c.Failed() || c.Rows == t.one().N() && c.Ridge == 0 {
			continue
		}
		l := t.likelihood(t.Rows, c.Vector, t.one().Threads)
		loglik, err := l.LogLikelihood(ctx, c.Vector)
		if err != nil {
			return err
		}
		whole := -loglik / l.Rows()
		c.Whole = &whole
	}
	return nil
}

// starts returns those that are made once and those that are made in turn.
func (t *VectorTask) starts(ctx context.Context, part model.Rows) (first, cycle []VectorStart, err error) {
	if own := t.Own; own != nil {
		first = append(first, t.together(KindOwn, func(c int) Start { return Own(t.Problems[c], own.Coordinate(c)) }))
	}
	data, err := model.InMemory(ctx, part)
	if err != nil {
		return nil, nil, err
	}
	targets := columnsOf(data, len(t.Problems))
	all, features := &table{data, standardised(data)}, &table{targets[0], standardised(targets[0])}
	lines := func(kind string, of *table, label func(*rand.Rand, *table, int) []int) VectorStart {
		return VectorStart{kind, func(_ context.Context, rng *rand.Rand) (*model.VectorParams, error) {
			labels := label(rng, of, t.one().Shape.K)
			coordinates := make([]*model.Params, len(t.Problems))
			for c, p := range t.Problems {
				coordinates[c] = linesOf(p, rng, targets[c], labels)
			}
			return t.join(coordinates), nil
		}}
	}
	random := t.together(KindRandom, func(c int) Start { return Random(t.Problems[c], t.Evidence[c]) })
	return first, []VectorStart{
		random,
		lines(KindKMeans, all, scaledClusters),
		lines(KindRows, all, handfuls),
		random,
		lines(KindPartition, features, cuts),
	}, nil
}

// together is a start of starts of the targets, with the gate of the first.
func (t *VectorTask) together(kind string, of func(c int) Start) VectorStart {
	return VectorStart{kind, func(ctx context.Context, rng *rand.Rand) (*model.VectorParams, error) {
		coordinates := make([]*model.Params, len(t.Problems))
		for c := range coordinates {
			var err error
			if coordinates[c], err = of(c).Draw(ctx, rng); err != nil {
				return nil, err
			}
		}
		return t.join(coordinates), nil
	}}
}

// columnsOf returns the tables of every one of m targets, with the features of data.
func columnsOf(data *model.Data, m int) []*model.Data {
	out := make([]*model.Data, m)
	for c := range out {
		one := *data
		one.Blocks = slices.Clone(data.Blocks)
		for i, b := range data.Blocks {
			one.Blocks[i].Y = b.Y[c*b.N : (c+1)*b.N]
		}
		out[c] = &one
	}
	return out
}

// climb takes a candidate to a local maximum of l, of so many rows, with a ridge on the gate.
func (t *VectorTask) climb(ctx context.Context, c *Candidate, l *loss.Vector, rows int, ridge float64) error {
	l.PenaliseGate(ridge)
	run, err := Climb(ctx, l, l.Theta(c.Vector), nil)
	if err != nil {
		return err
	}
	if c.Run != nil {
		run.Iterations += c.Run.Iterations
		if c.Rows == rows {
			run.Trace = slices.Concat(c.Run.Trace, run.Trace)
		}
	}
	c.Run, c.Vector, c.Rows, c.Ridge = run, l.Params(run.X), rows, ridge
	c.Degenerate, err = l.Degenerate(ctx, c.Vector)
	return err
}

// refine takes the best candidates of the screening to all rows, without the ridge, and
// returns the best of them.
func (t *VectorTask) refine(ctx context.Context, all []*Candidate, screened int) (*Candidate, error) {
	field := contenders(all, screened)
	for i, c := range field {
		if t.Refining != nil {
			t.Refining(i, len(field))
		}
		if err := t.release(ctx, c); err != nil {
			return nil, err
		}
	}
	best := slices.MinFunc(field, compare)
	if err := t.perturb(ctx, best); err != nil {
		return nil, err
	}
	return best, t.finish(ctx, best)
}

// release takes a candidate to a maximum of all rows without the ridge: at once where that
// costs little, else after climbs between which it falls until it costs less than anybody
// could see. A gate that separates has no maximum at a finite place; such a candidate keeps
// the last ridge.
func (t *VectorTask) release(ctx context.Context, c *Candidate) error {
	n := t.one().N()
	l := t.likelihood(t.Rows, c.Vector, t.one().Threads)
	for tau := screenRidge; ; tau /= 10 {
		if err := t.climb(ctx, c, l, n, tau); err != nil {
			return err
		}
		cost := l.GatePenalty(nil, c.Run.X)
		if cost > slack && (tau < screenRidge || cost > heldBack) {
			continue
		}
		free := *c
		if err := t.climb(ctx, &free, l, n, 0); err != nil {
			return err
		}
		hard, err := t.separates(ctx, l, &free)
		if err != nil {
			return err
		}
		if !hard {
			*c = free
		}
		if !hard || cost <= slack {
			return nil
		}
	}
}

// separates says whether the gate of a candidate separates the rows of its experts: whether
// it is steep, and twice as steep costs no more than slack of the log-likelihood. One that
// separates some experts and not others is not seen.
func (t *VectorTask) separates(ctx context.Context, l *loss.Vector, c *Candidate) (bool, error) {
	const steep = 10 // √Σ‖w_i − w̄‖², in units of the fit
	l.PenaliseGate(2)
	squares := l.GatePenalty(nil, c.Run.X)
	l.PenaliseGate(0)
	if squares < steep*steep {
		return false, nil
	}
	twice := c.Vector.Clone()
	floats.Scale(2, twice.Gating)
	floats.Scale(2, twice.GatingIntercepts)
	at, err := l.LogLikelihood(ctx, c.Vector)
	if err != nil {
		return false, err
	}
	then, err := l.LogLikelihood(ctx, twice)
	return then > at-slack, err
}

// perturb looks for the highest of the maxima next to each other, as [Task.perturb] does.
func (t *VectorTask) perturb(ctx context.Context, c *Candidate) error {
	p := t.one()
	n := p.N()
	l := t.likelihood(t.Rows, c.Vector, p.Threads)
	if len(p.Kinks()) == 0 || n > restartRows || c.Ridge > 0 || !l.Dense() {
		return nil
	}
	l.PenaliseGate(0)
	rng := rand.New(rand.NewPCG(p.Seed, restartStream))
	h, grad := mat.NewSymDense(l.Dim(), nil), make([]float64, l.Dim())
	var chol mat.Cholesky
	var lower mat.TriDense
	moved := true // since the Hessian was made
	for failures := 0; failures < restarts; failures++ {
		if moved {
			if _, err := l.Hessian(ctx, h, grad, l.Theta(c.Vector)); err != nil {
				return err
			}
			h.ScaleSym(float64(n), h)
			if !chol.Factorize(h) {
				return nil
			}
			chol.LTo(&lower)
			moved = false
		}
		step := errorStep(&lower, rng)
		if step == nil {
			return nil
		}
		trial := *c
		trial.Vector = l.Params(floats.AddTo(step, step, l.Theta(c.Vector)))
		if err := t.climb(ctx, &trial, l, n, 0); err != nil {
			return err
		}
		if gain := c.Run.Value - trial.Run.Value; gain > 0 {
			*c, moved = trial, true
			if gain > slack/float64(n) {
				failures = -1
			}
		}
	}
	return nil
}

// finish takes the best to its maximum where the likelihood is smooth, as
// [Task.finishSmooth] does.
func (t *VectorTask) finish(ctx context.Context, c *Candidate) error {
	l := t.likelihood(t.Rows, c.Vector, t.one().Threads)
	if len(t.one().Kinks()) > 0 || c.Ridge > 0 || c.Degenerate || c.Failed() || !l.Dense() {
		return nil
	}
	l.PenaliseGate(0)
	run, err := optim.Polish(ctx, l.Exact(nil), l.Theta(c.Vector), optim.Settings{})
	if err != nil || run.Status != optim.Converged || run.Iterations == 0 {
		return err
	}
	run.Iterations += c.Run.Iterations
	run.Trace = slices.Concat(c.Run.Trace, run.Trace[1:])
	c.Run, c.Vector = run, l.Params(run.X)
	return nil
}
