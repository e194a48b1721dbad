package sample

import (
	"math/rand/v2"
	"testing"
)

// TestGenerator: the numbers are those of math/rand/v2, in any order of the two kinds. Two
// million meet every layer of the ziggurat thousands of times.
func TestGenerator(t *testing.T) {
	want, got := rand.New(rand.NewPCG(1, 2)), newGenerator(1, 2)
	for i := range 2_000_000 {
		if i%11 == 10 {
			if a, b := got.Float64(), want.Float64(); a != b {
				t.Fatalf("number %d is %v, want %v", i, a, b)
			}
			continue
		}
		if a, b := got.NormFloat64(), want.NormFloat64(); a != b {
			t.Fatalf("normal number %d is %v, want %v", i, a, b)
		}
	}
}

// BenchmarkNormal is a block of normal numbers by the generator and by math/rand/v2.
func BenchmarkNormal(b *testing.B) {
	block := make([]float64, 1024)
	b.Run("generator", func(b *testing.B) {
		g := newGenerator(1, 2)
		for b.Loop() {
			for i := range block {
				block[i] = g.NormFloat64()
			}
		}
	})
	b.Run("rand", func(b *testing.B) {
		r := rand.New(rand.NewPCG(1, 2))
		for b.Loop() {
			for i := range block {
				block[i] = r.NormFloat64()
			}
		}
	})
}
