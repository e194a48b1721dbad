package fitted

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted/check"
)

// Groups are those of the rows of a fit, all rows of each of which have one expert.
type Groups struct {
	Column string `json:"column"` // of the ids
	Count  int    `json:"count"`
	// the probabilities of the experts of every group given its rows, by its id; absent where they were left out
	Posteriors map[string][]float64 `json:"posteriors,omitempty"`
}

func (g *Groups) validate(k int) error {
	if g == nil {
		return nil
	}
	if g.Count < 2 || len(g.Posteriors) > g.Count {
		return fmt.Errorf("groups has a count of %d and %d posteriors", g.Count, len(g.Posteriors))
	}
	for _, id := range slices.Sorted(maps.Keys(g.Posteriors)) {
		post := g.Posteriors[id]
		if err := check.Vector("groups.posteriors."+id, post, k); err != nil {
			return err
		}
		sum := 0.0
		for _, v := range post {
			if sum += v; !(v >= 0) {
				return fmt.Errorf("groups.posteriors.%s has a probability of %v", id, v)
			}
		}
		if math.Abs(sum-1) > 1e-6 {
			return fmt.Errorf("groups.posteriors.%s adds up to %v, want 1", id, sum)
		}
	}
	return nil
}
