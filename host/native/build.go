package native

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

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

func (d *draft) panel() panel { return newPanel(d.lo, d.hi, d.c) }

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

// numScalePoints is how many points [scalePoints] returns.
const numScalePoints = 257

// scalePoints returns the points on ±4 at which [rms] takes values.
func scalePoints() []float64 {
	z := make([]float64, numScalePoints)
	for i := range z {
		z[i] = -4 + 8*float64(i)/(numScalePoints-1)
	}
	return z
}

// rms returns the root of E[f(Z)²] by trapezoids: a scale, not a moment.
func rms(z, f []float64) float64 {
	var sum, weights float64
	for i, v := range z {
		w := math.Exp(-v * v / 2)
		sum += w * f[i] * f[i]
		weights += w
	}
	return math.Sqrt(sum / weights)
}

// measureScale sets the rms of f(Z).
func (b *builder) measureScale(ctx context.Context) error {
	z := scalePoints()
	f, err := b.values(ctx, z)
	if err != nil {
		return err
	}
	if b.scale = rms(z, f); !finite(b.scale) {
		return b.rough("it is not finite, or too large, somewhere in -4 <= z <= 4")
	}
	return nil
}

// excess returns |p − f| relative to max(|f|, scale), +Inf where p or f is not
// finite.
func excess(p, f, scale float64) float64 {
	switch {
	case !finite(p) || !finite(f):
		return math.Inf(1)
	case p == f:
		return 0
	}
	return math.Abs(p-f) / max(math.Abs(f), scale)
}

func (b *builder) excess(p, f float64) float64 { return excess(p, f, b.scale) }

// pieces returns the range cut at the kinks.
func (b *builder) pieces() []draft {
	var out []draft
	lo := -b.reach
	for _, k := range b.kinks {
		if k > lo && k < b.reach {
			out = append(out, draft{lo: lo, hi: k})
			lo = k
		}
	}
	return append(out, draft{lo: lo, hi: b.reach})
}

// chebyshev holds the nodes cos(π(2j+1)/16) of a panel, and the points at which
// it is checked: the extrema of T8, cos(πj/8), where the error of interpolation
// is largest, without the ends.
type chebyshev struct {
	nodes  [terms]float64
	checks [terms - 1]float64
}

func newChebyshev() *chebyshev {
	c := new(chebyshev)
	for j := range c.nodes {
		c.nodes[j] = math.Cos(math.Pi * (2*float64(j) + 1) / (2 * terms))
	}
	for j := range c.checks {
		c.checks[j] = math.Cos(math.Pi * float64(j+1) / terms)
	}
	return c
}

// interpolate returns the coefficients of the polynomial in t, as a panel from lo
// to hi has it, through (z_j, f_j): by divided differences at the z_j as rounding
// left them, which on a steep flank are not the nodes that were meant.
func interpolate(lo, hi float64, z, f []float64) []float64 {
	centre, scale := (lo+hi)/2, 2/(hi-lo)
	var t, d [terms]float64
	for j := range t {
		t[j], d[j] = (z[j]-centre)*scale, f[j]
	}
	for order := 1; order < terms; order++ {
		for j := terms - 1; j >= order; j-- {
			d[j] = (d[j] - d[j-1]) / (t[j] - t[j-order])
		}
	}
	c := make([]float64, terms)
	for j := terms - 1; j >= 0; j-- { // c ← c·(t − t_j) + d_j
		for i := terms - 1; i > 0; i-- {
			c[i] = c[i-1] - t[j]*c[i]
		}
		c[0] = d[j] - t[j]*c[0]
	}
	return c
}

// points of a panel: the nodes, two more that determine a line, the checks and
// the two ends.
const points = terms + 2 + (terms - 1) + 2

// points appends the points of a panel to z.
func (c *chebyshev) points(z []float64, d draft) []float64 {
	centre, half := (d.lo+d.hi)/2, (d.hi-d.lo)/2
	for _, x := range c.nodes {
		z = append(z, centre+half*x)
	}
	p0, p1 := linePoints(d.lo, d.hi)
	z = append(z, p0, p1)
	for _, x := range c.checks {
		z = append(z, centre+half*x)
	}
	return append(z, math.Nextafter(d.lo, d.hi), math.Nextafter(d.hi, d.lo))
}

// linePoints returns two points of a panel that determine a line: where they
// can, ±2^e and ±2^(e+1), at which s·z keeps every bit of s.
func linePoints(lo, hi float64) (p0, p1 float64) {
	far := hi
	if -lo > hi {
		far = lo
	}
	_, e := math.Frexp(math.Abs(far))
	p1 = math.Copysign(math.Ldexp(0.5, e-1), far)
	if p0 = p1 / 2; p0 > lo && p0 < hi && p1 > lo && p1 < hi {
		return p0, p1
	}
	return lo + (hi-lo)/4, hi - (hi-lo)/4
}

