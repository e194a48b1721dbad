// Package native evaluates an activation the way inner loops need it: by a
// piecewise polynomial built once from the activation's own values.
//
// The iterations of a likelihood ask for g and g′ at ever new points. Where g
// lives in another process each block of rows would cost a round trip; a
// [Function] costs a table look-up and a polynomial of degree 7. It is built by
// [Build] from a few batches of values, checked against the activation at points
// that it was not built from, and hands everything outside its range back to the
// activation. Its [Coefficients] are a part of a model's file, so that
// predictions do without the activation.
package native

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Function is g and g′ by piecewise polynomials. A value depends on its z alone.
// It is safe for concurrent use where the activation behind it is.
type Function struct {
	coefficients *Coefficients
	value, deriv *table
	beyond       model.Activation
}

// New returns the function with coefficients c, which it keeps. Arguments
// outside their range, NaN and infinities among them, go to beyond in one batch
// a call; where beyond is nil they are an [*OutsideError]. Coefficients that
// [Coefficients.Validate] refuses are an error.
func New(c *Coefficients, beyond model.Activation) (*Function, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Function{coefficients: c, value: c.Value.compile(), deriv: c.Derivative.compile(), beyond: beyond}, nil
}

// Coefficients returns what the function is made of. It is not a copy.
func (f *Function) Coefficients() *Coefficients { return f.coefficients }

// Eval writes g(z_i) to dst_i.
func (f *Function) Eval(ctx context.Context, dst, z []float64) error {
	var beyond batch
	if f.beyond != nil {
		beyond = f.beyond.Eval
	}
	return f.value.eval(ctx, dst, z, beyond)
}

// Deriv writes g′(z_i) to dst_i.
func (f *Function) Deriv(ctx context.Context, dst, z []float64) error {
	var beyond batch
	if f.beyond != nil {
		beyond = f.beyond.Deriv
	}
	return f.deriv.eval(ctx, dst, z, beyond)
}

// OutsideError is an argument outside the range of a function that has no
// activation to turn to.
type OutsideError struct {
	Z      float64 // the first such argument
	Lo, Hi float64 // the range: Lo ≤ z < Hi
}

func (e *OutsideError) Error() string {
	return fmt.Sprintf("the approximation of the activation covers %.6g <= z < %.6g and z = %v is outside: only the "+
		"activation itself can tell its value there", e.Lo, e.Hi, e.Z)
}

// batch is one of an activation's two methods.
type batch func(ctx context.Context, dst, z []float64) error

// terms is the number of coefficients of a panel: degree 7. A panel is then about a
// cache line, and sigmoid takes a hundred of them.
const terms = 8

// table is one function ready for evaluation on lo ≤ z < hi.
type table struct {
	lo, hi float64
	pieces interface {
		// Eval writes the values at z, up to the first that is out of the range, and
		// returns how many there are.
		Eval(dst, z []float64) int
	}
}

// compile lays out a valid table for evaluation. One line or two, such as those of
// ReLU, need no search.
func (c *Table) compile() *table {
	lo, hi := c.Range()
	if n := len(c.Terms); n > 2 || slices.Max(c.Terms) > 2 {
		return &table{lo, hi, c.piecewise()}
	}
	var first, last [2]float64
	m := c.Terms[0]
	copy(first[:], c.Coefficients[:m])
	if last = first; len(c.Terms) == 2 {
		last = [2]float64{}
		copy(last[:], c.Coefficients[m:])
	}
	return &table{lo, hi, &kernel.Hinge{Lo: lo, Hi: hi, Edge: c.Edges[1], Below: first, Above: last}}
}

// piecewise lays out any valid table.
func (c *Table) piecewise() *kernel.Piecewise {
	pieces, coefficients := make([]kernel.Piece, len(c.Terms)), c.Coefficients
	for i, m := range c.Terms {
		pieces[i] = piece(c.Edges[i], c.Edges[i+1], coefficients[:m])
		coefficients = coefficients[m:]
	}
	return kernel.NewPiecewise(c.Edges[0], pieces)
}

// piece is the panel from lo to hi, as [Table] has it.
func piece(lo, hi float64, c []float64) kernel.Piece {
	p := kernel.Piece{Right: hi, Slope: 1}
	if len(c) > 2 {
		p.Centre, p.Slope = (lo+hi)/2, 2/(hi-lo)
	}
	copy(p.C[:], c)
	return p
}

// eval writes the function's values to dst, those outside the range by a single
// call of beyond.
func (t *table) eval(ctx context.Context, dst, z []float64, beyond batch) error {
	if len(dst) != len(z) {
		return fmt.Errorf("native: %d places for %d values", len(dst), len(z))
	}
	var at []int // where arguments outside the range stand
	var out []float64
	for i := t.pieces.Eval(dst, z); i < len(z); i += t.pieces.Eval(dst[i:], z[i:]) {
		at, out = append(at, i), append(out, z[i])
		i++
	}
	if len(out) == 0 {
		return nil
	}
	if beyond == nil {
		return &OutsideError{Z: out[0], Lo: t.lo, Hi: t.hi}
	}
	if err := beyond(ctx, out, out); err != nil {
		return err
	}
	for i, at := range at {
		dst[at] = out[i]
	}
	return nil
}
