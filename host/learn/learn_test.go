package learn_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/host/learn/learntest"
	"github.com/gatedlearning/moe/internal/testslow"
)

// try is [learntest.Try].
func try(t testing.TB, text string, k, n int, sigma float64, seed uint64) learntest.Trial {
	t.Helper()
	l, err := learntest.Try(t.Context(), text, k, n, sigma, seed)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestLearn: regressors and curve of two functions, and what is said of them. The bounds are those that are
// asked of ten thousand rows; here there are 3,000, and the curve may be off by twice as much.
func TestLearn(t *testing.T) {
	testslow.Mark(t)
	l := try(t, "expr: sigmoid(z)", 2, 3000, .05, 1)
	if l.EReg > 1e-3 || l.Sup > .1 || l.Even {
		t.Errorf("E_reg %v, sup %v, even %v", l.EReg, l.Sup, l.Even)
	}
	if best := l.Named[0]; best.Name != "sigmoid" || best.BIC >= l.BIC || math.Abs(best.Beta-1) > .15 {
		t.Errorf("%v with BIC %v against %v", best, best.BIC, l.BIC)
	}
	for i := range l.Params.K {
		norm := 0.0
		for _, v := range l.Params.Regressors[i*6 : (i+1)*6] {
			norm += v * v
		}
		if math.Abs(norm-1) > 1e-12 {
			t.Errorf("norm² of regressor %d is %v", i, norm)
		}
	}
	// The same with the curve held: a fit of it has the likelihood of the joint one, or more, for its norms are free.
	m, err := host.Fit(context.Background(), l.Table, l.Src, host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	if gain := m.Fit.LogLikelihood - l.LogLikelihood; gain < -.01 || gain > 10 {
		t.Errorf("a fit with the curve has a log-likelihood of %v more", gain)
	}
	if even := try(t, "expr: z^2", 2, 3000, .1, 1); even.EReg > 1e-3 || !even.Even {
		t.Errorf("z²: E_reg %v, even %v", even.EReg, even.Even)
	}
}

// TestRefused: tables of which no curve can be learned.
func TestRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 600
	x, y := mat.NewDense(n, 3, nil), make([]float64, n)
	for i := range n {
		x.SetRow(i, []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
		y[i] = 2
	}
	constant := mat.DenseCopyOf(x)
	for i := range n {
		constant.Set(i, 1, 5)
	}
	for _, test := range []struct {
		x    *mat.Dense
		y    []float64
		want string
	}{
		{constant, y, "feature 2 is constant"},
		{x.Slice(0, 60, 0, 3).(*mat.Dense), y[:60], "60 rows for curves of up to 12 knots"},
		{x, y, "the target is constant"},
	} {
		_, err := learn.Learn(context.Background(), dataset.Matrix(test.x, test.y), learn.Config{K: 1})
		if fault := (*learn.Error)(nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %s", err, test.want)
		}
	}
}

// TestDependent: a feature that those before it tell leaves the curve as it is without it, and has the coefficient 0.
func TestDependent(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(5, 6))
	const n = 500
	x, more, y := mat.NewDense(n, 3, nil), mat.NewDense(n, 4, nil), make([]float64, n)
	for i := range n {
		u, v, w := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(i, []float64{u, v, w})
		more.SetRow(i, []float64{u, v, 3*u - v + 6, w})
		y[i] = math.Tanh(u-v/2) + .1*rng.NormFloat64()
	}
	want, err := learn.Learn(t.Context(), dataset.Matrix(x, y), learn.Config{K: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := learn.Learn(t.Context(), dataset.Matrix(more, y), learn.Config{K: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got.LogLikelihood != want.LogLikelihood || !slices.Equal(got.Dependent, []int{2}) || len(want.Dependent) != 0 {
		t.Errorf("log-likelihood %v, want %v; dependent %v and %v", got.LogLikelihood, want.LogLikelihood, got.Dependent,
			want.Dependent)
	}
	a, b := want.Params.Regressors, want.StandardErrors.Regressors
	if w := []float64{a[0], a[1], 0, a[2]}; !slices.Equal(got.Params.Regressors, w) {
		t.Errorf("regressors %v, want %v", got.Params.Regressors, w)
	}
	if w := []float64{b[0], b[1], 0, b[2]}; !slices.Equal(got.StandardErrors.Regressors, w) {
		t.Errorf("standard errors %v, want %v", got.StandardErrors.Regressors, w)
	}
}

// TestNamedWithoutEnd: a parabola is exp(−z²) with β towards 0 and a scale without end. It is as near to the curve as one likes,
// so that its BIC, of fewer parameters, is the less, but it has no maximum, and no test is made of it.
func TestNamedWithoutEnd(t *testing.T) {
	testslow.Mark(t)
	l := try(t, "expr: z^2", 1, 2000, .1, 7)
	for _, n := range l.Named {
		if n.Name != "expr: exp(-z^2)" {
			continue
		}
		if n.Converged || n.P != nil || !(n.BIC < l.BIC) || !(math.Abs(n.Beta) < .1) {
			t.Errorf("%v: converged %v, p %v, BIC %+.1f", &n, n.Converged, n.P, n.BIC-l.BIC)
		}
		return
	}
	t.Error("not among those with a name")
}

// TestRatio: both tests of a right function agree where its deviation is within the noise, as that of a line is to
// a hundredth, and the likelihood ratio sees a function that the score test takes for right though BIC is far from it.
func TestRatio(t *testing.T) {
	testslow.Mark(t)
	of := func(l learntest.Trial, name string) learn.Named {
		return l.Named[slices.IndexFunc(l.Named, func(n learn.Named) bool { return n.Name == name })]
	}
	line := of(try(t, "expr: z", 1, 2000, .1, 1), "identity")
	if r := line.Ratio; r == nil || math.Abs(r.Statistic/line.Statistic-1) > .01 || r.DF != line.DF || line.Rejected() {
		t.Errorf("identity: score %v, likelihood ratio %+v", line.Statistic, line.Ratio)
	}
	l := try(t, "expr: sigmoid(z)", 1, 500, .1, 6)
	wrong, right := of(l, "expr: z*sigmoid(z)"), of(l, "sigmoid")
	if !(*wrong.P > .05) || !(wrong.BIC > l.BIC+20) {
		t.Errorf("the score test's p is %v with a BIC of %+v", *wrong.P, wrong.BIC-l.BIC)
	}
	if !(wrong.Ratio.P < 1e-4) || !wrong.Rejected() || right.Rejected() {
		t.Errorf("likelihood ratio %+v of the wrong function, %+v of the right one", wrong.Ratio, right.Ratio)
	}
}

// TestBiasWithoutError: where the finer spline's variance is not the larger there is no standard error of how far it is off,
// and none of 0. At a kink of little noise it is so.
func TestBiasWithoutError(t *testing.T) {
	testslow.Mark(t)
	if b := try(t, "expr: abs(z)", 1, 400, .01, 1).Bias; b == nil || b.SE != nil {
		t.Errorf("%+v", b)
	}
	if b := try(t, "expr: sigmoid(z)", 1, 400, .1, 1).Bias; b == nil || b.SE == nil || !(*b.SE > 0) {
		t.Errorf("%+v", b)
	}
}
