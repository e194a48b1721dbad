package solver_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

func solve(t testing.TB, act sdk.Activation, sigma float64) (solver.Transform, solver.Verdict) {
	t.Helper()
	m := quadrature(t, act)
	return solver.Solve(m, m.System(sigma), sigma)
}

func near(got, want, tol float64) bool { return math.Abs(got-want) <= tol*math.Max(1, math.Abs(want)) }

// TestTransforms compares with values computed independently, to their ten
// printed digits.
func TestTransforms(t *testing.T) {
	const tol = 1e-9
	for _, c := range []struct {
		act                        sdk.Func
		alpha, beta, gamma         float64 // β and γ at σ = 0.05
		delta, c4, c2              float64
		cubicAlpha, cubicBeta0, c3 float64 // third order, β at σ = 0
	}{
		{identity, 0, -6 * (1 + .0025), 0, 0, 24, 2, 0, -3, 6},
		{relu, -5.352482673, 8.110026612, -3.251151426, -1.5957691216, 0.5010468908, 0.3633802276, -3.2935937351, 2.2558151817, 0.3720924092},
		{sigmoid, -2, 1.323631413, -0.323631413, -1, 0.0093589869, 0.0623964840, math.NaN(), math.NaN(), math.NaN()},
	} {
		for _, sigma := range []float64{0.05, 0.3} {
			got, _ := solve(t, c.act, sigma)
			ds := sigma*sigma - .0025
			for _, v := range []struct {
				name      string
				got, want float64
			}{
				{"α", got.Alpha, c.alpha}, {"β", got.Beta, c.beta - 6*ds}, {"γ", got.Gamma, c.gamma - 3*c.alpha*ds},
				{"δ", got.Delta, c.delta}, {"c4", got.C4, c.c4}, {"c2", got.C2, c.c2},
				{"third-order α", got.Cubic.Alpha, c.cubicAlpha}, {"third-order β", got.Cubic.Beta, c.cubicBeta0 - 3*sigma*sigma},
				{"c3", got.Cubic.C3, c.c3},
			} {
				if !math.IsNaN(v.want) && !near(v.got, v.want, tol) {
					t.Errorf("%s at σ = %v: %s = %.12g, want %.12g", c.act.Name, sigma, v.name, v.got, v.want)
				}
			}
		}
	}
}

// TestTransformsByDefinition: E[Q4(y)·He_q(Z)] is 0 for q = 1, 2, 3 and C4 for q = 4,
// E[Q2(y)·He_q(Z)] is 0 and C2, and third order alike, with the noise averaged
// over explicitly.
func TestTransformsByDefinition(t *testing.T) {
	for _, act := range append(valid[:len(valid)-1:len(valid)-1], even...) {
		grid, err := gauss.NewGrid(t.Context(), act.Eval, act.Kinks)
		if err != nil {
			t.Fatal(err)
		}
		for _, sigma := range []float64{0, 0.3} {
			tr, _ := solve(t, act, sigma)
			check := func(name string, q func(float64) float64, order int, want float64) {
				t.Helper()
				var size float64
				got, _ := grid.Expect(func(z, g float64) float64 {
					return overNoise(func(e float64) float64 { return q(g + sigma*e) }) * gauss.Hermite(order, z)
				})
				size, _ = grid.Expect(func(z, g float64) float64 { return math.Abs(q(g) * gauss.Hermite(order, z)) })
				if math.Abs(got-want) > 1e-10*(size+math.Abs(want)) {
					t.Errorf("%s at σ = %v: E[%s·He%d] = %v, want %v", act.Name, sigma, name, order, got, want)
				}
			}
			for q := 1; q <= 3; q++ {
				check("Q4", tr.Q4, q, 0)
			}
			check("Q4", tr.Q4, 4, tr.C4)
			check("Q2", tr.Q2, 1, 0)
			check("Q2", tr.Q2, 2, tr.C2)
			if tr.Cubic.Valid {
				check("P3", tr.P3, 1, 0)
				check("P3", tr.P3, 2, 0)
				check("P3", tr.P3, 3, tr.Cubic.C3)
			}
		}
	}
}

// overNoise returns E[f(N)] by trapezoids, which for polynomials are off by
// (2π/h)^d·exp(−2π²/h²), 1e−25 at degree d = 8, and by what lies beyond 12.
func overNoise(f func(e float64) float64) float64 {
	var s float64
	for i, w := range trapezoids {
		s += w * f(-12+trapezoid*float64(i))
	}
	return s
}

