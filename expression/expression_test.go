package expression

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

func parsed(t testing.TB, text string, params sdk.Params) *Expression {
	t.Helper()
	act, err := Parse(text, params)
	if err != nil {
		t.Fatal(err)
	}
	return act.(*Expression)
}

// values returns g, g′ and g″ at z.
func values(t testing.TB, e *Expression, z float64) (v [3]float64) {
	t.Helper()
	for i, f := range []func(context.Context, []float64, []float64) error{e.Eval, e.Deriv, e.Second} {
		at := []float64{z}
		if err := f(t.Context(), at, at); err != nil {
			t.Fatal(err)
		}
		v[i] = at[0]
	}
	return v
}

// used are those of params that may be in a text: all where the text is none.
func used(params sdk.Params, text string) sdk.Params {
	out := sdk.Params{}
	t, err := parse(text, params)
	for name, v := range params {
		if err != nil || t.has(name) {
			out[name] = v
		}
	}
	return out
}

// TestCanonical: texts and what is kept of them, which reads as itself.
func TestCanonical(t *testing.T) {
	params := sdk.Params{"beta": 2}
	for text, want := range map[string]string{
		" beta * z/(1+exp( -beta*z)) ": "beta*z/(1 + exp(-beta*z))",
		"expr: ((beta))*(z)":           "beta*z",
		"-z^2*beta":                    "-z^2*beta",
		"(-z)^2*beta":                  "(-z)^2*beta",
		"beta^z^2":                     "beta^z^2",
		"(beta^z)^2":                   "(beta^z)^2",
		"beta^-z":                      "beta^-z",
		"z-(beta-1)":                   "z - (beta - 1)",
		"(z-beta)-1":                   "z - beta - 1",
		"z/(beta*z)/3":                 "z/(beta*z)/3",
		"1e3*z + .50 + 2.*beta - 1E-7": "1000*z + 0.5 + 2*beta - 1e-07",
		"--z + +beta":                  "--z + beta",
		"z - -beta":                    "z - -beta",
		"where(not(z<0)and(z<=1 or z==beta),1,0)": "where(not z < 0 and (z <= 1 or z == beta), 1, 0)",
		"where(not(z<0 or z>beta),z,0)":           "where(not (z < 0 or z > beta), z, 0)",
	} {
		e := parsed(t, text, used(params, text))
		if info := e.Info(); info.Name != "expr: "+want {
			t.Errorf("%q is %q, want %q", text, info.Name, want)
		} else if again := parsed(t, info.Name, info.Params); again.text != e.text {
			t.Errorf("%q read again is %q", e.text, again.text)
		}
	}
}

// TestErrors: what is wrong, and at which character.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"", "at character 1, the end: want a number"},
		{"expr:", "at character 6, the end: want a number"},
		{"expr: z*tan(z)", `at character 9, "tan(z)": there is no function tan; did you mean tanh?`},
		{"z*(1+z", "at character 7, the end: want ) for the ( at character 3"},
		{"z)", `at character 2, ")": want an operation or the end`},
		{"2z", `at character 2, "z": want an operation`},
		{"2**z", `at character 3, "*z": want a number`},
		{"bta*z", `at character 1, "bta*z": there is no bta; did you mean beta?`},
		{"max(z)", `at character 1, "max(z)": max takes 2 arguments`},
		{"max(z,1,2)", "max takes 2 arguments"},
		{"max(z 1)", `at character 7, "1)": want , or ) for the ( at character 4: max takes 2 arguments`},
		{"exp z", `at character 5, "z": want ( after exp`},
		{"z<1", "a condition is no value of g"},
		{"z+(z<1)", `at character 3, "(z<1)": want a number, not a condition`},
		{"where(z,1,2)", `at character 7, "z,1,2)": want a condition`},
		{"where(0<z<1,1,2)", `at character 10, "<1,1,2)": comparisons do not chain`},
		{"where(z=1,1,2)", `at character 8, "=1,1,2)": want ==`},
		{"z²", "want ^2"},
		{"5 − z", `at character 3, "− z"`},
		{"z;z", "is not of the language"},
		{"1e999", "the number is too large"},
		{".", "want a number"},
		{"z\x00", "is not of the language"},
		{"z\xff", "not UTF-8"},
		{strings.Repeat("(", 300) + "z", "more than 100 expressions within one another"},
		{strings.Repeat("-", 300) + "z", "more than 100 expressions within one another"},
		{strings.Repeat("z+", 600) + "z", "more than 500 terms"},
		{strings.Repeat(" ", 3000) + "z", "it has 3001 bytes, and 2000 are allowed"},
		{strings.Repeat("1.5e9+", 249) + "z", "written out it has 2491 bytes"},
		{strings.Repeat("z+", 249) + "z", ""},
	} {
		_, err := Parse(c.text, used(sdk.Params{"beta": 1}, c.text))
		if c.says == "" {
			if err != nil {
				t.Errorf("%.40q: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40q: %v, want %q", c.text, err, c.says)
		}
	}
	for name, v := range map[string]float64{"z": 1, "exp": 1, "and": 1, "": 1, "a b": 1, "β": 1, "1a": 1, "unused": 1, "beta": math.NaN()} {
		if _, err := Parse("z*beta", sdk.Params{"beta": 1, name: v}); err == nil {
			t.Errorf("parameter %q = %v: no error", name, v)
		}
	}
}

