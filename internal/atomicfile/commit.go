package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CommitAll commits files that belong together: after an error the outputs stand
// as they were before, all of them. They take their names one after the other, so
// that a process that is killed between two leaves the first alone.
func CommitAll(files ...*File) error {
	for i, f := range files {
		if err := f.finish(); err != nil {
			for _, g := range files[:i] {
				g.remove()
			}
			for _, g := range files[i+1:] {
				g.Discard()
			}
			return err
		}
	}
	var done []*replacement
	for i, f := range files {
		r, err := f.replace(len(files) > 1)
		if err != nil {
			for _, r := range done {
				r.undo()
			}
			for _, g := range files[i:] {
				g.remove()
			}
			return f.failed(err)
		}
		done = append(done, r)
	}
	for _, r := range done {
		r.keep()
	}
	return nil
}

// replacement is an output that has its name, and what it took the place of.
type replacement struct {
	target string // "" for a device, which cannot be undone
	old    string // a second name of what was there; "" where nothing was
}

// replace gives a finished file its name. Where it may have to be undone, what it
// replaces is kept under another.
func (f *File) replace(undoable bool) (*replacement, error) {
	r := &replacement{}
	if f.temp == "" {
		return r, nil
	}
	r.target = f.target
	if undoable {
		if err := r.save(); err != nil {
			return nil, err
		}
	}
	err := before(Rename, f.path)
	if err == nil {
		err = os.Rename(f.temp, f.target)
	}
	if err != nil {
		r.undone()
		return nil, err
	}
	syncDir(filepath.Dir(f.target))
	return r, nil
}

// save gives what stands at the target a second name. Where the file system or its
// owner allows no second name the target goes without one until it is replaced.
func (r *replacement) save() error {
	old := filepath.Join(filepath.Dir(r.target), ".moe-"+rand.Text()+".tmp")
	err := before(Link, r.target)
	if err == nil {
		err = os.Link(r.target, old)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		err = os.Rename(r.target, old)
	}
	if err == nil {
		r.old = old
	}
	return err
}

// undo takes the output's name away again and puts back what was there.
func (r *replacement) undo() {
	if r.target != "" && r.old == "" {
		os.Remove(r.target)
	}
	r.undone()
}

// undone puts back what was there, if it was moved.
func (r *replacement) undone() {
	if r.old != "" {
		os.Rename(r.old, r.target)
		os.Remove(r.old) // a rename onto another name of the same file does nothing
	}
}

// keep forgets what was there.
func (r *replacement) keep() {
	if r.old != "" {
		os.Remove(r.old)
	}
}
