package export

import (
	"fmt"
	"math"
)

// lowering rewrites a program for a language that has some of the operations.
type lowering struct {
	*program
	has     func(o op) bool
	refused op // the first that is not composed of others
}

// lowered returns p in the operations that a language has: the others are composed of those, such that no digits are
// lost. Exact sums of a language without them are sums, or those of plain operations where exact says so. An operation
// that cannot be composed is an [UnsupportedError].
func (p *program) lowered(to Language, has func(o op) bool, exact bool) (*program, error) {
	l := &lowering{program: newProgram(), has: has}
	at := make([]ref, len(p.nodes))
	for i, n := range p.nodes {
		args := make([]ref, len(n.args))
		for j, a := range n.args {
			args[j] = at[a]
		}
		switch n.op {
		case opNumber, opColumn, opCode, opY, opPieces:
			n.args, n.label = args, ""
			at[i] = l.add(n)
		case opSum:
			switch {
			case has(opSum):
				at[i] = l.add(node{op: n.op, args: args, numbers: n.numbers})
			case exact:
				at[i] = l.twice(n.numbers, args)
			default:
				at[i] = l.sum(n.numbers[0], n.numbers[1:], args)
			}
		default:
			at[i] = l.do(n.op, args...)
		}
		if p.nodes[i].label != "" {
			l.named(at[i], p.nodes[i].label)
		}
	}
	if l.refused != "" {
		return nil, &UnsupportedError{
			What: fmt.Sprintf("the function %s of its activation or formula", l.refused), To: to}
	}
	out := l.program
	moved := func(refs []ref) (to []ref) {
		for _, r := range refs {
			to = append(to, at[r])
		}
		return to
	}
	out.columns, out.target, out.single, out.k, out.zero = p.columns, p.target, p.single, p.k, p.zero
	out.scale, out.sigma, out.steep = p.scale, p.sigma, p.steep
	out.gate, out.posterior = moved(p.gate), moved(p.posterior)
	out.weights, out.means = moved(p.weights), moved(p.means)
	if p.mean >= 0 {
		out.mean = at[p.mean]
	}
	return out, nil
}

// do returns o of args, or what stands for it.
func (l *lowering) do(o op, args ...ref) ref {
	if l.has(o) {
		return l.make(o, args...)
	}
	compose, ok := compositions[o]
	if !ok {
		if l.refused == "" {
			l.refused = o
		}
		return l.num(0)
	}
	return compose(l, args)
}

// composed are operations that no language of texts has.
func composed(o op) bool {
	switch o {
	case opSoftplus, opSigmoid, opSign, opSech2, opDensity, opPhi:
		return true
	}
	return false
}

// compositions are operations of others.
var compositions map[op]func(l *lowering, args []ref) ref

func init() { // they name one another
	compositions = map[op]func(l *lowering, args []ref) ref{
		opNeg:      func(l *lowering, a []ref) ref { return l.do(opSub, l.num(0), a[0]) },
		opAbs:      func(l *lowering, a []ref) ref { return l.do(opMax, a[0], l.do(opNeg, a[0])) },
		opLog1p:    log1p,
		opExpm1:    expm1,
		opSinh:     sinh,
		opCosh:     cosh,
		opCbrt:     cbrt,
		opSign:     sign,
		opPhi:      phi,
		opErf:      erf,
		opErfc:     erfc,
		opSoftplus: softplus,
		opSigmoid:  sigmoid,
		opSech2:    sech2,
		opDensity:  density,
	}
}

// log1p is log w + (u − (w − 1))/w with w = 1 + u rounded: log(1+u) to the second order in the rounding.
func log1p(l *lowering, a []ref) ref {
	w := l.do(opAdd, l.num(1), a[0])
	lost := l.do(opSub, a[0], l.do(opSub, w, l.num(1)))
	return l.do(opAdd, l.do(opLog, w), l.do(opDiv, lost, w))
}

