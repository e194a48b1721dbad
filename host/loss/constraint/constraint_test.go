package constraint

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// quadratic is f(θ) = ½θᵀHθ − bᵀθ: a function whose derivatives are known everywhere.
type quadratic struct {
	h *mat.SymDense
	b []float64
}

func newQuadratic(rng *rand.Rand, n int) quadratic {
	q := quadratic{mat.NewSymDense(n, nil), make([]float64, n)}
	for i := range n {
		q.b[i] = rng.NormFloat64()
		q.h.SymRankOne(q.h, 1, mat.NewVecDense(n, normal(rng, n)))
	}
	return q
}

func (q quadratic) value(theta []float64) float64 {
	v := mat.NewVecDense(len(theta), theta)
	return mat.Inner(v, q.h, v)/2 - floats.Dot(q.b, theta)
}

func (q quadratic) gradient(theta []float64) []float64 {
	out := mat.NewVecDense(len(theta), nil)
	out.MulVec(q.h, mat.NewVecDense(len(theta), theta))
	return floats.SubTo(out.RawVector().Data, out.RawVector().Data, q.b)
}

func (q quadratic) hessian() *mat.SymDense {
	out := mat.NewSymDense(len(q.b), nil)
	out.CopySym(q.h)
	return out
}

func normal(rng *rand.Rand, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = rng.NormFloat64()
	}
	return out
}

// differences are central differences of f at θ, whose own error is 1e−10 or so of values near 1.
func differences(f func([]float64) float64, theta []float64) []float64 {
	const h = 1e-5
	out := make([]float64, len(theta))
	for i := range theta {
		x := append([]float64(nil), theta...)
		x[i] += h
		above := f(x)
		x[i] -= 2 * h
		out[i] = (above - f(x)) / (2 * h)
	}
	return out
}

// TestTies: the gradient is that of f∘P by differences, the Hessian is P·H·P in the range of P, and positive and within
// the rest across it.
func TestTies(t *testing.T) {
	const n = 7
	rng := rand.New(rand.NewPCG(41, 1))
	ties := Ties{{0, 3, 5}, {1, 6}}
	q, theta := newQuadratic(rng, n), normal(rng, n)
	at := ties.Projected(theta)
	for _, places := range ties {
		for _, i := range places {
			if at[i] != at[places[0]] {
				t.Errorf("place %d is %v, place %d %v", i, at[i], places[0], at[places[0]])
			}
		}
	}
	if at[2] != theta[2] || at[4] != theta[4] || floats.Same(at, theta) {
		t.Errorf("%v from %v", at, theta)
	}
	if none := Ties(nil).Projected(theta); &none[0] != &theta[0] {
		t.Error("without ties θ is copied")
	}
	grad := q.gradient(at)
	ties.Project(grad)
	want := differences(func(x []float64) float64 { return q.value(ties.Projected(x)) }, theta)
	if !floats.EqualApprox(grad, want, 1e-8) {
		t.Errorf("gradient %v, want %v", grad, want)
	}
	h := q.hessian()
	ties.Hessian(h)
	for range 5 {
		v := normal(rng, n)
		along := ties.Projected(v)
		floats.Sub(v, along)
		var got, inner mat.VecDense
		got.MulVec(h, mat.NewVecDense(n, along))
		inner.MulVec(q.h, mat.NewVecDense(n, along))
		if want := ties.Projected(inner.RawVector().Data); !floats.EqualApprox(got.RawVector().Data, want, 1e-12) {
			t.Errorf("Hessian along the range of P %v, want %v", got.RawVector().Data, want)
		}
		off := mat.NewVecDense(n, v)
		got.MulVec(h, off)
		if mat.Dot(off, &got) <= 0 {
			t.Error("the Hessian is not positive across the range of P")
		}
		if back := ties.Projected(got.RawVector().Data); floats.Norm(back, math.Inf(1)) > 1e-12 {
			t.Errorf("it leads from across the range of P into it: %v", back)
		}
	}
}

// of is a bound on two gates, of two rows and of one, whose largest sizes are those of theirs over by.
func of(theta, largest []float64, by float64) Bound {
	b := NewBound([][]int{{1, 3}, {6}}, largest, 1)
	return NewBound(b.gates, largest, b.size(theta, 0)/b.most()/by)
}

// size is r(W) of a gate at θ.
func (b *Bound) size(theta []float64, gate int) (most float64) {
	for _, at := range b.gates[gate] {
		r := 0.0
		for c, largest := range b.largest {
			r += math.Abs(theta[at+c]) * largest
		}
		most = max(most, r)
	}
	return most
}

