package plugintest

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// send sends a descriptor of the victim to an address, or to the socket's peer where there is none.
func send(fd int, at string, to unix.Sockaddr) error {
	file, err := os.Open(at + ".victim")
	if err != nil {
		return err
	}
	defer file.Close()
	return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(int(file.Fd())), to, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
}

// addresses are those of the sockets that [Stand] has.
func addresses(at string) (all []unix.Sockaddr) {
	for _, name := range kinds {
		all = append(all, &unix.SockaddrUnix{Name: at + "." + name}, &unix.SockaddrUnix{Name: abstract(at, name)})
	}
	return all
}

// handOver hands a descriptor to somebody else by a socket, with and without a connection.
// What the socket's own peer gets, if it has one, is not handed over.
func handOver(fds []int, at string) error {
	err := error(unix.EACCES)
	for _, to := range addresses(at) {
		if err = send(fds[0], at, to); err == nil && len(fds) == 2 {
			if n, _, _ := unix.Recvfrom(fds[1], make([]byte, 1), unix.MSG_DONTWAIT); n == 1 {
				err = unix.EISCONN
			}
		}
		if err != nil && unix.Connect(fds[0], to) == nil {
			err = send(fds[0], at, nil)
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// each hands a descriptor over by every kind of socket, of all families, that get makes.
func each(get func(domain, kind int) ([]int, error)) func(at string) error {
	return func(at string) error {
		refused := error(unix.EACCES)
		for domain := range unix.AF_MAX {
			for kind := range unix.SOCK_PACKET + 1 {
				for _, flags := range []int{0, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
					fds, err := get(domain, kind|flags)
					if err != nil {
						continue
					}
					refused = handOver(fds, at)
					for _, fd := range fds {
						unix.Close(fd)
					}
					if refused == nil {
						return nil
					}
				}
			}
		}
		return refused
	}
}

func pair(domain, kind int) ([]int, error) {
	fds, err := unix.Socketpair(domain, kind, 0)
	return fds[:], err
}

func one(domain, kind int) ([]int, error) {
	fd, err := unix.Socket(domain, kind, 0)
	return []int{fd}, err
}

// pairOf fails with the kernel's answer where there is no such pair, or it sends nothing to another's socket.
func pairOf(kind int) func(string) error {
	return func(at string) error {
		fds, err := pair(unix.AF_UNIX, kind)
		if err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: at + ".datagrams"})
	}
}

var sockets = []Attack{
	{"send a datagram by a pair (SOCK_DGRAM)", pairOf(unix.SOCK_DGRAM)},
	{"send a datagram by a pair (SOCK_RAW)", pairOf(unix.SOCK_RAW)},
	{"send a datagram by a pair (SOCK_RAW, flags)", pairOf(unix.SOCK_RAW | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK)},
	{"hand a descriptor over by any socket", each(one)},
	{"hand a descriptor over by any pair", each(pair)},
	{"be found by an abstract name", func(at string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: abstract(at, "plugin")}); err != nil {
			return err
		}
		if err := unix.Listen(fd, 1); err != nil {
			return err
		}
		for range 20 {
			time.Sleep(10 * time.Millisecond)
			var peer int
			if peer, _, err = unix.Accept(fd); err == nil {
				unix.Close(peer)
				return nil
			}
		}
		return err
	}},
	{"send out of band", func(string) error {
		fds, err := pair(unix.AF_UNIX, unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		return unix.Sendto(fds[0], []byte("x"), unix.MSG_OOB, nil)
	}},
}

// ioctl makes a request of the victim with an argument of some bytes, and returns them.
func ioctl(at string, request uint, argument []byte) error {
	file, err := os.Open(at + ".victim")
	if err != nil {
		return err
	}
	defer file.Close()
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), uintptr(request), uintptr(unsafe.Pointer(&argument[0])))
	return failed(errno)
}

// Attributes of files: FS_NODUMP_FL and FS_XFLAG_NODUMP keep a file out of backups.
const (
	noDump       = 0x40
	noDumpX      = 0x80
	fsGetXattr   = 0x801c581f
	fsSetXattr   = 0x401c5820
	sizeOfXattrs = 28
)

