package tensor

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// randomTensors returns symmetric tensors with no structure at all.
func randomTensors(rng *rand.Rand, m int) (*mat.SymDense, *Sym4) {
	t2, t4 := mat.NewSymDense(m, nil), NewSym4(m)
	for i := range m {
		for j := i; j < m; j++ {
			t2.SetSym(i, j, rng.NormFloat64())
		}
	}
	for i := range t4.Data {
		t4.Data[i] = rng.NormFloat64()
	}
	return t2, t4
}

func TestL4GradientByDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	t2, t4 := randomTensors(rng, 4)
	for name, l := range map[string]*L4{
		"free":      NewL4(3, t2, t4, 0.3, 2, 0.1),
		"unit rows": NewUnitL4(3, t4, 0.3),
	} {
		x, grad := make([]float64, l.Dim()), make([]float64, l.Dim())
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		l.Grad(t.Context(), grad, x)
		const h = 1e-5 // error of the difference 1e−10 times third derivatives of order 10
		for i := range x {
			x[i] += h
			up, _ := l.Value(t.Context(), x)
			x[i] -= 2 * h
			down, _ := l.Value(t.Context(), x)
			x[i] += h
			if want := (up - down) / (2 * h); !(math.Abs(grad[i]-want) <= 1e-7*(1+math.Abs(want))) {
				t.Errorf("%s: gradient[%d] = %v, differences give %v", name, i, grad[i], want)
			}
		}
	}
}

// TestL4MinimumIsThePseudoInverse is 002 Theorem 1 with regressors that are not
// orthogonal: at (A†)ᵀ = Γ·A* the cross terms and the norm terms of the
// population L4 are at their least, 0, and only the terms in Mu pull.
func TestL4MinimumIsThePseudoInverse(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	const k, d = 3, 6
	truth := mat.NewDense(k, d, nil)
	for i := range k {
		row := truth.RawRowView(i)
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	p := []float64{0.5, 0.3, 0.2}
	t2, t4 := Population(p, truth)
	scaled := mat.NewDense(k, d, nil)
	for i := range k {
		floats.ScaleTo(scaled.RawRowView(i), math.Sqrt(p[i]), truth.RawRowView(i))
	}
	dual, err := PseudoInverseRows(scaled)
	if err != nil {
		t.Fatal(err)
	}
	const mu, lambda = 0.01, 1e4
	l := NewL4(k, t2, t4, mu, lambda, 0)
	grad := make([]float64, l.Dim())
	l.Grad(t.Context(), grad, dual.RawMatrix().Data)
	// Their gradient is −4·Mu·T4(·,a,a,a) = −4·Mu·p^{−1/2}·a*, along the row that
	// Lambda holds: D = 1 + O(Mu/Lambda) balances it.
	for i := range k {
		want := make([]float64, d)
		floats.ScaleTo(want, -4*mu/math.Sqrt(p[i]), truth.RawRowView(i))
		if !floats.EqualApprox(grad[i*d:(i+1)*d], want, 1e-9) {
			t.Errorf("row %d: gradient %v, want %v", i, grad[i*d:(i+1)*d], want)
		}
	}
}

// TestUnboundedBelow: along a ray in whose direction T2 has nothing and T4 has
// something, L4 falls without bound; on the reduced problem it cannot.
func TestUnboundedBelow(t *testing.T) {
	t2, t4 := mat.NewSymDense(2, []float64{1, 0, 0, 0.01}), NewSym4(2)
	t4.AddRankOne(1, []float64{1, 0})
	t4.AddRankOne(0.5, []float64{0, 1})
	l := NewL4(1, t2, t4, 0.1, 10, 0)
	near, _ := l.Value(t.Context(), []float64{0, 10})
	far, _ := l.Value(t.Context(), []float64{0, 1000})
	if !(far < near && far < -1e9) {
		t.Errorf("L4 is %v at 10 and %v at 1000 along the ray", near, far)
	}
	unit := NewUnitL4(1, t4, 0.1)
	near, _ = unit.Value(t.Context(), []float64{0, 10})
	far, _ = unit.Value(t.Context(), []float64{0, 1000})
	if !(math.Abs(near-far) <= 1e-15) {
		t.Errorf("with unit rows L4 is %v at 10 and %v at 1000 along the ray", near, far)
	}
}
