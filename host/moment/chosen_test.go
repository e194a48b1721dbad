package moment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// TestBestOfStarts: the best of the starts is kept, and as many agree as reach its value,
// on tensors on which they end in several places and on such where they do not.
func TestBestOfStarts(t *testing.T) {
	several, all := false, false
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 18))
		const k = 4
		t4 := tensor.NewSym4(k)
		for i := range k { // orthogonal components, and on half of the seeds nothing but noise
			v := make([]float64, k)
			v[i] = 1
			t4.AddRankOne(1+float64(i)/10, v)
		}
		if seed%2 == 0 {
			for i := range t4.Data {
				t4.Data[i] = rng.NormFloat64()
			}
		}
		// Weights of 1e3 too: 1e−6 is of the value, whatever its size.
		t4.Scale(math.Pow(1e3, float64(seed%3)-1))
		o := tensor.NewUnitL4(k, t4, UnitMu)
		var values []float64
		again := rand.New(rand.NewPCG(seed, 19))
		for range starts {
			r, err := optim.LBFGS(t.Context(), o, RandomOrthonormal(again, k), optim.Settings{Iterations: 500})
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, r.Value)
		}
		best, agreeing, err := bestOfStarts(t.Context(), o, rand.New(rand.NewPCG(seed, 19)))
		if err != nil {
			t.Fatal(err)
		}
		least, want := slices.Min(values), 0
		for _, v := range values {
			if math.Abs(v-least)/math.Abs(least) <= 1e-6 {
				want++
			}
		}
		if best.Value != least || agreeing != want {
			t.Errorf("seed %d: value %v of %d starts, want %v of %d: %v", seed, best.Value, agreeing, least, want, values)
		}
		several, all = several || want < starts, all || want == starts
	}
	if !several || !all {
		t.Errorf("starts apart: %v, all together: %v; the test needs both", several, all)
	}
}

// TestSignsOfSmallValues: E[g′(Z)] counts as 0 in units of g.
func TestSignsOfSmallValues(t *testing.T) {
	for _, c := range []struct {
		slope, rms float64
		obstacle   bool
	}{{1e-6, 1e-3, false}, {1e-6, 1e3, true}, {-1e-6, 1e3, true}, {-1e-6, 1e-3, false}, {1e-12, 1e-3, true}} {
		var m sdk.Moments
		m.Value[1][1], m.Value[2][0] = c.slope, c.rms*c.rms
		p := model.NewParams(1, 2)
		copy(p.Regressors, []float64{0.6, 0.8})
		why := ChooseSigns(p, []float64{-c.slope, 0}, m)
		if (why != "") != c.obstacle || !c.obstacle && p.Regressors[0] != -0.6 {
			t.Errorf("slope %v, rms %v: %q, regressor %v", c.slope, c.rms, why, p.Regressors)
		}
	}
}

// TestProportionsAddUp: whatever the size of the rows of A and of the eigenvalues.
func TestProportionsAddUp(t *testing.T) {
	e := FromL4([]float64{3, 0, 0, 0, 6, 0}, 2, nil) // (A†)ᵀ has rows of a third and a sixth
	if !floats.EqualApprox(e.Proportions, []float64{0.8, 0.2}, 1e-14) {
		t.Errorf("proportions %v, want 0.8 and 0.2", e.Proportions)
	}
	s := &Subspace{Basis: mat.NewDense(3, 2, []float64{1, 0, 0, 1, 0, 0}), Values: []float64{9, 4}}
	if e = s.estimate(mat.NewDense(2, 2, []float64{1, 0, 0, 1}), 3); !floats.EqualApprox(e.Proportions, []float64{9. / 13, 4. / 13}, 1e-14) || e.Agreeing != 3 {
		t.Errorf("%+v, want proportions of 9 to 4", e)
	}
}

