// Package atomicfile writes files that are whole or not there: the bytes go to
// a temporary file beside the output, on Linux one without a name, are synced,
// and take the output's name in one rename.
package atomicfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// CreateError says that an output cannot be created: its directory is missing
// or read-only, or its name is a directory's.
type CreateError struct {
	Path string
	Err  error
}

func (e *CreateError) Error() string {
	return fmt.Sprintf("%s: cannot be created: %v", e.Path, reason(e.Err))
}

func (e *CreateError) Unwrap() error { return e.Err }

// reason strips the name of the temporary file, which tells the reader nothing.
func reason(err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return pe.Err
	}
	if le := (*os.LinkError)(nil); errors.As(err, &le) {
		return le.Err
	}
	return err
}

// WriteError says that an output could not be written to its end, as when the
// disk is full. What stood under the name before stands there still.
type WriteError struct {
	Path string
	Err  error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("%s: write failed, nothing was changed: %v", e.Path, reason(e.Err))
}

func (e *WriteError) Unwrap() error { return e.Err }

// File is an output under way. It is an io.Writer and io.WriterAt; [File.Commit]
// gives it its name and [File.Discard] removes it.
type File struct {
	path   string // as the caller wrote it
	target string // what is replaced: path with symbolic links resolved
	temp   string // "" where the target is a device or a pipe, written in place
	named  bool   // whether temp exists; a file without a name gets it at the end
	ctx    context.Context
	stop   func() bool

	mu   sync.Mutex // guards f against Discard on cancellation
	f    *os.File
	done bool
}

// Create starts writing path. When ctx ends before Commit the temporary file
// is removed at once, whatever the writer is doing. An existing file's
// permissions are kept. A path that names a device or a pipe is written in
// place. Errors are *[CreateError].
func Create(ctx context.Context, path string) (*File, error) {
	file, err := open(ctx, path)
	if err != nil {
		return nil, &CreateError{path, err}
	}
	file.mu.Lock()
	defer file.mu.Unlock()
	file.stop = context.AfterFunc(ctx, file.Discard)
	return file, nil
}

func open(ctx context.Context, path string) (*File, error) {
	file := &File{path: path, target: path, ctx: ctx}
	if err := before(Open, path); err != nil {
		return nil, err
	}
	if t, err := filepath.EvalSymlinks(path); err == nil {
		file.target = t
	}
	mode := fs.FileMode(0o666)
	info, err := os.Stat(file.target)
	switch {
	case err == nil && info.IsDir():
		return nil, errors.New("it is a directory")
	case err == nil && !info.Mode().IsRegular():
		file.f, err = os.OpenFile(file.target, os.O_WRONLY, 0)
		return file, err
	case err == nil:
		mode = info.Mode().Perm()
	case !errors.Is(err, fs.ErrNotExist): // such as a name that is too long
		return nil, err
	}
	file.temp = filepath.Join(filepath.Dir(file.target), ".moe-"+rand.Text()+".tmp")
	if file.f = openUnnamed(filepath.Dir(file.target), mode); file.f != nil {
		return file, nil
	}
	file.named = true
	file.f, err = os.OpenFile(file.temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
	return file, err
}

// Check reports whether path can be created, by creating and removing a
// temporary file in its directory: a long computation asks before it starts.
// Errors are *[CreateError].
func Check(path string) error {
	f, err := Create(context.Background(), path)
	if err != nil {
		return err
	}
	f.Discard()
	return nil
}

// WriteFile replaces path by data.
func WriteFile(ctx context.Context, path string, data []byte) error {
	f, err := Create(ctx, path)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// Write appends p to the file. Errors are *[WriteError], or the context's.
func (f *File) Write(p []byte) (int, error) {
	if cause := context.Cause(f.ctx); cause != nil {
		return 0, cause
	}
	if err := before(Write, f.path); err != nil {
		return 0, f.failed(err)
	}
	n, err := f.f.Write(p)
	return n, f.failed(err)
}

// WriteAt writes p at offset off.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if err := before(Write, f.path); err != nil {
		return 0, f.failed(err)
	}
	n, err := f.f.WriteAt(p, off)
	return n, f.failed(err)
}

// failed names the output in an error; a file that was discarded because the
// context ended fails with the context's error.
func (f *File) failed(err error) error {
	if err == nil {
		return nil
	}
	if cause := context.Cause(f.ctx); cause != nil {
		return cause
	}
	return &WriteError{f.path, err}
}

// Commit syncs the file and gives it its name, replacing what was there. After
// an error nothing is left behind.
func (f *File) Commit() error { return CommitAll(f) }

// finish syncs and closes the file, which has a name of its own then, ready to be
// given the output's. After an error nothing is left of it.
func (f *File) finish() (err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return f.failed(os.ErrClosed)
	}
	f.done = true
	f.stop()
	if cause := context.Cause(f.ctx); cause != nil {
		f.f.Close()
		f.remove()
		return cause
	}
	if err := errors.Join(f.settle(), f.close()); err != nil {
		f.remove()
		return f.failed(err)
	}
	return nil
}

// settle makes the bytes durable and gives them a name.
func (f *File) settle() error {
	if f.temp == "" {
		return nil
	}
	if err := before(Sync, f.path); err != nil {
		return err
	}
	if err := f.f.Sync(); err != nil {
		return err
	}
	if f.named {
		return nil
	}
	if err := before(Link, f.path); err != nil {
		return err
	}
	if err := name(f.f, f.temp); err != nil {
		return err
	}
	f.named = true
	return nil
}

func (f *File) close() error {
	if err := before(Close, f.path); err != nil {
		f.f.Close()
		return err
	}
	return f.f.Close()
}

// Discard removes the file unless it was committed; it may be called at any
// time, also after Commit.
func (f *File) Discard() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return
	}
	f.done = true
	f.stop()
	f.f.Close()
	f.remove()
}

func (f *File) remove() {
	if f.named {
		os.Remove(f.temp)
	}
}
