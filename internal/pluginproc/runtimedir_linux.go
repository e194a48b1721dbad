package pluginproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// runtimeDir is the private directory with one plugin's socket. Its holder
// keeps a lock on it; a directory whose lock is free has been left behind by a
// program that was killed, and is removed by the next one.
type runtimeDir struct {
	path string
	lock *os.File
}

// maxBase bounds the path under which runtime directories are made: a socket's
// path has at most 107 bytes, and go-plugin appends two random names.
const maxBase = 48

// newRuntimeDir creates a runtime directory, after sweeping.
func newRuntimeDir() (*runtimeDir, error) {
	base, err := runtimeBase()
	if err != nil {
		return nil, err
	}
	sweep(base)
	for range 100 {
		path, err := os.MkdirTemp(base, "")
		if err != nil {
			return nil, err
		}
		lock, err := tryLock(path)
		if err == nil {
			return &runtimeDir{path: path, lock: lock}, nil
		}
		// Another program's sweep took it before it was locked.
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil, fmt.Errorf("%s: some other program takes every directory in it", base)
}

func (d *runtimeDir) remove() {
	removeAll(d.path)
	d.lock.Close()
}

// removeAll removes a directory and what a plugin has put there, also where it
// has taken permissions away.
func removeAll(path string) {
	if os.RemoveAll(path) == nil {
		return
	}
	filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	os.RemoveAll(path)
}

// runtimeBase returns the user's own directory for runtime directories.
func runtimeBase() (string, error) {
	base := os.Getenv("XDG_RUNTIME_DIR")
	if base == "" || len(base) > maxBase-len("/moe") || checkPrivate(base) != nil {
		base = "/tmp/moe-" + strconv.Itoa(os.Geteuid())
	} else {
		base = filepath.Join(base, "moe")
	}
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return base, checkPrivate(base)
}

// checkPrivate reports whether path is a directory of ours that others can
// neither read nor write.
func checkPrivate(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o077 != 0 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a directory that only its owner, uid %d, can use", path, os.Geteuid())
	}
	return nil
}

// sweep removes the runtime directories whose holders are gone.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if lock, err := tryLock(path); err == nil {
			removeAll(path)
			lock.Close()
		}
	}
}

// tryLock takes the lock of a directory if it is free and the directory still
// stands when it is taken. It does not wait, as opening a FIFO does.
func tryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := os.Lstat(path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
