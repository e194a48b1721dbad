package problem

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/memory"
)

// Units are what was taken off the features and what they were divided by, d
// values each, and what was taken off the target. Where experts and gate have no intercept nothing is taken off.
type Units struct {
	Mean, SD []float64
	Target   float64
}

// Units returns the units of a fit of this shape to features with these sums, nil for
// the user's own.
func (s Shape) Units(second *tensor.Second) (*Units, error) {
	inputs, err := InputsOf(second)
	if err != nil || inputs.Standard() && !s.Intercept {
		return nil, err
	}
	return unitsOf(second, s.takesMeans()), nil
}

// unitsOf returns the units that bring features with these sums to unit variance
// and, where intercepts can take it up, mean 0.
func unitsOf(second *tensor.Second, intercept bool) *Units {
	cov, mean := second.Covariance(), second.Mean()
	u := &Units{Mean: make([]float64, second.D), SD: make([]float64, second.D)}
	if intercept {
		u.Mean = second.Mean()
	}
	for j := range u.SD {
		// Where the mean stays, the rms is the column's size: a year, 2000 ± 5,
		// divided by its sd would be 400 ± 1.
		u.SD[j] = math.Hypot(math.Sqrt(max(cov.At(j, j), 0)), mean[j]-u.Mean[j])
		if !(u.SD[j] > 0) {
			u.SD[j] = 1
		}
	}
	return u
}

// convert returns the rows with their features in these units: in memory where they
// are.
func (u *Units) convert(ctx context.Context, rows model.Rows, workers int) (model.Rows, error) {
	if !model.Held(rows) {
		return u.View(rows), nil
	}
	n, d := rows.Dims()
	if err := memory.Check(fmt.Sprintf("%d rows in units of their own", n), 8*float64(n)*float64(d)); err != nil {
		return nil, err
	}
	return model.InMemory(ctx, u.View(rows), workers)
}

// View returns rows seen with their features in these units; nil units are the
// rows' own.
func (u *Units) View(rows model.Rows) model.Rows {
	if u == nil {
		return rows
	}
	return model.Map(rows, len(u.SD), func(dst, src *model.Block) {
		dst.Y = u.shifted(src.Y, -u.Target)
		for j := range u.SD {
			col := dst.Col(j)
			copy(col, src.Col(j))
			floats.AddConst(-u.Mean[j], col)
			floats.Scale(1/u.SD[j], col)
		}
	})
}

// shifted returns values with by added, themselves where that is 0.
func (u *Units) shifted(values []float64, by float64) []float64 {
	if by != 0 {
		values = slices.Clone(values)
		floats.AddConst(by, values)
	}
	return values
}

// Targets returns targets in these units as they came: what was taken off is put back without rounding.
func (u *Units) Targets(y []float64) []float64 {
	if u == nil {
		return y
	}
	return u.shifted(y, u.Target)
}

// scaled returns the sums of features in these units, of which nothing is taken off.
func (u *Units) scaled(second *tensor.Second) *tensor.Second {
	c := make([]float64, len(u.SD))
	for j, sd := range u.SD {
		c[j] = 1 / sd
	}
	return second.Scaled(c)
}

// Into converts parameters from the user's units to these; nil units are the
// user's.
func (u *Units) Into(p *model.Params) *model.Params {
	return u.params(p, -1, func(coef *float64, j int) (shift float64) {
		shift = *coef * u.Mean[j]
		*coef *= u.SD[j]
		return shift
	})
}

// OutOf converts parameters from these units to the user's.
func (u *Units) OutOf(p *model.Params) *model.Params {
	return u.params(p, 1, func(coef *float64, j int) (shift float64) {
		*coef /= u.SD[j]
		return -*coef * u.Mean[j]
	})
}

// params converts coefficients by fn, which returns what the intercept takes up, and adds so many times what was taken
// off the target to the experts' intercepts.
func (u *Units) params(p *model.Params, times float64, fn func(coef *float64, j int) float64) *model.Params {
	if u == nil {
		return p
	}
	p = p.Clone()
	each := func(rows, intercepts []float64) {
		for i := range rows {
			shift := fn(&rows[i], i%p.D)
			if intercepts != nil {
				intercepts[i/p.D] += shift
			}
		}
	}
	each(p.Regressors, p.RegressorIntercepts)
	each(p.Gating, p.GatingIntercepts)
	if u.Target != 0 {
		floats.AddConst(times*u.Target, p.RegressorIntercepts)
	}
	return p
}
