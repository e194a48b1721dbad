package pluginproc

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/sandbox"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// testLimits are longer than any plugin takes, on a busy machine too. Where one
// hangs the limit is short; what is asked of it before must be done by then.
var testLimits = Limits{Start: plugintest.Patience, Call: plugintest.Patience, RSS: 4 << 30}

const shortCall = 5 * time.Second

// opened is a session and one activation of its family.
type opened struct {
	*Session
	act sdk.Activation
}

// openFile opens the plugin at path, whoever trusts it.
func openFile(ctx context.Context, path string, limits Limits, params sdk.Params) (*opened, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	img, err := NewImage(f)
	if err != nil {
		return nil, err
	}
	s, err := Open(ctx, img, path, limits)
	if err != nil {
		return nil, err
	}
	family := s.Family()
	family.New = func(p sdk.Params) (sdk.Activation, error) { return s.Activation(ctx, p) }
	act, err := family.Activation(params)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &opened{s, act}, nil
}

// open installs and opens the plugin that plays mode.
func open(t testing.TB, limits Limits, mode string, params sdk.Params) (*opened, string) {
	t.Helper()
	path := plugintest.Install(t, mode)
	p, err := openFile(t.Context(), path, limits, params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, path
}

func normals(n int) []float64 {
	rng := rand.New(rand.NewPCG(3, 4))
	z := make([]float64, n)
	for i := range z {
		z[i] = 3 * rng.NormFloat64()
	}
	return z
}

// TestSameBits compares a million values through a process with those of the
// built-in.
func TestSameBits(t *testing.T) {
	z := normals(1_000_000)
	for _, tc := range []struct {
		family sdk.Family
		params sdk.Params
	}{{relu.Family, nil}, {leakyrelu.Family, sdk.Params{"slope": 0.3}}, {sigmoid.Family, nil}} {
		t.Run(tc.family.Name, func(t *testing.T) {
			remote, path := open(t, testLimits, tc.family.Name, tc.params)
			local, err := tc.family.Activation(tc.params)
			if err != nil {
				t.Fatal(err)
			}
			for name, method := range map[string]func(sdk.Activation, context.Context, []float64, []float64) error{
				"Eval": sdk.Activation.Eval, "Deriv": sdk.Activation.Deriv,
			} {
				got, want := slices.Clone(z), make([]float64, len(z))
				if err := method(remote.act, t.Context(), got, got); err != nil {
					t.Fatal(err)
				}
				if err := method(local, t.Context(), want, z); err != nil {
					t.Fatal(err)
				}
				for i := range z {
					if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
						t.Fatalf("%s at z = %v: %v through the process, %v built in", name, z[i], got[i], want[i])
					}
				}
			}
			remote.Close()
			plugintest.CheckNothingLeft(t, path)
		})
	}
}

// TestFaultsAtStart opens plugins that are broken before their first call.
func TestFaultsAtStart(t *testing.T) {
	const slow = 300 * time.Millisecond // the start time of those that hang
	for mode, tc := range map[string]struct {
		says    string
		timeout time.Duration
	}{
		"silent-exit":      {"is it a plugin", 0},
		"crash-at-start":   {"(exit status 3); it last printed: \"cannot find my licence\"", 0},
		"no-module":        {"the Python that runs the plugin has no module grpc: install it for that Python", 0},
		"panic-at-start":   {"no table", 0},
		"silent-hang":      {"did not answer within", slow},
		"prints-first":     {"loading tables", 0},
		"endless-line":     {"xxx", 0},
		"future-core":      {"before the handshake", 0},
		"future-protocol":  {"version \"2\" of the protocol", 0},
		"tcp":              {"tcp", 0},
		"socket-elsewhere": {"/tmp/elsewhere", 0},
		"no-socket":        {"no socket", 0},
		"no-certificate":   {"mutual TLS", 0},
		"net-rpc":          {"gRPC", 0},
		"bad-certificate":  {"cert", 0},
		"deaf":             {"did not answer within", slow},
		"no-name":          {"name", 0},
		"escape-in-name":   {"name", 0},
		"other-name":       {"other", 0},
		"nan-kink":         {"kinks", 0},
		"no-such-mode":     {"no such mode", 0},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			limits := testLimits
			if tc.timeout != 0 {
				limits.Start = tc.timeout
			}
			path := plugintest.Install(t, mode)
			plugintest.Within(t, "the start", func() {
				_, err := openFile(t.Context(), path, limits, nil)
				checkFault(t, err, path, tc.says)
			})
			plugintest.CheckNothingLeft(t, path)
		})
	}
}

