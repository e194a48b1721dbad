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
	"math"

	"github.com/gatedlearning/moe/host/model"
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
	return fmt.Sprintf("the approximation of the activation covers %.6g <= z < %.6g and z = %v is outside: only the activation itself can tell its value there", e.Lo, e.Hi, e.Z)
}

// batch is one of an activation's two methods.
type batch func(ctx context.Context, dst, z []float64) error

const (
	// terms is the number of coefficients of a panel: degree 7. A panel is then
	// about a cache line, and sigmoid takes a hundred of them.
	terms = 8
	// perUnit cells of equal width to a unit of z lead to the panel; a power of
	// two, so that z·perUnit is exact and no z is taken for its neighbour's cell.
	perUnit = 64
	// cells reach from −widest to widest; beyond stand two more, one on each side.
	cells = 2 * widest * perUnit
)

// panel is p(t) = Σ c_j·t^j with t = (z − centre)·slope, up to the next panel at
// right. A panel of at most two terms has t = z: lines keep their exact
// coefficients.
type panel struct {
	right, centre, slope float64
	c                    [terms]float64
}

// at returns p(z).
func (p *panel) at(z float64) float64 {
	t := (z - p.centre) * p.slope
	t2 := t * t
	c := &p.c
	return (c[0] + c[1]*t) + t2*((c[2]+c[3]*t)+t2*((c[4]+c[5]*t)+t2*(c[6]+c[7]*t)))
}

// table is one function ready for evaluation on lo ≤ z < hi.
type table struct {
	lo, hi float64
	lines  bool // no panel has more than two terms
	panels []panel
	index  []uint16 // the panel in which each cell begins
}

// compile lays out a valid table for evaluation.
func (c *Table) compile() *table {
	n := len(c.Terms)
	t := &table{lo: c.Edges[0], hi: c.Edges[n], lines: true, panels: make([]panel, n), index: make([]uint16, cells+2)}
	coefficients := c.Coefficients
	for i, m := range c.Terms {
		t.panels[i] = newPanel(c.Edges[i], c.Edges[i+1], coefficients[:m])
		coefficients = coefficients[m:]
		t.lines = t.lines && m <= 2
	}
	p := 0
	for i := 1; i < len(t.index); i++ {
		z := float64(i-1-cells/2) / perUnit
		for p < n-1 && z >= t.panels[p].right {
			p++
		}
		t.index[i] = uint16(p)
	}
	return t
}

func newPanel(lo, hi float64, c []float64) panel {
	p := panel{right: hi, slope: 1}
	if len(c) > 2 {
		p.centre, p.slope = (lo+hi)/2, 2/(hi-lo)
	}
	copy(p.c[:], c)
	return p
}

// find returns the panel of z, lo ≤ z < hi.
func (t *table) find(z float64) *panel {
	cell := int(math.Floor(z * perUnit))
	p := int(t.index[min(max(cell, -cells/2-1), cells/2)+cells/2+1])
	for z >= t.panels[p].right {
		p++
	}
	return &t.panels[p]
}

// eval writes the function's values to dst, those outside the range by a single
// call of beyond.
func (t *table) eval(ctx context.Context, dst, z []float64, beyond batch) error {
	if len(dst) != len(z) {
		return fmt.Errorf("native: %d places for %d values", len(dst), len(z))
	}
	var out strays
	switch {
	case t.lines && len(t.panels) <= 2:
		t.evalHinge(dst, z, &out)
	case t.lines:
		t.evalLines(dst, z, &out)
	default:
		t.evalCurves(dst, z, &out)
	}
	if len(out.z) == 0 {
		return nil
	}
	if beyond == nil {
		return &OutsideError{Z: out.z[0], Lo: t.lo, Hi: t.hi}
	}
	if err := beyond(ctx, out.z, out.z); err != nil {
		return err
	}
	for i, at := range out.at {
		dst[at] = out.z[i]
	}
	return nil
}

// strays are the arguments outside the range and where they stood.
type strays struct {
	at []int
	z  []float64
}

func (s *strays) add(i int, z float64) { s.at, s.z = append(s.at, i), append(s.z, z) }

// evalHinge is for one line or two, such as those of ReLU, of which it chooses by
// the sign of the distance to the edge between them: a branch would be mispredicted
// at half of all z. Adding 0 makes the distance of −0 to 0 positive.
func (t *table) evalHinge(dst, z []float64, out *strays) {
	lo, hi, edge := t.lo, t.hi, t.panels[0].right
	first, last := &t.panels[0].c, &t.panels[len(t.panels)-1].c
	intercept, slope := [2]float64{last[0], first[0]}, [2]float64{last[1], first[1]}
	dst = dst[:len(z)]
	for i, v := range z {
		if !(v >= lo && v < hi) {
			out.add(i, v)
			continue
		}
		below := math.Float64bits(v-edge+0) >> 63
		dst[i] = intercept[below] + slope[below]*v
	}
}

func (t *table) evalLines(dst, z []float64, out *strays) {
	lo, hi := t.lo, t.hi
	for i, v := range z {
		if !(v >= lo && v < hi) {
			out.add(i, v)
			continue
		}
		p := t.find(v)
		dst[i] = p.c[0] + p.c[1]*v
	}
}

func (t *table) evalCurves(dst, z []float64, out *strays) {
	lo, hi := t.lo, t.hi
	for i, v := range z {
		if !(v >= lo && v < hi) {
			out.add(i, v)
			continue
		}
		dst[i] = t.find(v).at(v)
	}
}