const trapezoid = 0.5

// trapezoids are the weights of [overNoise] at −12, −11.5 … 12.
var trapezoids = func() (w []float64) {
	for e := -12.0; e <= 12; e += trapezoid {
		w = append(w, trapezoid*math.Exp(-e*e/2)/math.Sqrt(2*math.Pi))
	}
	return w
}()

func TestValid(t *testing.T) {
	for _, sigma := range []float64{0, 0.05, 2} {
		for _, act := range valid {
			tr, v := solve(t, act, sigma)
			if !v.Valid || !v.SignsIdentifiable || v.Rank != 3 || !tr.Cubic.Valid || len(v.Reasons) > 0 {
				t.Errorf("%s at σ = %v: %+v, cubic %+v", act.Name, sigma, v, tr.Cubic)
			}
			if (tr.C4 < 0) != (act.Name == "gelu") {
				t.Errorf("%s: c4 = %v has the wrong sign", act.Name, tr.C4)
			}
		}
		for _, act := range even {
			tr, v := solve(t, act, sigma)
			if !v.Valid || v.SignsIdentifiable || v.Rank != 1 || tr.Cubic.Valid {
				t.Errorf("%s at σ = %v: %+v, cubic %+v; want valid with rank 1, signs and third order not", act.Name, sigma, v, tr.Cubic)
			}
		}
		for _, act := range invalid {
			if tr, v := solve(t, act, sigma); v.Valid || len(v.Reasons) == 0 || tr.Cubic.Valid {
				t.Errorf("%s at σ = %v: %+v, want invalid with a reason", act.Name, sigma, v)
			}
		}
	}
}

// TestValidityIsAffine: nothing that the verdict says changes when g becomes
// a·g + b.
func TestValidityIsAffine(t *testing.T) {
	list := append(append(append([]sdk.Func{}, valid...), even...), step, sign, window)
	rapid.Check(t, func(rt *rapid.T) {
		act := rapid.SampledFrom(list).Draw(rt, "activation")
		a := math.Pow(10, rapid.Float64Range(-3, 3).Draw(rt, "log10 a"))
		if rapid.Bool().Draw(rt, "negative") {
			a = -a
		}
		b := a * standardDeviation(quadrature(t, act)) * rapid.Float64Range(-20, 20).Draw(rt, "b in standard deviations")
		_, want := solve(t, act, 0.05)
		_, got := solve(t, fn("affine", func(z float64) float64 { return a*act.G(z) + b }, nil, act.Kinks...), 0.05)
		if got.Valid != want.Valid || got.Rank != want.Rank || got.SignsIdentifiable != want.SignsIdentifiable || !near(got.Cond, want.Cond, 1e-4) {
			rt.Errorf("%g·%s%+g: %+v, want %+v", a, act.Name, b, got, want)
		}
	})
}

func standardDeviation(m sdk.Moments) float64 {
	return math.Sqrt(m.Value[2][0] - m.Value[1][0]*m.Value[1][0])
}

// TestSigmaShift: the transform at σ, however it was reached, solves the raw
// system of that σ.
func TestSigmaShift(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		act := rapid.SampledFrom(valid[:len(valid)-1]).Draw(rt, "activation")
		m := quadrature(t, act)
		sd := standardDeviation(m)
		from := sd * rapid.Float64Range(0, 3).Draw(rt, "from, in standard deviations of g")
		to := sd * rapid.Float64Range(0, 3).Draw(rt, "to")
		tr, _ := solver.Solve(m, m.System(from), from)
		tr = tr.At(to)
		s := m.System(to)
		for i, row := range s.Matrix {
			left := row[0]*tr.Alpha + row[1]*tr.Beta + row[2]*tr.Gamma
			size := math.Abs(row[0]*tr.Alpha) + math.Abs(row[1]*tr.Beta) + math.Abs(row[2]*tr.Gamma) + math.Abs(s.RHS[i])
			if math.Abs(left-s.RHS[i]) > 1e-12*(size+m.Value[4][4]) {
				rt.Errorf("%s from σ = %v to %v: row %d is off by %v", act.Name, from, to, i+1, left-s.RHS[i])
			}
		}
		for i, row := range s.Cubic.Matrix {
			left := row[0]*tr.Cubic.Alpha + row[1]*tr.Cubic.Beta
			if math.Abs(left-s.Cubic.RHS[i]) > 1e-12*(math.Abs(row[0]*tr.Cubic.Alpha)+math.Abs(row[1]*tr.Cubic.Beta)+math.Abs(s.Cubic.RHS[i])+m.Value[4][4]) {
				rt.Errorf("%s: third-order row %d is off", act.Name, i+1)
			}
		}
		if tr.Sigma != to {
			rt.Errorf("σ = %v, want %v", tr.Sigma, to)
		}
	})
}

