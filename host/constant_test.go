package host

import (
	"errors"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
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
