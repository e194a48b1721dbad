package numeric

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"
)

func TestFinite(t *testing.T) {
	for _, v := range []float64{0, -1, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		if !Finite(v) {
			t.Errorf("%v is not finite", v)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if Finite(v) {
			t.Errorf("%v is finite", v)
		}
	}
}

// TestFirstOf: the columns' first values, which are those of the columns themselves.
func TestFirstOf(t *testing.T) {
	columns := [][]float64{{1, 2, 3}, {4, 5, 6}}
	got := FirstOf(columns, 2)
	if want := [][]float64{{1, 2}, {4, 5}}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got[1][0] = 7; columns[1][0] != 7 {
		t.Error("the values are copies")
	}
}

func TestFloatsAsBytes(t *testing.T) {
	v := []float64{1, math.Copysign(0, -1), math.Inf(-1), math.NaN()}
	b := AppendFloats([]byte{7}, v)
	if want := []byte{7, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f}; !bytes.Equal(b[:9], want) || len(b) != 33 {
		t.Errorf("%x", b)
	}
	got := make([]float64, 4)
	ReadFloats(got, b[1:])
	for i := range v {
		if math.Float64bits(got[i]) != math.Float64bits(v[i]) {
			t.Errorf("%v came back as %v", v[i], got[i])
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("seven bytes are a number")
		}
	}()
	ReadFloats(got[:1], b[:7])
}

func TestSymmetric(t *testing.T) {
	got := Symmetric(mat.NewDense(2, 2, []float64{1, 2, 4, 5}))
	if want := mat.NewSymDense(2, []float64{1, 3, 3, 5}); !mat.Equal(got, want) {
		t.Errorf("%v", mat.Formatted(got))
	}
	defer func() {
		if recover() == nil {
			t.Error("a matrix of 2 by 3 has a symmetric part")
		}
	}()
	Symmetric(mat.NewDense(2, 3, nil))
}

// TestSetTriangle: rows stand above the diagonal, and of a part of a matrix nothing else changes.
func TestSetTriangle(t *testing.T) {
	whole := mat.NewSymDense(4, nil)
	part := whole.SliceSym(1, 4).(*mat.SymDense)
	SetTriangle(part, []float64{1, 2, 3, 4, 5, 6})
	if want := mat.NewSymDense(3, []float64{1, 2, 3, 0, 4, 5, 0, 0, 6}); !mat.Equal(part, want) {
		t.Errorf("the triangle is %v, want %v", mat.Formatted(part), mat.Formatted(want))
	}
	if want := mat.NewSymDense(4, []float64{0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 0, 0, 0, 6}); !mat.Equal(whole, want) {
		t.Errorf("the whole is %v, want %v", mat.Formatted(whole), mat.Formatted(want))
	}
}

// What is solved is to the bit what gonum's routine for many right-hand sides makes of one.
func TestSolveCholesky(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 1; n <= 90; n++ {
		a := mat.NewDense(n, n, nil)
		for i := range n {
			for j := range n {
				if rng.IntN(3) > 0 {
					a.Set(i, j, rng.NormFloat64())
				}
			}
		}
		var h mat.SymDense
		h.SymOuterK(1, a)
		for i := range n {
			h.SetSym(i, i, h.At(i, i)+0.1)
		}
		u, ok := lapack64.Potrf(h.RawSymmetric())
		if !ok {
			t.Fatalf("n = %d: not positive definite", n)
		}
		want := make([]float64, n)
		for i := range want {
			want[i] = rng.NormFloat64()
		}
		got := SolveCholesky(u, slices.Clone(want))
		lapack64.Potrs(u, blas64.General{Rows: n, Cols: 1, Stride: 1, Data: want})
		if runtime.GOARCH == "amd64" && !slices.Equal(got, want) || !floats.EqualApprox(got, want, 1e-9) {
			t.Fatalf("n = %d: %v, want %v", n, got, want)
		}
	}
}

// Shares are at most 1, whatever the order in which the whole was summed, and sum to 1 within rounding.
func TestShares(t *testing.T) {
	weights := []float64{1.78, 2.49, 0.1, 0.7, 1e-9, 3.3, 0.2, 5.01}
	above := false
	for n := 1; n <= len(weights); n++ {
		forth, back := 0.0, 0.0
		for i := range n {
			forth += weights[i]
			back += weights[n-1-i]
		}
		for _, both := range [][2]float64{{forth, back}, {back, forth}, {math.Nextafter(forth, 9e9), forth}} {
			one, two := []float64{both[0]}, []float64{both[0] / 4, both[0] / 4 * 3}
			above = above || 1/both[1]*both[0] > 1
			Shares(one, both[1])
			Shares(two, both[1])
			if one[0] > 1 || one[0] < 1-1e-15 || math.Abs(two[0]+two[1]-1) > 1e-15 || math.Abs(two[0]-0.25) > 1e-15 {
				t.Errorf("%d weights: %v and %v", n, one, two)
			}
		}
	}
	if !above {
		t.Error("no quotient is above 1: the test says nothing")
	}
}
