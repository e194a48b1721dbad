package expression

import (
	"errors"
	"math"
	"math/big"

	"github.com/gatedlearning/moe/internal/digits"
)

// precision is that of the oracle, in bits: differences of 2⁻⁶⁴ leave more than 200.
const precision = 320

// errOracle says that the oracle does not know a value: there is none, or its series is too long.
var errOracle = errors.New("no value")

func exact(v float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(v) }

// oracle computes the text t as it stands at z, without any of what the package does with it.
type oracle struct {
	z      *big.Float
	params map[string]float64
}

func (o oracle) value(t *term) (*big.Float, error) {
	switch t.op {
	case opNumber:
		return exact(t.number), nil
	case opZ:
		return o.z, nil
	case opParameter:
		return exact(o.params[t.name]), nil
	case opWhere:
		holds, err := o.holds(t.args[0])
		if err != nil {
			return nil, err
		}
		if holds {
			return o.value(t.args[1])
		}
		return o.value(t.args[2])
	}
	var in [2]*big.Float
	for i, a := range t.args {
		v, err := o.value(a)
		if err != nil {
			return nil, err
		}
		if v.Sign() != 0 && (v.MantExp(nil) > 900 || v.MantExp(nil) < -900) {
			return nil, errOracle // beyond float64, or nearly
		}
		in[i] = v
	}
	return functionOf(t.op, in[0], in[1])
}

func (o oracle) holds(t *term) (bool, error) {
	if t.op.compares() {
		a, err := o.value(t.args[0])
		if err != nil {
			return false, err
		}
		b, err := o.value(t.args[1])
		if err != nil {
			return false, err
		}
		switch c := a.Cmp(b); t.op {
		case opLess:
			return c < 0, nil
		case opLessEqual:
			return c <= 0, nil
		case opGreater:
			return c > 0, nil
		case opGreaterEqual:
			return c >= 0, nil
		default:
			return c == 0, nil
		}
	}
	a, err := o.holds(t.args[0])
	if err != nil || t.op == opNot {
		return !a, err
	}
	b, err := o.holds(t.args[1])
	if t.op == opAnd {
		return a && b, err
	}
	return a || b, err
}

func add(a, b *big.Float) *big.Float { return exact(0).Add(a, b) }
func sub(a, b *big.Float) *big.Float { return exact(0).Sub(a, b) }
func mul(a, b *big.Float) *big.Float { return exact(0).Mul(a, b) }
func quo(a, b *big.Float) *big.Float { return exact(0).Quo(a, b) }
func neg(a *big.Float) *big.Float    { return exact(0).Neg(a) }

var unit = exact(1)

// exponential is exp u, for |u| below 2⁹.
func exponential(u *big.Float) (*big.Float, error) {
	if u.MantExp(nil) > 9 {
		return nil, errOracle
	}
	return digits.Exp(exact(0).Set(u)), nil
}

func functionOf(o op, u, v *big.Float) (*big.Float, error) {
	switch o {
	case opNeg:
		return neg(u), nil
	case opAdd:
		return add(u, v), nil
	case opSub:
		return sub(u, v), nil
	case opMul:
		return mul(u, v), nil
	case opDiv:
		if v.Sign() == 0 {
			return nil, errOracle
		}
		return quo(u, v), nil
	case opPow:
		return power(u, v)
	case opMin, opMax:
		if (u.Cmp(v) > 0) == (o == opMax) {
			return u, nil
		}
		return v, nil
	case opAbs:
		return exact(0).Abs(u), nil
	case opSign:
		return exact(float64(u.Sign())), nil
	case opLog, opLog1p:
		if o == opLog1p {
			u = add(unit, u)
		}
		if u.Sign() <= 0 {
			return nil, errOracle
		}
		return digits.Log(u), nil
	case opSqrt:
		if u.Sign() < 0 {
			return nil, errOracle
		}
		return exact(0).Sqrt(u), nil
	case opCbrt:
		if u.Sign() == 0 {
			return nil, errOracle // no derivative
		}
		e, err := exponential(quo(digits.Log(exact(0).Abs(u)), exact(3)))
		if err == nil && u.Sign() < 0 {
			e = neg(e)
		}
		return e, err
	case opAtan:
		return arctan(u), nil
	case opErf, opErfc, opPhi:
		return ofErf(o, u)
	}
	return exponentials(o, u)
}

