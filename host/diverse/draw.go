package diverse

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/internal/stream"
)

// Draw are points of the unit sphere and a network, as 004 has them.
type Draw struct {
	X   *mat.Dense // m×d, rows uniform on the unit sphere
	W   *mat.Dense // n×d, rows N(0, I)
	V   []float64  // n random signs
	Rng *rand.Rand // from which the rest of the draw's random numbers come
}

// NewDraw draws m points, then n weights and signs, in d dimensions.
func NewDraw(seed uint64, n, m, d int) *Draw {
	rng := stream.New(seed, stream.Study, 1)
	s := &Draw{X: mat.NewDense(m, d, model.RandomDirections(rng, m, d)), W: mat.NewDense(n, d, nil),
		V: make([]float64, n), Rng: rng}
	s.W.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, s.W)
	for k := range s.V {
		s.V[k] = float64(1 - 2*rng.IntN(2))
	}
	return s
}

// Targets are f(x_l) for the rows of x.
func (s *Draw) Targets(x *mat.Dense) []float64 {
	m, _ := x.Dims()
	return Residuals(s.W, s.V, x, make([]float64, m))
}

// Step is the inverse of the largest curvature of L at the weights, m/(n·‖G_n‖).
func (s *Draw) Step() (float64, error) {
	norm, err := Norm(GramOf(s.W, s.X))
	m, _ := s.X.Dims()
	return float64(m) / (float64(len(s.V)) * norm), err
}

// Spectra are the eigenvalues of G and G_n, descending, and how far they are apart.
type Spectra struct {
	Ideal, Own []float64 // of G and of G_n
	Apart      float64   // ‖G − G_n‖
}

// Spectra returns those of the draw's points and weights.
func (s *Draw) Spectra() (*Spectra, error) {
	ideal, own := Gram(s.X), GramOf(s.W, s.X)
	out := new(Spectra)
	var err error
	if out.Ideal, err = values(ideal); err != nil {
		return nil, err
	}
	if out.Own, err = values(own); err != nil {
		return nil, err
	}
	slices.Reverse(out.Ideal)
	slices.Reverse(out.Own)
	own.ScaleSym(-1, own)
	ideal.AddSym(ideal, own)
	out.Apart, err = Norm(ideal)
	return out, err
}

// Least returns λ_m(G) and λ_m(G_n).
func (s *Spectra) Least() (ideal, own float64) {
	return s.Ideal[len(s.Ideal)-1], s.Own[len(s.Own)-1]
}

// Singular is what counts as 0 beside the largest eigenvalue of G_n: D has a rank below m.
const Singular = 1e-12

// State is where a training stands.
type State struct {
	Steps       int
	Loss        float64 // L, without λR
	Test        float64 // the same on the test points; 0 where there are none
	Gradient    float64 // ‖∂L/∂W‖
	Residual    float64 // ‖r‖, r = (f − y)/m
	Least       float64 // λ_m(G_n) = s_m(D)²/n, 0 up to [Singular]
	Discrepancy float64 // L2(W)
}

// Bound is ‖∂L/∂W‖/s_m(D), which ‖r‖ does not exceed, for n weights (004, Key
// inequality); +Inf where s_m(D) is 0.
func (s State) Bound(n int) float64 {
	if s.Least <= 0 {
		return math.Inf(1)
	}
	return s.Gradient / math.Sqrt(float64(n)*s.Least)
}

// TrainSettings are those of [Draw.Train].
type TrainSettings struct {
	Lambda float64
	Steps  int
	TestX  *mat.Dense // may be nil
	TestY  []float64
	Watch  func(step int) // may be nil
}

// Train goes down L + λR on the targets y by full gradient descent of [Draw.Step],
// from the draw's weights, and returns where it begins and where it ends. It is an
// error if the loss is not finite any more.
func (s *Draw) Train(ctx context.Context, y []float64, set TrainSettings) (begin, end State, err error) {
	o, err := NewObjective(s.X, y, s.V, set.Lambda)
	if err != nil {
		return begin, end, err
	}
	size, err := s.Step()
	if err != nil {
		return begin, end, err
	}
	if begin, err = s.state(ctx, s.W.RawMatrix().Data, y, set); err != nil {
		return begin, end, err
	}
	r, err := optim.Projected(ctx, o, s.W.RawMatrix().Data,
		optim.ProjectedSettings{Iterations: set.Steps, StepSize: size, Tolerance: 1e-15,
			Watch: func(step int, _ []float64) bool {
				if set.Watch != nil {
					set.Watch(step)
				}
				return false
			}})
	if err != nil {
		return begin, end, err
	}
	if r.Status == optim.Diverged {
		return begin, end, fmt.Errorf("the loss is not finite after %d steps", r.Iterations)
	}
	end, err = s.state(ctx, r.X, y, set)
	end.Steps = r.Iterations
	return begin, end, err
}

// state is what the weights w say.
func (s *Draw) state(ctx context.Context, w, y []float64, set TrainSettings) (out State, err error) {
	n, d := s.W.Dims()
	at := mat.NewDense(n, d, w)
	o, err := NewObjective(s.X, y, s.V, 0)
	if err != nil {
		return out, err
	}
	grad := make([]float64, n*d)
	if out.Loss, err = o.Grad(ctx, grad, w); err != nil {
		return out, err
	}
	r := Residuals(at, s.V, s.X, y)
	out.Gradient, out.Residual = floats.Norm(grad, 2), floats.Norm(r, 2)/float64(len(y))
	if set.TestX != nil {
		t := Residuals(at, s.V, set.TestX, set.TestY)
		out.Test = floats.Dot(t, t) / float64(2*len(t))
	}
	own, err := values(GramOf(at, s.X))
	if err != nil {
		return out, err
	}
	if least := own[0]; least > Singular*own[len(own)-1] {
		out.Least = least
	}
	out.Discrepancy = math.Sqrt(max(Discrepancy(at), 0))
	return out, nil
}
