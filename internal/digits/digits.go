// Package digits computes exp, log and π in numbers of any precision (math/big has none of
// them), by series: for second computations and for tests, not for inner loops.
package digits

import (
	"math/big"
	"sync"
)

// guard is the precision that is carried beyond the one that is asked for, in bits.
const guard = 32

// Exp returns exp x to the precision of x but for its last bits: with x = n·log 2 + r, 2ⁿ times
// Taylor's series of r·2⁻¹⁶, squared as many times. It panics where |x| is above 2³⁰.
func Exp(x *big.Float) *big.Float {
	const halvings = 16
	prec := x.Prec()
	if x.MantExp(nil) > 30 {
		panic("digits: exp of " + x.String())
	}
	wide := prec + guard + 2*halvings // a squaring doubles the error, and n has up to 31 bits
	number := func() *big.Float { return new(big.Float).SetPrec(wide) }
	quotient, _ := number().Quo(x, Log2(wide)).Float64()
	n := int64(quotient)
	small := number().Mul(Log2(wide), number().SetInt64(n))
	small.Sub(x, small)
	small.SetMantExp(small, -halvings)
	sum, term := number().SetInt64(1), number().SetInt64(1)
	for i := int64(1); ; i++ {
		term.Mul(term, small)
		term.Quo(term, new(big.Float).SetInt64(i))
		sum.Add(sum, term)
		if term.Sign() == 0 || term.MantExp(nil) < -int(wide) {
			break
		}
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(n)).SetPrec(prec)
}

// Log returns log x of an x > 0 to the precision of x but for its last bits: with x = m·2ⁿ,
// ½ ≤ m < 1, n·log 2 + 8·log m^⅛, and log r = 2·artanh((r−1)/(r+1)) by its series.
func Log(x *big.Float) *big.Float {
	prec := x.Prec()
	m := new(big.Float).SetPrec(prec + guard)
	n := x.MantExp(m)
	for range 3 {
		m.Sqrt(m)
	}
	sum := artanhLog(m)
	sum.SetMantExp(sum, 3)
	two := new(big.Float).SetPrec(prec+guard).Mul(Log2(prec+guard), new(big.Float).SetInt64(int64(n)))
	return sum.Add(sum, two).SetPrec(prec)
}

// artanhLog returns log r = 2·Σ q^(2j+1)/(2j+1), q = (r−1)/(r+1).
func artanhLog(r *big.Float) *big.Float {
	wide := r.Prec()
	one := big.NewFloat(1)
	number := func() *big.Float { return new(big.Float).SetPrec(wide) }
	q := number().Quo(number().Sub(r, one), number().Add(r, one))
	square, power, sum := number().Mul(q, q), number().Set(q), number()
	for j := int64(1); power.Sign() != 0 && power.MantExp(nil) > -int(wide)-16; j += 2 {
		sum.Add(sum, number().Quo(power, new(big.Float).SetInt64(j)))
		power.Mul(power, square)
	}
	return sum.SetMantExp(sum, 1)
}

var logsOfTwo sync.Map // by precision

// Log2 returns log 2.
func Log2(prec uint) *big.Float {
	if v, ok := logsOfTwo.Load(prec); ok {
		return v.(*big.Float)
	}
	v, _ := logsOfTwo.LoadOrStore(prec, artanhLog(new(big.Float).SetPrec(prec).SetInt64(2)))
	return v.(*big.Float)
}

// Pi returns π = 16·arctan(1/5) − 4·arctan(1/239) (Machin 1706).
func Pi(prec uint) *big.Float {
	wide := prec + guard
	number := func() *big.Float { return new(big.Float).SetPrec(wide) }
	arctan := func(inverse int64) *big.Float {
		x := number().Quo(number().SetInt64(1), new(big.Float).SetInt64(inverse))
		square, power, sum := number().Mul(x, x), number().Set(x), number()
		for j := int64(1); power.MantExp(nil) > -int(wide)-8; j += 2 {
			sum.Add(sum, number().Quo(power, new(big.Float).SetInt64(j)))
			power.Mul(power, square)
			power.Neg(power)
		}
		return sum
	}
	a, b := arctan(5), arctan(239)
	a.Sub(a.Mul(a, number().SetInt64(16)), b.Mul(b, number().SetInt64(4)))
	return a.SetPrec(prec)
}
