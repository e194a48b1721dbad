package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/splitmerge"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	// screenRows is the least number of rows on which candidates are screened;
	// more where the model has many parameters.
	screenRows         = 2000
	screenRowsPerParam = 20
	// smallTable is rows times parameters up to which a part saves too little to be
	// noticed.
	smallTable = 400_000
	// waveSize starts run before anyone looks at the result: a constant, so that
	// the search is the same at any number of threads.
	waveSize = 4
	// splitMergeRounds bounds the moves that are made from one start's optimum.
	splitMergeRounds = 20
)

// ScreeningPart returns the rows on which candidates are screened: all of them
// where a part would not save much. They are in memory.
func ScreeningPart(ctx context.Context, p *problem.Problem) (model.Rows, error) {
	return held(ctx, screeningPart(p.Rows, p.Shape.Parameters()))
}

// screeningPart is [ScreeningPart] of rows, for so many parameters, wherever they are.
func screeningPart(rows model.Rows, parameters int) model.Rows {
	n, _ := rows.Dims()
	if most := max(screenRows, screenRowsPerParam*parameters); 2*most <= n && n*parameters > smallTable {
		return model.Part(rows, most)
	}
	return rows
}

// held are rows in memory.
func held(ctx context.Context, rows model.Rows) (model.Rows, error) {
	if model.Held(rows) {
		return rows, nil
	}
	return model.InMemory(ctx, rows, 1)
}

// State is where a search stands between waves of starts.
type State struct {
	Least      int          // starts to make before the screening may end
	Done       bool         // the screening is over: what follows is the refinement
	Candidates []*Candidate // best first
}

// Task is a search: the problem, where its starts come from, and who follows it.
type Task struct {
	Problem *problem.Problem
	Part    model.Rows     // on which candidates are screened, see [ScreeningPart]
	First   []starts.Start // made once each, in this order
	Cycle   []starts.Start // made in turn after that
	Starts  int            // at most so many in all
	// Others are maxima on all rows that were found otherwise and compete for the best.
	Others []*Candidate
	// Soft, if given, are starts that are added to Others where the gate of the best becomes hard
	// and there are none.
	Soft  starts.Start
	Steps Steps // made of the best on all rows
	Follow

	several *VectorTask // nil where there is one target
}

// Follow is who follows a search; the zero value is nobody.
type Follow struct {
	// Screening and Refining, if set, are told how many starts and contenders are
	// done, from one goroutine at a time.
	Screening, Refining func(done, total int)
	// Checkpoint, if set, is given where the search can be taken up again. The
	// candidates are copies.
	Checkpoint func(State)
}

// StoppingRule says how many starts the evidence for best, one of all, asks for:
// 0 where there are enough.
type StoppingRule func(ctx context.Context, best *Candidate, all []*Candidate) (wanted int, err error)

// Run searches from a state, the zero one for a new search. It screens
// candidates until several agree on the best, refines that on all rows and asks
// rule whether to go on, up to the budget of starts. The candidates come back
// as they were refined, best of the screening first.
func Run(ctx context.Context, t *Task, from State, rule StoppingRule) (best *Candidate, all []*Candidate, err error) {
	all = from.Candidates
	for least, screened, wanted := from.Least, from.Done, 0; ; least, screened = max(wanted, len(all)+1), false {
		if !screened {
			if all, err = t.Screen(ctx, all, least); err != nil {
				return nil, nil, err
			}
		}
		if best, err = t.refine(ctx, all); err != nil {
			return nil, nil, err
		}
		if err = t.concur(ctx, all, best); err != nil {
			return nil, nil, err
		}
		if wanted, err = rule(ctx, best, all); err != nil {
			return nil, nil, err
		}
		if wanted == 0 || len(all) >= t.Starts {
			break
		}
	}
	for _, c := range slices.Concat(all, t.Others) {
		if c.refined != nil {
			*c = *c.refined
		}
	}
	return best, all, nil
}

