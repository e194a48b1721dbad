package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// custom is an activation whose every part can be replaced by a wrong one.
type custom struct {
	info  func() sdk.Info
	eval  func(dst, z []float64) error
	deriv func(dst, z []float64) error
}

func (c custom) Info() sdk.Info {
	if c.info != nil {
		return c.info()
	}
	return sdk.Info{Name: "custom", Version: "1"}
}

func (c custom) Eval(_ context.Context, dst, z []float64) error {
	if c.eval != nil {
		return c.eval(dst, z)
	}
	return each(math.Tanh)(dst, z)
}

func (c custom) Deriv(_ context.Context, dst, z []float64) error {
	if c.deriv != nil {
		return c.deriv(dst, z)
	}
	return each(dtanh)(dst, z)
}

func dtanh(z float64) float64 { return 1 / (math.Cosh(z) * math.Cosh(z)) }

func each(f func(float64) float64) func(dst, z []float64) error {
	return func(dst, z []float64) error {
		if err := sdk.CheckLengths("custom", dst, z); err != nil {
			return err
		}
		for i, v := range z {
			dst[i] = f(v)
		}
		return nil
	}
}

type withMoments struct {
	sdk.Activation
	edit func(*sdk.Moments)
}

func (w withMoments) Moments(ctx context.Context) (sdk.Moments, error) {
	m, err := sdk.Quadrature(ctx, w.Activation)
	w.edit(&m)
	return m, err
}

type withSystem struct {
	sdk.Activation
	edit func(*sdk.System)
}

func (w withSystem) System(ctx context.Context, sigma float64) (sdk.System, error) {
	m, err := sdk.Quadrature(ctx, w.Activation)
	s := m.System(sigma)
	w.edit(&s)
	return s, err
}

