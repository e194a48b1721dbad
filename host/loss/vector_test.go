package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// vectorCase is a mixture with vector outputs, of any shape.
type vectorCase struct {
	name    string
	act     fn
	tree    string
	k, d, m int
	full    bool // noise
	own     bool // noise of every expert
	general bool // intercepts and weights
}

var vectorCases = []vectorCase{
	{"diagonal", tanh, "2", 2, 3, 2, false, false, false},
	{"full", tanh, "3", 3, 2, 2, true, false, true},
	{"full of three coordinates", tanh, "2", 2, 2, 3, true, false, false},
	{"full per expert", tanh, "3", 3, 2, 3, true, true, true},
	{"diagonal per expert, a tree", tanh, "2x(1,2)", 3, 3, 2, false, true, true},
	{"full, a tree", tanh, "2x2", 4, 2, 2, true, false, false},
	{"one coordinate", tanh, "3", 3, 3, 1, true, true, true},
	{"one expert", tanh, "1", 1, 3, 2, true, false, true},
}

func (c vectorCase) params(rng *rand.Rand, sigma float64) *model.VectorParams {
	p := model.NewVectorParams(c.k, c.d, c.m, c.full)
	normal := func(v []float64, scale float64) {
		for i := range v {
			v[i] = scale * rng.NormFloat64()
		}
	}
	if c.k > 1 {
		if tree, err := model.ParseHierarchy(c.tree); err == nil && tree.Depth() > 1 {
			p.Tree = tree
		}
	}
	if c.own {
		for range c.k - 1 {
			p.Noise = append(p.Noise, model.NewVectorNoise(c.m, c.full))
		}
	}
	if c.general {
		p.RegressorIntercepts = make([]float64, c.k*c.m)
		normal(p.RegressorIntercepts, 0.5)
		if c.own { // else the gate has none
			p.GatingIntercepts = make([]float64, c.k-1)
			normal(p.GatingIntercepts, 0.5)
		}
	}
	normal(p.Regressors, 1)
	normal(p.Gating, 1)
	for _, n := range p.Noise {
		for j := range n.Scale {
			n.Scale[j] = sigma * math.Exp(rng.NormFloat64()/4)
		}
		normal(n.Lower, 0.7)
	}
	return p
}

// drawVector draws rows from a mixture with vector outputs.
func drawVector(rng *rand.Rand, act fn, p *model.VectorParams, n int, weights bool) *model.Data {
	data := &model.Data{N: n, D: p.D}
	for left := n; left > 0; left -= model.BlockRows {
		b := model.Block{N: min(left, model.BlockRows)}
		b.X, b.Y = make([]float64, p.D*b.N), make([]float64, p.M*b.N)
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		if weights {
			b.Role[model.Weights] = make([]float64, b.N)
			for i := range b.Role[model.Weights] {
				b.Role[model.Weights][i] = 2 * rng.Float64()
			}
		}
		one := model.Block{N: 1, X: make([]float64, p.D)}
		prob, mean := make([]float64, p.K), make([]float64, p.K*p.M)
		for r := range b.N {
			for j := range p.D {
				one.X[j] = b.X[j*b.N+r]
			}
			priors(prob, p, &one)
			i, u := 0, rng.Float64()
			for ; i < p.K-1 && u >= prob[i]; i++ {
				u -= prob[i]
			}
			p.Predictors(mean, &one)
			noise := make([]float64, p.M)
			of := p.NoiseOf(i)
			for c := range noise {
				noise[c] = of.Scale[c] * rng.NormFloat64()
				unit := of.Unit()
				for a := range c {
					noise[c] -= unit[c*p.M+a] * noise[a]
				}
				b.Y[c*b.N+r] = act.G(mean[i*p.M+c]) + noise[c]
			}
		}
		data.Blocks = append(data.Blocks, b)
	}
	return data
}

