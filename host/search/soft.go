package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/optim"
)

const (
	// softShare is what soft starts may cost, as a multiple of the survey's work, and mostSoft
	// how many there are at most.
	softShare, mostSoft = 2, 128
	// softGain is the gain of a step, per row, with which soft starts are compared: those more
	// than softGap units of log-likelihood behind the best that has ended end there.
	softGain, softGap = 1e-6, 4
	// hardGain is the gain of a step, per row, with which a gate that becomes hard is left, and
	// mostSteps the number of steps that lead there at most.
	hardGain, mostSteps = 1e-8, 5000
	// softStream is the first of the streams of random numbers that soft starts draw from.
	softStream = 1 << 35
)

// soften adds to the survey, where the gate of its best becomes hard, random starts with a soft gate
// and as much noise as y has, each of which goes all the way by EM: where a gate becomes
// hard, which rows end on which side of it is decided late, and short runs do not tell which
// will be the best.
func (s *surveyor) soften(ctx context.Context) error {
	if len(s.pool) == 0 {
		return nil
	}
	if hard, err := hardens(ctx, s.likelihood(), s.pool[0].Params); err != nil || !hard {
		return err
	}
	var ends []*Candidate
	for work, runs := 0.0, 0; work < softShare*s.most && runs < mostSoft && !s.settled(ends); runs += surveyWave {
		wave := make([]*Candidate, surveyWave)
		for i := range wave {
			wave[i] = &Candidate{Kind: s.kinds[0].Kind, draw: s.kinds[0].Draw}
		}
		best := bestOf(ends, math.Inf(1))
		err := Each(ctx, s.problem, wave, softStream+runs, func(ctx context.Context, c *Candidate, rng *rand.Rand) error {
			return s.softRun(ctx, c, rng, best)
		})
		if err != nil {
			return err
		}
		for _, c := range wave {
			work += s.cost(c)
			if !c.Failed() && !c.Degenerate {
				s.Starts++
				ends = append(ends, c)
			}
		}
		slices.SortStableFunc(ends, compare)
	}
	s.Best = append(s.Best, elites(ends, s.problem.N())...)
	s.pool = append(s.pool, ends...)
	slices.SortStableFunc(s.pool, compare)
	return nil
}

// settled says whether soft starts, best first, have seen what there is to see: leastSurveyed
// of them, and leastMet at the best, or half of them where rows are few.
func (s *surveyor) settled(ends []*Candidate) bool {
	if len(ends) < leastSurveyed {
		return false
	}
	most := ends[0].Run.Value + SameOptimum(s.problem.N())
	met := 0
	for met < len(ends) && ends[met].Run.Value <= most {
		met++
	}
	return met >= leastMet && (!s.few() || 2*met >= len(ends))
}

// softRun runs a soft start as far as it may yet be the best.
func (s *surveyor) softRun(ctx context.Context, c *Candidate, rng *rand.Rand, best float64) error {
	q, err := c.draw(ctx, rng)
	if err != nil {
		return err
	}
	l := s.fresh()
	defer s.idle.Put(l)
	if c.Run, err = creep(ctx, l, l.Theta(q), softGain, mostSteps); err != nil {
		return err
	}
	if c.Run.Status == optim.Converged && c.Run.Value < best+softGap/float64(s.problem.N()) {
		c.Run, err = goOn(c.Run, func(x []float64) (*optim.Result, error) { return creep(ctx, l, x, hardGain, mostSteps) })
		if err != nil {
			return err
		}
	}
	c.Params, c.Rows = l.Params(c.Run.X), s.problem.N()
	return c.markDegenerate(ctx, l)
}

// creep runs EM from θ, of which each step makes a gate that separates a little harder,
// until a step gains less than this per row.
func creep(ctx context.Context, l *loss.Likelihood, theta []float64, gain float64, most int) (*optim.Result, error) {
	return optim.SQUAREM(ctx, l, theta, optim.Settings{Iterations: most, Tolerance: gain})
}