// line returns the line with the given slope through the point nearest to 0,
// where the intercept has most of its bits.
func line(z, f []float64, slope float64) []float64 {
	near := 0
	for j, v := range z {
		if math.Abs(v) < math.Abs(z[near]) {
			near = j
		}
	}
	if slope == 0 {
		return []float64{f[near]}
	}
	return []float64{f[near] - slope*z[near], slope}
}

// fit halves the pending panels until all of them hold.
func (b *builder) fit(ctx context.Context, pending []draft) error {
	cheb := newChebyshev()
	for len(pending) > 0 {
		if len(pending)+len(b.done) > maxPanels {
			return b.rough("%d panels on -%v <= z < %v do not suffice", maxPanels, b.reach, b.reach)
		}
		z := make([]float64, 0, points*len(pending))
		for _, d := range pending {
			z = cheb.points(z, d)
		}
		f, err := b.values(ctx, z)
		if err != nil {
			return err
		}
		var next []draft
		for i, d := range pending {
			z, f := z[i*points:(i+1)*points], f[i*points:(i+1)*points]
			if b.holds(&d, z, f) {
				b.done = append(b.done, d)
				continue
			}
			mid := (d.lo + d.hi) / 2
			if d.hi-d.lo > hairline*max(1, math.Abs(mid)) {
				next = append(next, draft{lo: d.lo, hi: mid}, draft{lo: mid, hi: d.hi})
				continue
			}
			if err := b.seekJump(ctx, d, f[points-2], f[points-1]); err != nil {
				return err
			}
		}
		pending = next
	}
	return nil
}

// holds sets the coefficients of d and reports whether they give f at all its
// points: a line if one does.
func (b *builder) holds(d *draft, z, f []float64) bool {
	if b.straight(d, z, f, terms) {
		return true
	}
	d.c = interpolate(d.lo, d.hi, z[:terms], f[:terms])
	return b.worst(d.panel(), z, f) <= aim
}

// straight reports whether a line gives f at all points and sets it: with the
// slope between points i and i+1, or that slope rounded to 45 bits, which undoes
// what the rounding of f has done to a slope such as 1, whichever is nearer.
func (b *builder) straight(d *draft, z, f []float64, i int) bool {
	slope := (f[i+1] - f[i]) / (z[i+1] - z[i])
	mantissa, exponent := math.Frexp(slope)
	least := math.Inf(1)
	for _, s := range []float64{slope, math.Ldexp(math.Round(math.Ldexp(mantissa, 45)), exponent-45)} {
		c := line(z, f, s)
		p := newPanel(d.lo, d.hi, c)
		if e := b.worst(p, z, f); e < least {
			least, d.c = e, c
		}
	}
	return least <= aim
}

func (b *builder) worst(p panel, z, f []float64) float64 {
	e := 0.0
	for i, v := range z {
		e = max(e, b.excess(p.at(v), f[i]))
	}
	return e
}

// seekJump finds the jump in a hairline panel, at whose ends f has the values
// left and right, by bisection down to neighbouring numbers. Next to a kink that
// is known already it is no jump but a singularity.
func (b *builder) seekJump(ctx context.Context, d draft, left, right float64) error {
	near := 2 * hairline * max(1, math.Abs(d.lo))
	if slices.ContainsFunc(b.kinks, func(k float64) bool { return math.Abs(k-d.lo) <= near }) {
		return b.rough("it is singular at z = %.6g", d.lo)
	}
	if len(b.jumps) == maxJumps {
		return b.rough("it has more than %d jumps, such as at z = %.6g", maxJumps, d.lo)
	}
	lo, hi := d.lo, d.hi
	for range 64 {
		mid := (lo + hi) / 2
		if mid == lo || mid == hi {
			break
		}
		f, err := b.values(ctx, []float64{mid})
		if err != nil {
			return err
		}
		if math.Abs(f[0]-left) <= math.Abs(f[0]-right) {
			lo = mid
		} else {
			hi = mid
		}
	}
	if lo < 0 && hi > 0 {
		hi = 0
	}
	b.jumps = append(b.jumps, hi)
	return nil
}

// extend continues f beyond the panels where it goes on as a line. Nothing has
// asked for values that far out, so an activation that overflows there and fails
// is left alone.
func (b *builder) extend(ctx context.Context) error {
	first, last := b.done[0], b.done[len(b.done)-1]
	if left := b.continued(ctx, first, -1); left != nil {
		b.done = append([]draft{*left}, b.done...)
	}
	if right := b.continued(ctx, last, 1); right != nil {
		b.done = append(b.done, *right)
	}
	return ctx.Err()
}

