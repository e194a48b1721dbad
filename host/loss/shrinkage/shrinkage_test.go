package shrinkage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// both is a penalty of all kinds on nine parameters: of gates of three branches and of two, of slopes, and of norms.
func both() Penalty {
	p := New([][]int{{0, 2}, {1, 3}, {4}}, []int{5, 6})
	p.Gate, p.Experts, p.Norms = 3, 0.7, []Norm{{[]int{5, 7}, 1.5}, {[]int{8}, 2}}
	return p
}

// written is the penalty written out.
func written(theta []float64) float64 {
	gate := func(w ...float64) (sum float64) {
		w = append(w, 0)
		mean := floats.Sum(w) / float64(len(w))
		for _, v := range w {
			sum += (v - mean) * (v - mean)
		}
		return sum
	}
	squares := gate(theta[0], theta[2]) + gate(theta[1], theta[3]) + gate(theta[4])
	return 3.0/2*squares + 0.7/2*(theta[5]*theta[5]+theta[6]*theta[6]) + 1.5*math.Hypot(theta[5], theta[7]) + 2*math.Abs(theta[8])
}

func normal(rng *rand.Rand) []float64 {
	out := make([]float64, 9)
	for i := range out {
		out[i] = rng.NormFloat64()
	}
	return out
}

// TestPenalty: the value is that written out, gradient and Hessian are its differences, and both are added, times what they
// are asked for.
func TestPenalty(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	const h, scale = 1e-4, 0.5 // differences of second order: 1e−8 of values near 1, and rounding of second ones 1e−8
	p := both()
	for range 5 {
		theta, before := normal(rng), normal(rng)
		theta[5], theta[8] = theta[5]+math.Copysign(0.3, theta[5]), theta[8]+math.Copysign(0.3, theta[8])
		if got, want := p.Value(theta), written(theta); math.Abs(got-want) > 1e-14*want {
			t.Errorf("%v, want %v", got, want)
		}
		at := func(i int, di float64, j int, dj float64) float64 {
			x := slices.Clone(theta)
			x[i] += di
			x[j] += dj
			return written(x)
		}
		grad, hess, gate := slices.Clone(before), mat.NewSymDense(9, nil), mat.NewSymDense(5, nil)
		p.Gradient(grad, theta, scale)
		hess.SetSym(0, 2, 4)
		p.Hessian(hess, theta, scale)
		p.GateHessian(gate, scale, 0)
		for i := range theta {
			want := before[i] + scale*(at(i, h, 0, 0)-at(i, -h, 0, 0))/(2*h)
			if math.Abs(grad[i]-want) > 1e-6 {
				t.Errorf("gradient[%d] is %v, want %v", i, grad[i], want)
			}
			for j := range theta {
				want := scale * (at(i, h, j, h) - at(i, h, j, -h) - at(i, -h, j, h) + at(i, -h, j, -h)) / (4 * h * h)
				if i+j == 2 && i != 1 {
					want += 4
				}
				if got := hess.At(i, j); math.Abs(got-want) > 1e-5 {
					t.Errorf("Hessian at %d, %d is %v, want %v", i, j, got, want)
				}
				if i > 4 || j > 4 {
					continue
				}
				if i+j == 2 && i != 1 {
					want -= 4
				}
				if got := gate.At(i, j); math.Abs(got-want) > 1e-5 {
					t.Errorf("the gate's at %d, %d is %v, want %v", i, j, got, want)
				}
			}
		}
	}
}

// TestDiagonal: it is that of the Hessian without norms.
func TestDiagonal(t *testing.T) {
	p := both()
	p.Norms = nil
	theta := normal(rand.New(rand.NewPCG(42, 2)))
	h, got := mat.NewSymDense(9, nil), make([]float64, 9)
	p.Hessian(h, theta, 1.0/8)
	p.Diagonal(got, 8)
	for i := range got {
		if math.Abs(got[i]-h.At(i, i)) > 1e-15 {
			t.Errorf("place %d: %v, want %v", i, got[i], h.At(i, i))
		}
	}
}

// TestGateHessianFrom: of the gate alone it is that part of the whole.
func TestGateHessianFrom(t *testing.T) {
	p := New([][]int{{4, 6}, {5, 7}}, nil)
	p.Gate = 2
	whole, gate := mat.NewSymDense(8, nil), mat.NewSymDense(4, nil)
	p.GateHessian(whole, 1, 0)
	p.GateHessian(gate, 1, 4)
	if !mat.Equal(gate, whole.SliceSym(4, 8)) {
		t.Errorf("%v, want %v", gate, whole)
	}
}

// TestAtZero: coefficients whose norm is 0 are held, and others beside them are not.
func TestAtZero(t *testing.T) {
	p := both()
	theta := normal(rand.New(rand.NewPCG(42, 3)))
	theta[5], theta[8] = 0, 0
	if want := []bool{8: true}; !slices.Equal(p.AtZero(theta), want) {
		t.Errorf("%v, want %v", p.AtZero(theta), want)
	}
	grad, h := slices.Repeat([]float64{7}, 9), mat.NewSymDense(9, slices.Repeat([]float64{7}, 81))
	p.Gradient(grad, theta, 1)
	p.Hessian(h, theta, 1)
	for j := range theta {
		want := 0.0
		if j == 8 {
			want = 1
		}
		if h.At(8, j) != want {
			t.Errorf("row of what is held: %v at %d, want %v", h.At(8, j), j, want)
		}
	}
	if grad[8] != 0 || grad[5] != 7 || grad[7] == 7 {
		t.Errorf("gradient %v", grad)
	}
}

// TestTimes: weights are multiplied, and of 0 there are none.
func TestTimes(t *testing.T) {
	norms := both().Norms
	if got := Times(norms, 4); len(got) != 2 || got[0].Weight != 6 || got[1].Weight != 8 || !slices.Equal(got[0].At, norms[0].At) {
		t.Errorf("%v", got)
	}
	if got := Times(norms, 0); got != nil {
		t.Errorf("%v of 0", got)
	}
}

// TestNone: the zero value is no penalty.
func TestNone(t *testing.T) {
	var p Penalty
	theta := normal(rand.New(rand.NewPCG(42, 4)))
	grad, h := make([]float64, 9), mat.NewSymDense(9, nil)
	p.Gradient(grad, theta, 1)
	p.Diagonal(grad, 1)
	p.Hessian(h, theta, 1)
	if p.Value(theta) != 0 || floats.Norm(grad, 1) != 0 || mat.Norm(h, 1) != 0 {
		t.Errorf("value %v, gradient %v, Hessian %v", p.Value(theta), grad, h)
	}
}
