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
		{"a local raw socket", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_RAW, 0}, deny(unix.EACCES)},
		{"a local socket of packets", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET, 0}, deny(unix.EACCES)},
		{"an internet socket", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, 0}, deny(unix.EACCES)},
		{"a pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, allow},
		{"a pair with flags", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, allow},
		{"a pair for packets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET | unix.SOCK_NONBLOCK, 0}, allow},
		{"a pair for datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, 0}, deny(unix.EACCES)},
		{"a raw pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_RAW, 0}, deny(unix.EACCES)},
		{"a raw pair with flags", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, 0}, deny(unix.EACCES)},
		{"a pair of TIPC", unix.SYS_SOCKETPAIR, []uint64{unix.AF_TIPC, unix.SOCK_STREAM, 0}, deny(unix.EACCES)},
		{"bind", unix.SYS_BIND, nil, allow},
		{"connect", unix.SYS_CONNECT, nil, deny(unix.EPERM)},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_FILES}, allow},
		{"a thread with descriptors of its own", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, deny(unix.EPERM)},
		{"a child of the parent's", unix.SYS_CLONE, []uint64{unix.CLONE_PARENT | uint64(unix.SIGCHLD)}, deny(unix.EPERM)},
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
		{"whether it is a terminal", unix.SYS_IOCTL, []uint64{1, unix.TCGETS}, allow},
		{"the last of those requests", unix.SYS_IOCTL, []uint64{1, fionclex}, allow},
		{"type", unix.SYS_IOCTL, []uint64{1, unix.TIOCSTI}, deny(unix.ENOTTY)},
		{"type, with high bits", unix.SYS_IOCTL, []uint64{1, 1<<32 | unix.TIOCSTI}, deny(unix.ENOTTY)},
		{"a file's attributes", unix.SYS_IOCTL, []uint64{3, unix.FS_IOC_SETFLAGS}, deny(unix.ENOTTY)},
		{"a file's attributes by 469", 469, nil, deny(unix.EPERM)},
		{"a call of kernels to come", 1000, nil, deny(unix.ENOSYS)},
		{"openat2", unix.SYS_OPENAT2, nil, deny(unix.ENOSYS)},
		{"anonymous memory", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE}, allow},
		{"a file mapped", unix.SYS_MMAP, []uint64{0, 4096, 1, unix.MAP_SHARED}, allow},
		{"shared anonymous memory", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED | unix.MAP_ANONYMOUS}, deny(unix.EPERM)},
		{"shared anonymous memory, checked", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_SHARED_VALIDATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE}, deny(unix.EPERM)},
		{"large pages", unix.SYS_MMAP, []uint64{0, 4096, 3, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_HUGETLB}, deny(unix.ENOMEM)},
		{"a file to read", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_CLOEXEC, 0o7777}, allow}, // the mode of which says nothing
		{"a directory", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_DIRECTORY, unix.S_ISUID}, allow},
		{"a new file", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_CREAT | unix.O_EXCL | unix.O_RDWR, 0o600}, allow},
		{"a new set-user-id file", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_CREAT | unix.O_WRONLY, unix.S_ISUID | 0o755}, deny(unix.EPERM)},
		{"a new set-group-id file", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_CREAT, unix.S_ISGID}, deny(unix.EPERM)},
		{"a new sticky file", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_CREAT, unix.S_ISVTX}, deny(unix.EPERM)},
		{"a new set-user-id file without a name", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_TMPFILE | unix.O_WRONLY, unix.S_ISUID}, deny(unix.EPERM)},
		{"emptying what it writes", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_WRONLY | unix.O_TRUNC, 0}, allow},
		{"emptying what it reads", unix.SYS_OPENAT, []uint64{minusOne, 0, unix.O_RDONLY | unix.O_TRUNC, 0}, deny(unix.EPERM)},
		{"a descriptor's flags", unix.SYS_FCNTL, []uint64{1, unix.F_SETFD, 1}, allow},
		{"a lock", unix.SYS_FCNTL, []uint64{1, unix.F_SETLK}, deny(unix.ENOLCK)},
		{"a lock, waited for", unix.SYS_FCNTL, []uint64{1, unix.F_SETLKW}, deny(unix.ENOLCK)},
		{"an open file's lock", unix.SYS_FCNTL, []uint64{1, unix.F_OFD_SETLK}, deny(unix.ENOLCK)},
		{"an open file's lock, waited for", unix.SYS_FCNTL, []uint64{1, unix.F_OFD_SETLKW}, deny(unix.ENOLCK)},
		{"flock", unix.SYS_FLOCK, []uint64{1, unix.LOCK_EX}, deny(unix.ENOLCK)},
		{"a lease", unix.SYS_FCNTL, []uint64{1, unix.F_SETLEASE}, deny(unix.EPERM)},
		{"signals to others", unix.SYS_FCNTL, []uint64{1, unix.F_SETOWN}, deny(unix.EPERM)},
		{"a larger pipe", unix.SYS_FCNTL, []uint64{1, unix.F_SETPIPE_SZ}, deny(unix.EPERM)},
		{"an address to use again", unix.SYS_SETSOCKOPT, []uint64{1, unix.SOL_SOCKET, unix.SO_REUSEADDR}, allow},
		{"a larger buffer", unix.SYS_SETSOCKOPT, []uint64{1, unix.SOL_SOCKET, unix.SO_SNDBUF}, deny(unix.ENOPROTOOPT)},
		{"a larger buffer, by force", unix.SYS_SETSOCKOPT, []uint64{1, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE}, deny(unix.ENOPROTOOPT)},
		{"a filter of a socket", unix.SYS_SETSOCKOPT, []uint64{1, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER}, deny(unix.ENOPROTOOPT)},
		{"an option of TCP", unix.SYS_SETSOCKOPT, []uint64{1, unix.SOL_TCP, unix.SO_REUSEADDR}, deny(unix.ENOPROTOOPT)},
		{"a message", unix.SYS_SENDMSG, []uint64{1, 0, unix.MSG_NOSIGNAL}, allow},
		{"a message out of band", unix.SYS_SENDMSG, []uint64{1, 0, unix.MSG_NOSIGNAL | unix.MSG_OOB}, deny(unix.EOPNOTSUPP)},
		{"closing many", unix.SYS_CLOSE_RANGE, []uint64{3, minusOne, unix.CLOSE_RANGE_CLOEXEC}, allow},
		{"closing many of its own", unix.SYS_CLOSE_RANGE, []uint64{3, minusOne, unix.CLOSE_RANGE_UNSHARE}, deny(unix.EINVAL)},
		{"being traced by others", unix.SYS_PRCTL, []uint64{unix.PR_SET_PTRACER, minusOne}, deny(unix.EINVAL)},
		{"a priority", unix.SYS_SETPRIORITY, []uint64{0, 1234, 5}, deny(unix.EPERM)},
		{"sync", unix.SYS_SYNC, nil, deny(unix.EPERM)},
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
	old.Landlock = landlockTruncate
	if got := strings.Join(old.Missing(), ""); strings.Contains(got, "truncation") || !strings.Contains(got, "signals") {
		t.Errorf("Landlock 3: %q", got)
	}
}

