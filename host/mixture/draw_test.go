package mixture

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// TestDraw: the distribution function of what is drawn is uniform, that of whole numbers where it is spread over its
// step. Twenty cells of 20,000 draws each: the chi-squared statistic of 19 degrees of freedom is above its bound in one
// of a million right laws.
func TestDraw(t *testing.T) {
	const n, cells = 20_000, 20
	most := distuv.ChiSquared{K: cells - 1}.Quantile(1 - 1e-6)
	for _, c := range []struct {
		d    Density
		mean float64
		psi  []float64
	}{
		{Gaussian{}, -2, []float64{3}},
		{StudentT{}, 1, []float64{0.5, 1}}, {StudentT{}, 0, []float64{2, 4.5}}, {StudentT{}, 0, []float64{1, 1000}},
		{Gamma{}, 5, []float64{0.05}}, {Gamma{}, 0.1, []float64{1}}, {Gamma{}, 1e6, []float64{30}},
		{Poisson{}, 0.02, nil}, {Poisson{}, 9.9, nil}, {Poisson{}, 3e4, nil},
		{NegativeBinomial{}, 4, []float64{0.3}}, {NegativeBinomial{}, 200, []float64{7}},
		{Binomial{}, 0.3, nil}, {OfTrials(Binomial{}, []float64{12}), 0.7, nil},
	} {
		t.Run(fmt.Sprint(c.d.Name(), c.mean, c.psi), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 1))
			var count [cells]float64
			for range n {
				y := Draw(rng, c.d, c.mean, c.psi)
				u := c.d.CDF(y, c.mean, c.psi)
				if c.d.Domain().Whole {
					below := c.d.CDF(y-1, c.mean, c.psi)
					u = below + rng.Float64()*(u-below)
				}
				count[min(int(u*cells), cells-1)]++
			}
			chi := 0.0
			for _, o := range count {
				chi += (o - n/cells) * (o - n/cells) / (n / cells)
			}
			if !(chi < most) {
				t.Errorf("chi-squared = %.1f of %d cells, want below %.1f", chi, cells, most)
			}
		})
	}
}

// TestDrawAtTheEdge: means at the ends of what numbers hold are drawn from too.
func TestDrawAtTheEdge(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 2))
	for _, c := range []struct {
		d    Density
		mean float64
		psi  []float64
	}{
		{Gamma{}, 1e-300, []float64{1e-4}}, {Gamma{}, 1, []float64{1e12}}, {Poisson{}, 0, nil}, {Poisson{}, 1e300, nil},
		{NegativeBinomial{}, 1e300, []float64{2}}, {NegativeBinomial{}, 1e-300, []float64{1e-4}},
		{StudentT{}, 1e300, []float64{1, 1}},
	} {
		for range 100 {
			y := Draw(rng, c.d, c.mean, c.psi)
			if domain := c.d.Domain(); math.IsNaN(y) || y < domain.Least || y > math.MaxFloat64 {
				t.Fatalf("%s of mean %g and %v: drew %g", c.d.Name(), c.mean, c.psi, y)
			}
		}
	}
}
