package mixture

import (
	"math"
	"testing"
)

// TestGammaFar: at a mean beyond the numbers log f is one, that of the largest mean, and it is above that of a mean so
// small that y over it is no number. Of ν·(log(y/m) − y/m + 1) the first is −ν·709 or so, the second −ν·e^744.
func TestGammaFar(t *testing.T) {
	dst := make([]float64, 3)
	Gamma{}.LogDensity(dst, make([]float64, 3), []float64{1.2, 1.2, 1.2}, []float64{math.Inf(1), 0, math.MaxFloat64},
		[]float64{3})
	if dst[0] != dst[2] || !(dst[0] > -3000) || !(dst[1] < -1e300) {
		t.Errorf("log f %v", dst)
	}
}
