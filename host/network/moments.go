package network

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/interp"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// maxOrder is the highest order of a moment tensor that is used.
const maxOrder = 4

// curves are the Hermite coefficients of φ(s·z) as functions of the scale s,
//
//	m_j(s) = E[φ(sZ)·He_j(Z)],  j = 0 … 4,  and E[φ(sZ)²]
//
// between the least and the largest scale that they were computed at.
type curves struct {
	least, most float64
	at          [maxOrder + 2]interp.AkimaSpline // of log s
	largest     [maxOrder + 1]float64            // max over s of |m_j|/√E[φ²]
}

const (
	curvePoints           = 81
	leastScale, mostScale = 0.05, 20.0
	leastPoints           = 5
	vanishing             = 1e-9         // |m_j| relative to φ's rms that counts as 0
	second                = maxOrder + 1 // where E[φ²] stands

	goldenSteps = 40
	golden      = 0.6180339887498949
)

// curvesOf computes the curves of an activation. Scales at which φ grows too fast
// for its moments are left out.
func curvesOf(ctx context.Context, act sdk.Activation) (*curves, error) {
	c := new(curves)
	var logs []float64
	var values [maxOrder + 2][]float64
	for i := range curvePoints {
		s := leastScale * math.Pow(mostScale/leastScale, float64(i)/(curvePoints-1))
		m, err := hermiteAt(ctx, act, s)
		if errors.Is(err, gauss.ErrGrowth) {
			break
		}
		if err != nil {
			return nil, err
		}
		logs = append(logs, math.Log(s))
		for j, v := range m {
			values[j] = append(values[j], v)
		}
		for j := range c.largest {
			c.largest[j] = max(c.largest[j], math.Abs(m[j])/math.Sqrt(m[second]))
		}
	}
	if len(logs) < leastPoints {
		return nil, gauss.ErrGrowth
	}
	c.least, c.most = leastScale, math.Exp(logs[len(logs)-1])
	for j := range c.at {
		if err := c.at[j].Fit(logs, values[j]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// hermiteAt computes m_0 … m_4 and E[φ²] at a scale.
func hermiteAt(ctx context.Context, act sdk.Activation, s float64) (m [maxOrder + 2]float64, err error) {
	eval := func(ctx context.Context, dst, z []float64) error {
		floats.ScaleTo(dst, s, z)
		return act.Eval(ctx, dst, dst)
	}
	grid, err := gauss.NewGrid(ctx, eval, over(act.Info().Kinks, s))
	if err != nil {
		return m, err
	}
	for j := range maxOrder + 1 {
		m[j], _ = grid.Expect(func(z, g float64) float64 { return g * gauss.Hermite(j, z) })
	}
	m[second], _ = grid.Expect(func(_, g float64) float64 { return g * g })
	return m, nil
}

// m returns m_j(s).
func (c *curves) m(j int, s float64) float64 { return c.at[j].Predict(math.Log(s)) }

// vanishes says whether m_j is 0 at every scale.
func (c *curves) vanishes(j int) bool { return c.largest[j] <= vanishing }

// odd says whether φ is odd about a constant, as tanh and the sigmoid are: then
// (v_i, w_i) and (−v_i, −w_i) differ by a constant alone.
func (c *curves) odd() bool { return c.vanishes(2) && c.vanishes(4) }

// signless says whether φ is odd, as tanh is and the sigmoid is not: then (v_i, w_i) and (−v_i, −w_i) are the same
// unit.
func (c *curves) signless() bool { return c.odd() && c.vanishes(0) }

// variance returns Var φ(sZ).
func (c *curves) variance(s float64) float64 {
	mean := c.m(0, s)
	return c.m(second, s) - mean*mean
}

// scales are those at which a search along the curves begins.
func (c *curves) scales() []float64 {
	out := make([]float64, curvePoints)
	return floats.LogSpan(out, c.least, c.most)
}

// minimise returns the scale at which f is least: the best of [curves.scales], then
// by golden section between its neighbours.
func (c *curves) minimise(f func(s float64) float64) (s, value float64) {
	scales := c.scales()
	best, least := 0, math.Inf(1)
	for i, s := range scales {
		if v := f(s); v < least {
			best, least = i, v
		}
	}
	a, b := scales[max(best-1, 0)], scales[min(best+1, len(scales)-1)]
	for range goldenSteps {
		lo, hi := b-golden*(b-a), a+golden*(b-a)
		if f(lo) < f(hi) {
			b = hi
		} else {
			a = lo
		}
	}
	return (a + b) / 2, f((a + b) / 2)
}