// drawn is a problem with y = size·g(x_1) + noise over standard features.
func drawn(t *testing.T, act sdk.Activation, size, sigma float64, r problem.Request) *problem.Problem {
	t.Helper()
	const n, d = 4000, 4
	rng := rand.New(rand.NewPCG(20, 20))
	x, y, z := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
		}
		z[i] = x.At(i, 0)
	}
	if err := act.Eval(t.Context(), y, z); err != nil {
		t.Fatal(err)
	}
	for i := range y {
		y[i] = size*y[i] + sigma*rng.NormFloat64()
	}
	r.K, r.Threads = max(r.K, 1), 1
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestScaleOfTheSignal: the mean square of y is judged in units of E[g(Z)²]; with next to no noise the
// second moment is as often below it as above, and that is no sign of other norms.
func TestScaleOfTheSignal(t *testing.T) {
	double := sdk.Func{Name: "double", G: func(z float64) float64 { return 2 * z }, DG: func(float64) float64 { return 2 }}
	for _, c := range []struct {
		size float64
		norm func(rms float64) float64
	}{
		{1, func(float64) float64 { return 1 }},
		{3, func(rms float64) float64 { return rms / 2 }},
		{1. / 3, func(rms float64) float64 { return rms / 2 }},
	} {
		p := drawn(t, double, c.size, 1e-3, problem.Request{})
		e, err := Measure(t.Context(), p, Want{Transform: Polynomial})
		if err != nil {
			t.Fatal(err)
		}
		if want := c.norm(p.RMS()); math.Abs(e.Norm-want) > 1e-12 || (len(e.Notes) > 0) != (c.size < 1) {
			t.Errorf("size %v: norm %v, want %v; notes %q", c.size, e.Norm, want, e.Notes)
		}
	}
	// Four times the standard error of y² of the signal, which is √(E y⁴ − (E y²)²)/√n: in
	// any unit the same.
	one := drawn(t, sdk.Func{Name: "one", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}, 1, 1e-3, problem.Request{})
	_, z1 := sigmaFromNorms(one.Second, one.Moments)
	two := drawn(t, double, 1, 2e-3, problem.Request{})
	if _, z2 := sigmaFromNorms(two.Second, two.Moments); math.Abs(z2-z1) > 1e-9*math.Abs(z1) {
		t.Errorf("z is %v, of twice the values %v", z1, z2)
	}
}

// TestChosenTransform: the polynomials where they are asked for, and where the prediction does
// not hold; those of minimum variance where they are asked for, and where their predicted
// error is the smaller.
func TestChosenTransform(t *testing.T) {
	testslow.Mark(t)
	sigmoid := sdk.Func{Name: "logistic", G: logistic, DG: func(z float64) float64 { return logistic(z) * logistic(-z) }}
	cubic := sdk.Func{Name: "cubic", G: func(z float64) float64 { return z + z*z*z }, DG: func(z float64) float64 { return 1 + 3*z*z }}
	even := sdk.Func{Name: "even", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }}
	for _, act := range []sdk.Activation{sigmoid, cubic, even} {
		for _, size := range []float64{1, 3} {
			for _, intercept := range []bool{false, true} {
				for _, want := range []Want{{}, {Order: 3}, {Transform: Polynomial}, {Transform: Optimal}} {
					name := fmt.Sprintf("%s, size %v, intercept %v, %+v", act.Info().Name, size, intercept, want)
					p := drawn(t, act, size, 0.1, problem.Request{Intercepts: problem.InterceptsOf(intercept, intercept)})
					e, err := Measure(t.Context(), p, want)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					optimal := want.Transform == Optimal
					if want.Transform == "" && size == 1 && !intercept {
						law, err := solver.NewLaw(t.Context(), act)
						if err != nil {
							t.Fatal(err)
						}
						level := law.NoiseLevel(column(t, p), nil, float64(p.Second.N))
						if e.Norm == 1 || law.Fits(column(t, p), nil, float64(p.Second.N)) {
							o := law.Optimal(level, 1)
							design := solver.Design{K: 1, D: 4, Order: want.order()}
							polynomial := math.Inf(1)
							if n, err := solver.NoiseOf(t.Context(), act, e.Transform.At(level)); err == nil && e.Verdict.Valid {
								polynomial = n.MeanError(design)
							}
							optimal = o.Noise.Learns(want.order()) && o.Noise.MeanError(design) < polynomial
						}
					}
					if (e.Optimal != nil) != optimal {
						t.Errorf("%s: transforms of minimum variance %v, want %v", name, e.Optimal != nil, optimal)
					}
					if optimal && e.Optimal != nil && e.Optimal.Has(2) != (e.t2 != nil) {
						t.Errorf("%s: T2 %v", name, e.t2)
					}
				}
			}
		}
	}
}

