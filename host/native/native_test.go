package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/sdk"
)

// uniform returns n points of the range of table: half of them where N(0,1)
// has nearly all its mass, the others between −32 and 32 where they are in it,
// and all numbers next to the edges.
func uniform(rng *rand.Rand, n int, table *native.Table) []float64 {
	lo, hi := table.Range()
	z := make([]float64, n)
	for i := range z {
		half := 6.0
		if i%2 == 1 {
			half = min(32, hi)
		}
		z[i] = half * (2*rng.Float64() - 1)
	}
	for _, e := range table.Edges {
		for _, v := range []float64{math.Nextafter(e, math.Inf(-1)), e, math.Nextafter(e, math.Inf(1))} {
			if v >= lo && v < hi {
				z = append(z, v)
			}
		}
	}
	return z
}

// rootMeanSquare returns the rms of f(Z) over draws of Z.
func rootMeanSquare(t testing.TB, rng *rand.Rand, f func(testing.TB, model.Activation, []float64) []float64, act model.Activation) float64 {
	z := make([]float64, 20000)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	sum := 0.0
	for _, v := range f(t, act, z) {
		sum += v * v
	}
	return math.Sqrt(sum / float64(len(z)))
}

// TestError compares with the activation at 1e5 points that Build has not seen.
// The bound is the package's promise. The reported error is the largest at some
// 9000 points, and a sample that is ten times as large can hardly find ten times
// the maximum of a bounded smooth function.
func TestError(t *testing.T) {
	for _, act := range slices.Concat(curves, lines) {
		t.Run(act.Name, func(t *testing.T) {
			t.Parallel()
			counted := &spy{Activation: act}
			f := build(t, counted)
			before := counted.calls.Load()
			rng := rand.New(rand.NewPCG(1, 2))
			c := f.Coefficients()
			for _, half := range []struct {
				name   string
				table  *native.Table
				values func(testing.TB, model.Activation, []float64) []float64
			}{{"g", &c.Value, eval}, {"g'", &c.Derivative, deriv}} {
				z := uniform(rng, 100_000, half.table)
				scale := rootMeanSquare(t, rng, half.values, act)
				got, want := half.values(t, f, z), half.values(t, act, z)
				worst, at := 0.0, 0.0
				for i := range z {
					if e := math.Abs(got[i]-want[i]) / max(math.Abs(want[i]), scale); !(e <= worst) && got[i] != want[i] {
						worst, at = e, z[i]
					}
				}
				t.Logf("%s: %d panels, error %.1e, reported %.1e", half.name, len(half.table.Terms), worst, half.table.Error)
				if !(worst <= 1e-12) {
					t.Errorf("%s: error %.2e at z = %v", half.name, worst, at)
				}
				if worst > 10*half.table.Error+4e-16 {
					t.Errorf("%s: error %.2e at z = %v, reported %.2e", half.name, worst, at, half.table.Error)
				}
			}
			if calls := counted.calls.Load(); calls != before {
				t.Errorf("%d calls of the activation for arguments in the range", calls-before)
			}
		})
	}
}

