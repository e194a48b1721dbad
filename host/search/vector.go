package search

import (
	"context"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/stream"
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
	Resume   State // where an earlier search stood, of whose candidates Run is enough; zero for a new one
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

// VectorFound is what a search for a mixture of several targets came to.
type VectorFound struct {
	Best        *Candidate
	All         []*Candidate       // best of the screening first
	Certificate *infer.Certificate // nil where there is none
	Note        string             // why there is none
}

// Vector looks for the highest joint likelihood: starts are screened on part of the rows
// with a ridge on the gate until several agree on the best, as [Run] does, and the best
// refined on all rows, where the ridge comes off, until the certificate of what was found
// asks for no more starts.
func Vector(ctx context.Context, t *VectorTask) (*VectorFound, error) {
	part, err := screeningPart(ctx, t.Rows, t.Parameters())
	if err != nil {
		return nil, err
	}
	first, cycle, err := t.starts(ctx, part)
	if err != nil {
		return nil, err
	}
	n, _ := part.Dims()
	out := &VectorFound{All: copied(t.Resume.Candidates)}
	for _, c := range out.All {
		c.Vector = t.likelihood(part, t.blank(), 1).Params(c.Run.X)
	}
	least, screened := max(len(first), t.Resume.Least), t.Resume.Done
	for ; ; least, screened = max(wanted(out.Certificate), len(out.All)+1), false {
		if !screened {
			if out.All, err = t.screen(ctx, part, out.All, least, first, cycle); err != nil {
				return nil, err
			}
		}
		refined, err := t.refine(ctx, out.All, n)
		if err != nil {
			return nil, err
		}
		out.Best = slices.MinFunc(refined.all, compare)
		if out.Certificate, out.Note, err = t.certify(ctx, out.Best, out.All); err != nil {
			return nil, err
		}
		if wanted(out.Certificate) == 0 || len(out.All) >= t.Starts {
			out.All = refined.in(out.All)
			return out, t.measure(ctx, out.All)
		}
	}
}

// screen adds starts to those that there are until enough agree and at least so many were
// made, or all.
func (t *VectorTask) screen(ctx context.Context, part model.Rows, all []*Candidate, least int, first,
	cycle []VectorStart) ([]*Candidate, error) {
	n, _ := part.Dims()
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
		err := Draw(ctx, t.one(), wave, stream.Start, len(all),
			func(ctx context.Context, c *Candidate, rng *rand.Rand) (err error) {
				if c.Vector, err = draws[slices.Index(wave, c)].Draw(ctx, rng); err != nil {
					return err
				}
				return t.climb(ctx, c, t.likelihood(part, c.Vector, 1), n, screenRidge)
			})
		if err != nil {
			return nil, err
		}
		all = append(all, wave...)
		if Agree(all, t.one().Shape.K, SameOptimum(n)) && len(all) >= least {
			break
		}
		t.checkpoint(all, least, false)
	}
	if all[0].Failed() {
		return nil, NoneFinite(t.one())
	}
	t.checkpoint(all, least, true)
	return all, nil
}

func (t *VectorTask) checkpoint(all []*Candidate, least int, done bool) {
	if t.Checkpoint != nil {
		t.Checkpoint(State{Least: least, Done: done, Candidates: copied(all)})
	}
}

// certify judges the optimum best, one of all, as [Certify] does.
func (t *VectorTask) certify(ctx context.Context, best *Candidate,
	all []*Candidate) (c *infer.Certificate, note string, err error) {
	p := t.one()
	evidence := evidenceOf(p, best, all, Seen{})
	for j, q := range t.Problems {
		if of := best.Vector.Coordinate(j); infer.Exact(of, q.RMS()) {
			return exact(ctx, q, of, evidence)
		}
	}
	_, order, err := ByProportion(ctx, p, p.Rows, best.Vector.Coordinate(0))
	if err != nil {
		return nil, "", err
	}
	q := best.Vector.Each(func(q *model.Params) *model.Params { return q.Relabel(order) }, order)
	tested, err := infer.VectorTests(ctx, t.Rows, p.G, q, p.Shape.Free(), p.Seed, p.Threads)
	if c, note, err = judged(tested, err, evidence); c == nil {
		return nil, note, err
	}
	if c.Optimum != infer.Pass || q.K == 1 {
		return c, "", nil
	}
	mass, err := t.Likelihood(t.Rows, q).Mass(ctx, q)
	if err != nil {
		return nil, "", err
	}
	columns, _ := p.Shape.Free().Columns(q.Coordinate(0))
	for j := range t.Problems {
		if weak := infer.RestsOnLittle(q.Coordinate(j), mass, len(columns)); weak != "" {
			c.Optimum, c.Reason = infer.Suspect, weak
			break
		}
	}
	return c, "", nil
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
	data, err := model.InMemory(ctx, part, 1)
	if err != nil {
		return nil, nil, err
	}
	targets := columnsOf(data, len(t.Problems))
	all, features := &table{data, data, standardised(data)}, &table{targets[0], targets[0], standardised(targets[0])}
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
		one := &model.Data{N: data.N, D: data.D, Blocks: slices.Clone(data.Blocks)}
		for i, b := range data.Blocks {
			one.Blocks[i].Y = b.Y[c*b.N : (c+1)*b.N]
		}
		out[c] = one
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

// refined are candidates of the screening, and what they became on all rows.
type refined struct{ from, all []*Candidate }

// in returns the candidates with those that were refined in their places.
func (r refined) in(all []*Candidate) (out []*Candidate) {
	for _, c := range all {
		if i := slices.Index(r.from, c); i >= 0 {
			c = r.all[i]
		}
		out = append(out, c)
	}
	return out
}

// refine takes the best candidates of the screening to all rows, without the ridge, and the
// best of them to the top. Those of the screening stay as they are.
func (t *VectorTask) refine(ctx context.Context, all []*Candidate, screened int) (refined, error) {
	r := refined{from: contenders(all, screened)}
	for i, c := range r.from {
		if t.Refining != nil {
			t.Refining(i, len(r.from))
		}
		own := *c
		r.all = append(r.all, &own)
		if err := t.release(ctx, &own); err != nil {
			return r, err
		}
	}
	best := slices.MinFunc(r.all, compare)
	if err := t.perturb(ctx, best); err != nil {
		return r, err
	}
	return r, t.finish(ctx, best)
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
		cost := l.Penalty(nil, c.Run.X)
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
	squares := l.Penalty(nil, c.Run.X)
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
	if !Kinked(p) || c.Ridge > 0 || !l.Dense() {
		return nil
	}
	l.PenaliseGate(0)
	rng := stream.New(p.Seed, stream.Perturbation, int(atRefinement))
	h, grad := mat.NewSymDense(l.Dim(), nil), make([]float64, l.Dim())
	var chol mat.Cholesky
	var lower mat.TriDense
	moved := true // since the Hessian was made
	for try := (attempts{most: restarts}); try.more(); {
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
		if Superior(trial.Run.Value, c.Run.Value, float64(n)) {
			try.gained()
		}
		if trial.Run.Value < c.Run.Value {
			*c, moved = trial, true
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
