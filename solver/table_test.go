package solver

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/sdk"
)

// randomTable has entries and no errors.
func randomTable(rng *rand.Rand) (t table) {
	for p := 1; p <= sdk.MaxOrder; p++ {
		for q := 1; q <= sdk.MaxOrder; q++ {
			t.h[p][q] = rng.NormFloat64()
		}
	}
	return t
}

// TestErrorsOfScale: the error of an entry of the standardised table is the sum of those that each of
// the moments' errors gives by itself, and rounding is 8ε of the terms.
func TestErrorsOfScale(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	a := affine{-1.3, .4}
	var errors table // with no entries, so no rounding
	for p := range errors.err {
		for q := range errors.err[p] {
			errors.err[p][q] = rng.Float64()
		}
	}
	got := a.of(errors)
	var want, rounding table
	values := randomTable(rng)
	for p := 1; p <= sdk.MaxOrder; p++ {
		for q := 1; q <= sdk.MaxOrder; q++ {
			var one, two table
			one.h[p][q], two.h[p][q] = errors.err[p][q], values.h[p][q]
			one, two = a.of(one), a.of(two)
			for i := range want.err {
				for j := range want.err[i] {
					want.err[i][j] += math.Abs(one.h[i][j])
					rounding.err[i][j] += 8 * 0x1p-53 * math.Abs(two.h[i][j])
				}
			}
		}
	}
	rounded := a.of(values)
	for p := 1; p <= sdk.MaxOrder; p++ {
		for q := 1; q <= sdk.MaxOrder; q++ {
			if !(math.Abs(got.err[p][q]/want.err[p][q]-1) <= 1e-13) {
				t.Errorf("error %d, %d is %v, want %v", p, q, got.err[p][q], want.err[p][q])
			}
			if !(math.Abs(rounded.err[p][q]/rounding.err[p][q]-1) <= 1e-13) {
				t.Errorf("rounding %d, %d is %v, want %v", p, q, rounded.err[p][q], rounding.err[p][q])
			}
		}
	}
}

// TestErrorOfVariance: to first order the variance moves by the error of E[g²] and 2|mean| times that of E[g].
func TestErrorOfVariance(t *testing.T) {
	var m sdk.Moments
	m.Value[0][0], m.Value[1][0], m.Value[2][0] = 1, -3, 13
	m.Error[1][0], m.Error[2][0] = 1e-5, 1e-4
	a, got := standardise(m)
	if a.mean != -3 || a.sd != 2 || !(math.Abs(got-1.6e-4) <= 1e-12) {
		t.Errorf("%+v ± %v", a, got)
	}
	m.Error = [5][5]float64{}
	// 2⁻⁵² of each moment, and 8·2⁻⁵³ of E[g²].
	if _, got := standardise(m); !(math.Abs(got/(0x1p-52*(13+2*3*3)+8*0x1p-53*13)-1) <= 1e-12) {
		t.Errorf("rounding %v", got)
	}
	m.Value[2][0] = 9 - 1e-15 // below the square of the mean: no NaN
	if a, _ := standardise(m); a.sd != 0 {
		t.Errorf("%+v", a)
	}
}

// TestErrorsOfEquations: Frobenius norms of the errors of the matrix and of the right-hand
// side, and those of the functional, each from its entries of the table.
func TestErrorsOfEquations(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 3))
	for _, degree := range []int{2, 3, 4} {
		tab := randomTable(rng)
		for p := range tab.err {
			for q := range tab.err[p] {
				tab.err[p][q] = rng.Float64()
			}
		}
		e := tab.equations(degree)
		var a, b []float64
		for q := 1; q < degree; q++ {
			for p := 1; p < degree; p++ {
				a = append(a, tab.err[p][q])
				if e.a[q-1][degree-1-p] != tab.h[p][q] {
					t.Errorf("degree %d: coefficient %v of y^%d in row %d", degree, e.a[q-1][degree-1-p], p, q)
				}
			}
			b = append(b, tab.err[degree][q])
			if e.b[q-1] != -tab.h[degree][q] || e.c[q-1] != tab.h[degree-q][degree] || e.cerr[q-1] != tab.err[degree-q][degree] {
				t.Errorf("degree %d: row %d of %+v", degree, q, e)
			}
		}
		if !(math.Abs(e.aerr/floats.Norm(a, 2)-1) <= 1e-14) || !(math.Abs(e.berr/floats.Norm(b, 2)-1) <= 1e-14) ||
			e.c0 != tab.h[degree][degree] || e.c0err != tab.err[degree][degree] || len(e.a) != degree-1 || len(e.c) != degree-1 {
			t.Errorf("degree %d: %+v", degree, e)
		}
	}
}

