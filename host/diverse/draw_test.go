package diverse

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// TestSpectra: the traces of G and G_n are ½·m and the sum of the shares of weights on
// whose positive side the points are; ‖G − G_n‖ is at least what Weyl's inequality asks
// of the least and the largest eigenvalue.
func TestSpectra(t *testing.T) {
	const n, m, d = 30, 12, 5
	draw := NewDraw(4, n, m, d)
	s, err := draw.Spectra()
	if err != nil {
		t.Fatal(err)
	}
	if trace := floats.Sum(s.Ideal); math.Abs(trace-m/2.0) > 1e-12 {
		t.Errorf("trace of G %v, want %v", trace, m/2.0)
	}
	shares := 0.0
	var z mat.Dense
	z.Mul(draw.X, draw.W.T())
	for l := range m {
		for k := range n {
			if z.At(l, k) > 0 {
				shares += 1.0 / n
			}
		}
	}
	if trace := floats.Sum(s.Own); math.Abs(trace-shares) > 1e-12 {
		t.Errorf("trace of G_n %v, want %v", trace, shares)
	}
	var difference mat.Dense
	difference.Sub(Gram(draw.X), GramOf(draw.W, draw.X))
	if want := spectral(t, &difference); math.Abs(s.Apart-want) > 1e-12 {
		t.Errorf("‖G − G_n‖ = %v, want %v", s.Apart, want)
	}
	ideal, own := s.Least()
	if apart := max(math.Abs(ideal-own), math.Abs(s.Ideal[0]-s.Own[0])); apart > s.Apart+1e-12 {
		t.Errorf("‖G − G_n‖ = %v, but eigenvalues are %v apart", s.Apart, apart)
	}
}

// spectral is the largest singular value.
func spectral(t *testing.T, m mat.Matrix) float64 {
	t.Helper()
	var svd mat.SVD
	if !svd.Factorize(m, mat.SVDNone) {
		t.Fatal("no singular values")
	}
	return svd.Values(nil)[0]
}

// TestLeastAndNorm: the least eigenvalue, which may be negative, and the largest in size.
func TestLeastAndNorm(t *testing.T) {
	m := mat.NewSymDense(3, []float64{2, 0, 0, 0, -4, 0, 0, 0, 3})
	least, err := Least(m)
	norm, errNorm := Norm(m)
	if err != nil || errNorm != nil || math.Abs(least+4) > 1e-12 || math.Abs(norm-4) > 1e-12 {
		t.Errorf("%v and %v, want -4 and 4 (%v, %v)", least, norm, err, errNorm)
	}
}

// TestDrawn: the signs are ±1, both of them, and the step is m/‖D‖², the inverse of the curvature of
// L with D of [Extended].
func TestDrawn(t *testing.T) {
	const n, m, d = 40, 12, 5
	draw := NewDraw(8, n, m, d)
	if least, most := floats.Min(draw.V), floats.Max(draw.V); least != -1 || most != 1 || math.Abs(floats.Sum(draw.V)) > 26 { // four standard deviations of √n
		t.Errorf("signs %v", draw.V)
	}
	step, err := draw.Step()
	if norm := spectral(t, Extended(draw.W, draw.V, draw.X)); err != nil || math.Abs(step*norm*norm/m-1) > 1e-12 {
		t.Errorf("step %v, want %v (%v)", step, m/(norm*norm), err)
	}
	if b := (State{Gradient: 3, Least: 0.25}).Bound(16); b != 1.5 { // 3/√(16·¼)
		t.Errorf("bound %v, want 1.5", b)
	}
}

// TestNoBound: D has n·d rows, so that with more points its rank is below m whatever the draw. There is no bound then,
// neither where the least eigenvalue rounds to below 0 nor where it rounds to above.
func TestNoBound(t *testing.T) {
	const n, m, d = 3, 10, 3
	above, below := 0, 0
	for seed := range uint64(12) {
		draw := NewDraw(seed, n, m, d)
		rounded, err := Least(GramOf(draw.W, draw.X))
		if err != nil {
			t.Fatal(err)
		}
		if rounded > 0 {
			above++
		} else {
			below++
		}
		begin, end, err := draw.Train(t.Context(), make([]float64, m), TrainSettings{Lambda: 0, Steps: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []State{begin, end} {
			if s.Least != 0 || !math.IsInf(s.Bound(n), 1) {
				t.Errorf("seed %d: least %v, bound %v, of rank %d at most", seed, s.Least, s.Bound(n), n*d)
			}
		}
	}
	if above == 0 || below == 0 {
		t.Errorf("%d draws round to above 0 and %d to below: the seeds try only one side", above, below)
	}
}

// TestTrain: training lowers the loss to what the weights can do, keeps ‖r‖ below its
// bound, and with a large λ lowers the discrepancy; where it begins is the same.
func TestTrain(t *testing.T) {
	const n, m, d = 60, 20, 10
	draw := NewDraw(5, n, m, d)
	test := NewDraw(7, 1, 50, d).X
	teacher := NewDraw(6, 4, 1, d)
	var ends, begins [2]State
	for i, lambda := range []float64{0, 1000} {
		var err error
		seen := 0
		begins[i], ends[i], err = draw.Train(t.Context(), teacher.Targets(draw.X), TrainSettings{Lambda: lambda, Steps: 300, TestX: test, TestY: teacher.Targets(test), Watch: func(int) { seen++ }})
		if err != nil || seen == 0 {
			t.Fatalf("%d steps seen, error %v", seen, err)
		}
		if e := ends[i]; !(e.Loss < 1e-2*begins[i].Loss) || e.Residual > e.Bound(n)*(1+1e-9) {
			t.Errorf("λ = %v: from %+v to %+v", lambda, begins[i], e)
		}
	}
	want := 0.0
	for _, r := range Residuals(draw.W, draw.V, test, teacher.Targets(test)) {
		want += r * r / (2 * 50)
	}
	if begins[0] != begins[1] || math.Abs(begins[0].Test/want-1) > 1e-12 {
		t.Errorf("begins at %+v and at %+v, with a loss on the test points of %v", begins[0], begins[1], want)
	}
	if !(ends[1].Discrepancy < 0.9*ends[0].Discrepancy) {
		t.Errorf("L2 is %v with R and %v without", ends[1].Discrepancy, ends[0].Discrepancy)
	}
	if b := (State{Gradient: 1}).Bound(n); !math.IsInf(b, 1) {
		t.Errorf("bound %v where s_m is 0", b)
	}
}
