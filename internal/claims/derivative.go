package claims

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// Reach is the range |z| ≤ Reach in which g is examined: beyond it lies less
// than 1e-15 of N(0,1).
const Reach = 8

// derivativePoints is the number of points at which a host compares g′. An error
// in a part of the range that is narrower than the distance between them, 0.08 in
// the middle and 0.5 at the ends, is left to the conformance kit.
const derivativePoints = 96

// quantiles returns n points of |z| < Reach, the quantiles of N(0, 3²) at
// (i + ½)/n. No short fraction, where a kink is likely, is among them.
func quantiles(n int) []float64 {
	z := make([]float64, n)
	for i := range z {
		z[i] = 3 * math.Sqrt2 * math.Erfinv((2*float64(i)+1)/float64(n)-1)
	}
	return z
}

// DerivativeAt compares g′ at the points z that lie within Reach and not within
// 2h of a kink with Richardson's extrapolation of central differences,
// R = (4·D(h/2) − D(h))/3. The tolerance is 1e-6 of the largest |g′|, ten times
// what the extrapolation changed, and the rounding of the differences.
func (c *Claims) DerivativeAt(ctx context.Context, z []float64) error {
	const h = 0x1p-10
	at := apart(z, c.act.Info().Kinks, 2*h)
	var g [4][]float64
	for i, by := range []float64{h, -h, h / 2, -h / 2} {
		shifted := make([]float64, len(at))
		for j, v := range at {
			shifted[j] = v + by
		}
		var err error
		if g[i], err = c.values(ctx, "Eval", c.act.Eval, shifted); err != nil {
			return err
		}
	}
	deriv, err := c.values(ctx, "Deriv", c.act.Deriv, at)
	if err != nil {
		return err
	}
	scale := 0.0
	for _, d := range deriv {
		scale = max(scale, math.Abs(d))
	}
	for i := range at {
		full, half := (g[0][i]-g[1][i])/(2*h), (g[2][i]-g[3][i])/h
		want := (4*half - full) / 3
		rounding := 16 * 0x1p-53 * (math.Abs(g[0][i]) + math.Abs(g[1][i]) + math.Abs(at[i]*deriv[i])) / h
		tol := 1e-6*scale + 10*math.Abs(want-half) + rounding
		if !(math.Abs(deriv[i]-want) <= tol) {
			return c.errorf("Deriv", "Deriv at z = %v is %.9g, differences of Eval give %.9g ± %.1g", at[i], deriv[i], want, tol)
		}
	}
	return nil
}

// apart returns the points within Reach that are more than gap from every kink.
func apart(z, kinks []float64, gap float64) []float64 {
	var out []float64
next:
	for _, v := range z {
		for _, k := range kinks {
			if math.Abs(v-k) <= gap {
				continue next
			}
		}
		if math.Abs(v) < Reach {
			out = append(out, v)
		}
	}
	return out
}

// values returns a method's values at z, all of them finite.
func (c *Claims) values(ctx context.Context, name string, method gauss.Func, z []float64) ([]float64, error) {
	v := make([]float64, len(z))
	if err := method(ctx, v, z); err != nil {
		return nil, err
	}
	for i := range v {
		if math.IsNaN(v[i]) || math.IsInf(v[i], 0) {
			return nil, c.errorf(name, "%s at z = %v is %v", name, z[i], v[i])
		}
	}
	return v, nil
}
