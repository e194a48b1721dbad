package host

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"gonum.org/v1/gonum/floats"
)

// randomStarts are the starts of the methods that know no others: random ones,
// and the user's own first, if there is one.
func (f *fit) randomStarts() []*climber {
	all := make([]*climber, f.cfg.Starts)
	for i := range all {
		all[i] = &climber{kind: KindRandom}
	}
	if f.cfg.Start != nil {
		all[0].kind = KindOwn
	}
	return all
}

// randomStart returns regressors of random directions with norms about scale
// and no gating. The norms differ so that no two experts are equal where there
// are few directions (d = 1 has two): equal experts stay equal for ever.
func (f *fit) randomStart(rng *rand.Rand) *model.Params {
	p := f.blank(f.spread())
	for i := range p.K {
		a := p.Regressor(i)
		for j := range a {
			a[j] = rng.NormFloat64()
		}
		mask(a, p.D, f.shape.experts)
		floats.Scale(f.scale*math.Exp(rng.NormFloat64()/4)/floats.Norm(a, 2), a)
	}
	for i := range p.RegressorIntercepts {
		p.RegressorIntercepts[i] = f.spread() * rng.NormFloat64()
	}
	return p
}

// ownStart is the user's start in the units and the shape of the fit, with a
// noise level no smaller than a tenth of the target's spread: smaller, and a
// start that is a little off freezes where it is.
func (f *fit) ownStart() *model.Params {
	p := f.units.into(f.cfg.Start.Clone())
	for i, s := range p.Sigma {
		p.Sigma[i] = max(s, f.spread()/10)
	}
	return f.adopt(p)
}

// project returns the data in the coordinates z = Uᵀx of the span.
// ⟨b, z⟩ = ⟨U·b, x⟩: what is fitted there lifts exactly.
func (s *span) project(data *model.Data) *model.Data {
	d, k := s.basis.Dims()
	out := &model.Data{N: data.N, D: k, Blocks: make([]model.Block, len(data.Blocks))}
	for t := range data.Blocks {
		from := &data.Blocks[t]
		to := model.Block{N: from.N, X: make([]float64, k*from.N), Y: from.Y, W: from.W}
		for i := range k {
			for j := range d {
				floats.AddScaled(to.Col(i), s.basis.At(j, i), from.Col(j))
			}
		}
		out.Blocks[t] = to
	}
	return out
}

// spanStart returns a start inside the span of T̂2. Random orthonormal
// directions of the whitened span are first fitted as a mixture over its k
// coordinates, which is cheap, then lifted to ℝ^D. The gate of that small
// problem has an intercept: where gating and regressors are orthogonal, the
// gate given z = Uᵀx is constant.
func (f *fit) spanStart(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
	s := f.span
	d, k := s.basis.Dims()
	small := model.NewParams(k, k)
	small.GatingIntercepts = make([]float64, k-1)
	if f.shape.intercept {
		small.RegressorIntercepts = make([]float64, k)
	}
	small.Sigma[0] = f.spread()
	u := randomOrthonormal(rng, k)
	for i := range k {
		a := small.Regressor(i)
		for j := range a {
			a[j] = u[i*k+j] * math.Sqrt(s.values[j])
		}
		floats.Scale(f.scale/floats.Norm(a, 2), a)
		if rng.Uint64()&1 == 0 {
			floats.Scale(-1, a)
		}
	}
	l := loss.NewLikelihood(f.projected, f.act, small, loss.All, 1)
	l.ReuseCurvature()
	r, err := optim.EM(ctx, l, l.Theta(small), optim.Settings{Iterations: 60, Tolerance: 1e-4})
	if err != nil {
		return nil, err
	}
	small = l.Params(r.X)
	p := model.NewParams(k, d)
	p.RegressorIntercepts, p.GatingIntercepts = small.RegressorIntercepts, small.GatingIntercepts
	s.liftRows(p.Regressors, small.Regressors)
	s.liftRows(p.Gating, small.Gating)
	p.Sigma[0] = small.Sigma[0]
	return f.adopt(p), nil
}

// liftRows writes the rows of z-coordinates in small to rows of ℝ^D.
func (s *span) liftRows(dst, small []float64) {
	d, k := s.basis.Dims()
	for r := range len(small) / k {
		for j := range d {
			for i := range k {
				dst[r*d+j] += s.basis.At(j, i) * small[r*k+i]
			}
		}
	}
}