// TestExample: the example of the language is finite with its derivatives far out, and what
// its formula gives where nothing overflows.
func TestExample(t *testing.T) {
	e := parsed(t, "z*tanh(log1p(exp(z)))", nil)
	for z, want := range map[float64][3]float64{-800: {0, 0, 0}, 800: {800, 1, 0}, -1e6: {0, 0, 0}, 1e6: {1e6, 1, 0}} {
		if got := values(t, e, z); got != want {
			t.Errorf("at %v: %v, want %v", z, got, want)
		}
	}
	if len(e.Info().Kinks) != 0 || len(e.Notes()) != 2 {
		t.Errorf("kinks %v, notes %q", e.Info().Kinks, e.Notes())
	}
}

// TestForms: forms that overflow, or cancel, as they stand.
func TestForms(t *testing.T) {
	for _, c := range []struct {
		text   string
		z      float64
		g, dg  float64
		digits float64
	}{
		{"log(1+exp(z))", 800, 800, 1, 0},
		{"log(exp(z)+1)", -800, 0, 0, 0},
		{"log1p(exp(z))", 800, 800, 1, 0},
		{"exp(z)/(1+exp(z))", 800, 1, 0, 0},
		{"exp(z)/(exp(z)+1)", -40, math.Exp(-40), math.Exp(-40), 1e-15},
		{"1/(1+exp(-z))", -800, 0, 0, 0},
		{"1/(1+exp(-z))", -40, math.Exp(-40), math.Exp(-40), 1e-15},
		{"z/(1+exp(-z))", -800, 0, 0, 0},
		{"1-1/(1+exp(-z))", 40, math.Exp(-40), -math.Exp(-40), 1e-15},
		{"1-tanh(z)^2", 30, 4 * math.Exp(-60), -8 * math.Exp(-60), 1e-14},
		{"(exp(z)-exp(-z))/(exp(z)+exp(-z))", 800, 1, 0, 0},
		{"2/(1+exp(-z))-1", 1e-10, 5e-11, 0.5, 1e-15},
		{"1/cosh(z)", 800, 0, 0, 0},
		{"exp(z)-1", 1e-12, math.Expm1(1e-12), 1, 1e-11},
		{"log(1+z^2)", 1e-9, 1e-18, 2e-9, 1e-15},
		{"sqrt(z^2)", -3, 3, -1, 0},
		{"sqrt(max(z, 0))", -3, 0, 0, 0},
		{"log(max(z, 1))", -3, 0, 0, 0},
	} {
		got := values(t, parsed(t, c.text, nil), c.z)
		far := func(got, want float64) bool { return !(math.Abs(got-want) <= c.digits*math.Abs(want)) }
		if far(got[0], c.g) || far(got[1], c.dg) {
			t.Errorf("%s at %v: g = %v, g′ = %v, want %v and %v", c.text, c.z, got[0], got[1], c.g, c.dg)
		}
	}
}

