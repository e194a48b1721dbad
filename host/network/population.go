package network

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// PopulationHessian returns the Hessian of the expected loss at the true weights
// (003 slide 9), kd×kd, with blocks
//
//	H_ij = v_i·v_j·E[φ′(⟨w_i,x⟩)·φ′(⟨w_j,x⟩)·x·xᵀ],  x ~ N(0, I)
//
// by quadrature in the plane of w_i and w_j, and a bound on the numerical error
// of its entries. Weights of 0 are an error.
func PopulationHessian(ctx context.Context, act sdk.Activation, n *model.Network) (*mat.SymDense, float64, error) {
	h := mat.NewSymDense(n.K*n.D, nil)
	worst := 0.0
	for i := range n.K {
		for j := i; j < n.K; j++ {
			block, bound, err := populationBlock(ctx, act, n.Unit(i), n.Unit(j))
			if err != nil {
				return nil, 0, err
			}
			scale := n.Output[i] * n.Output[j]
			worst = max(worst, math.Abs(scale)*bound)
			for a := range n.D {
				for b := range n.D {
					h.SetSym(i*n.D+a, j*n.D+b, scale*block.At(a, b))
				}
			}
		}
	}
	return h, worst, nil
}

// populationBlock returns E[φ′(⟨w,x⟩)·φ′(⟨u,x⟩)·x·xᵀ], which is symmetric: with e
// and f an orthonormal basis of the plane of w and u, m_ab the moments in it, and
// P the projection on what is orthogonal to it,
//
//	m_00·P + m_20·eeᵀ + m_11·(efᵀ + feᵀ) + m_02·ffᵀ
func populationBlock(ctx context.Context, act sdk.Activation, w, u []float64) (*mat.SymDense, float64, error) {
	d := len(w)
	nw, nu := floats.Norm(w, 2), floats.Norm(u, 2)
	if nw == 0 || nu == 0 {
		return nil, 0, fmt.Errorf("a unit whose weights are all 0")
	}
	e, f := mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
	e.ScaleVec(1/nw, mat.NewVecDense(d, w))
	f.ScaleVec(1/nu, mat.NewVecDense(d, u))
	c := max(-1, min(1, mat.Dot(e, f)))
	f.AddScaledVec(f, -c, e)
	if norm := mat.Norm(f, 2); norm > 1e-12 {
		f.ScaleVec(1/norm, f)
	} else {
		f.Zero() // one line: all of its moments across are those of E W² = 1
		c = math.Copysign(1, c)
	}
	kinks := act.Info().Kinks
	p, err := gauss.NewPair(ctx, scaled(act, nw), over(kinks, nw), scaled(act, nu), over(kinks, nu), c)
	if err != nil {
		return nil, 0, err
	}
	m := p.Value
	out := mat.NewSymDense(d, nil)
	for i := range d {
		out.SetSym(i, i, m[0][0])
	}
	out.SymRankOne(out, m[2][0]-m[0][0], e)
	out.SymRankOne(out, m[0][2]-m[0][0], f)
	out.RankTwo(out, m[1][1], e, f)
	return out, p.Error, nil
}

// scaled is φ′(s·z).
func scaled(act sdk.Activation, s float64) gauss.Func {
	return func(ctx context.Context, dst, z []float64) error {
		floats.ScaleTo(dst, s, z)
		return act.Deriv(ctx, dst, dst)
	}
}

func over(kinks []float64, s float64) []float64 {
	out := make([]float64, len(kinks))
	for i, k := range kinks {
		out[i] = k / s
	}
	return out
}

// Spectrum are the eigenvalues of a Hessian and what it does not see.
type Spectrum struct {
	Values []float64  // ascending
	Null   int        // of them are 0 to rounding
	Vector *mat.Dense // columns: the eigenvectors
}

// nullTolerance is what counts as 0 beside the largest eigenvalue: quadrature
// leaves 1e−12, rounding of the eigenvalues less.
const nullTolerance = 1e-10

// SpectrumOf returns the eigenvalues and eigenvectors of a Hessian.
func SpectrumOf(h *mat.SymDense) (*Spectrum, error) {
	var eig mat.EigenSym
	if !eig.Factorize(h, true) {
		return nil, fmt.Errorf("the eigenvalues of the Hessian cannot be computed")
	}
	s := &Spectrum{Values: eig.Values(nil), Vector: new(mat.Dense)}
	eig.VectorsTo(s.Vector)
	largest := s.Values[len(s.Values)-1]
	for _, v := range s.Values {
		if math.Abs(v) <= nullTolerance*largest {
			s.Null++
		}
	}
	return s, nil
}

// Least returns the least eigenvalue, 0 where rounding alone keeps it from 0.
func (s *Spectrum) Least() float64 {
	if s.Null > 0 {
		return 0
	}
	return s.Values[0]
}
