package pluginproc

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// member is one activation of the session's family.
type member struct {
	s      *Session
	params sdk.Params
}

// Eval writes g(z_i) to dst_i.
func (m member) Eval(ctx context.Context, dst, z []float64) error {
	return m.batches(ctx, "Eval", wire.Member.Eval, dst, z)
}

// Deriv writes g′(z_i) to dst_i.
func (m member) Deriv(ctx context.Context, dst, z []float64) error {
	return m.batches(ctx, "Deriv", wire.Member.Deriv, dst, z)
}

type batchMethod func(m wire.Member, ctx context.Context, dst, z []float64) error

// batches asks for one message of values at a time, and copies each to dst
// when it is whole and checked: a repeated call then finds z as it was, also
// where dst is z.
func (m member) batches(ctx context.Context, name string, method batchMethod, dst, z []float64) error {
	if err := sdk.CheckLengths(m.s.family.Name, dst, z); err != nil {
		return err
	}
	reply := make([]float64, min(len(z), wire.Chunk))
	for lo := 0; lo < len(z); lo += wire.Chunk {
		hi := min(lo+wire.Chunk, len(z))
		part := reply[:hi-lo]
		err := m.s.call(ctx, name, func(c *wire.Client) error {
			return method(wire.Member{Client: c, Params: m.params}, ctx, part, z[lo:hi])
		})
		if err != nil {
			return err
		}
		for i, v := range part {
			if !numeric.Finite(v) && numeric.Finite(z[lo+i]) {
				cause := &numeric.NotFiniteError{Z: z[lo+i], Value: v}
				return &FaultError{Plugin: m.s.shown, Call: name, Reason: fmt.Sprintf("row %d: %v", lo+i, cause), Err: cause}
			}
		}
		if n := m.s.batches.Add(1); n&(n-1) == 0 || n%recheckEvery == 0 {
			if err := m.recheck(ctx, name, method, part, z[lo:hi], lo); err != nil {
				return err
			}
		}
		copy(dst[lo:hi], part)
	}
	return nil
}

// Of the batches the 1st, 2nd, 4th, 8th … and every 64th are checked again, at
// most recheckValues of each: less than a fiftieth of the work.
const (
	recheckEvery  = 64
	recheckValues = 64
)

// recheck asks again for some values of a batch, in another order and without
// the others. The bits must be the same: a value depends on its z alone.
func (m member) recheck(ctx context.Context, name string, method batchMethod, values, z []float64, first int) error {
	step := max(1, (len(z)+recheckValues-1)/recheckValues)
	var rows []int
	for i := len(z) - 1; i >= 0; i -= step {
		rows = append(rows, i)
	}
	again := make([]float64, len(rows))
	for j, i := range rows {
		again[j] = z[i]
	}
	err := m.s.call(ctx, name, func(c *wire.Client) error {
		return method(wire.Member{Client: c, Params: m.params}, ctx, again, again)
	})
	if err != nil {
		return err
	}
	for j, i := range rows {
		if math.Float64bits(again[j]) != math.Float64bits(values[i]) {
			return m.s.faultf(name, "row %d: %v at z = %v, but %v when it was asked again", first+i, values[i], z[i], again[j])
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
