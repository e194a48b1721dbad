package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSoftmaxOfTwo has the bits of the general rule, on the same slice or another,
// whatever the logits.
func TestSoftmaxOfTwo(t *testing.T) {
	special := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), 1e308, -1e308, 5e-324, negligible, negligible + 1e-9}
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 16
	same := func(a, b float64) bool {
		return math.Float64bits(a) == math.Float64bits(b) || math.IsNaN(a) && math.IsNaN(b)
	}
	for range 5000 {
		logits := make([]float64, 2*n)
		for i := range logits {
			logits[i] = rng.NormFloat64() * math.Exp(3*rng.NormFloat64())
			if rng.IntN(4) == 0 {
				logits[i] = special[rng.IntN(len(special))]
			}
		}
		want, wantLSE := make([]float64, 2*n), make([]float64, n)
		for r := range n {
			softmaxOf(want, wantLSE, logits, n, 2, r)
		}
		got, gotLSE := make([]float64, 2*n), make([]float64, n)
		Softmax(got, gotLSE, logits, n)
		inPlace := slices.Clone(logits)
		Softmax(inPlace, nil, inPlace, n)
		for i := range want {
			if !same(got[i], want[i]) || !same(inPlace[i], want[i]) || !same(gotLSE[i%n], wantLSE[i%n]) {
				t.Fatalf("logits %v and %v: %v, in place %v, log of the normaliser %v; want %v and %v", logits[i%n], logits[n+i%n], got[i], inPlace[i], gotLSE[i%n], want[i], wantLSE[i%n])
			}
		}
	}
}