// priors writes P(z|x) of one row, written out over the gates of the tree.
func priors(dst []float64, p *model.VectorParams, row *model.Block) {
	gate := p.OfGate()
	for i := range dst {
		dst[i] = 1
	}
	for _, g := range gate.Hierarchy().Gates() {
		odds := make([]float64, len(g.Ends))
		for c := range odds {
			odds[c] = 1
			if c < len(odds)-1 {
				z := floats.Dot(gate.Gate(g.Row(c)), row.X)
				if gate.GatingIntercepts != nil {
					z += gate.GatingIntercepts[g.Row(c)]
				}
				odds[c] = math.Exp(z)
			}
		}
		for c := range odds {
			from, to := g.Branch(c)
			for i := from; i < to; i++ {
				dst[i] *= odds[c] / floats.Sum(odds)
			}
		}
	}
}

// vectorDensity is the log-likelihood by its definition.
func vectorDensity(t *testing.T, act fn, p *model.VectorParams, data *model.Data) (sum float64) {
	t.Helper()
	prob, mean := make([]float64, p.K), make([]float64, p.K*p.M)
	for _, b := range data.Blocks {
		for r := range b.N {
			one := model.Block{N: 1, X: make([]float64, p.D)}
			for j := range p.D {
				one.X[j] = b.X[j*b.N+r]
			}
			y := make([]float64, p.M)
			for c := range y {
				y[c] = b.Y[c*b.N+r]
			}
			priors(prob, p, &one)
			p.Predictors(mean, &one)
			density := 0.0
			for i := range p.K {
				mu := make([]float64, p.M)
				for c := range mu {
					mu[c] = act.G(mean[i*p.M+c])
				}
				normal, ok := distmv.NewNormal(mu, p.NoiseOf(i).Covariance(), nil)
				if !ok {
					t.Fatal("no covariance")
				}
				density += prob[i] * math.Exp(normal.LogProb(y))
			}
			w := 1.0
			if b.Role[model.Weights] != nil {
				w = b.Role[model.Weights][r]
			}
			sum += w * math.Log(density)
		}
	}
	return sum
}

// TestVectorIsTheDensity: the likelihood is that of the definition with gonum's multivariate
// normal density.
func TestVectorIsTheDensity(t *testing.T) {
	for _, c := range vectorCases {
		rng := rand.New(rand.NewPCG(1, 51))
		p := c.params(rng, 0.7)
		data := drawVector(rng, c.act, p, 400, c.general)
		got, err := NewVector(data, c.act, p, All, 2).LogLikelihood(t.Context(), p)
		if want := vectorDensity(t, c.act, p, data); err != nil || math.Abs(got-want) > 1e-11*math.Abs(want) {
			t.Errorf("%s: %v, want %v, error %v", c.name, got, want, err)
		}
	}
}

// TestVectorDerivatives: gradient and information are those of differences, and the same
// bytes at any number of workers.
func TestVectorDerivatives(t *testing.T) {
	for _, c := range vectorCases {
		rng := rand.New(rand.NewPCG(2, 51))
		data := drawVector(rng, c.act, c.params(rng, 0.7), 600, c.general)
		checkDerivatives(t, c, data, c.params(rng, 0.9))
	}
}

// checkDerivatives holds those at p of a likelihood against differences.
func checkDerivatives(t *testing.T, c vectorCase, data *model.Data, p *model.VectorParams) {
	t.Helper()
	ctx := t.Context()
	l := NewVector(data, c.act, p, All, 2)
	theta, dim := l.Theta(p), l.Dim()
	score, up, down, grad := make([]float64, dim), make([]float64, dim), make([]float64, dim), make([]float64, dim)
	h, info := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
	value, err := l.Exact(nil).Hessian(ctx, h, grad, theta)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Information(ctx, info, score, p, nil); err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		other, g := mat.NewSymDense(dim, nil), make([]float64, dim)
		v, _ := NewVector(data, c.act, p, All, workers).Exact(nil).Hessian(ctx, other, g, theta)
		if v != value || !slices.Equal(g, grad) || !mat.Equal(other, h) {
			t.Errorf("%s: other bytes with %d workers", c.name, workers)
		}
	}
	const step = 1e-6
	for i := range theta {
		x := slices.Clone(theta)
		x[i] = theta[i] + step
		above, _ := l.Grad(ctx, up, x)
		x[i] = theta[i] - step
		below, _ := l.Grad(ctx, down, x)
		// Rounding of a value of order 10 and of its gradient, 1e−15, over the step.
		if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > 2e-8 || math.Abs(score[i]/l.Rows()+grad[i]) > 1e-12 {
			t.Errorf("%s: entry %d of the gradient is %v, want %v; the score has %v", c.name, i, grad[i], want, score[i]/l.Rows())
		}
		for j := range theta {
			want := (up[j] - down[j]) / (2 * step)
			if math.Abs(h.At(i, j)-want) > 1e-7 || math.Abs(info.At(i, j)/l.Rows()-h.At(i, j)) > 1e-12 {
				t.Errorf("%s: entry (%d, %d) of the Hessian is %v, want %v", c.name, i, j, h.At(i, j), want)
			}
		}
	}
}