// TestLinesAreExact: straight pieces keep every bit, kinks and far arguments
// included; the staircase finds its jumps itself.
func TestLinesAreExact(t *testing.T) {
	for _, act := range lines {
		f := build(t, act)
		if c := f.Coefficients(); !c.Value.Exact() || !c.Derivative.Exact() {
			t.Errorf("%s: not exact: %+v", act.Name, c)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		z := append(uniform(rng, 100_000, &f.Coefficients().Value), math.Copysign(0, -1), 5e-324, -5e-324, 1e-20, -1e-20, 1000.7, -1000.7, 1e5, -1e5)
		for i, want := range eval(t, act, z) {
			if got := eval(t, f, z[i:i+1])[0]; got != want {
				t.Fatalf("%s: g(%v) = %v, want %v", act.Name, z[i], got, want)
			}
		}
		for i, want := range deriv(t, act, z) {
			if got := deriv(t, f, z[i:i+1])[0]; got != want {
				t.Fatalf("%s: g'(%v) = %v, want %v", act.Name, z[i], got, want)
			}
		}
	}
}

// TestUndeclaredKinkIsFoundToTheBit: g′ jumps between neighbouring numbers.
func TestUndeclaredKinkIsFoundToTheBit(t *testing.T) {
	for _, k := range []float64{0.3, -1.7, math.Pi, 31.9, 1e-9} {
		act := sdk.Func{Name: "hinge", G: func(z float64) float64 { return max(z-k, 0) }, DG: func(z float64) float64 { return choose(z >= k, 1, 0) }}
		z := []float64{math.Nextafter(k, math.Inf(-1)), k}
		if got := deriv(t, build(t, act), z); got[0] != 0 || got[1] != 1 {
			t.Errorf("kink %v: g' around it is %v, want 0 and 1", k, got)
		}
		curved := sdk.Func{Name: "wave", G: func(z float64) float64 { return math.Sin(z) + max(z-k, 0) },
			DG: func(z float64) float64 { return math.Cos(z) + choose(z >= k, 1, 0) }}
		got, want := deriv(t, build(t, curved), z), deriv(t, curved, z)
		if math.Abs(got[0]-want[0]) > 1e-12 || math.Abs(got[1]-want[1]) > 1e-12 {
			t.Errorf("kink %v on a curve: g' around it is %v, want %v", k, got, want)
		}
	}
}

func TestRough(t *testing.T) {
	for _, act := range rough {
		counted := &spy{Activation: act}
		_, err := native.Build(t.Context(), counted)
		if e := (*native.RoughError)(nil); !errors.As(err, &e) || e.Name != act.Name {
			t.Errorf("%s: %v, want a RoughError", act.Name, err)
		}
		// A call is a round trip of 0.1 ms: giving up must not take longer than
		// plugins take to start.
		if calls := counted.calls.Load(); calls > 1000 {
			t.Errorf("%s: %d calls to find out", act.Name, calls)
		}
	}
}

func TestFewCalls(t *testing.T) {
	for _, act := range slices.Concat(curves, lines) {
		counted := &spy{Activation: act}
		build(t, counted)
		t.Logf("%-16s %4d calls, %6d values", act.Name, counted.calls.Load(), counted.values.Load())
		declared := !strings.Contains("elu-half hinge two-hinges huber staircase sin-30", act.Name)
		if calls := counted.calls.Load(); declared && calls > 80 || calls > 500 {
			t.Errorf("%s: %d calls", act.Name, calls)
		}
	}
}

// beyond answers with the negative of z and remembers what it was asked.
type beyond struct {
	mu    sync.Mutex
	asked [][]float64
}

func (b *beyond) Eval(_ context.Context, dst, z []float64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, slices.Clone(z))
	for i, v := range z {
		dst[i] = -v
	}
	return nil
}

func (b *beyond) Deriv(ctx context.Context, dst, z []float64) error { return b.Eval(ctx, dst, z) }

