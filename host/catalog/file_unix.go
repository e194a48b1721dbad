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

	"github.com/gatedlearning/moe/internal/atomicfile"
)

// nonBlocking keeps the opening of a FIFO from waiting for its writer.
const nonBlocking = unix.O_NONBLOCK

func executable(info os.FileInfo) bool { return info.Mode().Perm()&0o111 != 0 }

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

// storeLock is the name of the file beside the store that is locked by who writes the store. Its owner may write it
// and not read it, and a plugin in a sandbox may write nothing: so a plugin cannot open it, and cannot hold the lock.
const storeLock = "trusted-plugins.lock"

// lockStore waits for the lock beside the trust store, so that two programs do
// not write it at once, and creates the store if there is none.
func lockStore(ctx context.Context, path string) (unlock func(), err error) {
	if err := createStore(path); err != nil {
		return nil, err
	}
	name := filepath.Join(filepath.Dir(path), storeLock)
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|nonBlocking, 0o200)
	if err != nil {
		return nil, &atomicfile.CreateError{Path: name, Err: err}
	}
	if err := onlyToWrite(file); err != nil {
		file.Close()
		return nil, err
	}
	for end := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return func() { file.Close() }, nil
		case ctx.Err() != nil:
			file.Close()
			return nil, ctx.Err()
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end), errors.Is(err, unix.EINTR):
			continue
		}
		file.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
}

// onlyToWrite takes from a file that is there already what a plugin could open it by.
func onlyToWrite(f *os.File) error {
	info, err := f.Stat()
	if err == nil && info.Mode().Perm() != 0o200 {
		err = f.Chmod(0o200)
	}
	return err
}
