package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// TestStickyFile: the sticky bit protects what is in a directory; on a file it
// says nothing.
func TestStickyFile(t *testing.T) {
	c := testCatalog(t)
	path := filepath.Join(t.TempDir(), "plugin-relu")
	exe, err := plugintest.Build()
	if err != nil {
		t.Fatal(err)
	}
	plugintest.Copy(t, path, exe)
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
	path := plugintest.Install(t, "relu")
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
	path := plugintest.Install(t, "relu")
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
				plugintest.Within(t, "opening", func() {
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
		path := plugintest.Install(t, "relu")
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

// TestStoreHeld: who holds the store's lock for ever does not hold up the command for ever; who locks what else
// is there, as a plugin can that is not in a sandbox, or on a kernel without filters, does not at all.
func TestStoreHeld(t *testing.T) {
	testslow.Mark(t)
	c := testCatalog(t)
	admit(t, c, plugintest.Install(t, "relu"))
	hold := func(path string, mode int) {
		t.Helper()
		fd, err := unix.Open(path, mode|unix.O_CLOEXEC, 0)
		if err == nil {
			t.Cleanup(func() { unix.Close(fd) })
			err = unix.Flock(fd, unix.LOCK_EX)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hold(c.Dir, unix.O_RDONLY)
	hold(filepath.Join(c.Dir, storeName), unix.O_RDONLY)
	if err := c.record(t.Context(), Record{Path: "/x"}); err != nil {
		t.Errorf("with the directory and the store locked: %v", err)
	}
	hold(filepath.Join(c.Dir, storeLock), unix.O_WRONLY)
	plugintest.Within(t, "recording", func() {
		if err := c.record(t.Context(), Record{Path: "/y"}); err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("error %v, want one about the lock", err)
		}
	})
}

// TestStoreLockUnread: a plugin that runs and locks all that it can open in the directory of the store does not keep
// others from being trusted.
func TestStoreLockUnread(t *testing.T) {
	testslow.Mark(t)
	c := testCatalog(t)
	path := plugintest.Install(t, "locks")
	if err := os.WriteFile(path+".dir", []byte(c.Dir), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Trust(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(c.Dir, storeLock)
	mode := func() fs.FileMode {
		t.Helper()
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	if mode() != 0o200 {
		t.Errorf("the lock's mode is %v: it can be opened to be read", mode())
	}
	// A mode by which a plugin could open it is mended before that is used.
	if err := os.Chmod(name, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.record(t.Context(), Record{Path: "/x"}); err != nil || mode() != 0o200 {
		t.Errorf("the lock's mode is %v (%v)", mode(), err)
	}
	while := func(of Sandbox) (locks string, err error) {
		t.Helper()
		c.Sandbox = of
		p, err := c.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		return p.Family.Version, c.record(t.Context(), Record{Path: "/y"})
	}
	if locks, err := while(SandboxDefault); err != nil || locks != "0 locks" {
		t.Errorf("in the sandbox it has %s, and recording: %v", locks, err)
	}
	if locks, err := while(SandboxOff); err == nil || locks != "3 locks" {
		t.Errorf("without the sandbox it has %s, and recording: %v: the attack is none", locks, err)
	}
}

// TestOutOfFiles opens a good plugin with ever more descriptors left: until there are enough the error says
// that there are none, and blames nobody.
func TestOutOfFiles(t *testing.T) {
	c := testCatalog(t)
	good := plugintest.Install(t, "relu")
	admit(t, c, good)
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: min(200, was.Cur), Max: was.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	for free := range 40 {
		release := exhaust(t, free)
		p, err := c.Open(t.Context(), good, nil)
		release()
		if err == nil {
			p.Close()
			if free < 10 {
				t.Errorf("it opens with %d descriptors: they were not the last", free)
			}
			t.Logf("%d descriptors are enough", free)
			return
		}
		says := err.Error()
		if !strings.Contains(says, "too many open files") {
			t.Errorf("with %d descriptors: %v", free, err)
		}
		for _, blame := range []string{"the fault is the plugin's", "trusts nothing", "allows nothing", "name the executable"} {
			if strings.Contains(says, blame) {
				t.Errorf("with %d descriptors it is said %q: %v", free, blame, err)
			}
		}
	}
	t.Error("40 descriptors are not enough")
}

// exhaust opens files until so many descriptors are free.
func exhaust(t *testing.T, free int) (release func()) {
	t.Helper()
	var fds []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		fds = append(fds, fd)
	}
	if len(fds) < free {
		t.Fatalf("%d descriptors are free, want %d", len(fds), free)
	}
	closeAll := func(list []int) {
		for _, fd := range list {
			unix.Close(fd)
		}
	}
	closeAll(fds[:free])
	return func() { closeAll(fds[free:]) }
}

// TestOtherName: a plugin that calls itself something else than it did when it
// was trusted does not run as what it was.
func TestOtherName(t *testing.T) {
	c := testCatalog(t)
	path := plugintest.Install(t, "relu")
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
	testslow.Mark(t)
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
