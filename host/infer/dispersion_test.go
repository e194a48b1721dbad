package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
)

// dispersionOf is [Dispersion] at a maximum.
func dispersionOf(t *testing.T, data *model.Data, act model.Activation, p *model.Params, free loss.Free) *model.Params {
	t.Helper()
	l := loss.NewLikelihood(data, act, p, free, 1)
	c, err := Estimate(t.Context(), l, p, Observed, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Dispersion(t.Context(), c, l, data, p)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDispersionOfNormalNoise: σ² of the maximum times n/(n−q), which the step leads to exactly; weights count as rows.
func TestDispersionOfNormalNoise(t *testing.T) {
	for _, n := range []int{12, 200} {
		for _, weights := range []bool{false, true} {
			data, _, p := regression(t, n, weights)
			got := dispersionOf(t, data, identity{}, p, loss.All).Sigma[0]
			want := NoiseCorrected(p.Sigma[0], weightOf(t, data), 4)
			if math.Abs(got/want-1) > 1e-9 { // of differences
				t.Errorf("%d rows, weights %v: %v, want %v, from %v", n, weights, got, want, p.Sigma[0])
			}
		}
	}
}

// TestDispersionOfEachExpert: of two experts that are far apart each is a regression of its own.
func TestDispersionOfEachExpert(t *testing.T) {
	first, _, a := regression(t, 30, false)
	second, _, b := regression(t, 17, false)
	const apart = 1e3
	block := model.Block{N: 47, Y: append([]float64(nil), first.Blocks[0].Y...)}
	for _, y := range second.Blocks[0].Y {
		block.Y = append(block.Y, y+apart)
	}
	for j := range 3 {
		block.X = append(append(block.X, first.Blocks[0].Col(j)...), second.Blocks[0].Col(j)...)
	}
	p := model.NewParams(2, 3)
	p.Regressors = append(append([]float64(nil), a.Regressors...), b.Regressors...)
	p.RegressorIntercepts = []float64{a.RegressorIntercepts[0], b.RegressorIntercepts[0] + apart}
	p.GatingIntercepts = []float64{math.Log(30. / 17)}
	p.Sigma = []float64{a.Sigma[0], b.Sigma[0]}
	free := loss.All
	free.GateColumns = []int{}
	got := dispersionOf(t, &model.Data{N: 47, D: 3, Blocks: []model.Block{block}}, identity{}, p, free)
	for i, n := range []float64{30, 17} {
		if want := NoiseCorrected(p.Sigma[i], n, 4); math.Abs(got.Sigma[i]/want-1) > 1e-9 {
			t.Errorf("expert %d: %v, want %v, from %v", i+1, got.Sigma[i], want, p.Sigma[i])
		}
	}
}

// oneExpert is rows of one, of which the coefficients that are most likely at ψ are found by Fisher's scoring.
type oneExpert struct {
	density mixture.Density
	act     model.Activation
	x       *mat.Dense // with a column of ones
	y       []float64
}

// at returns the log-likelihood, its score by the coefficients and S.
func (o *oneExpert) at(t *testing.T, beta, psi []float64) (loglik float64, score *mat.VecDense, s *mat.SymDense) {
	n, q := o.x.Dims()
	z, mean, slope, logs := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	mat.NewVecDense(n, z).MulVec(o.x, mat.NewVecDense(q, beta))
	if err := o.act.Eval(t.Context(), mean, z); err != nil {
		t.Fatal(err)
	}
	if err := o.act.Deriv(t.Context(), slope, z); err != nil {
		t.Fatal(err)
	}
	terms := mixture.TermsOf(n, len(psi))
	o.density.Derive(terms, o.y, mean, psi)
	o.density.LogDensity(logs, make([]float64, n), o.y, mean, psi)
	score, s = mat.NewVecDense(q, nil), mat.NewSymDense(q, nil)
	for r := range n {
		row := mat.NewVecDense(q, o.x.RawRowView(r))
		score.AddScaledVec(score, terms.Score[r]*slope[r], row)
		s.SymRankOne(s, terms.Expected[r]*slope[r]*slope[r], row)
	}
	return floats.Sum(logs), score, s
}

// adjusted returns the log-likelihood at ψ of the coefficients that are most likely there, and ½·log|S|.
func (o *oneExpert) adjusted(t *testing.T, psi []float64) (beta []float64, loglik, half float64) {
	_, q := o.x.Dims()
	beta = make([]float64, q)
	for range 200 {
		before, score, s := o.at(t, beta, psi)
		var chol mat.Cholesky
		if !chol.Factorize(s) {
			t.Fatal("the information is singular")
		}
		var step mat.VecDense
		if err := chol.SolveVecTo(&step, score); err != nil {
			t.Fatal(err)
		}
		for by := 1.0; by > 1e-3; by /= 2 {
			trial := append([]float64(nil), beta...)
			floats.AddScaled(trial, by, step.RawVector().Data)
			if after, _, _ := o.at(t, trial, psi); after >= before {
				beta = trial
				break
			}
		}
		loglik, half = before, chol.LogDet()/2
		if mat.Dot(&step, score) < 1e-16 { // twice what there is to gain
			break
		}
	}
	return beta, loglik, half
}

// most is where f is largest between two numbers, by golden sections.
func most(lo, hi float64, f func(v float64) float64) float64 {
	share := (math.Sqrt(5) - 1) / 2
	a, b := hi-share*(hi-lo), lo+share*(hi-lo)
	fa, fb := f(a), f(b)
	for hi-lo > 1e-7 {
		if fa > fb {
			hi, b, fb = b, a, fa
			a = hi - share*(hi-lo)
			fa = f(a)
		} else {
			lo, a, fa = a, b, fb
			b = lo + share*(hi-lo)
			fb = f(b)
		}
	}
	return (lo + hi) / 2
}

// TestDispersionOfFamilies: the step leads near the maximum of the adjusted profile likelihood, which is found by
// golden sections with the coefficients fitted anew at every ψ. It is one Newton step of several: what is left is a
// part of it.
func TestDispersionOfFamilies(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		family string
		act    model.Activation
		psi    []float64
		within float64 // of the correction of log ψ
	}{
		{"gamma", mixturetest.Exp{}, []float64{3}, 0.01},
		{"negative-binomial", mixturetest.Exp{}, []float64{2}, 0.15},
		{"student-t", identity{}, []float64{0.5, 4}, 0.01},
	} {
		const n, d = 60, 5
		rng := rand.New(rand.NewPCG(3, 1))
		o := &oneExpert{mixture.DensityOf(c.family), c.act, mat.NewDense(n, d+1, nil), make([]float64, n)}
		block := model.Block{N: n, X: make([]float64, n*d), Y: o.y}
		for r := range n {
			z := []float64{1}
			for j := range d {
				v := rng.NormFloat64()
				z[0] += 0.2 * v
				block.X[j*n+r] = v
				o.x.Set(r, j, v)
			}
			o.x.Set(r, d, 1)
			if err := c.act.Eval(t.Context(), z, z); err != nil {
				t.Fatal(err)
			}
			o.y[r] = mixture.Draw(rng, o.density, z[0], c.psi)
		}
		at := func(log float64) []float64 { return append([]float64{math.Exp(log)}, c.psi[1:]...) }
		around := math.Log(c.psi[0])
		log := most(around-2, around+2, func(v float64) float64 { _, l, _ := o.adjusted(t, at(v)); return l })
		want := most(around-2, around+2, func(v float64) float64 { _, l, half := o.adjusted(t, at(v)); return l - half })
		beta, _, _ := o.adjusted(t, at(log))
		p := model.NewParams(1, d)
		p.Family, p.Sigma = c.family, []float64{math.Exp(log)}
		copy(p.Regressors, beta)
		p.RegressorIntercepts, p.GatingIntercepts = beta[d:], []float64{}
		free := loss.All
		for _, v := range c.psi[1:] { // is known
			p.Own = append(p.Own, []float64{v})
			free.GivenOwn++
		}
		got := dispersionOf(t, &model.Data{N: n, D: d, Blocks: []model.Block{block}}, c.act, p, free)
		step := math.Log(got.Sigma[0] / p.Sigma[0])
		t.Logf("%s: log of the first parameter %.4f, moved by %.4f, to the maximum by %.4f", c.family, log, step, want-log)
		if math.Abs(step-(want-log)) > c.within*math.Abs(want-log) || math.Abs(want-log) < 0.01 {
			t.Errorf("%s: log of the first parameter %.4f, moved by %.4f, want %.4f", c.family, log, step, want-log)
		}
	}
}

// TestDispersionAtItsEnd: of counts that spread less than Poisson's, whose θ is at its end, 1/θ becomes the mean of what
// it may be under the adjusted profile likelihood, which is summed up here with the coefficients fitted anew at every
// θ. That it is quadratic holds to a quarter of it.
func TestDispersionAtItsEnd(t *testing.T) {
	const n, d = 60, 5
	for seed, found := uint64(1), 0; found < 3; seed++ {
		rng := rand.New(rand.NewPCG(seed, 2))
		o := &oneExpert{mixture.NegativeBinomial{}, mixturetest.Exp{}, mat.NewDense(n, d+1, nil), make([]float64, n)}
		block := model.Block{N: n, X: make([]float64, n*d), Y: o.y}
		for r := range n {
			z := 1.0
			for j := range d {
				v := rng.NormFloat64()
				z += 0.2 * v
				block.X[j*n+r] = v
				o.x.Set(r, j, v)
			}
			o.x.Set(r, d, 1)
			o.y[r] = mixture.Draw(rng, mixture.Poisson{}, math.Exp(z), nil)
		}
		end := o.density.Own()[0].Most
		beta, limit, _ := o.adjusted(t, []float64{end})
		if _, near, _ := o.adjusted(t, []float64{1e3}); near > limit {
			continue // θ has a maximum
		}
		found++
		var mass, mean float64
		_, most, half := o.adjusted(t, []float64{end})
		for u := 0.005; u < 0.5; u += 0.01 {
			_, loglik, s := o.adjusted(t, []float64{1 / u})
			weight := math.Exp(loglik - s - (most - half))
			mass, mean = mass+weight, mean+u*weight
		}
		want := mean / mass
		p := model.NewParams(1, d)
		p.Family, p.Sigma = "negative-binomial", []float64{end}
		copy(p.Regressors, beta)
		p.RegressorIntercepts, p.GatingIntercepts = beta[d:], []float64{}
		got := 1 / dispersionOf(t, &model.Data{N: n, D: d, Blocks: []model.Block{block}}, o.act, p, loss.All).Sigma[0]
		t.Logf("seed %d: 1/theta is %.4f, want %.4f", seed, got, want)
		if math.Abs(got/want-1) > 0.3 {
			t.Errorf("seed %d: 1/theta is %.4f, want %.4f", seed, got, want)
		}
	}
}

// TestConditional: the covariance of some where others are held is the inverse of their information.
func TestConditional(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	m := mat.NewDense(4, 6, nil)
	for i := range 4 {
		for j := range 6 {
			m.Set(i, j, rng.NormFloat64())
		}
	}
	v := mat.NewSymDense(4, nil)
	v.SymOuterK(1, m)
	got, ok := conditional(v, []int{2}, []int{3})
	if want := v.At(2, 2) - v.At(2, 3)*v.At(2, 3)/v.At(3, 3); !ok || math.Abs(got.At(0, 0)/want-1) > 1e-12 {
		t.Errorf("%v, want %v", got.At(0, 0), want)
	}
}
