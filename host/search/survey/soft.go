package survey

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	// softShare is what soft starts may cost, as a multiple of the survey's work, and mostSoft
	// how many there are at most.
	softShare, mostSoft = 3, 128
	// reusingRows are the rows a parameter from which about every second soft start of a survey
	// reuses the gate's curvature.
	reusingRows = 20
)

// addSoftStarts adds soft starts to the survey, where the gate of its best becomes hard.
func (s *surveyor) addSoftStarts(ctx context.Context) error {
	if len(s.pool) == 0 || !search.Hardens(s.likelihood(), s.pool[0]) {
		return nil
	}
	ends, err := s.softStarts().run(ctx)
	if err != nil {
		return err
	}
	s.Starts += len(ends)
	s.Best = append(s.Best, elites(ends, s.problem.Count())...)
	s.pool = append(s.pool, ends...)
	slices.SortStableFunc(s.pool, search.Compare)
	return nil
}

// softStarts are those of the survey.
func (s *surveyor) softStarts() *softStarts {
	soft := &softStarts{
		problem: s.problem, several: s.several, start: s.kinds[0], use: stream.SurveySoft,
		likelihoods: &likelihoods{new: s.likelihood},
		wave:        surveyWave, least: leastSurveyed, most: mostSoft, work: softShare * s.most, steps: climb.MostSteps,
		few: s.few(),
	}
	if values, parameters := s.several.sizes(s.problem); values >= reusingRows*parameters {
		soft.reusing = s.likelihoods
	}
	return soft
}

// softWork is what soft starts may cost where there was no survey: steps of EM times rows times
// parameters, some ten seconds of one core.
const softWork = 1e10

// softWave soft starts run before anyone looks at the result where there was no survey, and so many are made at least.
const softWave = 4

// SoftStarts is the step that adds soft starts to what was found otherwise, where there was nothing.
func SoftStarts() search.Step {
	return search.Step{Name: "soft starts",
		Applies: func(t *search.Task, _ *search.Candidate) bool { return t.Others == nil },
		Try: func(ctx context.Context, t *search.Task, best *search.Candidate,
			_ search.Occasion) (_ *search.Candidate, err error) {
			t.Others, err = fromSoftStarts(ctx, t, best)
			return best, err
		}}
}

// fromSoftStarts are the maxima on all rows that soft starts lead to, where the gate of the best becomes hard, the
// table is too large for a survey, and not so large that a gate cannot be hardened by EM.
func fromSoftStarts(ctx context.Context, t *search.Task, best *search.Candidate) ([]*search.Candidate, error) {
	p := t.Problem
	if t.Soft.Draw == nil || !climb.Hardenable(p.Size()) {
		return nil, nil
	}
	likelihood := func() search.Surface { return t.Surface(p.Rows) }
	if !search.Hardens(likelihood(), best) {
		return nil, nil
	}
	work := budget(softWork, t.Starts)
	soft := &softStarts{
		problem: p, start: t.Soft, use: stream.Soft, likelihoods: &likelihoods{new: likelihood},
		wave: softWave, least: softWave, most: mostSoft, work: work,
		steps: climb.StepsFor(work/softWave, p.Size()),
	}
	ends, err := soft.run(ctx)
	if err != nil {
		return nil, err
	}
	ends = elites(ends, p.Count())
	err = search.Each(ctx, p, ends, func(ctx context.Context, c *search.Candidate) error {
		return t.MaximiseByEM(ctx, c, p.Shape.Free())
	})
	return slices.DeleteFunc(ends, func(c *search.Candidate) bool { return idleBeside(c, best, p.Count()) }), err
}

// idleBeside says whether c has nothing over the best: what has not converged is worth no more than what is
// as good and has.
func idleBeside(c, best *search.Candidate, rows float64) bool {
	return c.Run.Status != optim.Converged && !climb.Superior(c.Run.Value, best.Run.Value, rows)
}

// softStarts are random starts with a soft gate and as much noise as y has, each of which goes
// all the way by EM: where a gate becomes hard, which rows end on which side of it is decided
// late, and short runs do not tell which will be the best.
//
// Their likelihoods do not reuse the gate's curvature: steps that depend on those before them cannot be
// extrapolated for long. Of runs on 2,600 rows half ended tens of units too low, on 34,400 most of them
// thousands, and on 78 rows four of five steps were halvings of others. But the other half lead to optima that
// exact runs do not see, and in a survey of rows enough about every second reuses it.
type softStarts struct {
	problem *problem.Problem
	several *several // as of a survey
	start   starts.Start
	use     stream.Use
	*likelihoods
	reusing *likelihoods // of about every second start, nil for none
	wave    int          // starts before anyone looks at the result
	least   int          // starts at least
	most    int          // and at most
	work    float64      // at most, but for what the last wave goes beyond it
	steps   int          // of a start, at most
	few     bool         // rows for the parameters
}

// run returns where the starts ended, best first, failed and degenerate ones apart.
func (s *softStarts) run(ctx context.Context) (ends []*search.Candidate, err error) {
	for work, runs := 0.0, 0; work < s.work && runs < s.most && !s.settled(ends, runs); runs += s.wave {
		best := search.BestOf(ends, math.Inf(1))
		wave, err := begun(ctx, s.problem, slices.Repeat([]starts.Start{s.start}, s.wave), s.use, runs,
			func(ctx context.Context, c *search.Candidate, from starts.Start, rng *rand.Rand) error {
				return s.runByEM(ctx, c, from, rng, best)
			})
		if err != nil {
			return nil, err
		}
		for _, c := range wave {
			work += s.several.cost(s.problem, c)
			if !c.Failed() && !c.Degenerate {
				ends = append(ends, c)
			}
		}
		slices.SortStableFunc(ends, search.Compare)
	}
	return ends, nil
}

// settled says whether where soft starts have ended, best first, shows what there is to see: enough of them, LeastMet
// at the best, and few at optima that were met once; where rows are few, half of them at the best. Where all
// of enough runs failed or ended degenerate there is nothing.
func (s *softStarts) settled(ends []*search.Candidate, runs int) bool {
	if len(ends) < s.least {
		return len(ends) == 0 && runs >= s.least
	}
	seen := search.Survey{Starts: len(ends)}
	seen.Count(ends, s.problem.Count())
	if s.few {
		return seen.Met >= search.LeastMet && 2*seen.Met >= len(ends)
	}
	return seen.Conclusive(s.least)
}

// runByEM runs a start as far as it may yet be the best.
func (s *softStarts) runByEM(ctx context.Context, c *search.Candidate, from starts.Start, rng *rand.Rand,
	best float64) (err error) {
	if err = c.Place(ctx, from, rng); err != nil {
		return err
	}
	room := s.likelihoods
	if s.reusing != nil && rng.IntN(2) == 0 {
		room = s.reusing
	}
	l := room.take()
	defer room.put(l)
	if c.Run, err = climb.EMUntilComparable(ctx, l, l.Where(c), s.steps); err != nil {
		return err
	}
	if c.Run.Status == optim.Converged && c.Run.Value < best+climb.SoftGap/s.problem.Count() {
		c.Run, err = climb.GoOn(c.Run, func(x []float64) (*optim.Result, error) {
			return climb.EMToConvergence(ctx, l, x, s.steps)
		})
		if err != nil {
			return err
		}
	}
	c.Rows = s.problem.N()
	return c.Take(ctx, l, c.Run)
}
