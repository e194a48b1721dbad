package loss

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// outlying returns rows of a mixture of which one has a feature so large that the bound on the
// gate is near gates that matter for the others.
func outlying(rng *rand.Rand, k int) (*model.Data, *model.Params) {
	p := randomParams(rng, k, 3, 0.3, true)
	floats.Scale(2, p.Gating)
	p.Gating[0] = 3
	for i := range k {
		p.Regressor(i)[0] = 0 // or that row is all there is
	}
	data := draw(rng, identity, p, 400)
	data.Blocks[0].Col(0)[7] = 4e9
	return data, p
}

// rises returns central differences of the value, and of the gradient, at θ.
func rises(t *testing.T, l *Likelihood, theta []float64, h float64) (grad []float64, hess *mat.Dense) {
	t.Helper()
	ctx, n := context.Background(), len(theta)
	grad, hess = make([]float64, n), mat.NewDense(n, n, nil)
	up, down := make([]float64, n), make([]float64, n)
	for i := range theta {
		x := append([]float64(nil), theta...)
		x[i] += h
		a, err := l.Grad(ctx, up, x)
		if err != nil {
			t.Fatal(err)
		}
		x[i] -= 2 * h
		b, err := l.Grad(ctx, down, x)
		if err != nil {
			t.Fatal(err)
		}
		grad[i] = (a - b) / (2 * h)
		for j := range up {
			hess.Set(i, j, (up[j]-down[j])/(2*h))
		}
	}
	return grad, hess
}

// TestGradientBeyondTheBound compares the gradient where the gate is beyond its bound with
// central differences of the value: to what those leave, about 1e−9 of it. Along the gate
// itself it is 0.
func TestGradientBeyondTheBound(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 1))
	for _, k := range []int{2, 3} {
		data, p := outlying(rng, k)
		l := NewLikelihood(data, identity, p, Free{Gating: true}, 1)
		theta := l.Theta(p)
		floats.Scale(3, theta)
		if floats.Same(l.bound.Projected(theta), theta) {
			t.Fatal("the gate is not beyond its bound")
		}
		got := make([]float64, l.Dim())
		if _, err := l.Grad(ctx, got, theta); err != nil {
			t.Fatal(err)
		}
		want, _ := rises(t, l, theta, 1e-6)
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-7*floats.Norm(want, 2)+1e-9 {
				t.Errorf("k = %d: ∂L/∂%v = %g, want %g", k, l.Parameters()[i], got[i], want[i])
			}
		}
		if along := floats.Dot(got, theta); math.Abs(along) > 1e-12*floats.Norm(got, 2)*floats.Norm(theta, 2) {
			t.Errorf("k = %d: the value falls by %g along the gate", k, along)
		}
		at, _ := l.Value(ctx, theta)
		l.Project(theta)
		if on, _ := l.Value(ctx, theta); math.Abs(on-at) > 1e-14*math.Abs(at) {
			t.Errorf("k = %d: %v beyond the bound, %v at it", k, at, on)
		}
	}
}

// riseOfSize is ∇r at θ, r(W) = max_j Σ_c |w_jc|·max_rows|x_c| of the one gate.
func riseOfSize(l *Likelihood, theta []float64, data *model.Data) []float64 {
	largest := make([]float64, data.D+1)
	largest[data.D] = 1
	for _, b := range data.Blocks {
		for j := range data.D {
			for _, x := range b.Col(j) {
				largest[j] = max(largest[j], math.Abs(x))
			}
		}
	}
	rows := map[int][]float64{}
	sizes := map[int]float64{}
	most := 0
	for at, q := range l.Parameters() {
		if q.Part != model.Gate {
			continue
		}
		if rows[q.Index] == nil {
			rows[q.Index] = make([]float64, len(theta))
		}
		rows[q.Index][at] = math.Copysign(largest[q.Feature], theta[at])
		if sizes[q.Index] += math.Abs(theta[at]) * largest[q.Feature]; sizes[q.Index] > sizes[most] {
			most = q.Index
		}
	}
	return rows[most]
}

