// Package steps puts the steps of a search together.
package steps

import (
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/rare"
	"github.com/gatedlearning/moe/host/search/vacancy"
)

// All are the steps of a fit.
func All() search.Steps {
	return search.Steps{
		Refined: []search.Step{search.OtherStarts(), search.SplitMerge(), search.Reheating(), search.RowExchange()},
		Last:    []search.Step{search.Perturbation(), rare.Places(), search.Polish()},
		Places:  vacancy.Places(),
	}
}
