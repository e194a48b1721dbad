package properties

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// evenTol is what an odd part may have of the spread of g, for g to be even.
const evenTol = 1e-9

// Even says whether g(−z) = g(z) on the grid, in the mean of the absolute difference: odd moments up to order 4 vanish
// for some that are not even, and no power of g is taken that could overflow.
func Even(ctx context.Context, act sdk.Activation, grid *gauss.Grid) (bool, error) {
	z, g := grid.Points()
	mirror := make([]float64, len(z))
	for i := range z {
		mirror[i] = -z[i]
	}
	other := make([]float64, len(z))
	if err := act.Eval(ctx, other, mirror); err != nil {
		return false, err
	}
	mean := grid.Mean(func(_, g float64) float64 { return g })
	var apart, spread float64
	for i := 1; i < len(z)-1; i++ {
		w := (z[i+1] - z[i-1]) * math.Exp(-z[i]*z[i]/2) / 4
		apart += w * math.Abs(g[i]-other[i])
		spread += w * (math.Abs(g[i]-mean) + 64*0x1p-53/evenTol*math.Abs(g[i]))
	}
	return apart <= evenTol*spread, nil
}

// OutOfRange says that g is too large or too small for moments up to g⁴ in numbers of 64 bits; "" where it is not. Its
// variance is that of g(Z). A constant is not too small.
func OutOfRange(m sdk.Moments, variance float64) string {
	constant := true
	for p := range m.Value {
		for q := range m.Value[p] {
			if s := m.Value[p][q] + m.Error[p][q]; math.IsNaN(s) || math.IsInf(s, 0) {
				return "the moments of g overflow: rescale g, which is too large for them"
			}
		}
	}
	for q := 1; q <= sdk.MaxOrder; q++ {
		constant = constant && math.Abs(m.Hermite(1, q)) <= m.HermiteError(1, q)
	}
	if variance*variance < 0x1p-1022 && !constant {
		return "the moments of g underflow: rescale g, which is too small for them"
	}
	return ""
}
