package moment

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// line is a problem with y = size·(x_1 + sigma·noise) over three features.
func line(t *testing.T, n int, size, sigma float64, seed uint64, r problem.Request) *problem.Problem {
	t.Helper()
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 15))
	x, y := mat.NewDense(n, 3, nil), make([]float64, n)
	for i := range y {
		for j := range 3 {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i] = size * (x.At(i, 0) + sigma*rng.NormFloat64())
	}
	r.K, r.Threads = 1, 1
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSigmaFromNorms: over 400 data sets without noise z is a standard normal
// number, σ̂ is 0 where z is below 0, and else the root of what the mean square
// is above 1. Bounds are four standard errors. A variance of ½ or 2, as n in
// place of the effective n makes with weights, is 10 of them.
func TestSigmaFromNorms(t *testing.T) {
	const sets = 400
	var sum, squares float64
	rng := rand.New(rand.NewPCG(16, 0))
	for range sets {
		s := tensor.NewSecond(1)
		var w2 float64
		for i := range 600 {
			y, w := rng.NormFloat64(), float64(1+3*(i%2)) // effective 600·(5/2)²/(17/2) = 441
			s.Y[0], s.Y[2], s.Y[4] = s.Y[0]+w, s.Y[2]+w*y*y, s.Y[4]+w*y*y*y*y
			w2 += w * w
		}
		s.N, s.W2 = 600, w2
		var m sdk.Moments
		m.Value[2][0] = 1
		sigma, z := sigmaFromNorms(s, m)
		sum, squares = sum+z, squares+z*z
		if want := math.Sqrt(max(s.Y[2]/s.Y[0]-1, 0)); math.Abs(sigma-want) > 1e-12 || (sigma > 0) != (z > 0) {
			t.Fatalf("sigma %v, want %v, z %v", sigma, want, z)
		}
	}
	if mean := sum / sets; math.Abs(mean) > 4/math.Sqrt(sets) {
		t.Errorf("z has mean %v", mean)
	}
	if variance := squares / sets; math.Abs(variance-1) > 4*math.Sqrt(2./sets) {
		t.Errorf("z has variance %v", variance)
	}
}

// TestMeasure: the noise that unit regressors imply, or that is known; the scale
// of the regressors, 1 unless E[y²] rules that out, and a note where it is below
// what unit regressors give.
func TestMeasure(t *testing.T) {
	for name, c := range map[string]struct {
		size, sigma float64
		noise       problem.Noise
		want        func(rms float64) (sigma, scale float64)
		noted       bool
	}{
		"unit regressors":  {1, 0.5, nil, func(rms float64) (float64, float64) { return math.Sqrt(rms*rms - 1), 1 }, false},
		"known noise":      {1, 0.5, problem.Shared{Sigma: 0.25}, func(float64) (float64, float64) { return 0.25, 1 }, false},
		"norms of 3":       {3, 0.5, nil, func(rms float64) (float64, float64) { return math.Sqrt(rms*rms - 1), rms }, false},
		"norms of a third": {1. / 3, 0.5, nil, func(rms float64) (float64, float64) { return 0, rms }, true},
		"noise of 0.6":     {1, 0.6, nil, func(rms float64) (float64, float64) { return math.Sqrt(rms*rms - 1), 1 }, false}, // 1.36 times the signal
	} {
		p := line(t, 4000, c.size, c.sigma, 1, problem.Request{Noise: c.noise})
		e, err := Measure(t.Context(), p, Want{Transform: Polynomial})
		if err != nil {
			t.Fatal(err)
		}
		sigma, scale := c.want(p.RMS())
		if math.Abs(e.Sigma-sigma) > 1e-12 || math.Abs(e.Norm-scale) > 1e-12 {
			t.Errorf("%s: sigma %v, want %v; scale %v, want %v", name, e.Sigma, sigma, e.Norm, scale)
		}
		if noted := len(e.Notes) > 0 && strings.Contains(e.Notes[0], "unit regressors"); noted != c.noted || len(e.Notes) > 1 {
			t.Errorf("%s: notes %q", name, e.Notes)
		}
		system, err := sdk.SystemOf(t.Context(), p.Activation, e.Sigma)
		if err != nil {
			t.Fatal(err)
		}
		if want, verdict := solver.Solve(p.Moments, system, e.Sigma); e.Transform != want || e.Verdict.Valid != verdict.Valid || e.Subspace == nil {
			t.Errorf("%s: transform %v, at that noise %v", name, e.Transform, want)
		}
	}
}

