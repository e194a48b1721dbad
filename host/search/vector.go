package search

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/infer/specification"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/starts"
)

// VectorTask is the search for a mixture of several targets under one gate. Every target is
// a problem of its own, of the same features, shape and rows.
type VectorTask struct {
	Problems []*problem.Problem
	Evidence []*moment.Evidence // of every target
	Rows     model.Rows         // with all targets, see model.Beside
	Full     bool               // whether the normal noise of a row's targets may be correlated
	Family   string             // of another density than the normal one its name, see [model.VectorParams]
	Starts   int                // at most
	Own      *model.VectorParams
	Survey   SurveyingSeveral // of a small table, before the screening; nil for none
	Steps    Steps            // made of the best on all rows
	Resume   State            // where an earlier search stood, of whose candidates Run is enough; zero for a new one
	Untested bool             // see [Settings.Untested]
	Follow
}

// Begin has the search begin from the starts of all targets too, which have one gate; none is for nobody.
func (t *VectorTask) Begin(from []*model.Params) error {
	if len(from) == 0 {
		return nil
	}
	first, shape := from[0], t.one().Shape
	if len(from) < len(t.Problems) {
		return problem.Refuse("%d of %d targets have a start", len(from), len(t.Problems))
	}
	for _, p := range from {
		if p.K != shape.K || p.D != shape.D {
			return problem.Refuse("the start has k = %d and d = %d, the fit k = %d and d = %d", p.K, p.D, shape.K,
				shape.D)
		}
		if !slices.Equal(p.Gating, first.Gating) || !slices.Equal(p.GatingIntercepts, first.GatingIntercepts) {
			return problem.Refuse("the targets of the start have gates of their own")
		}
		if len(p.Sigma) != len(first.Sigma) || (p.RegressorIntercepts == nil) != (first.RegressorIntercepts == nil) {
			return problem.Refuse("the targets of the start have another shape each")
		}
	}
	t.Own = model.JoinCoordinates(from, nil)
	return nil
}

// one is what the targets share.
func (t *VectorTask) one() *problem.Problem { return t.Problems[0] }

// Targets are their names.
func (t *VectorTask) Targets() (names []string) {
	for _, p := range t.Problems {
		names = append(names, p.Schema.Target)
	}
	return names
}

// Parameters counts the parameters of the mixture.
func (t *VectorTask) Parameters() int { return loss.VectorDim(t.blank(), t.one().Shape.Free()) }

// likelihood is that of rows, with the ridge of the screening.
func (t *VectorTask) likelihood(rows model.Rows, p *model.VectorParams, workers int) *loss.Vector {
	l := loss.NewVector(rows, t.one().G, p, t.one().Shape.Free(), workers)
	l.PenaliseGate(starts.ScreenRidge)
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
	return t.Join(coordinates)
}

// Join makes a start of those of the targets, whose noise is independent at first.
func (t *VectorTask) Join(coordinates []*model.Params) *model.VectorParams {
	p := model.JoinCoordinates(coordinates, nil)
	p.Family = t.Family
	for i := range p.Noise {
		joint.Begin(&p.Noise[i], t.Family, t.Full)
	}
	return p
}

// Vector looks for the highest joint likelihood as [Run] does, until the certificate of
// what was found asks for no more starts.
func Vector(ctx context.Context, t *VectorTask) (*Found, error) {
	part, err := held(ctx, screeningPart(t.Rows, t.Parameters()))
	if err != nil {
		return nil, err
	}
	first, cycle, err := t.starts(ctx, part)
	if err != nil {
		return nil, err
	}
	from := t.Resume
	from.Candidates = copied(from.Candidates)
	for _, c := range from.Candidates {
		c.Vector = t.likelihood(part, t.blank(), 1).Params(c.Run.X)
	}
	out, none := &Found{untested: t.Untested}, ""
	task := t.task(part, first, cycle)
	if t.Survey != nil {
		if out.Survey, err = t.Survey(ctx, t); err != nil {
			return nil, err
		}
		task.Others = out.Survey.optima()
	}
	out.Best, out.All, err = Run(ctx, task, from,
		func(ctx context.Context, best *Candidate, all []*Candidate) (int, error) {
			var err error
			out.Certificate, none, err = t.certify(ctx, best, all, out.Survey)
			return wanted(out.Certificate), err
		})
	if err != nil {
		return nil, err
	}
	if err := t.keep(ctx, out, &none); err != nil {
		return nil, err
	}
	if none != "" {
		out.Notes = append(out.Notes, none)
	}
	out.All = joined(out.All, task.Others, out.Best, SameOptimum(t.one().Count()))
	out.Survey = out.Survey.of(out.Best, t.one().Count())
	return out, t.measure(ctx, append([]*Candidate{out.Best}, out.All...))
}

// keep climbs from the user's start as it is, but for correlations of the noise, as [Found.keep] does. It says why
// there is no certificate of what it comes to.
func (t *VectorTask) keep(ctx context.Context, f *Found, none *string) (err error) {
	if t.Own == nil {
		return nil
	}
	coordinates := make([]*model.Params, len(t.Problems))
	for c, p := range t.Problems {
		coordinates[c] = p.Shape.Adopt(p.Units.Into(t.Own.Coordinate(c)))
	}
	n := t.one().N()
	c := &Candidate{Kind: starts.KindOwn, Vector: t.Join(coordinates), Run: new(optim.Result), Rows: n}
	l := t.likelihood(t.Rows, c.Vector, t.one().Threads)
	if err := c.maximise(ctx, ofSeveral{l}, n); err != nil {
		return err
	}
	if c.Run.Status != optim.Converged || !c.Beats(f.Best, t.one().Count()) {
		return nil
	}
	f.turnTo(c, "the start that was given", t.one())
	c.Agrees = true
	f.All = append(f.All, c)
	f.Certificate, *none, err = t.certify(ctx, c, f.All, f.Survey)
	return err
}

