package sandwich

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/model"
)

// TestClusters compares them with the rows' scores, each from the gradient of a table of one row, summed by
// cluster in any order of the rows. Of clusters of one row they are [loss.Likelihood.ScoreProducts] times n/(n−1).
func TestClusters(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 1))
	for _, s := range losstest.Shapes {
		n := min(s.N, 300)
		data := s.Data(rng, losstest.Params(rng, s.K, s.D, 0.7, s.General), n)
		p := losstest.Params(rng, s.K, s.D, 0.9, s.General)
		scores := rowScores(t, data, s.Act, p, free(s))
		for _, clusters := range []int{2, 23, n} {
			ids, at := rng.Perm(n), 0
			for i := range data.Blocks {
				b := &data.Blocks[i]
				b.Role[model.Clusters] = make([]float64, b.N)
				for r := range b.N {
					b.Role[model.Clusters][r] = float64(ids[at]%clusters) - 7.5
					at++
				}
			}
			l := loss.NewLikelihood(data, s.Act, p, free(s), 2)
			got, want := mat.NewSymDense(l.Dim(), nil), mat.NewSymDense(l.Dim(), nil)
			g, err := Clusters(t.Context(), got, l, p)
			if err != nil || g != clusters {
				t.Fatalf("%s: %d clusters, want %d, %v", s.Name, g, clusters, err)
			}
			for c := range clusters {
				sum := mat.NewVecDense(l.Dim(), nil)
				for r, score := range scores {
					if ids[r]%clusters == c {
						sum.AddVec(sum, score)
					}
				}
				want.SymRankOne(want, float64(clusters)/float64(clusters-1), sum)
			}
			// Gradients of tables of one row are exact to rounding.
			if !mat.EqualApprox(got, want, 1e-9*max(1, mat.Max(want))) {
				t.Errorf("%s, %d clusters: differs from the sums over the clusters", s.Name, clusters)
			}
			if clusters == n {
				if err := l.ScoreProducts(t.Context(), want, p); err != nil {
					t.Fatal(err)
				}
				want.ScaleSym(float64(n)/float64(n-1), want)
				if !mat.EqualApprox(got, want, 1e-9*max(1, mat.Max(want))) {
					t.Errorf("%s: differs from the scores' products with clusters of one row", s.Name)
				}
			}
		}
	}
}
