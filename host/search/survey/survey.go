// Package survey looks at many optima of a small table: by short runs on all rows from starts of several kinds, by
// moves from the best of them, and by soft starts where a gate becomes hard.
package survey

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	// surveyWork is what the survey of a table may cost: iterations of EM times rows
	// times parameters, and iterationWork for each iteration. It is about half a second
	// of one core.
	surveyWork    = 240e6
	iterationWork = 2048
	// surveyWave runs are made before anyone looks at the result: a constant, so that
	// the survey is the same at any number of threads.
	surveyWave = 8
	// leastStarts are the least budget of a search that has a survey.
	leastStarts = 4
	// leastSurveyed starts are made at least.
	leastSurveyed = 16
	// groupsSurveyed starts are enough of few rows in groups, where all of them count for one expert together and rows
	// near a plane by chance seldom do. An optimum that none has met has a share below 1 % then, at 95 %.
	groupsSurveyed = 300
	// startsShare is the share of the work that starts may take; the rest is for moves, if there are any.
	startsShare = 0.5
	// largestTree is rows times parameters up to which a tree has a survey: of larger tables its work would buy fewer
	// than 250 starts, and an optimum that matters is met by one in hundreds.
	largestTree = 20_000
	// leastOften starts of a tree are made at least before an optimum that a large share has met ends them.
	leastOften = 128
	// movesPerExpert moves without a gain end the survey, for every expert; a wave of
	// them where all starts that were not given up have met the same optimum.
	movesPerExpert = 30
	// mostElites optima of the survey are refined at most, and as many that are elitesApart in
	// log-likelihood: runs that end that near to each other may become hard in different ways.
	mostElites, elitesApart = 4, 0.1
	// within so many units of log-likelihood of the best no run is given up.
	within = 3
	// surveyed is the gain of an EM step, per row, with which a run of the survey ends.
	surveyed = 1e-5
)

// scope is which tables a survey is made of, and how much of it.
type scope struct {
	// largest is rows times parameters up to which there is one.
	largest int
	// fewRows a parameter are so few that there are optima of small basins, and all the work is
	// done, whatever the starts agree on: by chance some rows lie near a plane of their own, or
	// on the other side of a kink.
	fewRows int
	// iterations are what it may cost at least.
	iterations float64
}

// surveys are the scope of a survey, where g is smooth and where it has kinks: which rows are on which side
// of them makes for optima in larger tables as well.
var surveys = struct{ smooth, kinked scope }{
	smooth: scope{largest: 150_000, fewRows: 20},
	kinked: scope{largest: 200_000, fewRows: 60, iterations: 5000},
}

func scopeOf(p *problem.Problem) scope {
	if len(p.Kinks()) > 0 {
		return surveys.kinked
	}
	return surveys.smooth
}

// surveyor makes a survey.
type surveyor struct {
	problem *problem.Problem
	several *several // targets, of which the problem is the first; nil where there is one
	scope   scope
	rows    *partition.Table // of the problem
	kinds   []starts.Start
	most    float64             // work
	work    float64             // done
	runs    int                 // made
	pool    []*search.Candidate // where runs ended, best first; given up ones apart
	sharp   bool                // runs that may yet be the best go on by Newton's method
	*likelihoods
	search.Survey
}

// Small looks at many optima of a small table and refines the best of them; nil where
// the table is not small, or the work would buy no survey. starts is the budget of the
// search, to which the work is proportional. Moves and soft starts are those of one gate: a tree has starts alone, and
// all the work is theirs.
func Small(ctx context.Context, p *problem.Problem, e *moment.Evidence, starts int) (*search.Survey, error) {
	if !Surveyable(p) || starts < leastStarts {
		return nil, nil
	}
	return (&surveyor{problem: p, scope: scopeOf(p), most: surveyBudget(p, starts)}).make(ctx, e)
}

const (
	// lateSteps of EM on all rows are what a late survey may cost, but lateWork at most, and mostLate is rows times
	// parameters up to which there is one.
	lateSteps, lateWork, mostLate = 2000, 6e9, 10_000_000
)

// Late is a survey of a table that is too large for one, made where agreement of a few starts is no evidence.
// What runs end at is counted when they have converged: of so many rows a step of EM that gains little a row gains
// much.
func Late(ctx context.Context, p *problem.Problem, e *moment.Evidence, starts int) (*search.Survey, error) {
	if p.Shape.K == 1 || !p.OneGate() || p.Size() > mostLate || starts < leastStarts {
		return nil, nil
	}
	work := budget(min(lateSteps*float64(p.Size()), lateWork), starts)
	return (&surveyor{problem: p, scope: scopeOf(p), most: work, sharp: true}).make(ctx, e)
}

