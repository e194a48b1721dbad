package pluginproc

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/windows"
)

// lockName is the file in a runtime directory that its holder has open, and nobody else can open.
const lockName = "lock"

// runtimeBase returns the user's own directory for runtime directories: below %LocalAppData%, which Windows keeps
// from other users.
func runtimeBase() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	base := filepath.Join(cache, "moe", "plugins")
	return base, os.MkdirAll(base, 0o700)
}

// tryLock takes the lock of a directory if it is free.
func tryLock(path string) (*os.File, error) {
	return openShared(filepath.Join(path, lockName), 0, windows.OPEN_ALWAYS)
}

// remove lets go of the directory, for Windows keeps what is open, and removes it. What does not go, such as the copy
// of a program that has not quite ended, goes when the next one is made.
func (d *runtimeDir) remove() {
	d.lock.Close()
	removeAll(d.path)
	var left []string // under Wine 8, which does not know the removal that Go asks for at first
	_ = filepath.WalkDir(d.path, func(path string, _ fs.DirEntry, err error) error {
		left = append(left, path)
		return nil
	})
	for _, path := range slices.Backward(left) {
		os.Remove(path)
	}
}

// held says whether err is that of a lock that somebody holds.
func held(err error) bool { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }
