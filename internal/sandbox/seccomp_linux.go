//go:build amd64 || arm64

package sandbox

import (
	"slices"

	"golang.org/x/sys/unix"
)

// A filter answers every system call that is not in one of these lists, or in [checked],
// with ENOSYS, those that later kernels bring among them: a library then goes another way.
// The lists are made from what the calls of plugins in Go, in Python with grpcio and
// numpy, in C++ and in Rust are. The first are those that are made most often.

// allowed pass whatever their arguments are.
var allowed = slices.Concat([]uint32{
	// Threads, and what a server does all day.
	unix.SYS_FUTEX, unix.SYS_READ, unix.SYS_WRITE, unix.SYS_EPOLL_PWAIT, unix.SYS_TGKILL, unix.SYS_GETPID,
	unix.SYS_RT_SIGRETURN,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_SCHED_YIELD, unix.SYS_MADVISE, unix.SYS_RECVMSG,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ, unix.SYS_MEMBARRIER, unix.SYS_GETTID,
	unix.SYS_TKILL,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
	unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_GETCPU, unix.SYS_GETPRIORITY,
	// Memory.
	unix.SYS_BRK, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MREMAP, unix.SYS_MINCORE,
	// Descriptors, and files by their names.
	unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_PREADV, unix.SYS_PWRITEV,
	unix.SYS_PREADV2, unix.SYS_PWRITEV2,
	unix.SYS_LSEEK, unix.SYS_CLOSE, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2, unix.SYS_GETDENTS64, unix.SYS_FSTAT,
	unix.SYS_STATX,
	unix.SYS_NEWFSTATAT, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2,
	unix.SYS_READLINKAT, unix.SYS_UNLINKAT,
	unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_UMASK,
	// Events and times.
	unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_PPOLL,
	unix.SYS_PSELECT6, unix.SYS_SIGNALFD4,
	unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME, unix.SYS_GETITIMER, unix.SYS_SETITIMER,
	unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY, unix.SYS_TIMES,
	// Sockets, of which there are only those that checked lets be made.
	unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_GETSOCKOPT,
	unix.SYS_RECVFROM, unix.SYS_RECVMMSG, unix.SYS_SHUTDOWN,
	// Processes and signals.
	unix.SYS_EXECVE, unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_GETPPID,
	unix.SYS_GETPGID, unix.SYS_GETSID,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGSUSPEND, unix.SYS_RT_SIGTIMEDWAIT,
	unix.SYS_RT_SIGPENDING,
	unix.SYS_SIGALTSTACK, unix.SYS_RESTART_SYSCALL,
	// What a program asks about itself and its machine.
	unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID,
	unix.SYS_GETGROUPS,
	unix.SYS_CAPGET, unix.SYS_GETRLIMIT, unix.SYS_SETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_UNAME, unix.SYS_SYSINFO,
	unix.SYS_GETRANDOM,
}, legacy)

// refused are those that a program may well make, and that tell it that it may not.
var refused = []struct {
	errno unix.Errno
	calls []uint32
}{
	{unix.EPERM, slices.Concat(legacyRefused, []uint32{
		// Leaving the session, in which everything is ended and counted together.
		unix.SYS_SETSID, unix.SYS_SETPGID,
		// Connections. There is one socket, at which the plugin listens.
		unix.SYS_CONNECT,
		// Memory that belongs to no process, or outlives all.
		unix.SYS_MEMFD_CREATE, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
		// Other processes, and their place at the processor.
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
		unix.SYS_SETPRIORITY,
		unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR,
		unix.SYS_IOPRIO_SET,
		// Files: what Landlock does not know, who may use one and what is said of it, and
		// what no plugin needs.
		unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
		unix.SYS_FREMOVEXATTR,
		unix.SYS_FILE_SETATTR, unix.SYS_MKDIRAT, unix.SYS_MKNODAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
		unix.SYS_RENAMEAT2,
		unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_SYNC, unix.SYS_SYNCFS, unix.SYS_FSYNC, unix.SYS_FDATASYNC,
		// Other users, namespaces and mounts.
		unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETGROUPS, unix.SYS_CAPSET, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_CHROOT, unix.SYS_MOUNT,
	})},
	{unix.ENOLCK, []uint32{unix.SYS_FLOCK}}, // a filter cannot tell the user's files from others
	// A pipe that pages are spliced into holds them whole, the largest too, and counts
	// for none; Go copies by hand on this answer.
	{unix.EINVAL, []uint32{unix.SYS_SPLICE}},
}

