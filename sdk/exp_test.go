package sdk_test

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
)

// TestExp holds Exp to 2 ulps of math.Exp, which is itself within 1, and a value in a batch
// to the same alone and in place.
func TestExp(t *testing.T) {
	z := []float64{math.Inf(-1), -746, -745, -1, -1e-300, 0, 1e-300, 0.5, 1, 20, 709, 710, math.Inf(1)}
	batch := make([]float64, len(z))
	sdk.Exp(batch, z)
	for i, v := range z {
		want, got := math.Exp(v), batch[i]
		if ulp := math.Nextafter(want, math.Inf(1)) - want; got != want && !(math.Abs(got-want) <= 2*ulp) {
			t.Errorf("exp(%g) = %g, want %g", v, got, want)
		}
		alone := []float64{v}
		if sdk.Exp(alone, alone); alone[0] != got {
			t.Errorf("exp(%g) is %g in a batch, %g alone", v, got, alone[0])
		}
	}
}
