package mixture_test

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// treeOf is the gate of a shape.
func treeOf(shape string) *mixture.Tree {
	h, err := model.ParseHierarchy(shape)
	if err != nil {
		panic(err)
	}
	return mixture.NewTree(h)
}

// laplace is exp(−|y−m|/b)/(2b): degree 1.
type laplace struct{}

func (laplace) Degree() int      { return 1 }
func (laplace) LogNorm() float64 { return math.Ln2 }

func (laplace) Exponents(dst, std, scores, res []float64, sigma, logUnit float64) {
	for t, v := range res {
		std[t] = v / sigma
		dst[t] = scores[t] - math.Abs(std[t]) - (math.Log(sigma) - logUnit)
	}
}

func (laplace) Weigh(dst, r, res []float64) {
	for t, v := range res {
		dst[t] = math.Copysign(r[t], v)
	}
}

func (laplace) AddNoiseScore(dst, r, std []float64) {
	for t, e := range std {
		dst[t] += r[t] * (math.Abs(e) - 1)
	}
}

func (laplace) LogDensity(dst, scores, y, mean []float64, sigma float64) {
	for t, v := range y {
		dst[t] = scores[t] - math.Abs(v-mean[t])/sigma - math.Log(2*sigma)
	}
}

func (laplace) CDF(p, mean, sigma []float64, y float64) (sum float64) {
	for i := range p {
		if e := (y - mean[i]) / sigma[i]; e < 0 {
			sum += p[i] * math.Exp(e) / 2
		} else {
			sum += p[i] * (1 - math.Exp(-e)/2)
		}
	}
	return sum
}

func (laplace) Density(p, mean, sigma []float64, y float64) (sum float64) {
	for i := range p {
		sum += p[i] * math.Exp(-math.Abs(y-mean[i])/sigma[i]) / (2 * sigma[i])
	}
	return sum
}

func (laplace) Quantile(q float64) float64 {
	if q < 0.5 {
		return math.Log(2 * q)
	}
	return -math.Log(2 * (1 - q))
}

// seams are the mixtures that the tests go through: those of the program, and a
// second one behind either seam.
var seams = map[string]mixture.Mixture{
	"flat, gaussian": {},
	"flat, laplace":  {Family: laplace{}},
	"6":              {Gate: treeOf("6")},
	"2x3":            {Gate: treeOf("2x3")},
	"deep":           {Gate: treeOf("2x(2x(1,3x(1,2,1)),1)")},
	"tree, laplace":  {Gate: treeOf("3x(2,1,3)"), Family: laplace{}},
}

const experts, features = 6, 3

func randomParams(rng *rand.Rand, perExpert bool) *model.Params {
	p := model.NewParams(experts, features)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, experts), make([]float64, experts-1)
	if perExpert {
		p.Sigma = make([]float64, experts)
	}
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	for i := range p.Sigma {
		p.Sigma[i] = 0.4 + rng.Float64()
	}
	return p
}

// draw returns n rows of a mixture with g = tanh.
func draw(rng *rand.Rand, mix mixture.Mixture, p *model.Params, n int) *model.Data {
	mix = mix.WithDefaults()
	data := &model.Data{D: p.D}
	for data.N < n {
		m := min(n-data.N, model.BlockRows)
		b := model.Block{N: m, X: make([]float64, m*p.D), Y: make([]float64, m)}
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		prior, z := make([]float64, p.K*m), make([]float64, p.K*m)
		mix.Prior(prior, p, &b)
		p.Predictors(z, &b)
		for t := range m {
			u, i := rng.Float64(), 0
			for u -= prior[t]; i < p.K-1 && u > 0; u -= prior[i*m+t] {
				i++
			}
			b.Y[t] = math.Tanh(z[i*m+t]) + p.SigmaOf(i)*mix.Family.Quantile(rng.Float64())
		}
		data.Blocks = append(data.Blocks, b)
		data.N += m
	}
	return data
}

// tanh is g.
type tanh struct{}

func (tanh) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = math.Tanh(v)
	}
	return nil
}

func (tanh) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		t := math.Tanh(v)
		dst[i] = 1 - t*t
	}
	return nil
}

