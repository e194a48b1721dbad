package specification

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
)

func init() {
	mixture.Register(mixturetest.Logistic{})
	mixture.Register(mixturetest.Plain{})
}

// TestTermsOfDensitiesHaveMeanZero: under a density that is registered the mean of every term given x is 0, and that of what the test of
// dependence multiplies, at each of a few x: by the sum over counts, or an integral over y, with the densities of gonum. Means of counts
// go from some 0.01 to some 30.
func TestTermsOfDensitiesHaveMeanZero(t *testing.T) {
	for name, c := range map[string]struct {
		act        model.Activation
		sigma      []float64
		from, step float64
		points     int
		within     float64
		density    func(y, mean, s float64) float64
	}{
		// A probability below 1e−9 stands for all e between.
		"poisson": {mixturetest.Exp{}, nil, 0, 1, 400, 1e-8, func(y, mean, _ float64) float64 { return distuv.Poisson{Lambda: mean}.Prob(y) }},
		"logistic": {softsign{}, []float64{0.2, 0.3, 0.5}, -30, 1e-3, 60000, 1e-9, func(y, mean, s float64) float64 {
			return distuv.Logistic{Mu: mean, S: s}.Prob(y)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			data, p := twoExperts(t, 5, c.act)
			p.Family, p.Sigma = name, c.sigma
			m := newTerms(c.act, p, loss.All)
			measure(t, m, data)
			w := m.newRows()
			for r := range data.N {
				sums, total := make([]float64, m.at[atEnd]+1), 0.0
				for from := 0; from < c.points; from += model.BlockRows {
					n := min(model.BlockRows, c.points-from)
					b := model.Block{N: n, X: make([]float64, n*p.D), Y: make([]float64, n)}
					for i := range n {
						for j := range p.D {
							b.X[j*n+i] = data.Blocks[0].Col(j)[r]
						}
						b.Y[i] = c.from + c.step*float64(from+i)
					}
					if err := m.given(t.Context(), w, &b); err != nil {
						t.Fatal(err)
					}
					m.fill(w, b.Y)
					m.neighbours(w, b.Y)
					f := make([]float64, n)
					for at, y := range b.Y {
						for i := range p.K {
							f[at] += c.step * w.PriorOf(i)[at] * c.density(y, w.g[i*n+at], p.SigmaOf(i))
						}
					}
					total += floats.Sum(f)
					for i, v := range append(w.out[:len(w.out):len(w.out)], w.near[0]) {
						sums[i] += floats.Dot(v[:n], f)
					}
				}
				if math.Abs(total-1) > 1e-10 {
					t.Fatalf("the density adds up to %v", total)
				}
				for i, v := range sums {
					if !(math.Abs(v) <= c.within) {
						t.Errorf("row %d, term %d: mean %.3g given x", r, i, v)
					}
				}
			}
		})
	}
}

// zeroInflated is the mixture with a zero expert beside its counts, and a gate for it.
func zeroInflated(p *model.Params) *model.Params {
	p = p.Clone()
	p.Family, p.Sigma, p.GatingIntercepts = "poisson", nil, nil
	p.AddZero()
	for i := range p.Gating {
		p.Gating[i] = 0.4 * float64(1+i%3)
	}
	p.GatingIntercepts = make([]float64, p.Gates())
	for i := range p.GatingIntercepts {
		p.GatingIntercepts[i] = 0.3 * float64(i)
	}
	return p
}