func rectifier(t *testing.T) sdk.Activation {
	t.Helper()
	act, err := relu.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// TestRight runs the checks on activations that pass all of them: with steep
// sides, jumps, large and small values, and extras of their own.
func TestRight(t *testing.T) {
	right := map[string]sdk.Activation{
		"tanh": custom{},
		"steep": sdk.Func{
			Name: "steep", G: func(z float64) float64 { return math.Tanh(100 * z) },
			DG: func(z float64) float64 { return 100 * dtanh(100*z) },
		},
		"cube": sdk.Func{
			Name: "cube", G: func(z float64) float64 { return z * z * z }, DG: func(z float64) float64 { return 3 * z * z },
		},
		"tiny": sdk.Func{
			Name: "tiny", G: func(z float64) float64 { return 1e-9 * math.Sin(3*z) }, DG: func(z float64) float64 { return 3e-9 * math.Cos(3*z) },
		},
		"offset": sdk.Func{
			Name: "offset", G: func(z float64) float64 { return math.Tanh(z) + 1000 }, DG: dtanh,
		},
		"step": sdk.Func{
			Name: "step", Kinks: []float64{0.3}, DG: func(float64) float64 { return 0 },
			G: func(z float64) float64 {
				if z > 0.3 {
					return 1
				}
				return 0
			},
		},
		"constant": sdk.Func{Name: "constant", G: func(float64) float64 { return 2 }, DG: func(float64) float64 { return 0 }},
		"abs":      sdk.Func{Name: "abs", Kinks: []float64{0}, G: math.Abs, DG: func(z float64) float64 { return math.Copysign(1, z) }},
		"abs from the left": sdk.Func{Name: "abs", Kinks: []float64{0}, G: math.Abs, DG: func(z float64) float64 {
			if z > 0 {
				return 1
			}
			return -1
		}},
		"moments": withMoments{custom{}, func(*sdk.Moments) {}},
		"system":  withSystem{custom{}, func(*sdk.System) {}},
	}
	for name, act := range right {
		t.Run(name, func(t *testing.T) {
			for _, f := range Failed(append(Activation(t.Context(), act), OverWire(t.Context(), act))) {
				t.Errorf("%s: %v", f.Check, f.Err)
			}
		})
	}
}

// TestWrong is the negative control: for each check an activation that is wrong
// in what it checks, and perhaps in more that follows from it.
func TestWrong(t *testing.T) {
	testslow.Mark(t)
	var flip, drift, calls atomic.Int64
	last := points(50 * 51 / 2)[50*51/2-1] // of the batch of 50, after those of 1 to 49
	for _, tc := range []struct {
		name  string
		check string // must fail
		says  string // and say this
		act   sdk.Activation
	}{
		{"upper-case name", "info", "Custom", custom{info: func() sdk.Info { return sdk.Info{Name: "Custom"} }}},
		{"kinks out of order", "info", "ascending", custom{info: func() sdk.Info { return sdk.Info{Name: "custom", Kinks: []float64{1, 0}} }}},
		{"version that changes", "info", "then", custom{info: func() sdk.Info {
			return sdk.Info{Name: "custom", Version: string(rune('a' + flip.Add(1)%2))}
		}}},
		{"NaN", "values", "NaN", custom{eval: each(func(z float64) float64 { return math.Sqrt(z) })}},
		{"drifts", "values", "then", custom{eval: func(dst, z []float64) error {
			d := float64(drift.Add(1))
			return each(func(v float64) float64 { return math.Tanh(v) + 1e-15*d })(dst, z)
		}}},
		{"always fails", "values", "deadline", custom{eval: func(dst, z []float64) error { return context.DeadlineExceeded }}},
		{"panics on an empty batch", "lengths", "panic", custom{eval: func(dst, z []float64) error {
			_ = z[0]
			return each(math.Tanh)(dst, z)
		}}},
		{"accepts unequal lengths", "lengths", "no error", custom{deriv: func(dst, z []float64) error {
			for i := range min(len(dst), len(z)) {
				dst[i] = dtanh(z[i])
			}
			return nil
		}}},
		{"position", "batches", "reversed", custom{eval: func(dst, z []float64) error {
			err := each(math.Tanh)(dst, z)
			for i := range dst {
				dst[i] += float64(i) * 1e-16
			}
			return err
		}}},
		{"batch mean", "batches", "batch of", custom{deriv: func(dst, z []float64) error {
			err := each(dtanh)(dst, z)
			for i := range dst {
				dst[i] *= 1 + 1e-15*float64(len(z)%2)
			}
			return err
		}}},
		{"writes dst before it reads z", "in-place", "in place", custom{eval: func(dst, z []float64) error {
			if err := sdk.CheckLengths("custom", dst, z); err != nil {
				return err
			}
			for i := range dst {
				dst[i] = 0
				dst[i] += math.Tanh(z[i])
			}
			return nil
		}}},
		{"changes z", "values", "changed z", custom{eval: func(dst, z []float64) error {
			err := each(math.Tanh)(dst, z)
			if len(z) > 0 {
				z[0]++
			}
			return err
		}}},
		{"wrong at −1", "values", "z = -1 is", custom{eval: each(func(z float64) float64 { return math.Tanh(z) / math.Abs(z+1) * math.Abs(z+1) })}},
		{"wrong at −0", "values", "z = -0 is", custom{eval: each(func(z float64) float64 {
			if z == 0 && math.Signbit(z) {
				return math.NaN()
			}
			return math.Tanh(z)
		})}},
		{"longer than a message", "batches", "reversed", custom{eval: func(dst, z []float64) error {
			err := each(math.Tanh)(dst, z)
			if len(z) > wire.Chunk {
				dst[0] = 7
			}
			return err
		}}},
		{"the first in place", "in-place", "in place 7", custom{eval: func(dst, z []float64) error {
			err := each(math.Tanh)(dst, z)
			if len(z) > 0 && &dst[0] == &z[0] {
				dst[0] = 7
			}
			return err
		}}},
		{"refuses −Inf", "non-finite", "busy", custom{eval: func(dst, z []float64) error {
			if slices.ContainsFunc(z, func(v float64) bool { return math.IsInf(v, -1) }) {
				return errBusy
			}
			return each(math.Tanh)(dst, z)
		}}},
		{"the first of calls at the same time", "concurrency", "in calls at the same time 7", custom{eval: func(dst, z []float64) error {
			defer calls.Add(-1)
			at := calls.Add(1)
			err := each(math.Tanh)(dst, z)
			runtime.Gosched() // let another call come
			if at > 1 {
				dst[0] = 7
			}
			return err
		}}},
		{"batches of 50", "batches", fmt.Sprintf("z = %v is %v, in a batch of 50 7", last, math.Tanh(last)), custom{eval: func(dst, z []float64) error {
			err := each(math.Tanh)(dst, z)
			if len(z) == 50 {
				dst[49] = 7
			}
			return err
		}}},
		{"sums the batch", "non-finite", "beside NaN", custom{eval: func(dst, z []float64) error {
			var sum float64
			for _, v := range z {
				sum += v
			}
			return each(func(v float64) float64 { return math.Tanh(v) + 0*sum })(dst, z)
		}}},
		{"refuses NaN", "non-finite", "NaN", custom{eval: func(dst, z []float64) error {
			if slices.ContainsFunc(z, math.IsNaN) {
				return context.Canceled
			}
			return each(math.Tanh)(dst, z)
		}}},
		{"table index from z", "non-finite", "panic", custom{eval: each(func(z float64) float64 {
			var table [1]float64
			if math.IsInf(z, 0) {
				return table[int(int64(min(z, 1)))+1]
			}
			return math.Tanh(z)
		})}},
		{"refuses calls at the same time", "concurrency", "busy", custom{eval: func(dst, z []float64) error {
			defer calls.Add(-1)
			if calls.Add(1) > 1 {
				return errBusy
			}
			runtime.Gosched() // let another call come
			return each(math.Tanh)(dst, z)
		}}},
		{"derivative 0.01 % off", "derivative", "differences", custom{deriv: each(func(z float64) float64 { return 1.0001 * dtanh(z) })}},
		{"derivative shifted", "derivative", "differences", custom{deriv: each(func(z float64) float64 { return dtanh(z - 1e-4) })}},
		{"derivative wrong beyond 4", "derivative", "differences", custom{deriv: each(func(z float64) float64 {
			if math.Abs(z) > 4 {
				return 0.01
			}
			return dtanh(z)
		})}},
		{"undeclared kink", "kinks", "not declared", sdk.Func{
			Name: "custom", G: func(z float64) float64 { return max(z, 0.01*z) },
			DG: func(z float64) float64 {
				if z > 0 {
					return 1
				}
				return 0.01
			},
		}},
		{"undeclared kink at an odd place", "kinks", "0.333", sdk.Func{
			Name: "custom", G: func(z float64) float64 { return max(z-1.0/3, 0.9*(z-1.0/3)) },
			DG: func(z float64) float64 {
				if z > 1.0/3 {
					return 1
				}
				return 0.9
			},
		}},
		{"undeclared jump", "kinks", "Eval jumps", sdk.Func{
			Name: "custom", G: func(z float64) float64 { return math.Floor(z) }, DG: func(float64) float64 { return 0 },
		}},
		{"undeclared jump of a small g", "kinks", "Eval jumps", sdk.Func{
			Name: "custom", G: func(z float64) float64 { return 1e-9 * math.Floor(z) }, DG: func(float64) float64 { return 0 },
		}},
		{"two-sided derivative of a small g", "kinks", "neither", sdk.Func{
			Name: "custom", Kinks: []float64{0}, G: func(z float64) float64 { return 1e-3 * math.Abs(z) },
			DG: func(z float64) float64 {
				if z == 0 {
					return 0
				}
				return math.Copysign(1e-3, z)
			},
		}},
		{"two-sided derivative", "kinks", "neither", sdk.Func{
			Name: "custom", Kinks: []float64{0}, G: math.Abs,
			DG: func(z float64) float64 {
				if z == 0 {
					return 0
				}
				return math.Copysign(1, z)
			},
		}},
		{"one moment 1e-6 off", "moments", "E[g^2·Z^2]", withMoments{custom{}, func(m *sdk.Moments) { m.Value[2][2] *= 1 + 1e-6 }}},
		{"moment that should be 0", "moments", "E[g^1·Z^2]", withMoments{custom{}, func(m *sdk.Moments) { m.Value[1][2] = 1e-8 }}},
		{"moments that say nothing", "moments", "uncertain", withMoments{custom{}, func(m *sdk.Moments) { m.Error[1][1] = 1 }}},
		{"NaN moment", "moments", "NaN", withMoments{custom{}, func(m *sdk.Moments) { m.Value[4][4] = math.NaN() }}},
		{"ReLU matrix with σ² in the β column", "system", "β entry of row 1", withSystem{rectifier(t), func(s *sdk.System) {
			for i := range s.Matrix {
				s.Matrix[i][1] += s.Sigma * s.Sigma
			}
		}}},
		{"c2 with the wrong sign", "system", "entry 0 of the row for c2", withSystem{custom{}, func(s *sdk.System) { s.C2[0] += 1e-6 }}},
		{"other sigma", "system", "asked for", withSystem{custom{}, func(s *sdk.System) { s.Sigma = 1 }}},
		{"cubic twin", "system", "entry 2 of the row for c3", withSystem{custom{}, func(s *sdk.System) { s.Cubic.C3[2] = 1e-6 }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			findings := Activation(t.Context(), tc.act)
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == tc.check })
			if i < 0 {
				t.Fatalf("there is no check %q", tc.check)
			}
			if findings[i].OK() {
				t.Fatalf("check %q passed; failed: %v", tc.check, Failed(findings))
			}
			if !strings.Contains(findings[i].Err.Error(), tc.says) {
				t.Errorf("check %q says %q, want a mention of %q", tc.check, findings[i].Err, tc.says)
			}
		})
	}
}

