package diagnosis

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report"
)

// Join makes one of two groups of experts.
type Join struct {
	Experts [2][]int // from 0
	// Cost is what that takes off the log-likelihood if every row keeps the probabilities of its experts and the noise
	// is as before: with G_i = Σ_rows r_i·g′_i²·x·xᵀ/σ_i², r the posterior, and a group's a = (Σ G_i)⁻¹·Σ G_i·a_i
	//
	//	½·Σ_{both} (a_both − a)ᵀ·G_both·(a_both − a)
	//
	// for linear experts, and to second order for others.
	Cost float64
}

const (
	// leastJoined is the number of experts from which joins are of use, mostPooled the most coefficients of an expert
	// for which they are made, and pooledRows how many rows they are made from.
	leastJoined = 3
	mostPooled  = 200
	pooledRows  = 20000
)

// pooling sums the G_i of the experts of a model over some of its rows.
type pooling struct {
	columns       []int // of the features that experts see; D is the intercept
	stride        int
	gram          []*mat.SymDense
	weight, taken float64 // of all rows, and of those
}

// newPooling is nil of a model whose experts cannot be joined: of few of them, a tree, leaves of their own, an output
// scale, another density than the normal one, shared coefficients, or very many.
func newPooling(m *fitted.Model) *pooling {
	if m.K < leastJoined || m.Hierarchy != "" || m.Leaves != nil || m.OutputScale != nil || m.Family != "" ||
		len(m.Shared) > 0 || len(m.Sigma) == 0 {
		return nil
	}
	p := &pooling{columns: report.SeenFeatures(m, m.Regressors), stride: (m.Fit.N + pooledRows - 1) / pooledRows}
	if m.RegressorIntercepts != nil {
		p.columns = append(p.columns, m.D)
	}
	if n := len(p.columns); n == 0 || n > mostPooled {
		return nil
	}
	for range m.K {
		p.gram = append(p.gram, mat.NewSymDense(len(p.columns), nil))
	}
	return p
}

// add adds a block that begins at a row, with the experts' predictors and posterior.
func (p *pooling) add(ctx context.Context, act model.Activation, m *model.Params, b *model.Block, first int, index,
	posterior []float64) error {
	var rows []int
	var weight, slope []float64
	for r := range b.N {
		w := 1.0
		if weights := b.Role[model.Weights]; weights != nil {
			w = weights[r]
		}
		p.weight += w
		if (first+r)%p.stride == 0 && w > 0 {
			rows, weight = append(rows, r), append(weight, w)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	for i := range p.gram {
		for _, r := range rows {
			slope = append(slope, index[i*b.N+r])
		}
	}
	if err := act.Deriv(ctx, slope, slope); err != nil {
		return err
	}
	x := mat.NewVecDense(len(p.columns), nil)
	for at, r := range rows {
		w := weight[at]
		p.taken += w
		for c, j := range p.columns {
			v := 1.0
			if j < m.D {
				v = b.Col(j)[r]
			}
			x.SetVec(c, v)
		}
		for i, g := range p.gram {
			s := slope[i*len(rows)+at] / m.SigmaOf(i)
			if f := w * posterior[i*b.N+r] * s * s; f > 0 {
				g.SymRankOne(g, f, x)
			}
		}
	}
	return nil
}

// joins are those of the experts, two groups at a time, those that cost least. It is nil where the rows do not tell.
func (p *pooling) joins(m *fitted.Model) (out []Join) {
	type group struct {
		experts []int
		gram    *mat.SymDense
		a       *mat.VecDense
	}
	var groups []group
	for i := range m.K {
		a := mat.NewVecDense(len(p.columns), nil)
		for c, j := range p.columns {
			if j < m.D {
				a.SetVec(c, m.Regressors[i][j])
			} else {
				a.SetVec(c, m.RegressorIntercepts[i])
			}
		}
		g := mat.NewSymDense(len(p.columns), nil)
		g.ScaleSym(p.weight/p.taken, p.gram[i])
		groups = append(groups, group{[]int{i}, g, a})
	}
	for len(groups) > 1 {
		best, at := Join{Cost: math.Inf(1)}, [2]int{}
		var both group
		for i := range groups {
			for j := i + 1; j < len(groups); j++ {
				u, v := groups[i], groups[j]
				one, cost, ok := pooled(u.gram, v.gram, u.a, v.a)
				if ok && cost < best.Cost {
					sum := mat.NewSymDense(len(p.columns), nil)
					sum.AddSym(u.gram, v.gram)
					both = group{slices.Concat(u.experts, v.experts), sum, one}
					best, at = Join{[2][]int{u.experts, v.experts}, cost}, [2]int{i, j}
				}
			}
		}
		if math.IsInf(best.Cost, 1) {
			return nil
		}
		out = append(out, best)
		groups = slices.Delete(groups, at[1], at[1]+1)
		groups[at[0]] = both
	}
	return out
}

// pooled is the a of least ½·(u − a)ᵀG(u − a) + ½·(v − a)ᵀH(v − a), and that.
func pooled(g, h *mat.SymDense, u, v *mat.VecDense) (a *mat.VecDense, cost float64, ok bool) {
	n := u.Len()
	sum := mat.NewSymDense(n, nil)
	sum.AddSym(g, h)
	// Scaled to unit diagonal, with a little more, for columns that no row of the two has.
	const ridge = 1e-10
	scale, scaled := make([]float64, n), mat.NewSymDense(n, nil)
	for i := range scale {
		scale[i] = 1
		if d := sum.At(i, i); d > 0 {
			scale[i] = 1 / math.Sqrt(d)
		}
	}
	for i := range n {
		for j := i; j < n; j++ {
			scaled.SetSym(i, j, scale[i]*sum.At(i, j)*scale[j])
		}
		scaled.SetSym(i, i, scaled.At(i, i)+ridge)
	}
	var factor mat.Cholesky
	if !factor.Factorize(scaled) {
		return nil, 0, false
	}
	// a = u + (G + H)⁻¹·H·(v − u)
	var gap, right, step mat.VecDense
	gap.SubVec(v, u)
	right.MulVec(h, &gap)
	for i := range n {
		right.SetVec(i, scale[i]*right.AtVec(i))
	}
	if factor.SolveVecTo(&step, &right) != nil {
		return nil, 0, false
	}
	a = mat.NewVecDense(n, nil)
	for i := range n {
		a.SetVec(i, u.AtVec(i)+scale[i]*step.AtVec(i))
	}
	gap.SubVec(u, a)
	cost = mat.Inner(&gap, g, &gap) / 2
	gap.SubVec(v, a)
	cost += mat.Inner(&gap, h, &gap) / 2
	return a, cost, !math.IsNaN(cost) && !math.IsInf(cost, 0)
}