// Screen runs starts on the part, wave by wave, after those of all that have
// run, until at least so many have run and enough of them agree on the best
// optimum, or the budget ends. It returns them best first.
//
// Starts that end above the best optimum of their wave are not thrown away:
// split-merge moves carry them on, and where they then reach the best optimum
// they count as agreeing.
func (t *Task) Screen(ctx context.Context, all []*Candidate, least int) ([]*Candidate, error) {
	tolerance := t.sameOnPart()
	enough := func() bool {
		return (Agree(all, t.Problem.Shape.Classes(), tolerance) || t.ahead(all)) && len(all) >= least
	}
	for len(all) < t.Starts {
		best := math.Inf(1)
		if len(all) > 0 {
			best = all[0].Run.Value
		}
		wave := t.wave(len(all))
		var mu sync.Mutex // of done
		done := len(all)
		t.screening(done)
		err := Draw(ctx, t.Problem, wave, stream.Start, len(all),
			func(ctx context.Context, c *Candidate, rng *rand.Rand) error {
				return t.begin(ctx, c, rng, best)
			})
		if err != nil {
			return nil, err
		}
		best = BestOf(wave, best)
		err = Each(ctx, t.Problem, wave, func(ctx context.Context, c *Candidate) error {
			err := t.complete(ctx, c, best, 1)
			mu.Lock()
			defer mu.Unlock()
			done++
			t.screening(done)
			return err
		})
		if err != nil {
			return nil, err
		}
		first := len(all)
		all = append(all, wave...)
		if enough() {
			break
		}
		// Of many experts those that follow are judged by two that agree.
		if !t.many() || Count(all, func(c *Candidate) bool { return c.Agrees }) < 2 {
			if err := t.move(ctx, all, wave, first, tolerance, enough); err != nil {
				return nil, err
			}
		}
		if enough() {
			break
		}
		t.checkpoint(all, least, false)
	}
	if all[0].Failed() {
		return nil, NoneFinite(t.Problem)
	}
	t.checkpoint(all, least, true)
	return all, nil
}

// move carries on a wave, whose first is the one after so many, by split-merge moves. Where starts are costly that is
// done one after the other, and ended when enough agree; those at the best optimum are the last.
func (t *Task) move(ctx context.Context, all, wave []*Candidate, first int, tolerance float64,
	enough func() bool) error {
	best := all[0].Run.Value
	move := func(workers int) func(context.Context, *Candidate, *rand.Rand) error {
		return func(ctx context.Context, c *Candidate, rng *rand.Rand) error {
			return t.splitMerge(ctx, c, rng, best, tolerance, workers)
		}
	}
	if !t.costly() {
		return Draw(ctx, t.Problem, wave, stream.SplitMerge, first, move(1))
	}
	var order, there []int
	for i, c := range wave {
		if c.Agrees {
			there = append(there, i)
		} else {
			order = append(order, i)
		}
	}
	for _, i := range append(order, there...) {
		best = all[0].Run.Value
		if err := Draw(ctx, t.Problem, wave[i:i+1], stream.SplitMerge, first+i, move(t.Problem.Threads)); err != nil {
			return err
		}
		if enough() {
			break
		}
	}
	return nil
}

// costly says whether starts of the task, of one target, are costly.
func (t *Task) costly() bool { return t.several == nil && starts.Costly(t.Problem) }

// approach is how its starts and moves climb to where EM crawls.
func (t *Task) approach() climb.Way {
	if t.costly() {
		return climb.Leap
	}
	return climb.Approach
}

// many says whether the task is of many experts of one target.
func (t *Task) many() bool { return t.several == nil && starts.Many(t.Problem) }

// behindAll is how many starts of many experts are made after which one that no other came near is enough: as many as
// make a verdict ask whether others agree. Where two that the data have told agree, behindTwo are.
const (
	behindAll = infer.StartsWanted
	behindTwo = waveSize
)