// density is p(y|x) and its terms over the experts, written out from the
// definitions: products of probabilities, no logs.
func density(mix mixture.Mixture, p *model.Params, x []float64, y float64) (float64, []float64) {
	linear := func(w []float64, v float64) float64 { return floats.Dot(w, x) + v }
	shape := model.FlatHierarchy(p.K)
	if g, ok := mix.Gate.(*mixture.Tree); ok {
		shape = g.Shape()
	}
	var prior []float64
	var walk func(h model.Hierarchy, reach float64)
	walk = func(h model.Hierarchy, reach float64) {
		if len(h.Branches) == 0 {
			prior = append(prior, reach)
			return
		}
		odds, end := make([]float64, len(h.Branches)), len(prior)
		for c, b := range h.Branches {
			odds[c] = 1
			if end += b.Leaves(); c < len(odds)-1 {
				odds[c] = math.Exp(linear(p.Gate(end-1), p.GatingIntercepts[end-1]))
			}
		}
		for c, b := range h.Branches {
			walk(b, reach*odds[c]/floats.Sum(odds))
		}
	}
	walk(shape, 1)
	for i := range prior {
		e := (y - math.Tanh(linear(p.Regressor(i), p.RegressorIntercepts[i]))) / p.SigmaOf(i)
		if mix.Family == (laplace{}) {
			prior[i] *= math.Exp(-math.Abs(e)) / (2 * p.SigmaOf(i))
		} else {
			prior[i] *= math.Exp(-e*e/2) / (p.SigmaOf(i) * math.Sqrt(2*math.Pi))
		}
	}
	return floats.Sum(prior), prior
}

// TestPosteriorAndDensity: both ways to them against the definitions.
func TestPosteriorAndDensity(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		for _, perExpert := range []bool{false, true} {
			p := randomParams(rng, perExpert)
			data := draw(rng, mix, p, 300)
			r := mixture.NewPosterior(mix, p.K)
			for b := range data.Blocks {
				b := &data.Blocks[b]
				mean, res := make([]float64, p.K*b.N), make([]float64, p.K*b.N)
				p.Predictors(mean, b)
				tanh{}.Eval(t.Context(), mean, mean)
				for i := range p.K {
					floats.SubTo(res[i*b.N:(i+1)*b.N], b.Y, mean[i*b.N:(i+1)*b.N])
				}
				r.Given(p, b)
				sum := 0.0
				check := func(how string) {
					t.Helper()
					x := make([]float64, p.D)
					for row := range b.N {
						for j := range x {
							x[j] = b.Col(j)[row]
						}
						f, terms := density(mix, p, x, b.Y[row])
						sum += math.Log(f)
						for i, v := range terms {
							if got := r.PostOf(i)[row]; math.Abs(got-v/f) > 1e-13 {
								t.Fatalf("%s, %s: posterior %v, want %v", name, how, got, v/f)
							}
						}
						if how == "Predict" && math.Abs(r.LogJoint[row]-math.Log(f)) > 1e-12 {
							t.Fatalf("%s: log density %v, want %v", name, r.LogJoint[row], math.Log(f))
						}
					}
				}
				r.Observe(res, 0)
				check("Observe")
				if got := r.LogLikelihood(nil); math.Abs(got-sum) > 1e-11*float64(b.N) {
					t.Errorf("%s: log-likelihood %v, want %v", name, got, sum)
				}
				r.Predict(b.Y, mean)
				check("Predict")
			}
		}
	}
}

// TestExtremeTargets: no prediction is NaN for a y that no density reaches. The log-densities,
// some −1e1000, are −Inf.
func TestExtremeTargets(t *testing.T) {
	p := model.NewParams(2, 1)
	p.Sigma[0] = 1e-200
	r := mixture.NewPosterior(mixture.Mixture{}, 2)
	b := &model.Block{N: 2, X: []float64{0, 0}, Y: []float64{1e300, -1e300}}
	r.Given(p, b)
	r.Predict(b.Y, []float64{0, 0, 1, 1})
	for _, v := range r.LogJoint {
		if !math.IsInf(v, -1) {
			t.Fatalf("log densities %v", r.LogJoint)
		}
	}
	if !slices.Equal(r.Post, []float64{0.5, 0.5, 0.5, 0.5}) {
		t.Fatalf("posteriors %v", r.Post)
	}
}

