package catalog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/sdk"
)

// within fails the test where fn takes longer than limit.
func within(t *testing.T, limit time.Duration, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s takes longer than %v", what, limit)
	}
}

// privateRuntime gives the test a base of runtime directories of its own.
func privateRuntime(t *testing.T) (base string) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "m")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return filepath.Join(dir, "moe")
}

// TestWhatPluginsLeave starts a plugin where another has left things that do not
// belong there: a FIFO, whose opening waits for a writer, and directories
// that cannot be read.
func TestWhatPluginsLeave(t *testing.T) {
	for _, mode := range []string{"leaves-fifo", "litters"} {
		t.Run(mode, func(t *testing.T) {
			base := privateRuntime(t)
			c := testCatalog(t)
			p, _ := open(t, c, mode, nil)
			p.Close()
			within(t, 5*time.Second, "the next start", func() {
				if p, err := c.Open(t.Context(), install(t, "relu"), nil); err == nil {
					p.Close()
				}
				good := install(t, "relu")
				admit(t, c, good)
				p, err := c.Open(t.Context(), good, nil)
				if err != nil {
					t.Error(err)
					return
				}
				p.Close()
			})
			entries, err := os.ReadDir(base)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.IsDir() {
					t.Errorf("%s was left behind", e.Name())
				}
			}
		})
	}
}

// TestBrokerIsClosed: the streams of go-plugin's broker, for which nothing here
// has a use, are not opened: a plugin could make the host keep a goroutine for
// each of its offers.
func TestBrokerIsClosed(t *testing.T) {
	before := runtime.NumGoroutine()
	p, _ := open(t, testCatalog(t), "floods-broker", nil)
	z := make([]float64, 1000)
	for range 20 {
		if err := p.Activation.Eval(t.Context(), z, z); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+100 {
		t.Errorf("%d goroutines, %d before the plugin", n, before)
	}
}

// TestStickyFile: the sticky bit protects what is in a directory; on a file it
// says nothing.
func TestStickyFile(t *testing.T) {
	c := testCatalog(t)
	path := filepath.Join(t.TempDir(), "plugin-relu")
	exe, err := badplugin()
	if err != nil {
		t.Fatal(err)
	}
	copyFile(t, path, exe)
	admit(t, c, path)
	if err := unix.Chmod(path, unix.S_ISVTX|0o777); err != nil {
		t.Fatal(err)
	}
	var untrusted *UntrustedError
	if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), "written by its group") {
		t.Errorf("error %v, want an UntrustedError about its writers", err)
	}
}

// TestStoreInOpenDirectory: who may write the store's directory may put another
// store there.
func TestStoreInOpenDirectory(t *testing.T) {
	c := testCatalog(t)
	path := install(t, "relu")
	admit(t, c, path)
	if err := os.Chmod(c.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var untrusted *UntrustedError
	if _, err := c.Open(t.Context(), path, nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), c.Dir) {
		t.Errorf("error %v, want an UntrustedError that names the directory", err)
	}
}

// TestTrapsInsteadOfFiles: a store or a lock file that never ends, or never
// begins, allows nothing. A lock file may come with a cloned project.
func TestTrapsInsteadOfFiles(t *testing.T) {
	path := install(t, "relu")
	for name, set := range map[string]func(file string) error{
		"FIFO":       func(file string) error { return unix.Mkfifo(file, 0o600) },
		"endless":    func(file string) error { return os.Symlink("/dev/zero", file) },
		"directory":  func(file string) error { return os.Mkdir(file, 0o700) },
		"very large": func(file string) error { return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)) },
	} {
		for _, which := range []string{"store", "lock"} {
			t.Run(name+" as the "+which, func(t *testing.T) {
				c := testCatalog(t)
				c.Lock = filepath.Join(t.TempDir(), "moe.lock")
				file := c.Lock
				if which == "store" {
					file = filepath.Join(c.Dir, storeName)
				} else {
					admit(t, c, path)
				}
				if err := set(file); err != nil {
					t.Fatal(err)
				}
				within(t, 2*time.Second, "opening", func() {
					_, err := c.Open(t.Context(), path, nil)
					var untrusted *UntrustedError
					if !errors.As(err, &untrusted) || !strings.Contains(err.Error(), file) {
						t.Errorf("error %v, want an UntrustedError that names %s", err, file)
					}
				})
			})
		}
	}
}

