//go:build unix

package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// nonBlocking keeps the opening of a FIFO from waiting for its writer.
const nonBlocking = unix.O_NONBLOCK

// checkWriters reports whether anybody but its owner and root may change what
// is at path, of which info is known. In a directory with the sticky bit, such
// as /tmp, others may add files but not replace ours.
func checkWriters(path string, info os.FileInfo) error {
	sticky := info.IsDir() && info.Mode()&os.ModeSticky != 0
	if info.Mode().Perm()&0o022 != 0 && !sticky {
		return fmt.Errorf("%s can be written by its group or by everybody; chmod go-w %s", path, path)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user (uid %d)", path, st.Uid)
	}
	return nil
}

// lockPatience is how long a program waits for another that writes the store,
// which takes milliseconds.
const lockPatience = 5 * time.Second

// lockStore waits for the lock beside the trust store, so that two programs do
// not write it at once, and creates the store if there is none.
func lockStore(ctx context.Context, path string) (unlock func(), err error) {
	if err := createStore(path); err != nil {
		return nil, err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { dir.Close() }, nil
		case ctx.Err() != nil:
			dir.Close()
			return nil, ctx.Err()
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end), errors.Is(err, unix.EINTR):
			continue
		}
		dir.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
}