// TestOutside: arguments out of the range go to the activation, as they are, in
// their order and in one call, and their answers to their places.
func TestOutside(t *testing.T) {
	act := sdk.Func{Name: "exp-sin", G: func(z float64) float64 { return z * math.Sin(z) }, DG: math.Cos}
	for name, method := range map[string]func(model.Activation) func(context.Context, []float64, []float64) error{
		"Eval":  func(a model.Activation) func(context.Context, []float64, []float64) error { return a.Eval },
		"Deriv": func(a model.Activation) func(context.Context, []float64, []float64) error { return a.Deriv },
	} {
		inside := build(t, act)
		other := new(beyond)
		f, err := native.New(inside.Coefficients(), other)
		if err != nil {
			t.Fatal(err)
		}
		z := []float64{1, 32, -3, math.Inf(1), math.Inf(-1), -32, math.Nextafter(32, 0), 1e308, math.NaN(), -1e308, math.Nextafter(-32, -33), 2}
		outside := []int{1, 3, 4, 7, 8, 9, 10}
		for _, sameSlice := range []bool{false, true} {
			other.asked = nil
			arg, dst := slices.Clone(z), make([]float64, len(z))
			if sameSlice {
				dst = arg
			}
			if err := method(f)(t.Context(), dst, arg); err != nil {
				t.Fatal(err)
			}
			if len(other.asked) != 1 || len(other.asked[0]) != len(outside) {
				t.Fatalf("%s: asked for %v, want one call for %d values", name, other.asked, len(outside))
			}
			for j, i := range outside {
				if math.Float64bits(other.asked[0][j]) != math.Float64bits(z[i]) || math.Float64bits(dst[i]) != math.Float64bits(-z[i]) {
					t.Errorf("%s(%v) = %v after asking for %v", name, z[i], dst[i], other.asked[0][j])
				}
			}
			for _, i := range []int{0, 2, 5, 6, 11} {
				one := make([]float64, 1)
				if err := method(inside)(t.Context(), one, z[i:i+1]); err != nil || dst[i] != one[0] {
					t.Errorf("%s(%v) = %v among others, %v alone (%v)", name, z[i], dst[i], one[0], err)
				}
			}
		}
		alone, err := native.New(inside.Coefficients(), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = method(alone)(t.Context(), make([]float64, len(z)), z)
		if out := (*native.OutsideError)(nil); !errors.As(err, &out) || out.Z != 32 || out.Lo != -32 || out.Hi != 32 {
			t.Errorf("%s without an activation: %v, want an OutsideError at 32", name, err)
		}
		if err := method(f)(t.Context(), make([]float64, 2), z); err == nil {
			t.Errorf("%s: places for 2 values of %d, and no error", name, len(z))
		}
	}
}

// TestRealOutside: the same against the function itself, where the answer can
// be compared.
func TestRealOutside(t *testing.T) {
	for _, act := range slices.Concat(curves, lines) {
		f := build(t, act)
		z := []float64{math.Inf(1), math.Inf(-1), math.NaN(), 1e308, -1e308, 1 << 20, -1 << 21}
		got, want := eval(t, f, z), eval(t, act, z)
		for i := range z {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Errorf("%s: g(%v) = %v, want %v", act.Name, z[i], got[i], want[i])
			}
		}
	}
}

// TestFarKinks: a function that leaves its line far outside is not continued
// beyond the place, whether it declares it (a peak that no probe meets) or not (a
// hinge just before the end of a probe).
func TestFarKinks(t *testing.T) {
	peak := sdk.Func{Name: "peak", G: func(z float64) float64 { return z + max(0, 1-math.Abs(z-3000)) }, DG: unit, Kinks: []float64{2999, 3000, 3001}}
	hinge := sdk.Func{Name: "far-hinge", G: func(z float64) float64 { return max(0, -z-511.9) }, DG: func(z float64) float64 { return choose(z < -511.9, -1, 0) }}
	z := []float64{-600, -511.95, -100, 0, 2999.5, 3000, 3000.5, 3100}
	for _, act := range []sdk.Func{peak, hinge} {
		for i, want := range eval(t, act, z) {
			if got := eval(t, build(t, act), z[i:i+1])[0]; math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
				t.Errorf("%s: g(%v) = %v, want %v", act.Name, z[i], got, want)
			}
		}
	}
}

