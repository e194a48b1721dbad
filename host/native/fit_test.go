package native_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

func draw(t testing.TB, act sdk.Activation, n int, seed uint64) dataset.Source {
	t.Helper()
	src, err := sample.New(sample.Config{Activation: act, K: 2, D: 6, N: n, Sigma: 0.05, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func fit(t testing.TB, act sdk.Activation, src dataset.Source, cfg host.Config) *fitted.Model {
	t.Helper()
	m, err := host.Fit(t.Context(), act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// farthest returns the largest difference between two models' parameters.
func farthest(a, b *model.Params) float64 {
	worst := 0.0
	for _, pair := range [][2][]float64{{a.Regressors, b.Regressors}, {a.Gating, b.Gating}, {a.Sigma, b.Sigma}} {
		for i, v := range pair[0] {
			worst = max(worst, math.Abs(v-pair[1][i]))
		}
	}
	return worst
}

func file(t testing.TB, m *fitted.Model) []byte {
	t.Helper()
	data, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestFit: a fit on the approximation has the parameters of the fit on the
// activation itself to 1e−8, and where the activation consists of lines the same
// file to the byte. A few hundred mini-batches of a descent are enough: each of them
// would be a call of the activation.
func TestFit(t *testing.T) {
	testslow.Mark(t)
	methods := []host.Method{
		host.Auto{Starts: 2}, host.Moments{}, host.EM{Starts: 2},
		host.L2{Starts: 2, MiniBatches: host.MiniBatches{Epochs: 20}}, host.L4{MiniBatches: host.MiniBatches{Epochs: 200}},
	}
	byName := map[string]sdk.Func{}
	for _, act := range append(append([]sdk.Func{}, lines...), curves...) {
		byName[act.Name] = act
	}
	for _, name := range []string{"identity", "relu", "leakyrelu", "sigmoid", "softplus", "gelu", "elu-half", "hinge"} {
		t.Run(name, func(t *testing.T) {
			act := byName[name]
			worst := 0.0
			for seed := range uint64(2) {
				for _, method := range methods {
					src, cfg := draw(t, act, 1000, seed), host.Config{K: 2, Seed: seed, Method: method}
					direct := fit(t, act, src, cfg)
					cfg.Approximate = true
					counted := &spy{Activation: act}
					approximated := fit(t, counted, src, cfg)
					worst = max(worst, farthest(direct.Params(), approximated.Params()))
					c := approximated.Approximation
					if direct.Approximation != nil || c == nil {
						t.Fatal("the model carries an approximation where none was asked for, or none where one was")
					}
					if approximated.Approximation = nil; c.Value.Exact() && c.Derivative.Exact() &&
						!bytes.Equal(file(t, direct), file(t, approximated)) {
						t.Errorf("seed %d, %s: exact lines, another file", seed, method.Name())
					}
					// Blocks of rows of one pass alone would be 4 calls.
					if calls := counted.calls.Load(); calls > 200 {
						t.Errorf("seed %d, %s: %d calls of the activation", seed, method.Name(), calls)
					}
				}
			}
			t.Logf("parameters differ by %.1e", worst)
			if worst > 1e-8 {
				t.Errorf("parameters differ by %.2e", worst)
			}
		})
	}
}

// TestFitOfRough: where there is no approximation the fit takes every value from
// the activation, and says so.
func TestFitOfRough(t *testing.T) {
	testslow.Mark(t)
	// A saw of slopes 1 ± 1e−7, with more kinks than panels.
	const teeth, slope = 200, 1e-7
	act := sdk.Func{Name: "grainy",
		G:  func(z float64) float64 { return z + slope*math.Abs(z-math.Round(z*teeth)/teeth) },
		DG: func(z float64) float64 { return 1 + math.Copysign(slope, z-math.Round(z*teeth)/teeth) },
	}
	src := draw(t, act, 2000, 1)
	direct := fit(t, act, src, host.Config{K: 2})
	asked := fit(t, act, src, host.Config{K: 2, Approximate: true})
	if n := len(asked.Fit.Notes); n == 0 || !strings.Contains(asked.Fit.Notes[n-1], `"grainy" cannot be approximated`) {
		t.Errorf("notes %q", asked.Fit.Notes)
	}
	asked.Fit.Notes = direct.Fit.Notes
	if !bytes.Equal(file(t, direct), file(t, asked)) {
		t.Error("another file than that of the fit without approximation")
	}
}

// TestPredictionsFromTheFile: a model read from a file predicts without the
// activation as the activation does; a row out of range is an error.
func TestPredictionsFromTheFile(t *testing.T) {
	act := curves[5] // ELU, with a kink
	src := draw(t, act, 2000, 1)
	m := fit(t, act, src, host.Config{K: 2, Approximate: true})
	path := t.TempDir() + "/model.json"
	if err := m.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	read, err := fitted.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := native.New(read.Approximation, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := predict.Evaluate(t.Context(), read.Params(), f, src)
	if err != nil {
		t.Fatal(err)
	}
	want, err := predict.Evaluate(t.Context(), m.Params(), act, src)
	if err != nil {
		t.Fatal(err)
	}
	// Errors of 1e−13 in g, residuals of 0.05 over σ² = 0.0025, 2000 rows.
	if math.Abs(got.LogLikelihood-want.LogLikelihood) > 1e-7 || math.Abs(got.RMSE-want.RMSE) > 1e-12 {
		t.Errorf("%+v from the file, %+v from the activation", got, want)
	}
}