// Task is the search where no start is made.
func (t *VectorTask) Task() *Task { return t.task(t.Rows, nil, nil) }

// task is the search as that for one target, the first, with all in the rows.
func (t *VectorTask) task(part model.Rows, first, cycle []starts.Start) *Task {
	return &Task{Problem: t.one(), Part: part, First: first, Cycle: cycle, Starts: t.Starts,
		Steps: t.Steps, Follow: t.Follow, several: t}
}

// certify judges the optimum best, one of all, as [Certify] does.
func (t *VectorTask) certify(ctx context.Context, best *Candidate, all []*Candidate,
	seen *Survey) (c *infer.Certificate, note string, err error) {
	p := t.one()
	evidence := evidenceOf(p, best, all, Seen{Survey: seen, Untested: t.Untested})
	if t.Untested {
		return infer.Judge(nil, evidence), "", nil
	}
	for j, q := range t.Problems {
		size, err := q.Spread()
		if err != nil {
			return nil, "", err
		}
		if of := best.Vector.Coordinate(j); infer.Exact(of, size) {
			return exact(ctx, q, of, evidence)
		}
	}
	_, order, err := ByProportion(ctx, p, p.Rows, best.Vector.Coordinate(0))
	if err != nil {
		return nil, "", err
	}
	q := best.Vector.Each(func(q *model.Params) *model.Params { return q.Relabel(order) }, order)
	tested, err := specification.VectorTests(ctx, t.given(), p.G, q, p.Shape.Free(), p.Seed, p.Threads)
	if c, note, err = judged(p, tested, err, evidence); c == nil {
		return nil, note, err
	}
	if p.Weights.Light() {
		c.Withdraw(p.Weights.Rows, p.Weights.Total)
		return c, "", nil
	}
	if why := best.unproven(); why != "" && c.Optimum == infer.Pass {
		c.Optimum, c.Reason = infer.NotJudged, why
	}
	columns, _ := p.Shape.Free().Columns(q.Coordinate(0))
	for j := range t.Problems {
		c.RestsOn(q.Coordinate(j), tested.Mass, len(columns))
	}
	return c, "", nil
}

// given is the rows with their weights as they were given.
func (t *VectorTask) given() model.Rows {
	if !t.one().Weights.Given {
		return t.Rows
	}
	tables := make([]model.Rows, len(t.Problems))
	for j, p := range t.Problems {
		tables[j] = p.Given
	}
	return model.Beside(tables)
}

// measure sets the value on all rows of the candidates whose run was on others, or with a
// ridge.
func (t *VectorTask) measure(ctx context.Context, all []*Candidate) error {
	for _, c := range all {
		if c.Failed() || c.Whole != nil || c.Rows == t.one().N() && c.Ridge == 0 {
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
func (t *VectorTask) starts(ctx context.Context, part model.Rows) (first, cycle []starts.Start, err error) {
	if own := t.Own; own != nil {
		first = append(first, t.together(starts.KindOwn, func(c int) starts.Start {
			return starts.Own(t.Problems[c], own.Coordinate(c))
		}))
	}
	data, err := model.InMemory(ctx, part, 1)
	if err != nil {
		return nil, nil, err
	}
	targets := partition.Targets(data, len(t.Problems))
	all, features := partition.Of(data), partition.Of(targets[0])
	lines := func(kind string, of *partition.Table, label func(*partition.Table, *rand.Rand, int) []int) starts.Start {
		return t.Lines(kind, targets, func(rng *rand.Rand) []int { return label(of, rng, t.one().Shape.K) })
	}
	random := t.Random()
	return first, []starts.Start{
		random,
		lines(starts.KindKMeans, all, (*partition.Table).ScaledClusters),
		lines(starts.KindRows, all, (*partition.Table).Handfuls),
		random,
		lines(starts.KindPartition, features, (*partition.Table).Cuts),
	}, nil
}

// Lines are least squares lines of the rows with a label, in the tables of every target.
func (t *VectorTask) Lines(kind string, targets []*model.Data, label func(rng *rand.Rand) []int) starts.Start {
	return starts.Start{Kind: kind, Vector: func(_ context.Context, rng *rand.Rand) (*model.VectorParams, error) {
		labels := label(rng)
		coordinates := make([]*model.Params, len(t.Problems))
		for c, p := range t.Problems {
			coordinates[c] = partition.Lines(p, rng, targets[c], labels)
		}
		return t.Join(coordinates), nil
	}}
}

// Random is a random start of every target.
func (t *VectorTask) Random() starts.Start {
	return t.together(starts.KindRandom, func(c int) starts.Start {
		return starts.Random(t.Problems[c], t.Evidence[c])
	})
}

// together is a start of starts of the targets, with the gate of the first.
func (t *VectorTask) together(kind string, of func(c int) starts.Start) starts.Start {
	return starts.Start{Kind: kind, Vector: func(ctx context.Context, rng *rand.Rand) (*model.VectorParams, error) {
		coordinates := make([]*model.Params, len(t.Problems))
		for c := range coordinates {
			var err error
			if coordinates[c], err = of(c).Draw(ctx, rng); err != nil {
				return nil, err
			}
		}
		return t.Join(coordinates), nil
	}}
}