var errBusy = errors.New("busy")

func TestRightFamily(t *testing.T) {
	for _, f := range Failed(Family(t.Context(), leakyrelu.Family, leakyrelu.Family.Activation)) {
		t.Errorf("%s: %v", f.Check, f.Err)
	}
}

func TestWrongFamily(t *testing.T) {
	var global float64
	scaled := func(p sdk.Params) sdk.Func {
		c := p["c"]
		return sdk.Func{
			Name: "scaled", Params: p,
			G: func(z float64) float64 { return c * z }, DG: func(float64) float64 { return c },
		}
	}
	family := func(make func(sdk.Params) (sdk.Activation, error)) sdk.Family {
		return sdk.Family{Name: "scaled", Params: []sdk.Param{{Name: "c", Default: 2, Min: 1, Max: 3}}, New: make}
	}
	right := family(func(p sdk.Params) (sdk.Activation, error) { return scaled(p), nil })
	if failed := Failed(Family(t.Context(), right, right.Activation)); len(failed) > 0 {
		t.Fatalf("the right family fails: %v", failed)
	}
	below := right
	below.Params = []sdk.Param{{Name: "c", Default: -1, Min: -3, Max: 0}}
	above := right
	above.Params = []sdk.Param{{Name: "c", Default: 1, Min: 0, Max: 3}}
	defaultOut := right
	defaultOut.Params = []sdk.Param{{Name: "c", Default: 5, Min: 1, Max: 3}}
	for _, tc := range []struct {
		name, check string
		family      sdk.Family
		make        Maker // family.Activation if it is nil
	}{
		{"default outside its range", "family", defaultOut, nil},
		{"other name", "defaults", family(func(p sdk.Params) (sdk.Activation, error) {
			f := scaled(p)
			f.Name = "other"
			return f, nil
		}), nil},
		{"no activation", "defaults", family(func(sdk.Params) (sdk.Activation, error) { return nil, nil }), nil},
		{"needs all parameters", "defaults", right, right.New},
		{"ignores its parameter", "parameters", family(func(sdk.Params) (sdk.Activation, error) { return scaled(sdk.Params{"c": 2}), nil }), nil},
		{"fails at the end of the range", "parameters", family(func(p sdk.Params) (sdk.Activation, error) {
			if p["c"] == 3 {
				return nil, errBusy
			}
			return scaled(p), nil
		}), nil},
		{"the first value after others", "members", family(func(p sdk.Params) (sdk.Activation, error) {
			global = p["c"]
			f := scaled(p)
			f.G = func(z float64) float64 {
				if z == 0 {
					return global
				}
				return p["c"] * z
			}
			return f, nil
		}), nil},
		{"takes what is above a range from 0", "refusals", above, func(p sdk.Params) (sdk.Activation, error) {
			if p["c"] > 3 && p["c"] < 4 {
				return scaled(p), nil
			}
			return above.Activation(p)
		}},
		{"takes −Inf", "refusals", right, func(p sdk.Params) (sdk.Activation, error) {
			if c, ok := p["c"]; ok && math.IsInf(c, -1) {
				return scaled(p), nil
			}
			return right.Activation(p)
		}},
		{"takes what is above a maximum of 0", "refusals", below, func(p sdk.Params) (sdk.Activation, error) {
			if p["c"] > 0 && p["c"] < 1 {
				return scaled(p), nil
			}
			return below.Activation(p)
		}},
		{"takes any value", "refusals", right, func(p sdk.Params) (sdk.Activation, error) {
			if p["no-such-parameter"] != 0 {
				return nil, errBusy
			}
			return scaled(p), nil
		}},
		{"takes any name", "refusals", right, func(p sdk.Params) (sdk.Activation, error) {
			if c := p["c"]; c != 0 && !(1 <= c && c <= 3) {
				return nil, errBusy
			}
			return scaled(p), nil
		}},
		{"global parameter", "members", family(func(p sdk.Params) (sdk.Activation, error) {
			global = p["c"]
			f := scaled(p)
			f.G = func(z float64) float64 { return global * z }
			return f, nil
		}), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.make == nil {
				tc.make = tc.family.Activation
			}
			findings := Family(t.Context(), tc.family, tc.make)
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == tc.check })
			if findings[i].OK() {
				t.Errorf("check %q passed; failed: %v", tc.check, Failed(findings))
			}
		})
	}
}

