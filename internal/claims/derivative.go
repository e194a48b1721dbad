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
	_, err := c.derivativeAt(ctx, z)
	return err
}

// derivativeAt returns the largest |g′| there besides.
func (c *Claims) derivativeAt(ctx context.Context, z []float64) (scale float64, err error) {
	at := apart(z, c.act.Info().Kinks, 2*step, Reach)
	g, err := c.around(ctx, at, step, false)
	if err != nil {
		return 0, err
	}
	deriv, err := c.values(ctx, "Deriv", c.act.Deriv, at)
	if err != nil {
		return 0, err
	}
	scale = largest(deriv)
	if wrong := differ(g, at, deriv, step, scale, false); len(wrong) > 0 {
		return 0, wrong[0].error(c)
	}
	return scale, nil
}

// step is the h of the first differences.
const step = 0x1p-10

// RowsReach is the range |z| < RowsReach in which rows of a computation are compared.
const RowsReach = 32

// Rows compares values of g′ that have been given, at any points, with differences of
// g: what DerivativeAt does at points of its own. Points within 2h of a kink or not within RowsReach are
// left out. Any point may come, so that one where the differences of DerivativeAt say
// no is looked at more closely, by differences of a 64th and of a 4096th of h: a value is right
// that agrees with either of them, or that lies between the slopes of g to
// the left and to the right, as beside a kink that is not declared.
func (c *Claims) Rows(ctx context.Context, z, deriv []float64) error {
	if err := c.Derivative(ctx); err != nil {
		return err
	}
	var at, given []float64
	kinks := c.act.Info().Kinks
	for i, v := range z {
		if len(apart([]float64{v}, kinks, 2*step, RowsReach)) == 1 {
			at, given = append(at, v), append(given, deriv[i])
		}
	}
	scale := max(c.scale, largest(given))
	var first []difference
	for i, h := range []float64{step, step / 64, step / 4096} {
		if len(at) == 0 {
			return nil
		}
		g, err := c.around(ctx, at, h, i > 0)
		if err != nil {
			return err
		}
		wrong := differ(g, at, given, h, scale, i > 0)
		if i == 0 {
			first = wrong
		}
		at, given = nil, nil
		for _, d := range wrong {
			at, given = append(at, d.z), append(given, d.deriv)
		}
	}
	if len(at) == 0 {
		return nil
	}
	for _, d := range first {
		if d.z == at[0] {
			return d.error(c)
		}
	}
	panic("claims: a point from nowhere")
}

// difference is a point at which g′ is not what differences of g give.
type difference struct{ z, deriv, want, tol float64 }

func (d difference) error(c *Claims) error {
	return c.errorf("Deriv", "Deriv at z = %v is %.9g, differences of Eval give %.9g ± %.1g", d.z, d.deriv, d.want,
		d.tol)
}

// around returns g at z + h, z − h, z + h/2, z − h/2 and, where sided, z, for every z.
func (c *Claims) around(ctx context.Context, z []float64, h float64, sided bool) (g [5][]float64, err error) {
	shifts := []float64{h, -h, h / 2, -h / 2, 0}
	if !sided {
		shifts = shifts[:4]
	}
	shifted := make([]float64, 0, len(shifts)*len(z))
	for _, by := range shifts {
		for _, v := range z {
			shifted = append(shifted, v+by)
		}
	}
	values, err := c.values(ctx, "Eval", c.act.Eval, shifted)
	if err != nil {
		return g, err
	}
	for i := range shifts {
		g[i] = values[i*len(z) : (i+1)*len(z)]
	}
	return g, nil
}

// differ returns those points at which deriv is not what the differences of g by h
// and h/2 give. Where sided it may also lie between the slopes on both sides. scale is
// the largest |g′|.
func differ(g [5][]float64, at, deriv []float64, h, scale float64, sided bool) []difference {
	var wrong []difference
	for i, d := range deriv {
		full, half := (g[0][i]-g[1][i])/(2*h), (g[2][i]-g[3][i])/h
		want := (4*half - full) / 3
		rounding := 16 * 0x1p-53 * (math.Abs(g[0][i]) + math.Abs(g[1][i]) + math.Abs(at[i]*d)) / h
		tol := 1e-6*scale + 10*math.Abs(want-half) + rounding
		if math.Abs(d-want) <= tol {
			continue
		}
		if sided {
			left, right, slack := (g[4][i]-g[1][i])/h, (g[0][i]-g[4][i])/h, 1e-6*scale+rounding
			if min(left, right)-slack <= d && d <= max(left, right)+slack {
				continue
			}
		}
		wrong = append(wrong, difference{at[i], d, want, tol})
	}
	return wrong
}

// largest returns the largest |v|.
func largest(values []float64) float64 {
	out := 0.0
	for _, v := range values {
		out = max(out, math.Abs(v))
	}
	return out
}

// apart returns the points within reach that are more than gap from every kink.
func apart(z, kinks []float64, gap, reach float64) []float64 {
	var out []float64
next:
	for _, v := range z {
		for _, k := range kinks {
			if math.Abs(v-k) <= gap {
				continue next
			}
		}
		if math.Abs(v) < reach {
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
