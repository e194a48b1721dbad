package expression

import "math"

// make returns o of args in a form that can be computed. What it recognises is listed
// with each operation; all hold for every z at which what was written can be computed.
func (g *graph) make(o op, args [3]ref) ref {
	a, b, c := args[0], args[1], args[2]
	if v, ok := g.fold(o, a, b); ok {
		return v
	}
	switch o {
	case opNeg:
		return g.neg(a)
	case opAdd:
		return g.add(a, b)
	case opSub:
		return g.sub(a, b)
	case opMul:
		return g.mul(a, b)
	case opDiv:
		return g.div(a, b)
	case opPow:
		return g.pow(a, b)
	case opMin, opMax:
		if a == b {
			return a
		}
	case opWhere:
		return g.where(a, b, c)
	case opLog, opLog1p, opExp, opSqrt:
		return g.inverse(o, a)
	case opGreater:
		return g.make(opLess, [3]ref{b, a, none})
	case opGreaterEqual:
		return g.make(opLessEqual, [3]ref{b, a, none})
	case opAnd, opOr, opNot:
		return g.logic(o, a, b)
	}
	if u, ok := g.arg(a, opNeg); ok {
		switch o { // even functions and odd ones
		case opAbs, opCosh, opSech2, opDensity:
			return g.raw(o, u)
		case opTanh, opSinh, opAtan, opErf, opCbrt, opSign:
			return g.neg(g.raw(o, u))
		}
	}
	return g.node(node{op: o, args: args})
}

func (g *graph) f(o op, a ref) ref { return g.make(o, [3]ref{a, none, none}) }

// fold computes o of numbers, where that is finite: what is not is left for who looks for
// it to name.
func (g *graph) fold(o op, a, b ref) (ref, bool) {
	if o == opWhere || o.logical() || a == none {
		return none, false
	}
	x, ok := g.number(a)
	y := 0.0
	if ok && b != none {
		y, ok = g.number(b)
	}
	if !ok {
		return none, false
	}
	v := o.of(x, y, 0)
	if o.compares() {
		return g.truth(v != 0), true
	}
	return g.num(v), !math.IsNaN(v) && !math.IsInf(v, 0)
}

func (g *graph) truth(v bool) ref {
	if v {
		return g.raw(opTrue)
	}
	return g.raw(opFalse)
}

// neg: −−u = u, −(u − v) = v − u.
func (g *graph) neg(a ref) ref {
	if v, ok := g.number(a); ok {
		return g.num(-v)
	}
	if u, ok := g.arg(a, opNeg); ok {
		return u
	}
	if u, v, ok := g.pair(a, opSub); ok {
		return g.sub(v, u)
	}
	return g.raw(opNeg, a)
}

// add: u + 0 = u, u + −v = u − v, exp(u) + −1 = expm1(u), u + u = 2u.
func (g *graph) add(a, b ref) ref {
	if g.is(a, 0) {
		return b
	}
	if g.is(b, 0) {
		return a
	}
	if u, ok := g.arg(b, opNeg); ok {
		return g.sub(a, u)
	}
	if u, ok := g.arg(a, opNeg); ok {
		return g.sub(b, u)
	}
	if v, ok := g.number(b); ok {
		if v < 0 {
			return g.sub(a, g.num(-v))
		}
		a, b = b, a // numbers first
	}
	if v, ok := g.number(a); ok && v < 0 {
		return g.sub(b, g.num(-v))
	}
	if a == b {
		return g.mul(g.num(2), a)
	}
	return g.raw(opAdd, a, b)
}

// sub: u − u = 0, exp(u) − 1 = expm1(u), 1 − sigmoid(u) = sigmoid(−u), 1 − tanh(u)² = sech²(u),
// softplus(u) − u = softplus(−u), 2·sigmoid(u) − 1 = tanh(u/2).
func (g *graph) sub(a, b ref) ref {
	if g.is(b, 0) {
		return a
	}
	if g.is(a, 0) {
		return g.neg(b)
	}
	if a == b {
		return g.num(0)
	}
	if u, ok := g.arg(b, opNeg); ok {
		return g.add(a, u)
	}
	if v, ok := g.number(b); ok && v < 0 {
		return g.add(a, g.num(-v))
	}
	if u, ok := g.arg(a, opExp); ok && g.is(b, 1) {
		return g.f(opExpm1, u)
	}
	if u, ok := g.arg(a, opSoftplus); ok && u == b {
		return g.f(opSoftplus, g.neg(u))
	}
	if u, ok := g.doubled(a, opSigmoid); ok && g.is(b, 1) {
		return g.f(opTanh, g.mul(g.num(0.5), u))
	}
	if g.is(a, 1) {
		if u, ok := g.doubled(b, opSigmoid); ok {
			return g.neg(g.f(opTanh, g.mul(g.num(0.5), u)))
		}
		if u, ok := g.arg(b, opExp); ok {
			return g.neg(g.f(opExpm1, u))
		}
		if u, ok := g.arg(b, opSigmoid); ok {
			return g.f(opSigmoid, g.neg(u))
		}
		if t, n, ok := g.pair(b, opPow); ok && g.is(n, 2) {
			if u, ok := g.arg(t, opTanh); ok {
				return g.f(opSech2, u)
			}
		}
	}
	return g.raw(opSub, a, b)
}

