package sample

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

type linear struct{}

func (linear) Eval(_ context.Context, dst, z []float64) error  { copy(dst, z); return nil }
func (linear) Deriv(_ context.Context, dst, _ []float64) error { return nil }

// TestVectorSample: the residuals from a row's own expert, which is the nearest where the
// noise is small, have the covariance that was asked for; the first target of a sample is
// that of a sample of one.
func TestVectorSample(t *testing.T) {
	cfg := Config{Activation: linear{}, K: 2, D: 4, N: 20000, Sigma: 1e-3, Design: Random, Seed: 5}
	const rho = -0.4
	s, err := NewVector(cfg, 3, rho)
	if err != nil {
		t.Fatal(err)
	}
	one, err := NewVector(cfg, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(one.Truth.Regressors, alone.Truth.Regressors) || !slices.Equal(one.Schema().Features, alone.Schema().Features) {
		t.Error("a sample of one target is another")
	}
	var same, other [][]float64
	keep := func(to *[][]float64) func(b *model.Block) error {
		return func(b *model.Block) error { *to = append(*to, slices.Concat(b.X, b.Y)); return nil }
	}
	if one.Read(t.Context(), keep(&same)) != nil || alone.Read(t.Context(), keep(&other)) != nil || !slices.EqualFunc(same, other, slices.Equal[[]float64]) {
		t.Error("the rows of one target are others")
	}
	var sum [3][3]float64
	rows := 0.0
	err = s.Read(t.Context(), func(b *model.Block) error {
		for r := range b.N {
			var best [3]float64
			least := math.Inf(1)
			for i := range 2 {
				var e [3]float64
				squares := 0.0
				for c := range 3 {
					y := b.Y[r]
					if c < 2 {
						y = b.Col(4 + c)[r]
					}
					for j, a := range s.Truth.Regressor(i, c) {
						y -= a * b.Col(j)[r]
					}
					e[c] = y
					squares += y * y
				}
				if squares < least {
					best, least = e, squares
				}
			}
			rows++
			for a := range 3 {
				for c := range 3 {
					sum[a][c] += best[a] * best[c]
				}
			}
		}
		return nil
	})
	if err != nil || !slices.Equal(s.Schema().Features, []string{"x1", "x2", "x3", "x4", "y1", "y2"}) || s.Schema().Target != "y3" {
		t.Errorf("columns %v and %s, error %v", s.Schema().Features, s.Schema().Target, err)
	}
	for a := range 3 {
		for c := range 3 {
			want := rho
			if a == c {
				want = 1
			}
			// Four standard errors of a covariance, √(2/n) at most, in units of σ².
			if got := sum[a][c] / rows / 1e-6; math.Abs(got-want) > 4*math.Sqrt(2/rows) {
				t.Errorf("covariance (%d, %d) is %v σ², want %v", a, c, got, want)
			}
		}
	}
	for _, rho := range []float64{1, -0.5, 2, math.NaN()} {
		if _, err := NewVector(cfg, 3, rho); err == nil {
			t.Errorf("correlation %v is taken", rho)
		}
	}
}
