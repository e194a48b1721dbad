package infer

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/loss"
)

// TestMixtureInterval: of one optimum it is the normal interval, whatever optima without a weight say; of two its ends
// have the tails that they should by the definition.
func TestMixtureInterval(t *testing.T) {
	lower, upper := MixtureInterval([]float64{0, 1}, []float64{9, 2}, []float64{1, 0.5}, 0.95)
	wantLower, wantUpper := Interval(2, 0.5, 0.95)
	if math.Abs(lower-wantLower) > 1e-12 || math.Abs(upper-wantUpper) > 1e-12 {
		t.Errorf("interval %v to %v, want %v to %v", lower, upper, wantLower, wantUpper)
	}
	w, at, se := []float64{0.7, 0.3}, []float64{0, 5}, []float64{1, 0.2}
	lower, upper = MixtureInterval(w, at, se, 0.9)
	for _, end := range []struct{ at, below float64 }{{lower, 0.05}, {upper, 0.95}} {
		below := 0.0
		for i := range w {
			below += w[i] * distuv.Normal{Mu: at[i], Sigma: se[i]}.CDF(end.at)
		}
		if math.Abs(below-end.below) > 1e-12 {
			t.Errorf("%v has %v below it, want %v", end.at, below, end.below)
		}
	}
	if lower, upper = MixtureInterval(w, []float64{3, 3}, []float64{0, 0}, 0.9); lower != 3 || upper != 3 {
		t.Errorf("a coefficient that is held at 3 lies between %v and %v", lower, upper)
	}
}

// TestWeights: they are what they are by definition where nothing overflows, and the same with 1e6 more
// log-likelihood, up to its rounding of 1e-10.
func TestWeights(t *testing.T) {
	l := []float64{-1.5, 0.25, math.Inf(-1), -4}
	sum := math.Exp(-1.5) + math.Exp(0.25) + math.Exp(-4)
	for i, w := range Weights(l) {
		if want := math.Exp(l[i]) / sum; math.Abs(w-want) > 1e-15 {
			t.Errorf("weight %v, want %v", w, want)
		}
		l[i] += 1e6
	}
	for i, w := range Weights(l) {
		if want := math.Exp(l[i]-1e6) / sum; math.Abs(w-want) > 1e-9 {
			t.Errorf("weight %v, want %v", w, want)
		}
	}
	if Weights([]float64{math.Inf(-1)}) != nil {
		t.Error("optima without a weight have weights")
	}
}

// TestLogVolume compares it with the determinant of a matrix of which it is known, of very unlike units.
func TestLogVolume(t *testing.T) {
	c := Covariance{Parameters: make([]loss.Parameter, 2), Matrix: mat.NewSymDense(2, []float64{4e100, 3, 3, 9e-100})}
	if v, ok := c.LogVolume(); !ok || math.Abs(v-math.Log(36-9)/2) > 1e-12 {
		t.Errorf("log volume %v, want %v", v, math.Log(27)/2)
	}
	c.Matrix.SetSym(0, 1, 6)
	if v, ok := c.LogVolume(); ok && v > -15 {
		t.Errorf("a singular covariance has the log volume %v", v)
	}
}
