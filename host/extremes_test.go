package host_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// matrices draws a data set from k experts over d features; with sigma 0 its
// target is exact.
func matrices(t *testing.T, act sdk.Activation, k, d, n int, sigma float64) (*mat.Dense, []float64) {
	t.Helper()
	tiny := max(sigma, 1e-300) // vanishes beside any target
	s, err := sample.New(sample.Config{Activation: act, K: k, D: d, N: n, Sigma: tiny, Design: sample.Random, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	x, y, row := mat.NewDense(n, d, nil), []float64(nil), 0
	err = s.Read(t.Context(), func(b *model.Block) error {
		for i := range b.N {
			for j := range d {
				x.Set(row, j, b.Col(j)[i])
			}
			row++
		}
		y = append(y, b.Y...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return x, y
}

// TestNoiselessData: the likelihood of data without noise has no maximum. The
// fit ends at the floor of σ, converged, with residuals of its size, and says so.
func TestNoiselessData(t *testing.T) {
	testslow.Mark(t)
	for _, name := range []string{"identity", "relu", "leakyrelu", "sigmoid"} {
		for k := 1; k <= 3; k++ {
			t.Run(fmt.Sprintf("%s k=%d", name, k), func(t *testing.T) {
				plugin, err := catalog.Open(t.Context(), name, nil)
				if err != nil {
					t.Fatal(err)
				}
				x, y := matrices(t, plugin.Activation, k, 6, 2000, 0)
				m, err := host.Fit(t.Context(), plugin.Activation, dataset.Matrix(x, y), host.Config{K: k, Method: host.Auto{Starts: 4}})
				if err != nil {
					t.Fatal(err)
				}
				if !m.Fit.Converged || m.Sigma[0] > 1e-7 {
					t.Errorf("status %s, sigma %v", m.Fit.Status, m.Sigma[0])
				}
				if !slices.ContainsFunc(m.Fit.Notes, func(n string) bool { return strings.Contains(n, "floor") }) {
					t.Errorf("no note on the floor of sigma in %q", m.Fit.Notes)
				}
			})
		}
	}
}

// TestMagnitudes: units of any size a float64's fourth power can hold give the
// same fit; those beyond are refused by the column's name.
func TestMagnitudes(t *testing.T) {
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	fit := func(unitX, unitY float64) (float64, error) {
		x, y := matrices(t, plugin.Activation, 2, 5, 2000, 0.05)
		x.Scale(unitX, x)
		for i := range y {
			y[i] *= unitY
		}
		m, err := host.Fit(t.Context(), plugin.Activation, dataset.Matrix(x, y), host.Config{K: 2})
		if err != nil {
			return 0, err
		}
		return m.Fit.LogLikelihood + 2000*math.Log(unitY), nil
	}
	want, err := fit(1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, unit := range [][2]float64{{1e-70, 1}, {1e70, 1}, {1, 1e-70}, {1, 1e70}} {
		// Log-likelihoods of optima that are one differ by less than 0.5; the
		// reference is off by rounding alone.
		if got, err := fit(unit[0], unit[1]); err != nil || math.Abs(got-want) > 1e-3 {
			t.Errorf("units %v: log-likelihood %v, want %v, error %v", unit, got, want, err)
		}
	}
	for _, unit := range [][2]float64{{1e-80, 1}, {1e160, 1}, {1, 1e-160}, {1, 1e300}} {
		var fault *dataset.Error
		if _, err := fit(unit[0], unit[1]); !errors.As(err, &fault) || !strings.Contains(fault.Msg, "column") {
			t.Errorf("units %v: error %v, want one that names the column", unit, err)
		}
	}
}

// TestProgressBeforeTheFirstStart: the first starts take the longest; what they
// are is said before they run.
func TestProgressBeforeTheFirstStart(t *testing.T) {
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := matrices(t, plugin.Activation, 2, 5, 500, 0.05)
	first := -1
	_, err = host.Fit(t.Context(), plugin.Activation, dataset.Matrix(x, y), host.Config{K: 2, Progress: func(stage host.Stage, done, _ int) {
		if stage == host.StageScreening && first < 0 {
			first = done
		}
	}})
	if err != nil || first != 0 {
		t.Errorf("first told of %d starts, want 0; error %v", first, err)
	}
}

// TestFeatureFarFromZero: a column such as a year, or one nearly constant, costs
// the fit nothing, though there is no intercept to take up its mean. Divided by
// their sd, not their rms, such columns lead to local optima, out of which more starts
// than one find their way.
func TestFeatureFarFromZero(t *testing.T) {
	testslow.Mark(t)
	plugin, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	fit := func(mean, sd float64) float64 {
		x, y := matrices(t, plugin.Activation, 2, 6, 2000, 0.05)
		n, d := x.Dims()
		z := rand.New(rand.NewPCG(5, 0))
		for i := range n {
			x.Set(i, d-1, mean+sd*z.NormFloat64()) // y has nothing to do with it now
		}
		for i := range y {
			y[i] = x.At(i, 0)
			if x.At(i, 1) > x.At(i, 2) {
				y[i] = x.At(i, 3)
			}
			y[i] += 0.05 * z.NormFloat64()
		}
		m, err := host.Fit(t.Context(), plugin.Activation, dataset.Matrix(x, y), host.Config{K: 2, Method: host.Auto{Starts: 1}})
		if err != nil {
			t.Fatal(err)
		}
		return m.Fit.LogLikelihood
	}
	want := fit(0, 1)
	for _, c := range [][2]float64{{2000, 5}, {1, 1e-6}, {1, 1e-9}, {-1e6, 1}} {
		// Four parameters of an unrelated column gain χ²₄/2 on either side: above
		// 15 once in 5e5 fits. Local optima lie thousands below.
		if got := fit(c[0], c[1]); math.Abs(got-want) > 30 {
			t.Errorf("mean %g, sd %g: log-likelihood %v, beside %v for a standard column", c[0], c[1], got, want)
		}
	}
}
