package sdk

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk/gauss"
)

// MaxOrder is the highest power of g and of Z in [Moments].
const MaxOrder = 4

// Moments are the raw Gaussian moments of an activation,
//
//	Value[p][q] = E[g(Z)^p·Z^q],  Z ~ N(0,1),  0 ≤ p, q ≤ 4,
//
// and Error[p][q] bounds the numerical error of each.
type Moments struct {
	Value [MaxOrder + 1][MaxOrder + 1]float64
	Error [MaxOrder + 1][MaxOrder + 1]float64
}

// MomentsOf returns the moments of act: its own if it is a [MomentsProvider],
// else by [Quadrature]. Moments that are not finite are an error.
func MomentsOf(ctx context.Context, act Activation) (Moments, error) {
	own, ok := act.(MomentsProvider)
	if !ok {
		return Quadrature(ctx, act)
	}
	m, err := own.Moments(ctx)
	if err != nil {
		return Moments{}, fmt.Errorf("moments of activation %q: %w", act.Info().Name, err)
	}
	for p := range m.Value {
		for q, v := range m.Value[p] {
			if e := m.Error[p][q]; math.IsNaN(v+e) || math.IsInf(v+e, 0) || e < 0 {
				return Moments{}, fmt.Errorf("moments of activation %q: E[g^%d·Z^%d] = %v ± %v", act.Info().Name, p, q,
					v, e)
			}
		}
	}
	return m, nil
}

// Quadrature computes the moments of act from its values, split at its kinks,
// with an error bound for each (see package gauss). It calls act.Eval a handful
// of times, with some thousand points each.
func Quadrature(ctx context.Context, act Activation) (Moments, error) {
	info := act.Info()
	grid, err := gauss.NewGrid(ctx, act.Eval, info.Kinks)
	if err != nil {
		return Moments{}, fmt.Errorf("moments of activation %q: %w", info.Name, err)
	}
	return MomentsOn(grid), nil
}

// MomentsOn returns the moments by quadrature on a grid of the activation's
// values, for who has more to take expectations of; see [Quadrature].
func MomentsOn(grid *gauss.Grid) Moments {
	var m Moments
	for p := range m.Value {
		for q := range m.Value[p] {
			m.Value[p][q], m.Error[p][q] = grid.Expect(func(z, g float64) float64 {
				return power(g, p) * power(z, q)
			})
		}
	}
	return m
}

func power(x float64, n int) float64 {
	r := 1.0
	for range n {
		r *= x
	}
	return r
}

// Hermite returns h(p,q) = E[g(Z)^p·He_q(Z)] for 0 ≤ p, q ≤ 4: up to the factor
// 1/q! the q-th Hermite coefficient of g^p.
func (m Moments) Hermite(p, q int) float64 {
	var h float64
	for j, c := range gauss.HermiteCoefficients(q) {
		if c != 0 {
			h += c * m.Value[p][j]
		}
	}
	return h
}

// HermiteError bounds the numerical error of [Moments.Hermite].
func (m Moments) HermiteError(p, q int) float64 {
	var e float64
	for j, c := range gauss.HermiteCoefficients(q) {
		e += math.Abs(c) * (m.Error[p][j] + 0x1p-52*math.Abs(m.Value[p][j]))
	}
	return e
}

// System is the linear system behind the output transforms at noise level
// Sigma (002 Appendix B). With h(p,q) = E[g(Z)^p·He_q(Z)]:
//
//	Matrix·(α, β, γ)ᵀ = RHS      rows q = 1, 2, 3 of Condition 1
//	c4 = C4[0] + C4[1]·α + C4[2]·β + C4[3]·γ
//	Delta[0]·δ = Delta[1]        Condition 2
//	c2 = C2[0] + C2[1]·δ
//
// and Cubic is the third-order twin (001, method 1).
type System struct {
	Sigma  float64
	Matrix [3][3]float64
	RHS    [3]float64
	C4     [4]float64
	Delta  [2]float64
	C2     [2]float64
	Cubic  CubicSystem
}

// CubicSystem is the system of the third-order transform
// P3(y) = y³ + αy² + βy:
//
//	Matrix·(α, β)ᵀ = RHS         rows q = 1, 2
//	c3 = C3[0] + C3[1]·α + C3[2]·β
type CubicSystem struct {
	Matrix [2][2]float64
	RHS    [2]float64
	C3     [3]float64
}

// SystemOf returns the linear system of act at noise level sigma ≥ 0: its own
// if it is a [SystemProvider], else that of its moments. Whether what a provider
// offers is right is for the solver to say.
func SystemOf(ctx context.Context, act Activation, sigma float64) (System, error) {
	if _, ok := act.(SystemProvider); ok {
		return SystemFrom(ctx, act, Moments{}, sigma)
	}
	m, err := MomentsOf(ctx, act)
	if err != nil {
		return System{}, err
	}
	return m.System(sigma), nil
}

// SystemFrom is [SystemOf] for who has the moments of act, as [MomentsOf] returned
// them: they are not computed again.
func SystemFrom(ctx context.Context, act Activation, m Moments, sigma float64) (System, error) {
	own, ok := act.(SystemProvider)
	if !ok {
		return m.System(sigma), nil
	}
	s, err := own.System(ctx, sigma)
	if err != nil {
		return System{}, fmt.Errorf("system of activation %q: %w", act.Info().Name, err)
	}
	s.Sigma = sigma
	return s, nil
}

// System returns the linear system that follows from the moments at noise level
// sigma. With s = σ² and y = g(Z) + σN, E[y³|Z] = g³ + 3s·g and
// E[y⁴|Z] = g⁴ + 6s·g² + 3s², so row q ≥ 1 of Condition 1 reads
//
//	α(h(3,q) + 3s·h(1,q)) + β·h(2,q) + γ·h(1,q) = −(h(4,q) + 6s·h(2,q))
//
// and c4 is the same expression at q = 4, all terms on one side. In the ReLU
// example of 002 the β column carries a σ² that does not belong there:
// E[He_q(Z)] = 0.
func (m Moments) System(sigma float64) System {
	s := sigma * sigma
	cube := func(q int) float64 { return m.Hermite(3, q) + 3*s*m.Hermite(1, q) }
	fourth := func(q int) float64 { return m.Hermite(4, q) + 6*s*m.Hermite(2, q) }
	sys := System{
		Sigma: sigma,
		C4:    [4]float64{fourth(4), cube(4), m.Hermite(2, 4), m.Hermite(1, 4)},
		Delta: [2]float64{m.Hermite(1, 1), -m.Hermite(2, 1)},
		C2:    [2]float64{m.Hermite(2, 2), m.Hermite(1, 2)},
		Cubic: CubicSystem{C3: [3]float64{cube(3), m.Hermite(2, 3), m.Hermite(1, 3)}},
	}
	for i := range sys.Matrix {
		q := i + 1
		sys.Matrix[i] = [3]float64{cube(q), m.Hermite(2, q), m.Hermite(1, q)}
		sys.RHS[i] = -fourth(q)
	}
	for i := range sys.Cubic.Matrix {
		q := i + 1
		sys.Cubic.Matrix[i] = [2]float64{m.Hermite(2, q), m.Hermite(1, q)}
		sys.Cubic.RHS[i] = -cube(q)
	}
	return sys
}
