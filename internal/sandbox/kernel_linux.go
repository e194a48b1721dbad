package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is what the kernel has of what the sandbox is made of.
type Kernel struct {
	Namespaces bool // PID namespaces, for this user
	Seccomp    bool
	Landlock   int // the version of its interface; 0 where there is none
}

// Versions of Landlock's interface, by what they brought.
const (
	landlockTruncate = 3
	landlockTCP      = 4
	landlockIoctl    = 5
	landlockScope    = 6
)

// Running returns what the running kernel has, PID namespaces apart: those are
// found out by asking for one.
func Running() Kernel {
	var k Kernel
	if encoder == nil {
		return k // no program for this processor
	}
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno == 0 {
		k.Landlock = int(version)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno = unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	k.Seccomp = errno == 0
	return k
}

// Without returns k without what l names.
func (k Kernel) Without(l Lacks) Kernel {
	if l.Landlock {
		k.Landlock = 0
	}
	return Kernel{k.Namespaces && !l.Namespaces, k.Seccomp && !l.Seccomp, k.Landlock}
}

// Missing says what of the sandbox there is not, and what a plugin can do
// therefore.
func (k Kernel) Missing() []string {
	var out []string
	if !k.Namespaces {
		out = append(out, "no PID namespace: it sees the processes of others, and others can connect to it")
		if !k.Seccomp {
			out = append(out, "a child that leaves its session is not ended with it")
		}
	}
	if !k.Seccomp {
		out = append(out, "no seccomp filter: it can open connections, and keep memory that is not counted")
	}
	switch {
	case k.Landlock == 0:
		out = append(out, "no Landlock: it can write files")
	case k.Landlock < landlockScope:
		lacks := "signals to other processes"
		if k.Landlock < landlockTruncate {
			lacks = "the truncation of files and " + lacks
		}
		out = append(out, fmt.Sprintf("Landlock of version %d: it does not refuse %s", k.Landlock, lacks))
	}
	return out
}