// TestTrustTogether trusts many plugins at once: each is in the store then.
func TestTrustTogether(t *testing.T) {
	c := testCatalog(t)
	var group sync.WaitGroup
	var paths []string
	for range 6 {
		path := install(t, "relu")
		paths = append(paths, path)
		group.Go(func() {
			if _, err := c.Trust(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	records, err := c.Trusted()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		i := slices.IndexFunc(records, func(r Record) bool { return r.Path == path })
		if i < 0 || records[i].Name != "relu" {
			t.Errorf("no whole record of %s", path)
		}
	}
}

// TestStoreHeld: somebody who holds the store's lock for ever, such as a plugin
// that is being trusted, does not hold up the command for ever.
func TestStoreHeld(t *testing.T) {
	c := testCatalog(t)
	admit(t, c, install(t, "relu"))
	dir, err := os.Open(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	within(t, 2*lockPatience, "recording", func() {
		if err := c.record(t.Context(), Record{Path: "/x"}); err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("error %v, want one about the lock", err)
		}
	})
}

// TestRuntimeDirOfOthers: a runtime directory that others can use is not used,
// and the error says what to do.
func TestRuntimeDirOfOthers(t *testing.T) {
	base := privateRuntime(t)
	if err := errors.Join(os.Mkdir(base, 0o755), os.Chmod(base, 0o755)); err != nil {
		t.Fatal(err)
	}
	c := testCatalog(t)
	path := install(t, "relu")
	admit(t, c, path)
	_, err := c.Open(t.Context(), path, nil)
	checkFault(t, err, path, "XDG_RUNTIME_DIR")
}

// TestOtherName: a plugin that calls itself something else than it did when it
// was trusted does not run as what it was.
func TestOtherName(t *testing.T) {
	c := testCatalog(t)
	path := install(t, "relu")
	r, err := c.Trust(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	r.Name = "swish"
	if err := c.record(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	var untrusted *UntrustedError
	if _, err := c.Open(t.Context(), "swish", nil); !errors.As(err, &untrusted) || !strings.Contains(err.Error(), `"relu"`) {
		t.Errorf("error %v, want an UntrustedError that says what it is now", err)
	}
}

// TestLies: what a plugin says of its own moments and system is compared with
// its g, unless the caller does that himself.
func TestLies(t *testing.T) {
	for mode, says := range map[string]string{
		"lies-moments":    "Moments: the activation's own moment E[g^1·Z^1] = 0.5000005, quadrature of its g gives 0.5",
		"lies-with-error": "Moments: the activation's own moment E[g^4·Z^4] = 100",
		"lies-system":     "System: the system offered at σ = 0.3 is wrong: the β entry of row 1 is",
		"lies-late":       "System: the system offered at σ = 0.3 is wrong: entry 1 of the row for c4 is",
	} {
		t.Run(mode, func(t *testing.T) {
			c := testCatalog(t)
			ask := func(p *Plugin) error {
				_, errM := sdk.MomentsOf(t.Context(), p.Activation)
				_, errS := sdk.SystemOf(t.Context(), p.Activation, 0.3)
				return errors.Join(errM, errS)
			}
			p, path := open(t, c, mode, nil)
			err := ask(p)
			var lie *LieError
			if !errors.As(err, &lie) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want a LieError with %q and the path", err, says)
			}
			c.Unchecked = true
			p, err = c.Open(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := ask(p); err != nil {
				t.Errorf("unchecked: %v", err)
			}
		})
	}
}

// TestLongTemporaryDirectory: sockets have short paths wherever TMPDIR is.
func TestLongTemporaryDirectory(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	for name, value := range map[string]string{"TMPDIR": long, "XDG_RUNTIME_DIR": long} {
		if err := os.MkdirAll(value, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv(name, value)
	}
	p, _ := open(t, testCatalog(t), "relu", nil)
	if err := p.Activation.Eval(t.Context(), make([]float64, 1), make([]float64, 1)); err != nil {
		t.Error(err)
	}
}

// TestSweepTogether starts plugins from many goroutines, each of which sweeps
// what others have left: none takes another's socket away.
func TestSweepTogether(t *testing.T) {
	base := privateRuntime(t)
	if _, err := runtimeBase(); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				abandoned := filepath.Join(base, fmt.Sprintf("abandoned-%d-%d", i, j))
				if err := os.Mkdir(abandoned, 0o700); err != nil {
					t.Error(err)
				}
				d, err := newRuntimeDir()
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(d.path, "socket"), nil, 0o600); err != nil {
					t.Errorf("swept while in use: %v", err)
				}
				d.remove()
			}
		})
	}
	group.Wait()
	sweep(base)
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