// doubled returns u of 2·o(u).
func (g *graph) doubled(r ref, o op) (ref, bool) {
	two, f, ok := g.pair(r, opMul)
	if !ok || !g.is(two, 2) {
		return none, false
	}
	return g.arg(f, o)
}

// branched is where(c, of(x), 0) of where(c, x, 0), and of the other way round: 0 has no part
// in what is not finite, as in the derivative of √max(z, 0).
func (g *graph) branched(r ref, of func(x ref) ref) (ref, bool) {
	n := g.nodes[r]
	switch {
	case n.op != opWhere:
		return none, false
	case g.is(n.args[2], 0):
		return g.where(n.args[0], of(n.args[1]), n.args[2]), true
	case g.is(n.args[1], 0):
		return g.where(n.args[0], n.args[1], of(n.args[2])), true
	}
	return none, false
}

// mul: signs go outside and numbers to the left, u·u = u², u·(1/v) = u/v.
func (g *graph) mul(a, b ref) ref {
	if _, ok := g.number(b); ok {
		a, b = b, a
	}
	if v, ok := g.number(a); ok {
		switch v {
		case 0:
			return a
		case 1:
			return b
		case -1:
			return g.neg(b)
		}
		if w, u, ok := g.pair(b, opMul); ok {
			if y, ok := g.number(w); ok && finite(v*y) && v*y != 0 {
				return g.mul(g.num(v*y), u)
			}
		}
		if u, ok := g.arg(b, opNeg); ok {
			return g.mul(g.num(-v), u)
		}
		return g.raw(opMul, a, b)
	}
	if u, ok := g.arg(a, opNeg); ok {
		return g.neg(g.mul(u, b))
	}
	if u, ok := g.arg(b, opNeg); ok {
		return g.neg(g.mul(a, u))
	}
	if v, u, ok := g.pair(a, opMul); ok { // (2u)·v = 2(u·v)
		if _, ok := g.number(v); ok {
			return g.mul(v, g.mul(u, b))
		}
	}
	if v, u, ok := g.pair(b, opMul); ok {
		if _, ok := g.number(v); ok {
			return g.mul(v, g.mul(a, u))
		}
	}
	if r, ok := g.branched(a, func(x ref) ref { return g.mul(x, b) }); ok {
		return r
	}
	if r, ok := g.branched(b, func(x ref) ref { return g.mul(a, x) }); ok {
		return r
	}
	if one, v, ok := g.pair(b, opDiv); ok && g.is(one, 1) {
		return g.div(a, v)
	}
	if one, v, ok := g.pair(a, opDiv); ok && g.is(one, 1) {
		return g.div(b, v)
	}
	if a == b {
		return g.pow(a, g.num(2))
	}
	return g.raw(opMul, a, b)
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// onePlusExp returns u of 1 + exp(u).
func (g *graph) onePlusExp(r ref) (ref, bool) {
	one, e, ok := g.pair(r, opAdd)
	if !ok || !g.is(one, 1) {
		return none, false
	}
	return g.arg(e, opExp)
}

// div: u/u = 1; u/(1 + exp(v)) = u·sigmoid(−v), exp(v)/(1 + exp(v)) = sigmoid(v), and of
// products and squares of these; sinh/cosh = tanh, in exponentials too.
func (g *graph) div(a, b ref) ref {
	switch {
	case g.is(b, 1):
		return a
	case g.is(b, -1):
		return g.neg(a)
	case g.is(a, 0):
		if v, ok := g.number(b); !ok || v != 0 {
			return a
		}
	case a == b:
		return g.num(1)
	}
	if u, ok := g.arg(a, opNeg); ok {
		return g.neg(g.div(u, b))
	}
	if u, ok := g.arg(b, opNeg); ok {
		return g.neg(g.div(a, u))
	}
	if r, ok := g.branched(a, func(x ref) ref { return g.div(x, b) }); ok {
		return r
	}
	if v, ok := g.onePlusExp(b); ok {
		return g.overOnePlusExp(a, v)
	}
	if base, n, ok := g.pair(b, opPow); ok && g.is(n, 2) {
		if v, ok := g.onePlusExp(base); ok {
			if u, ok := g.arg(a, opExp); ok && u == v {
				return g.f(opDensity, v)
			}
			return g.mul(a, g.pow(g.f(opSigmoid, g.neg(v)), n))
		}
	}
	if u, ok := g.arg(b, opCosh); ok {
		if v, ok := g.arg(a, opSinh); ok && u == v {
			return g.f(opTanh, u)
		}
	}
	if u, ok := g.twice(a, opSub); ok {
		if v, ok := g.twice(b, opAdd); ok && u == v {
			return g.f(opTanh, u)
		}
	}
	return g.raw(opDiv, a, b)
}

// twice returns u of exp(u) ± exp(−u).
func (g *graph) twice(r ref, o op) (ref, bool) {
	x, y, ok := g.pair(r, o)
	if !ok {
		return none, false
	}
	u, ok := g.arg(x, opExp)
	if !ok {
		return none, false
	}
	v, ok := g.arg(y, opExp)
	return u, ok && g.neg(u) == v
}

// overOnePlusExp is a/(1 + exp(v)).
func (g *graph) overOnePlusExp(a, v ref) ref {
	if u, ok := g.arg(a, opExp); ok && u == v {
		return g.f(opSigmoid, v)
	}
	if x, y, ok := g.pair(a, opMul); ok {
		if u, ok := g.arg(y, opExp); ok && u == v {
			return g.mul(x, g.f(opSigmoid, v))
		}
		if u, ok := g.arg(x, opExp); ok && u == v {
			return g.mul(y, g.f(opSigmoid, v))
		}
	}
	return g.mul(a, g.f(opSigmoid, g.neg(v)))
}

// pow: u^0 = 1, u^1 = u, u^−n = 1/u^n for whole n, u^½ = √u.
func (g *graph) pow(a, b ref) ref {
	n, ok := g.number(b)
	if !ok {
		return g.raw(opPow, a, b)
	}
	switch {
	case n == 0:
		return g.num(1)
	case n == 1:
		return a
	case n == 0.5:
		return g.f(opSqrt, a)
	case n < 0 && n == math.Trunc(n):
		return g.div(g.num(1), g.pow(a, g.num(-n)))
	}
	if u, ok := g.arg(a, opNeg); ok && math.Mod(n, 2) == 0 {
		return g.pow(u, b)
	}
	return g.raw(opPow, a, b)
}

// where: one branch of a condition that is known, and where both are the same;
// where(u < v, v, u) = max(u, v), and min likewise.
func (g *graph) where(c, a, b ref) ref {
	switch {
	case g.nodes[c].op == opTrue || a == b:
		return a
	case g.nodes[c].op == opFalse:
		return b
	}
	if n := g.nodes[c]; n.op == opLess || n.op == opLessEqual {
		switch u, v := n.args[0], n.args[1]; {
		case a == v && b == u:
			return g.raw(opMax, u, v)
		case a == u && b == v:
			return g.raw(opMin, u, v)
		}
	}
	return g.raw(opWhere, c, a, b)
}

// inverse: log(1 + exp(u)) = softplus(u), log(1 + u) = log1p(u), log(exp(u)) = u,
// log(sigmoid(u)) = −softplus(−u), exp(−softplus(u)) = sigmoid(−u), √u² = |u|.
func (g *graph) inverse(o op, a ref) ref {
	switch o {
	case opLog:
		if u, ok := g.onePlusExp(a); ok {
			return g.f(opSoftplus, u)
		}
		if one, u, ok := g.pair(a, opAdd); ok && g.is(one, 1) {
			return g.f(opLog1p, u)
		}
		if one, u, ok := g.pair(a, opSub); ok && g.is(one, 1) {
			return g.f(opLog1p, g.neg(u))
		}
		if u, ok := g.arg(a, opExp); ok {
			return u
		}
		if u, ok := g.arg(a, opSigmoid); ok {
			return g.neg(g.f(opSoftplus, g.neg(u)))
		}
	case opLog1p:
		if u, ok := g.arg(a, opExp); ok {
			return g.f(opSoftplus, u)
		}
	case opExp:
		if s, ok := g.arg(a, opNeg); ok {
			if u, ok := g.arg(s, opSoftplus); ok {
				return g.f(opSigmoid, g.neg(u))
			}
		}
	case opSqrt:
		if u, n, ok := g.pair(a, opPow); ok && g.is(n, 2) {
			return g.f(opAbs, u)
		}
	}
	return g.raw(o, a)
}

// logic computes what is known of conditions.
func (g *graph) logic(o op, a, b ref) ref {
	known := func(r ref, o op) bool { return r != none && g.nodes[r].op == o }
	switch o {
	case opNot:
		if known(a, opTrue) || known(a, opFalse) {
			return g.truth(known(a, opFalse))
		}
		return g.raw(opNot, a)
	case opAnd:
		if known(a, opFalse) || known(b, opFalse) {
			return g.truth(false)
		}
	case opOr:
		if known(a, opTrue) || known(b, opTrue) {
			return g.truth(true)
		}
	}
	if neutral := map[op]op{opAnd: opTrue, opOr: opFalse}[o]; known(a, neutral) {
		return b
	} else if known(b, neutral) {
		return a
	}
	return g.raw(o, a, b)
}