// TestTolerances: of x = (1, 2) with singular values 4 and 2, by their definitions.
func TestTolerances(t *testing.T) {
	e := equations{
		a: [][]float64{{4, 0}, {0, 2}}, b: []float64{4, 4}, aerr: 1e-5, berr: 3e-5,
		c: []float64{3, 4}, c0: 7, c0err: 2e-4, cerr: []float64{1e-4, 5e-4},
	}
	s := e.solve()
	norm := math.Sqrt(5)
	if want := 1e-9*4*math.Sqrt2 + 2*(3e-5+1e-5*norm); !(math.Abs(s.tolerance/want-1) <= 1e-12) || s.rank != 2 || !(math.Abs(s.cond-2) <= 1e-14) || !(math.Abs(s.smallest-2) <= 1e-14) {
		t.Errorf("%+v, want a tolerance of %v", s, want)
	}
	x := []float64{-1, 2}          // the error of a coefficient takes no sign
	gain := math.Hypot(3./4, 4./2) // ‖λ‖ with aᵀλ = c
	through := gain * (3e-5 + 1e-5*norm + 8*0x1p-53*(4*math.Sqrt2+4*norm))
	if got, want := e.coefficientTol(s, x), 10*(2e-4+through+1e-4+2*5e-4); !(math.Abs(got/want-1) <= 1e-12) {
		t.Errorf("tolerance of the coefficient %v, want %v", got, want)
	}
	s.free = [][]float64{{0, 1}}
	if got, want := e.coefficientTol(s, x), 10*(2e-4+5./2*through/gain+1e-4+2*5e-4); !(math.Abs(got/want-1) <= 1e-12) {
		t.Errorf("tolerance of the coefficient with a free direction %v, want %v", got, want)
	}
	s.rank, s.gain = 0, 0
	if got, want := e.coefficientTol(s, x), 10*(2e-4+1e-4+2*5e-4); !(math.Abs(got/want-1) <= 1e-12) {
		t.Errorf("tolerance of the coefficient without a rank %v, want %v", got, want)
	}
	if got := (equations{c: []float64{1, 1}, cerr: []float64{0, 0}}).coefficientTol(s, x); got != 1e-9 {
		t.Errorf("least tolerance %v", got)
	}
	small := equations{a: [][]float64{{1e-3, 0}, {0, 1}}, b: []float64{0, 1}, c: []float64{0, 0}, cerr: []float64{0, 0}, aerr: 2e-3}
	if s := small.solve(); s.rank != 1 || len(s.free) != 1 {
		t.Errorf("a singular value within the error of the matrix counts: %+v", s)
	}
	// 1e−8 of the largest, or of 1.
	for i, c := range []struct {
		large, small float64
		rank         int
	}{{1e3, .9e-5, 1}, {1e3, 1.1e-5, 2}, {1e-3, .9e-8, 1}, {1e-3, 1.1e-8, 2}} {
		e := equations{a: [][]float64{{c.large, 0}, {0, c.small}}, b: []float64{1, 0}, c: make([]float64, 2)}
		if s := e.solve(); s.rank != c.rank {
			t.Errorf("case %d: %+v", i, s)
		}
	}
}

