// Package properties says whether an activation has the properties that theorems ask for which make no use of its
// output transforms: those on networks with one hidden layer (003), and that on one expert too many.
package properties

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// OneHiddenLayer holds the conditions under which a one-hidden-layer network
// with activation φ is recovered by tensor initialisation and gradient descent
// (003):
//
//	P1  0 ≤ φ′(z) ≤ L·|z|^p for some L > 0, p ≥ 0
//	P2  ρ(σ) > 0
//	P3  |φ″| ≤ L, or φ is piecewise linear with finitely many kinks
//
// P1 and P3 speak of all z; they are judged on |z| ≤ [gauss.Range]. A bound
// counts as broken where the quantity still grows, from the inner to the outer
// half of that range, as no such bound allows.
type OneHiddenLayer struct {
	P1, P2, P3 bool
	Rho        float64 // ρ at the σ given
}

// rhoTolerance separates ρ from 0, relative to the size of its terms: a mean of squares
// of numbers that are rounded at 1e−16 comes out below 1e−30, and where g′ is computed to
// no more than 1e−13 below 1e−25.
const rhoTolerance = 1e-24

// OneHiddenLayerOf checks the conditions at scale sigma > 0: the length of a
// hidden unit's weights, not the noise level.
func OneHiddenLayerOf(ctx context.Context, act sdk.Activation, sigma float64) (OneHiddenLayer, error) {
	grid, err := derivativeGrid(ctx, act, 1)
	if err != nil {
		return OneHiddenLayer{}, err
	}
	rho, _ := rhoOn(grid)
	if sigma != 1 {
		if rho, _, err = RhoOf(ctx, act, sigma); err != nil {
			return OneHiddenLayer{}, err
		}
	}
	kinks := act.Info().Kinks
	z, dg := grid.Points()
	jumps, err := jumps(ctx, act, kinks)
	if err != nil {
		return OneHiddenLayer{}, err
	}
	return OneHiddenLayer{
		P1:  nonNegative(dg) && polynomiallyBounded(z, dg),
		P2:  rho > 0,
		P3:  boundedSlope(z, dg, jumps) || piecewiseConstant(z, dg, kinks),
		Rho: rho,
	}, nil
}

// RhoRange is ρ over the scales from [LeastScale] to [MostScale]: 003's P2 asks for
// ρ(σ) > 0 at every σ.
type RhoRange struct {
	P2       bool // ρ > 0 at every scale looked at
	Min, Max float64
}

// LeastScale and MostScale bound the scales of a [RhoRange], of which it looks at
// 17, evenly spaced in log σ.
const (
	LeastScale = 0.1
	MostScale  = 10.0
	rhoScales  = 17
)

// RhoRangeOf returns the range of ρ(σ) over scales, nil where φ′ grows too fast for ρ
// at one of them, or has no finite value as it is computed. Errors are those of act.
func RhoRangeOf(ctx context.Context, act sdk.Activation) (*RhoRange, error) {
	r := &RhoRange{P2: true, Min: math.Inf(1), Max: math.Inf(-1)}
	for i := range rhoScales {
		v, _, err := RhoOf(ctx, act, LeastScale*math.Pow(MostScale/LeastScale, float64(i)/(rhoScales-1)))
		if none := (*gauss.ValueError)(nil); errors.Is(err, gauss.ErrGrowth) || errors.As(err, &none) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r.P2 = r.P2 && v > 0
		r.Min, r.Max = min(r.Min, v), max(r.Max, v)
	}
	return r, nil
}

// derivativeGrid evaluates φ′(sigma·Z) for quadrature.
func derivativeGrid(ctx context.Context, act sdk.Activation, sigma float64) (*gauss.Grid, error) {
	deriv := func(ctx context.Context, dst, z []float64) error {
		scaled := make([]float64, len(z))
		for i, v := range z {
			scaled[i] = sigma * v
		}
		return act.Deriv(ctx, dst, scaled)
	}
	var kinks []float64
	for _, k := range act.Info().Kinks {
		kinks = append(kinks, k/sigma)
	}
	grid, err := gauss.NewGrid(ctx, deriv, kinks)
	if err != nil {
		return nil, fmt.Errorf("derivative of activation %q: %w", act.Info().Name, err)
	}
	return grid, nil
}

// RhoOf returns, with α_q = E[φ′(σZ)Z^q] and β_q = E[φ′(σZ)²Z^q], Z ~ N(0,1),
//
//	ρ(σ) = min{β_0 − α_0² − α_1², β_2 − α_1² − α_2², α_0·α_2 − α_1²}
//
// at scale sigma > 0 (003 slide 13), and the size of its terms, β_0 + β_2; 0 where it is
// nothing but rounding, as for a linear φ.
func RhoOf(ctx context.Context, act sdk.Activation, sigma float64) (rho, scale float64, err error) {
	grid, err := derivativeGrid(ctx, act, sigma)
	if err != nil {
		return 0, 0, err
	}
	rho, scale = rhoOn(grid)
	return rho, scale, nil
}

