package spotcheck

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// The methods of an [Asked].
const (
	Eval  = "Eval"
	Deriv = "Deriv"
)

// Asked is the g and g′ of code that is not ours: asked for a message of values at a time,
// and for some of them, which that code cannot know, again. It is safe for concurrent use where
// call is.
type Asked struct {
	source
	eval, deriv function
}

// source is where the values come from.
type source struct {
	name  string
	chunk int
	call  func(ctx context.Context, method string, dst, z []float64) error
	fault func(method, reason string, cause error) error
}

// NewAsked returns the activation of the family name that call answers for, at most chunk values
// at a time: dst may be z. What is wrong with the values is what fault makes of it; cause is
// nil or has a type.
func NewAsked(name string, chunk int, call func(ctx context.Context, method string, dst, z []float64) error,
	fault func(method, reason string, cause error) error) *Asked {
	a := &Asked{source: source{name, chunk, call, fault}}
	for _, f := range []*function{&a.eval, &a.deriv} {
		f.source, f.sample = &a.source, Sample{First: askedFirst, Later: askedLater}
	}
	a.eval.method, a.deriv.method = Eval, Deriv
	return a
}

// function is g or g′, and what it has said so far.
type function struct {
	*source
	method string
	sample Sample // of its batches

	mu       sync.Mutex
	canaries []float64 // arguments from the first batches
	sang     []float64 // the values there
}

// Eval writes g(z_i) to dst_i.
func (a *Asked) Eval(ctx context.Context, dst, z []float64) error { return a.eval.ask(ctx, dst, z) }

// Deriv writes g′(z_i) to dst_i.
func (a *Asked) Deriv(ctx context.Context, dst, z []float64) error { return a.deriv.ask(ctx, dst, z) }

// Recheck asks again for what has been drawn of the last batches of both functions,
// and for their canaries.
func (a *Asked) Recheck(ctx context.Context) error {
	for _, f := range []*function{&a.eval, &a.deriv} {
		if err := f.recheck(ctx, f.sample.Rest()); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for one message of values at a time, and copies each to dst
// when it is whole and checked: a repeated call then finds z as it was, also
// where dst is z.
func (f *function) ask(ctx context.Context, dst, z []float64) error {
	if err := sdk.CheckLengths(f.name, dst, z); err != nil {
		return err
	}
	reply := make([]float64, min(len(z), f.chunk))
	for lo := 0; lo < len(z); lo += f.chunk {
		hi := min(lo+f.chunk, len(z))
		part := reply[:hi-lo]
		if err := f.call(ctx, f.method, part, z[lo:hi]); err != nil {
			return err
		}
		for i, v := range part {
			if !numeric.Finite(v) && numeric.Finite(z[lo+i]) {
				cause := &numeric.NotFiniteError{Z: z[lo+i], Value: v}
				return f.fault(f.method, fmt.Sprintf("row %d: %v", lo+i, cause), cause)
			}
		}
		if err := f.draw(ctx, part, z[lo:hi], lo); err != nil {
			return err
		}
		copy(dst[lo:hi], part)
	}
	return nil
}

// Of a function's first 64 batches askedFirst values each are asked for again, of every
// later one askedLater: at the 1st, 2nd, 4th, 8th … and every 64th batch those of the
// batches since, and at the end the rest. That is less than a fiftieth of the work. Which
// they are the other side cannot know. With them go the canaries, some values of the
// first batches: what has become another function agrees with itself in every batch.
const (
	askedFirst = 64
	askedLater = 2

	canaryBatches = 8 // the last batch of which canaries are kept
	canaryValues  = 16
)

// draw draws some values of a batch whose first row is the given one of the call,
// and asks again for what is due.
func (f *function) draw(ctx context.Context, values, z []float64, first int) error {
	at, batch := f.sample.Draw(len(z))
	rows := make([]Row, len(at))
	for j, i := range at {
		rows[j] = Row{At: first + i, Z: z[i], Value: values[i]}
	}
	due := f.sample.Keep(batch, rows)
	if due == nil {
		return nil
	}
	if err := f.recheck(ctx, due); err != nil {
		return err
	}
	if batch <= canaryBatches {
		f.keep(due[:min(len(due), canaryValues)])
	}
	return nil
}

// keep makes canaries of rows.
func (f *function) keep(rows []Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rows {
		f.canaries, f.sang = append(f.canaries, r.Z), append(f.sang, r.Value)
	}
}

// kept returns the canaries so far.
func (f *function) kept() (z, values []float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.canaries, f.sang
}

// recheck asks again for rows, without the others of their batches, and for the
// canaries. The bits must be the same: a value depends on its z alone.
func (f *function) recheck(ctx context.Context, rows []Row) error {
	canaries, sang := f.kept()
	again := make([]float64, 0, len(rows)+len(canaries))
	for _, r := range rows {
		again = append(again, r.Z)
	}
	again = append(again, canaries...)
	for lo := 0; lo < len(again); lo += f.chunk {
		part := again[lo:min(lo+f.chunk, len(again))]
		if err := f.call(ctx, f.method, part, part); err != nil {
			return err
		}
	}
	for j, now := range again[len(rows):] {
		if math.Float64bits(now) != math.Float64bits(sang[j]) {
			return f.fault(f.method, fmt.Sprintf("%v at z = %v, but %v when it was first asked: it has become "+
				"another function", now, canaries[j], sang[j]), nil)
		}
	}
	for j, r := range rows {
		if math.Float64bits(again[j]) != math.Float64bits(r.Value) {
			return f.fault(f.method, fmt.Sprintf("row %d: %v at z = %v, but %v when it was asked again", r.At, r.Value,
				r.Z, again[j]), nil)
		}
	}
	return nil
}
