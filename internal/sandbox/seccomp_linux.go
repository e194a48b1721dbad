package sandbox

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// refused are the system calls that a plugin gets EPERM for. Everything else
// passes: a list of what may be called would have to know every runtime.
var refused = slices.Concat(legacy, []uint32{
	// Leaving the session, in which everything is ended and counted together.
	unix.SYS_SETSID, unix.SYS_SETPGID,
	// Connections. There is one socket, at which the plugin listens.
	unix.SYS_CONNECT,
	// Memory that belongs to no process, or outlives all.
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	// What Landlock does not know: who may use a file, and what is said of it.
	unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR,
	unix.SYS_SETXATTRAT, unix.SYS_REMOVEXATTRAT,
	// Namespaces, mounts, and files by other ways than their names.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT,
	unix.SYS_OPEN_TREE, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// Wide doors into the kernel that no activation needs.
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
})

// absent are those that are said not to exist, so that libraries go another way:
// clone3 keeps its flags where a filter cannot see them, and io_uring makes calls
// that no filter sees.
var absent = []uint32{unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER}

// The fields of a seccomp filter's data; arguments are eight bytes each, of which
// these are the lower four.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg    = 16
)

const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// filter returns the seccomp filter, a program of the classic BPF machine.
func filter() []unix.SockFilter {
	var f bpf
	f.load(dataArch)
	f.unless(f.equal(auditArch), unix.SECCOMP_RET_KILL_PROCESS)
	f.load(dataNumber)
	if x32 != 0 {
		f.when(f.atLeast(x32), deny(unix.ENOSYS))
	}
	for _, nr := range refused {
		f.when(f.equal(nr), deny(unix.EPERM))
	}
	for _, nr := range absent {
		f.when(f.equal(nr), deny(unix.ENOSYS))
	}
	// Sockets are of this machine and connected, for others send to an address
	// without a connect.
	f.call(unix.SYS_SOCKET, func(f *bpf) {
		f.arg(0)
		f.unless(f.equal(unix.AF_UNIX), deny(unix.EACCES))
		f.arg(1)
		f.and(0xf)
		f.unless(f.equal(unix.SOCK_STREAM), deny(unix.EACCES))
	})
	f.call(unix.SYS_SOCKETPAIR, func(f *bpf) {
		f.arg(1)
		f.and(0xf)
		f.when(f.equal(unix.SOCK_DGRAM), deny(unix.EACCES))
	})
	f.call(unix.SYS_CLONE, func(f *bpf) {
		f.arg(0)
		f.when(f.anyBit(newNamespaces), deny(unix.EPERM))
	})
	// The signal that comes with the host's end stays; limits of others do, too.
	f.call(unix.SYS_PRCTL, func(f *bpf) {
		f.arg(0)
		f.unless(f.equal(unix.PR_SET_PDEATHSIG), unix.SECCOMP_RET_ALLOW)
		f.arg(1)
		f.when(f.equal(0), deny(unix.EPERM))
	})
	f.call(unix.SYS_PRLIMIT64, func(f *bpf) {
		f.arg(0)
		f.unless(f.equal(0), deny(unix.EPERM))
	})
	// kill of −1 is everybody, of another negative number a group of others.
	f.call(unix.SYS_KILL, func(f *bpf) {
		f.arg(0)
		f.when(f.atLeast(1<<31), deny(unix.EPERM))
	})
	// Typing into a terminal, or taking one.
	f.call(unix.SYS_IOCTL, func(f *bpf) {
		f.arg(1)
		for _, request := range []uint32{unix.TIOCSTI, unix.TIOCSCTTY, unix.TIOCLINUX, unix.TIOCSETD} {
			f.when(f.equal(request), deny(unix.EPERM))
		}
	})
	f.ret(unix.SECCOMP_RET_ALLOW)
	return f
}

func deny(errno unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(errno) }

// bpf is a program that is being written.
type bpf []unix.SockFilter

func (f *bpf) emit(code uint16, k uint32) { *f = append(*f, unix.SockFilter{Code: code, K: k}) }

func (f *bpf) load(offset uint32) { f.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offset) }
func (f *bpf) arg(i uint32)       { f.load(dataArg + 8*i) }
func (f *bpf) and(mask uint32)    { f.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, mask) }
func (f *bpf) ret(action uint32)  { f.emit(unix.BPF_RET|unix.BPF_K, action) }

// A condition is a jump: its code and what it compares with.
type condition struct {
	code uint16
	k    uint32
}

func (f *bpf) equal(k uint32) condition {
	return condition{unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, k}
}
func (f *bpf) atLeast(k uint32) condition {
	return condition{unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, k}
}
func (f *bpf) anyBit(k uint32) condition {
	return condition{unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, k}
}

func (f *bpf) when(c condition, action uint32) {
	*f = append(*f, unix.SockFilter{Code: c.code, Jt: 0, Jf: 1, K: c.k})
	f.ret(action)
}

func (f *bpf) unless(c condition, action uint32) {
	*f = append(*f, unix.SockFilter{Code: c.code, Jt: 1, Jf: 0, K: c.k})
	f.ret(action)
}

// call writes what is for one system call, which passes where body does not refuse
// it.
func (f *bpf) call(nr uint32, body func(*bpf)) {
	var b bpf
	body(&b)
	b.ret(unix.SECCOMP_RET_ALLOW)
	*f = append(*f, unix.SockFilter{Code: f.equal(nr).code, Jt: 0, Jf: uint8(len(b)), K: nr})
	*f = append(*f, b...)
}

// bytes returns a filter as the kernel reads it.
func (f bpf) bytes() []byte {
	var out []byte
	for _, i := range f {
		out = binary.NativeEndian.AppendUint16(out, i.Code)
		out = append(out, i.Jt, i.Jf)
		out = binary.NativeEndian.AppendUint32(out, i.K)
	}
	return out
}