// continued returns the longest line that continues f on the side of sign, or
// nil: that of the outermost panel, if it is one, or another. It is sought from
// the panels outwards and ends before the first kink.
func (b *builder) continued(ctx context.Context, outermost draft, sign float64) *draft {
	var best *draft
	for end := 16 * b.reach; !b.kinked(sign, end); end = min(16*end, furthest) {
		d := draft{lo: b.reach, hi: end}
		if sign < 0 {
			d = draft{lo: -end, hi: -b.reach}
		}
		z0, z1 := linePoints(d.lo, d.hi)
		z := append([]float64{z0, z1}, b.spread(d, 8, 0)...)
		f, err := b.values(ctx, z)
		if err != nil {
			return best
		}
		d.c = outermost.c
		if (len(d.c) > 2 || b.worst(d.panel(), z, f) > aim) && !b.straight(&d, z, f, 0) {
			return best
		}
		best = &d
		if end == furthest {
			break
		}
	}
	return best
}

// kinked says whether there is a kink between the panels and end, on the side of
// sign.
func (b *builder) kinked(sign, end float64) bool {
	return slices.ContainsFunc(b.kinks, func(k float64) bool { return sign*k >= b.reach && sign*k <= end })
}

// spread returns points of a tail, perOctave to each doubling of z.
func (b *builder) spread(d draft, perOctave int, offset float64) []float64 {
	near, far := d.lo, d.hi
	if d.hi < 0 {
		near, far = d.hi, d.lo
	}
	n := int(math.Log2(far/near)) * perOctave
	z := make([]float64, n)
	for i := range z {
		z[i] = near * math.Pow(far/near, (float64(i)+0.5+offset)/float64(n+1))
	}
	return z
}

// chooseSides gives every kink to the panel whose limit is f's value there, the
// right one if both are.
func (b *builder) chooseSides(ctx context.Context) error {
	var at []int
	var z []float64
	for i := range b.done[1:] {
		if lo := b.done[i+1].lo; slices.Contains(b.kinks, lo) && b.done[i].hi == lo {
			at, z = append(at, i), append(z, lo)
		}
	}
	if len(z) == 0 {
		return nil
	}
	f, err := b.values(ctx, z)
	if err != nil {
		return err
	}
	for j, i := range at {
		left, right := b.done[i].panel(), b.done[i+1].panel()
		switch {
		case b.excess(right.at(z[j]), f[j]) <= promise:
		case b.excess(left.at(z[j]), f[j]) <= promise:
			edge := math.Nextafter(z[j], math.Inf(1))
			b.done[i].hi, b.done[i+1].lo = edge, edge
		case !b.loose:
			return b.rough("its value at the kink z = %.6g is the limit of neither side", z[j])
		}
	}
	return nil
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

// check compares the table with f at points that differ from attempt to
// attempt: 6144 between −8 and 8, 2048 on the whole range, three in every panel
// and eight to an octave beyond. If it finds nothing suspect it sets the table's
// error; else it takes the panels that are suspect from the drafts and returns
// their halves.
func (b *builder) check(ctx context.Context, attempt int) (passed bool, halves []draft, err error) {
	z := b.fresh(attempt)
	f, err := b.values(ctx, z)
	if err != nil {
		return false, nil, err
	}
	compiled := b.table.compile()
	bad := map[int]bool{}
	worst := 0.0
	for i, v := range z {
		e := b.excess(compiled.find(v).at(v), f[i])
		if e > suspect {
			bad[b.draftOf(v)] = true
		}
		worst = max(worst, e)
	}
	if len(bad) == 0 {
		b.table.Error = worst
		return true, nil, nil
	}
	var keep []draft
	for i, d := range b.done {
		switch {
		case !bad[i]:
			keep = append(keep, d)
		case !b.tail(&d):
			mid := (d.lo + d.hi) / 2
			halves = append(halves, draft{lo: d.lo, hi: mid}, draft{lo: mid, hi: d.hi})
		}
	}
	b.done = keep
	return false, halves, nil
}

// fresh returns the points of a check: Weyl sequences of the golden ratio,
// shifted from attempt to attempt.
func (b *builder) fresh(attempt int) []float64 {
	const golden = 0.6180339887498949
	shift := 0.37 * float64(attempt+1)
	weyl := func(i int) float64 { _, x := math.Modf(float64(i)*golden + shift); return x }
	var z []float64
	for i := range 6144 {
		z = append(z, narrow*(2*weyl(i)-1))
	}
	for i := range 2048 {
		z = append(z, b.reach*(2*weyl(i)-1))
	}
	for _, d := range b.done {
		if b.tail(&d) {
			z = append(z, b.spread(d, 8, 0.4*weyl(attempt))...)
			continue
		}
		for i := range 3 {
			if v := d.lo + (d.hi-d.lo)*weyl(i); v > d.lo && v < d.hi {
				z = append(z, v)
			}
		}
	}
	return z
}

// draftOf returns the index of the draft that holds z.
func (b *builder) draftOf(z float64) int {
	i, _ := slices.BinarySearchFunc(b.done, z, func(d draft, z float64) int {
		if d.hi <= z {
			return -1
		}
		return 1
	})
	return i
}
