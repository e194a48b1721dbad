package wasm_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/internal/wasm"
	"github.com/gatedlearning/moe/sdk"
)

// limits are those of tests: calls take a millisecond.
var limits = wasm.Limits{Start: 20 * time.Second, Call: 20 * time.Second, Memory: 64 << 20}

// leaky is max(z, slope·z) with a parameter.
var leaky = guest{
	info:  `{"abi": 1, "name": "leaky", "version": "2", "params": [{"name": "slope", "default": 0.25, "min": 0, "max": 0.5}], "kinks": [0]}`,
	value: slices.Concat(getZ, getZ, param, []byte{0xa2, 0xa5}),                                            // max(z, z·slope)
	slope: slices.Concat(f64s(1), param, getZ, f64s(0), []byte{0x64, 0x1b}),                                // select(1, slope, z > 0)
	start: slices.Concat(i32s(room), f64s(0.25), []byte{0x39, 3, 0}, i32s(0), f64s(7), []byte{0x39, 3, 0}), // and runs
}

// open opens a guest, to be closed with the test.
func open(t *testing.T, g guest, limits wasm.Limits) (sdk.Family, error) {
	t.Helper()
	m, err := wasm.Open(t.Context(), g.module(), "./guest.wasm", limits)
	if err != nil {
		return sdk.Family{}, err
	}
	t.Cleanup(m.Close)
	return m.Family(), nil
}

// TestConforms: a module's members keep every promise of an activation, those of a plugin's process.
func TestConforms(t *testing.T) {
	f, err := open(t, leaky, limits)
	if err != nil {
		t.Fatal(err)
	}
	findings := conform.Family(t.Context(), f, f.Activation)
	for _, params := range conform.Members(f) {
		act, err := f.Activation(params)
		if err != nil {
			t.Fatal(err)
		}
		findings = append(findings, conform.Activation(t.Context(), act)...)
	}
	for _, finding := range findings {
		if !finding.OK() {
			t.Errorf("%s: %v", finding.Check, finding.Err)
		}
	}
	act, err := f.Activation(sdk.Params{"slope": 0.125})
	if err != nil {
		t.Fatal(err)
	}
	if info := act.Info(); info.Name != "leaky" || info.Version != "2" || info.Params["slope"] != 0.125 || !slices.Equal(info.Kinks, []float64{0}) {
		t.Errorf("described as %+v", info)
	}
	z := make([]float64, 150_000) // more than two messages
	for i := range z {
		z[i] = float64(i-70_000) / 8
	}
	g, slope := make([]float64, len(z)), make([]float64, len(z))
	if err := errors.Join(act.Eval(t.Context(), g, z), act.Deriv(t.Context(), slope, z)); err != nil {
		t.Fatal(err)
	}
	for i, z := range z {
		want, wantSlope := max(z, z/8), 0.125
		if z > 0 {
			wantSlope = 1
		}
		if g[i] != want || slope[i] != wantSlope {
			t.Fatalf("g(%v) = %v and %v, want %v and %v", z, g[i], slope[i], want, wantSlope)
		}
	}
}

// TestTogether: members with other parameters, asked at the same time, do not disturb each other.
func TestTogether(t *testing.T) {
	f, err := open(t, leaky, limits)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 24 {
		slope := float64(i%5) / 16
		act, err := f.Activation(sdk.Params{"slope": slope})
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			for range 40 {
				z := []float64{-16, 3}
				if err := act.Eval(t.Context(), z, z); err != nil || z[0] != -16*slope || z[1] != 3 {
					t.Errorf("slope %v: %v, %v", slope, z, err)
				}
			}
		})
	}
	all.Wait()
}

// TestMoments: moments of a module's own arrive in their order.
func TestMoments(t *testing.T) {
	g := guest{info: `{"abi": 1, "name": "own"}`}
	for i := range 50 {
		g.moments = append(g.moments, float64(i))
	}
	f, err := open(t, g, limits)
	if err != nil {
		t.Fatal(err)
	}
	act, err := f.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := act.(sdk.MomentsProvider).Moments(t.Context())
	if err != nil || m.Value[0][0] != 0 || m.Value[1][2] != 7 || m.Value[4][4] != 24 || m.Error[0][0] != 25 || m.Error[3][1] != 41 {
		t.Errorf("%v, %v", m, err)
	}
	if _, ok := act.(sdk.SystemProvider); ok {
		t.Error("it has a system, which the contract does not know")
	}
}

// count adds 1 to the number at address 8 with every call and leaves whether it has passed limit.
func count(limit int64) []byte {
	return slices.Concat(i32s(8), i32s(8), []byte{0x28, 2, 0}, i32s(1), []byte{0x6a, 0x36, 2, 0},
		i32s(8), []byte{0x28, 2, 0}, i32s(limit), []byte{0x4a})
}

