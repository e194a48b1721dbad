package network

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver/properties"
)

// Check are the conditions of 003 for an activation, and the curvature of the
// expected loss at given weights.
type Check struct {
	Conditions properties.OneHiddenLayer // P2 at scale 1
	Rho        []Rho                     // at the scales asked for
	Range      []Rho                     // over a range of scales, as many as [RangePoints], ascending
	P2         bool                      // ρ > 0 at all of them
	Worst      Rho                       // the least ρ of the range, relative to its terms
	Hessian    *Spectrum
	Bound      float64 // on the numerical error of the Hessian's entries
}

// Rho is ρ at a scale, the length of a unit's weights.
type Rho struct {
	Sigma float64
	Rho   float64
	Scale float64 // of the terms that it is the difference of
}

// RangePoints is the number of scales at which a range is looked at.
const RangePoints = 25

// CheckOf checks an activation: ρ at the scales sigmas and, for P2, which asks for
// every scale, at [RangePoints] of them from lo to hi in equal ratios; and the
// population Hessian at the weights of n.
func CheckOf(ctx context.Context, act sdk.Activation, sigmas []float64, lo, hi float64,
	n *model.Network) (*Check, error) {
	c := new(Check)
	var err error
	if c.Conditions, err = properties.OneHiddenLayerOf(ctx, act, 1); err != nil {
		return nil, err
	}
	if c.Rho, err = rhos(ctx, act, sigmas); err != nil {
		return nil, err
	}
	scales := make([]float64, RangePoints)
	for i := range scales {
		scales[i] = lo * math.Pow(hi/lo, float64(i)/(RangePoints-1))
	}
	if c.Range, err = rhos(ctx, act, scales); err != nil {
		return nil, err
	}
	c.P2, c.Worst = c.Conditions.P2, c.Range[0]
	for _, r := range append(append([]Rho(nil), c.Rho...), c.Range...) {
		c.P2 = c.P2 && r.Rho > 0
	}
	for _, r := range c.Range {
		if r.Rho/r.Scale < c.Worst.Rho/c.Worst.Scale {
			c.Worst = r
		}
	}
	var h *mat.SymDense
	if h, c.Bound, err = PopulationHessian(ctx, act, n); err != nil {
		return nil, err
	}
	c.Hessian, err = SpectrumOf(h)
	return c, err
}

// Holds says whether the conditions hold and the expected loss is strongly
// convex at the weights.
func (c *Check) Holds() bool {
	return c.Conditions.P1 && c.P2 && c.Conditions.P3 && c.Hessian.Least() > 0
}

// Reasons says what does not hold, a sentence each.
func (c *Check) Reasons() []string {
	out := []string{}
	if !c.Conditions.P1 {
		out = append(out, "P1: φ′ is negative somewhere, or grows faster than any power")
	}
	if !c.P2 {
		out = append(out, "P2: ρ is not above 0 at every scale")
	}
	if !c.Conditions.P3 {
		out = append(out, "P3: φ″ is not bounded, and φ is not piecewise linear")
	}
	if c.Hessian.Least() <= 0 {
		out = append(out, fmt.Sprintf("the Hessian has a null space of dimension %d", c.Hessian.Null))
	}
	return out
}

func rhos(ctx context.Context, act sdk.Activation, sigmas []float64) ([]Rho, error) {
	out := make([]Rho, len(sigmas))
	for i, s := range sigmas {
		rho, scale, err := properties.RhoOf(ctx, act, s)
		if err != nil {
			return nil, fmt.Errorf("ρ at scale %v: %w", s, err)
		}
		out[i] = Rho{Sigma: s, Rho: rho, Scale: scale}
	}
	return out, nil
}

// Orthonormal returns the network with W = I of d units over d features and
// v = 1, at which the slides look at the Hessian (003 slides 10 and 11).
func Orthonormal(d int) *model.Network {
	n := model.NewNetwork(d, d)
	for i := range d {
		n.Unit(i)[i], n.Output[i] = 1, 1
	}
	return n
}
