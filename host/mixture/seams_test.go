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
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/internal/testslow"
)

// treeOf is the gate of a shape.
func treeOf(shape string) *mixture.Tree {
	h, err := model.ParseHierarchy(shape)
	if err != nil {
		panic(err)
	}
	return mixture.NewTree(h)
}

func init() {
	mixture.Register(mixturetest.Logistic{})
	mixture.Register(mixturetest.Plain{})
}

// seams are the mixtures that the tests go through: those of the program, and a
// second one behind either seam.
var seams = map[string]mixture.Mixture{
	"flat, gaussian": {},
	"flat, logistic": {Density: mixturetest.Logistic{}},
	"flat, plain":    {Density: mixturetest.Plain{}},
	"flat, student":  {Density: mixture.StudentT{}},
	"6":              {Gate: treeOf("6")},
	"2x3":            {Gate: treeOf("2x3")},
	"deep":           {Gate: treeOf("2x(2x(1,3x(1,2,1)),1)")},
	"tree, logistic": {Gate: treeOf("3x(2,1,3)"), Density: mixturetest.Logistic{}},
	"tree, student":  {Gate: treeOf("2x3"), Density: mixture.StudentT{}},
}

const experts, features = 6, 3

func randomParams(rng *rand.Rand, mix mixture.Mixture, perExpert bool) *model.Params {
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
	if mix.Density == (mixture.StudentT{}) {
		p.Own = [][]float64{make([]float64, len(p.Sigma))}
		for i := range p.Sigma {
			p.Own[0][i] = 5 + 10*rng.Float64()
		}
	}
	return p
}

// draw returns n rows of a mixture with g = tanh.
func draw(rng *rand.Rand, mix mixture.Mixture, p *model.Params, n int) *model.Data {
	density := mix.Of(p).Density
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
			b.Y[t] = density.Quantile(1-rng.Float64(), math.Tanh(z[i*m+t]), p.OwnOf(nil, i))
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
		switch mix.Density {
		case mixturetest.Logistic{}:
			prior[i] *= math.Pow(math.Cosh(e/2), -2) / (4 * p.SigmaOf(i))
		case mixture.StudentT{}:
			nu := p.OwnOf(nil, i)[1]
			prior[i] *= math.Gamma((nu+1)/2) / math.Gamma(nu/2) / math.Sqrt(nu*math.Pi) / p.SigmaOf(i) * math.Pow(1+e*e/nu, -(nu+1)/2)
		default:
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
			p := randomParams(rng, mix, perExpert)
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
				if mixture.Normal(mix.Of(p).Density) {
					r.Observe(res, 0)
					check("Observe")
				}
				sum = 0
				r.ObserveMeans(b.Y, mean)
				check("ObserveMeans")
				if got := r.LogLikelihood(nil); math.Abs(got-sum) > 1e-11*float64(b.N) {
					t.Errorf("%s: log-likelihood %v, want %v", name, got, sum)
				}
				r.Predict(b.Y, mean)
				check("Predict")
			}
		}
	}
}