// TestKinks: exact where arguments are piecewise linear, to the last digit elsewhere, and
// none where the branches are one function.
func TestKinks(t *testing.T) {
	third := 1.0 / 3
	for _, c := range []struct {
		text      string
		want      []float64
		bracketed bool
	}{
		{"max(z, 0)", []float64{0}, false},
		{"min(max(z, 0), 6)", []float64{0, 6}, false},
		{"abs(3*z - 1)", []float64{third}, false},
		{"abs(abs(z) - 1)", []float64{-1, 0, 1}, false},
		{"max(z, 0.1*z)", []float64{0}, false},
		{"where(z < 1 and z > -1, z, sign(z))", []float64{-1, 1}, false},
		{"where(abs(z) < 0.5, 0, z)", []float64{-0.5, 0.5}, false},
		{"where(max(z, 2*z - 3) > 5, 1, 0)", []float64{4}, false},
		{"sign(z - 2)*z", []float64{2}, false},
		{"where(z <= 0, 0, where(z < 3, z^2, 9))", []float64{0, 3}, false},
		{"max(z, 0)^3", []float64{0}, false},
		{"abs(z*4/2 + z - 6/4)", []float64{0.5}, false},
		{"cbrt(z - 1)", []float64{1}, false},
		{"tanh(1/(z - 2))", []float64{2}, false},
		{"where(z == 0, 1, tanh(z)/z)", nil, false},
		{"sqrt(z^2)", []float64{0}, false},
		{"sqrt(z^2 - 2*z + 1)", []float64{1}, true},
		{"max(z^2 - 2, 0)", []float64{-math.Sqrt2, math.Sqrt2}, true},
		{"abs(exp(z) - 1)", []float64{0}, true},
		{"max(tanh(z) - 0.5, 0)", []float64{math.Atanh(0.5)}, true},
		{"max(max(z^3, 0) - 8, 0)", []float64{2}, true},
		{"max(z, 0) + log1p(exp(-abs(z)))", nil, false}, // the softplus
		{"abs(z)^2", nil, false},
		{"abs(z)*z*sign(z)", nil, false},
		{"z*(max(z, 0) + min(z, 0))", nil, false},
		{"z^2 + tanh(z)", nil, false},
	} {
		e := parsed(t, c.text, nil)
		got := e.Info().Kinks
		same := len(got) == len(c.want)
		for i := range min(len(got), len(c.want)) {
			near := 2 * (math.Nextafter(math.Abs(c.want[i]), math.Inf(1)) - math.Abs(c.want[i]))
			if !c.bracketed {
				near = 0
			}
			same = same && math.Abs(got[i]-c.want[i]) <= max(near, 1e-15*b2f(c.bracketed))
		}
		if !same || len(e.kinks.bracketed) > 0 != c.bracketed {
			t.Errorf("%s: kinks %v, bracketed %q, want %v, %v", c.text, got, e.kinks.bracketed, c.want, c.bracketed)
		}
	}
}

