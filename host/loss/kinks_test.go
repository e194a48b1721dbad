package loss

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestOffKinks: z moves by 2h at most, to where z ± h reaches across no kink, on the side of the
// nearest one that it was on; what is far from kinks stays. A kink itself counts to its left.
func TestOffKinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 31))
	kinks := []float64{-2, 0.5, 3}
	const h = 0.1
	for range 2000 {
		z := 8*rng.Float64() - 4
		if rng.IntN(4) == 0 { // on a kink, or next to one
			z = kinks[rng.IntN(3)] + []float64{0, h / 2, -h / 2, 1.5 * h, -1.5 * h}[rng.IntN(5)]
		}
		got := offKinks(z, h, kinks)
		near := false
		for _, k := range kinks {
			near = near || math.Abs(z-k) <= h
			if (z <= k) != (got <= k) || math.Abs(got-k) < h-1e-12 {
				t.Fatalf("%v moves to %v, from one side of %v to the other or within %v of it", z, got, k, h)
			}
		}
		if !near && got != z || math.Abs(got-z) > 2*h+1e-12 {
			t.Fatalf("%v moves to %v", z, got)
		}
	}
	if got := offKinks(0.5, h, nil); got != 0.5 {
		t.Errorf("without kinks 0.5 moves to %v", got)
	}
}
