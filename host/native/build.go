package native

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/sdk"
)

const (
	// promise bounds the error of a table anywhere in its range, relative to
	// max(|f(z)|, rms of f(Z)). Panels are split until aim holds at their check
	// points, which leaves a factor of 100 above the rounding of degree 7; a
	// panel is split again where the check at fresh points finds more than
	// suspect.
	promise = 1e-12
	suspect = 5e-13
	aim     = 1e-13

	// widest is the half-width of the range on which panels are made: at 32 what
	// decays like e^−|z| has fallen below aim. An f that needs more than maxPanels
	// panels there, or fails, gets a second chance on ±narrow, which holds what
	// regressors of norm 1 make of standard normal inputs.
	widest    = 32
	narrow    = 8
	maxPanels = 2048
	maxTotal  = maxPanels + 64

	// furthest is where the lines end that continue a function which is a line
	// at the end of its panels.
	furthest = 1 << 20

	// hairline is the width, relative to max(1, |z|), at which a panel that still
	// fails must hold a jump: on any flank that is less steep than 1e13 panels
	// succeed before.
	hairline = 0x1p-44
	maxJumps = 64 // that were not declared
	attempts = 4  // at finding them, and at passing the check
)

// RoughError is an activation that panels cannot follow: it is noisy,
// oscillates fast, or is singular.
type RoughError struct {
	Name   string // of the activation
	Reason string
}

func (e *RoughError) Error() string {
	return fmt.Sprintf("activation %q cannot be approximated: %s", e.Name, e.Reason)
}

// Build returns act as a piecewise polynomial, with act behind it for arguments
// out of its range.
//
// g and g′ are interpolated separately at Chebyshev points of panels between the
// kinks that act declares, on −32 ≤ z < 32; panels that miss the activation's
// values between their nodes are halved. Where a panel that has been halved
// again and again still fails, the jump in it is sought out and becomes a kink.
// Lines are recognised and keep their own coefficients; where the outermost
// panel is one that also holds far outside, it is continued. A check at points
// of its own, between the nodes, measures the error: it is at most 1e−12 of
// max(|f(z)|, rms of f(Z)).
//
// Where that fails, ±8 is tried. Activations that are not smooth enough there
// either are a [*RoughError]; act's own errors come through unchanged, those apart
// that it repeats at the same arguments and that ±8 or a shorter line avoids.
func Build(ctx context.Context, act sdk.Activation) (*Function, error) {
	c, err := build(ctx, act, widest)
	if err != nil && ctx.Err() == nil { // too rough there, or it overflows
		nearer, again := build(ctx, act, narrow)
		switch {
		case again != nil:
			err = again
		case repeats(ctx, err):
			c, err = nearer, nil
		}
	}
	if failed := (*callError)(nil); errors.As(err, &failed) {
		err = failed.err
	}
	if err != nil {
		return nil, err
	}
	return New(c, act)
}

// callError is an error of the activation, and the call that it came from.
type callError struct {
	err  error
	eval batch
	z    []float64
}

func (e *callError) Error() string { return e.err.Error() }

// repeats reports whether err is there whenever one asks: a roughness, or the
// failure of a call that fails again. A call that now succeeds failed for another
// reason than its arguments, and that is no activation to go on with.
func repeats(ctx context.Context, err error) bool {
	failed := (*callError)(nil)
	if !errors.As(err, &failed) {
		return true
	}
	return failed.eval(ctx, make([]float64, len(failed.z)), failed.z) != nil
}

func build(ctx context.Context, act sdk.Activation, reach float64) (*Coefficients, error) {
	info := act.Info()
	kinks := slices.Clone(info.Kinks)
	for range attempts {
		value := &builder{eval: act.Eval, name: info.Name, of: "g", reach: reach, kinks: kinks}
		if err := value.build(ctx); err != nil {
			return nil, err
		}
		deriv := &builder{eval: act.Deriv, name: info.Name, of: "g'", reach: reach, kinks: kinks, loose: true}
		if err := deriv.build(ctx); err != nil {
			return nil, err
		}
		jumps := append(value.jumps, deriv.jumps...)
		if len(jumps) == 0 {
			return &Coefficients{Version: Version, Value: *value.table, Derivative: *deriv.table}, nil
		}
		kinks = append(kinks, jumps...)
		slices.Sort(kinks)
		kinks = slices.Compact(kinks)
	}
	return nil, &RoughError{info.Name, "jumps that it does not declare could not be told apart"}
}

// builder makes the table of one function f, g or g′.
type builder struct {
	eval  batch
	name  string
	of    string
	reach float64
	kinks []float64
	loose bool // the value at a kink may be either side's, or neither's

	scale float64 // rms of f(Z)
	done  []draft // panels that hold, in any order
	jumps []float64
	table *Table
}

// draft is a panel in the making.
type draft struct {
	lo, hi float64
	c      []float64 // as in Table
}

func (d *draft) panel() kernel.Piece { return piece(d.lo, d.hi, d.c) }

// tail says whether the draft is a line that continues f beyond its panels.
func (b *builder) tail(d *draft) bool { return d.lo >= b.reach || d.hi <= -b.reach }

// build sets the table, or the jumps that have to be kinks first.
func (b *builder) build(ctx context.Context) error {
	if err := b.measureScale(ctx); err != nil {
		return err
	}
	pending := b.pieces()
	for attempt := range attempts {
		if err := b.fit(ctx, pending); err != nil || len(b.jumps) > 0 {
			return err
		}
		slices.SortFunc(b.done, func(x, y draft) int {
			if x.lo < y.lo {
				return -1
			}
			return 1
		})
		if attempt == 0 {
			if err := b.extend(ctx); err != nil {
				return err
			}
		}
		if err := b.chooseSides(ctx); err != nil {
			return err
		}
		b.lay()
		passed, halves, err := b.check(ctx, attempt)
		if err != nil || passed {
			return err
		}
		pending = halves
	}
	return b.rough("a check between the nodes of its panels goes on finding differences")
}

func (b *builder) rough(format string, args ...any) error {
	return &RoughError{b.name, b.of + ": " + fmt.Sprintf(format, args...)}
}

// values returns f at z.
func (b *builder) values(ctx context.Context, z []float64) ([]float64, error) {
	f := make([]float64, len(z))
	if err := b.eval(ctx, f, z); err != nil {
		return nil, &callError{err, b.eval, z}
	}
	return f, nil
}

// lay writes the drafts to the table; neighbours on one line become one panel.
func (b *builder) lay() {
	t := &Table{Edges: []float64{b.done[0].lo}}
	var previous []float64
	for _, d := range b.done {
		if n := len(t.Edges) - 1; n > 0 && len(d.c) <= 2 && slices.Equal(d.c, previous) {
			t.Edges[n] = d.hi
			continue
		}
		t.Edges = append(t.Edges, d.hi)
		t.Terms = append(t.Terms, len(d.c))
		t.Coefficients = append(t.Coefficients, d.c...)
		previous = d.c
	}
	b.table = t
}
