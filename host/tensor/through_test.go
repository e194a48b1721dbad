package tensor_test

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/tensor"
)

// TestThrough: v⊗…⊗v through L is Lv⊗…⊗Lv, also of sums.
func TestThrough(t *testing.T) {
	l := mat.NewDense(3, 3, []float64{1, 2, -1, .5, 3, 0, 4, -2, 1})
	t3, want3, t4, want4 := tensor.NewSym3(3), tensor.NewSym3(3), tensor.NewSym4(3), tensor.NewSym4(3)
	for w, v := range map[float64][]float64{2: {1, -1, .3}, -.7: {0, 2, 1}} {
		var seen mat.VecDense
		seen.MulVec(l, mat.NewVecDense(3, v))
		t3.AddRankOne(w, v)
		t4.AddRankOne(w, v)
		want3.AddRankOne(w, seen.RawVector().Data)
		want4.AddRankOne(w, seen.RawVector().Data)
	}
	for name, c := range map[string][2][]float64{
		"order 3": {t3.Through(l).Data, want3.Data}, "order 4": {t4.Through(l).Data, want4.Data},
	} {
		for i := range c[1] {
			if math.Abs(c[0][i]-c[1][i]) > 1e-10 {
				t.Errorf("%s: entry %d is %g, want %g", name, i, c[0][i], c[1][i])
			}
		}
	}
}