// closing is a handshake's end that calls a function when it comes.
type closing struct {
	io.Writer
	close func()
}

func (c closing) Close() error { c.close(); return nil }

// TestRefusalComesFirst asks, when go-plugin is about to see the end of the
// handshake, why there is none: the answer must be there by then.
func TestRefusalComesFirst(t *testing.T) {
	for name, words := range map[string][]string{"a word too much": {"2|1|unix|/x|grpc|"}, "no word": nil} {
		r := newRunner(nil, "plugin", testLimits)
		close(r.done) // no process: one that was killed
		line := make(chan string, 1)
		for _, w := range words {
			line <- w
		}
		close(line)
		ends := 0
		r.check(line, closing{io.Discard, func() {
			ends++
			select {
			case <-r.lineDone:
			default:
				t.Errorf("%s: the handshake ends before it is said why", name)
			}
		}})
		if ends != 1 || r.refusal() == nil {
			t.Errorf("%s: %d ends, refusal %v", name, ends, r.refusal())
		}
	}
}

// checkFault checks that err is a fault that names the plugin and says what is
// wanted, in one line that is safe to print.
func checkFault(t *testing.T, err error, path, says string) {
	t.Helper()
	var fault *FaultError
	if !errors.As(err, &fault) {
		t.Errorf("error %v, want a FaultError", err)
		return
	}
	msg := err.Error()
	if !strings.Contains(msg, path) || !strings.Contains(msg, says) {
		t.Errorf("error %q, want one that names the plugin and says %q", msg, says)
	}
	if strings.ContainsFunc(msg, func(r rune) bool { return r < ' ' }) || len(msg) > 2000 {
		t.Errorf("error %q is not one line", msg)
	}
	t.Log(msg)
}

// TestFaultsOfCalls calls plugins that fail then.
func TestFaultsOfCalls(t *testing.T) {
	for mode, tc := range map[string]struct {
		z    []float64
		says string
	}{
		"short":              {[]float64{1, 2}, "8 bytes, want 16"},
		"long":               {[]float64{1, 2}, "32 bytes, want 16"},
		"huge":               {[]float64{1, 2}, "too large"},
		"nan":                {[]float64{1, -2}, "row 1: NaN at z = -2"},
		"inf":                {[]float64{1, 2, 3}, "row 2: +Inf at z = 3"},
		"errors":             {[]float64{1}, "out of cheese"},
		"panics":             {[]float64{1}, "boom"},
		"crash":              {[]float64{1}, "it ended: exit status 4, and did so again after 3 restarts"},
		"crash-in-goroutine": {[]float64{1}, "lost a thread"},
		"null-pointer":       {[]float64{1}, "nil pointer"},
		"hang":               {[]float64{1}, "no answer within 5s"},
		"page-tables":        {[]float64{1}, "it used more than 100 MiB of memory and was ended"},
		"grows":              {[]float64{1}, "it used more than 100 MiB of memory and was ended; it leaks, or needs more (plugin_max_rss)"},
		"drifts":             {[]float64{1, 2}, "row 1: 4.000000000000001 at z = 2, but 4.000000000000002 when it was asked again"},
		"position":           {[]float64{1, 2}, "row 1: 5 at z = 2, but 4 when"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			limits := testLimits
			switch mode {
			case "page-tables": // more addresses than the sandbox has
				limits.Sandbox = sandbox.Off
				fallthrough
			case "grows":
				limits.RSS = 100 << 20
			case "hang":
				limits.Call = shortCall
			}
			p, path := open(t, limits, mode, nil)
			dst := make([]float64, len(tc.z))
			err := p.act.Eval(t.Context(), dst, tc.z)
			checkFault(t, err, path, tc.says)
			if !strings.Contains(err.Error(), "Eval") {
				t.Errorf("error %q does not name the call", err)
			}
			if mode == "hang" || mode == "crash" { // what has failed for good is not asked again
				if again := p.act.Eval(t.Context(), dst, tc.z); again != err {
					t.Errorf("the next call: %v, want the very error of the last", again)
				}
			}
			if slices.ContainsFunc(dst, func(v float64) bool { return v != 0 }) {
				t.Errorf("dst was written: %v", dst)
			}
			plugintest.Within(t, "closing", p.Close)
			plugintest.CheckNothingLeft(t, path)
		})
	}
}

