package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// keepEvery is how often a long fit writes its checkpoint unasked, against what
// leaves no time to do so.
const keepEvery = 30 * time.Second

// keeper keeps the checkpoint of a fit beside its output.
type keeper struct {
	path    string // "" where the fit has no output
	save    func() (*host.Checkpoint, error)
	since   time.Time // of the fit's begin or the last checkpoint
	resumed bool
	wrote   bool
}

func newKeeper(out string) *keeper {
	k := &keeper{since: time.Now()}
	if out != "" {
		k.path = out + ".checkpoint"
	}
	return k
}

// read returns the checkpoint that is asked for, nil if none is.
func (k *keeper) read(resume bool) (*host.Checkpoint, error) {
	if !resume {
		return nil, nil
	}
	data, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; nothing to resume, run without --resume", err)
	}
	if err != nil {
		return nil, err
	}
	c := new(host.Checkpoint)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, &dataset.Error{File: k.path, Msg: fmt.Sprintf("not a checkpoint (%v); run without --resume", err)}
	}
	k.resumed = true
	return c, nil
}

// offer takes what a fit offers to keep.
func (k *keeper) offer(save func() (*host.Checkpoint, error)) {
	k.save = save
	if k.path != "" && time.Since(k.since) > keepEvery && k.write(context.Background()) == nil {
		k.since = time.Now()
	}
}

func (k *keeper) write(ctx context.Context) error {
	c, err := k.save()
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(ctx, k.path, append(data, '\n')); err != nil {
		return err
	}
	k.wrote = true
	return nil
}

// keep writes the checkpoint of a fit that a signal ended, and returns the error
// to end with.
func (k *keeper) keep(ctx context.Context, err error) error {
	if bad := (*host.CheckpointError)(nil); errors.As(err, &bad) {
		return &dataset.Error{File: k.path, Msg: bad.Error()}
	}
	var signal *signalError
	if k.path == "" || k.save == nil || !errors.As(context.Cause(ctx), &signal) {
		return err
	}
	left := fmt.Sprintf("outputs are as they were before; the best so far is in %s, --resume goes on from there", k.path)
	if failed := k.write(context.WithoutCancel(ctx)); failed != nil {
		left = fmt.Sprintf("outputs are as they were before; no checkpoint could be written: %v", failed)
	}
	signal.left.Store(&left)
	return err
}

// drop removes a checkpoint that the finished fit has no more use for.
func (k *keeper) drop() {
	if k.resumed || k.wrote {
		os.Remove(k.path)
	}
}