// threadFlags are those that a thread or a process is made with; with the last eight bits
// goes the signal of its end. Namespaces are not among them, nor CLONE_PARENT, which makes
// a child of the host's.
const threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_VFORK |
	unix.CLONE_THREAD |
	unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID |
	unix.CLONE_CHILD_SETTID |
	unix.CLONE_DETACHED | unix.CLONE_PIDFD | unix.CLONE_IO | 0xff

// checked are the system calls that pass with some arguments.
var checked = slices.Concat(legacyChecked, []check{
	// Memory that is in no page table, or in none that counts: it is shared by nobody
	// else, or in large pages, which are counted apart.
	{unix.SYS_MMAP, func(f *bpf) {
		f.arg(3)
		f.when(f.anyBit(unix.MAP_HUGETLB), deny(unix.ENOMEM))
		f.and(unix.MAP_SHARED | unix.MAP_ANONYMOUS)
		f.when(f.equal(unix.MAP_SHARED|unix.MAP_ANONYMOUS), deny(unix.EPERM))
	}},
	{unix.SYS_OPENAT, opening(2)},
	// Messages out of band are of no use here, and have been a way into the kernel.
	{unix.SYS_SENDMSG, noneOf(2, unix.MSG_OOB, unix.EOPNOTSUPP)},
	{unix.SYS_SENDTO, noneOf(3, unix.MSG_OOB, unix.EOPNOTSUPP)},
	{unix.SYS_SENDMMSG, noneOf(3, unix.MSG_OOB, unix.EOPNOTSUPP)},
	// No locks, no leases, no signals to others, no larger pipes.
	{unix.SYS_FCNTL, func(f *bpf) {
		f.arg(1)
		for _, lock := range []uint32{unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK,
			unix.F_OFD_SETLKW} {
			f.when(f.equal(lock), deny(unix.ENOLCK))
		}
		f.among(unix.EPERM, unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_DUPFD_QUERY, unix.F_GETFD, unix.F_SETFD,
			unix.F_GETFL, unix.F_SETFL, unix.F_GETPIPE_SZ, unix.F_GET_SEALS)
	}},
	// What a library asks to know whether it writes to a terminal. Others set the
	// attributes of files, and type into terminals.
	{unix.SYS_IOCTL, func(f *bpf) {
		f.arg(1)
		f.among(unix.ENOTTY, unix.TCGETS, unix.TCGETS2, unix.TIOCGWINSZ, fionread, fionbio, fioclex, fionclex)
	}},
	{unix.SYS_CLONE, func(f *bpf) {
		f.arg(0)
		f.when(f.anyBit(^uint32(threadFlags)), deny(unix.EPERM))
		// Threads have their descriptors in common, so that they have not more.
		f.and(unix.CLONE_THREAD | unix.CLONE_FILES)
		f.when(f.equal(unix.CLONE_THREAD), deny(unix.EPERM))
	}},
	{unix.SYS_CLOSE_RANGE, noneOf(2, ^uint32(unix.CLOSE_RANGE_CLOEXEC), unix.EINVAL)},
	// Sockets are of this machine and connected: others send to an address without a
	// connect. Of pairs SOCK_RAW is the kernel's other name for datagrams.
	{unix.SYS_SOCKET, local(unix.SOCK_STREAM)},
	{unix.SYS_SOCKETPAIR, local(unix.SOCK_STREAM, unix.SOCK_SEQPACKET)},
	// Not the sizes of buffers, and no programs.
	{unix.SYS_SETSOCKOPT, func(f *bpf) {
		f.arg(1)
		f.among(unix.ENOPROTOOPT, unix.SOL_SOCKET)
		f.arg(2)
		f.among(unix.ENOPROTOOPT, unix.SO_REUSEADDR, unix.SO_REUSEPORT, unix.SO_KEEPALIVE, unix.SO_LINGER,
			unix.SO_PASSCRED,
			unix.SO_RCVLOWAT, unix.SO_RCVTIMEO, unix.SO_SNDTIMEO, unix.SO_RCVTIMEO_NEW, unix.SO_SNDTIMEO_NEW)
	}},
	// The signal that comes with the host's end stays.
	{unix.SYS_PRCTL, func(f *bpf) {
		f.arg(0)
		f.among(unix.EINVAL, unix.PR_SET_PDEATHSIG, unix.PR_GET_PDEATHSIG, unix.PR_SET_NAME, unix.PR_GET_NAME,
			unix.PR_SET_VMA,
			unix.PR_GET_DUMPABLE, unix.PR_CAPBSET_READ, unix.PR_SET_NO_NEW_PRIVS, unix.PR_GET_NO_NEW_PRIVS,
			unix.PR_GET_SECCOMP,
			unix.PR_SET_THP_DISABLE, unix.PR_GET_THP_DISABLE)
		f.unless(f.equal(unix.PR_SET_PDEATHSIG), unix.SECCOMP_RET_ALLOW)
		f.arg(1)
		f.when(f.equal(0), deny(unix.EPERM))
	}},
	// Limits are one's own.
	{unix.SYS_PRLIMIT64, func(f *bpf) {
		f.arg(0)
		f.among(unix.EPERM, 0)
	}},
	// kill of −1 is everybody, of another negative number a group of others.
	{unix.SYS_KILL, func(f *bpf) {
		f.arg(0)
		f.when(f.atLeast(1<<31), deny(unix.EPERM))
	}},
})