// TestTermsWithAZeroExpert: beside a zero expert too the mean of every term given x is 0, by the sum over counts; and so is that of the
// targets that are drawn, of which as many as the gate says are those of the zero expert, to five standard errors.
func TestTermsWithAZeroExpert(t *testing.T) {
	data, p := twoExperts(t, 600, mixturetest.Exp{})
	p = zeroInflated(p)
	m := newTerms(mixturetest.Exp{}, p, loss.All)
	measure(t, m, data)
	w := m.newRows()
	for r := range 5 {
		sums := make([]float64, m.at[atEnd]+1)
		for from := 0; from < 512; from += model.BlockRows {
			const n = model.BlockRows
			b := model.Block{N: n, X: make([]float64, n*p.D), Y: make([]float64, n)}
			for i := range n {
				for j := range p.D {
					b.X[j*n+i] = data.Blocks[0].Col(j)[r]
				}
				b.Y[i] = float64(from + i)
			}
			if err := m.given(t.Context(), w, &b); err != nil {
				t.Fatal(err)
			}
			m.fill(w, b.Y)
			m.neighbours(w, b.Y)
			f := make([]float64, n)
			for at, y := range b.Y {
				for i := range p.K {
					f[at] += w.PriorOf(i)[at] * distuv.Poisson{Lambda: w.g[i*n+at]}.Prob(y)
				}
				if y == 0 {
					f[at] += w.PriorOf(p.K)[at]
				}
			}
			for i, v := range append(w.out[:len(w.out):len(w.out)], w.near[0]) {
				sums[i] += floats.Dot(v[:n], f)
			}
		}
		for i, v := range sums {
			if !(math.Abs(v) <= 1e-8) {
				t.Errorf("row %d, term %d: mean %.3g given x", r, i, v)
			}
		}
	}
	sums, err := m.sums(t.Context(), data, 1)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := sample(t.Context(), data, m.p, 0, 20000, sums, 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	zeros, all := 0.0, 0.0
	for at, i := range drawn.Expert {
		if all += drawn.Weight[at]; i == p.K {
			zeros += drawn.Weight[at]
		}
	}
	if want := 1 - floats.Sum(sums.Prior)/sums.Weight; math.Abs(zeros/all-want) > 0.01 {
		t.Errorf("%v of the draws are of the zero expert, want %v", zeros/all, want)
	}
	size := m.at[atEnd]
	means, err := (&rowTargets[termRows]{drawing: m.drawing(), drawn: drawn, seed: 7, workers: 1}).each(t.Context(), 1, 2*size,
		func(sums []float64, terms, _ [][]float64, weight []float64) {
			for i, v := range terms {
				for at, of := range v {
					sums[i] += weight[at] * of
					sums[size+i] += weight[at] * weight[at] * of * of
				}
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	for i := range size {
		if se := math.Sqrt(means[size+i] / all); math.Abs(means[i]) > 5*se {
			t.Errorf("term %d has a mean of %.3g over the draws, %.1f standard errors", i, means[i], means[i]/se)
		}
	}
}

// TestTermsOfPlainNormal: the terms of the normal density without its kernels are those by them, but for the residuals beyond 6, whose
// probability has few digits.
func TestTermsOfPlainNormal(t *testing.T) {
	data, p := twoExperts(t, 200, softsign{})
	named := p.Clone()
	named.Family = mixturetest.Plain{}.Name()
	fused, plain := newTerms(softsign{}, p, loss.All), newTerms(softsign{}, named, loss.All)
	measure(t, fused, data)
	measure(t, plain, data)
	a, b := fused.newRows(), plain.newRows()
	for i := range data.Blocks {
		block := &data.Blocks[i]
		for w, m := range map[*termRows]*terms{a: fused, b: plain} {
			if err := m.given(t.Context(), w, block); err != nil {
				t.Fatal(err)
			}
			m.fill(w, block.Y)
		}
		for at := range a.out {
			for r := range block.N {
				// Φ⁻¹(Φ(e)) at 6 is e to 2e−8.
				if want, got := a.out[at][r], b.out[at][r]; math.Abs(got-want) > 1e-7*max(1, math.Abs(want)) {
					t.Fatalf("term %d of row %d is %v, by the kernels %v", at, r, got, want)
				}
			}
		}
	}
}

// TestTestsUnderADensity: of counts that a Poisson law is right for, no test fails; of counts twice as wide the tests of the law do, and
// none is said to be robust but that of dependence. Parameters are the true ones, not fitted: the smallest p-value of seven is held
// against 1e−4.
func TestTestsUnderADensity(t *testing.T) {
	p := model.NewParams(2, 2)
	copy(p.Regressors, []float64{1, 0, -0.5, 1})
	copy(p.Gating, []float64{0, 2})
	p.RegressorIntercepts = []float64{1, 0.5}
	p.Sigma, p.Family = nil, "poisson"
	rng := rand.New(rand.NewPCG(3, 9))
	right, wide := &model.Data{D: 2}, &model.Data{D: 2}
	for range 12 {
		b := model.Block{N: model.BlockRows, X: make([]float64, 2*model.BlockRows), Y: make([]float64, model.BlockRows)}
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		other := b
		other.Y = make([]float64, b.N)
		for r := range b.N {
			x := [2]float64{b.X[r], b.X[b.N+r]}
			i := 0
			if rng.Float64() > 1/(1+math.Exp(-2*x[1])) {
				i = 1
			}
			mean := math.Exp(p.RegressorIntercepts[i] + p.Regressor(i)[0]*x[0] + p.Regressor(i)[1]*x[1])
			b.Y[r] = distuv.Poisson{Lambda: mean, Src: rng}.Rand()
			rate := distuv.Gamma{Alpha: 2, Beta: 2, Src: rng}.Rand() // of mean 1: a negative binomial count
			other.Y[r] = distuv.Poisson{Lambda: mean * rate, Src: rng}.Rand()
		}
		right.Blocks, wide.Blocks = append(right.Blocks, b), append(wide.Blocks, other)
		right.N, wide.N = right.N+b.N, wide.N+b.N
	}
	for name, data := range map[string]*model.Data{"right": right, "wide": wide} {
		tested, err := Tests(t.Context(), data, mixturetest.Exp{}, p, loss.All, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		c := infer.Judge(tested.Tests, infer.Evidence{Starts: 4, Kinds: 2, Agreeing: 4, Flat: true})
		if len(c.Tests) != 7 {
			t.Errorf("%s: %d tests", name, len(c.Tests))
		}
		for _, test := range c.Tests {
			if test.Robust != (test.Name == infer.DependenceTest) {
				t.Errorf("%s: %s robust: %v", name, test.Name, test.Robust)
			}
			if name == "right" && test.PValue < 1e-4 || name == "wide" && test.Name == infer.ResidualsTest && (test.PValue > 1e-6 || test.Cause != "targets of another density than poisson") {
				t.Errorf("%s: %s has p = %.2g, cause %q", name, test.Name, test.PValue, test.Cause)
			}
		}
	}
}

// TestCountsAllowForCoefficients: of counts too what the estimation of coefficients adds in the mean is taken off all terms, and off the scores
// that they are adjusted for. Of 1,000 Poisson fits of 4 coefficients to the same 40 rows the adjusted terms have means below .25 standard
// deviations, where those of the residuals' shape have .29 to .47 without it, and those of heteroscedasticity .59 to .71 where it is taken off
// the first two alone. The standard error of such a mean is .03. The covariance is the exact one at the truth, by sums over counts.
func TestCountsAllowForCoefficients(t *testing.T) {
	const n, times, counts = 40, 1000, model.BlockRows
	rng := rand.New(rand.NewPCG(4, 4))
	p := model.NewParams(1, 3)
	copy(p.Regressors, []float64{0.5, -0.3, 0.2})
	p.RegressorIntercepts, p.Family, p.Sigma = []float64{0.5}, "poisson", nil
	data := &model.Data{N: n, D: 3, Blocks: []model.Block{{N: n, X: make([]float64, 3*n), Y: make([]float64, n)}}}
	rows := &data.Blocks[0]
	for i := range rows.X {
		rows.X[i] = rng.NormFloat64()
	}
	m := newTerms(mixturetest.Exp{}, p, loss.All)
	measure(t, m, data)
	size, w := m.at[atEnd], m.newRows()
	cov, means := mat.NewSymDense(size, nil), make([]float64, n)
	for r := range n {
		b := model.Block{N: counts, X: make([]float64, 3*counts), Y: make([]float64, counts)}
		for y := range counts {
			b.Y[y] = float64(y)
			for j := range 3 {
				b.X[j*counts+y] = rows.Col(j)[r]
			}
		}
		if err := m.given(t.Context(), w, &b); err != nil {
			t.Fatal(err)
		}
		m.fill(w, b.Y)
		means[r] = w.g[0]
		for y := range counts {
			term := make([]float64, size)
			for i := range term {
				term[i] = w.out[i][y]
			}
			cov.SymRankOne(cov, distuv.Poisson{Lambda: means[r]}.Prob(float64(y))/n, mat.NewVecDense(size, term))
		}
	}
	shape, spread := m.at[atResiduals], m.at[atHeteroscedasticity]
	with, without, ofTwo := make([]float64, size), make([]float64, size), make([]float64, size)
	for range times {
		for r, mean := range means {
			rows.Y[r] = distuv.Poisson{Lambda: mean, Src: rng}.Rand()
		}
		m.p = poissonFit(t, p, rows)
		s, err := m.sums(t.Context(), data, 1)
		if err != nil {
			t.Fatal(err)
		}
		none, two := make([]float64, size), make([]float64, size)
		copy(two[shape:], s.Slopes[shape:shape+2])
		for _, of := range []struct{ mean, slopes []float64 }{{with, s.Slopes}, {without, none}, {ofTwo, two}} {
			c, sums := mat.NewSymDense(size, nil), s.clone()
			c.CopySym(cov)
			sums.Slopes = of.slopes
			q, _ := m.quadratic(sums, c, 1e9, false)
			for i := shape; i < size; i++ {
				if v := q.cov.At(i, i); v > rankTolerance {
					of.mean[i] += q.sums[i] / math.Sqrt(n*v) / times
				}
			}
		}
	}
	for i, mean := range with {
		bites := i < shape || i >= shape+3 && i < spread || i >= spread+3 ||
			i < shape+3 && without[i] > 0.25 || i >= spread && ofTwo[i] > 0.5
		if math.Abs(mean) > 0.25 || !bites {
			t.Errorf("term %d: mean %.3f, without the allowance %.3f, with that of two terms %.3f", i, mean, without[i], ofTwo[i])
		}
	}
}

// poissonFit is the maximum of the likelihood of a block's counts from p on, by Newton's method.
func poissonFit(t *testing.T, p *model.Params, b *model.Block) *model.Params {
	t.Helper()
	p = p.Clone()
	for range 50 {
		score, h := mat.NewVecDense(4, nil), mat.NewSymDense(4, nil)
		for r, y := range b.Y {
			x := mat.NewVecDense(4, []float64{b.Col(0)[r], b.Col(1)[r], b.Col(2)[r], 1})
			mean := math.Exp(mat.Dot(x, mat.NewVecDense(4, []float64{p.Regressors[0], p.Regressors[1], p.Regressors[2], p.RegressorIntercepts[0]})))
			score.AddScaledVec(score, y-mean, x)
			h.SymRankOne(h, mean, x)
		}
		var chol mat.Cholesky
		var step mat.VecDense
		if !chol.Factorize(h) || chol.SolveVecTo(&step, score) != nil {
			t.Fatal("no step")
		}
		for j := range 3 {
			p.Regressors[j] += step.AtVec(j)
		}
		p.RegressorIntercepts[0] += step.AtVec(3)
		if mat.Norm(&step, 2) < 1e-10 {
			return p
		}
	}
	t.Fatal("no maximum")
	return nil
}
