package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// poissonProblem is one of two Poisson experts with g = exp.
func poissonProblem(t *testing.T) *problem.Problem {
	t.Helper()
	exp := sdk.Func{Name: "exp", G: math.Exp, DG: math.Exp}
	s, err := sample.New(sample.Config{Activation: exp, K: 2, D: 3, N: 400, Family: "poisson", Design: sample.Random, Seed: 5})
	if err != nil {
		t.Fatal(err)
	}
	return load(t, s, exp, problem.Request{K: 2, Family: "poisson"})
}

// TestStartsOfCounts: a start of k-means is the same whenever it is drawn from the same random numbers.
func TestStartsOfCounts(t *testing.T) {
	p := poissonProblem(t)
	start := KMeans(p, p.Rows)
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