// TestTarget: the noise level is that known, and else the one that the law of y tells; whether y is what regressors of unit norm
// give is asked where the moments say otherwise.
func TestTarget(t *testing.T) {
	act := sdk.Func{Name: "logistic", G: logistic, DG: func(z float64) float64 { return logistic(z) * logistic(-z) }}
	law, err := solver.NewLaw(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []float64{1, 3} {
		for _, known := range []float64{0, 0.1} {
			for _, norm := range []float64{1, 2} {
				p := drawn(t, act, size, 0.1, problem.Request{Noise: problem.Shared{Sigma: known}})
				y := column(t, p)
				level, unit := known, norm == 1 || law.Fits(y, nil, float64(len(y)))
				if known == 0 {
					level = law.NoiseLevel(y, nil, float64(len(y)))
				}
				e := &Evidence{Norm: norm}
				if err := e.target(t.Context(), p); err != nil || e.level != level || e.unit != unit {
					t.Errorf("size %v, σ = %v, norm %v: level %v, want %v; unit %v, want %v; error %v", size, known, norm, e.level, level, e.unit, unit, err)
				}
			}
		}
	}
}

func column(t *testing.T, p *problem.Problem) (y []float64) {
	t.Helper()
	if err := model.InOrder(t.Context(), p.Rows, func(b *model.Block) error { y = append(y, b.Y...); return nil }); err != nil {
		t.Fatal(err)
	}
	return y
}

// TestEvenObstacles: tensors of odd order of an even g are said to vanish, by either kind of
// transform.
func TestEvenObstacles(t *testing.T) {
	even := sdk.Func{Name: "even", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }}
	for _, transform := range []Transform{Polynomial, Optimal} {
		p := drawn(t, even, 1, 0.3, problem.Request{})
		e, err := Measure(t.Context(), p, Want{Transform: transform})
		if err != nil {
			t.Fatal(err)
		}
		why := e.Obstacle(p, 3)
		if !strings.HasPrefix(why, "even has no transform of order 3: ") || !strings.HasSuffix(why, "; g is even, so that every tensor of odd order vanishes") {
			t.Errorf("%s: %q", transform, why)
		}
	}
}

// TestAsManyExpertsAsFeatures: a subspace that is all of ℝ^d is one, of positive eigenvalues
// alone, and transforms of minimum variance are made there.
func TestAsManyExpertsAsFeatures(t *testing.T) {
	p, e := withT2(t, 3, 0.5, 0.3, 0.2)
	if got, err := e.With(t.Context(), p); err != nil || got.Subspace == nil {
		t.Errorf("no subspace of three eigenvalues for three experts, error %v", err)
	}
	sigmoid := sdk.Func{Name: "logistic", G: logistic, DG: func(z float64) float64 { return logistic(z) * logistic(-z) }}
	q := drawn(t, sigmoid, 1, 0.1, problem.Request{K: 4})
	if e, err := Measure(t.Context(), q, Want{Transform: Optimal}); err != nil || e.Optimal == nil {
		t.Errorf("no transforms of minimum variance for four experts in four dimensions, error %v", err)
	}
	for least, want := range map[float64]bool{1e-300: true, 0: false, -1: false} {
		if got := (&Subspace{Values: []float64{1, least}}).positive(); got != want {
			t.Errorf("a last eigenvalue of %v: positive %v", least, got)
		}
	}
}

// TestFourthIsOfUnitSize: of one regressor T̂4/c4 is (Uᵀa)⁴ = 1. Over 4000 rows it has a
// standard error of a fifth or so; c4 is 24.
func TestFourthIsOfUnitSize(t *testing.T) {
	p := drawn(t, sdk.Func{Name: "one", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}, 1, 0.1, problem.Request{})
	e, err := Measure(t.Context(), p, Want{Transform: Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	if c4 := e.Transform.C4; math.Abs(c4) < 2 {
		t.Fatalf("c4 = %v: the test says nothing", c4)
	}
	fourth, err := e.fourth(t.Context(), p)
	if err != nil || len(fourth.Data) != 1 || math.Abs(fourth.Data[0]-1) > 0.9 {
		t.Errorf("T4/c4 is %v, error %v, want about 1", fourth, err)
	}
	// Without T2 there is no estimate of order 3 either.
	f := *e
	f.Transform.C2, f.Verdict = 0, solver.Verdict{Reasons: []string{"c2 is 0"}}
	if why := f.Obstacle(p, 3); why != "one is not a valid nonlinearity: c2 is 0" {
		t.Errorf("order 3 without T2: %q", why)
	}
}
