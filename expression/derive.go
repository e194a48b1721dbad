package expression

import "math"

// derivative returns the derivative of r by z, where there is one: jumps have none, and at
// the kink of abs, max and min it is that of one side.
func (g *graph) derivative(r ref) ref {
	for _, at := range g.reached(r) { // arguments first: no deep recursion
		if _, ok := g.derivatives[at]; !ok && !g.nodes[at].op.condition() {
			g.derivatives[at] = g.derive(at)
		}
	}
	return g.derivatives[r]
}

// derive is the derivative of r of those of its arguments.
func (g *graph) derive(r ref) ref {
	n := g.nodes[r]
	a, b, c := n.args[0], n.args[1], n.args[2]
	d := func(r ref) ref { return g.derivatives[r] }
	switch n.op {
	case opNumber, opSign:
		return g.num(0)
	case opZ:
		return g.num(1)
	case opNeg:
		return g.neg(d(a))
	case opAdd:
		return g.add(d(a), d(b))
	case opSub:
		return g.sub(d(a), d(b))
	case opMul:
		return g.add(g.mul(d(a), b), g.mul(a, d(b)))
	case opDiv: // a′/b − (a/b)·(b′/b): with b′/b in one, large b do not overflow
		return g.sub(g.div(d(a), b), g.mul(r, g.div(d(b), b)))
	case opPow:
		return g.derivePow(r, a, b)
	case opMax:
		return g.where(g.make(opGreaterEqual, [3]ref{a, b, none}), d(a), d(b))
	case opMin:
		return g.where(g.make(opLessEqual, [3]ref{a, b, none}), d(a), d(b))
	case opAbs:
		return g.where(g.make(opGreaterEqual, [3]ref{a, g.num(0), none}), d(a), g.neg(d(a)))
	case opWhere:
		return g.where(a, d(b), d(c))
	case opLog:
		return g.div(d(a), a)
	case opLog1p:
		return g.div(d(a), g.add(g.num(1), a))
	}
	if du := d(a); !g.is(du, 0) {
		return g.mul(g.outer(n.op, r, a), du)
	}
	return g.num(0)
}

// outer is the derivative of the function o at u by u; r is o(u).
func (g *graph) outer(o op, r, u ref) ref {
	two := g.num(2)
	switch o {
	case opExp:
		return r
	case opExpm1:
		return g.f(opExp, u)
	case opSqrt:
		return g.div(g.num(0.5), r)
	case opCbrt:
		return g.div(g.num(1), g.mul(g.num(3), g.pow(r, two)))
	case opTanh:
		return g.f(opSech2, u)
	case opSech2:
		return g.mul(g.num(-2), g.mul(g.f(opTanh, u), r))
	case opSinh:
		return g.f(opCosh, u)
	case opCosh:
		return g.f(opSinh, u)
	case opAtan:
		return g.div(g.num(1), g.add(g.num(1), g.pow(u, two)))
	case opErf, opErfc:
		e := g.mul(g.num(2/math.SqrtPi), g.f(opExp, g.neg(g.pow(u, two))))
		if o == opErfc {
			return g.neg(e)
		}
		return e
	case opPhi:
		return g.mul(g.num(phi0), g.f(opExp, g.mul(g.num(-0.5), g.pow(u, two))))
	case opSoftplus:
		return g.f(opSigmoid, u)
	case opSigmoid:
		return g.f(opDensity, u)
	case opDensity: // σ(1 − σ)(1 − 2σ)
		return g.neg(g.mul(r, g.f(opTanh, g.mul(g.num(0.5), u))))
	}
	panic("expression: no derivative of " + o.String())
}

// derivePow: n·a^(n−1)·a′, a^b·log(a)·b′ of a number a, and both together.
func (g *graph) derivePow(r, a, b ref) ref {
	da, db := g.derivatives[a], g.derivatives[b]
	if n, ok := g.number(b); ok {
		return g.mul(g.mul(b, g.pow(a, g.num(n-1))), da)
	}
	grows := g.mul(r, g.mul(g.f(opLog, a), db))
	if g.is(da, 0) {
		return grows
	}
	return g.add(grows, g.mul(g.mul(b, g.pow(a, g.sub(b, g.num(1)))), da))
}
