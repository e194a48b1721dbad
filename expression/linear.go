package expression

import (
	"math/big"
	"slices"
)

// line is offset + slope·z.
type line struct{ offset, slope *big.Rat }

func (l line) at(z *big.Rat) *big.Rat {
	v := new(big.Rat).Mul(l.slope, z)
	return v.Add(v, l.offset)
}

// piecewise is a function of lines between breaks, ascending: one line more than breaks.
// What it is at a break is not said.
type piecewise struct {
	breaks []*big.Rat
	lines  []line
}

// The bounds of piecewise linear functions. What goes beyond them is bracketed.
const (
	maxPieces = 256
	maxBits   = 1 << 12 // of a break, slope or offset
	maxLines  = 4000    // of all functions of an expression
)

func constant(v *big.Rat) *piecewise {
	return &piecewise{lines: []line{{v, new(big.Rat)}}}
}

// middle returns a point in piece i.
func (p *piecewise) middle(i int) *big.Rat {
	one := big.NewRat(1, 1)
	switch n := len(p.breaks); {
	case n == 0:
		return new(big.Rat)
	case i == 0:
		return new(big.Rat).Sub(p.breaks[0], one)
	case i == n:
		return new(big.Rat).Add(p.breaks[n-1], one)
	}
	mid := new(big.Rat).Add(p.breaks[i-1], p.breaks[i])
	return mid.Mul(mid, big.NewRat(1, 2))
}

// on returns the line at z, which is no break.
func (p *piecewise) on(z *big.Rat) line {
	i, _ := slices.BinarySearchFunc(p.breaks, z, (*big.Rat).Cmp)
	return p.lines[i]
}

// small says whether p is within the bounds.
func (p *piecewise) small() bool {
	if len(p.lines) > maxPieces {
		return false
	}
	large := func(v *big.Rat) bool { return v.Num().BitLen()+v.Denom().BitLen() > maxBits }
	return !slices.ContainsFunc(p.breaks, large) &&
		!slices.ContainsFunc(p.lines, func(l line) bool { return large(l.offset) || large(l.slope) })
}

// joined returns the function that is made, between the breaks of all and more, of their
// lines there.
func joined(more []*big.Rat, of func(lines []line, middle *big.Rat) line, all ...*piecewise) *piecewise {
	out := &piecewise{breaks: slices.Clone(more)}
	for _, p := range all {
		out.breaks = append(out.breaks, p.breaks...)
	}
	slices.SortFunc(out.breaks, (*big.Rat).Cmp)
	out.breaks = slices.CompactFunc(out.breaks, func(a, b *big.Rat) bool { return a.Cmp(b) == 0 })
	lines := make([]line, len(all))
	for i := range len(out.breaks) + 1 {
		mid := out.middle(i)
		for j, p := range all {
			lines[j] = p.on(mid)
		}
		out.lines = append(out.lines, of(lines, mid))
	}
	return out
}

// scaled returns v·l + w·m.
func scaled(v *big.Rat, l line, w *big.Rat, m line) line {
	sum := func(a, b *big.Rat) *big.Rat {
		x, y := new(big.Rat).Mul(v, a), new(big.Rat).Mul(w, b)
		return x.Add(x, y)
	}
	return line{sum(l.offset, m.offset), sum(l.slope, m.slope)}
}

// combined returns v·p + w·q.
func combined(v int64, p *piecewise, w int64, q *piecewise) *piecewise {
	return joined(nil, func(l []line, _ *big.Rat) line {
		return scaled(big.NewRat(v, 1), l[0], big.NewRat(w, 1), l[1])
	}, p, q)
}

// roots lists where p is 0 in one point, or changes its sign: between two breaks, and at
// breaks.
func (p *piecewise) roots() (at []*big.Rat) {
	for i, l := range p.lines {
		if l.slope.Sign() == 0 {
			continue
		}
		z := new(big.Rat).Quo(l.offset, l.slope)
		z.Neg(z)
		if (i == 0 || z.Cmp(p.breaks[i-1]) > 0) && (i == len(p.breaks) || z.Cmp(p.breaks[i]) < 0) {
			at = append(at, z)
		}
	}
	for i, z := range p.breaks {
		left, right := p.lines[i].at(z).Sign(), p.lines[i+1].at(z).Sign()
		if left*right <= 0 && !(p.zero(i) && p.zero(i+1)) {
			at = append(at, z)
		}
	}
	return at
}

// zero says whether p is 0 on piece i.
func (p *piecewise) zero(i int) bool {
	return p.lines[i].slope.Sign() == 0 && p.lines[i].offset.Sign() == 0
}

// analyst finds the piecewise linear among the nodes of a graph.
type analyst struct {
	g     *graph
	known map[ref]*piecewise
	lines int // that were made
}

