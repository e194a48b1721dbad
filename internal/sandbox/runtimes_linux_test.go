//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/testslow"
)

// confined runs the program of args in the whole sandbox, as a plugin runs.
func confined(t *testing.T, args []string, env ...string) (output string, err error) {
	t.Helper()
	return confinedBy(t, Files{Image: 3, Stage: 5, Status: 6, Ruleset: 7}, args, env...)
}

// confinedBy is confined with other files: without a ruleset there is no Landlock.
func confinedBy(t *testing.T, files Files, args []string, env ...string) (output string, err error) {
	t.Helper()
	k := Running()
	if !k.Seccomp || k.Landlock == 0 {
		t.Skipf("this kernel has no sandbox: %+v", k)
	}
	dir, err := os.MkdirTemp("/tmp", "m")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ruleset, err := NewRuleset(k, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ruleset.Close()
	image, err := os.Open(args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	stage, err := Executable("stage", NewStage(k, files, stageMemory))
	if err != nil {
		t.Fatal(err)
	}
	defer stage.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := &exec.Cmd{
		Path: "/proc/self/fd/5", Args: args, Dir: "/",
		Env:         append(env, "PLUGIN_UNIX_SOCKET_DIR="+dir, "PATH="+os.Getenv("PATH"), "HOME="+os.Getenv("HOME")),
		ExtraFiles:  []*os.File{image, read, stage, write, ruleset},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	out, err := cmd.CombinedOutput()
	write.Close()
	if status := ReadStatus(read); status != nil {
		t.Fatal(status)
	}
	return string(out), err
}

const stageMemory = 3 << 30

// TestCalls makes every system call in the sandbox, with arguments that none takes: of the
// kernel those that are in no list, the calls of kernels to come among them, do not exist,
// those that are refused have their answer, and all others exist.
func TestCalls(t *testing.T) {
	const last = 1023
	// untried end or stop a thread, or make another; the kernel has no such operation of futex.
	untried := []uint32{unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_RT_SIGRETURN, unix.SYS_RESTART_SYSCALL, unix.SYS_FUTEX, unix.SYS_SET_TID_ADDRESS}
	untried = append(untried, legacyUntried...)
	if os.Getenv("CALLS") != "" {
		for nr := range uint32(last + 1) {
			if slices.Contains(untried, nr) {
				continue
			}
			const none = ^uintptr(0)
			_, _, errno := unix.RawSyscall6(uintptr(nr), none, none, none, none, none, none)
			fmt.Printf("call %d: %d\n", nr, errno)
		}
		return
	}
	want := map[uint32]unix.Errno{}
	for _, r := range refused {
		for _, nr := range r.calls {
			want[nr] = r.errno
		}
	}
	passes := slices.Clone(allowed)
	for _, c := range checked {
		passes = append(passes, c.number)
	}
	out, err := confined(t, []string{os.Args[0], "-test.run=^TestCalls$"}, "CALLS=all")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	tried := 0
	for line := range strings.Lines(out) {
		var nr uint32
		var got unix.Errno
		if n, _ := fmt.Sscanf(line, "call %d: %d", &nr, &got); n != 2 {
			continue
		}
		tried++
		errno, ok := want[nr]
		switch {
		case slices.Contains(passes, nr) && got == unix.ENOSYS:
			t.Errorf("call %d does not exist", nr)
		case slices.Contains(passes, nr):
		case ok && got != errno:
			t.Errorf("call %d: %v, want %v", nr, got, errno)
		case !ok && got != unix.ENOSYS:
			t.Errorf("call %d is in no list, and answers %v", nr, got)
		}
	}
	if tried != last+1-len(untried) {
		t.Errorf("%d calls were made: %s", tried, out)
	}
}

// TestRuntimes: the calls that the runtimes of C++, Rust and Python make, and those
// that a gRPC server in them does, are answered. Those of Go are in every test that
// starts a plugin.
func TestRuntimes(t *testing.T) {
	testslow.Mark(t)
	source := func(name string) string {
		path, err := filepath.Abs(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, needs string
		build       []string // with the program's path added
		check       []string // what must run for the test to say anything
	}{
		{"C++", "g++", []string{"g++", "-std=c++17", "-pthread", source("server.cc"), "-o"}, []string{"g++", "--version"}},
		{"Rust", "rustc", []string{"rustc", source("server.rs"), "-o"}, []string{"rustc", "--version"}},
		{"Python", "python3 with grpcio and numpy", []string{"install", "-m", "755", source("server.py")}, []string{"/usr/bin/python3", "-c", "import grpc, numpy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := exec.Command(c.check[0], c.check[1:]...).Run(); err != nil {
				t.Skipf("no %s: %v", c.needs, err)
			}
			program := filepath.Join(t.TempDir(), "server")
			if out, err := exec.Command(c.build[0], append(c.build[1:], program)...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			out, err := confined(t, []string{program}, "MAPPED="+source("server.py"))
			if err != nil || !strings.Contains(out, "served") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}
