package atomicfile

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a file in dir that has no name yet: one that is killed with
// its writer leaves nothing behind. It returns nil where the file system has no
// such files.
func openUnnamed(dir string, mode fs.FileMode) *os.File {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		return nil // a name is given through it
	}
	f, err := os.OpenFile(dir, unix.O_TMPFILE|os.O_RDWR, mode)
	if err != nil {
		return nil
	}
	return f
}

// name gives an unnamed file its first name.
func name(f *os.File, path string) error {
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, path,
		unix.AT_SYMLINK_FOLLOW)
}
