//go:build unix

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

// maxBase bounds the path under which runtime directories are made: a socket's
// path has at most 107 bytes, and go-plugin appends two random names.
const maxBase = 48

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

// remove removes the directory, and then lets go of it.
func (d *runtimeDir) remove() {
	removeAll(d.path)
	d.lock.Close()
}

// held says whether err is that of a lock that somebody holds.
func held(err error) bool { return errors.Is(err, unix.EWOULDBLOCK) }

// checkAddress refuses what is no unix socket in dir.
func checkAddress(network, address, dir string) error {
	if network != "unix" || filepath.Dir(address) != dir {
		return fmt.Errorf("it listens at %s %s, not at a unix socket in PLUGIN_UNIX_SOCKET_DIR", quote(network),
			quote(address))
	}
	if info, err := os.Lstat(address); err != nil || info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("there is no socket at %s, where it says that it listens", quote(address))
	}
	return nil
}