// lock takes a lock on the victim by a command of fcntl.
func lock(command int) func(string) error {
	return func(at string) error {
		file, err := os.Open(at + ".victim")
		if err != nil {
			return err
		}
		defer file.Close()
		return unix.FcntlFlock(file.Fd(), command, &unix.Flock_t{Type: unix.F_RDLCK})
	}
}

// inItsDirectory makes a name in the directory of the plugin's socket, and removes it.
func inItsDirectory(fn func(path string) error) error {
	path := filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "x")
	defer os.Remove(path)
	return fn(path)
}

var attributes = []Attack{
	{"change a file's attributes (FS_IOC_SETFLAGS)", func(at string) error {
		flags := make([]byte, 8)
		ioctl(at, unix.FS_IOC_GETFLAGS, flags)
		flags[0] |= noDump
		return ioctl(at, unix.FS_IOC_SETFLAGS, flags)
	}},
	{"change a file's attributes (FS_IOC_FSSETXATTR)", func(at string) error {
		flags := make([]byte, sizeOfXattrs)
		ioctl(at, fsGetXattr, flags)
		flags[0] |= noDumpX
		return ioctl(at, fsSetXattr, flags)
	}},
	{"change a file's attributes (call 469)", func(at string) error {
		path, _ := unix.BytePtrFromString(at + ".victim")
		attr := [3]uint64{noDumpX}
		dir := unix.AT_FDCWD
		_, _, errno := unix.Syscall6(469, uintptr(dir), uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&attr)),
			unsafe.Sizeof(attr), 0, 0)
		return failed(errno)
	}},
	{"freeze a file (FS_IOC_ENABLE_VERITY)", func(at string) error {
		return ioctl(at, unix.FS_IOC_ENABLE_VERITY, append([]byte{1, 0, 0, 0, 1, 0, 0, 0, 0, 16}, make([]byte, 118)...))
	}},
	{"set an attribute of a file (setxattr)", func(at string) error {
		return unix.Setxattr(at+
			".victim", "user.moe", []byte("x"), 0)
	}},
	{"lock a file (flock)", func(at string) error {
		file, err := os.Open(at + ".victim")
		if err != nil {
			return err
		}
		defer file.Close()
		return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}},
	{"lock a file (F_SETLK)", lock(unix.F_SETLK)},
	{"lock a file (F_SETLKW)", lock(unix.F_SETLKW)},
	{"lock a file (F_OFD_SETLK)", lock(unix.F_OFD_SETLK)},
	{"take a lease on a file", func(at string) error {
		file, err := os.Open(at + ".victim")
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	}},
	{"write out all files (sync)", func(string) error {
		_, _, errno := unix.Syscall(unix.SYS_SYNC, 0, 0, 0)
		return failed(errno)
	}},
	{"write out a file system (syncfs)", func(string) error {
		root, err := os.Open("/")
		if err != nil {
			return err
		}
		defer root.Close()
		return unix.Syncfs(int(root.Fd()))
	}},
	{"make a set-user-id file in its directory (open)", func(string) error {
		return inItsDirectory(func(path string) error {
			fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, unix.S_ISUID|0o755)
			if err == nil {
				unix.Close(fd)
			}
			return err
		})
	}},
	{"make a set-user-id file in its directory (mknod)", func(string) error {
		return inItsDirectory(func(path string) error { return unix.Mknod(path, unix.S_IFREG|unix.S_ISUID|0o755, 0) })
	}},
	{"make a FIFO in its directory", func(string) error {
		return inItsDirectory(func(path string) error { return unix.Mkfifo(path, 0o600) })
	}},
	{"cut a file that it may read", func(at string) error {
		fd, err := unix.Open(at+".victim", unix.O_RDONLY|unix.O_TRUNC, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
}

// others are other processes, the host among them.
var others = []Attack{
	{"change the host's priority", func(at string) error {
		priority, err := unix.Getpriority(unix.PRIO_PROCESS, host(at))
		if err != nil {
			return err
		}
		return unix.Setpriority(unix.PRIO_PROCESS, host(at), 20-priority)
	}},
	{"change the host's processors", func(at string) error {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(host(at), &set); err != nil {
			return err
		}
		return unix.SchedSetaffinity(host(at), &set)
	}},
	{"change the host's scheduling", func(at string) error {
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(host(at)), unix.SCHED_NORMAL,
			uintptr(unsafe.Pointer(new(int32))))
		return failed(errno)
	}},
	{"change the host's place at the disk", func(at string) error {
		const process, bestEffort = 1, 2<<13 | 4
		_, _, errno := unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(host(at)), bestEffort)
		return failed(errno)
	}},
	{"signal the host (tgkill)", func(at string) error { return unix.Tgkill(host(at), host(at), 0) }},
	{"signal the host by a descriptor", func(at string) error {
		fd, err := unix.PidfdOpen(host(at), 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.PidfdSendSignal(fd, 0, nil, 0)
	}},
	{"have the host signalled (F_SETOWN)", func(at string) error {
		var fds [2]int
		if err := unix.Pipe(fds[:]); err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		_, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETOWN, host(at))
		return err
	}},
	// flags of which the kernel says EINVAL, not EPERM
	{"have a child that is the host's (CLONE_PARENT)", func(string) error {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_PARENT|unix.CLONE_SIGHAND, 0, 0, 0, 0, 0)
		if errno == unix.EINVAL {
			return nil
		}
		return failed(errno)
	}},
}

