package gram

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// random returns Σ x·xᵀ of so many random x in ℝⁿ.
func random(rng *rand.Rand, n, rank int) *mat.SymDense {
	h := mat.NewSymDense(n, nil)
	for range rank {
		x := mat.NewVecDense(n, nil)
		for i := range n {
			x.SetVec(i, rng.NormFloat64())
		}
		h.SymRankOne(h, 1, x)
	}
	return h
}

// ridged returns h with a ridge that is a part of the mean diagonal.
func ridged(h *mat.SymDense, part float64) *mat.SymDense {
	out, n := mat.NewSymDense(h.SymmetricDim(), nil), h.SymmetricDim()
	out.CopySym(h)
	for i := range n {
		out.SetSym(i, i, h.At(i, i)+part*mat.Trace(h)/float64(n))
	}
	return out
}

// TestSystem: solutions and squares are gonum's of the matrix with its ridge, one system after the other in the same
// room, and H stays as it is.
func TestSystem(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 0))
	for _, n := range []int{1, 2, 3, 7, 20} {
		s := NewSystem(n)
		for range 3 {
			h := random(rng, n, 3*n)
			s.H.CopySym(h)
			if !s.Factorize() {
				t.Fatalf("%d equations: no factor", n)
			}
			if !mat.Equal(s.H, h) {
				t.Fatalf("%d equations: H has changed", n)
			}
			var chol mat.Cholesky
			with := ridged(h, 1e-10)
			if !chol.Factorize(with) {
				t.Fatal("gonum has no factor")
			}
			b := make([]float64, n)
			for i := range b {
				b[i] = rng.NormFloat64()
			}
			want := mat.NewVecDense(n, nil)
			if err := chol.SolveVecTo(want, mat.NewVecDense(n, b)); err != nil {
				t.Fatal(err)
			}
			// Rounding, times condition numbers of up to some thousands.
			if got := s.Solve(b); !floats.EqualApprox(got, want.RawVector().Data, 1e-11*max(1, mat.Norm(want, 2))) {
				t.Errorf("%d equations: solution %v, want %v", n, got, want.RawVector().Data)
			}
			v := mat.NewVecDense(n, b)
			if got, want := s.Square(b), mat.Inner(v, with, v); !(math.Abs(got-want) <= 1e-13*math.Abs(want)) {
				t.Errorf("%d equations: square %v, want %v", n, got, want)
			}
		}
	}
}

// TestLeastRidge: of a matrix that is not positive definite the ridge is the least of 1e-10, 1e-8 and so on of the mean
// diagonal with which gonum has a factor, and the factor is gonum's.
func TestLeastRidge(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 1))
	diagonal := func(v ...float64) *mat.SymDense {
		h := mat.NewSymDense(len(v), nil)
		for i, v := range v {
			h.SetSym(i, i, v)
		}
		return h
	}
	for _, c := range []struct {
		name string
		h    *mat.SymDense
		want float64 // 0: whatever gonum says
	}{
		{"a line", random(rng, 5, 1), 0}, {"half the rank", random(rng, 8, 4), 0}, {"an unused column", diagonal(4, 0, 2), 1e-10},
		{"a small one below 0", diagonal(1, -1e-7), 1e-6}, {"one below 0", diagonal(3, -1+1e-9), 1},
		{"one far below 0", diagonal(3000, -1500, 0), 100}, {"positive definite", random(rng, 4, 9), 1e-10},
	} {
		n := c.h.SymmetricDim()
		s, want := NewSystem(n), mat.Cholesky{}
		s.H.CopySym(c.h)
		part := 1e-10
		for !want.Factorize(ridged(c.h, part)) {
			part *= 100
		}
		if c.want > 0 && !(math.Abs(part/c.want-1) < 1e-9) {
			t.Errorf("%s: gonum needs a ridge of %v, want %v", c.name, part, c.want)
		}
		if !s.Factorize() {
			t.Errorf("%s: no factor", c.name)
			continue
		}
		var u mat.TriDense
		want.UTo(&u)
		for i := range n {
			for j := i; j < n; j++ {
				// The ridge is rounded in another order, which counts where it is all there is.
				if got := s.Upper.Data[i*n+j]; !(math.Abs(got-u.At(i, j)) <= 1e-5*math.Sqrt(math.Abs(mat.Trace(c.h)))) {
					t.Errorf("%s: factor %v at (%d, %d), want %v", c.name, got, i, j, u.At(i, j))
				}
			}
		}
	}
	for _, h := range []*mat.SymDense{diagonal(1, -3), diagonal(-1, -1)} { // whose mean diagonal is below 0
		s := NewSystem(2)
		if s.H.CopySym(h); s.Factorize() {
			t.Errorf("%v has a factor", h.RawSymmetric().Data)
		}
	}
}

// TestFactorizeEnds: a matrix next to 0, as a saturated g leaves it, has no
// solution; looking for its ridge must not go on for ever.
func TestFactorizeEnds(t *testing.T) {
	for _, size := range []float64{0, 1e-320, 1e-310, math.Inf(1), math.NaN()} {
		ended := make(chan bool, 1)
		go func() {
			s := NewSystem(2)
			s.H.SetSym(0, 0, size)
			s.H.SetSym(1, 1, size)
			ended <- s.Factorize()
		}()
		select {
		case solved := <-ended:
			if solved {
				t.Errorf("diagonal %v has a factor", size)
			}
		case <-time.After(time.Minute):
			t.Fatalf("diagonal %v: still looking for a ridge after a minute", size)
		}
	}
}