// expm1 is 2t/(1 − t) with t = tanh(u/2) near 0, and e^u − 1 elsewhere.
func expm1(l *lowering, a []ref) ref {
	near := l.do(opMax, l.num(-1), l.do(opMin, a[0], l.num(1)))
	t := l.do(opTanh, l.do(opMul, l.num(0.5), near))
	small := l.do(opDiv, l.do(opMul, l.num(2), t), l.do(opSub, l.num(1), t))
	return l.do(opWhere, l.between(-1, a[0], 1), small, l.do(opSub, l.do(opExp, a[0]), l.num(1)))
}

// sinh is (e + e/(e + 1))/2 with e = expm1(u).
func sinh(l *lowering, a []ref) ref {
	e := l.do(opExpm1, l.do(opAbs, a[0]))
	half := l.do(opMul, l.num(0.5), l.do(opAdd, e, l.do(opDiv, e, l.do(opAdd, e, l.num(1)))))
	return l.do(opMul, l.do(opSign, a[0]), half)
}

// cosh is (e^u + e^−u)/2.
func cosh(l *lowering, a []ref) ref {
	return l.do(opMul, l.num(0.5), l.do(opAdd, l.do(opExp, a[0]), l.do(opExp, l.do(opNeg, a[0]))))
}

// cbrt is sign(u)·e^{log|u|/3} after a step of Newton's method.
func cbrt(l *lowering, a []ref) ref {
	size := l.do(opMax, l.do(opAbs, a[0]), l.num(math.SmallestNonzeroFloat64*0x1p52))
	root := l.do(opExp, l.do(opMul, l.num(1.0/3), l.do(opLog, size)))
	square := l.do(opMul, root, root)
	root = l.do(opSub, root, l.do(opDiv, l.do(opSub, root, l.do(opDiv, size, square)), l.num(3)))
	return l.do(opMul, l.do(opSign, a[0]), root)
}

func sign(l *lowering, a []ref) ref {
	below := l.do(opWhere, l.do(opLess, a[0], l.num(0)), l.num(-1), l.num(0))
	return l.do(opWhere, l.do(opLess, l.num(0), a[0]), l.num(1), below)
}

// phi is erfc(−u/√2)/2.
func phi(l *lowering, a []ref) ref {
	return l.do(opMul, l.num(0.5), l.do(opErfc, l.do(opMul, l.num(-math.Sqrt2/2), a[0])))
}

// softplus is max(u, 0) + log(1 + e^−|u|).
func softplus(l *lowering, a []ref) ref {
	power := l.do(opExp, l.do(opNeg, l.do(opAbs, a[0])))
	return l.do(opAdd, l.do(opMax, a[0], l.num(0)), l.do(opLog1p, power))
}

// sigmoid is 1/(1 + e) for u ≥ 0 and else e/(1 + e), with e = e^−|u|.
func sigmoid(l *lowering, a []ref) ref {
	e := l.do(opExp, l.do(opNeg, l.do(opAbs, a[0])))
	above := l.do(opWhere, l.do(opLess, a[0], l.num(0)), e, l.num(1))
	return l.do(opDiv, above, l.do(opAdd, l.num(1), e))
}

// sech2 is 4e/(1 + e)² with e = e^−2|u|.
func sech2(l *lowering, a []ref) ref {
	return l.do(opMul, l.num(4), l.do(opDensity, l.do(opMul, l.num(2), a[0])))
}

// density is e/(1 + e)² with e = e^−|u|.
func density(l *lowering, a []ref) ref {
	e := l.do(opExp, l.do(opNeg, l.do(opAbs, a[0])))
	w := l.do(opAdd, l.num(1), e)
	return l.do(opDiv, e, l.do(opMul, w, w))
}

// The series of erf serves up to nearErf, the continued fraction of erfc beyond it, to so many terms.
const (
	nearErf       = 2.5
	seriesTerms   = 42
	fractionTerms = 60
)