// TestMinimumNorm: an even g has a plane of solutions; the one returned at σ = 0
// is the shortest.
func TestMinimumNorm(t *testing.T) {
	for _, act := range even {
		tr, _ := solve(t, act, 0)
		s := quadrature(t, act).System(0)
		// Row 2 is the only one: the shortest solution of ⟨r, x⟩ = b is b·r/|r|².
		row := mat.NewVecDense(3, s.Matrix[1][:])
		scale := s.RHS[1] / mat.Dot(row, row)
		for i, got := range []float64{tr.Alpha, tr.Beta, tr.Gamma} {
			if !near(got, scale*row.AtVec(i), 1e-10) {
				t.Errorf("%s: coefficient %d is %v, want %v", act.Name, i, got, scale*row.AtVec(i))
			}
		}
		if math.Abs(tr.Delta) > 1e-12 {
			t.Errorf("%s: δ = %v is free and should be 0", act.Name, tr.Delta)
		}
	}
}

// offering is ReLU with a system of its own.
type offering struct {
	sdk.Func
	system func(sigma float64) sdk.System
}

func (o offering) System(_ context.Context, sigma float64) (sdk.System, error) {
	return o.system(sigma), nil
}

// printedReLU is the system as 002 prints it (Example 2): the β column has a σ²
// too many.
func printedReLU(sigma float64) sdk.System {
	s, r := sigma*sigma, math.Sqrt(2/math.Pi)
	var m sdk.Moments
	half := []float64{0.5, r / 2, 0.5, r, 1.5, 4 * r, 7.5, 24 * r, 52.5} // ½E|Z|^n
	for p := 1; p <= 4; p++ {
		for q := range 5 {
			m.Value[p][q] = half[p+q]
		}
	}
	sys := m.System(sigma)
	sys.Matrix = [3][3]float64{{1.5 + 1.5*s, r + s, .5}, {3 * r * (1 + s/2), 1 + s, r / 2}, {3, r + s, 0}}
	sys.RHS = [3]float64{-r * (4 + 6*s), -(6 + 6*s), -r * (12 + 6*s)}
	return sys
}

func TestPrintedReLUMatrixIsFoundOut(t *testing.T) {
	v, err := solver.Validate(t.Context(), offering{relu, printedReLU}, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	reason := strings.Join(v.Verdict.Reasons, "; ")
	for _, want := range []string{"β entry of row 1 is 1.047884561", "moments of g give 0.7978845608"} {
		if !strings.Contains(reason, want) {
			t.Errorf("reasons %q do not say %q", reason, want)
		}
	}
	if v.Verdict.Valid {
		t.Error("a wrong system passed")
	}
	if !near(v.Transform.Alpha, -5.352482673, 1e-9) {
		t.Errorf("α = %v was taken from the wrong system", v.Transform.Alpha)
	}
	// Without noise the printed matrix is right.
	if v, err := solver.Validate(t.Context(), offering{relu, printedReLU}, 0); err != nil || !v.Verdict.Valid {
		t.Errorf("at σ = 0: %v, %v", v.Verdict, err)
	}
}

// mistaken is sigmoid with wrong moments.
type mistaken struct{ sdk.Func }

func (a mistaken) Moments(ctx context.Context) (sdk.Moments, error) {
	m, err := sdk.Quadrature(ctx, a.Func)
	m.Value[3][2] *= 1.001
	return m, err
}

func TestWrongMomentsAreFoundOut(t *testing.T) {
	v, err := solver.Validate(t.Context(), mistaken{sigmoid}, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	if v.Verdict.Valid || !v.OwnMoments || v.MomentsDifference < 1e-5 || !strings.Contains(strings.Join(v.Verdict.Reasons, ";"), "E[g^3·Z^2]") {
		t.Errorf("%+v", v.Verdict)
	}
}

// TestOneQuadrature: whatever is asked about an activation, g and g′ are evaluated
// on one grid each.
func TestOneQuadrature(t *testing.T) {
	var n, derivatives int
	act := fn("softplus",
		func(z float64) float64 { n++; return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) },
		func(z float64) float64 { derivatives++; return 1 / (1 + math.Exp(-z)) })
	if _, err := sdk.Quadrature(t.Context(), act); err != nil {
		t.Fatal(err)
	}
	if _, err := gauss.NewGrid(t.Context(), act.Deriv, nil); err != nil {
		t.Fatal(err)
	}
	once, onceDerivatives := n, derivatives
	n, derivatives = 0, 0
	v, err := solver.Validate(t.Context(), act, 0.05)
	if err != nil || v.Noise == nil || v.OneHiddenLayer == nil {
		t.Fatalf("%+v, %v", v, err)
	}
	if n != once || derivatives != onceDerivatives {
		t.Errorf("%d and %d evaluations of g and g′, want %d and %d", n, derivatives, once, onceDerivatives)
	}
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	n = 0
	if s, err := sdk.SystemFrom(t.Context(), act, m, 0.05); err != nil || n != 0 || s != v.System {
		t.Errorf("%d evaluations for a system from known moments, %v", n, err)
	}
}

func TestGrowthIsInvalid(t *testing.T) {
	wild := fn("exp(z²/8)", func(z float64) float64 { return math.Exp(z * z / 8) }, func(z float64) float64 { return z / 4 * math.Exp(z*z/8) })
	v, err := solver.Validate(t.Context(), wild, 0.05)
	if err != nil || v.Verdict.Valid || len(v.Verdict.Reasons) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestLostDigits: an offset of 1e5 standard deviations leaves nothing of g⁴ in
// float64; the verdict says that instead of judging rounding.
func TestLostDigits(t *testing.T) {
	_, v := solve(t, fn("tanh+1e5", func(z float64) float64 { return math.Tanh(z) + 1e5 }, sech2), 0.05)
	if v.Valid || len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], "take the constant off g") {
		t.Errorf("%+v", v)
	}
}

