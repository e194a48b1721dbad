package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	readFiles = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	readDirs  = unix.LANDLOCK_ACCESS_FS_READ_DIR
	// go-plugin's server makes a file for the name of its socket, and removes it.
	useSocket = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE
	useDevice = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
)

// devices are those of /dev that a plugin may open. Terminals are not among them:
// who can read one reads what is typed there. Nor is zero, of which a shared mapping is
// memory that no page table needs to have.
var devices = []string{"null", "full", "random", "urandom"}

// NewRuleset returns a Landlock ruleset under which files can be read and run,
// devices but for a few harmless ones excepted, and none written but in socketDir
// and /dev/null. It also refuses TCP, abstract sockets of others, and signals to
// others, as far as the kernel's Landlock knows of them.
func NewRuleset(k Kernel, socketDir string) (*os.File, error) {
	attr, size := rulesetAttr(k.Landlock)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("landlock_create_ruleset", errno)
	}
	ruleset := os.NewFile(fd, "landlock ruleset")
	if err := addRules(ruleset, attr.Access_fs, socketDir); err != nil {
		ruleset.Close()
		return nil, err
	}
	return ruleset, nil
}

// rulesetAttr returns all that a version of Landlock can refuse, and the size of
// the structure that it knows.
func rulesetAttr(version int) (attr unix.LandlockRulesetAttr, size uintptr) {
	attr.Access_fs = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1 // all of version 1
	size = unsafe.Offsetof(attr.Access_net)
	if version >= 2 {
		attr.Access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= landlockTruncate {
		attr.Access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= landlockTCP {
		attr.Access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size = unsafe.Offsetof(attr.Scoped)
	}
	if version >= landlockIoctl {
		attr.Access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= landlockScope {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Sizeof(attr)
	}
	return attr, size
}

func addRules(ruleset *os.File, handled uint64, socketDir string) error {
	rules := map[string]uint64{"/": readDirs, socketDir: useSocket | readDirs}
	top, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range top {
		if e.Name() != "dev" && e.Type()&fs.ModeSymlink == 0 {
			rules["/"+e.Name()] = readFiles
		}
	}
	for _, name := range devices {
		rules[filepath.Join("/dev", name)] = useDevice
	}
	for path, access := range rules {
		err := addRule(ruleset, path, access&handled)
		if err != nil && (path == socketDir || errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE)) {
			return err
		}
		// What cannot be opened cannot be read either.
	}
	return nil
}

func addRule(ruleset *os.File, path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(fd)}
	add := func() unix.Errno {
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset.Fd(), unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		return errno
	}
	errno := add()
	if errors.Is(errno, unix.EINVAL) { // a file, to which what is of directories does not apply
		rule.Allowed_access &= unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
			unix.LANDLOCK_ACCESS_FS_WRITE_FILE
		errno = add()
	}
	if errno != 0 {
		return &fs.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
	}
	return nil
}