// TestErrorsComeThrough: an activation that fails from its n-th call on fails
// Build with its own error, whatever n; one that fails in use fails Eval.
func TestErrorsComeThrough(t *testing.T) {
	broken := errors.New("plugin softplus: broken")
	softplus := sdk.Func{Name: "softplus", G: softplus, DG: logistic}
	healthy := &spy{Activation: softplus}
	build(t, healthy)
	for n := int64(1); n <= healthy.calls.Load(); n++ {
		failing := &spy{Activation: softplus, fail: func(call int64, _ []float64) error {
			if call >= n {
				return broken
			}
			return nil
		}}
		if _, err := native.Build(t.Context(), failing); err != broken {
			t.Fatalf("failing from call %d of %d on: %v", n, healthy.calls.Load(), err)
		}
	}
	// Failing once is no overflow: the failure is not passed over, wherever a
	// failure of the probes far outside would not be.
	for _, n := range []int64{1, 2, 5, 10} {
		flaky := &spy{Activation: softplus, fail: func(call int64, _ []float64) error {
			if call == n {
				return broken
			}
			return nil
		}}
		if _, err := native.Build(t.Context(), flaky); err != broken {
			t.Errorf("failing in call %d alone: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupted := &spy{Activation: softplus, fail: func(call int64, _ []float64) error {
		if call == 10 {
			cancel()
		}
		return ctx.Err()
	}}
	if _, err := native.Build(ctx, interrupted); err != context.Canceled {
		t.Errorf("interrupted: %v", err)
	}
	f := build(t, healthy)
	healthy.fail = func(int64, []float64) error { return broken }
	if err := f.Eval(t.Context(), make([]float64, 2), []float64{0, 1e9}); err != broken {
		t.Errorf("failing out of the range: %v", err)
	}
	if err := f.Eval(t.Context(), make([]float64, 2), []float64{0, 1}); err != nil {
		t.Errorf("in the range the activation has no say: %v", err)
	}
}

// TestOverflow: an activation that fails for large arguments, as interpreted
// languages do where exp overflows, is approximated as far as it goes.
func TestOverflow(t *testing.T) {
	overflow := errors.New("math range error")
	for _, limit := range []float64{700, 100, 30} {
		act := &spy{Activation: sdk.Func{Name: "softplus", G: softplus, DG: logistic}, fail: func(_ int64, z []float64) error {
			if slices.Max(z) > limit {
				return overflow
			}
			return nil
		}}
		f := build(t, act)
		if _, hi := f.Coefficients().Value.Range(); hi > limit {
			t.Errorf("limit %v: range to %v", limit, hi)
		}
		if err := f.Eval(t.Context(), make([]float64, 1), []float64{limit + 1}); err != overflow {
			t.Errorf("limit %v: beyond it %v", limit, err)
		}
	}
}

// TestDeterminism: a value depends on its z alone, a table on the activation.
func TestDeterminism(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, act := range curves {
		f := build(t, act)
		if !f.Coefficients().Equal(build(t, act).Coefficients()) {
			t.Errorf("%s: built twice, two tables", act.Name)
		}
		z := append(uniform(rng, 2000, &f.Coefficients().Value), 40, 1e7, -1e7)
		want := eval(t, f, z)
		for i, j := range rng.Perm(len(z)) {
			z[i], z[j] = z[j], z[i]
			want[i], want[j] = want[j], want[i]
		}
		got := append(eval(t, f, z[:777]), eval(t, f, z[777:])...)
		for i := range z {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("%s: g(%v) is %v in one batch, %v in another", act.Name, z[i], want[i], got[i])
			}
		}
	}
}

func TestConcurrency(t *testing.T) {
	f := build(t, curves[0])
	z := append(uniform(rand.New(rand.NewPCG(7, 8)), 5000, &f.Coefficients().Value), 1e7)
	want := deriv(t, f, z)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if !slices.Equal(deriv(t, f, z), want) {
					t.Error("another result beside other calls")
				}
			}
		})
	}
	wg.Wait()
}

func TestNoAllocations(t *testing.T) {
	for _, act := range []sdk.Func{lines[2], curves[0]} {
		f := build(t, act)
		z, dst := uniform(rand.New(rand.NewPCG(9, 10)), 768, &f.Coefficients().Value), make([]float64, 768)
		if n := testing.AllocsPerRun(20, func() { f.Eval(t.Context(), dst, z[:768]) }); n > 0 {
			t.Errorf("%s: %v allocations a call", act.Name, n)
		}
	}
}