// TestObstacles: what stands in the way of a moment estimate, of any number of
// rows and of these.
func TestObstacles(t *testing.T) {
	p := line(t, 500, 1, 0.1, 1, problem.Request{})
	e, err := Measure(t.Context(), p, Want{Transform: Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	invalid, noSubspace := *e, *e
	invalid.Verdict = solver.Verdict{Reasons: []string{"c4 is 0", "and more"}}
	noSubspace.Subspace = nil
	for name, c := range map[string]struct {
		e            *Evidence
		k            int
		unidentified string
		obstacle     string
	}{
		"none":        {e, 1, "", ""},
		"invalid":     {&invalid, 1, "identity is not a valid nonlinearity: c4 is 0", "identity is not a valid nonlinearity: c4 is 0"},
		"d = 2k-1":    {e, 2, "d = 3 is not above 2k-1 = 3", "d = 3 is not above 2k-1 = 3"},
		"no subspace": {&noSubspace, 1, "", "T2 from 500 rows does not have 1 positive eigenvalues"},
	} {
		q := p.With(c.k)
		if got, stands := c.e.Unidentified(q), c.e.obstacle(q); got != c.unidentified || stands != c.obstacle {
			t.Errorf("%s: %q and %q, want %q and %q", name, got, stands, c.unidentified, c.obstacle)
		}
		est, obstacle, err := EstimateParams(t.Context(), q, c.e, 0)
		if (est == nil) != (c.obstacle != "") || obstacle != c.obstacle || err != nil {
			t.Errorf("%s: estimate %v, obstacle %q, error %v", name, est, obstacle, err)
		}
	}
}

// TestFromL4Whitened: regressors found over features w = W·x are W·a over x, of
// unit norm; and rows of A that are dependent stand in for themselves.
func TestFromL4Whitened(t *testing.T) {
	whiten := mat.NewSymDense(3, []float64{2, 1, 0, 1, 3, 0.5, 0, 0.5, 1})
	truth := mat.NewDense(2, 3, []float64{0.6, 0, 0.8, 0, 1, 0})
	// Rows orthonormal and of equal weight: A is √2 times them.
	var a mat.Dense
	a.Scale(math.Sqrt2, truth)
	e := FromL4(a.RawMatrix().Data, 2, whiten)
	for i := range 2 {
		var want mat.VecDense
		want.MulVec(whiten, truth.RowView(i))
		want.ScaleVec(1/want.Norm(2), &want)
		if !floats.EqualApprox(e.Params.Regressor(i), want.RawVector().Data, 1e-12) || math.Abs(e.Proportions[i]-0.5) > 1e-12 {
			t.Errorf("regressor %v, want %v; proportion %v, want a half", e.Params.Regressor(i), want.RawVector().Data, e.Proportions[i])
		}
	}
	e = FromL4([]float64{3, 0, 4, 3, 0, 4}, 2, nil)
	for i := range 2 {
		if !floats.EqualApprox(e.Params.Regressor(i), []float64{0.6, 0, 0.8}, 1e-12) {
			t.Errorf("dependent rows: regressor %v", e.Params.Regressor(i))
		}
	}
	e = FromL4([]float64{0, 0, 0, math.Inf(1), 0, 0}, 2, nil)
	if floats.HasNaN(e.Params.Regressor(0)) {
		t.Errorf("a row of zeros: regressor %v", e.Params.Regressor(0))
	}
}

// TestRandomOrthonormal rows, of any direction: an entry's square is 1/k on
// average.
func TestRandomOrthonormal(t *testing.T) {
	const k, draws = 4, 2000
	rng := rand.New(rand.NewPCG(17, 0))
	mean := make([]float64, k*k)
	for range draws {
		q := mat.NewDense(k, k, RandomOrthonormal(rng, k))
		var gram mat.Dense
		gram.Mul(q, q.T())
		if !mat.EqualApprox(&gram, mat.NewDiagDense(k, []float64{1, 1, 1, 1}), 1e-12) {
			t.Fatalf("rows %v", mat.Formatted(q))
		}
		for i, v := range q.RawMatrix().Data {
			mean[i] += v * v / draws
		}
	}
	for i, v := range mean { // a beta(½, (k−1)/2) number has variance 2(k−1)/(k²(k+2))
		if math.Abs(v-1./k) > 4*math.Sqrt(2.*(k-1)/(k*k*(k+2))/draws) {
			t.Errorf("entry %d has a mean square of %v", i, v)
		}
	}
}
