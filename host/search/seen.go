package search

import (
	"context"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/starts"
)

const (
	// LeastMet times the best optimum must have been met for that to say something.
	LeastMet = 3
	// mostUnseen is the chance that another start ends at an optimum that none has met with which starts have seen
	// enough.
	mostUnseen = 0.05
	// mostOptima of a tree near the best are so few that a survey is evidence for it: see docs/studies/trees.md.
	mostOptima = 4
	// oftenMet is the share of a survey's starts at an optimum with which no second search is made for it.
	oftenMet = 0.25
)

// Survey is what was seen of the optima of a table that is small enough to look at
// many: by starts of several kinds, each run by EM on all rows without a ridge, and by
// moves from the best of them.
type Survey struct {
	Starts  int      // that led to a likelihood
	Kinds   []string // of them
	Moves   int
	Optima  int // distinct ones where starts ended, those given up apart
	Singles int // of them, met once
	Met     int // starts at the best optimum that starts or moves have found

	Best []*Candidate // distinct optima, refined, best first
	Pool []*Candidate // where runs ended, best first, as they ended
	Few  bool         // rows for the parameters: there are optima of small basins
}

// Unseen estimates the chance that another start ends at an optimum that none of the
// starts has met: the share of starts at optima met once (Good 1953, after Turing).
// Where only moves have met the best, it counts as another such start.
func (s *Survey) Unseen() float64 {
	singles := s.Singles
	if s.Met == 0 {
		singles++
	}
	return min(1, float64(singles)/float64(max(s.Starts, 1)))
}

// Conclusive says whether starts, at least so many, have met the best often enough and leave little unseen.
func (s *Survey) Conclusive(least int) bool {
	return s.Starts >= least && s.Met >= LeastMet && s.Unseen() <= mostUnseen
}

// often says whether the share oftenMet of the starts has met the best.
func (s *Survey) often() bool { return s != nil && float64(s.Met) >= oftenMet*float64(s.Starts) }

// many says whether its starts have ended at more than mostOptima.
func (s *Survey) many() bool { return s != nil && s.Optima > mostOptima }

// Settled says that of starts on a tree, at least so many, a large share has met the best, and others few optima.
func (s *Survey) Settled(least int) bool { return s.often() && !s.many() && s.Conclusive(least) }

// Thorough says that a survey of few rows, which makes hundreds of starts, has met the best often and little else once.
func (s *Survey) Thorough() bool { return s.often() && s.Few && s.Conclusive(infer.StartsWanted) }

// of is a survey as it has seen the best of a search on so many rows, which its starts have not met where it is another
// than its own; nil for nil.
func (s *Survey) of(best *Candidate, rows float64) *Survey {
	if s == nil || len(s.Best) == 0 || s.Best[0].Run.Value <= best.Run.Value+SameOptimum(rows) {
		return s
	}
	return s.metBy(0)
}

// metBy is a survey of which so many starts have met the best.
func (s *Survey) metBy(starts int) *Survey {
	seen := *s
	seen.Met = starts
	return &seen
}

// evidence is what its starts are evidence of.
func (s *Survey) evidence() infer.Care {
	return infer.Care{Starts: s.Starts, Met: s.Met, Unseen: s.Unseen()}
}

// optima are those of a survey, none where there was none.
func (s *Survey) optima() []*Candidate {
	if s == nil {
		return nil
	}
	return s.Best
}

// Count counts the optima at which starts have ended, of a sorted pool on so many rows.
func (s *Survey) Count(pool []*Candidate, rows float64) {
	s.Optima, s.Singles, s.Met = 0, 0, 0
	tolerance := SameOptimum(rows)
	for i := 0; i < len(pool); {
		ended, at := 0, pool[i].Run.Value
		best := i == 0
		for ; i < len(pool) && pool[i].Run.Value <= at+tolerance; i++ {
			if pool[i].Kind != starts.KindMove {
				ended++
			}
		}
		if best {
			s.Met = ended
		}
		if ended > 0 {
			s.Optima++
		}
		if ended == 1 {
			s.Singles++
		}
	}
}

// mostUnseenBeside is the chance of an optimum that no start of a survey has seen with which the placing of several
// spare experts is believed, if the survey has met theirs. On tables 5001 to 5079 of the study of spare experts placing
// alone was wrong in three of some 14 such passes, by 1.4 to 11: after a survey of 8 starts, and after two that never
// met the optimum.
const mostUnseenBeside = 0.1

// beside says whether the survey is evidence enough beside the placing of several spare experts.
func (s *Survey) beside() bool {
	return s != nil && s.Starts >= infer.StartsWanted && s.Met > 0 && s.Unseen() <= mostUnseenBeside
}

// Surveying looks at many optima of a table; it returns nil for one that it does not suit, or where starts, the budget
// of the search, are too few.
type Surveying func(ctx context.Context, p *problem.Problem, e *moment.Evidence, starts int) (*Survey, error)

// SurveyingSeveral is [Surveying] of several targets.
type SurveyingSeveral func(ctx context.Context, t *VectorTask) (*Survey, error)

// of is the survey of a problem, nil where none is made.
func (s Surveying) of(ctx context.Context, p *problem.Problem, e *moment.Evidence, starts int) (*Survey, error) {
	if s == nil {
		return nil, nil
	}
	return s(ctx, p, e, starts)
}