// TestScaleOutOfRange: g⁴ overflows beyond 1e75 and underflows below 1e−77, and the verdict says so in place of judging
// what is left; within, the verdict is that of g, and a constant is one at any scale.
func TestScaleOutOfRange(t *testing.T) {
	for _, act := range []sdk.Func{identity, relu, square, absolute} {
		for by, reason := range map[float64]string{
			1e77: "overflow: rescale g", 1e100: "overflow: rescale g", 1e300: "overflow: rescale g", 1e70: "", 1e-70: "",
			1e-80: "underflow: rescale g", 1e-100: "underflow: rescale g", 1e-200: "underflow: rescale g", 1e-300: "underflow: rescale g",
		} {
			if by == 1e300 && act.Name == square.Name {
				by = 1e290 // g itself is finite
			}
			scaled := fn("scaled", func(z float64) float64 { return by * act.G(z) }, func(z float64) float64 { return by * act.DG(z) }, act.Kinks...)
			_, v := solve(t, scaled, 0)
			if v.Valid != (reason == "") || len(v.Reasons) > 1 || !strings.Contains(strings.Join(v.Reasons, ""), reason) {
				t.Errorf("%g·%s: %v, want %q", by, act.Name, v.Reasons, reason)
			}
			if whole, err := solver.Validate(t.Context(), scaled, 0.05); err != nil || whole.Verdict.Valid && reason != "" {
				t.Errorf("%g·%s: %+v, %v", by, act.Name, whole, err)
			}
		}
	}
	for _, c := range []float64{1e-300, 1e-200, 1e-70, 1e70} {
		if _, v := solve(t, fn("constant", func(float64) float64 { return c }, flat), 0); v.Valid || !strings.Contains(v.Reasons[0], "g is constant") {
			t.Errorf("the constant %g: %v", c, v.Reasons)
		}
	}
}

