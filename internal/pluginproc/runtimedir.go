package pluginproc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// runtimeDir is a private directory: with one plugin's socket, or with the copy of its file. Its holder
// keeps a lock on it; a directory whose lock is free has been left behind by a
// program that was killed, and is removed by the next one.
type runtimeDir struct {
	path string
	lock *os.File
}

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
		if !errors.Is(err, os.ErrNotExist) && !held(err) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil, fmt.Errorf("%s: some other program takes every directory in it", base)
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

// sweep removes the runtime directories whose holders are gone.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if lock, err := tryLock(path); err == nil {
			(&runtimeDir{path, lock}).remove()
		}
	}
}