// linear returns r as a piecewise linear function, or nil where it is none, or too large
// a one.
func (a *analyst) linear(r ref) *piecewise {
	if p, ok := a.known[r]; ok {
		return p
	}
	if a.lines > maxLines {
		return nil
	}
	p := a.build(r)
	if p != nil {
		if a.lines += len(p.lines); !p.small() {
			p = nil
		}
	}
	a.known[r] = p
	return p
}

func (a *analyst) build(r ref) *piecewise {
	n := a.g.nodes[r]
	switch n.op {
	case opNumber:
		v := new(big.Rat)
		if v.SetFloat64(n.number()) == nil {
			return nil
		}
		return constant(v)
	case opZ:
		return &piecewise{lines: []line{{new(big.Rat), big.NewRat(1, 1)}}}
	case opWhere:
		return a.choice(n)
	case opNeg, opAbs, opSign, opAdd, opSub, opMul, opDiv, opMin, opMax:
	default:
		return nil
	}
	u := a.linear(n.args[0])
	if u == nil {
		return nil
	}
	switch n.op {
	case opNeg:
		return combined(-1, u, 0, u)
	case opAbs, opSign:
		return bent(n.op, u)
	}
	if v := a.linear(n.args[1]); v != nil {
		return two(n.op, u, v)
	}
	return nil
}

// bent is |u| or sign(u).
func bent(o op, u *piecewise) *piecewise {
	return joined(u.roots(), func(l []line, mid *big.Rat) line {
		sign := big.NewRat(int64(l[0].at(mid).Sign()), 1)
		if o == opSign {
			return line{sign, new(big.Rat)}
		}
		return scaled(sign, l[0], new(big.Rat), l[0])
	}, u)
}

// two is o of u and v.
func two(o op, u, v *piecewise) *piecewise {
	switch o {
	case opAdd:
		return combined(1, u, 1, v)
	case opSub:
		return combined(1, u, -1, v)
	case opMin, opMax:
		d := combined(1, u, -1, v)
		return joined(d.roots(), func(l []line, mid *big.Rat) line {
			if (l[0].at(mid).Cmp(l[1].at(mid)) >= 0) == (o == opMax) {
				return l[0]
			}
			return l[1]
		}, u, v)
	}
	var bad bool
	p := joined(nil, func(l []line, _ *big.Rat) line {
		times, of := l[0], l[1]
		if of.slope.Sign() == 0 {
			times, of = of, times
		}
		switch {
		case o == opMul && times.slope.Sign() == 0:
			return scaled(times.offset, of, new(big.Rat), of)
		case o == opDiv && l[1].slope.Sign() == 0 && l[1].offset.Sign() != 0:
			return scaled(new(big.Rat).Inv(l[1].offset), l[0], new(big.Rat), l[0])
		}
		bad = true
		return of
	}, u, v)
	if bad {
		return nil
	}
	return p
}

// choice is where(c, u, v).
func (a *analyst) choice(n node) *piecewise {
	u, v := a.linear(n.args[1]), a.linear(n.args[2])
	differences, ok := a.differences(n.args[0])
	if u == nil || v == nil || !ok {
		return nil
	}
	var more []*big.Rat
	for _, d := range differences {
		more = append(append(more, d.roots()...), d.breaks...)
	}
	if len(more) > maxPieces {
		return nil
	}
	return joined(more, func(l []line, mid *big.Rat) line {
		if a.holds(n.args[0], mid) {
			return l[0]
		}
		return l[1]
	}, u, v)
}

// differences lists u − v of the comparisons in a condition, where all are piecewise
// linear.
func (a *analyst) differences(c ref) (all []*piecewise, ok bool) {
	for _, r := range a.g.reached(c) {
		if n := a.g.nodes[r]; n.op.compares() {
			u, v := a.linear(n.args[0]), a.linear(n.args[1])
			if u == nil || v == nil {
				return nil, false
			}
			all = append(all, combined(1, u, -1, v))
		}
	}
	return all, true
}

// holds says whether a condition of piecewise linear functions holds at z, where none has a
// break.
func (a *analyst) holds(c ref, z *big.Rat) bool {
	n := a.g.nodes[c]
	switch n.op {
	case opTrue, opFalse:
		return n.op == opTrue
	case opNot:
		return !a.holds(n.args[0], z)
	case opAnd:
		return a.holds(n.args[0], z) && a.holds(n.args[1], z)
	case opOr:
		return a.holds(n.args[0], z) || a.holds(n.args[1], z)
	}
	sign := a.linear(n.args[0]).on(z).at(z).Cmp(a.linear(n.args[1]).on(z).at(z))
	switch n.op {
	case opLess:
		return sign < 0
	case opLessEqual:
		return sign <= 0
	}
	return sign == 0
}