// TestRoundTrip: written as JSON and read again, the values have the same bits.
func TestRoundTrip(t *testing.T) {
	for _, act := range slices.Concat(curves, lines) {
		f := build(t, act)
		text, err := json.Marshal(f.Coefficients())
		if err != nil {
			t.Fatal(err)
		}
		var c native.Coefficients
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		again, err := native.New(&c, nil)
		if err != nil {
			t.Fatalf("%s: %v", act.Name, err)
		}
		if !c.Equal(f.Coefficients()) || c.Value.Error != f.Coefficients().Value.Error {
			t.Errorf("%s: other coefficients", act.Name)
		}
		z := uniform(rand.New(rand.NewPCG(11, 12)), 2000, &c.Value)
		for i, want := range eval(t, f, z) {
			if got := eval(t, again, z[i:i+1])[0]; math.Float64bits(got) != math.Float64bits(want) {
				t.Fatalf("%s: g(%v) = %v, was %v", act.Name, z[i], got, want)
			}
		}
	}
}

func TestCorrupted(t *testing.T) {
	good := build(t, curves[0]).Coefficients()
	text, err := json.Marshal(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		harm func(*native.Coefficients)
		want string
	}{
		{"nothing", func(c *native.Coefficients) { *c = native.Coefficients{} }, "version is 0"},
		{"version", func(c *native.Coefficients) { c.Version = 2 }, "version is 2"},
		{"no panels", func(c *native.Coefficients) { c.Value = native.Table{} }, "0 panels"},
		{"too many panels", func(c *native.Coefficients) { c.Derivative.Terms = make([]int, 1<<20) }, "derivative: 1048576 panels"},
		{"an edge less", func(c *native.Coefficients) { c.Value.Edges = c.Value.Edges[1:] }, "edges for"},
		{"NaN edge", func(c *native.Coefficients) { c.Value.Edges[3] = math.NaN() }, "edges[3] = NaN"},
		{"infinite edge", func(c *native.Coefficients) { c.Value.Edges[0] = math.Inf(-1) }, "edges[0] = -Inf"},
		{"edge far out", func(c *native.Coefficients) { c.Value.Edges[0] = -1e300 }, "edges[0]"},
		{"edges swapped", func(c *native.Coefficients) {
			c.Value.Edges[3], c.Value.Edges[4] = c.Value.Edges[4], c.Value.Edges[3]
		}, "edges[4]"},
		{"edge twice", func(c *native.Coefficients) { c.Derivative.Edges[3] = c.Derivative.Edges[2] }, "derivative: edges[3]"},
		{"panel without width", func(c *native.Coefficients) {
			c.Value = native.Table{Edges: []float64{0, 5e-324}, Terms: []int{1}, Coefficients: []float64{1}}
		}, "edges[1]"},
		{"no terms", func(c *native.Coefficients) { c.Value.Terms[2] = 0 }, "terms[2] = 0"},
		{"negative terms", func(c *native.Coefficients) { c.Value.Terms[2] = -8 }, "terms[2] = -8"},
		{"too many terms", func(c *native.Coefficients) { c.Value.Terms[2] = 9 }, "terms[2] = 9"},
		{"a term more", func(c *native.Coefficients) { c.Value.Terms[0]++ }, "coefficients, want"},
		{"a coefficient less", func(c *native.Coefficients) { c.Value.Coefficients = c.Value.Coefficients[1:] }, "coefficients, want"},
		{"NaN coefficient", func(c *native.Coefficients) { c.Value.Coefficients[5] = math.NaN() }, "coefficients[5]"},
		{"infinite coefficient", func(c *native.Coefficients) { c.Derivative.Coefficients[5] = math.Inf(1) }, "coefficients[5]"},
		{"negative error", func(c *native.Coefficients) { c.Value.Error = -1 }, "error = -1"},
		{"large error", func(c *native.Coefficients) { c.Value.Error = 1e-3 }, "error = 0.001"},
		{"NaN error", func(c *native.Coefficients) { c.Derivative.Error = math.NaN() }, "error = NaN"},
	} {
		var c native.Coefficients
		if err := json.Unmarshal(text, &c); err != nil {
			t.Fatal(err)
		}
		tc.harm(&c)
		if _, err := native.New(&c, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want an error with %q", tc.name, err, tc.want)
		}
	}
}