func b2f(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// TestFinite: values that are not finite are found and named, and what only overflows far
// out is a note.
func TestFinite(t *testing.T) {
	for text, says := range map[string]string{
		"log(z)":                          "log(z) is -Inf at z = 0",
		"z + log(abs(z))":                 "log(abs(z)) is -Inf at z = 0",
		"log(z^2)":                        "log(z^2) is -Inf at z = 0",
		"sqrt(z)":                         "sqrt(z) is NaN at z = -",
		"sqrt(z + 1000)":                  "sqrt(1000 + z) is NaN at z = -1",
		"z^0.3":                           "z^0.3 is NaN at z = -",
		"1/(z - 0.3)":                     "1/(z - 0.3) is +Inf at z = 0.3",
		"1/(z^2 - 2)":                     "1/(z^2 - 2) has a pole at z = -1.41421356237",
		"1/(3*z - 1)":                     "1/(3*z - 1) ",
		"sinh(z)/z":                       "sinh(z)/z is NaN at z = 0",
		"log1p(z)":                        "log1p(z) is ",
		"exp(-exp(2*z^2))":                "its derivative ",
		"tanh(1/z)":                       "", // which is bounded, and jumps
		"exp(z^4)":                        "exp(z^4) is +Inf at z = -5.1",
		"z + 1/0":                         "1/0 is +Inf at z = 0",
		"log(-1 - z^2)":                   "is NaN at z = 0",
		"where(z == 0, 1, tanh(z)/z)":     "",
		"where(z > 0, log(max(z, 1)), 0)": "",
		"exp(z)":                          "",
		"1/cosh(z)":                       "",
		"z/(1 + z^2)":                     "",
		"cbrt(z)":                         "",
		"sqrt(z^2 + 1)":                   "",
		"log(1 + z^2)":                    "",
		"1/(1 + abs(z))":                  "",
	} {
		err := parsed(t, text, nil).Finite()
		if says == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if not := (*NotFiniteError)(nil); !errors.As(err, &not) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for text, says := range map[string]string{
		"exp(z)":            "g is too large for a number at z = 709.78",
		"cbrt(z)":           "g' is not finite at z = 0",
		"tanh(z)":           "g′ = 1 - tanh(z)^2; no kinks",
		"min(max(z, 0), 6)": "kinks or jumps at z = 0, 6, computed from the text",
		"max(z^2-2, 0)":     "where z^2 - 2 is 0 was bracketed on |z| <= 1e+06",
	} {
		if notes := strings.Join(parsed(t, text, nil).Notes(), "; "); !strings.Contains(notes, says) {
			t.Errorf("%s: notes %q, want %q", text, notes, says)
		}
	}
}

// TestOneSided: g′ at a kink is that of one side, also where terms have different ones.
func TestOneSided(t *testing.T) {
	for _, text := range []string{"max(z,0)+max(0,z)", "abs(z)-max(0,z)", "min(z,0)*3+max(0,z)", "abs(z-1)+max(1,z)"} {
		e := parsed(t, text, nil)
		k := e.Info().Kinks[0]
		left, at, right := values(t, e, k-1e-3)[1], values(t, e, k)[1], values(t, e, k+1e-3)[1]
		if at != left && at != right {
			t.Errorf("%s: g′ at the kink %v is %v, left %v, right %v", text, k, at, left, right)
		}
	}
}

// known are the built-ins and the functions of the example plugins, with their expressions.
var known = []struct {
	text   string
	params sdk.Params
	act    sdk.Activation
}{
	{"max(z, 0)", nil, member(relu.Family)},
	{"where(z < 0, 0, z)", nil, member(relu.Family)},
	{"(z + abs(z))/2", nil, member(relu.Family)},
	{"max(z, slope*z)", sdk.Params{"slope": 0.01}, member(leakyrelu.Family)},
	{"where(z >= 0, z, slope*z)", sdk.Params{"slope": 0.01}, member(leakyrelu.Family)},
	{"1/(1 + exp(-z))", nil, member(sigmoid.Family)},
	{"sigmoid(z)", nil, member(sigmoid.Family)},
	{"exp(z)/(1 + exp(z))", nil, member(sigmoid.Family)},
	{"tanh(z)", nil, member(tanh.Family)},
	{"z", nil, member(identity.Family)},
	// examples/plugins/moe-plugin-smoothrelu and moe-plugin-swish.
	{"log(1 + exp(beta*z))/beta", sdk.Params{"beta": 2}, softplusOf(2)},
	{"softplus(beta*z)/beta", sdk.Params{"beta": 0.7}, softplusOf(0.7)},
	{"max(z, 0) + log1p(exp(-abs(beta*z)))/beta", sdk.Params{"beta": 2}, softplusOf(2)},
	{"z/(1 + exp(-beta*z))", sdk.Params{"beta": 1.5}, swishOf(1.5)},
}

func softplusOf(beta float64) sdk.Activation {
	return sdk.Func{
		Name: "softplus",
		G:    func(z float64) float64 { return max(z, 0) + math.Log1p(math.Exp(-math.Abs(beta*z)))/beta },
		DG: func(z float64) float64 {
			e := math.Exp(-math.Abs(beta * z))
			if z >= 0 {
				return 1 / (1 + e)
			}
			return e / (1 + e)
		},
	}
}

func swishOf(beta float64) sdk.Activation {
	s := func(z float64) float64 {
		e := math.Exp(-math.Abs(z))
		if z >= 0 {
			return 1 / (1 + e)
		}
		return e / (1 + e)
	}
	return sdk.Func{
		Name: "swish",
		G:    func(z float64) float64 { return z * s(beta*z) },
		DG:   func(z float64) float64 { v := s(beta * z); return v + beta*z*v*s(-beta*z) },
	}
}

// TestKnown: g and g′ are those of the built-ins and of the example plugins to 4 ulp or
// 1e−15, and what the solver makes of them to 1e−12.
func TestKnown(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var z []float64
	for range 4000 {
		z = append(z, 3*rng.NormFloat64(), 40*rng.NormFloat64())
	}
	z = append(z, 0, 1, -1, 30, -30, 700, -700, 1e6, -1e6)
	for _, c := range known {
		e := parsed(t, c.text, c.params)
		if err := e.Finite(); err != nil {
			t.Error(err)
		}
		got, want := make([]float64, len(z)), make([]float64, len(z))
		compare := func(what string, f, g func(context.Context, []float64, []float64) error) {
			if err := errors.Join(f(t.Context(), got, z), g(t.Context(), want, z)); err != nil {
				t.Fatal(err)
			}
			for i, w := range want {
				ulp := math.Nextafter(math.Abs(w), math.Inf(1)) - math.Abs(w)
				if math.Abs(got[i]-w) > max(4*ulp, 1e-15) {
					t.Errorf("%s: %s(%v) = %v, want %v", c.text, what, z[i], got[i], w)
					return
				}
			}
		}
		compare("g", e.Eval, c.act.Eval)
		compare("g′", e.Deriv, c.act.Deriv)
		sameTransforms(t, c.text, e, c.act)
	}
}

func sameTransforms(t *testing.T, text string, e, act sdk.Activation) {
	t.Helper()
	a, err := solver.Validate(t.Context(), e, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	b, err := solver.Validate(t.Context(), act, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	x, y := a.Transform, b.Transform
	for i, v := range []float64{x.Alpha, x.Beta, x.Gamma, x.Delta, x.C4, x.C2} {
		w := []float64{y.Alpha, y.Beta, y.Gamma, y.Delta, y.C4, y.C2}[i]
		if !(math.Abs(v-w) <= 1e-12*max(1, math.Abs(w))) && !(math.IsNaN(v) && math.IsNaN(w)) {
			t.Errorf("%s: transform %d is %.17g, want %.17g (%.2g)", text, i, v, w, v-w)
		}
	}
	if a.Verdict.Valid != b.Verdict.Valid {
		t.Errorf("%s: valid %v, want %v", text, a.Verdict.Valid, b.Verdict.Valid)
	}
}

// TestConformance: the kit of plugins, but for names, which are texts.
func TestConformance(t *testing.T) {
	for _, text := range []string{"z*tanh(log1p(exp(z)))", "max(z, 0)", "where(z < 0, expm1(z), z)", "min(max(z, -1), 1)*Phi(z)", "abs(z^2 - 2) + atan(3*z)", "3"} {
		for _, f := range conform.Failed(conform.Activation(t.Context(), parsed(t, text, nil))) {
			if f.Check != "info" {
				t.Errorf("%s: %s: %v", text, f.Check, f.Err)
			}
		}
	}
}

// TestSecond: g″ is the derivative of g′, by differences of 2⁻²⁰ whose error is 1e−12·g⁗ and
// 1e−10 of rounding.
func TestSecond(t *testing.T) {
	const h = 0x1p-20
	for _, text := range []string{"z*tanh(log1p(exp(z)))", "z*Phi(z)", "exp(-z^2/2)*atan(z)", "log(1+z^4)", "sigmoid(2*z)^3", "where(z<0, z^3, sinh(z))"} {
		e := parsed(t, text, nil)
		for _, z := range []float64{-2.3, -0.4, 0.7, 1.9} {
			want := (values(t, e, z+h)[1] - values(t, e, z-h)[1]) / (2 * h)
			if got := values(t, e, z)[2]; math.Abs(got-want) > 1e-8*max(1, math.Abs(want)) {
				t.Errorf("%s at %v: g″ = %v, differences of g′ give %v", text, z, got, want)
			}
		}
	}
}

// TestNoAllocation: values cost no memory once a machine is there.
func TestNoAllocation(t *testing.T) {
	e := parsed(t, "z*tanh(log1p(exp(z))) + where(z < 1, atan(z), 2)*Phi(z)", nil)
	z := make([]float64, 10*block+3)
	ctx := t.Context()
	if n := testing.AllocsPerRun(20, func() { _ = e.Eval(ctx, z, z); _ = e.Deriv(ctx, z, z) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLarge: texts as large as they may be, with as many kinks as they can have, take less than
// a second each, on a busy machine ten.
func TestLarge(t *testing.T) {
	testslow.Mark(t)
	bends, powers, scales := "z", "z", "z"
	for i := range 45 {
		bends = fmt.Sprintf("abs(%s-%d)", bends, i%9)
		powers = fmt.Sprintf("abs(%s^2-3)", powers)
		scales = fmt.Sprintf("abs(1e99*%s-1)", scales)
	}
	for name, text := range map[string]string{"bends": bends, "powers": powers, "scales": scales, "sums": strings.Repeat("abs(exp(z)-3)+", 50) + "z", "halves": strings.Repeat("abs(z*z-", 45) + "z" + strings.Repeat(")", 45)} {
		began := time.Now()
		e := parsed(t, text, nil)
		_ = e.Finite()
		_ = e.Notes()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: %v", name, took)
		} else {
			t.Logf("%s: %v, %d kinks", name, took, len(e.kinks.at))
		}
	}
}

// FuzzParse: a text is an activation whose canonical text is the same one, or an error of one
// line; nothing panics, and nothing takes long.
func FuzzParse(f *testing.F) {
	for _, c := range known {
		f.Add(c.text)
	}
	for _, s := range []string{"where(not z<0 or z==1 and z>=2, -z^-2, 1e-5)", "((((z))))", "z^z^z^z", "max(max(max(z,1),2),-z)", "1/(1+exp(-(1/(1+exp(-z)))))", "min(", "cbrt(erfc(Phi(sinh(cosh(expm1(log1p(z)))))))"} {
		f.Add(s)
	}
	params := sdk.Params{"beta": 0.3, "slope": -2}
	f.Fuzz(func(t *testing.T, text string) {
		act, err := Parse(text, used(params, text))
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		e := act.(*Expression)
		again, err := Parse(e.Info().Name, e.params)
		if err != nil {
			t.Fatalf("%q: its text %q: %v", text, e.text, err)
		}
		if o := again.(*Expression); o.text != e.text || !slices.Equal(o.kinks.at, e.kinks.at) {
			t.Errorf("%q: %q read again is %q", text, e.text, o.text)
		}
		_ = e.Finite()
		_ = e.Notes()
		values(t, e, 0.7)
	})
}

func BenchmarkValues(b *testing.B) {
	const n = 768
	rng := rand.New(rand.NewPCG(1, 1))
	z, dst := make([]float64, n), make([]float64, n)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	run := func(name string, fn func(context.Context, []float64, []float64) error) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := fn(b.Context(), dst, z); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/value")
		})
	}
	for _, c := range known {
		e := parsed(b, c.text, c.params)
		name := c.act.Info().Name
		run(name+"/g/built-in", c.act.Eval)
		run(fmt.Sprintf("%s/g/%s", name, e.text), e.Eval)
		run(name+"/deriv/built-in", c.act.Deriv)
		run(fmt.Sprintf("%s/deriv/%s", name, e.text), e.Deriv)
	}
}
