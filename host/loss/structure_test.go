package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
)

// TestStructure: masses, residuals and overlaps are the sums over the rows, and in no direction do squared residuals grow faster,
// in units of how the means move, than along an expert's axis.
func TestStructure(t *testing.T) {
	const k, d, n = 3, 2, 600
	rng := rand.New(rand.NewPCG(9, 13))
	p := randomParams(rng, k, d, 0.7, true)
	data := draw(rng, tanh, p, n)
	l := NewLikelihood(data, tanh, p, All, 2)
	got, err := l.Structure(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	shared, err := l.Shared(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	mass, rss, overlap, prior := make([]float64, k), make([]float64, k), make([]float64, k*k), make([]float64, k*k)
	type row struct {
		x      []float64 // with 1 for the intercept
		weight [k]float64
		square [k]float64
	}
	var rows []row
	for _, b := range data.Blocks {
		p0 := make([]float64, k*b.N)
		mixture.Mixture{}.Prior(p0, p, &b)
		for r := range b.N {
			x := []float64{b.Col(0)[r], b.Col(1)[r], 1}
			var post, e, slope [k]float64
			sum := 0.0
			for i := range k {
				z := floats.Dot(p.Regressor(i), x[:d]) + p.RegressorIntercepts[i]
				e[i], slope[i] = b.Y[r]-math.Tanh(z), 1-math.Tanh(z)*math.Tanh(z)
				post[i] = p0[i*b.N+r] * math.Exp(-e[i]*e[i]/2/p.SigmaOf(i)/p.SigmaOf(i)) / p.SigmaOf(i)
				sum += post[i]
			}
			one := row{x: x}
			for i := range k {
				post[i] /= sum
				mass[i] += post[i]
				rss[i] += post[i] * e[i] * e[i]
				one.weight[i] = post[i] * slope[i] * slope[i]
				one.square[i] = one.weight[i] * e[i] * e[i]
			}
			for i := range k {
				for j := range k {
					overlap[i*k+j] += post[i] * post[j]
					prior[i*k+j] += p0[i*b.N+r] * p0[j*b.N+r]
				}
			}
			rows = append(rows, one)
		}
	}
	for name, c := range map[string]struct{ got, want []float64 }{
		"masses": {got.Mass, mass}, "residuals": {got.RSS, rss}, "overlaps": {got.Overlap, overlap}, "shared": {shared, prior},
	} {
		for i, want := range c.want {
			if (name == "overlaps" || name == "shared") && i/k > i%k {
				continue // of a pair once
			}
			if !(math.Abs(c.got[i]-want) <= 1e-9*want) {
				t.Errorf("%s: %v, want %v", name, c.got, c.want)
			}
		}
	}
	for i := range k {
		growth := func(u []float64) float64 {
			var above, below float64
			for _, r := range rows {
				s := floats.Dot(u, r.x)
				above, below = above+r.square[i]*s*s, below+r.weight[i]*s*s
			}
			return above / below
		}
		most := growth(got.Axes[i])
		if norm := floats.Norm(got.Axes[i], 2); !(math.Abs(norm-1) <= 1e-12) {
			t.Errorf("axis %d has norm %v", i, norm)
		}
		for range 200 {
			u := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
			if v := growth(u); !(v <= most*(1+1e-6)) { // the ridge is 1e−8 of the mean
				t.Fatalf("expert %d: residuals grow by %v along %v, by %v along its axis", i, v, u, most)
			}
		}
	}
}