// TestVectorOfOneCoordinate: with one coordinate it is [Likelihood], with its gradient,
// Hessian and EM step, with a ridge and without.
func TestVectorOfOneCoordinate(t *testing.T) {
	ctx := t.Context()
	for _, c := range []vectorCase{
		{"shared", relu, "3", 3, 4, 1, false, false, true},
		{"per expert", tanh, "2x2", 4, 3, 1, true, true, true},
	} {
		rng := rand.New(rand.NewPCG(3, 51))
		data := drawVector(rng, c.act, c.params(rng, 0.3), 700, true)
		p := c.params(rng, 0.8)
		l, flat := NewVector(data, c.act, p, All, 1), NewLikelihood(data, c.act, p.Coordinate(0), All, 1)
		theta := l.Theta(p)
		if !floats.EqualApprox(theta, flat.Theta(p.Coordinate(0)), 1e-15) || !slices.Equal(l.Parameters(), flat.Parameters()) {
			t.Fatalf("%s: other parameters", c.name)
		}
		dim := l.Dim()
		for _, tau := range []float64{0, 0.5} {
			l.PenaliseGate(tau)
			flat.PenaliseGate(tau)
			h, want := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil)
			g, gw, em, emw := make([]float64, dim), make([]float64, dim), make([]float64, dim), make([]float64, dim)
			a, _ := l.Hessian(ctx, h, g, theta)
			b, _ := flat.Hessian(ctx, want, gw, theta)
			// Rounding: sums of terms of order 1 in another association.
			if math.Abs(a-b) > 1e-13 || !floats.EqualApprox(g, gw, 1e-12) || !mat.EqualApprox(h, want, 1e-12) {
				t.Errorf("%s, ridge %v: %v with gradient %v, want %v with %v", c.name, tau, a, g, b, gw)
			}
			l.EMStep(ctx, em, theta)
			flat.EMStep(ctx, emw, theta)
			if !floats.EqualApprox(em, emw, 1e-9) /* a ridge of 1e−10 on the regressors' system */ {
				t.Errorf("%s, ridge %v: an EM step to %v, want %v", c.name, tau, em, emw)
			}
		}
	}
}

// TestVectorEM: where g is linear no EM step lowers the likelihood, and EM and Newton's method
// from beside the truth end above it, at the same maximum.
func TestVectorEM(t *testing.T) {
	ctx := t.Context()
	for _, c := range []vectorCase{
		{"diagonal", identity, "3", 3, 3, 2, false, false, true},
		{"full", identity, "2", 2, 3, 3, true, false, false},
		{"full per expert", identity, "2x(1,2)", 3, 3, 2, true, true, true},
	} {
		rng := rand.New(rand.NewPCG(4, 51))
		truth := c.params(rng, 0.2)
		data := drawVector(rng, c.act, truth, 3000, c.general)
		l := NewVector(data, c.act, truth, All, 2)
		x := l.Theta(truth)
		at, _ := l.Value(ctx, x)
		for i := range x {
			x[i] += 0.02 * rng.NormFloat64()
		}
		run, err := optim.EM(ctx, l, x, optim.Settings{Iterations: 3000, Tolerance: 1e-13})
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(run.Trace); i++ {
			if run.Trace[i] > run.Trace[i-1]+1e-13 {
				t.Errorf("%s: step %d from %v to %v", c.name, i, run.Trace[i-1], run.Trace[i])
			}
		}
		best, err := optim.Newton(ctx, l, run.X, optim.Settings{})
		// EM that ends at gains of 1e−13 may have a few times as much left.
		if err != nil || best.Status != optim.Converged || !(best.Value < at) || run.Value-best.Value > 1e-9 {
			t.Errorf("%s: EM ends at %v, Newton at %v (%v), the truth has %v, error %v", c.name, run.Value, best.Value, best.Status, at, err)
		}
	}
}