// TestLists: each system call is in one list.
func TestLists(t *testing.T) {
	seen := map[uint32]bool{}
	once := func(nr uint32) {
		if seen[nr] {
			t.Errorf("call %d is in two lists", nr)
		}
		seen[nr] = true
	}
	for _, nr := range allowed {
		once(nr)
	}
	for _, c := range checked {
		once(c.number)
	}
	for _, r := range refused {
		for _, nr := range r.calls {
			once(nr)
		}
	}
}

// TestRulesetAttr: of each version of Landlock's interface everything is used that it
// can refuse, by the kernel's numbers, and no version is told of what it does not know.
func TestRulesetAttr(t *testing.T) {
	const tcp, scopes = 3, 3 // bind and connect; abstract sockets and signals
	for version, want := range map[int]struct {
		fs, net, scoped uint64
		size            uintptr
	}{
		1: {1<<13 - 1, 0, 0, 8}, 2: {1<<14 - 1, 0, 0, 8}, 3: {1<<15 - 1, 0, 0, 8}, 4: {1<<15 - 1, tcp, 0, 16},
		5: {1<<16 - 1, tcp, 0, 16}, 6: {1<<16 - 1, tcp, scopes, 24}, 7: {1<<16 - 1, tcp, scopes, 24},
	} {
		attr, size := rulesetAttr(version)
		if attr.Access_fs != want.fs || attr.Access_net != want.net || attr.Scoped != want.scoped || size != want.size {
			t.Errorf("version %d: %+v of %d bytes, want %+v", version, attr, size, want)
		}
	}
}
