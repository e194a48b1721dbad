package plugintest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Attack is something that a plugin may try and must not get. Try returns nil
// where it succeeds, and otherwise the kernel's answer. At is the path of the plugin's
// file; beside it stand what [Stand] has put there.
type Attack struct {
	Name string
	Try  func(at string) error
}

// Refused is the answer of an attack that failed in another way than by an answer of the kernel.
const Refused syscall.Errno = 4095

// Answer returns the kernel's answer to an attack: 0 where it succeeded.
func (a Attack) Answer(at string) syscall.Errno {
	err := a.Try(at)
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return errno
	}
	return Refused
}

// Stand puts what is attacked beside the plugin at path: a file, sockets of every kind of
// somebody else's, with paths and with abstract names, the host's process id; and somebody who
// tries for as long to reach the plugin by an abstract name. It returns what ends all that.
func Stand(path string) (done func() error, err error) {
	var fds []int
	stop, gone := make(chan struct{}), make(chan struct{})
	done = func() error {
		close(stop)
		<-gone
		for _, fd := range fds {
			unix.Close(fd)
		}
		return nil
	}
	for kind, name := range kinds {
		for _, address := range []string{path + "." + name, abstract(path, name)} {
			fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return nil, err
			}
			fds = append(fds, fd)
			if err := unix.Bind(fd, &unix.SockaddrUnix{Name: address}); err != nil {
				return nil, fmt.Errorf("%q: %w", address, err)
			}
			if kind != unix.SOCK_DGRAM {
				if err := unix.Listen(fd, 8); err != nil {
					return nil, err
				}
			}
		}
	}
	go func() {
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
				unix.Connect(fd, &unix.SockaddrUnix{Name: abstract(path, "plugin")})
				unix.Close(fd)
			}
		}
	}()
	return done, errors.Join(
		os.WriteFile(path+".victim", []byte("mine"), 0o600),
		os.WriteFile(path+".host", []byte(strconv.Itoa(os.Getpid())), 0o644))
}

// kinds are the sockets that [Stand] has, by their type.
var kinds = map[int]string{unix.SOCK_STREAM: "socket", unix.SOCK_DGRAM: "datagrams", unix.SOCK_SEQPACKET: "packets"}

// abstract is the name of a socket that is in no file system.
func abstract(at, name string) string {
	return fmt.Sprintf("@moe-%.20x-%s", sha256.Sum256([]byte(at)), name)
}

func host(at string) int {
	data, _ := os.ReadFile(at + ".host")
	pid, _ := strconv.Atoi(string(data))
	return pid
}

func socket(domain, kind int) error {
	fd, err := unix.Socket(domain, kind, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func failed(errno syscall.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// Attacks are all that are tried.
var Attacks = slices.Concat(general, sockets, attributes, others, memory)

// Chance are those whose answer without a sandbox is up to this machine's kernel, user or
// file system.
var Chance = []string{
	"be kept from /dev/null", "have capabilities", "make a user namespace", "make an io_uring", "open a terminal",
	"open the host's memory", "open a hundred files", "freeze a file (FS_IOC_ENABLE_VERITY)",
	"change a file's attributes (call 469)",
	"map large pages", "make a secret file in memory", "set an attribute of a file (setxattr)",
}

var general = []Attack{
	{"open an internet socket", func(string) error { return socket(unix.AF_INET, unix.SOCK_STREAM) }},
	{"open a version 6 socket", func(string) error { return socket(unix.AF_INET6, unix.SOCK_DGRAM) }},
	{"open a netlink socket", func(string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW) }},
	{"open a datagram socket", func(string) error { return socket(unix.AF_UNIX, unix.SOCK_DGRAM) }},
	{"connect to another's socket", func(at string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, &unix.SockaddrUnix{Name: at + ".socket"})
	}},
	{"write a file beside itself", func(at string) error { return os.WriteFile(at+".written", []byte("x"), 0o600) }},
	{"write a file in /tmp", func(string) error {
		f, err := os.CreateTemp("/tmp", "attack")
		if err == nil {
			os.Remove(f.Name())
		}
		return err
	}},
	{"write into its socket's directory", func(string) error {
		return os.WriteFile(filepath.Join(os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), "x"), []byte("x"), 0o600)
	}},
	{"overwrite a file", func(at string) error {
		f, err := os.OpenFile(at+".victim", os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"cut a file short", func(at string) error { return os.Truncate(at+".victim", 1) }},
	{"change a file's mode", func(at string) error { return os.Chmod(at+".victim", 0o666) }},
	{"change a file's times", func(at string) error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, at+".victim", make([]unix.Timespec, 2), 0)
	}},
	{"rename a file", func(at string) error {
		return errors.Join(os.Rename(at+".victim", at+".moved"), os.Rename(at+".moved", at+".victim"))
	}},
	{"make a directory", func(at string) error { return os.Mkdir(at+".dir", 0o700) }},
	{"make a link", func(at string) error { return os.Symlink("/", at+".link") }},
	{"read the host's environment", func(at string) error {
		_, err := os.ReadFile("/proc/" + strconv.Itoa(host(at)) + "/environ")
		return err
	}},
	{"open the host's memory", func(at string) error {
		f, err := os.Open("/proc/" + strconv.Itoa(host(at)) + "/mem")
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"signal the host", func(at string) error { return unix.Kill(host(at), 0) }},
	{"limit the host", func(at string) error {
		return unix.Prlimit(host(at), unix.RLIMIT_CORE, nil, new(unix.Rlimit))
	}},
	{"trace processes", func(string) error { // of which there is none that is traced
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_PEEKTEXT, uintptr(os.Getpid()), 0, 0, 0, 0)
		if errno == unix.ESRCH {
			return nil
		}
		return errno
	}},
	{"make a file in memory", func(string) error {
		fd, err := unix.MemfdCreate("x", 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}},
	{"share memory that outlives it", func(string) error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, 0o600)
		if err == nil {
			unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return err
	}},
	{"have a child in a session of its own", func(string) error { return spawn(&syscall.SysProcAttr{Setsid: true}) }},
	{"have a child in a group of its own", func(string) error { return spawn(&syscall.SysProcAttr{Setpgid: true}) }},
	{"make a user namespace", func(string) error {
		return spawn(&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER})
	}},
	{"make an io_uring", func(string) error {
		var params [120]byte
		fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)), 0)
		if errno == 0 {
			unix.Close(int(fd))
		}
		return failed(errno)
	}},
	{"refuse to die with the host", func(string) error { return unix.Prctl(unix.PR_SET_PDEATHSIG, 0, 0, 0, 0) }},
	{"open a terminal", func(string) error {
		f, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
		if err == nil {
			f.Close()
		}
		return err
	}},
	{"open a hundred files", func(string) error {
		var files []*os.File
		defer func() {
			for _, f := range files {
				f.Close()
			}
		}()
		for range 100 {
			f, err := os.Open("/")
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		return nil
	}},
	{"have capabilities", func(string) error {
		status, _ := os.ReadFile("/proc/self/status")
		if strings.Contains(string(status), "CapPrm:\t0000000000000000") {
			return errors.New("none")
		}
		return nil
	}},
	{"be kept from /dev/null", func(string) error { // which it may write, and must
		if err := os.WriteFile("/dev/null", []byte("x"), 0o600); err != nil {
			return nil
		}
		return errors.New("it may")
	}},
}

// spawn has a child.
func spawn(attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = attr
	return cmd.Run()
}
