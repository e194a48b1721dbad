package pluginproc

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/gatedlearning/moe/internal/sandbox"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/serve"
)

// The test's own binary is the plugin, by what its copy is called.
const (
	good   = "good.exe"   // the sigmoid
	crash  = "crash.exe"  // the same, and it ends where it is asked for g(1234)
	hang   = "hang.exe"   // … and does not answer there
	hoard  = "hoard.exe"  // … and takes memory there
	mute   = "mute.exe"   // it ends before it says a word
	parent = "parent.exe" // … and has a child there
	child  = "child.exe"  // the child: it waits
)

const fatal = 1234

// patience is how long a plugin may take on a slow machine; one that is to be cut off has less.
const patience, short = 5 * time.Minute, 10 * time.Second

func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	switch name {
	case mute:
		os.Exit(3)
	case child:
		select {}
	case good, crash, hang, hoard, parent:
		serve.Activation(sdk.Func{Name: "sigmoid", G: func(z float64) float64 {
			if z == fatal {
				misbehave(name)
			}
			return 1 / (1 + math.Exp(-max(z, -700)))
		}})
		return
	}
	os.Exit(m.Run())
}

var hoarded [][]byte

func misbehave(name string) {
	switch name {
	case crash:
		os.Exit(2)
	case hang:
		select {}
	case hoard:
		for {
			block := make([]byte, 16<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			hoarded = append(hoarded, block)
			time.Sleep(20 * time.Millisecond)
		}
	case parent:
		self, err := os.Executable()
		if err != nil {
			panic(err)
		}
		cmd := &exec.Cmd{Path: self, Args: []string{child}}
		if err := cmd.Start(); err != nil {
			panic(err)
		}
		panic("child " + strconv.Itoa(cmd.Process.Pid) + " runs")
	}
}

// opened opens the plugin of that name.
func opened(t *testing.T, name string, limits Limits) (*Session, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := NewImage(f)
	if err != nil {
		t.Fatal(err)
	}
	img.path = name // what it is called is its first argument
	return Open(t.Context(), img, name, limits)
}

var testLimits = Limits{Start: patience, Call: patience, RSS: 4 << 30}

// ask asks the plugin for one value.
func ask(t *testing.T, s *Session, z float64) (float64, error) {
	t.Helper()
	act, err := s.Activation(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	v := []float64{z}
	err = act.Eval(t.Context(), v, v)
	return v[0], err
}

// TestValues: through a process come the values of the built-in, and what is missing of the sandbox is said.
func TestValues(t *testing.T) {
	s, err := opened(t, good, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	own, err := sigmoid.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []float64{-3, -0.25, 0, 1, 20} {
		want := []float64{z}
		if err := own.Eval(t.Context(), want, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ask(t, s, z); err != nil || math.Abs(got-want[0]) > 1e-15 {
			t.Errorf("g(%v) = %v, %v; want %v", z, got, err, want[0])
		}
	}
	if missing := strings.Join(s.Missing(), "; "); !strings.Contains(missing, "it can write the files that you can, open connections") {
		t.Errorf("missing: %q", missing)
	}
}

// TestFaults: how each plugin ends is said, and the test goes on.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name, says string
		limits     Limits
	}{
		{crash, "and did so again after 3 restarts", testLimits},
		{hang, "no answer within", Limits{Start: patience, Call: short, RSS: 4 << 30}},
		{hoard, "it used more than 512 MiB of memory and was ended", Limits{Start: patience, Call: patience, RSS: 512 << 20}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := opened(t, tc.name, tc.limits)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if v, err := ask(t, s, 0); err != nil || v != 0.5 {
				t.Fatalf("g(0) = %v, %v", v, err)
			}
			_, err = ask(t, s, fatal)
			if fault := (*FaultError)(nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v: want %q", err, tc.says)
			}
		})
	}
}

// TestMute: a program that is no plugin is a fault of its start.
func TestMute(t *testing.T) {
	_, err := opened(t, mute, testLimits)
	if err == nil || !strings.Contains(err.Error(), "without a word of the handshake") || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v", err)
	}
}

// TestStrict: nothing starts where the sandbox must be whole.
func TestStrict(t *testing.T) {
	limits := testLimits
	limits.Sandbox = sandbox.Strict
	if _, err := opened(t, good, limits); err == nil || !strings.Contains(err.Error(), "start: the sandbox is not whole here: Windows has no sandbox") {
		t.Errorf("%v", err)
	}
}

// TestChildrenEnd: what a plugin has started ends with its session.
func TestChildrenEnd(t *testing.T) {
	s, err := opened(t, parent, testLimits)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = ask(t, s, fatal)
	if err == nil {
		t.Fatal("no error")
	}
	_, after, found := strings.Cut(err.Error(), "child ")
	if !found {
		t.Fatalf("%v: no child", err)
	}
	number, _, _ := strings.Cut(after, " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	process, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(pid))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(process)
	if event, err := windows.WaitForSingleObject(process, 0); event != uint32(windows.WAIT_TIMEOUT) {
		t.Fatalf("the child does not run: %v, %v", event, err)
	}
	s.Close()
	if event, err := windows.WaitForSingleObject(process, uint32(patience/time.Millisecond)); event != windows.WAIT_OBJECT_0 {
		t.Errorf("the child lives: %v, %v", event, err)
	}
}

// TestAddresses: only a port of this machine is an address.
func TestAddresses(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:10000": true, "127.0.0.1": false, "0.0.0.0:10000": false, "192.0.2.1:10000": false, "localhost:10000": false,
	} {
		if err := checkAddress("tcp", address, ""); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
	}
	if checkAddress("unix", "127.0.0.1:10000", "") == nil {
		t.Error("a socket passes")
	}
}

// TestCopyStays: nobody can write to the copy, or remove it, while it is used, and its directory is held.
func TestCopyStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plugin.exe")
	if err := os.WriteFile(file, []byte("a program"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	img, err := NewImage(f)
	if err != nil {
		t.Fatal(err)
	}
	defer img.Close()
	if head, err := img.Head(); err != nil || !slices.Equal(head, []byte("a program")) {
		t.Errorf("%q, %v", head, err)
	}
	if f, err := os.OpenFile(img.file.Name(), os.O_WRONLY, 0); err == nil {
		f.Close()
		t.Error("the copy can be written")
	}
	if os.Remove(img.file.Name()) == nil {
		t.Error("the copy can be removed")
	}
	if lock, err := tryLock(img.dir.path); !held(err) {
		lock.Close()
		t.Errorf("the lock: %v", err)
	}
}