// erfSeries is erf(u) for |u| ≤ nearErf: (2/√π)·u·e^{−u²}·Σ_n (2u²)^n/(1·3·…·(2n+1)), whose terms are all above 0.
func erfSeries(l *lowering, u ref) ref {
	u = l.do(opMax, l.num(-nearErf), l.do(opMin, u, l.num(nearErf)))
	square := l.do(opMul, u, u)
	sum := l.num(1)
	for n := seriesTerms; n > 0; n-- {
		sum = l.do(opAdd, l.num(1), l.do(opMul, l.do(opMul, l.num(2/float64(2*n+1)), square), sum))
	}
	return l.do(opMul, l.do(opMul, l.num(2/math.Sqrt(math.Pi)), l.do(opMul, u, l.do(opExp, l.do(opNeg, square)))), sum)
}

// erfcFraction is erfc(u) for u ≥ nearErf: e^{−u²}/√π/(u + (1/2)/(u + 1/(u + (3/2)/(u + …)))) (Abramowitz & Stegun
// 7.1.14).
func erfcFraction(l *lowering, u ref) ref {
	u = l.do(opMax, u, l.num(nearErf))
	below := u
	for n := fractionTerms; n > 0; n-- {
		below = l.do(opAdd, u, l.do(opDiv, l.num(float64(n)/2), below))
	}
	power := l.do(opExp, l.do(opNeg, l.do(opMul, u, u)))
	return l.do(opDiv, l.do(opMul, l.num(1/math.Sqrt(math.Pi)), power), below)
}

func erf(l *lowering, a []ref) ref {
	far := l.do(opSub, l.num(1), erfcFraction(l, l.do(opAbs, a[0])))
	return l.do(opWhere, l.between(-nearErf, a[0], nearErf), erfSeries(l, a[0]), l.do(opMul, l.do(opSign, a[0]), far))
}

func erfc(l *lowering, a []ref) ref {
	far := erfcFraction(l, l.do(opAbs, a[0]))
	far = l.do(opWhere, l.do(opLess, a[0], l.num(0)), l.do(opSub, l.num(2), far), far)
	return l.do(opWhere, l.between(-nearErf, a[0], nearErf), l.do(opSub, l.num(1), erfSeries(l, a[0])), far)
}

// twice is numbers[0] + Σ_j numbers[j+1]·x_j, with the roundings of products and sums added at the end (Ogita, Rump &
// Oishi 2005).
func (l *lowering) twice(numbers []float64, x []ref) ref {
	sum, rest := l.num(numbers[0]), l.num(0)
	for j, c := range numbers[1:] {
		product := l.do(opMul, l.num(c), x[j])
		next := l.do(opAdd, sum, product)
		back := l.do(opSub, next, sum)
		lost := l.do(opAdd, l.do(opSub, sum, l.do(opSub, next, back)), l.do(opSub, product, back))
		rest = l.do(opAdd, rest, l.do(opAdd, l.productError(c, x[j], product), lost))
		sum = next
	}
	return l.do(opAdd, sum, rest)
}

// splitter is 2^27 + 1: c·splitter parts c into two halves of its digits (Veltkamp; Dekker 1971).
const splitter = 1<<27 + 1

// room is what numbers are divided by before that, such that the product is one.
const room = 1 << 30

// productError is c·x − product, of which product is the rounded value.
func (l *lowering) productError(c float64, x, product ref) ref {
	part := l.do(opMul, l.num(1.0/room), x)
	t := l.do(opMul, l.num(splitter), part)
	high := l.do(opMul, l.num(room), l.do(opSub, t, l.do(opSub, t, part)))
	low := l.do(opSub, x, high)
	scaled := float64(splitter * c)
	top := float64(scaled - float64(scaled-c))
	rest := c - top
	left := l.do(opSub, product, l.do(opMul, l.num(top), high))
	left = l.do(opSub, left, l.do(opMul, l.num(rest), high))
	left = l.do(opSub, left, l.do(opMul, l.num(top), low))
	return l.do(opSub, l.do(opMul, l.num(rest), low), left)
}