// TestVectorStepIsLeastSquares: where g is linear and there is one expert, a step of EM from anywhere ends where the
// score of its coefficients is 0, whether or not the noise is correlated.
func TestVectorStepIsLeastSquares(t *testing.T) {
	for _, full := range []bool{false, true} {
		c := vectorCase{"", identity, "1", 1, 3, 3, full, false, true}
		rng := rand.New(rand.NewPCG(6, 52))
		data := drawVector(rng, c.act, c.params(rng, 0.5), 400, true)
		l := NewVector(data, c.act, c.params(rng, 2), All, 1)
		next, grad := make([]float64, l.Dim()), make([]float64, l.Dim())
		if _, err := l.EMStep(t.Context(), next, l.Theta(c.params(rng, 2))); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Grad(t.Context(), grad, next); err != nil {
			t.Fatal(err)
		}
		for at, q := range l.Parameters() {
			if q.Part == model.Expert && math.Abs(grad[at]) > 1e-8 { // the ridge of 1e−10 on the step's system
				t.Errorf("full %v: entry %d of the gradient is %v after a step", full, at, grad[at])
			}
		}
	}
}

// TestVectorScoreProducts: the products of scores are those of the rows one by one.
func TestVectorScoreProducts(t *testing.T) {
	ctx := t.Context()
	for _, c := range vectorCases {
		rng := rand.New(rand.NewPCG(5, 51))
		p := c.params(rng, 0.7)
		data := drawVector(rng, c.act, p, 300, c.general)
		l := NewVector(data, c.act, p, All, 2)
		n := l.Dim()
		got, want := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
		if err := l.ScoreProducts(ctx, got, p); err != nil {
			t.Fatal(err)
		}
		h, score := mat.NewSymDense(n, nil), make([]float64, n)
		for _, b := range data.Blocks {
			for r := range b.N {
				one := model.Block{N: 1}
				for j := range p.D {
					one.X = append(one.X, b.X[j*b.N+r])
				}
				for j := range p.M {
					one.Y = append(one.Y, b.Y[j*b.N+r])
				}
				if b.Role[model.Weights] != nil {
					one.Role[model.Weights] = b.Role[model.Weights][r : r+1]
				}
				row := &model.Data{N: 1, D: p.D, Blocks: []model.Block{one}}
				if err := NewVector(row, c.act, p, All, 1).Information(ctx, h, score, p, nil); err != nil {
					t.Fatal(err)
				}
				want.SymRankOne(want, 1, mat.NewVecDense(n, score))
			}
		}
		// Rounding of sums of 300 terms of order 1 to 100.
		if !mat.EqualApprox(got, want, 1e-9) {
			t.Errorf("%s: other products of scores", c.name)
		}
	}
}

// BenchmarkVector times an EM step and a Hessian of three experts with two outputs over ten
// features, 10,000 rows, on one worker.
func BenchmarkVector(b *testing.B) {
	c := vectorCase{"", tanh, "3", 3, 10, 2, true, false, false}
	rng := rand.New(rand.NewPCG(6, 51))
	p := c.params(rng, 0.5)
	l := NewVector(drawVector(rng, c.act, p, 10000, false), c.act, p, All, 1)
	x := l.Theta(p)
	dst, h := make([]float64, l.Dim()), mat.NewSymDense(l.Dim(), nil)
	b.Run("EMStep", func(b *testing.B) {
		for b.Loop() {
			l.EMStep(b.Context(), dst, x)
		}
	})
	b.Run("Hessian", func(b *testing.B) {
		for b.Loop() {
			l.Hessian(b.Context(), h, dst, x)
		}
	})
}
