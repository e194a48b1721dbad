//go:build unix

package catalog

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// checkWriters reports whether anybody but its owner and root may change what
// stands at path. In a directory with the sticky bit, such as /tmp, others may
// add files but not replace ours.
func checkWriters(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o022 != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("%s can be written by its group or by everybody; chmod go-w %s", path, path)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, st.Uid)
	}
	return nil
}

// lockStore waits for the lock beside the trust store, so that two programs do
// not write it at once, and creates the store if there is none.
func lockStore(path string) (unlock func(), err error) {
	if err := createStore(path); err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		dir.Close()
		return nil, fmt.Errorf("%s: no lock: %w", path, err)
	}
	return func() { dir.Close() }, nil
}
