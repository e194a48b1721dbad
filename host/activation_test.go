package host

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk"
)

// TestConstantActivation: what does not depend on its argument is refused, by
// name, and not carried into a fit that divides by its variance.
func TestConstantActivation(t *testing.T) {
	x, y := mat.NewDense(50, 2, nil), make([]float64, 50)
	for i := range y {
		x.Set(i, 0, float64(i%7)-3)
		x.Set(i, 1, float64(i%5)-2)
		y[i] = float64(i % 3)
	}
	for name, c := range map[string]float64{"zero": 0, "one": 1, "large": 1e9} {
		act := sdk.Func{Name: name, G: func(float64) float64 { return c }, DG: func(float64) float64 { return 0 }}
		_, err := Fit(t.Context(), act, dataset.Matrix(x, y), Config{K: 1})
		var request *RequestError
		if !errors.As(err, &request) || !strings.Contains(err.Error(), name+" is constant") {
			t.Errorf("%s: error %v, want a RequestError that names it", name, err)
		}
	}
}

// TestWrongDerivative: a g′ that is not that of g would give standard errors that
// are off, or a fit that goes nowhere; it is refused before the data are read. A
// kink is no fault.
func TestWrongDerivative(t *testing.T) {
	src := unread{t}
	tanh := func(z float64) float64 { return 1 - math.Tanh(z)*math.Tanh(z) }
	for name, dg := range map[string]func(float64) float64{
		"a third too large": func(z float64) float64 { return 1.3 * tanh(z) },
		"negative":          func(z float64) float64 { return -tanh(z) },
		"of another":        math.Cosh,
	} {
		_, err := Fit(t.Context(), sdk.Func{Name: "tanh", G: math.Tanh, DG: dg}, src, Config{K: 1})
		var claim *ClaimError
		if !errors.As(err, &claim) || claim.Call != "Deriv" {
			t.Errorf("%s: error %v, want a ClaimError on Deriv", name, err)
		}
	}
	for _, f := range []sdk.Func{
		{Name: "abs", G: math.Abs, DG: func(z float64) float64 { return math.Copysign(1, z) }, Kinks: []float64{0}},
		{Name: "tanh", G: math.Tanh, DG: tanh},
	} {
		x, y := mat.NewDense(60, 1, nil), make([]float64, 60)
		for i := range y {
			x.Set(i, 0, float64(i%9)-4)
			y[i] = f.G(x.At(i, 0)) + 0.1*float64(i%3)
		}
		if _, err := Fit(t.Context(), f, dataset.Matrix(x, y), Config{K: 1}); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
}

// unread is a table that may not be read.
type unread struct{ t *testing.T }

func (u unread) Schema() dataset.Schema { return dataset.Names(1, true) }

func (u unread) Read(context.Context, func(*model.Block) error) error {
	u.t.Error("the data are read")
	return nil
}

// TestNameThatCannotBeWritten is refused before the fit, and not when the model
// is written.
func TestNameThatCannotBeWritten(t *testing.T) {
	for _, name := range []string{"", "../relu", "ReLU", "a b"} {
		act := sdk.Func{Name: name, G: math.Tanh, DG: func(z float64) float64 { return 1 - math.Tanh(z)*math.Tanh(z) }}
		var request *RequestError
		if _, err := Fit(t.Context(), act, unread{t}, Config{K: 1}); !errors.As(err, &request) {
			t.Errorf("name %q: error %v, want a RequestError", name, err)
		}
	}
}

// TestNothingToFit: what is missing is a mistake in the program.
func TestNothingToFit(t *testing.T) {
	act := sdk.Func{Name: "tanh", G: math.Tanh}
	for _, c := range []struct {
		want string
		call func()
	}{
		{"host: no activation", func() { Fit(t.Context(), nil, unread{t}, Config{K: 1}) }},
		{"host: no activation", func() { Fit(t.Context(), nil, unread{t}, Config{K: 2, Leaves: []sdk.Activation{act, nil}}) }},
		{"host: an activation beside those of the leaves", func() {
			Fit(t.Context(), act, unread{t}, Config{K: 1, Leaves: []sdk.Activation{act}})
		}},
		{"host: no data", func() { FitRange(t.Context(), act, nil, 1, 2, Config{}) }},
		{"shard: no sums", func() { FitSums(t.Context(), act, nil, "", Config{K: 1}) }},
		{"dataset: no matrix", func() { dataset.Matrix(nil, nil) }},
	} {
		func() {
			defer func() {
				if got := recover(); got != c.want {
					t.Errorf("panic %v, want %q", got, c.want)
				}
			}()
			c.call()
		}()
	}
	var request *RequestError
	_, err := FitTargets(t.Context(), act, []Target{{}}, Config{K: 1})
	_, shared := FitSharedGate(t.Context(), act, []Target{{Source: unread{t}}, {}}, Diagonal, Config{K: 1})
	if !errors.As(err, &request) || !errors.As(shared, &request) {
		t.Errorf("targets without data: %v; under one gate %v", err, shared)
	}
}