// TestGivenNoGate: what a gate of 0 says of a block is kept for the next, and only where that is the same: room that was
// used says what new room does.
func TestGivenNoGate(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	used := mixture.NewPosterior(mixture.Mixture{}, experts)
	for i, c := range []struct {
		rows              int
		gate, one, zeroed bool // whether it has slopes, one intercept, a class that is always 0
	}{{rows: 100}, {rows: 100}, {rows: 70}, {rows: 60, zeroed: true}, {rows: 70}, {rows: 70, one: true}, {rows: 70},
		{rows: 70, gate: true}, {rows: 70}} {
		p := randomParams(rng, mixture.Mixture{}, false)
		p.Zero = c.zeroed
		classes := p.Classes()
		p.Gating, p.GatingIntercepts = make([]float64, (classes-1)*features), make([]float64, classes-1)
		if c.gate {
			p.Gating[len(p.Gating)-1] = 0.5
		}
		if c.one {
			p.GatingIntercepts[classes-2] = 0.5
		}
		b := &draw(rng, mixture.Mixture{}, randomParams(rng, mixture.Mixture{}, false), c.rows).Blocks[0]
		fresh := mixture.NewPosterior(mixture.Mixture{}, experts)
		fresh.Given(p, b)
		used.Given(p, b)
		if !slices.Equal(used.Scores, fresh.Scores) || !slices.Equal(used.Prior, fresh.Prior) ||
			!slices.Equal(used.LogPrior, fresh.LogPrior) {
			t.Errorf("block %d: priors %v, want %v", i, used.Prior, fresh.Prior)
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

// TestDerivatives compares the gradient and the Hessian of
// the likelihood under every mixture with central differences.
func TestDerivatives(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		for _, perExpert := range []bool{false, true} {
			data := draw(rng, mix, randomParams(rng, mix, perExpert), 400)
			p := randomParams(rng, mix, perExpert)
			l := loss.NewLikelihoodOf(mix, data, tanh{}, p, loss.All, 2)
			x, dim := l.Theta(p), l.Dim()
			grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
			if _, err := l.Grad(t.Context(), grad, x); err != nil {
				t.Fatal(err)
			}
			const step, tolerance = 1e-5, 1e-9
			info := mat.NewSymDense(dim, nil)
			if !mix.Curved() || !l.Dense() {
				t.Errorf("%s: curved %v, dense %v", name, mix.Curved(), l.Dense())
			}
			if err := l.Information(t.Context(), info, make([]float64, dim), p, nil); err != nil {
				t.Fatal(err)
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
					if want, got := (up[j]-down[j])/(2*step), info.At(i, j)/l.Rows(); math.Abs(got-want) > 1e-8 {
						t.Errorf("%s: entry (%d, %d) of the information is %v, want %v", name, i, j, got, want)
					}
				}
			}
		}
	}
}

// TestFits: from near the truth every mixture is fitted to its own data, by EM and
// Newton; and its
// likelihood there is above that of the truth, and of the model of 002 Eq. 1.
func TestFits(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(3, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		truth := randomParams(rng, mix, false)
		truth.Sigma[0] = 0.1
		data := draw(rng, mix, truth, 2000)
		fit := func(mix mixture.Mixture) float64 {
			truth := truth.Clone()
			truth.Own = truth.Own[:max(0, len(mix.Of(truth).Density.Own())-1)]
			l := loss.NewLikelihoodOf(mix, data, tanh{}, truth, loss.All, 2)
			x := l.Theta(truth)
			at, err := l.Value(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			r, err := optim.EM(t.Context(), l, x, optim.Settings{Iterations: 30, Tolerance: 1e-9})
			if err != nil {
				t.Fatal(err)
			}
			if r, err = optim.Newton(t.Context(), l, r.X, optim.Settings{Iterations: 30}); err != nil || r.Value > at {
				t.Errorf("%s: Newton ends at %v, the truth has %v, error %v", name, r.Value, at, err)
			}
			return r.Value
		}
		own := fit(mix)
		if mix == (mixture.Mixture{}) {
			continue
		}
		other := fit(mixture.Mixture{})
		if name == "6" || name == "flat, plain" { // the same mixture
			if math.Abs(other-own) > 1e-9 {
				t.Errorf("%s is fitted to %v, a flat gate with Gaussian noise to %v", name, own, other)
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
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(4, 1))
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		p := randomParams(rng, mix, true)
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
			at := y + step/2
			density := d.Density(at)
			if sum += step * density; density > 1e-300 && math.Abs(d.LogDensity(at)-math.Log(density)) > 1e-12 {
				t.Fatalf("%s: log density %v at %v, want %v", name, d.LogDensity(at), at, math.Log(density))
			}
		}
		for _, level := range []float64{0.01, 0.5, 0.95, 1 - 1e-9} {
			lower, upper := d.Interval(level)
			if got := d.CDF(upper) - d.CDF(lower); math.Abs(got-level) > 1e-12 || math.Abs(d.CDF(lower)-(1-level)/2) > 1e-12 {
				t.Errorf("%s: %v to %v hold %v, want %v", name, lower, upper, got, level)
			}
		}
	}
}

// TestPlain: the normal density without its kernels has the log-likelihood, the score, the products of scores, the
// information, its product with a direction and the EM step of the one with them, to rounding.
func TestPlain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, gate := range []mixture.Gate{nil, treeOf("2x3")} {
		for _, perExpert := range []bool{false, true} {
			p := randomParams(rng, mixture.Mixture{}, perExpert)
			data := draw(rng, mixture.Mixture{Gate: gate}, p, 400)
			of := func(d mixture.Density) (out []float64) {
				l := loss.NewLikelihoodOf(mixture.Mixture{Gate: gate, Density: d}, data, tanh{}, p, loss.All, 1)
				n := l.Dim()
				x := l.Theta(p)
				x[0] += 0.3
				vector, info := make([]float64, n), mat.NewSymDense(n, nil)
				keep := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, vector...)
					for i := range n {
						for j := range i + 1 {
							out = append(out, info.At(i, j))
						}
					}
				}
				v, err := l.Grad(t.Context(), vector, x)
				keep(err)
				keep(l.Information(t.Context(), info, vector, l.Params(x), nil))
				fixed := loss.NewLikelihoodOf(mixture.Mixture{Gate: gate, Density: d}, data, tanh{}, p, loss.Free{Gating: true, Sigma: true}, 1)
				part, score := mat.NewSymDense(fixed.Dim(), nil), make([]float64, fixed.Dim())
				keep(fixed.Information(t.Context(), part, score, p, nil))
				for i := range score {
					for j := range i + 1 {
						out = append(out, part.At(i, j))
					}
				}
				keep(l.ScoreProducts(t.Context(), info, l.Params(x)))
				along := slices.Clone(x)
				keep(l.HessianTimes(t.Context(), vector, along, x))
				_, err = l.EMStep(t.Context(), vector, x)
				clear(vector[n-len(p.Sigma):]) // one has a closed form, the other takes a step of Newton's method
				keep(err)
				return append(out, v)
			}
			fused, plain := of(mixture.Gaussian{}), of(mixturetest.Plain{})
			for i, want := range fused {
				// 400 rows of up to some thousands, summed in other orders.
				if math.Abs(plain[i]-want) > 1e-10*(1+math.Abs(want)) {
					t.Fatalf("value %d is %v, by the kernels %v", i, plain[i], want)
				}
			}
		}
	}
}

