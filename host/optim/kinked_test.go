package optim_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/optim"
)

// hingedProblem is a random quadratic with m hinges, and beyond what x each is.
func hingedProblem(rng *rand.Rand, n, m int, force func() float64) (h *mat.SymDense, grad []float64, hinges []optim.Hinge) {
	h, grad = mat.NewSymDense(n, nil), make([]float64, n)
	root := mat.NewDense(n+2, n, nil)
	for i := range n {
		grad[i] = 3 * rng.NormFloat64()
		for j := range n + 2 {
			root.Set(j, i, rng.NormFloat64())
		}
	}
	h.SymOuterK(1, root.T())
	for range m {
		at := rng.IntN(n)
		x := make([]float64, 1+rng.IntN(n-at))
		for j := range x {
			x[j] = rng.NormFloat64()
		}
		hinges = append(hinges, optim.Hinge{At: at, X: x, Gap: -rng.ExpFloat64(), Force: force()})
	}
	return h, grad, hinges
}

// hingedValue is what a step comes to.
func hingedValue(h *mat.SymDense, grad []float64, hinges []optim.Hinge, step []float64) float64 {
	v := mat.NewVecDense(len(step), step)
	sum := floats.Dot(grad, step) + mat.Inner(v, h, v)/2
	for _, k := range hinges {
		sum += k.Force * max(0, k.Gap+floats.Dot(k.X, step[k.At:k.At+len(k.X)]))
	}
	return sum
}

// sides returns the least value over all that the hinges can be: on one side, on the other, or at the kink. On each the
// value is a quadratic, whose minimum the equations of Lagrange tell; that of the whole is one of these.
func sides(h *mat.SymDense, grad []float64, hinges []optim.Hinge) float64 {
	n, least := len(grad), math.Inf(1)
	patterns := 1
	for range hinges {
		patterns *= 3
	}
	for pattern := range patterns {
		right, rest := make([]float64, n), pattern
		var held []optim.Hinge
		for j := range n {
			right[j] = -grad[j]
		}
		for _, k := range hinges {
			switch rest % 3 {
			case 1:
				for j, x := range k.X {
					right[k.At+j] -= k.Force * x
				}
			case 2:
				held = append(held, k)
			}
			rest /= 3
		}
		m := n + len(held)
		a, b := mat.NewDense(m, m, nil), mat.NewVecDense(m, append(right, make([]float64, len(held))...))
		a.Slice(0, n, 0, n).(*mat.Dense).Copy(h)
		for i, k := range held {
			for j, x := range k.X {
				a.Set(n+i, k.At+j, x)
				a.Set(k.At+j, n+i, x)
			}
			b.SetVec(n+i, -k.Gap)
		}
		var x mat.VecDense
		if len(held) > n || x.SolveVec(a, b) != nil {
			continue
		}
		least = min(least, hingedValue(h, grad, hinges, x.RawVector().Data[:n]))
	}
	return least
}

// TestHingedStep: the step goes to the least value, against all sides that the hinges can be on. Where some forces are
// below 0 there are several minima: it is at one of them, as steps in many directions show, and no higher than the one
// that is found without going to other sides.
func TestHingedStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	held, lower := 0, 0
	for i := range 300 {
		n, m := 1+i%4, 1+i%5
		h, grad, hinges := hingedProblem(rng, n, m, func() float64 { return 5 * rng.ExpFloat64() })
		step, used := optim.HingedStep(h, grad, hinges, 0, 0)
		if step == nil || used != 0 {
			t.Fatalf("problem %d: step %v, damping %v", i, step, used)
		}
		got, want := hingedValue(h, grad, hinges, step), sides(h, grad, hinges)
		if got > want+1e-9*math.Abs(want) {
			t.Errorf("problem %d: %v, the least is %v", i, got, want)
		}
		for _, k := range hinges {
			if gap := k.Gap + floats.Dot(k.X, step[k.At:k.At+len(k.X)]); math.Abs(gap) < 1e-12 {
				held++
			}
		}
		for j := range hinges {
			if rng.IntN(2) == 0 {
				hinges[j].Force *= -0.3
			}
		}
		first, _ := optim.HingedStep(h, grad, hinges, 0, math.Inf(1))
		step, _ = optim.HingedStep(h, grad, hinges, 0, 1e-9)
		value := hingedValue(h, grad, hinges, step)
		if better := hingedValue(h, grad, hinges, first) - value; better < -1e-12 {
			t.Errorf("problem %d: %v higher for going to other sides", i, -better)
		} else if better > 1e-9 {
			lower++
		}
		for range 50 {
			near := make([]float64, n)
			for j := range near {
				near[j] = step[j] + 1e-5*rng.NormFloat64()
			}
			if v := hingedValue(h, grad, hinges, near); v < value-1e-12*max(1, math.Abs(value)) {
				t.Errorf("problem %d: next to the step it is lower by %v", i, value-v)
				break
			}
		}
	}
	if held < 50 || lower < 5 {
		t.Errorf("%d kinks were held, %d minima lower on another side: too few to tell anything", held, lower)
	}
}

