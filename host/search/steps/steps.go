// Package steps puts the steps of a search together.
package steps

import (
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/hardgate"
	"github.com/gatedlearning/moe/host/search/narrower"
	"github.com/gatedlearning/moe/host/search/rare"
	"github.com/gatedlearning/moe/host/search/survey"
	"github.com/gatedlearning/moe/host/search/tree"
	"github.com/gatedlearning/moe/host/search/vacancy"
)

// Several is the survey of a fit of several targets under one gate.
func Several() search.SurveyingSeveral { return survey.Several }

// OfSeveral are the steps of a fit of several targets under one gate.
func OfSeveral() search.Steps {
	return search.Steps{
		Refined: []search.Step{search.OtherStarts(), hardgate.Reheating()},
		Last:    []search.Step{search.Perturbation(), search.ExactNewton()},
	}
}

// All are the steps of a fit.
func All() search.Steps {
	return search.Steps{
		Survey:     survey.Small,
		LateSurvey: survey.Late,
		Tree:       tree.Starts,
		Narrower:   narrower.Begin,
		Refined: []search.Step{
			survey.SoftStarts(), search.OtherStarts(), tree.SplitMerge(), hardgate.Reheating(), hardgate.RowExchange(),
		},
		Last:   []search.Step{search.Perturbation(), rare.Places(), search.ExactNewton()},
		Places: vacancy.Places(),
	}
}
