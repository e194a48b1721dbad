//go:build linux && (amd64 || arm64)

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestRunning: what the kernel has, by what it says elsewhere: where a test of the sandbox is
// skipped for the want of it, it is not there.
func TestRunning(t *testing.T) {
	k := Running()
	actions, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if filters := err == nil && strings.Contains(string(actions), "errno"); k.Seccomp != filters {
		t.Errorf("seccomp: %v, but the kernel's actions are %q (%v)", k.Seccomp, actions, err)
	}
	attr := unix.LandlockRulesetAttr{Access_fs: unix.LANDLOCK_ACCESS_FS_EXECUTE}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Access_fs), 0)
	if errno == 0 {
		unix.Close(int(fd))
	}
	if (k.Landlock > 0) != (errno == 0) {
		t.Errorf("Landlock of version %d, but a ruleset of version 1: %v", k.Landlock, errno)
	}
}

// TestLimits: the limits of a process in the sandbox, as it finds them.
func TestLimits(t *testing.T) {
	out, err := confined(t, []string{"/bin/cat", "/proc/self/limits"})
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	space := 2*3 + 4 + float64(runtime.NumCPU())/2 // GiB: twice the memory, what runtimes reserve, and half of one for a processor
	for name, want := range map[string]string{
		"Max core file size": "0", "Max file size": "0", "Max open files": "64", "Max address space": fmt.Sprint(int64(space * (1 << 30))),
	} {
		found := false
		for line := range strings.Lines(out) {
			if rest, ok := strings.CutPrefix(line, name); ok {
				found = true
				if f := strings.Fields(rest); len(f) < 2 || f[0] != want || f[1] != want {
					t.Errorf("%s: %s, want %s, soft and hard", name, strings.TrimSpace(rest), want)
				}
			}
		}
		if !found {
			t.Errorf("no %q in %s", name, out)
		}
	}
	if most := addressSpace(1 << 55); most == unix.RLIM_INFINITY || most < 1<<56 || addressSpace(1<<55+1) != unix.RLIM_INFINITY || addressSpace(1<<62) != unix.RLIM_INFINITY {
		t.Errorf("2⁵⁵ bytes are %d, and more must be no limit", most)
	}
}

// TestRuleset: with a ruleset under any number, 0 included, files are made in the socket's directory alone;
// without one Landlock is not there.
func TestRuleset(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made")
	script := []string{"/bin/sh", "-c", ": > $PLUGIN_UNIX_SOCKET_DIR/made && echo inside; : > " + path + " && echo outside"}
	out, _ := confined(t, script)
	if !strings.Contains(out, "inside") || strings.Contains(out, "outside") || !strings.Contains(out, "ermission denied") {
		t.Errorf("under the ruleset: %s", out)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was made outside of the directory")
	}
	out, _ = confinedBy(t, Files{Image: 3, Stage: 5, Status: 6, Ruleset: -1}, script)
	if !strings.Contains(out, "inside") || !strings.Contains(out, "outside") {
		t.Errorf("without a ruleset: %s", out)
	}
	plain, zero := NewStage(Kernel{}, Files{3, 5, 6, -1}, 1<<30), NewStage(Kernel{}, Files{3, 5, 6, 0}, 1<<30)
	if len(zero) <= len(plain) {
		t.Error("the ruleset under number 0 is not used")
	}
}

// TestGuard: when its standard input ends a guard kills the process by its descriptor, and where that is none
// by the group, all that is in it; until then it does not.
func TestGuard(t *testing.T) {
	for _, named := range []bool{true, false} {
		group := exec.Command("/bin/sh", "-c", "sleep 60 & echo $!; wait")
		group.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		pidfd := -1
		group.SysProcAttr.PidFD = &pidfd
		stdout, err := group.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := group.Start(); err != nil {
			t.Fatal(err)
		}
		var child int
		if _, err := fmt.Fscan(stdout, &child); err != nil {
			t.Fatal(err)
		}
		program, err := Executable("guard", NewGuard(group.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		handle := os.NewFile(uintptr(pidfd), "pidfd")
		target := handle
		if !named {
			if target, err = os.Open("/dev/null"); err != nil {
				t.Fatal(err)
			}
		}
		guard := exec.Command("/proc/self/fd/4")
		guard.ExtraFiles = []*os.File{target, program}
		life, err := guard.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := guard.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond)
		if err := unix.Kill(group.Process.Pid, 0); err != nil {
			t.Errorf("before the end of its input: %v", err)
		}
		life.Close()
		if err := guard.Wait(); err != nil {
			t.Errorf("the guard: %v", err)
		}
		if err := group.Wait(); err == nil || group.ProcessState.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Errorf("the process: %v, want it killed", err)
		}
		gone := false
		for deadline := time.Now().Add(5 * time.Second); !gone && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
			gone = errors.Is(err, os.ErrNotExist) || strings.Contains(string(status), ") Z ")
		}
		if !gone {
			t.Errorf("its child %d lives on", child)
			unix.Kill(child, unix.SIGKILL)
		}
		handle.Close()
		target.Close()
		program.Close()
	}
}

// TestExecutable: a program in memory takes one descriptor, which is closed when another is run.
func TestExecutable(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := open()
	f, err := Executable("some", []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	if n := open(); n != before+1 || err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("%d descriptors, %d before; flags %#x, %v", n, before, flags, err)
	}
	f.Close()
}

// TestBlob: what is put stands at a multiple of eight bytes, as the kernel's structures want it.
func TestBlob(t *testing.T) {
	var b blob
	for i, data := range []string{"a", "12345678", "", "123456789", "b"} {
		at := b.put([]byte(data))
		if at.kind != inData || at.value%8 != 0 || string(b.bytes[at.value:]) != data {
			t.Errorf("%d: %q at %d in %q", i, data, at.value, b.bytes)
		}
	}
	if len(b.bytes) != 33 { // 1 and 8 bytes, filled up to 8 each, 9 filled up to 16, and one
		t.Errorf("%d bytes, want 33", len(b.bytes))
	}
}

// TestStepNames: an error of a step that has no name tells its number.
func TestStepNames(t *testing.T) {
	if a, b := stepName(unix.SYS_SECCOMP), stepName(unix.SYS_CLOSE); a != "seccomp" || b != fmt.Sprintf("system call %d", unix.SYS_CLOSE) {
		t.Errorf("%q and %q", a, b)
	}
	if exec, other := (&StatusError{Step: stepName(unix.SYS_EXECVE)}), (&StatusError{Step: "capset"}); !exec.Exec() || other.Exec() {
		t.Error("which step runs the image is not known")
	}
}

// TestParse: the modes by their names, and no others.
func TestParse(t *testing.T) {
	for _, m := range Modes() {
		if got, err := Parse(string(m)); err != nil || got != m {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	if _, err := Parse("none"); err == nil {
		t.Error("none is a sandbox")
	}
}
