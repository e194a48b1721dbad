package recheck

import (
	"context"
	"math"
	"math/big"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// digits is the precision, in bits, of what is computed in many of them.
const digits = 128

// all is a precision in which sums of products of any float64 are exact: those of any size may cancel.
const all = 4400

func number(v float64) *big.Float { return new(big.Float).SetPrec(digits).SetFloat64(v) }

func zero() *big.Float { return number(0) }

// exactly returns log p(y|x) of row t in many digits, rounded once: −Inf where it is below the
// smallest number. g alone is taken in float64, at the predictor rounded.
func (m Mixture) exactly(ctx context.Context, act model.Activation, b *model.Block, t int) (float64, error) {
	g := make([]float64, m.k*m.m)
	for at := range g {
		g[at], _ = exactDot(m.regressors, m.intercepts, at, m.d, b, t).Float64()
	}
	if err := act.Eval(ctx, g, g); err != nil {
		return 0, err
	}
	for _, v := range g {
		if math.IsNaN(v) || math.IsInf(v, 0) { // which has no digits
			return math.NaN(), nil
		}
	}
	logits := make([]*big.Float, m.k-1)
	for j := range logits {
		logits[j] = exactDot(m.gating, m.gateIntercepts, j, m.d, b, t)
	}
	joint := m.exactProbabilities(logits)
	for i := range joint {
		m.addDensity(joint[i], i, g[i*m.m:(i+1)*m.m], b, t)
	}
	v, _ := exactLogSumExp(joint).Float64()
	return v, nil
}

// exactDot returns ⟨row at of coef, x⟩ + its intercept for row t, with all digits.
func exactDot(coef, intercepts []float64, at, d int, b *model.Block, t int) *big.Float {
	sum := new(big.Float).SetPrec(all)
	for j := range d {
		sum.Add(sum, zero().Mul(number(coef[at*d+j]), number(b.X[j*b.N+t])))
	}
	if intercepts != nil {
		sum.Add(sum, number(intercepts[at]))
	}
	return sum
}

// exactProbabilities returns log P(z=i|x) in many digits.
func (m Mixture) exactProbabilities(logits []*big.Float) []*big.Float {
	nodes := m.nodes()
	logP, above := []*big.Float{zero()}, []*big.Float{zero()}
	for range m.k {
		logP, above = append(logP, nil), append(above, nil)
	}
	for at, node := range nodes {
		z := make([]*big.Float, len(node.rows))
		for c, row := range node.rows {
			if z[c] = zero(); row >= 0 {
				z[c] = logits[row]
			}
		}
		top := slices.MaxFunc(z, (*big.Float).Cmp)
		for c, v := range z { // what is left has no digits to lose to their size
			z[c] = new(big.Float).SetPrec(all).Sub(v, top)
		}
		norm := exactLogSumExp(z)
		for c, to := range node.branches {
			own := zero().Sub(z[c], norm)
			if own.Add(own, above[at]); to < 0 {
				logP[^to] = own
			} else {
				above[to] = own
			}
		}
	}
	return logP[:m.k]
}

// addDensity adds log N(y; μ_i, Σ_i) of row t to v, for g at the expert's predictors.
func (m Mixture) addDensity(v *big.Float, i int, g []float64, b *model.Block, t int) {
	n := m.noiseOf(i)
	offset, scale := m.output(i)
	var residuals []*big.Float
	for c, s := range n.Scale {
		mean := zero().Mul(number(scale), number(g[c]))
		mean.Add(mean, number(offset))
		residuals = append(residuals, mean.Sub(number(b.Y[c*b.N+t]), mean))
		e := zero().Set(residuals[c])
		for a := range c {
			e.Add(e, zero().Mul(number(lower(n, c, a)), residuals[a]))
		}
		e.Quo(e, number(s))
		e.Mul(e, e)
		v.Sub(v, e.Quo(e, number(2)))
		v.Sub(v, logOf(number(s)))
		v.Sub(v, halfLogTwoPi)
	}
}

// exactLogSumExp returns log Σ exp v.
func exactLogSumExp(v []*big.Float) *big.Float {
	top := slices.MaxFunc(v, (*big.Float).Cmp)
	sum := zero()
	for _, a := range v {
		sum.Add(sum, expOf(zero().Sub(a, top)))
	}
	return sum.Add(logOf(sum), top)
}

// expOf returns exp x of an x ≤ 0, 0 where that is nothing beside 1: by Taylor's series of
// x·2⁻¹⁶, squared as many times.
func expOf(x *big.Float) *big.Float {
	const halvings = 16
	if x.Cmp(number(-digits)) < 0 { // e⁻¹²⁸ = 2⁻¹⁸⁴
		return zero()
	}
	const wide = digits + 2*halvings // a squaring doubles the error
	small := new(big.Float).SetPrec(wide).SetMantExp(x, -halvings)
	sum, term := new(big.Float).SetPrec(wide).SetInt64(1), new(big.Float).SetPrec(wide).SetInt64(1)
	for n := int64(1); ; n++ {
		term.Mul(term, small)
		term.Quo(term, new(big.Float).SetInt64(n))
		sum.Add(sum, term)
		if term.Sign() == 0 || term.MantExp(nil) < -wide {
			break
		}
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum.SetPrec(digits)
}

// logOf returns log x of an x > 0: with x = m·2ⁿ, ½ ≤ m < 1, n·log 2 + 8·log m^⅛, and
// log r = 2·artanh((r−1)/(r+1)) by its series.
func logOf(x *big.Float) *big.Float {
	m := new(big.Float).SetPrec(digits + 32)
	n := x.MantExp(m)
	for range 3 {
		m.Sqrt(m)
	}
	sum := artanhLog(m)
	sum.SetMantExp(sum, 3)
	two := new(big.Float).SetPrec(digits+32).Mul(logTwo, new(big.Float).SetInt64(int64(n)))
	return sum.Add(sum, two).SetPrec(digits)
}

// artanhLog returns log r = 2·Σ q^(2j+1)/(2j+1), q = (r−1)/(r+1).
func artanhLog(r *big.Float) *big.Float {
	const wide = digits + 32
	one := big.NewFloat(1)
	wideZero := func() *big.Float { return new(big.Float).SetPrec(wide) }
	q := wideZero().Quo(wideZero().Sub(r, one), wideZero().Add(r, one))
	square, power, sum := wideZero().Mul(q, q), wideZero().Set(q), wideZero()
	for j := int64(1); power.Sign() != 0 && power.MantExp(nil) > -wide-16; j += 2 {
		sum.Add(sum, wideZero().Quo(power, new(big.Float).SetInt64(j)))
		power.Mul(power, square)
	}
	return sum.SetMantExp(sum, 1)
}

var (
	logTwo = artanhLog(new(big.Float).SetPrec(digits + 32).SetInt64(2))
	// ½·log 2π, π by Machin's formula.
	halfLogTwoPi = func() *big.Float {
		v := logOf(zero().Mul(number(2), pi()))
		return v.Quo(v, number(2))
	}()
)

// pi returns π = 16·arctan(1/5) − 4·arctan(1/239) (Machin 1706).
func pi() *big.Float {
	arctan := func(inverse int64) *big.Float {
		x := zero().Quo(number(1), new(big.Float).SetInt64(inverse))
		square, power, sum := zero().Mul(x, x), zero().Set(x), zero()
		for j := int64(1); power.MantExp(nil) > -digits-8; j += 2 {
			sum.Add(sum, zero().Quo(power, new(big.Float).SetInt64(j)))
			power.Mul(power, square)
			power.Neg(power)
		}
		return sum
	}
	a, b := arctan(5), arctan(239)
	return a.Sub(a.Mul(a, number(16)), b.Mul(b, number(4)))
}