// exponentials are the functions of exp u.
func exponentials(o op, u *big.Float) (*big.Float, error) {
	e, err := exponential(u)
	if err != nil {
		return nil, err
	}
	inverse := quo(unit, e)
	half := func(v *big.Float) *big.Float { return exact(0).SetMantExp(v, -1) }
	switch o {
	case opExp:
		return e, nil
	case opExpm1:
		return sub(e, unit), nil
	case opTanh:
		return quo(sub(e, inverse), add(e, inverse)), nil
	case opSinh:
		return half(sub(e, inverse)), nil
	case opCosh:
		return half(add(e, inverse)), nil
	case opSoftplus:
		return digits.Log(add(unit, e)), nil
	case opSigmoid:
		return quo(e, add(unit, e)), nil
	}
	panic("the oracle does not know " + o.String())
}

// power is u^v by products where v is a small whole number, else of a positive u.
func power(u, v *big.Float) (*big.Float, error) {
	if n, accuracy := v.Int64(); accuracy == big.Exact && n > -20 && n < 20 {
		r := exact(1)
		for range max(n, -n) {
			r = mul(r, u)
		}
		if n >= 0 {
			return r, nil
		}
		return functionOf(opDiv, unit, r)
	}
	if u.Sign() <= 0 {
		return nil, errOracle
	}
	return exponential(mul(v, digits.Log(u)))
}

// arctan halves the angle eight times, arctan u = 2·arctan(u/(1 + √(1 + u²))), and takes the
// series of what is left.
func arctan(u *big.Float) *big.Float {
	const halvings = 8
	for range halvings {
		root := exact(0).Sqrt(add(unit, mul(u, u)))
		u = quo(u, add(unit, root))
	}
	square, term, sum := neg(mul(u, u)), exact(0).Set(u), exact(0)
	for j := 1.0; term.Sign() != 0 && term.MantExp(nil) > u.MantExp(nil)-precision; j += 2 {
		sum = add(sum, quo(term, exact(j)))
		term = mul(term, square)
	}
	return sum.SetMantExp(sum, halvings)
}

// ofErf takes the series erf u = 2/√π·Σ (−1)^n u^(2n+1)/(n!(2n+1)), whose terms grow to e^(u²).
func ofErf(o op, u *big.Float) (*big.Float, error) {
	if o == opPhi {
		e, err := ofErf(opErfc, neg(quo(u, exact(0).Sqrt(exact(2)))))
		if err != nil {
			return nil, err
		}
		return exact(0).SetMantExp(e, -1), nil
	}
	if f, _ := u.Float64(); math.Abs(f) > 5 {
		return nil, errOracle
	}
	square, term, sum := neg(mul(u, u)), exact(0).Set(u), exact(0)
	for n := 0.0; term.Sign() != 0 && (n < 30 || term.MantExp(nil) > u.MantExp(nil)-precision); n++ {
		sum = add(sum, quo(term, exact(2*n+1)))
		term = quo(mul(term, square), exact(n+1))
	}
	root := exact(0).Sqrt(digits.Pi(precision))
	erf := quo(exact(0).SetMantExp(sum, 1), root)
	if o == opErfc {
		return sub(unit, erf), nil
	}
	return erf, nil
}

// slope is the derivative of t at z by central differences of 2⁻⁶⁴, which leave z·2⁻¹²⁸.
func slope(t *term, params map[string]float64, z float64) (float64, error) {
	const half = -65
	h := exact(0).SetMantExp(unit, half)
	right, err := oracle{add(exact(z), h), params}.value(t)
	if err != nil {
		return 0, err
	}
	left, err := oracle{sub(exact(z), h), params}.value(t)
	if err != nil {
		return 0, err
	}
	d := sub(right, left)
	v, _ := d.SetMantExp(d, -half-1).Float64()
	return v, nil
}
