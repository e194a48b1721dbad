package partition

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLeast: the least values are the first of all when these are sorted, whatever their order and however many are equal.
func TestLeast(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 5, fewest, fewest + 1, 100, 1000} {
		for name, value := range map[string]func(i int) float64{
			"random":     func(int) float64 { return rng.NormFloat64() },
			"of levels":  func(int) float64 { return float64(rng.IntN(3)) },
			"equal":      func(int) float64 { return 2 },
			"ascending":  func(i int) float64 { return float64(i) },
			"descending": func(i int) float64 { return float64(-i) },
			"infinite":   func(i int) float64 { return math.Inf(i%3 - 1) },
		} {
			values := make([]float64, n)
			for i := range values {
				values[i] = value(i)
			}
			all := make([]int, n)
			for i := range all {
				all[i] = i
			}
			slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
			for _, m := range []int{0, 1, n / 4, n / 2, n - 1, n, n + 1} {
				if m < 0 {
					continue
				}
				if got := Least(values, m); !slices.Equal(got, all[:min(m, n)]) {
					t.Errorf("%d of %d %s values are others", m, n, name)
				}
			}
		}
	}
}

// BenchmarkLeast is the quarter of 20,000 rows nearest to one, as starts take them at most.
func BenchmarkLeast(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, 20000)
	for i := range values {
		values[i] = rng.ExpFloat64()
	}
	for b.Loop() {
		Least(values, len(values)/4)
	}
}