// TestEven: whether g is even is told by itself, whatever else the moments are too inexact for, and what cannot be told
// is not called even. sin(20z) is odd, and its moments up to order 4 vanish with e^(−200).
func TestEven(t *testing.T) {
	type answer struct{ signs, even bool }
	yes, no, untold := answer{true, false}, answer{false, true}, answer{}
	for _, c := range []struct {
		name string
		g    func(z float64) float64
		want answer
	}{
		{"exp(2.5z)", func(z float64) float64 { return math.Exp(2.5 * z) }, yes},
		{"exp(3z)", func(z float64) float64 { return math.Exp(3 * z) }, yes},
		{"z·exp(2z)", func(z float64) float64 { return z * math.Exp(2*z) }, yes},
		{"z^15", func(z float64) float64 { return math.Pow(z, 15) }, yes},
		{"tanh+1000", func(z float64) float64 { return math.Tanh(z) + 1000 }, yes},
		{"relu+1e6", func(z float64) float64 { return max(z, 0) + 1e6 }, yes},
		{"z²+1e6", func(z float64) float64 { return z*z + 1e6 }, no},
		{"cosh(3z)", func(z float64) float64 { return math.Cosh(3 * z) }, no},
		{"|z|", math.Abs, no},
		{"1e-200·z²", func(z float64) float64 { return 1e-200 * z * z }, no},
		{"constant", func(float64) float64 { return 7 }, no},
		{"sin(20z)", func(z float64) float64 { return math.Sin(20 * z) }, untold},
		{"z²+sin(20z)", func(z float64) float64 { return z*z + math.Sin(20*z) }, untold},
		{"1e300·z", func(z float64) float64 { return 1e300 * z }, untold},
		{"1e-300·z", func(z float64) float64 { return 1e-300 * z }, untold},
		{"exp(z²/8)", func(z float64) float64 { return math.Exp(z * z / 8) }, untold},
	} {
		v, err := solver.Validate(t.Context(), fn(c.name, c.g, flat, 0), 0.05)
		if err != nil {
			t.Fatal(c.name, err)
		}
		if got := (answer{v.Verdict.SignsIdentifiable, v.Verdict.Even}); got != c.want {
			t.Errorf("%s: signs and even are %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAdvice: what a verdict advises can work. The constant is taken off where there is one, and kinks are declared where
// g changes too fast.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		name, want string
		g          func(z float64) float64
	}{
		{"z^15", "comes from rare Z", func(z float64) float64 { return math.Pow(z, 15) }},
		{"exp(3z)", "comes from rare Z", func(z float64) float64 { return math.Exp(3 * z) }},
		{"relu+1e6", "take the constant off g", func(z float64) float64 { return max(z, 0) + 1e6 }},
		{"sin(2000z)", "changes too fast for their quadrature", func(z float64) float64 { return math.Sin(2000 * z) }},
	} {
		_, v := solve(t, fn(c.name, c.g, flat), 0.05)
		if v.Valid || len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], c.want) ||
			strings.Contains(v.Reasons[0], "constant off") != (c.name == "relu+1e6") || strings.Contains(v.Reasons[0], "kink") != (c.name == "sin(2000z)") {
			t.Errorf("%s: %v, want %q", c.name, v.Reasons, c.want)
		}
	}
}

// TestCoefficientTolerance: with four values (g−a)(g−b)(g−c)(g−d) = 0, so that Q4(g) is constant and c4 = 0 exactly,
// at full rank: none is valid. z beyond 2.5 and 0 before has c4 = 0.00112793 by composite Gauss–Legendre rules.
func TestCoefficientTolerance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var at, by [3]float64
		for i := range at {
			at[i] = float64(rapid.IntRange(-25, 25).Draw(rt, "jump at")) / 10
			by[i] = float64(rapid.IntRange(-20, 20).Draw(rt, "by")) / 10
		}
		four := fn("four values", func(z float64) (y float64) {
			for i := range at {
				y += by[i] * unit(z-at[i])
			}
			return y
		}, flat, at[:]...)
		if _, v := solve(t, four, 0); v.Valid {
			rt.Errorf("jumps at %v by %v: %+v", at, by, v)
		}
	})
	tr, v := solve(t, fn("z beyond 2.5", func(z float64) float64 { return z * unit(z-2.5) }, nil, 2.5), 0)
	if !v.Valid || math.Abs(tr.C4/0.00112793-1) > 1e-5 {
		t.Errorf("z beyond 2.5: %+v, c4 = %v", v, tr.C4)
	}
	if _, v := solve(t, fn("tanh(1000z)", func(z float64) float64 { return math.Tanh(1000 * z) }, nil), 0); v.Valid || !strings.Contains(v.Reasons[0], "c4 cannot be told from 0 (c4 = 8e-10, tolerance 1e-09)") {
		t.Errorf("tanh(1000z): %v", v.Reasons)
	}
}

func BenchmarkSolve(b *testing.B) {
	m := quadrature(b, relu)
	s := m.System(0.05)
	for b.Loop() {
		solver.Solve(m, s, 0.05)
	}
}

func BenchmarkValidate(b *testing.B) {
	for b.Loop() {
		if _, err := solver.Validate(b.Context(), relu, 0.05); err != nil {
			b.Fatal(err)
		}
	}
}
