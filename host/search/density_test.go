package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
)

// TestStartsOfCounts: a start of k-means is the same whenever it is drawn from the same random numbers.
func TestStartsOfCounts(t *testing.T) {
	p := searchtest.Poisson(t)
	start := starts.KMeans(p, p.Rows)
	var drawn [][]float64
	for range 3 {
		q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(1, 2)))
		if err != nil {
			t.Fatal(err)
		}
		drawn = append(drawn, q.Regressors)
	}
	if !slices.Equal(drawn[0], drawn[1]) || !slices.Equal(drawn[0], drawn[2]) {
		t.Errorf("drawn from the same numbers: %v", drawn)
	}
}
