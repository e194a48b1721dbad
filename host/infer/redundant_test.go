package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// TestDistances: of linear experts under a constant gate over x ~ N(0, I) the
// squared distance is |a_i − a_j|²/σ² in the mean; over 20,000 rows it has a
// standard error of 1 %.
func TestDistances(t *testing.T) {
	p := model.NewParams(3, 2)
	copy(p.Regressors, []float64{1, 0, 1, 0.3, -1, 2})
	p.Sigma = []float64{0.5, 0.2, 1}
	rng := rand.New(rand.NewPCG(9, 9))
	data := &model.Data{D: 2}
	for data.N < 20000 {
		b := model.Block{N: min(model.BlockRows, 20000-data.N)}
		b.X, b.Y = make([]float64, 2*b.N), make([]float64, b.N)
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		data.Blocks = append(data.Blocks, b)
		data.N += b.N
	}
	got, err := Distances(t.Context(), data, identity{}, p, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := []Pair{{0, 1, 0.3 / 0.2}, {0, 2, math.Sqrt(8) / 0.5}, {1, 2, math.Hypot(2, 1.7) / 0.2}}
	for i, w := range want {
		if got[i].I != w.I || got[i].J != w.J || !(math.Abs(got[i].Distance/w.Distance-1) <= 0.03) {
			t.Errorf("%+v, want %+v", got[i], w)
		}
	}
}
