package recheck

import (
	"context"
	"math"
	"math/big"
	"slices"
	"sync"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/digits"
)

// bits is the precision of what is computed in many digits.
const bits = 128

// all is a precision in which sums of products of any float64 are exact: those of any size may cancel.
const all = 4400

func number(v float64) *big.Float { return new(big.Float).SetPrec(bits).SetFloat64(v) }

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

// exactly is that of the mixture.
func (r *room) exactly(ctx context.Context, act model.Activation, b *model.Block,
	t int) (v float64, ok bool, err error) {
	if r.m.law != nil {
		return 0, false, nil
	}
	v, err = r.m.exactly(ctx, act, b, t)
	return v, true, err
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
		v.Sub(v, halfLogTwoPi())
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

// expOf returns exp x of an x ≤ 0, 0 where that is nothing beside 1.
func expOf(x *big.Float) *big.Float {
	if x.Cmp(number(-bits)) < 0 { // e⁻¹²⁸ = 2⁻¹⁸⁴
		return zero()
	}
	const spare = 32 // x may have many more digits, of which those before the point cost as many
	return digits.Exp(new(big.Float).SetPrec(bits + spare).Set(x)).SetPrec(bits)
}

// logOf returns log x of an x > 0.
func logOf(x *big.Float) *big.Float { return digits.Log(zero().Set(x)) }

// halfLogTwoPi is ½·log 2π.
var halfLogTwoPi = sync.OnceValue(func() *big.Float {
	v := logOf(zero().Mul(number(2), digits.Pi(bits)))
	return v.Quo(v, number(2))
})
