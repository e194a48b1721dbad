// Package sandwich has covariances V·M·V, with V the inverse of the information and M in the middle the covariance of
// the sum of the rows' scores: M of rows that depend on each other within clusters, or in time. Of independent rows M
// is [loss.Likelihood.ScoreProducts].
package sandwich

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Scores are those of the rows of a likelihood with parameters P: see [loss.Likelihood.EachScore].
type Scores[P any] interface {
	Dim() int // of θ
	N() int   // rows
	EachScore(ctx context.Context, p P, fn func(scores [][]float64, b *model.Block)) error
}

// Of returns v·m·v.
func Of(v, m *mat.SymDense) *mat.SymDense {
	var left, both mat.Dense
	left.Mul(v, m)
	both.Mul(&left, v)
	return numeric.Symmetric(&both)
}

// Clusters writes to m the middle of the sandwich where rows are independent of those of other clusters alone, and
// returns the number of clusters G, at least 2:
//
//	M = G/(G−1)·Σ_g S_g·S_gᵀ,   S_g = Σ_{rows t of g} s_t
//
// with s_t the score of row t at p, times its weight (Liang & Zeger 1986). With the factor it is CR1 of linear models
// (Bell & McCaffrey 2002), and with one row a cluster Σ_t s_t·s_tᵀ but for it. Rows of a cluster need not stand beside
// each other. It panics where the rows have no column of clusters.
func Clusters[P any](ctx context.Context, m *mat.SymDense, l Scores[P], p P) (clusters int, err error) {
	n := l.Dim()
	places := make(map[float64]int) // of the clusters, as they come
	var sums []float64              // of their scores, rows of n
	if err := l.EachScore(ctx, p, func(scores [][]float64, b *model.Block) {
		if b.Role[model.Clusters] == nil {
			panic("sandwich: rows without a column of clusters")
		}
		for t, id := range b.Role[model.Clusters] {
			g, known := places[id]
			if !known {
				g = len(places)
				places[id], sums = g, append(sums, make([]float64, n)...)
			}
			for i, s := range scores {
				sums[g*n+i] += s[t]
			}
		}
	}); err != nil {
		return 0, err
	}
	clusters = len(places)
	m.SymOuterK(1, mat.NewDense(clusters, n, sums).T())
	m.ScaleSym(float64(clusters)/float64(clusters-1), m)
	return clusters, nil
}