// TestValidTablesNeverPanic: whatever passes Validate can be evaluated at any z.
func TestValidTablesNeverPanic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		edge := rapid.OneOf(rapid.Float64Range(-1<<20, 1<<20), rapid.Float64Range(-1, 1), rapid.Just(0.0), rapid.Just(31.999))
		edges := rapid.SliceOfNDistinct(edge, 2, 40, rapid.ID[float64]).Draw(t, "edges")
		slices.Sort(edges)
		table := native.Table{Edges: edges}
		for range len(edges) - 1 {
			m := rapid.IntRange(1, 8).Draw(t, "terms")
			table.Terms = append(table.Terms, m)
			for range m {
				table.Coefficients = append(table.Coefficients, rapid.Float64().Draw(t, "coefficient"))
			}
		}
		f, err := native.New(&native.Coefficients{Version: 1, Value: table, Derivative: table}, new(beyond))
		if err != nil {
			t.Skip(err)
		}
		z := append(rapid.SliceOf(rapid.Float64()).Draw(t, "z"), edges...)
		if err := f.Eval(context.Background(), make([]float64, len(z)), z); err != nil {
			t.Fatal(err)
		}
	})
}

func TestDescribes(t *testing.T) {
	for i, act := range curves {
		c := build(t, act).Coefficients()
		same, err := c.Describes(t.Context(), act)
		if err != nil || !same {
			t.Errorf("%s: not described by its own coefficients (%v)", act.Name, err)
		}
		// A difference of 1e−8, a thousand times what rounding makes.
		other := sdk.Func{Name: act.Name, G: func(z float64) float64 { return act.G(z) * (1 + 1e-8*math.Tanh(z)) }, DG: act.DG}
		if same, err := c.Describes(t.Context(), other); err != nil || same {
			t.Errorf("%s: describes another function too (%v)", act.Name, err)
		}
		if next := curves[(i+1)%len(curves)]; next.Name != "elu-half" {
			if same, err := c.Describes(t.Context(), next); err != nil || same {
				t.Errorf("%s: describes %s too (%v)", act.Name, next.Name, err)
			}
		}
	}
}

func BenchmarkValues(b *testing.B) {
	const n = 768 // k = 3 experts on a block of rows
	rng := rand.New(rand.NewPCG(1, 1))
	z, dst := make([]float64, n), make([]float64, n)
	for i := range z {
		z[i] = rng.NormFloat64()
	}
	for _, act := range []sdk.Func{lines[2], curves[0], curves[1], curves[3], curves[4]} {
		f := build(b, act)
		for _, c := range []struct {
			name   string
			method func(context.Context, []float64, []float64) error
		}{{"Eval/direct", act.Eval}, {"Eval/native", f.Eval}, {"Deriv/direct", act.Deriv}, {"Deriv/native", f.Deriv}} {
			b.Run(act.Name+"/"+c.name, func(b *testing.B) {
				for b.Loop() {
					if err := c.method(b.Context(), dst, z); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
			})
		}
	}
}

func BenchmarkBuild(b *testing.B) {
	for _, act := range []sdk.Func{lines[2], curves[0], curves[3]} {
		b.Run(act.Name, func(b *testing.B) {
			for b.Loop() {
				build(b, act)
			}
		})
	}
}
