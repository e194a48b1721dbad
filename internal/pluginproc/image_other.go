//go:build !linux

package pluginproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gatedlearning/moe/internal/sandbox"
)

// makeCopy copies at most so many bytes into a directory of their own; more are [errTooLarge].
func makeCopy(src io.Reader, most int64) (*Image, error) {
	dir, err := newRuntimeDir()
	if err != nil {
		return nil, fmt.Errorf("no directory for a copy of it: %w", err)
	}
	path := filepath.Join(dir.path, imageName)
	file, err := writeCopy(path, src, most)
	if err != nil {
		dir.remove()
		return nil, err
	}
	return &Image{file: file, dir: dir}, nil
}

// writeCopy writes the copy, and opens it as it is kept while it is used.
func writeCopy(path string, src io.Reader, most int64) (*os.File, error) {
	dst, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(dst, io.LimitReader(src, most+1))
	if err == nil && n > most {
		err = errTooLarge
	}
	if err := errors.Join(err, dst.Close()); err != nil {
		return nil, err
	}
	return keepCopy(path)
}

// start starts what begin makes of the plugin, unless the sandbox must be strict: it is whole on Linux alone.
func (r *runner) start(begin func() error) error {
	if r.limits.Sandbox == sandbox.Strict {
		return &unconfinedError{r.missing()}
	}
	return begin()
}

// whyNot says why a plugin could not be executed.
func whyNot(err error) string { return fmt.Sprintf("it cannot be executed: %v", err) }
