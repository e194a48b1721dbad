//go:build linux && (amd64 || arm64)

package sandbox

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// action runs a filter as the kernel does.
func action(t *testing.T, program []unix.SockFilter, arch, nr uint32, args ...uint64) uint32 {
	t.Helper()
	var data [64]byte
	binary.LittleEndian.PutUint32(data[dataNumber:], nr)
	binary.LittleEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint64(data[dataArg+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(program); pc++ {
		i := program[pc]
		var jump bool
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			acc = binary.LittleEndian.Uint32(data[i.K:])
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			acc &= i.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			jump = acc == i.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			jump = acc >= i.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			jump = acc&i.K != 0
		default:
			t.Fatalf("instruction %d: code %#x", pc, i.Code)
		}
		if jump {
			pc += int(i.Jt)
		} else {
			pc += int(i.Jf)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// TestFilter: what a runtime needs passes, and what is refused does not.
func TestFilter(t *testing.T) {
	program := filter()
	if len(program) > unix.BPF_MAXINSNS {
		t.Fatalf("%d instructions", len(program))
	}
	const allow = unix.SECCOMP_RET_ALLOW
	minusOne := ^uint64(0)
	for _, c := range []struct {
		name string
		nr   uint32
		args []uint64
		want uint32
	}{
		{"read", unix.SYS_READ, nil, allow},
		{"a local socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"a local datagram socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM, 0}, deny(unix.EACCES)},
		{"an internet socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, deny(unix.EACCES)},
		{"a pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"a pair of datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, deny(unix.EACCES)},
		{"bind", unix.SYS_BIND, nil, allow},
		{"connect", unix.SYS_CONNECT, nil, deny(unix.EPERM)},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
		{"a process", unix.SYS_CLONE, []uint64{unix.CLONE_VFORK | unix.CLONE_VM | uint64(unix.SIGCHLD)}, allow},
		{"a user namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER}, deny(unix.EPERM)},
		{"clone3", unix.SYS_CLONE3, nil, deny(unix.ENOSYS)},
		{"its name", unix.SYS_PRCTL, []uint64{unix.PR_SET_NAME}, allow},
		{"death with the parent", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG, 9}, allow},
		{"life without", unix.SYS_PRCTL, []uint64{unix.PR_SET_PDEATHSIG, 0}, deny(unix.EPERM)},
		{"its own limits", unix.SYS_PRLIMIT64, []uint64{0, 7}, allow},
		{"others' limits", unix.SYS_PRLIMIT64, []uint64{1234, 7}, deny(unix.EPERM)},
		{"kill one", unix.SYS_KILL, []uint64{1234, 9}, allow},
		{"kill its group", unix.SYS_KILL, []uint64{0, 9}, allow},
		{"kill all", unix.SYS_KILL, []uint64{minusOne, 9}, deny(unix.EPERM)},
		{"kill all, as 32 bits", unix.SYS_KILL, []uint64{0xffffffff, 9}, deny(unix.EPERM)},
		{"a terminal's size", unix.SYS_IOCTL, []uint64{1, unix.TIOCGWINSZ}, allow},
		{"type", unix.SYS_IOCTL, []uint64{1, unix.TIOCSTI}, deny(unix.EPERM)},
		{"type, with high bits", unix.SYS_IOCTL, []uint64{1, 1<<32 | unix.TIOCSTI}, deny(unix.EPERM)},
		{"setsid", unix.SYS_SETSID, nil, deny(unix.EPERM)},
		{"setpgid", unix.SYS_SETPGID, nil, deny(unix.EPERM)},
	} {
		if got := action(t, program, auditArch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	if got := action(t, program, unix.AUDIT_ARCH_I386, unix.SYS_READ); got != unix.SECCOMP_RET_KILL_PROCESS {
		t.Errorf("another processor's calls: %#x", got)
	}
	if x32 != 0 {
		if got := action(t, program, auditArch, x32|unix.SYS_READ); got != deny(unix.ENOSYS) {
			t.Errorf("x32: %#x", got)
		}
	}
}

// run runs a program that was made here, with its status under number 3 and what it
// is to run under number 4.
func run(t *testing.T, steps []step, data blob) (output string, status error) {
	t.Helper()
	program, err := Executable("test", link(steps, data, 3))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: "/proc/self/fd/4", Args: []string{"echo", "two words", "here"}, Env: []string{"A=B"}, Stdout: &out, ExtraFiles: []*os.File{write, program}}
	err = cmd.Start()
	write.Close()
	if err != nil {
		t.Fatal(err)
	}
	status = ReadStatus(read)
	cmd.Wait()
	return out.String(), status
}

// TestProgram: a program hands on its arguments and environment, goes on where it
// may, and tells which step failed with what.
func TestProgram(t *testing.T) {
	var data blob
	echo := data.put([]byte("/bin/echo\x00"))
	last := step{name: execStep, number: unix.SYS_EXECVE, args: []arg{echo, {kind: argv}, {kind: envp}}}
	closing := step{name: "close", number: unix.SYS_CLOSE, args: numbers(3)}
	for _, tolerant := range []bool{true, false} {
		bad := step{name: "capset", number: unix.SYS_CAPSET, args: numbers(0, 0), tolerant: tolerant}
		out, err := run(t, []step{bad, closing, last}, data)
		failed := (*StatusError)(nil)
		if tolerant && (err != nil || out != "two words here\n") {
			t.Errorf("%q, %v", out, err)
		}
		if !tolerant && (!errors.As(err, &failed) || failed.Step != "capset" || failed.Err != unix.EFAULT || out != "") {
			t.Errorf("%q, %v, want EFAULT of capset", out, err)
		}
	}
	env := blob{}
	path := env.put([]byte("/usr/bin/env\x00"))
	last.args = []arg{path, {}, {kind: envp}}
	if out, err := run(t, []step{closing, last}, env); err != nil || !strings.Contains(out, "A=B\n") {
		t.Errorf("the environment %q, %v", out, err)
	}
}

// TestELF: programs are such as a loader takes.
func TestELF(t *testing.T) {
	for name, program := range map[string][]byte{
		"stage": NewStage(Kernel{Seccomp: true, Landlock: 7}, Files{3, 5, 6, 7}, 1<<30), "guard": NewGuard(1234),
	} {
		f, err := elf.NewFile(bytes.NewReader(program))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(f.Progs) != 1 || f.Progs[0].Filesz != uint64(len(program)) || f.Entry != f.Progs[0].Vaddr+headerSize || f.Progs[0].Flags != elf.PF_R|elf.PF_X {
			t.Errorf("%s: %+v of %d bytes, entry %#x", name, f.Progs[0], len(program), f.Entry)
		}
		t.Logf("%s: %d bytes", name, len(program))
	}
}

// TestMissing: what is missing is said, and what is not, is not.
func TestMissing(t *testing.T) {
	whole := Kernel{Namespaces: true, Seccomp: true, Landlock: landlockScope}
	if got := whole.Missing(); len(got) != 0 {
		t.Errorf("of a whole kernel %q is missing", got)
	}
	for _, l := range []Lacks{{Namespaces: true}, {Seccomp: true}, {Landlock: true}} {
		if got := whole.Without(l).Missing(); len(got) != 1 {
			t.Errorf("%+v: %q, want one", l, got)
		}
	}
	old := whole
	old.Landlock = 2
	if got := strings.Join(old.Missing(), ""); !strings.Contains(got, "truncation") || !strings.Contains(got, "signals") {
		t.Errorf("Landlock 2: %q", got)
	}
}