// bent is Σ_j cosh(x_j − c_j) and hinges at fixed places of x.
type bent struct {
	c      []float64
	at     []optim.Hinge // Gap is that at x = 0
	passes *int
}

func (b bent) Dim() int { return len(b.c) }

func (b bent) Value(ctx context.Context, x []float64) (float64, error) {
	return b.Grad(ctx, make([]float64, len(x)), x)
}

func (b bent) Grad(ctx context.Context, dst, x []float64) (float64, error) {
	return b.Hessian(ctx, mat.NewSymDense(len(x), nil), dst, x)
}

func (b bent) Hessian(_ context.Context, h *mat.SymDense, grad, x []float64) (float64, error) {
	*b.passes++
	h.Zero()
	sum := 0.0
	for j, v := range x {
		sum += math.Cosh(v - b.c[j])
		grad[j] = math.Sinh(v - b.c[j])
		h.SetSym(j, j, math.Cosh(v-b.c[j]))
	}
	for _, k := range b.at {
		if gap := k.Gap + floats.Dot(k.X, x[k.At:k.At+len(k.X)]); gap > 0 {
			sum += k.Force * gap
			floats.AddScaled(grad[k.At:k.At+len(k.X)], k.Force, k.X)
		}
	}
	return sum, nil
}

func (b bent) Hinges(_ context.Context, x []float64) (out []optim.Hinge, err error) {
	for _, k := range b.at {
		h := optim.Hinge{At: k.At, X: k.X, Gap: k.Gap + floats.Dot(k.X, x[k.At:k.At+len(k.X)]), Force: k.Force}
		if h.Gap > 0 {
			h.Gap, h.X = -h.Gap, floats.ScaleTo(make([]float64, len(k.X)), -1, k.X)
		}
		out = append(out, h)
	}
	return out, nil
}

// TestPolishKinks: from any start the minimum of a function with kinks is met to twelve digits, in few passes: no step in
// any direction is lower, and from another start it is the same. One that is there stays to the byte, and no value rises.
func TestPolishKinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	atKink := 0
	for i := range 60 {
		n := 1 + i%4
		passes := 0
		f := bent{make([]float64, n), nil, &passes}
		_, f.c, f.at = hingedProblem(rng, n, 2+i%5, func() float64 { return 3 * rng.ExpFloat64() })
		floats.Scale(0.3, f.c)
		var ends [][]float64
		for range 2 {
			x0 := make([]float64, n)
			for j := range x0 {
				x0[j] = rng.NormFloat64()
			}
			passes = 0
			r, err := optim.PolishKinks(t.Context(), f, x0, optim.Settings{})
			if err != nil || r.Status != optim.Converged || passes > 20 {
				t.Fatalf("function %d: %v after %d passes, error %v", i, r.Status, passes, err)
			}
			for j, v := range r.Trace[1:] {
				if v > r.Trace[j]+1e-13*math.Abs(v) {
					t.Errorf("function %d: the path rises: %v", i, r.Trace)
				}
			}
			ends = append(ends, r.X)
			again, err := optim.PolishKinks(t.Context(), f, r.X, optim.Settings{})
			if err != nil || again.Iterations != 0 || floats.Distance(again.X, r.X, 2) != 0 {
				t.Errorf("function %d: from the minimum %v after %d steps, error %v", i, again.Status, again.Iterations, err)
			}
		}
		if off := floats.Distance(ends[0], ends[1], math.Inf(1)); off > 1e-11 {
			t.Errorf("function %d: two starts end %v apart", i, off)
		}
		value, _ := f.Value(t.Context(), ends[0])
		for range 200 {
			near := make([]float64, n)
			for j := range near {
				near[j] = ends[0][j] + 1e-5*rng.NormFloat64()
			}
			if v, _ := f.Value(t.Context(), near); v < value {
				t.Errorf("function %d: next to the end it is lower by %v", i, value-v)
				break
			}
		}
		for _, k := range f.at {
			if math.Abs(k.Gap+floats.Dot(k.X, ends[0][k.At:k.At+len(k.X)])) < 1e-12 {
				atKink++
			}
		}
	}
	if atKink < 20 {
		t.Errorf("%d kinks at minima: too few to tell anything", atKink)
	}
}