// TestFar: a value that is not finite, or cannot be had, is a warning that names its place.
func TestFar(t *testing.T) {
	for _, at := range []float64{-1e6, -1e3, -100, 100, 1e3, 1e6} {
		for name, act := range map[string]sdk.Activation{
			"Deriv at z = %v is +Inf": custom{deriv: each(func(z float64) float64 {
				if z == at {
					return math.Inf(1)
				}
				return dtanh(z)
			})},
			"Eval at z = %v fails: Eval of 1 values: busy": custom{eval: func(dst, z []float64) error {
				if len(z) == 1 && z[0] == at {
					return errBusy
				}
				return each(math.Tanh)(dst, z)
			}},
		} {
			err := checkFar(t.Context(), act)
			if want := fmt.Sprintf(name, at); err == nil || !strings.HasPrefix(err.Error(), want+": rows") {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := checkFar(ctx, custom{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestWrongOverWire: what is not the same a second time is seen.
func TestWrongOverWire(t *testing.T) {
	var times atomic.Int64
	drifts := func(f func(float64) float64) func(dst, z []float64) error {
		return func(dst, z []float64) error {
			by := 1e-9 * float64(times.Add(1))
			return each(func(z float64) float64 { return f(z) + by })(dst, z)
		}
	}
	for _, c := range []struct {
		says string
		act  sdk.Activation
	}{
		{"became", custom{eval: drifts(math.Tanh)}},
		{"became", custom{deriv: drifts(dtanh)}},
		{"became", custom{eval: func(dst, z []float64) error { // what is longer than a message comes in parts
			err := each(math.Tanh)(dst, z)
			if len(z) > wire.Chunk {
				dst[0] = 7
			}
			return err
		}}},
		{"busy", custom{eval: func(dst, z []float64) error { return errBusy }}},
		{"busy", custom{deriv: func(dst, z []float64) error { return errBusy }}},
		{"moments", withMoments{custom{}, func(m *sdk.Moments) { m.Value[1][1] += float64(times.Add(1)) }}},
		{"became", withSystem{custom{}, func(s *sdk.System) { s.C2[0] += float64(times.Add(1)) }}},
	} {
		if f := OverWire(t.Context(), c.act); f.OK() || !strings.Contains(f.Err.Error(), c.says) {
			t.Errorf("%+v, want an error that says %q", f, c.says)
		}
	}
}

// TestMembers: the defaults, and every parameter at the ends of its range, or one either side
// where it has none.
func TestMembers(t *testing.T) {
	f := sdk.Family{Params: []sdk.Param{{Name: "a", Default: 5}, {Name: "b", Default: -1, Min: -3, Max: 0}, {Name: "c", Default: 1, Min: 0, Max: 3}}}
	want := []sdk.Params{
		{"a": 5, "b": -1, "c": 1},
		{"a": 4, "b": -1, "c": 1}, {"a": 6, "b": -1, "c": 1},
		{"a": 5, "b": -3, "c": 1}, {"a": 5, "b": 0, "c": 1},
		{"a": 5, "b": -1, "c": 0}, {"a": 5, "b": -1, "c": 3},
	}
	if got := Members(f); !slices.EqualFunc(got, want, func(a, b sdk.Params) bool { return maps.Equal(a, b) }) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPoints: 0, −0 and ±1, then a sample of N(0, 3²).
func TestPoints(t *testing.T) {
	z := points(10000)
	if len(z) != 10000 || z[0] != 0 || math.Signbit(z[0]) || z[1] != 0 || !math.Signbit(z[1]) || z[2] != 1 || z[3] != -1 {
		t.Errorf("%d points, first %v", len(z), z[:4])
	}
	sum := 0.0
	for _, v := range z {
		sum += v * v
	}
	// Five standard errors of the variance.
	if v := sum / 10000; math.Abs(v/9-1) > 5*math.Sqrt(2)/100 {
		t.Errorf("variance %v, want 9", v)
	}
}

// TestConcurrencyLate: a call that goes wrong after many is seen, and the message has the place
// and what is right there.
func TestConcurrencyLate(t *testing.T) {
	var calls atomic.Int64
	err := checkConcurrency(t.Context(), custom{eval: func(dst, z []float64) error {
		err := each(math.Tanh)(dst, z)
		if calls.Add(1) == 40 {
			dst[1] = 7
		}
		return err
	}})
	if err == nil {
		t.Fatal("nothing seen")
	}
	var z, want, got float64
	if _, err := fmt.Sscanf(err.Error(), "Eval at z = %g is %g, in calls at the same time %g", &z, &want, &got); err != nil || want != math.Tanh(z) || got != 7 {
		t.Errorf("%v: tanh of %v is %v", err, z, math.Tanh(z))
	}
}