// ahead says whether the best of all, one of the first starts, which the data have told, has left all others of many
// experts so far behind that more of them would say nothing.
func (t *Task) ahead(sorted []*Candidate) bool {
	if !t.many() || sorted[0].Run.Status != optim.Converged {
		return false
	}
	told := 0
	for i, c := range sorted {
		if (i == 0 || c.Agrees) && slices.ContainsFunc(t.First, func(s starts.Start) bool { return s.Kind == c.Kind }) {
			told++
		} else if i == 0 {
			return false
		}
	}
	if len(sorted) < behindTwo || told < 2 && len(sorted) < behindAll {
		return false
	}
	return !slices.ContainsFunc(sorted[1:], func(c *Candidate) bool {
		return !c.Agrees && !c.Degenerate && !c.Failed() && c.Run.Status != optim.Stopped
	})
}

func (t *Task) screening(done int) {
	if t.Screening != nil {
		t.Screening(done, t.Starts)
	}
}

func (t *Task) checkpoint(all []*Candidate, least int, done bool) {
	if t.Checkpoint == nil {
		return
	}
	t.Checkpoint(State{Least: least, Done: done, Candidates: copied(all)})
}

// copied are candidates for a checkpoint: the search goes on to change its own.
func copied(all []*Candidate) []*Candidate {
	kept := make([]*Candidate, len(all))
	for i, c := range all {
		copied := *c
		kept[i] = &copied
	}
	return kept
}

// wave returns the next candidates, of which from have been made.
func (t *Task) wave(from int) (wave []*Candidate) {
	size := waveSize
	switch {
	case t.Problem.Shape.Classes() == 1:
		size = 2
	case t.many() && from < len(t.First):
		size = min(2, len(t.First)-from) // the others are judged by these
	case t.many():
		size -= from % size
	}
	for i := from; i < min(from+size, t.Starts); i++ {
		var s starts.Start
		if i < len(t.First) {
			s = t.First[i]
		} else {
			s = t.Cycle[(i-len(t.First))%len(t.Cycle)]
		}
		wave = append(wave, &Candidate{Kind: s.Kind, start: s})
	}
	return wave
}

// on is the likelihood of rows as a candidate stands on it.
func (t *Task) on(rows model.Rows, c *Candidate, free loss.Free, workers int) Surface {
	if c.Vector != nil {
		return ofSeveral{loss.NewVector(rows, t.Problem.G, c.Vector, free, workers)}
	}
	return ofOne{loss.NewLikelihood(rows, t.Problem.G, c.Params, free, workers)}
}

// Surface is that of rows, which no candidate stands on yet.
func (t *Task) Surface(rows model.Rows) Surface {
	c := new(Candidate)
	if t.several != nil {
		c.Vector = t.several.blank()
	} else {
		c.Params = t.Problem.Shape.Blank(1)
	}
	return t.on(rows, c, t.Problem.Shape.Free(), 1)
}

// onAll is the likelihood of all rows.
func (t *Task) onAll(c *Candidate) Surface {
	return t.on(t.rows(), c, t.Problem.Shape.Free(), t.Problem.Threads)
}

// onPart is the likelihood of the part, with the ridge of the screening.
func (t *Task) onPart(c *Candidate, workers int) Surface {
	l := t.on(t.Part, c, t.Problem.Shape.Free(), workers)
	l.PenaliseGate(starts.ScreenRidge)
	return l
}

// pool has EM steps on l take pooled curvatures where those of every expert would cost too much.
func (t *Task) pool(ctx context.Context, l Surface) error {
	one, ok := l.(ofOne)
	if !ok || !starts.Pooled(t.Problem) {
		return nil
	}
	return one.PoolCurvature(ctx)
}

// rows are all rows, with all targets.
func (t *Task) rows() model.Rows {
	if t.several != nil {
		return t.several.Rows
	}
	return t.Problem.Rows
}