func TestBadMoments(t *testing.T) {
	p, path := open(t, testLimits, "moments-nan", nil)
	_, err := p.act.(sdk.MomentsProvider).Moments(t.Context())
	checkFault(t, err, path, "value[24] is NaN")
}

// TestRestart kills plugins in the middle of a fit's worth of batches; the
// values are those of a plugin that lives.
func TestRestart(t *testing.T) {
	z := normals(3 * wire.Chunk)
	z[2*wire.Chunk+5] = 77 // at which crash-once crashes
	want := make([]float64, len(z))
	for i := range z {
		want[i] = 2 * z[i]
	}
	limits := testLimits
	limits.Sandbox = sandbox.Off // they count their deaths in a file
	for _, mode := range []string{"crash-once", "crash-thrice"} {
		t.Run(mode, func(t *testing.T) {
			p, path := open(t, limits, mode, nil)
			got := slices.Clone(z)
			if err := p.act.Eval(t.Context(), got, got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Error("other values after a restart")
			}
			crashes, err := os.ReadFile(path + ".crashes")
			if err != nil || len(crashes) != map[string]int{"crash-once": 1, "crash-thrice": 3}[mode] {
				t.Errorf("it crashed %d times (%v)", len(crashes), err)
			}
			p.Close()
			plugintest.CheckNothingLeft(t, path)
		})
	}
}

// TestRestartedAsAnother: a plugin that calls itself something else when it is started afresh, or is of
// another version, is not gone on with.
func TestRestartedAsAnother(t *testing.T) {
	limits := testLimits
	limits.Sandbox = sandbox.Off // they count their deaths in a file
	for _, mode := range []string{"other-version", "renamed"} {
		t.Run(mode, func(t *testing.T) {
			p, path := open(t, limits, mode, nil)
			var err error
			for range 5 {
				if err = p.act.Eval(t.Context(), []float64{1}, []float64{1}); err != nil {
					break
				}
			}
			checkFault(t, err, path, "started afresh it says that it is something else")
		})
	}
}

// TestBadManners opens plugins that flood, log traps, hold on or have children;
// they work, and nothing of them stays.
func TestBadManners(t *testing.T) {
	modes := []string{"floods-stderr", "floods-stdout", "log-line-trap", "wont-stop", "child", "children", "leaves-group", "stdin"}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, path := open(t, testLimits, mode, nil)
			dst := make([]float64, 3)
			for range 3 {
				if err := p.act.Eval(t.Context(), dst, []float64{0, 1, 2}); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(dst, []float64{0, 2, 4}) {
					t.Fatalf("values %v", dst)
				}
			}
			plugintest.CheckRunning(t, path, map[string]int{"child": 2, "children": 2}[mode])
			plugintest.Within(t, "closing", p.Close)
			plugintest.CheckNothingLeft(t, path)
		})
	}
}

// TestStopped stops a plugin by SIGSTOP: calls and closing end all the same.
func TestStopped(t *testing.T) {
	testslow.Mark(t)
	t.Parallel()
	if most := stopGrace + killGrace + endGrace; most > 3*time.Second {
		t.Errorf("closing takes up to %v, and three seconds are promised", most)
	}
	limits := testLimits
	limits.Call = shortCall
	p, path := open(t, limits, "relu", nil)
	stop(t, pidOf(t, path))
	err := p.act.Eval(t.Context(), make([]float64, 1), make([]float64, 1))
	checkFault(t, err, path, "no answer within")
	p, path = open(t, limits, "relu", nil)
	stop(t, pidOf(t, path))
	plugintest.Within(t, "closing", p.Close)
	plugintest.CheckNothingLeft(t, path)
}

// stop sends SIGSTOP and waits until the process stands.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if !plugintest.Await(func() bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return bytes.Contains(status, []byte("T (stopped)"))
	}) {
		t.Fatal("it does not stop")
	}
}

func pidOf(t *testing.T, path string) int {
	t.Helper()
	for pid, line := range plugintest.Processes() {
		if strings.TrimRight(line, "\x00") == path {
			return pid
		}
	}
	t.Fatalf("no process of %s", path)
	return 0
}