// TestOffsets: likelihood, score, information and its product with a direction of rows with an offset that is the same for all are
// those of the intercepts that much larger.
func TestOffsets(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	const offset = 0.7
	for _, name := range slices.Sorted(maps.Keys(seams)) {
		mix := seams[name]
		p := randomParams(rng, mix, false)
		data := draw(rng, mix, p, 400)
		of := func(p *model.Params) (out []float64) {
			l := loss.NewLikelihoodOf(mix, data, tanh{}, p, loss.All, 1)
			n := l.Dim()
			vector, x, info := make([]float64, n), l.Theta(p), mat.NewSymDense(n, nil)
			v, err := l.Grad(t.Context(), vector, x)
			out = append(append(out, v), vector...)
			if err == nil {
				err = l.Information(t.Context(), info, vector, p, nil)
			}
			for i := range n {
				out = append(out, info.At(i, i), info.At(0, i))
			}
			along := make([]float64, n)
			for i := range along {
				along[i] = math.Sin(float64(i))
			}
			if err == nil {
				err = l.HessianTimes(t.Context(), vector, along, x)
			}
			if err != nil {
				t.Fatal(err)
			}
			return append(out, vector...)
		}
		up := p.Clone()
		floats.AddConst(offset, up.RegressorIntercepts)
		want := of(up)
		for b := range data.Blocks {
			data.Blocks[b].Role[model.Offsets] = slices.Repeat([]float64{offset}, data.Blocks[b].N)
		}
		for i, got := range of(p) {
			if math.Abs(got-want[i]) > 1e-9*(1+math.Abs(want[i])) {
				t.Fatalf("%s: value %d is %v, of larger intercepts %v", name, i, got, want[i])
			}
		}
	}
}

