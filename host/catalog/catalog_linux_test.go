package catalog

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

func TestMain(m *testing.M) { plugintest.Main(m) }

// testCatalog is an empty catalog with times that are longer than any plugin takes, on
// a busy machine too.
func testCatalog(t testing.TB) Catalog {
	return Catalog{Dir: t.TempDir(), StartTimeout: plugintest.Patience, CallTimeout: plugintest.Patience}
}

// admit records path without running it, so that a bad plugin can be opened.
func admit(t testing.TB, c Catalog, path string) {
	t.Helper()
	img, err := openImage(path)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if err := c.record(t.Context(), Record{Path: img.Path(), SHA256: img.SHA256()}); err != nil {
		t.Fatal(err)
	}
}

// open installs, admits and opens the plugin that plays mode.
func open(t testing.TB, c Catalog, mode string, params sdk.Params) (*Plugin, string) {
	t.Helper()
	path := plugintest.Install(t, mode)
	admit(t, c, path)
	p, err := c.Open(t.Context(), path, params)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p, path
}

// TestConformance runs the kit on a plugin in its process.
func TestConformance(t *testing.T) {
	testslow.Mark(t)
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
	path := plugintest.Install(t, "leakyrelu")
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
	plugintest.Copy(t, path, old)
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
	path := plugintest.Install(t, "table")
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
	plugintest.CheckNothingLeft(t, path)
}

// TestLock narrows what is trusted to what a project lists.
func TestLock(t *testing.T) {
	c := testCatalog(t)
	c.Lock = filepath.Join(t.TempDir(), "moe.lock")
	first, second := plugintest.Install(t, "relu"), plugintest.Install(t, "leakyrelu")
	plugintest.Copy(t, second+"2", second)
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
	good := plugintest.Install(t, "relu")
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
	path := plugintest.Install(t, "crash-once")
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
	second := plugintest.Install(t, "relu")
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
	path := plugintest.Install(t, "leakyrelu")
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
	plugintest.CheckNothingLeft(t, path)
}

// TestUnsafeStore checks that a store that somebody else could have written, or
// that cannot be read, trusts nothing.
func TestUnsafeStore(t *testing.T) {
	path := plugintest.Install(t, "relu")
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

// TestImpostor: a plugin that calls itself as a built-in does and is another
// function is not trusted and does not run; a true one does, and so do ours.
func TestImpostor(t *testing.T) {
	for mode, says := range map[string]string{
		"relu-that-is-tanh": "is built in and another function: g(-1000) is 0 there and -1 here",
		"relu-to-four":      "g(4.25) is 4.25 there and 4 here",
	} {
		c := testCatalog(t)
		path := plugintest.Install(t, mode)
		var untrusted *UntrustedError
		if _, err := c.Trust(t.Context(), path); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: trusted: %v, want %q", mode, err, says)
		}
		if records, err := c.Trusted(); err != nil || len(records) != 0 {
			t.Errorf("%s: recorded %v, %v", mode, records, err)
		}
		admit(t, c, path)
		if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: opened: %v, want %q", mode, err, says)
		}
		plugintest.CheckNothingLeft(t, path)
	}
	for _, mode := range []string{"relu", "leakyrelu", "sigmoid"} {
		c := testCatalog(t)
		if _, err := c.Trust(t.Context(), plugintest.Install(t, mode)); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

// TestWideFingerprint: a change of g beyond the fingerprint's range is seen, and
// a record from before tails were kept is compared without them.
func TestWideFingerprint(t *testing.T) {
	c := testCatalog(t)
	path := plugintest.Install(t, "cap")
	table := func(rows string) {
		t.Helper()
		if err := os.WriteFile(path+".table", []byte(rows), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	table("12345")
	r, err := c.Trust(t.Context(), path)
	if err != nil || len(r.WideFingerprint) != 32 {
		t.Fatalf("wide fingerprint %q, %v", r.WideFingerprint, err)
	}
	table("123456")
	var untrusted *UntrustedError
	if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "it was run, and its g is not what it was") {
		t.Errorf("error %v, want an UntrustedError about g", err)
	}
	r.WideFingerprint = ""
	if err := c.record(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	p, err := c.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatalf("an old record: %v", err)
	}
	p.Close()
	table("123")
	if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &untrusted) {
		t.Errorf("an old record, and a change that its fingerprint shows: %v", err)
	}
}

// TestTrustIsWhole: a plugin that is killed, or does not answer, in the middle of
// being trusted leaves no record, and that of an earlier file stays.
func TestTrustIsWhole(t *testing.T) {
	c := testCatalog(t)
	c.StartTimeout = 300 * time.Millisecond
	path := plugintest.Install(t, "silent-hang")
	half := make(chan []Record, 1)
	go func() {
		plugintest.Await(func() bool { return len(plugintest.Running(path)) > 0 }) // it hangs
		records, _ := c.Trusted()
		half <- records
	}()
	if _, err := c.Trust(t.Context(), path); err == nil {
		t.Fatal("no error")
	}
	if records := <-half; len(records) != 0 {
		t.Errorf("while it was being trusted: %+v", records)
	}
	if records, _ := c.Trusted(); len(records) != 0 {
		t.Errorf("afterwards: %+v", records)
	}
}

// TestInterpreter: a script runs by the interpreter that it was trusted with, and
// not by one that is looked for.
func TestInterpreter(t *testing.T) {
	c := testCatalog(t)
	dir := t.TempDir()
	interpreter := filepath.Join(dir, "interpreter")
	plugintest.Copy(t, interpreter, "/bin/sh")
	good := plugintest.Install(t, "relu")
	script := filepath.Join(dir, "script")
	write := func(first string) {
		t.Helper()
		if err := os.WriteFile(script, []byte("#!"+first+"\nexec "+good+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var untrusted *UntrustedError
	write("/usr/bin/env sh")
	if _, err := c.Trust(t.Context(), script); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("env: %v", err)
	}
	write(interpreter)
	r, err := c.Trust(t.Context(), script)
	if err != nil || r.Interpreter == nil || r.Interpreter.Path != interpreter || len(r.Interpreter.SHA256) != 64 {
		t.Fatalf("%+v, %v", r.Interpreter, err)
	}
	open := func() error {
		p, err := c.Open(t.Context(), script, nil)
		if err == nil {
			p.Close()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(interpreter)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(interpreter, append(data, 0), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := open(); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "its interpreter has changed since it was trusted, and it was not run") {
		t.Errorf("another interpreter: %v", err)
	}
	r.Interpreter = nil // as recorded before
	if err := c.record(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := open(); err != nil {
		t.Errorf("an old record: %v", err)
	}
}

// TestRefusedUnread: a file that is too large is refused before it is copied, and a
// configuration directory that depends on where one is before it is used.
func TestRefusedUnread(t *testing.T) {
	c := testCatalog(t)
	path := filepath.Join(t.TempDir(), "large")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(3<<30), f.Close()); err != nil {
		t.Fatal(err)
	}
	var fault *FaultError // which tells the size, as nobody can who has stopped to copy at a GiB
	if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), "it has 3072 MiB, and 1024 are allowed") {
		t.Errorf("3 GiB: %v", err)
	}
	t.Setenv("MOE_CONFIG_DIR", "config")
	var untrusted *UntrustedError
	if _, err := (Catalog{}).Trusted(); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "want an absolute path") {
		t.Errorf("a relative directory: %v", err)
	}
}