// TestBound: a gate beyond its bound is scaled to it, all rows alike, and no other is changed; the gradient beyond it is
// that of differences, and along the gate 0.
func TestBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(41, 2))
	largest := []float64{3, 0.5}
	q, theta := newQuadratic(rng, 8), normal(rng, 8)
	floats.Scale(1e-3, theta[6:]) // within
	b := of(theta, largest, 2.5)
	x := b.Projected(theta)
	for i := range theta {
		want := theta[i]
		if i >= 1 && i < 5 {
			want /= 2.5
		}
		if math.Abs(x[i]-want) > 1e-15 {
			t.Errorf("place %d is %v, want %v", i, x[i], want)
		}
	}
	if !b.At(x) || b.At(append([]float64{0, 0, 0, 0, 0, 0}, x[6:]...)) {
		t.Error("the gate is not at its bound, or the other is")
	}
	if same := b.Projected(x); &same[0] != &x[0] {
		t.Error("θ within the bound is copied")
	}
	if free := (&Bound{}).Projected(theta); &free[0] != &theta[0] {
		t.Error("without a bound θ is copied")
	}
	grad := q.gradient(x)
	b.Gradient(grad, theta)
	want := differences(func(x []float64) float64 { return q.value(b.Projected(x)) }, theta)
	if !floats.EqualApprox(grad, want, 1e-8) {
		t.Errorf("gradient %v, want %v", grad, want)
	}
	if along := floats.Dot(grad[1:5], theta[1:5]); math.Abs(along) > 1e-13 {
		t.Errorf("it falls by %v along the gate", along)
	}
	if !b.Outward() {
		t.Error("a gate beyond its bound is not pulled outwards")
	}
	if b.Gradient(grad, make([]float64, 8)); b.Outward() {
		t.Error("a gate of 0 is pulled outwards")
	}
}

// TestHessianAtTheBound: with J = I − W·∇rᵀ/B it is JᵀHJ across ∇r, which by Times and Product is the same; along ∇r it
// is positive, so that no step of Newton's leads out; and a gate that is pulled inwards is free.
func TestHessianAtTheBound(t *testing.T) {
	const n = 8
	rng := rand.New(rand.NewPCG(41, 3))
	largest := []float64{3, 0.5}
	q, theta := newQuadratic(rng, n), normal(rng, n)
	floats.Scale(1e-3, theta[6:])
	b := of(theta, largest, 1)
	dr := make([]float64, n) // of the row that is the largest
	row := 1
	if r := func(at int) float64 { return math.Abs(theta[at])*largest[0] + math.Abs(theta[at+1])*largest[1] }; r(3) > r(1) {
		row = 3
	}
	for c := range largest {
		dr[row+c] = math.Copysign(largest[c], theta[row+c])
	}
	pull := q.gradient(theta)
	copy(pull[1:5], theta[1:5])
	if b.Gradient(pull, theta); b.Outward() {
		t.Error("a gate that is pulled inwards is held")
	}
	floats.ScaleTo(pull[1:5], -1, theta[1:5])
	if b.Gradient(pull, theta); !b.Outward() {
		t.Fatal("a gate that is pulled outwards is not held")
	}
	h := q.hessian()
	b.Hessian(h)
	j := mat.NewDense(n, n, nil)
	for i := range n {
		for c := range n {
			if i >= 1 && i < 5 {
				j.Set(i, c, -theta[i]*dr[c]/b.most())
			}
			if i == c {
				j.Set(i, c, j.At(i, c)+1)
			}
		}
	}
	var half, whole mat.Dense
	half.Mul(q.h, j)
	whole.Mul(j.T(), &half)
	for range 5 {
		v, jv := normal(rng, n), mat.NewVecDense(n, nil)
		jv.MulVec(j, mat.NewVecDense(n, v))
		got := make([]float64, n)
		if b.Times(got, v); !floats.EqualApprox(got, jv.RawVector().Data, 1e-13) {
			t.Errorf("J·v is %v, want %v", got, jv.RawVector().Data)
		}
	}
	for range 5 {
		v := normal(rng, n)
		floats.AddScaled(v, -floats.Dot(dr, v)/floats.Dot(dr, dr), dr)
		var got, want, inner mat.VecDense
		got.MulVec(h, mat.NewVecDense(n, v))
		want.MulVec(&whole, mat.NewVecDense(n, v))
		if !mat.EqualApprox(&got, &want, 1e-11) {
			t.Errorf("H·v is %v, want %v", got.RawVector().Data, want.RawVector().Data)
		}
		moved := make([]float64, n)
		b.Times(moved, v)
		inner.MulVec(q.h, mat.NewVecDense(n, moved))
		if b.Product(inner.RawVector().Data, v); !mat.EqualApprox(&inner, &want, 1e-11) {
			t.Errorf("by products it is %v, want %v", inner.RawVector().Data, want.RawVector().Data)
		}
	}
	out := mat.NewVecDense(n, dr)
	if mat.Inner(out, h, out) <= 0 {
		t.Error("the Hessian is not positive along ∇r")
	}
}