// TestDerive compares the derivatives that densities state with differences, and what they state of their law with
// draws and integrals.
func TestDerive(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, name := range []string{"gaussian", "logistic", "plain", "student-t"} {
		d := mixture.DensityOf(name)
		own := len(d.Own())
		log := func(y, mean float64, psi []float64) float64 {
			dst := make([]float64, 1)
			d.LogDensity(dst, []float64{0}, []float64{y}, []float64{mean}, psi)
			return dst[0]
		}
		at := func(y, mean float64, psi []float64) mixture.Terms {
			t := mixture.NewTerms(own).First(1)
			d.Derive(t, []float64{y}, []float64{mean}, psi)
			return t
		}
		for range 50 {
			mean, psi := rng.NormFloat64(), make([]float64, own)
			for q := range psi {
				psi[q] = d.Own()[q].Start * math.Exp(rng.NormFloat64()/2)
			}
			y := d.Quantile(0.01+0.98*rng.Float64(), mean, psi)
			const h = 1e-5
			got, left, right := at(y, mean, psi), at(y, mean-h, psi), at(y, mean+h, psi)
			check := func(what string, got, want float64) {
				if math.Abs(got-want) > 1e-6*(1+math.Abs(want)) { // h² and rounding over h
					t.Errorf("%s: %s %v at y %v, mean %v, ψ %v; differences say %v", name, what, got, y, mean, psi, want)
				}
			}
			check("score", got.Score[0], (log(y, mean+h, psi)-log(y, mean-h, psi))/(2*h))
			check("information", got.Information[0], (left.Score[0]-right.Score[0])/(2*h))
			for q := range psi {
				times := func(by float64) []float64 {
					out := slices.Clone(psi)
					out[q] *= math.Exp(by)
					return out
				}
				less, more := at(y, mean, times(-h)), at(y, mean, times(h))
				check("own score", got.OwnScore[q][0], (log(y, mean, times(h))-log(y, mean, times(-h)))/(2*h))
				check("cross", got.Cross[q][0], (less.Score[0]-more.Score[0])/(2*h))
				for p := range psi {
					check("own information", got.OwnInformation[mixture.OwnAt(p, q)][0], (less.OwnScore[p][0]-more.OwnScore[p][0])/(2*h))
				}
			}
			if q := d.Quantile(d.CDF(y, mean, psi), mean, psi); math.Abs(q-y) > 1e-6*(1+math.Abs(y)) {
				t.Errorf("%s: quantile %v of F(%v)", name, q, y)
			}
			if own > 1 && psi[1] < 8 {
				continue // tails beyond those that are integrated
			}
			expected, total := 0.0, 0.0
			const rows, step = model.BlockRows, 120.0 / (50 * model.BlockRows)
			room, zeros, ys, means, f := mixture.NewTerms(own), make([]float64, rows), make([]float64, rows), make([]float64, rows), make([]float64, rows)
			for from := range 50 {
				for t := range ys {
					ys[t], means[t] = mean+psi[0]*(-60+step*float64(from*rows+t)), mean
				}
				d.LogDensity(f, zeros, ys, means, psi)
				d.Derive(room, ys, means, psi)
				for t, v := range f {
					f[t] = step * psi[0] * math.Exp(v)
					total += f[t]
					expected += f[t] * room.Information[t]
				}
			}
			if math.Abs(total-1) > 1e-9 || math.Abs(expected/got.Expected[0]-1) > 1e-9 {
				t.Errorf("%s: the density integrates to %v, the information to %v, want 1 and %v", name, total, expected, got.Expected[0])
			}
		}
	}
}

// badly is a density whose own parameters are these.
type badly struct {
	mixture.Gaussian
	own []mixture.OwnParameter
}

func (badly) Name() string                  { return "badly" }
func (b badly) Own() []mixture.OwnParameter { return b.own }

// TestRegisterRefuses: own parameters without a name or with that of another, and where fits cannot begin.
func TestRegisterRefuses(t *testing.T) {
	sigma, inf := mixture.OwnParameter{Name: "sigma", Start: 1, Most: math.Inf(1)}, math.Inf(1)
	for what, own := range map[string][]mixture.OwnParameter{
		"the first is no sigma, of a scale": {{Name: "scale", Start: 1, Most: inf}},
		"a second sigma":                    {sigma, sigma},
		"one name twice":                    {sigma, {Name: "a", Start: 1, Most: inf}, {Name: "a", Start: 1, Most: inf}},
		"no name":                           {sigma, {Start: 1, Most: inf}},
		"a name of two words":               {sigma, {Name: "degrees of freedom", Start: 1, Most: inf}},
		"no start":                          {sigma, {Name: "a", Most: inf}},
		"a start at the end":                {sigma, {Name: "a", Start: 1, Most: 1}},
		"below 0":                           {sigma, {Name: "a", Start: 1, Least: -1, Most: inf}},
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("registered")
				}
			}()
			mixture.Register(badly{own: own})
		})
	}
}
