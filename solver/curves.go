package solver

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// S4 returns E[Q4(y)|Z] for g = g(Z) (002 Appendix B; its constant is 3σ⁴):
//
//	g⁴ + 6σ²g² + 3σ⁴ + Alpha·(g³ + 3σ²g) + Beta·(g² + σ²) + Gamma·g
func (t Transform) S4(g float64) float64 {
	q, _ := t.polynomial(4)
	return q.smooth(t.Sigma * t.Sigma).at(g)
}

// S2 returns E[Q2(y)|Z] = g² + σ² + Delta·g for g = g(Z).
func (t Transform) S2(g float64) float64 {
	q, _ := t.polynomial(2)
	return q.smooth(t.Sigma * t.Sigma).at(g)
}

// Curves are g, S4 and S2 over the bulk of N(0,1), ready to be drawn, and the
// Hermite spectra of S4 and S2.
type Curves struct {
	Z, G, S4, S2 []float64 // at ascending Z, with a point on either side of each kink
	Kinks        []float64 // those within the range of Z
	// Spectrum4[q] = E[S4(Z)·He_q(Z)]/√q!/sd(S4(Z)) for q ≥ 1, in [−1, 1], whose
	// squares add up to 1 over all q; Spectrum2 the same of S2. Entry 0 is 0, and
	// so are all where S4 or S2 is constant or has no variance.
	Spectrum4, Spectrum2 []float64

	// T are the transforms of order 2, 3 and 4 over Y.
	Y []float64
	T [3]TransformCurve
}

// TransformCurve is T_r(y), E[T_r(y)] = 0: the polynomial and the transform of
// minimum variance, nil where there is none.
type TransformCurve struct {
	Order               int
	Polynomial, Optimal []float64
}

// spectrumOrder is the last Hermite order of the spectra.
const spectrumOrder = 8

// CurvesOf evaluates act for drawing, on |z| ≤ 3.5, and the transforms over the y
// that come from there and up to three standard deviations of the noise.
func CurvesOf(ctx context.Context, act sdk.Activation, t Transform, o *Optimal) (Curves, error) {
	const half, steps = 3.5, 700
	info := act.Info()
	var c Curves
	for i := range steps + 1 {
		c.Z = append(c.Z, half*(2*float64(i)/steps-1))
	}
	for _, k := range info.Kinks {
		if math.Abs(k) < half {
			c.Kinks = append(c.Kinks, k)
			c.Z = append(c.Z, k-1e-9, k+1e-9)
		}
	}
	slices.Sort(c.Z)
	c.G = make([]float64, len(c.Z))
	if err := act.Eval(ctx, c.G, c.Z); err != nil {
		return Curves{}, fmt.Errorf("curves of activation %q: %w", info.Name, err)
	}
	for _, g := range c.G {
		c.S4 = append(c.S4, t.S4(g))
		c.S2 = append(c.S2, t.S2(g))
	}
	grid, err := gauss.NewGrid(ctx, act.Eval, info.Kinks)
	if errors.Is(err, gauss.ErrGrowth) {
		c.transforms(nil, t, o)
		c.Spectrum4, c.Spectrum2 = make([]float64, spectrumOrder+1), make([]float64, spectrumOrder+1)
		return c, nil
	}
	if err != nil {
		return Curves{}, fmt.Errorf("curves of activation %q: %w", info.Name, err)
	}
	c.Spectrum4 = spectrum(grid, t.S4, 4)
	c.Spectrum2 = spectrum(grid, t.S2, 2)
	c.transforms(grid, t, o)
	return c, nil
}

// transforms draws T_r. The polynomials' means are taken by the grid; without one
// there are no polynomials.
func (c *Curves) transforms(grid *gauss.Grid, t Transform, o *Optimal) {
	const steps = 600
	lo, hi := slices.Min(c.G)-3*t.Sigma, slices.Max(c.G)+3*t.Sigma
	if !(hi > lo) {
		lo, hi = lo-1, lo+1
	}
	for i := range steps + 1 {
		c.Y = append(c.Y, lo+(hi-lo)*float64(i)/steps)
	}
	for i, r := range Orders() {
		c.T[i].Order = r
		if grid != nil && t.Has(r) {
			c.T[i].Polynomial = make([]float64, len(c.Y))
			t.Apply(r, c.T[i].Polynomial, c.Y)
			q, scale := t.polynomial(r)
			q = q.smooth(t.Sigma * t.Sigma).scale(1 / scale)
			mean, _ := grid.Expect(func(_, g float64) float64 { return q.at(g) })
			floats.AddConst(-mean, c.T[i].Polynomial)
		}
		if o.Has(r) {
			c.T[i].Optimal = make([]float64, len(c.Y))
			o.Apply(r, c.T[i].Optimal, c.Y)
		}
	}
}

// spectrum returns the normalised Hermite coefficients of s, a polynomial of
// the given degree in g. A spread of s that is only the rounding of its terms
// has none.
func spectrum(grid *gauss.Grid, s func(g float64) float64, degree int) []float64 {
	mean, _ := grid.Expect(func(_, g float64) float64 { return s(g) })
	variance, _ := grid.Expect(func(_, g float64) float64 { return (s(g) - mean) * (s(g) - mean) })
	size, _ := grid.Expect(func(_, g float64) float64 { return s(g)*s(g) + math.Pow(g, float64(2*degree)) })
	c := make([]float64, spectrumOrder+1)
	if !(variance > 1e-24*size) || math.IsInf(variance, 0) {
		return c
	}
	factorial := 1.0
	for q := 1; q <= spectrumOrder; q++ {
		factorial *= float64(q)
		h, _ := grid.Expect(func(z, g float64) float64 { return (s(g) - mean) * gauss.Hermite(q, z) })
		c[q] = h / math.Sqrt(factorial*variance)
	}
	return c
}