// Size is rows times parameters.
func (t *Task) Size() int {
	if t.several != nil {
		return t.Problem.N() * t.several.Parameters()
	}
	return t.Problem.Size()
}

// asGood is the value from which on a run on the part agrees with the best.
func (t *Task) asGood(best float64) float64 {
	return best + t.sameOnPart()
}

// sameOnPart is [SameOptimum] on the part.
func (t *Task) sameOnPart() float64 {
	n, _ := t.Part.Dims()
	return SameOptimum(t.Problem.CountOf(n))
}

// hopeless returns a test that ends a run which cannot catch up with the best. Where
// the part is all rows there is none, but of starts that are costly or of many experts: nothing that was begun is
// judged by how it went.
func (t *Task) hopeless(best float64) func(iteration int, value float64) bool {
	if n, _ := t.Part.Dims(); n == t.Problem.N() && !t.many() && !t.costly() {
		return nil
	}
	return climb.TooFarBehind(t.asGood(best))
}

// begin takes one start up to where EM crawls on the part.
func (t *Task) begin(ctx context.Context, c *Candidate, rng *rand.Rand, best float64) error {
	if err := c.Place(ctx, c.start, rng); err != nil {
		return err
	}
	l := t.onPart(c, 1)
	if err := t.pool(ctx, l); err != nil {
		return err
	}
	run, err := t.approach()(ctx, l, l.Where(c), t.hopeless(best))
	if err != nil {
		return err
	}
	c.Rows, _ = t.Part.Dims()
	c.Ridge = starts.ScreenRidge
	return c.Take(ctx, l, run)
}

// BestOf returns the least of best and of where the wave stands.
func BestOf(wave []*Candidate, best float64) float64 {
	for _, c := range wave {
		if !c.Degenerate && !c.Failed() {
			best = min(best, c.Run.Value)
		}
	}
	return best
}

// complete takes a candidate on to a local optimum, unless it cannot catch up
// with the best.
func (t *Task) complete(ctx context.Context, c *Candidate, best float64, workers int) error {
	if c.Failed() || c.Run.Status == optim.Stopped || c.Run.Status == optim.Converged {
		return nil
	}
	stop := t.hopeless(best)
	if n := len(c.Run.Trace); stop != nil && n > 1 && climb.Behind(c.Run.Value, t.asGood(best),
		c.Run.Trace[n-2]-c.Run.Value) {
		c.Run.Status = optim.Stopped
		return nil
	}
	l := t.onPart(c, workers)
	run, err := climb.Sharpen(ctx, l, c.Run, stop)
	if err != nil {
		return err
	}
	return c.Take(ctx, l, run)
}

// splitMerge tries moves from where a candidate ended, until it reaches the best
// or no move gains.
func (t *Task) splitMerge(ctx context.Context, c *Candidate, rng *rand.Rand, best, tolerance float64,
	workers int) error {
	if c.Degenerate || c.Failed() || c.Run.Status == optim.Stopped && t.many() {
		return nil
	}
	l := t.onPart(c, workers)
	for range splitMergeRounds {
		better, err := l.improve(ctx, t, c.Run, rng)
		if err != nil {
			return err
		}
		if better == nil {
			// Where no clear gain is left, small ones may show at the optimum.
			was := c.Run.Status
			err := t.complete(ctx, c, best, workers)
			if err != nil || was == c.Run.Status || c.Run.Status != optim.Converged {
				return err
			}
			continue
		}
		better.Trace = slices.Concat(c.Run.Trace, better.Trace)
		if err := c.Take(ctx, l, better); err != nil {
			return err
		}
		if math.Abs(c.Run.Value-best) <= splitmerge.ClearGain {
			if err := t.complete(ctx, c, best, workers); err != nil {
				return err
			}
		}
		if math.Abs(c.Run.Value-best) <= tolerance {
			return nil
		}
	}
	return t.complete(ctx, c, best, workers)
}
