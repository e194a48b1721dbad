package infer

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// EstimateVector is [EstimateGiven] of a mixture with vector outputs at its maximum p. The
// parameters are θ's; those of a noise are its levels σ_c = √Σ_cc and, where it is full, its
// correlations Σ_cb/(σ_c·σ_b) in the places of u_cb, by the delta method; of a family its scales, and its own
// parameters as θ has them.
func EstimateVector(ctx context.Context, l *loss.Vector, p *model.VectorParams, kind Kind, kinks []float64,
	held func(loss.Parameter) bool, ends *Endless) (*Covariance, error) {
	c, err := estimate(ctx, l, p, kind, kinks, held, ends)
	if err != nil {
		return nil, err
	}
	c.d, c.levels = p.D, len(p.Noise)
	for _, q := range joint.Of(p.Family).Own(p.M) {
		c.own = append(c.own, mixture.OwnParameter{Name: q.Name})
	}
	c.noiseFromFactors(p)
	return c, c.check()
}

// noiseFromFactors turns the covariance of log s and u into that of noise levels and correlations.
func (c *Covariance) noiseFromFactors(p *model.VectorParams) {
	n := len(c.Parameters)
	jacobian := mat.NewDense(n, n, nil)
	for i := range n {
		jacobian.Set(i, i, 1)
	}
	shape := p.M + len(p.Noise[0].Others())
	first := n - len(p.Noise)*shape
	for s, noise := range p.Noise {
		at := first + s*shape
		if p.Family != "" {
			for c, scale := range noise.Scale {
				jacobian.Set(at+c, at+c, scale)
			}
			continue
		}
		jacobian.Slice(at, at+shape, at, at+shape).(*mat.Dense).Copy(noiseJacobian(noise))
	}
	var left, both mat.Dense
	left.Mul(jacobian, c.Matrix)
	both.Mul(&left, jacobian.T())
	c.Matrix = numeric.Symmetric(&both)
}

// noiseJacobian is ∂(σ, ρ)/∂(log s, u) of normal noise. With L = U⁻¹, l_c its column c,
//
//	∂Σ/∂log s_c = 2s_c²·l_c·l_cᵀ,   ∂Σ/∂u_cb = −(l_c·Σ_b·ᵀ + Σ_b·l_cᵀ)
func noiseJacobian(noise model.VectorNoise) *mat.Dense {
	m := len(noise.Scale)
	shape := m + len(noise.Lower)
	cov := noise.Covariance()
	var inverse mat.Dense
	if err := inverse.Inverse(mat.NewDense(m, m, noise.Unit())); err != nil {
		if _, ill := err.(mat.Condition); !ill {
			panic("infer: " + err.Error()) // unit lower triangular
		}
	}
	out := mat.NewDense(shape, shape, nil)
	derivative := func(l int) func(a, b int) float64 {
		if l < m {
			return func(a, b int) float64 {
				return 2 * noise.Scale[l] * noise.Scale[l] * inverse.At(a, l) * inverse.At(b, l)
			}
		}
		c, at := model.LowerAt(l - m)
		return func(a, b int) float64 { return -(inverse.At(a, c)*cov.At(at, b) + inverse.At(b, c)*cov.At(at, a)) }
	}
	for l := range shape {
		d := derivative(l)
		for c := range m {
			out.Set(c, l, d(c, c)/2/math.Sqrt(cov.At(c, c)))
		}
		for r := m; r < shape; r++ {
			c, b := model.LowerAt(r - m)
			size := math.Sqrt(cov.At(c, c) * cov.At(b, b))
			out.Set(r, l, d(c, b)/size-cov.At(c, b)/size/2*(d(c, c)/cov.At(c, c)+d(b, b)/cov.At(b, b)))
		}
	}
	return out
}