// TestAway: one unit along the steepest free direction and away from 0, on both sides of it.
func TestAway(t *testing.T) {
	e := equations{c: []float64{3, 4, 100}}
	s := solution{free: [][]float64{{1, 0, 0}, {0, 1, 0}}}
	for _, c0 := range []float64{1e-12, -1e-12} {
		e.c0 = c0
		x := e.away(s, []float64{0, 0, 0})
		// One unit of the coefficient along (3, 4): |c along free| = 5, in steps of 1/5·(3, 4).
		sign := math.Copysign(1, c0)
		if !(math.Abs(x[0]-sign*.6) <= 1e-15) || !(math.Abs(x[1]-sign*.8) <= 1e-15) || x[2] != 0 {
			t.Errorf("from %v to %v", c0, x)
		}
	}
}

// TestLeast: among the solutions the raw coefficients of least norm are orthogonal to what
// the free directions do to them; a direction that is none changes nothing.
func TestLeast(t *testing.T) {
	a := affine{.7, 1.9}
	x := []float64{.3, -1.2, 2}
	free := [][]float64{{.6, .8, 0}, {0, 0, 0}, {-.8, .6, 0}}
	got := a.least(x, free)
	raw := a.raw(got)
	for _, f := range [][]float64{free[0], free[2]} {
		moved := a.raw(floats.AddTo(make([]float64, 3), got, f))
		if d := floats.Dot(raw, floats.SubTo(make([]float64, 3), moved, raw)); !(math.Abs(d) <= 1e-12) {
			t.Errorf("the norm falls along %v: %v", f, d)
		}
	}
	if got[2] != x[2] {
		t.Errorf("%v has left the solutions", got)
	}
	if got := a.least(x, nil); &got[0] != &x[0] {
		t.Error("without a free direction there is one solution")
	}
}

// TestConditionsByName: every condition is a check of its own by its order, and what fails says so.
func TestConditionsByName(t *testing.T) {
	rows := []string{"S4 has no He1 part", "S4 has no He2 part", "S4 has no He3 part", "c4 is not zero"}
	for wrong := range 4 {
		e := equations{a: [][]float64{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, b: make([]float64, 3), c: make([]float64, 3), cerr: make([]float64, 3), c0: 1}
		reason := "c4 = 0"
		if wrong < 3 {
			e.b[wrong] = .5
			reason = "removes the He" + string(rune('1'+wrong)) + " part of S4: the system has rank 0"
		} else {
			e.c0 = 0
		}
		v := Verdict{Valid: true}
		v.condition1(e, e.solve(), make([]float64, 3))
		if v.Valid || len(v.Reasons) != 1 || !strings.Contains(v.Reasons[0], reason) || len(v.Checks) != 4 {
			t.Errorf("%q is wrong: %+v", rows[wrong], v)
		}
		for i, c := range v.Checks {
			if c.Name != rows[i] || c.Holds != (i != wrong) {
				t.Errorf("%q is wrong: %+v", rows[wrong], c)
			}
		}
	}
}

// TestOdd: a power of g that correlates with He1 or He3 tells the signs, whichever it is; He2 and He4
// do not, nor what is within rounding or ten errors.
func TestOdd(t *testing.T) {
	for p := 1; p <= sdk.MaxOrder; p++ {
		for q := 1; q <= sdk.MaxOrder; q++ {
			for _, c := range []struct {
				h, err, beside float64
				odd            bool
			}{{1e-6, 0, 0, true}, {-1e-6, 0, 0, true}, {1e-10, 0, 0, false}, {1e-6, .9e-7, 0, true}, {1e-6, 1.1e-7, 0, false}, {1e-6, 0, 900, true}, {1e-6, 0, 1100, false}} {
				var tab table
				tab.h[p][2], tab.h[p][q], tab.err[p][q] = c.beside, c.h, c.err
				if q == 2 {
					tab.h[p][2] = max(c.h, c.beside)
				}
				if got, want := tab.odd(), c.odd && q%2 == 1; got != want {
					t.Errorf("E[g^%d·He%d] = %v ± %v beside %v: odd %v", p, q, c.h, c.err, c.beside, got)
				}
			}
		}
	}
}
