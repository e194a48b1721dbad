package moment

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"

	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// cell is a kind of data set.
type cell struct {
	family  sdk.Family
	k, d, n int
	sigma   float64
}

// evidence returns the problem of the cell's data set number seed, in the papers'
// design, its evidence and its truth.
func evidence(t testing.TB, c cell, seed uint64) (*problem.Problem, *Evidence, *model.Params) {
	t.Helper()
	act, err := c.family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sample.New(sample.Config{Activation: act, K: c.k, D: c.d, N: c.n, Sigma: c.sigma, Design: sample.Paper, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Load(t.Context(), s, act, problem.Request{K: c.k, Seed: seed, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Measure(t.Context(), p, Want{Transform: Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	return p, e, s.Truth
}

// estimated returns the estimate on a data set, nil where there is none, and the
// truth.
func estimated(t testing.TB, c cell, seed uint64) (*Estimate, *model.Params) {
	t.Helper()
	p, e, truth := evidence(t, c, seed)
	est, obstacle, err := EstimateParams(t.Context(), p, e, 0)
	if err != nil {
		t.Fatal(err)
	}
	if obstacle != "" {
		t.Logf("%v, data set %d: %s", c, seed, obstacle)
	}
	return est, truth
}

// momentCells with the median E_reg that a good implementation is known to
// reach over data sets; the bound is 1.3 times that.
var momentCells = []struct {
	cell   cell
	median float64
}{
	{cell{identity.Family, 2, 10, 10_000, 0.05}, 0.006},
	{cell{identity.Family, 4, 10, 100_000, 0.05}, 0.006},
	{cell{relu.Family, 2, 10, 100_000, 0.05}, 0.026},
}

// TestMomentEstimate: the median over 40 data sets of the error of the
// regressors, with nothing but the tensors.
func TestMomentEstimate(t *testing.T) {
	testslow.Mark(t)
	for _, m := range momentCells {
		var errs []float64
		for seed := range uint64(40) {
			est, truth := estimated(t, m.cell, seed+1)
			e := 1.0
			if est != nil {
				e, _ = metric.Ereg(est.Params, truth)
			}
			errs = append(errs, e)
		}
		slices.Sort(errs)
		median := (errs[19] + errs[20]) / 2
		t.Logf("%v: median E_reg %.4f, worst %.4f", m.cell, median, errs[39])
		if median > 1.3*m.median {
			t.Errorf("%v: median E_reg %.4f, want at most 1.3·%.4f", m.cell, median, m.median)
		}
	}
}

// TestReducedL4HasOneOptimum: 20 random starts of the reduced problem reach the
// same value.
func TestReducedL4HasOneOptimum(t *testing.T) {
	for _, c := range []cell{
		{identity.Family, 2, 10, 10_000, 0.05},
		{identity.Family, 3, 10, 10_000, 0.05},
		{identity.Family, 4, 10, 100_000, 0.05},
		{relu.Family, 2, 10, 100_000, 0.05},
	} {
		p, e, _ := evidence(t, c, 1)
		fourth, err := e.fourth(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		o := reducedL4(fourth, e.Subspace, UnitMu)
		rng := rand.New(rand.NewPCG(9, 9))
		var values []float64
		for range 20 {
			// unit rows of any direction, not only orthogonal ones
			x := make([]float64, o.Dim())
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			r, err := optim.LBFGS(t.Context(), o, x, optim.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, r.Value)
		}
		if lo, hi := slices.Min(values), slices.Max(values); hi-lo > 1e-6*math.Abs(lo) {
			t.Errorf("%v: optima from %v to %v", c, lo, hi)
		}
	}
}

// TestSigns: all regressors have the truth's sign, on 20 data sets of 10,000
// rows of every activation that has one.
// TestErrorsToFirstOrder: tensors of known regressors in unequal proportions, with small
// symmetric errors E2, E3 and E4 along the regressors, give estimates that turn as
// [solver.Noise.Samples] says, by the spectral method and by L4,
//
//	⟨a_m, â_i⟩ = [E_r(a_m,a_i,…)·p_m/p_i − E_r(a_i,a_m,…) + E2(a_i,a_m)]/(p_i+p_m)
func TestErrorsToFirstOrder(t *testing.T) {
	const k, eps = 3, 1e-5
	p := []float64{.5, .3, .2}
	rng := rand.New(rand.NewPCG(5, 5))
	t2, e2 := mat.NewSymDense(k, nil), mat.NewSymDense(k, nil)
	t3, t4 := tensor.NewSym3(k), tensor.NewSym4(k)
	e3, e4 := tensor.NewSym3(k), tensor.NewSym4(k)
	truth := model.NewParams(k, k)
	for i := range k {
		a := truth.Regressor(i)
		a[i] = 1
		t2.SetSym(i, i, p[i])
		t3.AddRankOne(p[i], a)
		t4.AddRankOne(p[i], a)
		for j := range i + 1 {
			e2.SetSym(i, j, eps*rng.NormFloat64())
		}
	}
	for i := range e3.Data {
		e3.Data[i] = eps * rng.NormFloat64()
	}
	for i := range e4.Data {
		e4.Data[i] = eps * rng.NormFloat64()
	}
	floats.Add(t3.Data, e3.Data)
	floats.Add(t4.Data, e4.Data)
	t2.AddSym(t2, e2)
	s, err := leadingSubspace(t2, &problem.Inputs{}, k)
	if err != nil {
		t.Fatal(err)
	}
	// In the coordinates of the subspace.
	full3, pairs, at := t3.Full(), t4.Pairs(), 0
	rotated3, rotated4 := tensor.NewSym3(k), tensor.NewSym4(k)
	u := func(a, i int) float64 { return s.Basis.At(a, i) }
	for i := range k {
		for j := i; j < k; j++ {
			for l := j; l < k; l++ {
				for abc, v := range full3 {
					rotated3.Data[at] += v * u(abc/9, i) * u(abc/3%3, j) * u(abc%3, l)
				}
				at++
			}
		}
	}
	at = 0
	for i := range k {
		for j := i; j < k; j++ {
			for l := j; l < k; l++ {
				for m := l; m < k; m++ {
					for ab := range k * k {
						for cd := range k * k {
							rotated4.Data[at] += pairs.At(ab, cd) * u(ab/k, i) * u(ab%k, j) * u(cd/k, l) * u(cd%k, m)
						}
					}
					at++
				}
			}
		}
	}
	rotated3.ScaleModes(s.whitening())
	found := map[int]*Estimate{
		3: s.estimate(rotated3.Orthogonal(rng, 20).Vectors, 0),
		4: orthogonal(rotated4, s, rng),
	}
	noise3, noise4 := e3.Full(), e4.Pairs()
	along := map[int]func(m, i int) float64{ // E_r(a_m, a_i, …)
		3: func(m, i int) float64 { return noise3[(m*k+i)*k+i] },
		4: func(m, i int) float64 { return noise4.At(m*k+i, i*k+i) },
	}
	for order, est := range found {
		for i := range k {
			var got []float64
			for r := range k { // the estimate of regressor i
				if a := est.Params.Regressor(r); got == nil || math.Abs(a[i]) > math.Abs(got[i]) {
					got = a
				}
			}
			if got[i] < 0 {
				floats.Scale(-1, got)
			}
			for m := range k {
				if m == i {
					continue
				}
				want := (along[order](m, i)*p[m]/p[i] - along[order](i, m) + e2.At(i, m)) / (p[i] + p[m])
				if math.Abs(got[m]-want) > 1e3*eps*eps { // the second order
					t.Errorf("order %d: ⟨a%d, â%d⟩ = %.4g, want %.4g", order, m, i, got[m], want)
				}
			}
		}
	}
}

// TestFromTensors: the population's tensors of regressors that are neither orthogonal nor
// in equal proportions give them back, to what rounding leaves of cosines; a T2 of too few
// positive eigenvalues gives nothing.
func TestFromTensors(t *testing.T) {
	p, regressors := []float64{.6, .4}, mat.NewDense(2, 3, []float64{.6, 0, .8, .6, .8, 0})
	t2, full := tensor.Population(p, regressors)
	pairs := full.Pairs()
	fourth := func(u *mat.Dense) (*tensor.Sym4, error) {
		var coordinates mat.Dense
		coordinates.Mul(regressors, u)
		_, t4 := tensor.Population(p, &coordinates)
		v := mat.Col(nil, 0, u)
		var sum float64 // T4(u_1, u_1, u_1, u_1) by the whole tensor
		for ab := range 9 {
			for cd := range 9 {
				sum += pairs.At(ab, cd) * v[ab/3] * v[ab%3] * v[cd/3] * v[cd%3]
			}
		}
		if math.Abs(sum-t4.Data[0]) > 1e-12 {
			t.Errorf("the basis' first column sees %v of T4, want %v", t4.Data[0], sum)
		}
		return t4, nil
	}
	est, err := FromTensors(t2, fourth, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	truth := model.NewParams(2, 3)
	copy(truth.Regressors, regressors.RawMatrix().Data)
	if e, _ := metric.Ereg(est.Params, truth); e > 1e-12 {
		t.Errorf("E_reg %.3g", e)
	}
	if got := slices.Max(est.Proportions); math.Abs(got-.6) > 1e-9 {
		t.Errorf("proportions %v", est.Proportions)
	}
	t2.ScaleSym(-1, t2)
	if est, err := FromTensors(t2, fourth, 2, 1); est != nil || err != nil {
		t.Errorf("a negative T2: %v, %v", est, err)
	}
}

// TestRowsApart: with many experts the rows of L4 that are held at unit norm only end
// up in one direction, in which T̂4 errs most, and there is no estimate or a useless one; held
// orthonormal they find the regressors.
func TestRowsApart(t *testing.T) {
	r := spectralRow{identity.Family, nil, 8, 20, 20_000, .05, 0}
	alone := 0
	for seed := range uint64(5) {
		if e := r.errorOf(t, seed+1, Want{Transform: Optimal, Order: 4}, true); e > .12 {
			t.Errorf("data set %d: E_reg %.3f with orthonormal rows", seed+1, e)
		}
		if r.errorBy(t, seed+1, Want{Transform: Optimal, Order: 4}, true, UnitMu) > .5 {
			alone++
		}
	}
	if alone < 2 {
		t.Errorf("unit rows fail in %d of 5 data sets", alone)
	}
}

func TestSigns(t *testing.T) {
	for _, c := range []cell{
		{identity.Family, 3, 10, 10_000, 0.05},
		{sigmoid.Family, 2, 10, 10_000, 0.05},
		{relu.Family, 2, 10, 100_000, 0.05},
	} {
		for seed := range uint64(20) {
			est, truth := estimated(t, c, seed+1)
			if est == nil {
				continue
			}
			_, perm := metric.Ereg(est.Params, truth)
			for i, j := range perm {
				if floats.Dot(est.Params.Regressor(i), truth.Regressor(j)) < 0 {
					t.Errorf("%v, data set %d: regressor %d has the wrong sign", c, seed+1, i)
				}
			}
		}
	}
}

// TestFromL4: A = ((ΓA*)†)ᵀ gives back A* and Γ², with
// regressors that are not orthogonal.
func TestFromL4(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	truth := model.NewParams(3, 8)
	copy(truth.Regressors, model.RandomDirections(rng, 3, 8))
	p := []float64{0.2, 0.3, 0.5}
	scaled := mat.NewDense(3, 8, append([]float64(nil), truth.Regressors...))
	for i := range p {
		floats.Scale(math.Sqrt(p[i]), scaled.RawRowView(i))
	}
	a, err := tensor.PseudoInverseRows(scaled)
	if err != nil {
		t.Fatal(err)
	}
	e := FromL4(a.RawMatrix().Data, 3, nil)
	for i, v := range e.Params.Regressors {
		if math.Abs(v-truth.Regressors[i]) > 1e-12 {
			t.Fatalf("regressors %v, want %v", e.Params.Regressors, truth.Regressors)
		}
	}
	for i := range p {
		if math.Abs(e.Proportions[i]-p[i]) > 1e-12 {
			t.Errorf("proportions %v, want %v", e.Proportions, p)
		}
	}
}

// TestWhySignsCannotBeTold: each cause has a note of its own.
func TestWhySignsCannotBeTold(t *testing.T) {
	moments := func(g func(float64) float64) sdk.Moments {
		m, err := sdk.MomentsOf(t.Context(), sdk.Func{Name: "g", G: g, DG: g})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	line := moments(func(z float64) float64 { return z })
	he3 := moments(func(z float64) float64 { return z*z*z - 3*z })
	estimate := func(rows ...float64) *Estimate {
		e := &Estimate{Params: model.NewParams(2, 2)}
		copy(e.Params.Regressors, rows)
		return e
	}
	yx := []float64{0.5, -0.5}
	if why := ChooseSigns(estimate(1, 0, 0, 1).Params, yx, he3); why != "E[g'(Z)] = 0" {
		t.Errorf("the third Hermite polynomial: %q", why)
	}
	e := estimate(1, 0, 1, 0)
	if why := ChooseSigns(e.Params, yx, line); why != "the estimated regressors are linearly dependent" {
		t.Errorf("equal rows: %q", why)
	}
	p := &problem.Problem{Second: &tensor.Second{D: 2}, Moments: line}
	p.Second.Y[0], p.Second.X[1] = 1, yx
	e.Sign(p, &Evidence{Verdict: solver.Verdict{SignsIdentifiable: true}})
	if len(e.Notes) != 1 || e.Notes[0] != "the first moment does not tell the regressors' signs: the estimated regressors are linearly dependent" {
		t.Errorf("notes %q", e.Notes)
	}
	if e = estimate(1, 0, 1, 0); len(e.Notes) > 0 {
		t.Errorf("notes %q", e.Notes)
	}
	if e.Sign(p, &Evidence{}); len(e.Notes) > 0 {
		t.Errorf("an even g: notes %q", e.Notes)
	}
	e = estimate(1, 0, 0, 1)
	if why := ChooseSigns(e.Params, yx, line); why != "" || e.Params.Regressors[0] != 1 || e.Params.Regressors[3] != -1 {
		t.Errorf("%q, regressors %v", why, e.Params.Regressors)
	}
}

// TestOneQuadrature: the moments of a g without any of its own are taken once, and
// the system follows from them.
func TestOneQuadrature(t *testing.T) {
	calls := 0
	g := sdk.Func{Name: "softplus",
		G:  func(z float64) float64 { calls++; return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) },
		DG: func(z float64) float64 { return 1 / (1 + math.Exp(-z)) },
	}
	if _, err := sdk.MomentsOf(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	once := calls
	x, y := mat.NewDense(40, 2, nil), make([]float64, 40)
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y[i] = x.At(i, 0) + rng.NormFloat64()
	}
	calls = 0
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), g, problem.Request{K: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(t.Context(), p, Want{Transform: Polynomial}); err != nil {
		t.Fatal(err)
	}
	// The comparison of g′ with differences takes some hundred values beside it.
	if calls > once+1000 {
		t.Errorf("%d values of g, %d make one quadrature", calls, once)
	}
}
