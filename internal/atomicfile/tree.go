package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// TreeFile is a file of a new directory.
type TreeFile struct {
	Name string // with slashes where it stands in a directory of that
	Data []byte
	Mode fs.FileMode
}

// WriteTree makes the directory dir with these files, or leaves nothing: they are
// written beside it and get its name together. A directory that is there is a
// *[CreateError]. Its mode is 0755.
func WriteTree(dir string, files []TreeFile) error {
	if _, err := os.Lstat(dir); err == nil {
		return &CreateError{dir, fs.ErrExist}
	}
	if err := before(Mkdir, dir); err != nil {
		return &CreateError{dir, err}
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".moe-*.tmp")
	if err != nil {
		return &CreateError{dir, err}
	}
	defer os.RemoveAll(temp) // what is left after an error
	for _, f := range files {
		if err := f.write(temp, dir); err != nil {
			return &WriteError{filepath.Join(dir, f.Name), err}
		}
	}
	if err := os.Chmod(temp, 0o755); err != nil {
		return &CreateError{dir, err}
	}
	err = before(Rename, dir)
	if err == nil {
		err = os.Rename(temp, dir)
	}
	if err != nil {
		return &CreateError{dir, err}
	}
	syncDir(filepath.Dir(dir))
	return nil
}

// write writes the file to temp, which will be called dir.
func (t *TreeFile) write(temp, dir string) error {
	path := filepath.Join(dir, t.Name)
	if err := before(Open, path); err != nil {
		return err
	}
	file := filepath.Join(temp, filepath.FromSlash(t.Name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, t.Mode)
	if err != nil {
		return err
	}
	err = before(Write, path)
	if err == nil {
		_, err = f.Write(t.Data)
	}
	if err == nil {
		err = before(Sync, path)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, before(Close, path), f.Close())
}