// check says which arguments of a system call pass: those that body does not refuse.
type check struct {
	number uint32
	body   func(*bpf)
}

// Requests of ioctl that package unix does not have; they are the same on all processors here.
const (
	fionread = 0x541b
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
)

// opening refuses to make a file that is run in its owner's name, and to cut one that is
// opened for reading, which an early Landlock lets pass. flags is the place of open's.
func opening(flags uint32) func(*bpf) {
	return func(f *bpf) {
		f.arg(flags)
		f.and(unix.O_TRUNC | unix.O_ACCMODE)
		f.when(f.equal(unix.O_TRUNC|unix.O_RDONLY), deny(unix.EPERM))
		f.arg(flags)
		f.unless(f.anyBit(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY), unix.SECCOMP_RET_ALLOW)
		f.arg(flags + 1)
		f.when(f.anyBit(unix.S_ISUID|unix.S_ISGID|unix.S_ISVTX), deny(unix.EPERM))
	}
}

// noneOf refuses an argument with one of the bits.
func noneOf(arg, bits uint32, errno unix.Errno) func(*bpf) {
	return func(f *bpf) {
		f.arg(arg)
		f.when(f.anyBit(bits), deny(errno))
	}
}

// local lets sockets of this machine pass that are of one of the kinds.
func local(kinds ...uint32) func(*bpf) {
	return func(f *bpf) {
		f.arg(0)
		f.among(unix.EACCES, unix.AF_UNIX)
		f.arg(1)
		f.and(0xf) // without SOCK_CLOEXEC and SOCK_NONBLOCK
		f.among(unix.EACCES, kinds...)
	}
}

// filter returns the seccomp filter, a program of the classic BPF machine.
func filter() []unix.SockFilter {
	var f bpf
	f.load(dataArch)
	f.unless(f.equal(auditArch), unix.SECCOMP_RET_KILL_PROCESS)
	f.load(dataNumber)
	if x32 != 0 {
		f.when(f.atLeast(x32), deny(unix.ENOSYS))
	}
	for _, nr := range allowed {
		f.when(f.equal(nr), unix.SECCOMP_RET_ALLOW)
	}
	for _, c := range checked {
		f.call(c.number, c.body)
	}
	for _, r := range refused {
		for _, nr := range r.calls {
			f.when(f.equal(nr), deny(r.errno))
		}
	}
	f.ret(deny(unix.ENOSYS))
	return f
}
