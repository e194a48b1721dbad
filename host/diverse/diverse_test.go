package diverse

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// draw returns m points of the sphere, n standard normal weights and signs.
func draw(rng *rand.Rand, n, m, d int) (w, x *mat.Dense, v, y []float64) {
	x = mat.NewDense(m, d, model.RandomDirections(rng, m, d))
	w = mat.NewDense(n, d, nil)
	w.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, w)
	v, y = make([]float64, n), make([]float64, m)
	for k := range v {
		v[k] = float64(1 - 2*rng.IntN(2))
	}
	for l := range y {
		y[l] = rng.NormFloat64()
	}
	return w, x, v, y
}

// tol is the precision of the identities.
const tol = 1e-10

// TestGradientIsDTimesR: ∂L/∂W = D·r, and G_n = DᵀD/n, entry by entry.
func TestGradientIsDTimesR(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const n, m, d = 12, 9, 5
	w, x, v, y := draw(rng, n, m, d)
	big := Extended(w, v, x)
	var gram mat.Dense
	gram.Mul(big.T(), big)
	gram.Scale(1.0/n, &gram)
	if !mat.EqualApprox(&gram, GramOf(w, x), tol) {
		t.Error("G_n is not DᵀD/n")
	}
	r := Residuals(w, v, x, y)
	floats.Scale(1.0/m, r)
	var want mat.VecDense
	want.MulVec(big, mat.NewVecDense(m, r))
	o, err := NewObjective(x, y, v, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float64, n*d)
	value, err := o.Grad(t.Context(), got, w.RawMatrix().Data)
	if err != nil || !floats.EqualApprox(got, want.RawVector().Data, tol) {
		t.Errorf("the gradient is not D·r (%v)", err)
	}
	if l := floats.Dot(r, r) * m / 2; math.Abs(value-l) > tol {
		t.Errorf("L = %v, want %v", value, l)
	}
	// ‖r‖ ≤ ‖∂L/∂W‖/s_m(D), with s_m² = n·λ_m(G_n).
	least, err := Least(GramOf(w, x))
	if err != nil || floats.Norm(r, 2) > floats.Norm(got, 2)/math.Sqrt(n*least)+tol {
		t.Errorf("‖r‖ = %v above ‖∂L/∂W‖/s_m = %v", floats.Norm(r, 2), floats.Norm(got, 2)/math.Sqrt(n*least))
	}
}

// TestManyPoints: more points than a block of rows has.
func TestManyPoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const n, m, d = 3, 2*model.BlockRows + 40, 4
	w, x, v, y := draw(rng, n, m, d)
	o, err := NewObjective(x, y, v, 0)
	if err != nil {
		t.Fatal(err)
	}
	var want mat.VecDense
	want.MulVec(Extended(w, v, x), mat.NewVecDense(m, Residuals(w, v, x, y)))
	want.ScaleVec(1.0/m, &want)
	got := make([]float64, n*d)
	if _, err := o.Grad(t.Context(), got, w.RawMatrix().Data); err != nil || !floats.EqualApprox(got, want.RawVector().Data, tol) {
		t.Errorf("the gradient is not D·r (%v)", err)
	}
}

// TestReLU: the derivative at 0 is 0.
func TestReLU(t *testing.T) {
	z := []float64{-2, 0, 3}
	g, slope := make([]float64, 3), make([]float64, 3)
	if err := errors.Join(ReLU{}.Eval(t.Context(), g, z), ReLU{}.Deriv(t.Context(), slope, z)); err != nil || !slices.Equal(g, []float64{0, 0, 3}) || !slices.Equal(slope, []float64{0, 0, 1}) {
		t.Errorf("%v and %v, %v", g, slope, err)
	}
}

// TestDiscrepancyAndRegulariser: L2² = (n−1)/n·R + 1/(4n) − E k² for any rows, and R's
// gradient by differences, of R and of L + λR.
func TestDiscrepancyAndRegulariser(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	const n, m, d = 7, 6, 4
	w, x, v, y := draw(rng, n, m, d)
	flat := w.RawMatrix().Data
	r, err := Regulariser{n, d}.Value(t.Context(), flat)
	if want := (n-1.0)/n*r + 1/(4.0*n) - MeanSquare(d); err != nil || math.Abs(Discrepancy(w)-want) > tol {
		t.Errorf("L2² = %v, by R %v (%v)", Discrepancy(w), want, err)
	}
	o, err := NewObjective(x, y, v, 0.7)
	if err != nil {
		t.Fatal(err)
	}
	grad, both := make([]float64, n*d), make([]float64, n*d)
	_, _ = Regulariser{n, d}.Grad(t.Context(), grad, flat)
	_, _ = o.Grad(t.Context(), both, flat)
	const h = 1e-6 // differences are good to 1e−16/h
	for i := range flat {
		at := append([]float64(nil), flat...)
		at[i] += h
		up, _ := Regulariser{n, d}.Value(t.Context(), at)
		upBoth, _ := o.Value(t.Context(), at)
		at[i] -= 2 * h
		down, _ := Regulariser{n, d}.Value(t.Context(), at)
		downBoth, _ := o.Value(t.Context(), at)
		if want := (up - down) / (2 * h); math.Abs(grad[i]-want) > 1e-8 {
			t.Errorf("∂R %d = %v, by differences %v", i, grad[i], want)
		}
		if want := (upBoth - downBoth) / (2 * h); math.Abs(both[i]-want) > 1e-7 {
			t.Errorf("∂(L+λR) %d = %v, by differences %v", i, both[i], want)
		}
	}
	// Parallel rows.
	same := mat.NewDense(2, 2, []float64{1, 0, 2, 0})
	if r, err := (Regulariser{2, 2}).Value(t.Context(), same.RawMatrix().Data); err != nil || math.Abs(r-0.25) > 1e-15 {
		t.Errorf("R of parallel rows = %v (%v)", r, err)
	}
}