// TestCancel ends calls and starts by their context.
func TestCancel(t *testing.T) {
	limits := testLimits
	limits.Start, limits.Call = time.Hour, time.Hour
	p, path := open(t, limits, "hang", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.act.Eval(ctx, make([]float64, 1), make([]float64, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	p.Close()
	plugintest.CheckNothingLeft(t, path)

	path = plugintest.Install(t, "silent-hang")
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := openFile(ctx, path, limits, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	plugintest.CheckNothingLeft(t, path)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	p, _ := open(t, testLimits, "environment", nil)
	err := p.act.Eval(t.Context(), make([]float64, 1), make([]float64, 1))
	if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("environment %v", err)
	}
}

// TestClosed calls a plugin after Close.
func TestClosed(t *testing.T) {
	p, _ := open(t, testLimits, "relu", nil)
	p.Close()
	p.Close()
	if err := p.act.Eval(t.Context(), make([]float64, 1), make([]float64, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want ErrClosed", err)
	}
}

// TestNoLeak opens and closes plugins, good and bad, and counts goroutines and
// open files.
func TestNoLeak(t *testing.T) {
	testslow.Mark(t)
	good, bad := plugintest.Install(t, "relu"), plugintest.Install(t, "crash-at-start")
	cycle := func() {
		p, err := openFile(t.Context(), good, testLimits, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		if _, err := openFile(t.Context(), bad, testLimits, nil); err == nil {
			t.Fatal("no error")
		}
	}
	count := func() (goroutines, files int) {
		entries, _ := os.ReadDir("/proc/self/fd")
		return runtime.NumGoroutine(), len(entries)
	}
	cycle() // what is made once
	g0, f0 := count()
	for range 10 {
		cycle()
	}
	var g, f int
	if !plugintest.Await(func() bool { // the last ones are ending
		g, f = count()
		return g <= g0+2 && f <= f0+2
	}) {
		t.Errorf("%d goroutines and %d open files became %d and %d", g0, f0, g, f)
	}
}

var killedHosts = flag.Int("killed-hosts", 20, "how many hosts TestHostKilled kills")

// TestHostKilled kills hosts by SIGKILL: their plugins, with all children, are
// gone, also those that refuse the parent-death signal, and the
// next start sweeps their sockets away.
func TestHostKilled(t *testing.T) {
	testslow.Mark(t)
	base := privateRuntime(t)
	family, processes := "children", 2 // the sandbox refuses the third, which would be in a session of its own
	for i, mode := range []string{family, "immortal"} {
		path := plugintest.Install(t, mode)
		for range (*killedHosts + 1 - i) / 2 {
			killHost(t, path, []int{processes, 2}[i])
		}
	}
	sweep(base)
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// killHost starts a host of the plugin at path, kills it when it is ready, and
// checks that what it started, at least so many processes, ends.
func killHost(t *testing.T, path string, processes int) {
	t.Helper()
	host := exec.Command(os.Args[0], "-test.run=^TestHost$")
	host.Env = append(os.Environ(), "PLUGIN_OF_HOST="+path)
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := host.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := io.ReadFull(stdout, line); err != nil || string(line) != "ready" {
		t.Fatalf("the host said %q, %v", line, err)
	}
	plugintest.CheckRunning(t, path, processes)
	host.Process.Kill()
	host.Wait()
	plugintest.CheckNothingLeft(t, path)
}

// TestHost is the host of TestHostKilled and TestSurvivors: it opens a plugin and
// waits for its death, or closes the plugin when it may. It stays while it is
// looked for what is left: until its standard input ends.
func TestHost(t *testing.T) {
	path := os.Getenv("PLUGIN_OF_HOST")
	if path == "" {
		t.Skip("it is run by TestHostKilled")
	}
	limits := testLimits
	limits.lacks.Namespaces = os.Getenv("HOST_LACKS") == "namespaces"
	p, err := openFile(t.Context(), path, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fmt.Print("ready")
	if os.Getenv("HOST_ENDS") == "close" {
		os.Stdin.Read(make([]byte, 1))
		p.Close()
		fmt.Print("closed")
	}
	io.Copy(io.Discard, os.Stdin)
}

// FuzzHandshake: whatever a plugin prints, the only addresses that pass are
// sockets in its own directory.
func FuzzHandshake(f *testing.F) {
	dir := f.TempDir()
	socket := filepath.Join(dir, "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { lis.Close() })
	good := "1|1|unix|" + socket + "|grpc|" + strings.Repeat("A", 60)
	if err := checkHandshake(good, dir); err != nil {
		f.Fatalf("a good handshake: %v", err)
	}
	for _, seed := range []string{good, good + "|true", "", "|", "1|1|tcp|127.0.0.1:1|grpc|x", "1|1|unix|" + dir + "/../s|grpc|x", strings.Repeat("|", 1000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if err := checkHandshake(line, dir); err == nil {
			if fields := strings.Split(strings.TrimSpace(line), "|"); fields[2] != "unix" || fields[3] != socket || fields[5] == "" {
				t.Errorf("%q was accepted", line)
			}
		} else if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' }) {
			t.Errorf("error %q is not printable", err)
		}
	})
}

func BenchmarkEval(b *testing.B) {
	for _, mode := range []string{"built-in", "process"} {
		b.Run(mode, func(b *testing.B) {
			act, err := relu.Family.Activation(nil)
			if err != nil {
				b.Fatal(err)
			}
			if mode == "process" {
				p, _ := open(b, testLimits, "relu", nil)
				act = p.act
			}
			z := normals(1 << 20)
			dst := make([]float64, len(z))
			for b.Loop() {
				if err := act.Eval(b.Context(), dst, z); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(z))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}

func BenchmarkLatency(b *testing.B) {
	p, _ := open(b, testLimits, "relu", nil)
	z := make([]float64, 1)
	for b.Loop() {
		if err := p.act.Eval(b.Context(), z, z); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a plugin of the test binary's size.
func BenchmarkOpen(b *testing.B) {
	path := plugintest.Install(b, "relu")
	for b.Loop() {
		p, err := openFile(b.Context(), path, testLimits, nil)
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// TestParameters: an activation has the parameters that were asked for, whatever becomes of the caller's, also
// where the plugin says nothing of them; one that says another value is refused.
func TestParameters(t *testing.T) {
	params := sdk.Params{"slope": 0.3}
	p, _ := open(t, testLimits, "silent-of-slope", params)
	params["slope"] = 9
	if got := p.act.Info().Params; len(got) != 1 || got["slope"] != 0.3 {
		t.Errorf("parameters %v, want a slope of 0.3", got)
	}
	path := plugintest.Install(t, "other-slope")
	_, err := openFile(t.Context(), path, testLimits, params)
	checkFault(t, err, path, "asked for slope = 9, it answers for 7")
}

// TestTurncoat: a plugin that agrees with itself in every batch and becomes
// another function after a hundred is found at the next check, and at the end
// where there is none; after the first 64 there is a check every 64th.
func TestTurncoat(t *testing.T) {
	late, path := open(t, testLimits, "turns-late", nil)
	for i := range 192 {
		z := []float64{1 + float64(i), 2}
		err := late.act.Eval(t.Context(), z, z)
		if i+1 < 192 && err != nil {
			t.Fatalf("batch %d: %v", i+1, err)
		}
		if i+1 == 192 {
			checkFault(t, err, path, "it has become another function")
		}
	}
	for mode, name := range map[string]string{"turns": "Eval", "turns-derivative": "Deriv"} {
		ask := func(act sdk.Activation, calls int) error {
			for i := range calls {
				z := []float64{1 + float64(i), 2}
				of := act.Eval
				if name == "Deriv" {
					of = act.Deriv
				}
				if err := of(t.Context(), z, z); err != nil {
					return err
				}
			}
			return nil
		}
		recheck := func(act sdk.Activation) error {
			return act.(interface{ Recheck(context.Context) error }).Recheck(t.Context())
		}
		p, path := open(t, testLimits, mode, nil)
		if err := ask(p.act, 60); err != nil {
			t.Fatal(err)
		}
		if err := recheck(p.act); err != nil {
			t.Errorf("%s: before it turns: %v", mode, err)
		}
		if err := ask(p.act, 50); err != nil {
			t.Fatal(err)
		}
		err := recheck(p.act)
		checkFault(t, err, path, "it has become another function")
		if !strings.Contains(err.Error(), name+": ") {
			t.Errorf("%v, want a fault of %s", err, name)
		}
		p, path = open(t, testLimits, mode, nil)
		checkFault(t, ask(p.act, 130), path, "it has become another function")
	}
}
