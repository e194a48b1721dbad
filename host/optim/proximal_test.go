package optim

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// basin is (x − m)ᵀA(x − m)/2 + bend·Σ (x − m)⁴.
type basin struct {
	a    *mat.SymDense
	m    []float64
	bend float64
}

func (b basin) Dim() int { return len(b.m) }

func (b basin) Value(ctx context.Context, x []float64) (float64, error) {
	return b.Grad(ctx, make([]float64, len(x)), x)
}

func (b basin) Grad(_ context.Context, dst, x []float64) (float64, error) {
	d := floats.SubTo(make([]float64, len(x)), x, b.m)
	out := mat.NewVecDense(len(x), dst)
	out.MulVec(b.a, mat.NewVecDense(len(d), d))
	value := floats.Dot(d, dst) / 2
	for i, v := range d {
		value += b.bend * v * v * v * v
		dst[i] += 4 * b.bend * v * v * v
	}
	return value, nil
}

func (b basin) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	h.CopySym(b.a)
	for i, v := range x {
		h.SetSym(i, i, h.At(i, i)+12*b.bend*(v-b.m[i])*(v-b.m[i]))
	}
	return b.Grad(ctx, grad, x)
}

// TestProximal: convex functions with norms of groups of one to four variables have the gradient that a minimum asks for,
// to 1e−9; what a step of proximal gradient descent leaves alone is a minimum too. Groups of large weights are 0 to all digits,
// those of none are where Newton's method has them, and columns that are nearly the same do no harm.
func TestProximal(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 28))
	zeros, whole := 0, 0
	for trial := range 60 {
		n := 3 + rng.IntN(12)
		x := mat.NewDense(3*n, n, nil)
		for i := range 3 * n {
			for j := range n {
				x.Set(i, j, rng.NormFloat64())
				if trial%3 == 0 && j%2 == 1 { // nearly the column before
					x.Set(i, j, x.At(i, j-1)+1e-3*rng.NormFloat64())
				}
			}
		}
		b := basin{a: mat.NewSymDense(n, nil), m: make([]float64, n), bend: float64(trial%2) * 0.3}
		b.a.SymOuterK(1/float64(3*n), x.T())
		for i := range n {
			b.m[i] = rng.NormFloat64()
		}
		order := rng.Perm(n)
		var groups []Group
		for at := 1; at < n; { // the first is free
			size := min(1+rng.IntN(4), n-at)
			groups = append(groups, Group{order[at : at+size], []float64{0, 0.1, 0.5, 100}[rng.IntN(4)] * math.Sqrt(float64(size))})
			at += size
		}
		r, err := Proximal(t.Context(), b, groups, make([]float64, n), Settings{})
		if err != nil || r.Status != Converged {
			t.Fatalf("trial %d: %v, %v", trial, r.Status, err)
		}
		grad := make([]float64, n)
		value, _ := b.Grad(t.Context(), grad, r.X)
		if rest := Residual(groups, grad, r.X); !(rest <= 1e-9) {
			t.Errorf("trial %d: %v from the conditions of a minimum", trial, rest)
		}
		if want := value + norms(groups, r.X); !(math.Abs(r.Value-want) <= 1e-12*max(1, want)) {
			t.Errorf("trial %d: value %v, want %v", trial, r.Value, want)
		}
		// A step down the gradient, and then towards 0.
		const rate = 1e-2
		down := slices.Clone(r.X)
		floats.AddScaled(down, -rate, grad)
		for _, g := range groups {
			size := g.norm(down)
			for _, at := range g.At {
				down[at] *= max(0, 1-rate*g.Weight/size)
			}
			switch size = g.norm(r.X); {
			case size == 0:
				zeros++
			default:
				whole++
			}
			if g.Weight >= 100 && size != 0 {
				t.Errorf("trial %d: a group of weight %v is %v long", trial, g.Weight, size)
			}
		}
		if !floats.EqualApprox(down, r.X, 1e-10) {
			t.Errorf("trial %d: a step of gradient descent leads from %v to %v", trial, r.X, down)
		}
	}
	if zeros < 20 || whole < 20 {
		t.Errorf("%d groups are 0 and %d are not", zeros, whole)
	}
}

// tail is 1/(1 + x_1 + x_2) + (x_3 − 1)²/2, which has no minimum, with a Hessian that is a little wrong along
// (1, −1, 0), where nothing changes: as the likelihood of a gate that separates rows.
type tail struct{}

func (tail) Dim() int { return 3 }

func (tail) Value(_ context.Context, x []float64) (float64, error) {
	if x[0]+x[1] <= -1 {
		return math.Inf(1), nil
	}
	return 1/(1+x[0]+x[1]) + (x[2]-1)*(x[2]-1)/2, nil
}

func (f tail) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	slope := -1 / ((1 + x[0] + x[1]) * (1 + x[0] + x[1]))
	dst[0], dst[1], dst[2] = slope, slope, x[2]-1
	return f.Value(ctx, x)
}

func (f tail) Hessian(ctx context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	bend := 2 / math.Pow(1+x[0]+x[1], 3)
	h.Zero()
	h.SetSym(0, 0, bend)
	h.SetSym(1, 1, bend)
	h.SetSym(0, 1, bend*(1+1e-5))
	h.SetSym(2, 2, 1)
	return f.Grad(ctx, grad, x)
}

// TestProximalWithoutMinimum: steps end where two in a row promise less than the tolerance, though each had to be damped.
func TestProximalWithoutMinimum(t *testing.T) {
	r, err := Proximal(t.Context(), tail{}, []Group{{At: []int{2}, Weight: 0.25}}, make([]float64, 3), Settings{Tolerance: 1e-6})
	if err != nil || r.Status != Converged {
		t.Fatalf("%v after %d iterations, error %v", r.Status, r.Iterations, err)
	}
	// The promise is a quarter of the value that is left.
	if left := 1 / (1 + r.X[0] + r.X[1]); !(left < 1e-5) || math.Abs(r.X[2]-0.75) > 1e-12 {
		t.Errorf("ended at %v, %v above the infimum", r.X, left)
	}
}
