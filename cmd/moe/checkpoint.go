package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/textfile"
)

// keepEvery is how often a long fit writes its checkpoint unasked, against what
// leaves no time to do so.
const keepEvery = 30 * time.Second

// maxCheckpoint bounds what is read and written.
const maxCheckpoint = 1 << 30

// checkpointOf is where a fit with this output keeps its checkpoint.
func checkpointOf(out string) string {
	if out == "" {
		return ""
	}
	return out + ".checkpoint"
}

// keeper keeps the checkpoints of a fit, of a type and a format, beside its output.
type keeper[C any] struct {
	path    string // "" where the fit has no output
	format  string
	save    func() (*C, error)
	since   time.Time // of the fit's begin or the last checkpoint
	resumed bool
	wrote   bool
}

func newKeeper[C any](out, format string) *keeper[C] {
	return &keeper[C]{path: checkpointOf(out), format: format, since: time.Now()}
}

// beginning is what a checkpoint of ours begins with.
func beginning(format string) []byte { return []byte("{\n  \"format\": \"" + format + "\",\n") }

// errNotOurs says that what stands where a checkpoint goes is something else.
var errNotOurs = errors.New("it is there already and no checkpoint of this version's: move it, or name another " +
	"output with -o")

// replaceable says whether a checkpoint of that format may be written to path: nothing stands
// there, or another such checkpoint. A link is what it is, not what it leads to.
func replaceable(path, format string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errNotOurs
	}
	f, err := textfile.Regular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	want := beginning(format)
	head := make([]byte, len(want))
	if _, err := io.ReadFull(f, head); err != nil || !bytes.Equal(head, want) {
		return errNotOurs
	}
	return nil
}

// read returns the checkpoint that is asked for, nil if none is.
func (k *keeper[C]) read(resume bool) (*C, error) {
	if !resume {
		return nil, nil
	}
	f, err := textfile.Regular(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; nothing to resume, run without --resume", err)
	}
	if err != nil {
		return nil, k.refused(err)
	}
	defer f.Close()
	data, err := textfile.Read(f, maxCheckpoint, func([]byte) error { return nil })
	if err != nil {
		return nil, k.refused(err)
	}
	c := new(C)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, k.refused(err)
	}
	k.resumed = true
	return c, nil
}

// refused is the error of a file that a fit cannot go on from; one of the file
// system, such as a lack of permission, stays what it is.
func (k *keeper[C]) refused(err error) error {
	if number := syscall.Errno(0); errors.As(err, &number) {
		return err
	}
	if bad := (*checkpoint.Error)(nil); errors.As(err, &bad) {
		return &dataset.Error{File: k.path, Msg: bad.Error()}
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err
	}
	return &dataset.Error{File: k.path, Msg: fmt.Sprintf("not a checkpoint (%v); run without --resume", err)}
}

// offered is called when a fit has something to keep: tests stop it there.
var offered = func() {}

// offer takes what a fit offers to keep.
func (k *keeper[C]) offer(save func() (*C, error)) {
	k.save = save
	offered()
	if k.path != "" && time.Since(k.since) > keepEvery && k.write(context.Background()) == nil {
		k.since = time.Now()
	}
}

func (k *keeper[C]) write(ctx context.Context) error {
	c, err := k.save()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if len(data) >= maxCheckpoint {
		return fmt.Errorf("it would take %d bytes, at most %d could be read again", len(data), maxCheckpoint)
	}
	if err := replaceable(k.path, k.format); err != nil { // much may have happened since the start
		return &atomicfile.CreateError{Path: k.path, Err: err}
	}
	if err := atomicfile.WriteFile(ctx, k.path, append(data, '\n')); err != nil {
		return err
	}
	k.wrote = true
	return nil
}

// keep writes the checkpoint of a fit that a signal ended, and returns the error
// to end with.
func (k *keeper[C]) keep(ctx context.Context, err error) error {
	if is[*checkpoint.Error](err) {
		return k.refused(err)
	}
	var signal *signalError
	if k.path == "" || k.save == nil || !errors.As(context.Cause(ctx), &signal) {
		return err
	}
	left := fmt.Sprintf("outputs are as they were before; the best so far is in %s, --resume goes on from there",
		k.path)
	if failed := k.write(context.WithoutCancel(ctx)); failed != nil {
		left = fmt.Sprintf("outputs are as they were before; no checkpoint could be written: %v", failed)
	}
	signal.left.Store(&left)
	return err
}

// drop removes a checkpoint that the finished fit has no more use for.
func (k *keeper[C]) drop() {
	if (k.resumed || k.wrote) && replaceable(k.path, k.format) == nil {
		os.Remove(k.path)
	}
}