// memory is what no page table has, or no limit counts.
var memory = []Attack{
	{"share anonymous memory", func(string) error {
		data, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
		if err == nil {
			unix.Munmap(data)
		}
		return err
	}},
	{"share memory of /dev/zero", func(string) error {
		file, err := os.OpenFile("/dev/zero", os.O_RDWR, 0)
		if err != nil {
			return err
		}
		defer file.Close()
		data, err := unix.Mmap(int(file.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			unix.Munmap(data)
		}
		return err
	}},
	{"map large pages", func(string) error {
		data, err := unix.Mmap(-1, 0, 1<<21, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|
			unix.MAP_HUGETLB)
		if err == nil {
			unix.Munmap(data)
		}
		return err
	}},
	{"reserve 64 GiB of addresses", func(string) error {
		data, err := unix.Mmap(-1, 0, int(min(int64(64<<30), math.MaxInt)), unix.PROT_NONE, unix.MAP_PRIVATE|
			unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err == nil {
			unix.Munmap(data)
		}
		return err
	}},
	{"enlarge a socket's buffer", func(string) error {
		fds, err := pair(unix.AF_UNIX, unix.SOCK_STREAM)
		if err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		return unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
	}},
	{"enlarge a pipe", func(string) error {
		var fds [2]int
		if err := unix.Pipe(fds[:]); err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		_, err := unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, 1<<18)
		return err
	}},
	{"put pages into a pipe (vmsplice)", func(string) error {
		var fds [2]int
		if err := unix.Pipe(fds[:]); err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		page := make([]byte, 4096)
		_, err := unix.Vmsplice(fds[1], []unix.Iovec{{Base: &page[0], Len: 4096}}, unix.SPLICE_F_NONBLOCK)
		return err
	}},
	// the kernel says EINVAL, for want of CLONE_VM
	{"have a thread with descriptors of its own (clone)", func(string) error {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_THREAD|unix.CLONE_SIGHAND, 0, 0, 0, 0, 0)
		if errno == unix.EINVAL {
			return nil
		}
		return failed(errno)
	}},
	{"have a thread with descriptors of its own (close_range)", func(string) error {
		answer := make(chan error)
		go func() {
			runtime.LockOSThread() // which ends with this function
			answer <- unix.CloseRange(1<<30, 1<<30, unix.CLOSE_RANGE_UNSHARE)
		}()
		return <-answer
	}},
	{"lock memory", func(string) error { return unix.Mlock(make([]byte, 4096)) }},
	{"make a secret file in memory", func(string) error {
		const memfdSecret = 447 // of every architecture; golang.org/x/sys names it for some
		fd, _, failed := unix.Syscall(memfdSecret, 0, 0, 0)
		if failed != 0 {
			return failed
		}
		return unix.Close(int(fd))
	}},
	{"watch files (inotify)", func(string) error {
		fd, err := unix.InotifyInit()
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"have a timer of the kernel (timer_create)", func(string) error {
		var id int32
		_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&id)))
		if errno == 0 {
			unix.Syscall(unix.SYS_TIMER_DELETE, uintptr(id), 0, 0)
		}
		return failed(errno)
	}},
}
