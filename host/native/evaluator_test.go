package native_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/sdk"
)

// TestEvaluator: the activation itself, unless an approximation is asked for and
// can be had; where it cannot a note says why.
func TestEvaluator(t *testing.T) {
	smooth := sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { return 1 / (math.Cosh(z) * math.Cosh(z)) }}
	rough := sdk.Func{Name: "rough", G: func(z float64) float64 { return z + math.Sin(1e9*z) }, DG: func(z float64) float64 { return 1 + 1e9*math.Cos(1e9*z) }}
	for name, c := range map[string]struct {
		act         sdk.Activation
		approximate bool
		native      bool
		note        string
	}{
		"itself":      {smooth, false, false, ""},
		"approximate": {smooth, true, true, ""},
		"rough":       {rough, true, false, "every value was asked of it"},
	} {
		e, err := native.EvaluatorOf(t.Context(), c.act, c.approximate)
		if err != nil {
			t.Fatal(err)
		}
		if (e.Native != nil) != c.native || (e.Note != "") != (c.note != "") || !strings.Contains(e.Note, c.note) {
			t.Errorf("%s: native %v, note %q", name, e.Native != nil, e.Note)
		}
		z := []float64{-2.25, -0.1, 0, 0.3, 4}
		got, want := make([]float64, 5), make([]float64, 5)
		if err := errors.Join(e.Eval(t.Context(), got, z), c.act.Eval(t.Context(), want, z)); err != nil || !floats.EqualApprox(got, want, 1e-11) {
			t.Errorf("%s: %v, want %v, error %v", name, got, want, err)
		}
	}
}
