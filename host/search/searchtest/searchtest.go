// Package searchtest has the problems on which the search and its steps are tested, and data sets on which fits are
// tested and studied.
package searchtest

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// Lower is a problem of two experts, each with a noise of its own, on three lines, of which one has three sevenths of
// the rows and the others two each, and two of its maxima: at the highest the first line has an expert of its own, at
// the other the third.
func Lower(t testing.TB, n int) (p *problem.Problem, high, low *optim.Result) {
	t.Helper()
	level := func(row int) float64 { return []float64{-10, -10, 0, 10, 10, 0, -10}[row%7] }
	p = Parallels(t, n, 2, level, problem.Request{Noise: problem.PerExpert{}})
	from := func(one, both float64) *optim.Result {
		q := At(p, 0.3, one, both)
		q.Sigma[1] = 5
		return Climbed(t, p, p.Rows, q)
	}
	if high, low = from(-10, 5), from(10, -5); low.Value < high.Value+1/float64(n) {
		t.Fatalf("values %v and %v: neither is the lower", low.Value, high.Value)
	}
	return p, high, low
}

// Activation is that of a family without parameters.
func Activation(t testing.TB, family sdk.Family) sdk.Activation {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// Load is the problem of rows, with seed 1 and one thread where nothing else is asked for.
func Load(t testing.TB, src dataset.Source, act sdk.Activation, r problem.Request) *problem.Problem {
	t.Helper()
	r.Seed, r.Threads = 1, max(r.Threads, 1)
	p, err := problem.Load(t.Context(), src, act, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Measure is what the moments of a problem say.
func Measure(t testing.TB, p *problem.Problem) *moment.Evidence {
	t.Helper()
	e, err := moment.Measure(t.Context(), p, moment.Want{Transform: moment.Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Drawn is a problem of k experts on a sample of the papers' design, with its
// truth.
func Drawn(t testing.TB, family sdk.Family, k, d, n int, sigma float64, seed uint64,
	r problem.Request) (*problem.Problem, *model.Params) {
	t.Helper()
	return Sampled(t, family, sample.Config{K: k, D: d, N: n, Sigma: sigma, Design: sample.Paper, Seed: seed}, r)
}

// Sampled is a problem of the experts of a sample of any design, with its truth.
func Sampled(t testing.TB, family sdk.Family, c sample.Config, r problem.Request) (*problem.Problem, *model.Params) {
	t.Helper()
	act := Activation(t, family)
	c.Activation = act
	s, err := sample.New(c)
	if err != nil {
		t.Fatal(err)
	}
	r.K = c.K
	return Load(t, s, act, r), s.Truth
}

// Parallels is a problem of k experts on parallel lines y = level(row) + x/2 with
// noise 0.3, proportions that do not depend on x, and intercepts.
func Parallels(t testing.TB, n, k int, level func(row int) float64, r problem.Request) *problem.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 5))
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for i := range y {
		x.Set(i, 0, rng.NormFloat64())
		y[i] = level(i) + x.At(i, 0)/2 + 0.3*rng.NormFloat64()
	}
	r.K, r.Intercepts, r.Gate = k, problem.BothIntercepts, problem.Constant{}
	return Load(t, dataset.Matrix(x, y), Activation(t, identity.Family), r)
}

// At are parameters on parallel lines of these levels.
func At(p *problem.Problem, sigma float64, levels ...float64) *model.Params {
	q := p.Shape.Blank(sigma)
	for i := range q.K {
		q.Regressor(i)[0] = 0.5
		q.RegressorIntercepts[i] = levels[i]
	}
	return q
}

// Poisson is a problem of two Poisson experts with g = exp.
func Poisson(t testing.TB) *problem.Problem {
	t.Helper()
	exp := sdk.Func{Name: "exp", G: math.Exp, DG: math.Exp}
	s, err := sample.New(sample.Config{
		Activation: exp, K: 2, D: 3, N: 400, Family: "poisson", Design: sample.Random, Seed: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	return Load(t, s, exp, problem.Request{K: 2, Family: "poisson"})
}

// Likelihood is that of rows in the shape of a problem.
func Likelihood(p *problem.Problem, rows model.Rows) *loss.Likelihood {
	return loss.NewLikelihood(rows, p.G, p.Shape.Blank(1), p.Shape.Free(), 1)
}

// Tree is a shape.
func Tree(t testing.TB, text string) model.Hierarchy {
	t.Helper()
	h, err := model.ParseHierarchy(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Quarters is a tree 2x2 whose gates cut the plane into quadrants of an expert each, whose mean is 10 times its number,
// and the rows for it: 40 in the middle of each quadrant, and others at (x1, x2) that are an expert's.
func Quarters(t testing.TB) (p *model.Params, data func(others ...[3]float64) *model.Data) {
	p = model.NewParams(4, 2)
	p.Tree = Tree(t, "2x2")
	p.RegressorIntercepts, p.GatingIntercepts = []float64{0, 10, 20, 30}, make([]float64, 3)
	p.Sigma[0] = 0.3
	for at, v := range p.Tree.Gates() {
		p.Gate(v.Row(0))[min(at, 1)] = -20 // branch 0 has what is below 0: of x1 by the first gate, of x2 by the others
	}
	return p, func(others ...[3]float64) *model.Data {
		b := model.Block{N: 160 + len(others)}
		b.X, b.Y = make([]float64, 2*b.N), make([]float64, b.N)
		for r := range b.N {
			x, expert := [2]float64{float64(r%2*2 - 1), float64(r/2%2*2 - 1)}, float64(r%2*2+r/2%2)
			if r >= 160 {
				o := others[r-160]
				x, expert = [2]float64{o[0], o[1]}, o[2]
			}
			b.Col(0)[r], b.Col(1)[r], b.Y[r] = x[0], x[1], 10*expert+0.3*math.Sin(float64(r))
		}
		return &model.Data{N: b.N, D: 2, Blocks: []model.Block{b}}
	}
}

// LogitOf is the gate's logit of expert i at x, 0 for the last.
func LogitOf(p *model.Params, i int, x []float64) float64 {
	if i == p.K-1 {
		return 0
	}
	v := floats.Dot(p.Gate(i), x)
	if p.GatingIntercepts != nil {
		v += p.GatingIntercepts[i]
	}
	return v
}

// Quadrants is a small table of four planes, one to a quadrant of the first two of
// three features: a gate that separates and many optima.
func Quadrants(t testing.TB, n, threads int) *problem.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	x, y := mat.NewDense(n, 3, nil), make([]float64, n)
	var plane [4][3]float64
	for i := range plane {
		for j := range plane[i] {
			plane[i][j] = rng.NormFloat64()
		}
	}
	for r := range y {
		cell := 0
		for j := range 3 {
			x.Set(r, j, rng.NormFloat64())
			if j < 2 && x.At(r, j) > 0 {
				cell += 1 << j
			}
		}
		y[r] = floats.Dot(plane[cell][:], x.RawRowView(r)) + float64(cell) + 0.3*rng.NormFloat64()
	}
	return Load(t, dataset.Matrix(x, y), Activation(t, identity.Family), problem.Request{
		K: 4, Intercepts: problem.BothIntercepts, Threads: threads,
	})
}

// Normal are n draws from the standard normal distribution.
func Normal(rng *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = rng.NormFloat64()
	}
	return v
}

// Anywhere is random parameters of the shape of p.
func Anywhere(p *problem.Problem, rng *rand.Rand) *model.Params {
	q := p.Shape.Blank(1)
	for _, v := range [][]float64{q.Regressors, q.RegressorIntercepts, q.Gating, q.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	for _, v := range append(q.Own, q.Sigma) {
		for i := range v {
			v[i] *= math.Exp(rng.NormFloat64() / 4)
		}
	}
	return p.Shape.Adopt(q)
}

// Climbed is the maximum that q leads to.
func Climbed(t testing.TB, p *problem.Problem, rows model.Rows, q *model.Params) *optim.Result {
	t.Helper()
	l := Likelihood(p, rows)
	r, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != optim.Converged {
		t.Fatalf("a climb ended with status %v", r.Status)
	}
	return r
}

// Halves is a problem of two experts y = ±(3 + x1/2) with noise 0.3 whose boundary is
// x2 = 0: for certain, or with the probability of a logit of slope times x2.
func Halves(t testing.TB, n int, slope float64) (p *problem.Problem, truth *model.Params) {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 5))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		sign := 1.0
		if rng.Float64() > 1/(1+math.Exp(-slope*x.At(i, 1))) {
			sign = -1
		}
		y[i] = sign*(3+x.At(i, 0)/2) + 0.3*rng.NormFloat64()
	}
	p = Load(t, dataset.Matrix(x, y), Activation(t, identity.Family),
		problem.Request{K: 2, Intercepts: problem.BothIntercepts})
	return p, Lopsided(p, min(slope, 1))
}

// Lopsided are the experts of [Halves] and a gate of that slope.
func Lopsided(p *problem.Problem, slope float64) *model.Params {
	q := p.Shape.Blank(0.3)
	copy(q.Regressors, []float64{0.5, 0, -0.5, 0})
	copy(q.RegressorIntercepts, []float64{3, -3})
	q.Gating[1] = slope
	return p.Units.Into(q)
}

// Supremum is the log-likelihood of rows each of which has the expert of its half for
// certain: two least squares lines with one σ.
func Supremum(t testing.TB, p *problem.Problem) float64 {
	t.Helper()
	q := Lopsided(p, 1e9)
	l := loss.NewLikelihood(p.Rows, p.G, q, loss.Free{Regressors: true, Sigma: true}, 1)
	r, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
	if err != nil || r.Status != optim.Converged {
		t.Fatal(r.Status, err)
	}
	return -r.Value * l.Rows()
}

// Stuck is a problem whose three lines lie at −2, 2 and 20, and where EM gets
// stuck: with one expert on the first two lines and two on the third (Jin et al.
// 2016 show that such maxima exist however many rows there are). Top is the
// highest maximum, merged the other one.
func Stuck(t testing.TB) (p *problem.Problem, top, merged *optim.Result) {
	t.Helper()
	p = Parallels(t, 900, 3, func(row int) float64 { return []float64{-2, 2, 20}[row%3] }, problem.Request{})
	top, merged = Climbed(t, p, p.Rows, At(p, 0.3, -2, 2, 20)), Climbed(t, p, p.Rows, At(p, 2, 0, 19.5, 20.5))
	if merged.Value < top.Value+1 {
		t.Fatalf("values %v and %v: EM does not get stuck here", merged.Value, top.Value)
	}
	return p, top, merged
}
