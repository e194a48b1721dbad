package catalog

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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// badplugin is the program that plays every mode, built when the first test
// wants it.
var badplugin = sync.OnceValues(func() (path string, err error) {
	if built, err = os.MkdirTemp("", "catalog"); err != nil {
		return "", err
	}
	path = filepath.Join(built, "badplugin")
	out, err := exec.Command("go", "build", "-o", path, "./testdata/badplugin").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return path, err
})

var built string // the directory of badplugin, "" until it is built

func TestMain(m *testing.M) {
	code := m.Run()
	os.RemoveAll(built)
	os.Exit(code)
}

// install puts the plugin that plays mode into a directory of its own and
// returns its path.
func install(t testing.TB, mode string) string {
	t.Helper()
	exe, err := badplugin()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin-"+mode)
	if os.Link(exe, path) != nil {
		copyFile(t, path, exe)
	}
	return path
}

func copyFile(t testing.TB, dst, src string) {
	t.Helper()
	data, err := os.ReadFile(src)
	if err == nil {
		err = os.WriteFile(dst, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// testCatalog is an empty catalog with times short enough for tests and long
// enough for a busy machine.
func testCatalog(t testing.TB) Catalog {
	return Catalog{Dir: t.TempDir(), StartTimeout: 5 * time.Second, CallTimeout: 2 * time.Second}
}

// admit records path without running it, so that a bad plugin can be opened.
func admit(t testing.TB, c Catalog, path string) {
	t.Helper()
	img, err := openImage(path)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if err := c.record(t.Context(), Record{Path: img.path, SHA256: img.sha256}); err != nil {
		t.Fatal(err)
	}
}

// open installs, admits and opens the plugin that plays mode.
func open(t testing.TB, c Catalog, mode string, params sdk.Params) (*Plugin, string) {
	t.Helper()
	path := install(t, mode)
	admit(t, c, path)
	p, err := c.Open(t.Context(), path, params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, path
}

// running returns the command lines of the processes that were started from
// the directory of path.
func running(path string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		data, _ := os.ReadFile(file)
		if bytes.HasPrefix(data, []byte(filepath.Dir(path)+"/")) {
			found = append(found, file+" "+strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	return found
}

// namespaces reports whether plugins get PID namespaces here. Without them a
// child that leaves the plugin's process group is beyond reach.
func namespaces(t *testing.T) bool {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	exe, err := badplugin()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	r := &runner{image: &image{path: "plugin-silent-exit", file: self}}
	cmd, err := r.start(null, null, null, unix.CLONE_NEWPID)
	if err != nil {
		t.Logf("no PID namespaces here: %v", err)
		return false
	}
	cmd.Wait()
	return true
}

// checkNothingLeft gives processes that are ending a second to be gone.
func checkNothingLeft(t *testing.T, path string) {
	t.Helper()
	for range 50 {
		if len(running(path)) == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("left behind: %q", running(path))
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
	c := testCatalog(t)
	z := normals(1_000_000)
	for _, tc := range []struct {
		mode   string
		params sdk.Params
	}{{"relu", nil}, {"leakyrelu", sdk.Params{"slope": 0.3}}, {"sigmoid", nil}} {
		t.Run(tc.mode, func(t *testing.T) {
			remote, path := open(t, c, tc.mode, tc.params)
			local, err := c.Open(t.Context(), tc.mode, tc.params)
			if err != nil {
				t.Fatal(err)
			}
			for name, method := range map[string]func(sdk.Activation, context.Context, []float64, []float64) error{
				"Eval": sdk.Activation.Eval, "Deriv": sdk.Activation.Deriv,
			} {
				got, want := slices.Clone(z), make([]float64, len(z))
				if err := method(remote.Activation, t.Context(), got, got); err != nil {
					t.Fatal(err)
				}
				if err := method(local.Activation, t.Context(), want, z); err != nil {
					t.Fatal(err)
				}
				for i := range z {
					if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
						t.Fatalf("%s at z = %v: %v through the process, %v built in", name, z[i], got[i], want[i])
					}
				}
			}
			remote.Close()
			checkNothingLeft(t, path)
		})
	}
}

// TestConformance runs the kit on a plugin in its process.
func TestConformance(t *testing.T) {
	c := testCatalog(t)
	p, _ := open(t, c, "leakyrelu", nil)
	findings := append(conform.Activation(t.Context(), p.Activation),
		conform.Family(t.Context(), p.Family, p.Family.New)...)
	for _, f := range conform.Failed(findings) {
		t.Errorf("%s: %v", f.Check, f.Err)
	}
	if _, ok := p.Activation.(sdk.MomentsProvider); !ok {
		t.Error("its own moments got lost")
	}
	if _, ok := p.Activation.(sdk.SystemProvider); ok {
		t.Error("it brings a system that it does not have")
	}
}

func TestTrust(t *testing.T) {
	c := testCatalog(t)
	path := install(t, "leakyrelu")
	refused := func(why string) {
		t.Helper()
		_, err := c.Open(t.Context(), path, nil)
		var untrusted *UntrustedError
		if !errors.As(err, &untrusted) || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want an UntrustedError with %q and the path", err, why)
		}
	}
	refused("not trusted")
	r, err := c.Trust(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "leakyrelu" || r.Version != "1" || r.Protocol != 1 || len(r.Parameters) != 1 || r.Parameters[0].Name != "slope" {
		t.Errorf("record %+v", r)
	}
	p, err := c.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p.Source() != path || p.SHA256() != r.SHA256 || len(r.SHA256) != 64 {
		t.Errorf("source %q, sha256 %q", p.Source(), p.SHA256())
	}
	p.Close()

	// A copy elsewhere is not what was trusted.
	old := path
	path = filepath.Join(t.TempDir(), "plugin-leakyrelu")
	copyFile(t, path, old)
	refused("not trusted")

	// A changed file is refused, though it would still run.
	data, err := os.ReadFile(old)
	if err != nil {
		t.Fatal(err)
	}
	path = old
	if err := os.Remove(path); err != nil { // it may be a link to badplugin itself
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	refused("changed")
	if _, err := c.Trust(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	if records, err := c.Trusted(); err != nil || len(records) != 1 || records[0].SHA256 == r.SHA256 {
		t.Errorf("records %+v, %v: want one, with the new checksum", records, err)
	}
}

// TestFingerprint changes what a trusted plugin loads, but not its file.
func TestFingerprint(t *testing.T) {
	c := testCatalog(t)
	path := install(t, "table")
	table := func(rows string) {
		t.Helper()
		if err := os.WriteFile(path+".table", []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table("two")
	r, err := c.Trust(t.Context(), path)
	if err != nil || len(r.Fingerprint) != 32 {
		t.Fatalf("fingerprint %q, %v", r.Fingerprint, err)
	}
	p, err := c.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	table("four")
	var untrusted *UntrustedError
	if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "its g is not what it was") {
		t.Errorf("error %v, want an UntrustedError about g", err)
	}
	checkNothingLeft(t, path)
}

// TestLock narrows what is trusted to what a project lists.
func TestLock(t *testing.T) {
	c := testCatalog(t)
	c.Lock = filepath.Join(t.TempDir(), "moe.lock")
	first, second := install(t, "relu"), install(t, "leakyrelu")
	copyFile(t, second+"2", second)
	if err := os.Rename(second+"2", second); err != nil { // no longer the same file as first
		t.Fatal(err)
	}
	f, err := os.OpenFile(second, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString("other bytes")
	f.Close()
	r, err := c.Trust(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Trust(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	opens := func(path string) error {
		p, err := c.Open(t.Context(), path, nil)
		if err == nil {
			p.Close()
		}
		return err
	}
	if err := errors.Join(opens(first), opens(second)); err != nil {
		t.Fatalf("without a lock file: %v", err)
	}
	if err := c.Pin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := opens(first); err != nil {
		t.Errorf("pinned: %v", err)
	}
	var untrusted *UntrustedError
	if err := opens(second); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "does not list it") {
		t.Errorf("not pinned: %v", err)
	}
	if err := opens("relu"); err != nil {
		t.Errorf("built in: %v", err)
	}

	// A lock file grants nothing: what it lists must be trusted all the same.
	stranger := c
	stranger.Dir = t.TempDir()
	if _, err := stranger.Open(t.Context(), first, nil); !errors.As(err, &untrusted) {
		t.Errorf("pinned by a project, trusted by nobody: %v", err)
	}
	if err := os.WriteFile(c.Lock, []byte("<<<<<<< HEAD"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := opens(first); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), c.Lock) {
		t.Errorf("a lock file that cannot be read: %v", err)
	}
}

// TestBadFiles checks what is refused before anything runs.
func TestBadFiles(t *testing.T) {
	c := testCatalog(t)
	good := install(t, "relu")
	admit(t, c, good)
	dir := t.TempDir()
	at := func(name string, make func(path string) error) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := []byte("#!/bin/sh\ntouch " + dir + "/ran\n")
	var untrusted *UntrustedError
	var fault *FaultError
	for _, tc := range []struct {
		name, path, says string
		want             any
	}{
		{"missing", filepath.Join(dir, "missing"), "no such file", &fault},
		{"directory", dir, "regular", &fault},
		{"not executable", at("data", func(p string) error { return os.WriteFile(p, script, 0o644) }), "executable", &fault},
		{"link out of the directory", at("link", func(p string) error { return os.Symlink(good, p) }), "symbolic link", &untrusted},
		{"group-writable", at("group", func(p string) error {
			return errors.Join(os.WriteFile(p, script, 0o755), os.Chmod(p, 0o775))
		}), "written by its group", &untrusted},
		{"world-writable directory", at("open/plugin", func(p string) error {
			return errors.Join(os.Mkdir(filepath.Dir(p), 0o755), os.Chmod(filepath.Dir(p), 0o777), os.WriteFile(p, script, 0o755))
		}), "written by its group or by everybody", &untrusted},
		{"unknown script", at("script", func(p string) error { return os.WriteFile(p, script, 0o755) }), "not trusted", &untrusted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Open(t.Context(), tc.path, nil)
			if !errors.As(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v, want a %T with %q", err, tc.want, tc.says)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("something untrusted ran")
	}
}

// TestNames checks that names never reach PATH or the working directory.
func TestNames(t *testing.T) {
	c := testCatalog(t)
	path := install(t, "crash-once")
	if _, err := c.Trust(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	p, err := c.Open(t.Context(), "double", nil) // the name that it gives itself
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	t.Chdir(filepath.Dir(path))
	t.Setenv("PATH", filepath.Dir(path))
	var unknown *UnknownError
	if _, err := c.Open(t.Context(), filepath.Base(path), nil); !errors.As(err, &unknown) {
		t.Errorf("error %v, want an UnknownError", err)
	}
	if _, err := c.Open(t.Context(), "reul", nil); !errors.As(err, &unknown) || !strings.Contains(err.Error(), `"relu"?`) || !strings.Contains(err.Error(), "double") {
		t.Errorf("error %v, want a suggestion of relu, and double among the names", err)
	}
	p, err = c.Open(t.Context(), "./"+filepath.Base(path), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	second := install(t, "relu")
	admit(t, c, second)
	if err := c.record(t.Context(), Record{Path: second, SHA256: "0", Name: "double"}); err != nil {
		t.Fatal(err)
	}
	var ambiguous *AmbiguousError
	if _, err := c.Open(t.Context(), "double", nil); !errors.As(err, &ambiguous) {
		t.Errorf("error %v, want an AmbiguousError", err)
	}
}

func TestParams(t *testing.T) {
	c := testCatalog(t)
	path := install(t, "leakyrelu")
	admit(t, c, path)
	for _, name := range []string{"leakyrelu", path} {
		for _, params := range []sdk.Params{{"slop": 1}, {"slope": 2}, {"slope": math.NaN()}} {
			_, err := c.Open(t.Context(), name, params)
			var bad *ParamsError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), "slope") {
				t.Errorf("%s with %v: error %v, want a ParamsError that mentions slope", name, params, err)
			}
		}
	}
	checkNothingLeft(t, path)
}

// TestUnsafeStore checks that a store that somebody else could have written, or
// that cannot be read, trusts nothing.
func TestUnsafeStore(t *testing.T) {
	path := install(t, "relu")
	for name, spoil := range map[string]func(store string) error{
		"writable by everybody": func(s string) error { return os.Chmod(s, 0o666) },
		"not JSON":              func(s string) error { return os.WriteFile(s, []byte("{"), 0o600) },
		"another format":        func(s string) error { return os.WriteFile(s, []byte(`{"format":"v9"}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			c := testCatalog(t)
			admit(t, c, path)
			store, err := c.Store()
			if err != nil {
				t.Fatal(err)
			}
			if err := spoil(store); err != nil {
				t.Fatal(err)
			}
			_, err = c.Open(t.Context(), path, nil)
			var untrusted *UntrustedError
			if !errors.As(err, &untrusted) || !strings.Contains(err.Error(), store) {
				t.Errorf("error %v, want an UntrustedError that names %s", err, store)
			}
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
		"crash-at-start":   {"(exit status 3); its last words: \"cannot find my licence\"", 0},
		"panic-at-start":   {"no table", 0},
		"silent-hang":      {"did not answer within", slow},
		"prints-first":     {"loading tables", 0},
		"endless-line":     {"xxx", slow},
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
			c := testCatalog(t)
			if tc.timeout != 0 {
				c.StartTimeout = tc.timeout
			}
			path := install(t, mode)
			admit(t, c, path)
			begin := time.Now()
			_, err := c.Open(t.Context(), path, nil)
			checkFault(t, err, path, tc.says)
			if d := time.Since(begin); d > 4*time.Second {
				t.Errorf("it took %v", d)
			}
			checkNothingLeft(t, path)
		})
	}
}

// checkFault checks that err is a fault that names the plugin and says what is
// wanted, in one line that is safe to print.
func checkFault(t *testing.T, err error, path, says string) {
	t.Helper()
	var fault *FaultError
	if !errors.As(err, &fault) {
		t.Fatalf("error %v, want a FaultError", err)
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
		"crash":              {[]float64{1}, "exit status 4"},
		"crash-in-goroutine": {[]float64{1}, "lost a thread"},
		"null-pointer":       {[]float64{1}, "nil pointer"},
		"hang":               {[]float64{1}, "no answer within 2s"},
		"grows":              {[]float64{1}, "it used more than 100 MiB of memory and was ended; it leaks, or needs more (--plugin-max-rss)"},
		"drifts":             {[]float64{1, 2}, "row 1: 4.000000000000001 at z = 2, but 4.000000000000002 when it was asked again"},
		"position":           {[]float64{1, 2}, "row 1: 5 at z = 2, but 4 when"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			c := testCatalog(t)
			if mode == "grows" {
				c.MaxRSS, c.CallTimeout = 100<<20, 10*time.Second
			}
			p, path := open(t, c, mode, nil)
			dst := make([]float64, len(tc.z))
			begin := time.Now()
			err := p.Activation.Eval(t.Context(), dst, tc.z)
			checkFault(t, err, path, tc.says)
			if !strings.Contains(err.Error(), "Eval") {
				t.Errorf("error %q does not name the call", err)
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("it took %v", d)
			}
			if mode == "hang" || mode == "crash" { // what has failed for good fails at once
				begin = time.Now()
				again := p.Activation.Eval(t.Context(), dst, tc.z)
				if d := time.Since(begin); again == nil || again.Error() != err.Error() || d > 100*time.Millisecond {
					t.Errorf("the next call: %v after %v", again, d)
				}
			}
			if slices.ContainsFunc(dst, func(v float64) bool { return v != 0 }) {
				t.Errorf("dst was written: %v", dst)
			}
			begin = time.Now()
			p.Close()
			if d := time.Since(begin); d > 4*time.Second {
				t.Errorf("closing took %v", d)
			}
			checkNothingLeft(t, path)
		})
	}
}

func TestBadMoments(t *testing.T) {
	p, path := open(t, testCatalog(t), "moments-nan", nil)
	_, err := p.Activation.(sdk.MomentsProvider).Moments(t.Context())
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
	for _, mode := range []string{"crash-once", "crash-thrice"} {
		t.Run(mode, func(t *testing.T) {
			p, path := open(t, testCatalog(t), mode, nil)
			got := slices.Clone(z)
			if err := p.Activation.Eval(t.Context(), got, got); err != nil {
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
			checkNothingLeft(t, path)
		})
	}
}

// TestBadManners opens plugins that flood, log traps, hold on or have children;
// they work, and nothing of them stays.
func TestBadManners(t *testing.T) {
	modes := []string{"floods-stderr", "floods-stdout", "log-line-trap", "wont-stop", "child", "stdin"}
	if namespaces(t) {
		modes = append(modes, "children")
	}
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			p, path := open(t, testCatalog(t), mode, nil)
			dst := make([]float64, 3)
			for range 3 {
				if err := p.Activation.Eval(t.Context(), dst, []float64{0, 1, 2}); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(dst, []float64{0, 2, 4}) {
					t.Fatalf("values %v", dst)
				}
			}
			if n := len(running(path)); n < map[string]int{"child": 2, "children": 3}[mode] {
				t.Fatalf("%d processes: there are no children to leave behind", n)
			}
			begin := time.Now()
			p.Close()
			if d := time.Since(begin); d > 4*time.Second {
				t.Errorf("closing took %v", d)
			}
			checkNothingLeft(t, path)
		})
	}
}

// TestStopped stops a plugin by SIGSTOP: calls and closing end all the same.
func TestStopped(t *testing.T) {
	c := testCatalog(t)
	c.CallTimeout = 500 * time.Millisecond
	p, path := open(t, c, "relu", nil)
	stop(t, pidOf(t, path))
	err := p.Activation.Eval(t.Context(), make([]float64, 1), make([]float64, 1))
	checkFault(t, err, path, "no answer within")
	p, path = open(t, c, "relu", nil)
	stop(t, pidOf(t, path))
	begin := time.Now()
	p.Close()
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("closing took %v", d)
	}
	checkNothingLeft(t, path)
}

// stop sends SIGSTOP and waits until the process stands.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if bytes.Contains(status, []byte("T (stopped)")) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("it does not stop")
}

func pidOf(t *testing.T, path string) int {
	t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range lines {
		if data, _ := os.ReadFile(file); string(bytes.TrimRight(data, "\x00")) == path {
			pid, _ := strconv.Atoi(strings.Split(file, "/")[2])
			return pid
		}
	}
	t.Fatalf("no process of %s", path)
	return 0
}

// TestCancel ends calls and starts by their context.
func TestCancel(t *testing.T) {
	c := testCatalog(t)
	c.CallTimeout = time.Minute
	p, path := open(t, c, "hang", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := p.Activation.Eval(ctx, make([]float64, 1), make([]float64, 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	p.Close()
	checkNothingLeft(t, path)

	path = install(t, "silent-hang")
	admit(t, c, path)
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.Open(ctx, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want that of the context", err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("it took %v", d)
	}
	checkNothingLeft(t, path)
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "hunter2")
	p, _ := open(t, testCatalog(t), "environment", nil)
	err := p.Activation.Eval(t.Context(), make([]float64, 1), make([]float64, 1))
	if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("environment %v", err)
	}
}

// TestClosed calls a plugin after Close.
func TestClosed(t *testing.T) {
	p, _ := open(t, testCatalog(t), "relu", nil)
	p.Close()
	p.Close()
	if err := p.Activation.Eval(t.Context(), make([]float64, 1), make([]float64, 1)); !errors.Is(err, errClosed) {
		t.Errorf("error %v, want errClosed", err)
	}
}

// TestNoLeak opens and closes plugins, good and bad, and counts goroutines and
// open files.
func TestNoLeak(t *testing.T) {
	c := testCatalog(t)
	good, bad := install(t, "relu"), install(t, "crash-at-start")
	admit(t, c, good)
	admit(t, c, bad)
	cycle := func() {
		p, err := c.Open(t.Context(), good, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		if _, err := c.Open(t.Context(), bad, nil); err == nil {
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
	for range 50 { // the last ones are ending
		if g, f = count(); g <= g0+2 && f <= f0+2 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d goroutines and %d open files became %d and %d", g0, f0, g, f)
}

var killedHosts = flag.Int("killed-hosts", 20, "how many hosts TestHostKilled kills")

// TestHostKilled kills hosts by SIGKILL: their plugins, with all children, are
// gone within a second, also those that refuse the parent-death signal, and the
// next start sweeps their sockets away.
func TestHostKilled(t *testing.T) {
	base := privateRuntime(t)
	family, processes := "child", 2
	if namespaces(t) {
		family, processes = "children", 3
	}
	c := testCatalog(t)
	for i, mode := range []string{family, "immortal"} {
		path := install(t, mode)
		admit(t, c, path)
		for range (*killedHosts + 1 - i) / 2 {
			killHost(t, c, path, []int{processes, 2}[i])
		}
	}
	sweep(base)
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// killHost starts a host of the plugin at path, kills it when it is ready, and
// checks that what it started, at least so many processes, ends.
func killHost(t *testing.T, c Catalog, path string, processes int) {
	t.Helper()
	host := exec.Command(os.Args[0], "-test.run=^TestHost$")
	host.Env = append(os.Environ(), "CATALOG_HOST="+path, "MOE_CONFIG_DIR="+c.Dir)
	stdout, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := io.ReadFull(stdout, line); err != nil || string(line) != "ready" {
		t.Fatalf("the host said %q, %v", line, err)
	}
	if n := len(running(path)); n < processes {
		t.Errorf("%d processes, want the plugin and its children, %d", n, processes)
	}
	host.Process.Kill()
	host.Wait()
	checkNothingLeft(t, path)
}

// TestHost is the host of TestHostKilled: it opens a plugin and waits for its
// death.
func TestHost(t *testing.T) {
	path := os.Getenv("CATALOG_HOST")
	if path == "" {
		t.Skip("it is run by TestHostKilled")
	}
	p, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fmt.Print("ready")
	time.Sleep(time.Minute)
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
			c := testCatalog(b)
			var p *Plugin
			var err error
			if mode == "process" {
				p, _ = open(b, c, "relu", nil)
			} else if p, err = c.Open(b.Context(), "relu", nil); err != nil {
				b.Fatal(err)
			}
			z := normals(1 << 20)
			dst := make([]float64, len(z))
			for b.Loop() {
				if err := p.Activation.Eval(b.Context(), dst, z); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(z))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}

func BenchmarkLatency(b *testing.B) {
	p, _ := open(b, testCatalog(b), "relu", nil)
	z := make([]float64, 1)
	for b.Loop() {
		if err := p.Activation.Eval(b.Context(), z, z); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen opens and closes a plugin of the test binary's size.
func BenchmarkOpen(b *testing.B) {
	c := testCatalog(b)
	path := install(b, "relu")
	admit(b, c, path)
	for b.Loop() {
		p, err := c.Open(b.Context(), path, nil)
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}