// rhoOn is [RhoOf] from φ′(σZ) on a grid. The three are differences of numbers that may be
// nearly equal, and are taken as what they are: the means of the squares of what 1 and Z
// leave of φ′ and of φ′·Z, and α_0 times the variance of Z weighted by φ′.
func rhoOn(grid *gauss.Grid) (rho, scale float64) {
	e := func(f func(z, d float64) float64) float64 { v, _ := grid.Expect(f); return v }
	a0 := e(func(_, d float64) float64 { return d })
	a1 := e(func(z, d float64) float64 { return d * z })
	a2 := e(func(z, d float64) float64 { return d * z * z })
	scale = e(func(z, d float64) float64 { return d * d * (1 + z*z) })
	spread := a0*a2 - a1*a1
	if mean := a1 / a0; math.Abs(mean) <= gauss.Range { // as it is where φ′ ≥ 0
		spread = a0 * e(func(z, d float64) float64 { return d * (z - mean) * (z - mean) })
	}
	rho = min(spread,
		e(func(z, d float64) float64 { r := d - a0 - a1*z; return r * r }),
		e(func(z, d float64) float64 { r := d*z - a1 - a2*z; return r * r }))
	if math.Abs(rho) <= rhoTolerance*scale {
		rho = 0
	}
	return rho, scale
}

// jumps returns by how much φ′ jumps at each kink.
func jumps(ctx context.Context, act sdk.Activation, kinks []float64) ([]float64, error) {
	var z []float64
	for _, k := range kinks {
		h := 1e-6 * max(1, math.Abs(k))
		z = append(z, k-h, k+h)
	}
	d := make([]float64, len(z))
	if err := act.Deriv(ctx, d, z); err != nil {
		return nil, err
	}
	jump := make([]float64, len(kinks))
	for i := range jump {
		jump[i] = math.Abs(d[2*i+1] - d[2*i])
	}
	return jump, nil
}

// nonNegative allows for rounding of the derivative.
func nonNegative(dg []float64) bool {
	return slices.Min(dg) >= -1e-12*largest(dg)
}

func largest(v []float64) float64 { return max(slices.Max(v), -slices.Min(v)) }

// polynomiallyBounded compares how φ′ grows from |z| ≤ 5 to 10 and from 10 to
// 20: by equal factors for a power, by squared ones for an exponential.
func polynomiallyBounded(z, dg []float64) bool {
	m5, m10, m20 := within(z, dg, 5), within(z, dg, 10), within(z, dg, 20)
	first, second := math.Log(m10/m5), math.Log(m20/m10)
	return !(second > 1.3*max(first, 0)+0.1)
}

// within returns max |v| over |z| ≤ r.
func within(z, v []float64, r float64) float64 {
	var m float64
	for i, x := range z {
		if math.Abs(x) <= r {
			m = max(m, math.Abs(v[i]))
		}
	}
	return m
}

// boundedSlope reports whether φ″ is bounded: no jump of φ′, and difference
// quotients that neither exceed any plausible bound (an undeclared jump shows as
// 1e10 and more) nor grow with |z|.
func boundedSlope(z, dg, jumps []float64) bool {
	scale := largest(dg)
	for _, j := range jumps {
		if j > 1e-3*scale {
			return false
		}
	}
	var mid, slope []float64
	for i := 1; i < len(z); i++ {
		// Nodes closer than this are apart by rounding of φ′ rather than φ″.
		if diff := math.Abs(dg[i] - dg[i-1]); diff > 1e-9*scale {
			mid = append(mid, z[i])
			slope = append(slope, diff/(z[i]-z[i-1]))
		}
	}
	if len(slope) == 0 {
		return true
	}
	if largest(slope) > 1e6*scale {
		return false
	}
	inner, outer := within(mid, slope, 10), within(mid, slope, 20)
	return outer <= 1.2*inner
}

// piecewiseConstant reports whether φ′ is constant between the kinks.
func piecewiseConstant(z, dg, kinks []float64) bool {
	sorted := slices.Sorted(slices.Values(kinks))
	tol := 1e-9 * largest(dg)
	for i := 1; i < len(z); i++ {
		segment, _ := slices.BinarySearch(sorted, z[i])
		before, _ := slices.BinarySearch(sorted, z[i-1])
		if segment == before && math.Abs(dg[i]-dg[i-1]) > tol {
			return false
		}
	}
	return true
}
