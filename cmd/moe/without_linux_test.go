package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gatedlearning/moe/internal/testslow"
)

// withoutEnv is the environment variable that names the part of the sandbox which a
// moe that a test starts is to find missing.
const withoutEnv = "MOE_TEST_WITHOUT"

// refusals are the system calls by which a part of the sandbox is found or made, each
// with the number that the kernel refuses it by where it lacks the part.
var refusals = map[string][]refusal{
	"landlock":   {{unix.SYS_LANDLOCK_CREATE_RULESET, ^uint32(0), unix.ENOSYS}},
	"seccomp":    {{unix.SYS_SECCOMP, ^uint32(0), unix.ENOSYS}},
	"namespaces": {{unix.SYS_CLONE, unix.CLONE_NEWPID, unix.EPERM}, {unix.SYS_CLONE3, ^uint32(0), unix.ENOSYS}},
}

// refusal is a system call that fails, where its first argument has one of the flags.
type refusal struct {
	nr, flags uint32
	errno     unix.Errno
}

// doWithout makes the kernel refuse what [withoutEnv] names, by a filter on all threads
// of this process and on its children.
func doWithout() {
	var program []unix.SockFilter
	for _, r := range refusals[os.Getenv(withoutEnv)] {
		program = append(program,
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: r.nr, Jf: 3},
			unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // the low half of its first argument
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: r.flags, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(r.errno)})
		if r.flags == ^uint32(0) { // whatever it is
			program[len(program)-2] = unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: 0}
		}
	}
	if program == nil {
		return
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		panic(errno)
	}
}

// TestStrictWithoutAPart: on a kernel that lacks a part of the sandbox, --sandbox strict
// ends with 69, names what is missing and starts nothing; the default goes without, and
// verify says what that means.
func TestStrictWithoutAPart(t *testing.T) {
	testslow.Mark(t)
	for part, missing := range map[string]string{
		"landlock":   "no Landlock: it can write files",
		"seccomp":    "no seccomp filter: it can open connections, and keep memory that is not counted",
		"namespaces": "no PID namespace: it sees the processes of others",
	} {
		t.Run(part, func(t *testing.T) {
			s := newStage(t, "relu")
			before := s.files(t)
			run := func(args ...string) (code int, stdout, stderr string) {
				cmd, out, errs := s.command(t, t.Context(), args...)
				cmd.Env = append(cmd.Env, withoutEnv+"="+part)
				code = exitOf(cmd.Run())
				return code, out.String(), errs.String()
			}
			for _, args := range [][]string{s.fit("--sandbox", "strict"), validateCommand(s, "--sandbox", "strict"), trustCommand(s, "--sandbox", "strict")} {
				code, stdout, stderr := run(args...)
				if code != exitPlugin || stdout != "" {
					t.Errorf("%v: exit code %d, want %d; stdout %q", args, code, exitPlugin, stdout)
				}
				checkLine(t, s, stderr, fmt.Sprintf("start: the sandbox is not whole here: .*%s.*--sandbox default goes without", missing))
			}
			if after := s.files(t); len(after) != len(before) || after["model.json"] != before["model.json"] {
				t.Errorf("files before %v and after %v", before, after)
			}
			s.checkLeft(t)
			code, stdout, stderr := run(verifyCommand(s)...)
			if code != 0 || !strings.Contains(stdout, missing) {
				t.Errorf("verify: exit code %d, stdout %q, stderr %q; want a line about %q", code, stdout, stderr, missing)
			}
		})
	}
}