// TestHostile: what a module does wrong is one error that names the file, the call and the reason, in
// bounded time and memory, and never the end of the program.
func TestHostile(t *testing.T) {
	testslow.Mark(t)
	const info = `{"abi": 1, "name": "guest"}`
	// What never ends is cut off soon. Whatever else is cut off on a slow machine would fail with another
	// reason: overflowing the stack fills some 100 MB first.
	short, long := limits, limits
	short.Call, short.Start = time.Second, 2*time.Second
	long.Call, long.Start = 2*time.Minute, 2*time.Minute
	grow := slices.Concat([]byte{0x03, 0x40}, i32s(1), []byte{0x40, 0, 0x1a, 0x0c, 0, 0x0b}) // a page at a time, for ever
	cases := map[string]struct {
		guest guest
		want  string
	}{
		"trap":                 {guest{info: info, before: trap}, "Eval: moe_eval: wasm error: unreachable"},
		"loop":                 {guest{info: info, before: loop}, "Eval: no answer within 1s"},
		"growing":              {guest{info: info, before: grow}, "Eval: no answer within 1s"},
		"recursion":            {guest{info: info, before: []byte{0x20, 0, 0x20, 1, 0x20, 2, 0x10, 2, 0x1a}}, "Eval: moe_eval: stack overflow"},
		"NaN":                  {guest{info: info, value: f64s(nan())}, "Eval: row 0: NaN at z = 1"},
		"fails":                {guest{info: info, before: append(i32s(-3), 0x0f)}, "Eval: moe_eval: it returns -3"},
		"no room":              {guest{info: info, buffer: i32s(0)}, "info: moe_buffer returns 0"},
		"crooked room":         {guest{info: info, buffer: i32s(12)}, "info: moe_buffer(1) returns 12: want a multiple of 8"},
		"room outside":         {guest{info: info, buffer: i32s(17<<16 - 8)}, "with 800 bytes behind it in a memory of 1114112"},
		"room far outside":     {guest{info: info, buffer: i32s(-8)}, "returns 4294967288"},
		"description outside":  {guest{info: info, at: 17<<48 | 50}, "info: its description, 50 bytes at 1114112, lies outside of its memory"},
		"description too long": {guest{info: info, at: 1<<32 | 1<<20}, "info: a description of 1048576 bytes"},
		"no description":       {guest{info: "pi"}, "info: its description is not as docs/modules.md has it"},
		"another contract":     {guest{info: `{"abi": 2, "name": "guest"}`}, "info: abi is 2, want 1"},
		"no name":              {guest{info: `{"abi": 1}`}, "info: "},
		"a path for a name":    {guest{info: `{"abi": 1, "name": "../x"}`}, "info: "},
		"kinks in disorder":    {guest{info: `{"abi": 1, "name": "guest", "kinks": [1, 0]}`}, "info: kinks [1 0] are not finite and ascending"},
		"start that traps":     {guest{info: info, start: trap}, "start: "},
		"start without end":    {guest{info: info, start: loop}, "start: no answer within 2s"},
		"imports":              {guest{info: info, imports: [][2]string{{"env", "abort"}}}, "open: it imports env.abort, and there are no imports; build it without"},
		"no WASI function":     {guest{info: info, imports: [][2]string{{"wasi_snapshot_preview1", "open_all"}}}, "start: "},
		"no eval":              {guest{info: info, without: "moe_eval"}, "open: it exports no moe_eval(i32, i32, i32) i32"},
		"no memory":            {guest{info: info, without: "memory"}, `open: it exports no memory as "memory"`},
		"large memory":         {guest{info: info, pages: 60_000}, "open: it is no valid module"},
		"changes":              {guest{info: info, value: slices.Concat(getZ, f64s(1), f64s(0), count(40), []byte{0x1b, 0xa0})}, "when it was asked again"},
		"changes late":         {guest{info: info, before: slices.Concat(count(60), []byte{0x1a}), value: slices.Concat(getZ, f64s(1), f64s(0), i32s(8), []byte{0x28, 2, 0}, i32s(60), []byte{0x4a, 0x1b, 0xa0})}, "it has become another function"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			within := long
			if strings.Contains(c.want, "no answer") {
				within = short
			}
			err := func() error {
				f, err := open(t, c.guest, within)
				if err != nil {
					return err
				}
				act, err := f.Activation(nil)
				if err != nil {
					return err
				}
				for range 300 {
					z := make([]float64, 100)
					for i := range z {
						z[i] = float64(i + 1)
					}
					if err := act.Eval(t.Context(), z, z); err != nil {
						return err
					}
				}
				return act.(interface{ Recheck(context.Context) error }).Recheck(t.Context())
			}()
			fault := (*pluginproc.FaultError)(nil)
			if !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestMalformed: files that are no modules, cut off or too long are refused before anything runs.
func TestMalformed(t *testing.T) {
	whole := leaky.module()
	for name, code := range map[string][]byte{
		"empty": nil, "a program": []byte("\x7fELF"), "text": []byte("(module)"), "head": whole[:8], "cut": whole[:len(whole)-9],
		"long": append(slices.Clone(whole), make([]byte, wasm.MaxSize)...),
	} {
		if _, err := wasm.Open(t.Context(), code, "./guest.wasm", limits); err == nil || !strings.HasPrefix(err.Error(), "plugin ./guest.wasm: open: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCancelled: who cancels a call gets that, and the module is as good as before.
func TestCancelled(t *testing.T) {
	g := guest{info: `{"abi": 1, "name": "guest"}`, before: slices.Concat([]byte{0x20, 2}, i32s(7), []byte{0x46, 0x04, 0x40}, loop, []byte{0x0b})} // n = 7 never ends
	f, err := open(t, g, limits)
	if err != nil {
		t.Fatal(err)
	}
	act, err := f.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if err := act.Eval(ctx, make([]float64, 7), make([]float64, 7)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
	z := []float64{1, 2}
	if err := act.Eval(t.Context(), z, z); err != nil || z[1] != 2 {
		t.Errorf("afterwards: %v, %v", z, err)
	}
}

func nan() float64 { var zero float64; return zero / zero }

func BenchmarkEval(b *testing.B) {
	m, err := wasm.Open(b.Context(), leaky.module(), "./guest.wasm", limits)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	act, err := m.Family().Activation(nil)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{256, 65_536} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			z, g := make([]float64, n), make([]float64, n)
			for b.Loop() {
				if err := act.Eval(b.Context(), g, z); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/value")
		})
	}
}