// TestDerivatives compares the gradient, and where there is one the Hessian, of
// the likelihood under every mixture with central differences.
func TestDerivatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		for _, perExpert := range []bool{false, true} {
			data := draw(rng, mix, randomParams(rng, perExpert), 400)
			p := randomParams(rng, perExpert)
			l := loss.NewLikelihoodOf(mix, data, tanh{}, p, loss.All, 2)
			x, dim := l.Theta(p), l.Dim()
			grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
			if _, err := l.Grad(t.Context(), grad, x); err != nil {
				t.Fatal(err)
			}
			// A Laplace density has a corner where a residual is 0: its gradient jumps
			// by 1/n there, and differences over a corner are off by as much.
			step, tolerance := 1e-5, 1e-9
			if mix.Family != nil {
				step, tolerance = 1e-7, 2e-8
			}
			info := mat.NewSymDense(dim, nil)
			if mix.Curved() != l.Dense() || mix.Curved() != (mix.Family == nil) {
				t.Errorf("%s: curved %v, dense %v", name, mix.Curved(), l.Dense())
			}
			if mix.Curved() {
				if err := l.Information(t.Context(), info, make([]float64, dim), p, nil); err != nil {
					t.Fatal(err)
				}
			}
			for i := range x {
				at := append([]float64(nil), x...)
				at[i] = x[i] + step
				above, _ := l.Grad(t.Context(), up, at)
				at[i] = x[i] - step
				below, _ := l.Grad(t.Context(), down, at)
				if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > tolerance {
					t.Errorf("%s: entry %d of the gradient is %v, want %v", name, i, grad[i], want)
				}
				for j := range x {
					if !mix.Curved() {
						break
					}
					if want, got := (up[j]-down[j])/(2*step), info.At(i, j)/l.Rows(); math.Abs(got-want) > 1e-8 {
						t.Errorf("%s: entry (%d, %d) of the information is %v, want %v", name, i, j, got, want)
					}
				}
			}
		}
	}
}

// TestFits: from near the truth every mixture is fitted to its own data, by EM and
// Newton where it has second derivatives, by gradient where it has not; and its
// likelihood there is above that of the truth, and of the model of 002 Eq. 1.
func TestFits(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		truth := randomParams(rng, false)
		truth.Sigma[0] = 0.1
		data := draw(rng, mix, truth, 2000)
		fit := func(mix mixture.Mixture) float64 {
			l := loss.NewLikelihoodOf(mix, data, tanh{}, truth, loss.All, 2)
			x := l.Theta(truth)
			at, err := l.Value(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			if l.Dense() {
				r, err := optim.EM(t.Context(), l, x, optim.Settings{Iterations: 30, Tolerance: 1e-9})
				if err != nil {
					t.Fatal(err)
				}
				if r, err = optim.Newton(t.Context(), l, r.X, optim.Settings{Iterations: 30}); err != nil || r.Value > at {
					t.Errorf("%s: Newton ends at %v, the truth has %v, error %v", name, r.Value, at, err)
				}
				return r.Value
			}
			r, err := optim.LBFGS(t.Context(), l, x, optim.Settings{Iterations: 200, Tolerance: 1e-6})
			if err != nil || r.Value > at {
				t.Errorf("%s: L-BFGS ends at %v, the truth has %v, error %v", name, r.Value, at, err)
			}
			return r.Value
		}
		own := fit(mix)
		if mix == (mixture.Mixture{}) {
			continue
		}
		other := fit(mixture.Mixture{})
		if name == "6" { // the same gate
			if math.Abs(other-own) > 1e-9 {
				t.Errorf("a tree of one gate is fitted to %v, a flat gate to %v", own, other)
			}
			continue
		}
		// Twice the difference times 2,000 rows is χ²-like: 8 is out of its reach.
		if other < own+0.002 {
			t.Errorf("data of %s: a flat gate with Gaussian noise fits them as well, %v and %v", name, other, own)
		}
	}
}

// TestTails: F is the integral of its density, and quantiles invert it.
func TestTails(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		p := randomParams(rng, true)
		d := mixture.NewDistribution(mix, p)
		for i := range d.P {
			d.P[i], d.Mean[i] = rng.ExpFloat64(), 3*rng.NormFloat64()
		}
		floats.Scale(1/floats.Sum(d.P), d.P)
		const from, step = -60.0, 1e-3
		sum := 0.0
		for y := from; y < 60; y += step {
			if math.Abs(sum-d.CDF(y)) > 1e-6 { // the midpoint rule next to a corner
				t.Fatalf("%s: F(%v) = %v, its density integrates to %v", name, y, d.CDF(y), sum)
			}
			sum += step * d.Density(y+step/2)
		}
		for _, level := range []float64{0.01, 0.5, 0.95, 1 - 1e-9} {
			lower, upper := d.Interval(level)
			if got := d.CDF(upper) - d.CDF(lower); math.Abs(got-level) > 1e-12 || math.Abs(d.CDF(lower)-(1-level)/2) > 1e-12 {
				t.Errorf("%s: %v to %v hold %v, want %v", name, lower, upper, got, level)
			}
		}
	}
}
