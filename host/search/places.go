package search

import (
	"context"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// Places is how a search looks for other places of experts, one at a time; where the zero value stands it does not.
type Places struct {
	// Missed says which experts of a fit would be missed least.
	Missed func(ctx context.Context, p *problem.Problem, q *model.Params) (Missed, error)
	// Place looks for better places of the spare experts of best, which are those of m, takes it there, and returns
	// what it has seen; nil where there are none. Where a test of the model fails the expert that is missed least is
	// placed anew, spare or not. It was done so many times before.
	Place func(ctx context.Context, t *Task, best *Candidate, m Missed, failed bool, before int) (*Spare, error)
	// Doubts is what speaks for fewer experts than q has, of these proportions. The experts are in the model's order.
	Doubts func(ctx context.Context, p *problem.Problem, q *model.Params, proportions []float64) ([]Doubt, error)
	// Visit begins from fits of one expert less or more. It returns the best of what beats best, nil where nothing
	// does, and what that came of.
	Visit func(ctx context.Context, t *Task, best *Candidate, from []Neighbour) (*Candidate, *Begun, error)
}

// missed is Missed where places are looked for.
func (s Places) missed(ctx context.Context, p *problem.Problem, q *model.Params) (Missed, error) {
	if s.Missed == nil {
		return Missed{}, nil
	}
	return s.Missed(ctx, p, q)
}

// Missed are the experts that are spare, the data hardly asking for one of them, those that are missed least first, and
// the one that is missed least of all.
type Missed struct {
	Spare []int
	Least int
}

// Doubt is one reason to doubt that there are as many experts as an optimum has.
type Doubt struct {
	By      DoubtBy
	Experts []int   // of which there may be too many
	Size    float64 // the rows of the one that has few, or the distance in σ between the means of two nearly equal ones
	AsOne   *Merge  // what two experts come to as one; nil where that was not tried
}

// DoubtBy is of which kind a doubt is.
type DoubtBy int

// The kinds of doubts.
const (
	FewRows     DoubtBy = iota // an expert has few rows for its coefficients
	NearlyEqual                // two experts are nearly the same
	HardlyAsked                // BIC prefers two as one; the data hardly ask for these, which may be none
)

// Merge is where climbs end from an optimum with two of its experts in one: its log-likelihood and its BIC, less the
// optimum's.
type Merge struct {
	Experts            [2]int
	LogLikelihood, BIC float64
}

// Spare is what was seen of the places that experts may take of which the data hardly ask for one: those whose loss
// would cost the likelihood less than a few times what BIC takes for an expert's parameters. Starts were made in
// each of their places; of them Met ended at the best optimum, and Singles at optima that no other met, in the place
// where they say least.
type Spare struct{ Experts, Starts, Optima, Met, Singles int }

// Unseen is [Survey.Unseen] of the starts.
func (s *Spare) Unseen() float64 {
	return (&Survey{Starts: s.Starts, Met: s.Met, Singles: s.Singles}).Unseen()
}

// Neighbour is a fit of one expert less or more, from which a search begins too.
type Neighbour struct {
	Params *model.Params // in the units of the problem
	Value  float64       // the mean negative log-likelihood
}

// Begun says that a best came of a neighbour.
type Begun struct {
	From int     // the neighbour's experts
	By   string  // the move, see the package vacancy
	Gain float64 // of log-likelihood, over what was found without it
}
