package problem

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestCollinear: of features that a sum of others makes, in all rows or in all but a few, the relation is named, whatever else stands
// beside them; of such as are correlated, or a power of one another, nothing is said.
func TestCollinear(t *testing.T) {
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 200
	rng := rand.New(rand.NewPCG(1, 0))
	column := func(f func() float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = f()
		}
		return out
	}
	years := column(func() float64 { return float64(6 + rng.IntN(12)) })
	work := column(func() float64 { return float64(rng.IntN(40)) })
	noise := column(rng.NormFloat64)
	sum := func(of ...[]float64) []float64 {
		out := make([]float64, n)
		for _, c := range of {
			for i, v := range c {
				out[i] += v
			}
		}
		return out
	}
	times := func(a float64, c []float64) []float64 {
		out := make([]float64, n)
		for i, v := range c {
			out[i] = a * v
		}
		return out
	}
	six := column(func() float64 { return 6 })
	age := sum(years, work, six)
	but := append([]float64{}, age...)
	but[17] += 3
	square := make([]float64, n)
	for i, v := range work {
		square[i] = (v + 100) * (v + 100)
	}
	for name, c := range map[string]struct {
		third []float64
		bare  bool
		want  string
	}{
		"a sum":            {age, false, "features are collinear: x3 = x1 + x2 + 6 in every row"},
		"but for one":      {but, false, "features are nearly collinear: x3 = x1 + x2 + 6 in 199 of 200 rows"},
		"twice":            {sum(times(2, years), times(-3, work)), false, "collinear: x3 = 2*x1 - 3*x2 in every row"},
		"no constant":      {sum(years, work), true, "collinear: x3 = x1 + x2 in every row"},
		"not without one":  {age, true, ""},
		"correlated":       {sum(age, column(rng.NormFloat64)), false, ""},
		"a power":          {square, false, ""},
		"to rounding only": {sum(times(0.37, years), times(1.93, work)), false, "is a sum of multiples of the others"},
	} {
		t.Run(name, func(t *testing.T) {
			x := mat.NewDense(n, 4, nil)
			for j, c := range [][]float64{years, work, c.third, noise} {
				x.SetCol(j, c)
			}
			r := Request{K: 1, Intercepts: BothIntercepts}
			if c.bare {
				r.Intercepts = ""
			}
			p, err := Load(t.Context(), dataset.Matrix(x, column(rng.NormFloat64)), act, r)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Collinear; c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