// TestExpectations: E k² against quadrature over the sphere, G against the mean of
// G_n over many weights.
func TestExpectations(t *testing.T) {
	for _, d := range []int{2, 3, 4, 5, 20, 101} {
		want := gauss.Sphere(d, func(u float64) float64 { return Kernel(u) * Kernel(u) })
		if got := MeanSquare(d); math.Abs(got-want) > 1e-13 {
			t.Errorf("d = %d: E k² = %v, by quadrature %v", d, got, want)
		}
	}
	rng := rand.New(rand.NewPCG(3, 1))
	const n, m, d = 40000, 8, 3
	w, x, _, _ := draw(rng, n, m, d)
	g, gn := Gram(x), GramOf(w, x)
	for i := range m {
		for j := range m {
			// A share of n weights: five standard errors of at most ½/√n.
			if math.Abs(g.At(i, j)-gn.At(i, j)) > 5*0.5/math.Sqrt(n) {
				t.Errorf("G %d,%d = %v, over weights %v", i, j, g.At(i, j), gn.At(i, j))
			}
		}
	}
}

// TestLevels: odd degrees from 3 on vanish by quadrature too, the eigenvalues
// with their multiplicities sum to no more than κ(1) = ½, their squares to E κ², and the
// multiplicities of low degrees are 1, d and d(d+1)/2 − 1.
func TestLevels(t *testing.T) {
	const d = 20
	levels := Levels(d, 14)
	if len(levels) != 15 || levels[3].Value != 0 || levels[13].Value != 0 || levels[2].Value == 0 {
		t.Errorf("%d levels, of degree 2, 3 and 13 %v, %v and %v", len(levels), levels[2].Value, levels[3].Value, levels[13].Value)
	}
	for l, level := range Levels(3, 6) { // of the sphere in three dimensions, and in four
		if four := Levels(4, 6)[l].Multiplicity; level.Multiplicity != float64(2*l+1) || four != float64((l+1)*(l+1)) {
			t.Errorf("degree %d: %v and %v harmonics", l, level.Multiplicity, four)
		}
	}
	var sum, squares float64
	for _, l := range levels {
		sum += l.Multiplicity * l.Value
		squares += l.Multiplicity * l.Value * l.Value
	}
	if sum > 0.5+tol {
		t.Errorf("trace %v, want at most ½", sum)
	}
	want := gauss.Sphere(d, func(u float64) float64 { return Kernel(u) * u * Kernel(u) * u })
	if math.Abs(squares-want) > 1e-6*want {
		t.Errorf("Σ γ² = %v, want %v", squares, want)
	}
	if levels[0].Multiplicity != 1 || levels[1].Multiplicity != d || levels[2].Multiplicity != d*(d+1)/2-1 {
		t.Errorf("multiplicities %v, %v, %v", levels[0].Multiplicity, levels[1].Multiplicity, levels[2].Multiplicity)
	}
	for _, l := range []int{3, 5, 7} {
		if v := gauss.Sphere(d, func(u float64) float64 { return Kernel(u) * u * gegenbauer(d, l, u) }); math.Abs(v) > 1e-15 {
			t.Errorf("degree %d has eigenvalue %v, want 0", l, v)
		}
	}
	// γ_100 is of degree 2: by the series arcsin t = Σ C(2i,i)/(4^i(2i+1))·t^{2i+1} and
	// E t^{2q} = Π (2i−1)/(d+2i−2), with P_2 = (d·t² − 1)/(d−1).
	moment := func(q int) float64 {
		out := 1.0
		for i := 1; i <= q; i++ {
			out *= float64(2*i-1) / float64(d+2*i-2)
		}
		return out
	}
	series, a := 0.0, 1.0
	for i := range 200 {
		series += a / float64(2*i+1) * (d*moment(i+2) - moment(i+1)) / (d - 1) / (2 * math.Pi)
		a *= float64(2*i+1) / float64(2*i+2)
	}
	gamma := Gamma(d, 100)
	if len(gamma) != 100 || math.Abs(gamma[99]-series) > 1e-14 {
		t.Errorf("γ_100 = %v, by its series %v", gamma[99], series)
	}
	for m, g := range gamma {
		if g > 1/(2*float64(m+1)) {
			t.Errorf("γ_%d = %v is above 1/(2m)", m+1, g)
		}
	}
}
