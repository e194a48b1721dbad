package scaling

import (
	"math"
	"math/rand/v2"
	"testing"
)

var all = []Scale{"", Log, Sqrt, Reciprocal}

// TestScale: Back is the inverse, LogSlope the log of the derivative's size by differences, and what has no h(y) is refused.
func TestScale(t *testing.T) {
	for _, s := range all {
		for _, y := range []float64{1e-3, 0.7, 1, 5, 1234.5} {
			v := s.Of(y)
			if got := s.Back(v); math.Abs(got-y) > 1e-12*y {
				t.Errorf("%q: %v comes back as %v", s, y, got)
			}
			h := 1e-5 * y
			slope := (s.Of(y+h) - s.Of(y-h)) / (2 * h)
			if got, want := s.LogSlope(v), math.Log(math.Abs(slope)); math.Abs(got-want) > 1e-8 { // differences of second order
				t.Errorf("%q at %v: log slope %v, want %v", s, y, got, want)
			}
			if slope < 0 != s.Falls() {
				t.Errorf("%q falls: %v", s, s.Falls())
			}
		}
		for _, y := range []float64{0, -1, math.Inf(1), math.NaN()} {
			if s != "" && s.Holds(y) {
				t.Errorf("%q holds %v", s, y)
			}
		}
	}
	if Reciprocal.Holds(5e-324) || !Log.Holds(5e-324) || !Scale("").Holds(-1) || Scale("cube").Known() {
		t.Error("a number whose reciprocal is none, the least number's log, a target itself, or an unknown scale")
	}
	if v := Sqrt.Back(-1); v != 0 {
		t.Errorf("the square of a root below 0 is %v", v)
	}
	if v := Reciprocal.Back(-1); !math.IsInf(v, 1) {
		t.Errorf("below 0 the reciprocal comes back as %v", v)
	}
}

// TestMean: the mean of y over draws of h(y), within four standard errors (1 in 16,000 for each of 4).
func TestMean(t *testing.T) {
	const n = 200000
	for _, s := range []Scale{Log, Sqrt} {
		for _, c := range [][2]float64{{0.5, 0.4}, {2, 0.2}} {
			rng := rand.New(rand.NewPCG(1, uint64(10*c[0])))
			sum, squares := 0.0, 0.0
			for range n {
				v := c[0] + c[1]*rng.NormFloat64()
				y := math.Exp(v)
				if s == Sqrt {
					y = v * v
				}
				sum, squares = sum+y, squares+y*y
			}
			mean := sum / n
			se := math.Sqrt((squares/n - mean*mean) / n)
			if got := s.Mean(c[0], c[1]); math.Abs(got-mean) > 4*se {
				t.Errorf("%s of N(%v, %v²): mean %v, the draws have %v ± %v", s, c[0], c[1], got, mean, se)
			}
		}
	}
	if !math.IsNaN(Reciprocal.Mean(1, 0.1)) || Reciprocal.HasMean() || Reciprocal.Point(4, 1) != 0.25 || !math.IsNaN(Reciprocal.Point(-1, 1)) {
		t.Error("the reciprocal has a mean, or not the median 1/m")
	}
}
