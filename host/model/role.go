package model

import "iter"

// Role is what a column is for that is neither a feature nor a target: of each there is one at most.
type Role int

// The roles, in the order of their columns behind the target's.
const (
	Weights  Role = iota // a row of weight w counts as w rows
	Groups               // rows of one have one expert
	Clusters             // rows of one are not independent of each other, which standard errors may know
	Offsets              // what is added to the predictor of every expert, with no coefficient
	Trials               // of how many trials the target is the successes

	roles // how many there are
)

// OfLaw are the roles of columns that the law of a row's target depends on beside its features.
var OfLaw = [...]Role{Offsets, Trials}

// ByRole has a value for every role.
type ByRole[T any] [roles]T

// Values are the columns of a block: X, Y and those that have a role, in the order of the roles. What is not there is
// empty.
func (b *Block) Values() iter.Seq[[]float64] {
	return func(yield func([]float64) bool) {
		if !yield(b.X) || !yield(b.Y) {
			return
		}
		for _, values := range b.Role {
			if !yield(values) {
				return
			}
		}
	}
}
