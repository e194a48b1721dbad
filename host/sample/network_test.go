package sample

import (
	"context"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
)

// square is z², whose network has y known in closed form.
type square struct{}

func (square) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = v * v
	}
	return nil
}

func (square) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 2 * v
	}
	return nil
}

// TestNetworkRows: without noise y is Σ v_i·⟨w_i, x⟩², with noise it scatters about
// that by σ; W has the condition number asked for and rows of mean squared norm 1.
func TestNetworkRows(t *testing.T) {
	const n = 20000
	for _, sigma := range []float64{0, 0.5} {
		s, err := NewNetwork(NetworkConfig{Activation: square{}, K: 3, D: 6, N: n, Sigma: sigma, Condition: 4, Seed: 5})
		if err != nil {
			t.Fatal(err)
		}
		var svd mat.SVD
		if !svd.Factorize(mat.NewDense(3, 6, s.Truth.Weights), mat.SVDNone) {
			t.Fatal("no singular values")
		}
		v := svd.Values(nil)
		if math.Abs(v[0]/v[2]-4) > 1e-12 || math.Abs(v[0]*v[0]+v[1]*v[1]+v[2]*v[2]-3) > 1e-12 || math.Abs(v[0]-v[1]-(v[1]-v[2])) > 1e-12 {
			t.Errorf("singular values %v", v)
		}
		data, err := dataset.Load(t.Context(), s)
		if err != nil || data.N != n {
			t.Fatal(data.N, err)
		}
		var squares float64
		for _, b := range data.Blocks {
			for r := range b.N {
				e := b.Y[r]
				for i := range s.Truth.K {
					z := 0.0
					for j := range s.Truth.D {
						z += s.Truth.Unit(i)[j] * b.Col(j)[r]
					}
					e -= s.Truth.Output[i] * z * z
				}
				squares += e * e
			}
		}
		// Five standard errors of a mean of squared normals.
		if got := squares / n; math.Abs(got-sigma*sigma) > 1e-24+5*sigma*sigma*math.Sqrt(2.0/n) {
			t.Errorf("σ = %v: mean squared residual %v", sigma, got)
		}
	}
}

func TestNetworkRefusals(t *testing.T) {
	for want, c := range map[string]NetworkConfig{
		"linearly independent": {K: 4, D: 3, N: 10},
		"output weight 1 is 0": {K: 2, D: 3, N: 10, Output: []float64{0, 1}},
		"1 output weights":     {K: 2, D: 3, N: 10, Output: []float64{1}},
		"condition":            {K: 2, D: 3, N: 10, Condition: math.NaN()},
		"beyond 1e+15":         {K: 2, D: 3, N: 10, Condition: 1e16},
		"a single unit":        {K: 1, D: 3, N: 10, Condition: 2},
		"n = 0":                {K: 1, D: 3},
		"k = 0":                {D: 3, N: 1},
		"sigma":                {K: 1, D: 3, N: 1, Sigma: -1},
		"more than a file":     {K: 1, D: 3, N: math.MaxInt},
	} {
		if _, err := NewNetwork(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
