package pluginproc

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/spotcheck"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// member is one activation of the session's family.
type member struct {
	s           *Session
	params      sdk.Params
	eval, deriv *method
}

func newMember(s *Session, params sdk.Params) member {
	sample := func() spotcheck.Sample { return spotcheck.Sample{First: askedFirst, Later: askedLater} }
	return member{s, params,
		&method{name: "Eval", of: wire.Member.Eval, sample: sample()},
		&method{name: "Deriv", of: wire.Member.Deriv, sample: sample()}}
}

// method is g or g′ of a member, and what it has said so far.
type method struct {
	name string
	of   func(m wire.Member, ctx context.Context, dst, z []float64) error

	sample spotcheck.Sample // of its batches

	mu       sync.Mutex
	canaries []float64 // arguments from the first batches
	sang     []float64 // the values there
}

// Eval writes g(z_i) to dst_i.
func (m member) Eval(ctx context.Context, dst, z []float64) error {
	return m.ask(ctx, m.eval, dst, z)
}

// Deriv writes g′(z_i) to dst_i.
func (m member) Deriv(ctx context.Context, dst, z []float64) error {
	return m.ask(ctx, m.deriv, dst, z)
}

// Recheck asks again for what has been drawn of the last batches of both methods,
// and for their canaries.
func (m member) Recheck(ctx context.Context) error {
	for _, f := range []*method{m.eval, m.deriv} {
		if err := m.recheck(ctx, f, f.sample.Rest()); err != nil {
			return err
		}
	}
	return nil
}

// ask asks for one message of values at a time, and copies each to dst
// when it is whole and checked: a repeated call then finds z as it was, also
// where dst is z.
func (m member) ask(ctx context.Context, f *method, dst, z []float64) error {
	if err := sdk.CheckLengths(m.s.family.Name, dst, z); err != nil {
		return err
	}
	reply := make([]float64, min(len(z), wire.Chunk))
	for lo := 0; lo < len(z); lo += wire.Chunk {
		hi := min(lo+wire.Chunk, len(z))
		part := reply[:hi-lo]
		if err := m.call(ctx, f, part, z[lo:hi]); err != nil {
			return err
		}
		for i, v := range part {
			if !numeric.Finite(v) && numeric.Finite(z[lo+i]) {
				cause := &numeric.NotFiniteError{Z: z[lo+i], Value: v}
				return &FaultError{Plugin: m.s.shown, Call: f.name, Reason: fmt.Sprintf("row %d: %v", lo+i, cause), Err: cause}
			}
		}
		if err := m.draw(ctx, f, part, z[lo:hi], lo); err != nil {
			return err
		}
		copy(dst[lo:hi], part)
	}
	return nil
}

// call asks for one message of values.
func (m member) call(ctx context.Context, f *method, dst, z []float64) error {
	return m.s.call(ctx, f.name, func(c *wire.Client) error {
		return f.of(wire.Member{Client: c, Params: m.params}, ctx, dst, z)
	})
}

// Of a method's first 64 batches askedFirst values each are asked for again, of every
// later one askedLater: at the 1st, 2nd, 4th, 8th … and every 64th batch those of the
// batches since, and at the end the rest. That is less than a fiftieth of the work. Which
// they are the plugin cannot know. With them go the canaries, some values of the
// first batches: a plugin that has become another function agrees with itself in
// every batch.
const (
	askedFirst = 64
	askedLater = 2

	canaryBatches = 8 // the last batch of which canaries are kept
	canaryValues  = 16
)

// draw draws some values of a batch whose first row is the given one of the call,
// and asks again for what is due.
func (m member) draw(ctx context.Context, f *method, values, z []float64, first int) error {
	at, batch := f.sample.Draw(len(z))
	rows := make([]spotcheck.Row, len(at))
	for j, i := range at {
		rows[j] = spotcheck.Row{At: first + i, Z: z[i], Value: values[i]}
	}
	due := f.sample.Keep(batch, rows)
	if due == nil {
		return nil
	}
	if err := m.recheck(ctx, f, due); err != nil {
		return err
	}
	if batch <= canaryBatches {
		f.keep(due[:min(len(due), canaryValues)])
	}
	return nil
}

// keep makes canaries of rows.
func (f *method) keep(rows []spotcheck.Row) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range rows {
		f.canaries, f.sang = append(f.canaries, r.Z), append(f.sang, r.Value)
	}
}

// kept returns the canaries so far.
func (f *method) kept() (z, values []float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.canaries, f.sang
}

// recheck asks again for rows, without the others of their batches, and for the
// canaries. The bits must be the same: a value depends on its z alone.
func (m member) recheck(ctx context.Context, f *method, rows []spotcheck.Row) error {
	canaries, sang := f.kept()
	again := make([]float64, 0, len(rows)+len(canaries))
	for _, r := range rows {
		again = append(again, r.Z)
	}
	again = append(again, canaries...)
	if len(again) == 0 {
		return nil
	}
	if err := m.call(ctx, f, again, again); err != nil {
		return err
	}
	for j, now := range again[len(rows):] {
		if math.Float64bits(now) != math.Float64bits(sang[j]) {
			return m.s.faultf(f.name, "%v at z = %v, but %v when it was first asked: it has become another function", now, canaries[j], sang[j])
		}
	}
	for j, r := range rows {
		if math.Float64bits(again[j]) != math.Float64bits(r.Value) {
			return m.s.faultf(f.name, "row %d: %v at z = %v, but %v when it was asked again", r.At, r.Value, r.Z, again[j])
		}
	}
	return nil
}

// Moments asks the plugin for its moments.
func (m member) Moments(ctx context.Context) (out sdk.Moments, err error) {
	err = m.s.call(ctx, "Moments", func(c *wire.Client) (err error) {
		out, err = wire.Member{Client: c, Params: m.params}.Moments(ctx)
		return err
	})
	return out, err
}

// System asks the plugin for its linear system.
func (m member) System(ctx context.Context, sigma float64) (out sdk.System, err error) {
	err = m.s.call(ctx, "System", func(c *wire.Client) (err error) {
		out, err = wire.Member{Client: c, Params: m.params}.System(ctx, sigma)
		return err
	})
	return out, err
}
