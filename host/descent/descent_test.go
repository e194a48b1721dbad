package descent

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestStillest: of a run that left, the record with the shortest way to it; of one
// that left at once, the start.
func TestStillest(t *testing.T) {
	left := &track{at: []int{0, 10, 20, 30, 40}, points: [][]float64{{0, 1}, {3, 1}, {3, 1.5}, {3, 3}, {90, 3}}}
	if at, x := left.stillest(); at != 20 || x[1] != 1.5 {
		t.Errorf("record of step %d, %v", at, x)
	}
	if at, x := (&track{at: []int{0}, points: [][]float64{{7}}}).stillest(); at != 0 || x[0] != 7 {
		t.Errorf("record of step %d, %v", at, x)
	}
}

func sums(t *testing.T, rows model.Rows) *tensor.Second {
	t.Helper()
	s, err := tensor.SumSecond(t.Context(), rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGateStep: λ_max(E[xxᵀ]) of features that are not standard.
func TestGateStep(t *testing.T) {
	x := mat.NewDense(4, 2, []float64{3, 0, -3, 0, 0, 1, 0, -1})
	data, err := dataset.Load(t.Context(), dataset.Matrix(x, []float64{1, 2, 3, 4}))
	if err != nil {
		t.Fatal(err)
	}
	p := &problem.Problem{Second: sums(t, data), Shape: problem.Shape{K: 2, D: 2}}
	if step, err := gateStep(p); err != nil || math.Abs(step-2/4.5) > 1e-12 {
		t.Errorf("step %v, want 2/4.5, error %v", step, err)
	}
}

// TestWhitened: mean 0 and covariance I to rounding, of features that are
// neither.
func TestWhitened(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	x, y := mat.NewDense(500, 3, nil), make([]float64, 500)
	for i := range 500 {
		u, v, w := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(i, []float64{2 + u, 3*u + v, w - v})
		y[i] = u
	}
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, problem.Request{K: 1})
	if err != nil || p.Inputs.Standard() {
		t.Fatalf("inputs pass as standard, error %v", err)
	}
	rows, err := whitened(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	s := sums(t, rows)
	cov := s.Covariance()
	for i, m := range s.Mean() {
		for j := range 3 {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(m) > 1e-12 || math.Abs(cov.At(i, j)-want) > 1e-12 {
				t.Fatalf("mean %v, covariance %v", s.Mean(), mat.Formatted(cov))
			}
		}
	}
}
