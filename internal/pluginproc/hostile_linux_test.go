package pluginproc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
)

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
			p, _ := open(t, testLimits, mode, nil)
			p.Close()
			plugintest.Within(t, "the next start", func() {
				p, err := openFile(t.Context(), plugintest.Install(t, "relu"), testLimits, nil)
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
	p, _ := open(t, testLimits, "floods-broker", nil)
	z := make([]float64, 1000)
	for range 20 {
		if err := p.act.Eval(t.Context(), z, z); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > before+100 {
		t.Errorf("%d goroutines, %d before the plugin", n, before)
	}
}

// TestRuntimeDirOfOthers: a runtime directory that others can use is not used,
// and the error says what to do.
func TestRuntimeDirOfOthers(t *testing.T) {
	base := privateRuntime(t)
	if err := errors.Join(os.Mkdir(base, 0o755), os.Chmod(base, 0o755)); err != nil {
		t.Fatal(err)
	}
	path := plugintest.Install(t, "relu")
	_, err := openFile(t.Context(), path, testLimits, nil)
	checkFault(t, err, path, "XDG_RUNTIME_DIR")
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
	p, _ := open(t, testLimits, "relu", nil)
	if err := p.act.Eval(t.Context(), make([]float64, 1), make([]float64, 1)); err != nil {
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