// make makes the survey; nil where its likelihood has no Hessian that is worth its cost.
func (s *surveyor) make(ctx context.Context, e *moment.Evidence) (_ *search.Survey, err error) {
	p := s.problem
	if s.rows, err = partition.New(ctx, p, p.Rows); err != nil {
		return nil, err
	}
	if !s.likelihood().Dense() {
		return nil, nil
	}
	s.likelihoods = &likelihoods{new: s.likelihood, reuse: true}
	if s.several != nil {
		s.kinds = s.several.starts()
	} else {
		s.kinds = surveyStarts(p, e, s.rows)
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	if !p.OneGate() {
		s.Best = apart(s.pool, p.Count())
	} else {
		if err := s.move(ctx); err != nil {
			return nil, err
		}
		s.Best = elites(s.pool, p.Count())
		if err := s.addSoftStarts(ctx); err != nil {
			return nil, err
		}
	}
	s.Count(s.pool, s.problem.Count())
	s.Pool, s.Few = slices.Clone(s.pool), s.few()
	for i, c := range s.pool { // those that are refined change
		if slices.Contains(s.Best, c) {
			ended := *c
			s.Pool[i] = &ended
		}
	}
	return &s.Survey, s.refine(ctx)
}

// Surveyable says whether the table of a problem is small.
func Surveyable(p *problem.Problem) bool {
	most := scopeOf(p).largest
	if !p.OneGate() {
		most = largestTree
	}
	return p.Shape.K > 1 && p.Size() <= most
}

// surveyBudget is the work of a survey.
func surveyBudget(p *problem.Problem, starts int) float64 {
	return workOf(scopeOf(p), p.Size(), starts)
}

// workOf is the work of a survey of so many rows times parameters.
func workOf(s scope, size, starts int) float64 {
	return budget(max(surveyWork, s.iterations*float64(size+iterationWork)), starts)
}

// budget is the share of some work that so many starts are worth.
func budget(work float64, starts int) float64 { return work * float64(starts) / search.DefaultStarts }

// likelihood is that of all rows.
func (s *surveyor) likelihood() search.Surface {
	rows := s.rows.Data
	if s.several != nil {
		rows = s.several.all.Data
	}
	return s.task().Surface(rows)
}

// task is a search on all rows.
func (s *surveyor) task() *search.Task {
	if s.several != nil {
		return s.several.Task()
	}
	return &search.Task{Problem: s.problem, Part: s.problem.Rows}
}

// likelihoods are those of runs on all rows, whose room is worth keeping.
type likelihoods struct {
	new   func() search.Surface
	reuse bool // the gate's curvature from step to step
	idle  sync.Pool
}

// take returns one that remembers nothing of another run.
func (s *likelihoods) take() search.Surface {
	l, ok := s.idle.Get().(search.Surface)
	if !ok {
		l = s.new()
	}
	l.PenaliseGate(0) // which forgets the curvature
	if s.reuse {
		l.ReuseCurvature()
	}
	return l
}

// put gives one back.
func (s *likelihoods) put(l search.Surface) { s.idle.Put(l) }

// few says whether the rows are few for the parameters.
func (s *surveyor) few() bool {
	values, parameters := s.several.sizes(s.problem)
	return s.problem.CountOf(values) < float64(s.scope.fewRows*parameters)
}

// start makes starts of the kinds in turn until they find nothing new, or the work is
// done.
func (s *surveyor) start(ctx context.Context) error {
	most := startsShare * s.most
	if !s.problem.OneGate() {
		most = s.most
	}
	for s.work < most && !s.enough() {
		starts := make([]starts.Start, surveyWave)
		for i := range starts {
			starts[i] = s.kinds[(s.runs+i)%len(s.kinds)]
		}
		wave, err := s.run(ctx, starts)
		if err != nil {
			return err
		}
		for _, c := range wave {
			if !c.Failed() && !c.Degenerate {
				s.Starts++
				if !slices.Contains(s.Kinds, c.Kind) {
					s.Kinds = append(s.Kinds, c.Kind)
				}
			}
		}
		s.Count(s.pool, s.problem.Count())
	}
	return nil
}

// enough says whether the starts have seen what there is to see. Those of a tree end at few optima, each met often:
// that little is unseen says nothing of one that a start in hundreds meets, and all the work is done unless a large
// share has met the best and there are few others.
func (s *surveyor) enough() bool {
	if !s.problem.OneGate() {
		return s.Settled(leastOften)
	}
	least := leastSurveyed
	if s.few() {
		if least = groupsSurveyed; !s.problem.Grouped() {
			return false
		}
	}
	return s.Conclusive(least)
}

// patience is how many moves without a gain end the survey.
func (s *surveyor) patience() int {
	if s.Optima == 1 && s.Met > 1 && !s.few() {
		return surveyWave
	}
	return movesPerExpert * s.problem.Shape.K
}

// move makes moves from the best that was found until they gain nothing, or the work is
// done.
func (s *surveyor) move(ctx context.Context) error {
	for idle, most := 0, s.patience(); s.work < s.most && len(s.pool) > 0 && idle < most; {
		moves, best := make([]starts.Start, surveyWave), s.pool[0].Run.Value
		from := search.Distinct(s.pool, mostElites, search.SameOptimum(s.problem.Count()))
		for i := range moves {
			moves[i] = s.fromOneOf(from)
		}
		wave, err := s.run(ctx, moves)
		if err != nil {
			return err
		}
		s.Moves += len(wave)
		idle += len(wave)
		if climb.Superior(s.pool[0].Run.Value, best, s.problem.Count()) {
			idle = 0
		}
	}
	return nil
}

// run runs a wave of starts, and puts those that were not given up to the pool.
func (s *surveyor) run(ctx context.Context, from []starts.Start) ([]*search.Candidate, error) {
	best := math.Inf(1)
	if len(s.pool) > 0 {
		best = s.pool[0].Run.Value
	}
	wave, err := begun(ctx, s.problem, from, stream.Survey, s.runs,
		func(ctx context.Context, c *search.Candidate, from starts.Start, rng *rand.Rand) error {
			return s.begin(ctx, c, from, rng, best)
		})
	if err != nil {
		return nil, err
	}
	best = search.BestOf(wave, best)
	err = search.Each(ctx, s.problem, wave, func(ctx context.Context, c *search.Candidate) error {
		return s.complete(ctx, c, best)
	})
	if err != nil {
		return nil, err
	}
	s.runs += len(wave)
	for _, c := range wave {
		s.work += s.several.cost(s.problem, c)
		if !c.Failed() && !c.Degenerate && c.Run.Status != optim.Stopped {
			s.pool = append(s.pool, c)
		}
	}
	slices.SortStableFunc(s.pool, search.Compare)
	return wave, nil
}

// begun makes a candidate of every start, and has it begin with random numbers of its own: those of a use's streams
// from the given index on.
func begun(ctx context.Context, p *problem.Problem, all []starts.Start, use stream.Use, first int,
	begin func(ctx context.Context, c *search.Candidate, from starts.Start, rng *rand.Rand) error,
) ([]*search.Candidate, error) {
	wave := make([]*search.Candidate, len(all))
	for i, from := range all {
		wave[i] = &search.Candidate{Kind: from.Kind}
	}
	return wave, model.Parallel(ctx, p.Threads, len(wave), func(ctx context.Context, i int) error {
		return begin(ctx, wave[i], all[i], stream.New(p.Seed, use, first+i))
	})
}

// CostOf is the work that a run of EM on all rows was.
func CostOf(p *problem.Problem, c *search.Candidate) float64 {
	size := price(p) * float64(p.Size())
	if !p.OneGate() {
		size *= treePrice
	}
	return float64(c.Run.Iterations) * (size + iterationWork)
}

// treePrice is how many times the work of one gate an iteration under a tree of gates is, about.
const treePrice = 1.5

// price is how many times the work of normal noise an iteration is under the density, about: it has logarithms of every
// row, and those of own parameters beside the mean special functions.
func price(p *problem.Problem) float64 {
	switch {
	case p.Link == nil:
		return 1
	case len(p.Shape.Density().Own()) == 0:
		return 2
	}
	return 4
}

// begin runs a candidate by EM until it crawls.
func (s *surveyor) begin(ctx context.Context, c *search.Candidate, from starts.Start, rng *rand.Rand,
	best float64) error {
	if err := c.Place(ctx, from, rng); err != nil {
		return err
	}
	switch q, v := c.Params, c.Vector; {
	case c.Kind == starts.KindMove:
	case s.several != nil:
		var scales [][]float64
		for _, n := range v.Noise {
			scales = append(scales, n.Scale)
		}
		vary(rng, v.K, v.Regressors, scales...)
	case mixture.DensityOf(q.Family).Domain().Scale:
		vary(rng, q.K, q.Regressors, q.Sigma)
	default:
		vary(rng, q.K, q.Regressors)
	}
	return s.climb(ctx, c, climb.Crawl, best)
}

// coldStart is the part of its noise with which every second start begins.
const coldStart = 0.3

// vary lets every second start begin with little noise, and every third with experts of
// unlike sizes: some optima are reached in no other way. The regressors are those of k experts, one after the other,
// with those of all targets.
func vary(rng *rand.Rand, k int, regressors []float64, scales ...[]float64) {
	if rng.IntN(2) == 0 {
		for _, of := range scales {
			floats.Scale(coldStart, of)
		}
	}
	if rng.IntN(3) == 0 {
		each := len(regressors) / k
		for i := range k {
			floats.Scale(math.Exp(rng.NormFloat64()), regressors[i*each:(i+1)*each])
		}
	}
}

// complete runs a candidate on, unless it cannot catch up with the best.
func (s *surveyor) complete(ctx context.Context, c *search.Candidate, best float64) error {
	if c.Failed() || c.Run.Status != optim.Converged {
		return nil
	}
	if c.Run.Value-best > max(100*climb.Crawl, within/s.problem.Count()) {
		c.Run.Status = optim.Stopped
		return nil
	}
	if err := s.climb(ctx, c, surveyed, best); err != nil || !s.sharp || c.Failed() ||
		c.Run.Status == optim.Stopped {
		return err
	}
	l := s.take()
	defer s.put(l)
	run, err := climb.Sharpen(ctx, l, c.Run, climb.TooFarBehind(best+within/s.problem.Count()))
	if err != nil {
		return err
	}
	return c.Take(ctx, l, run)
}

// climb runs EM until a step gains less than this per row.
func (s *surveyor) climb(ctx context.Context, c *search.Candidate, gain, best float64) error {
	l := s.take()
	defer s.put(l)
	stop := climb.TooFarBehind(best + within/s.problem.Count())
	run, err := optim.EM(ctx, l, l.Where(c), optim.Settings{Iterations: 300, Tolerance: gain, Stop: stop})
	if err != nil {
		return err
	}
	if c.Run != nil {
		run.Iterations += c.Run.Iterations
		run.Trace = slices.Concat(c.Run.Trace, run.Trace[1:])
	}
	c.Rows = s.problem.N()
	return c.Take(ctx, l, run)
}

// elites are the distinct optima of a sorted pool, on n rows, that may be the best when they have been
// refined, and the best of those that are nearer to each other.
func elites(pool []*search.Candidate, rows float64) []*search.Candidate {
	out := apart(pool, rows)
	for _, c := range search.Distinct(pool, mostElites, elitesApart/rows) {
		if c.Run.Value <= pool[0].Run.Value+search.ContenderGap && !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// apart are the distinct optima of a sorted pool, on n rows, that may be the best when they have been refined.
func apart(pool []*search.Candidate, rows float64) []*search.Candidate {
	return slices.DeleteFunc(search.Distinct(pool, mostElites, search.SameOptimum(rows)),
		func(c *search.Candidate) bool { return c.Run.Value > pool[0].Run.Value+search.ContenderGap })
}

// refine takes the best optima to maxima of the likelihood, or as near to its supremum
// as matters.
func (s *surveyor) refine(ctx context.Context) error {
	t := s.task()
	err := search.Each(ctx, s.problem, s.Best, func(ctx context.Context, c *search.Candidate) error {
		return t.MaximiseByEM(ctx, c, s.problem.Shape.Free())
	})
	if err != nil || len(s.Best) == 0 {
		return err
	}
	slices.SortStableFunc(s.Best, search.Compare)
	if freed := *s.Best[0]; freed.Groups != nil {
		freed.Groups = nil
		if err := t.RemoveRidge(ctx, &freed, s.problem.Shape.Free()); err != nil {
			return err
		}
		if search.Compare(&freed, s.Best[0]) < 0 {
			s.Best[0] = &freed
		}
	}
	return nil
}
