package search

import (
	"context"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
)

// Step is one way from the best of a search on all rows to a better maximum.
type Step struct {
	Name    string                              // as models' files have it
	Applies func(t *Task, best *Candidate) bool // nil: always
	// Try returns a better maximum, which may be best itself taken there, or best as it is, to the byte.
	Try func(ctx context.Context, t *Task, best *Candidate, when Occasion) (*Candidate, error)
}

// Steps are what is handed to a search: what it begins with, and the steps that it makes, in their order. The zero
// value is none.
type Steps struct {
	Survey     Surveying // of a small table, before the screening
	LateSurvey Surveying // of a table that is too large for one, where agreement of a few starts is no evidence
	// Tree are the starts of a tree of gates: those that are made once, and those that are made in turn; nil for random
	// ones.
	Tree func(p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate,
		part model.Rows) (first, cycle []starts.Start)
	// Narrower has a search begin from the optima under a narrower density too: on all rows, or on the part.
	Narrower func(ctx context.Context, t *Task, e *moment.Evidence, whole bool) error

	Refined []Step // when the candidates have been refined
	Last    []Step // after these, and of every better optimum that is found later
	Places  Places // looked at where the search might end
}

// tree are the starts of a tree.
func (s Steps) tree(p *problem.Problem, e *moment.Evidence, estimate *moment.Estimate,
	part model.Rows) (first, cycle []starts.Start) {
	if s.Tree == nil {
		return nil, []starts.Start{starts.Random(p, e)}
	}
	return s.Tree(p, e, estimate, part)
}

// Gain is what a step has gained.
type Gain struct {
	Step          string
	LogLikelihood float64 // of all rows; more than 0.01
}

// Occasion is when steps are made, each time with random numbers of its own.
type Occasion int

const (
	atRefinement Occasion = 0 // after each refinement: of more starts it finds again what it has found of fewer
	atSurvey     Occasion = 1 // after a late survey
)

// OfSpare is when an expert that hardly counts has been placed anew, after so many others.
func OfSpare(number int) Occasion { return Occasion(4*number + 2) }

// BesideFit is when a better optimum came of a fit of so many experts.
func BesideFit(k int) Occasion { return Occasion(4*k + 3) }

// Make makes steps from the best, and records in it what they have gained.
func Make(ctx context.Context, t *Task, steps []Step, best *Candidate, when Occasion) (*Candidate, error) {
	for _, s := range steps {
		if s.Applies != nil && !s.Applies(t, best) {
			continue
		}
		was, gains := best.Run.Value, best.Gains
		next, err := s.Try(ctx, t, best, when)
		if err != nil {
			return nil, err
		}
		best = next
		best.Gains = withGain(gains, s.Name, (was-best.Run.Value)*t.Problem.Weights.Total)
	}
	return best, nil
}

// withGain returns gains with another, added to what the step has gained before, if it matters.
func withGain(gains []Gain, step string, gain float64) []Gain {
	if !(gain > climb.Slack) {
		return gains
	}
	out := slices.Clone(gains)
	if i := slices.IndexFunc(out, func(g Gain) bool { return g.Step == step }); i >= 0 {
		out[i].LogLikelihood += gain
		return out
	}
	return append(out, Gain{step, gain})
}

// inPlace is a step that takes the best higher where it stands; applies is nil for wherever try does something.
func inPlace(name string, applies func(*Task, *Candidate) bool,
	try func(context.Context, *Task, *Candidate, Occasion) error) Step {
	return Step{name, applies, func(ctx context.Context, t *Task, best *Candidate, when Occasion) (*Candidate, error) {
		return best, try(ctx, t, best, when)
	}}
}