// TestHessianAtTheBound: where the gate is at its bound and pulled outwards, Newton's step
// does not lead out, and across the gate's direction the Hessian is that of differences of
// the gradient just beyond; a product with it is that of [Likelihood.HessianTimes].
func TestHessianAtTheBound(t *testing.T) {
	ctx := context.Background()
	data, p := outlying(rand.New(rand.NewPCG(2, 1)), 3)
	l := NewLikelihood(data, identity, p, All, 1)
	theta := l.Theta(p)
	floats.Scale(3, l.gating(theta))
	l.Project(theta)
	n := l.Dim()
	h, grad := mat.NewSymDense(n, nil), make([]float64, n)
	if _, err := l.Hessian(ctx, h, grad, theta); err != nil {
		t.Fatal(err)
	}
	if !l.bound.Outward() {
		t.Fatal("the gate is not pulled outwards: the draw tests nothing")
	}
	dr := riseOfSize(l, theta, data)
	for try := range 5 {
		rng := rand.New(rand.NewPCG(3, uint64(try)))
		v, got := make([]float64, n), make([]float64, n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		if _, err := l.Grad(ctx, grad, theta); err != nil {
			t.Fatal(err)
		}
		if err := l.HessianTimes(ctx, got, v, theta); err != nil {
			t.Fatal(err)
		}
		// The two differ by how much they add along ∇r, which is theirs to choose.
		floats.AddScaled(v, -floats.Dot(dr, v)/floats.Dot(dr, dr), dr) // v without what leads out
		if err := l.HessianTimes(ctx, got, v, theta); err != nil {
			t.Fatal(err)
		}
		var want mat.VecDense
		want.MulVec(h, mat.NewVecDense(n, v))
		for i := range got {
			if math.Abs(got[i]-want.AtVec(i)) > 1e-8*max(1, mat.Norm(&want, 2)) {
				t.Fatalf("H·v of %v: %g, want %g", l.Parameters()[i], got[i], want.AtVec(i))
			}
		}
	}
}

// TestClimbsStayWithinTheBound: EM, SQUAREM, Newton, truncated Newton and L-BFGS of rows that a
// gate separates end with logits whose rounding is below 1e−6, and none of them lower than
// where all are within 0.01: at the supremum.
func TestClimbsStayWithinTheBound(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(4, 1))
	p := randomParams(rng, 3, 3, 0.05, true)
	floats.Scale(1e18, p.Gating)
	floats.Scale(1e18, p.GatingIntercepts)
	data := draw(rng, identity, p, 500)
	floats.Scale(1e-18, p.Gating)
	floats.Scale(1e-18, p.GatingIntercepts)
	l := NewLikelihood(data, identity, p, All, 1)
	best := math.Inf(-1)
	ends := map[string]float64{}
	for name, climb := range map[string]func(x []float64) (*optim.Result, error){
		"EM":               func(x []float64) (*optim.Result, error) { return optim.EM(ctx, l, x, optim.Settings{Iterations: 3000}) },
		"SQUAREM":          func(x []float64) (*optim.Result, error) { return optim.SQUAREM(ctx, l, x, optim.Settings{}) },
		"Newton":           func(x []float64) (*optim.Result, error) { return optim.Newton(ctx, l, x, optim.Settings{}) },
		"truncated Newton": func(x []float64) (*optim.Result, error) { return optim.TruncatedNewton(ctx, l, x, optim.Settings{}) },
		"L-BFGS":           func(x []float64) (*optim.Result, error) { return optim.LBFGS(ctx, l, x, optim.Settings{}) },
	} {
		// From an ordinary gate, and from one that is far beyond the bound.
		for _, size := range []float64{1, 1e12} {
			x := l.Theta(p)
			floats.Scale(size, l.gating(x))
			r, err := climb(x)
			if err != nil {
				t.Fatal(err)
			}
			q := l.Params(r.X)
			for _, b := range data.Blocks {
				for row := range b.N {
					for j := range q.Gates() {
						terms := math.Abs(q.GatingIntercepts[j])
						for c, w := range q.Gate(j) {
							terms += math.Abs(w * b.Col(c)[row])
						}
						if rounding := 0x1p-53 * terms * float64(q.D+1); rounding > 1e-6*(1+1e-6) {
							t.Fatalf("%s: a logit of %g terms is rounded by %g", name, terms, rounding)
						}
					}
				}
			}
			ends[name] = -r.Value * l.Rows()
			best = max(best, ends[name])
			if size > 1 && math.Abs(-r.Value*l.Rows()-best) > 0.5 {
				t.Errorf("%s from a hard gate ends at %v, the best is %v", name, ends[name], best)
			}
		}
	}
	for name, v := range ends {
		if v < best-0.5 {
			t.Errorf("%s ends at %v, the best at %v", name, v, best)
		}
	}
}

// TestLoosened: where the bound costs likelihood the same rows with a larger bound have more,
// as much as without one; where it costs nothing no gate is at it.
func TestLoosened(t *testing.T) {
	ctx := context.Background()
	data, p := outlying(rand.New(rand.NewPCG(5, 1)), 2)
	l := NewLikelihood(data, identity, p, Free{Gating: true}, 1)
	fit := func(l *Likelihood) *optim.Result {
		r, err := optim.Newton(ctx, l, l.Theta(p), optim.Settings{})
		if err != nil || r.Status != optim.Converged {
			t.Fatalf("status %v, error %v", r.Status, err)
		}
		return r
	}
	held, loose := fit(l), fit(l.Loosened(1000))
	if !l.AtBound(l.Params(held.X)) || l.Loosened(1000).AtBound(l.Loosened(1000).Params(loose.X)) {
		t.Error("the gate is not at its bound, or also at one that is larger")
	}
	free := l.Loosened(1)
	free.boundBy(nil, 1)
	if v := fit(free).Value; math.Abs(v-loose.Value) > 1e-12*math.Abs(v) || !(loose.Value < held.Value-1e-3) {
		t.Errorf("%v with the bound, %v with a larger one, %v without", held.Value, loose.Value, v)
	}
}
