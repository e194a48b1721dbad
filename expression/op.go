package expression

import "math"

// op is an operation of a text, or of what becomes of it.
type op uint8

const (
	opNumber op = iota
	opZ
	opParameter // of texts alone
	opTrue
	opFalse

	opNeg
	opAdd
	opSub
	opMul
	opDiv
	opPow
	opMin
	opMax
	opWhere

	opExp
	opLog
	opLog1p
	opExpm1
	opSqrt
	opCbrt
	opAbs
	opTanh
	opSinh
	opCosh
	opAtan
	opErf
	opErfc
	opPhi // of N(0,1)
	opSoftplus
	opSigmoid
	opSign
	opSech2   // 1 − tanh²: of derivatives alone
	opDensity // σ·(1 − σ), the logistic density: likewise

	opLess
	opLessEqual
	opGreater      // of texts alone
	opGreaterEqual // likewise
	opEqual
	opAnd
	opOr
	opNot
)

// compares says whether o makes a condition of two numbers.
func (o op) compares() bool { return o >= opLess && o <= opEqual }

// logical says whether o makes a condition of conditions.
func (o op) logical() bool { return o >= opAnd && o <= opNot }

// condition says whether what o makes is a condition.
func (o op) condition() bool { return o.compares() || o.logical() || o == opTrue || o == opFalse }

// String is the name of a function.
func (o op) String() string {
	for name, f := range functions {
		if f.op == o {
			return name
		}
	}
	return map[op]string{opTrue: "true", opFalse: "false"}[o]
}

// sign is what stands between the terms of o.
func (o op) sign() string {
	for sign, in := range infix {
		if in.op == o {
			if o == opMul || o == opDiv || o == opPow {
				return sign
			}
			return " " + sign + " "
		}
	}
	panic("expression: no sign")
}

// binding is how tightly o binds its terms.
func (o op) binding() int {
	switch o {
	case opNeg:
		return bindSign
	case opNot:
		return bindNot
	}
	for _, in := range infix {
		if in.op == o {
			return in.power
		}
	}
	return bindTerm
}

// phi0 is the density of N(0,1) at 0.
var phi0 = 1 / math.Sqrt(2*math.Pi)

// of returns o of numbers, as a block of values has it; a condition is 1 or 0.
func (o op) of(a, b, c float64) float64 {
	dst, x, y, w := [1]float64{}, [1]float64{a}, [1]float64{b}, [1]float64{c}
	o.block(dst[:], x[:], y[:], w[:])
	return dst[0]
}
