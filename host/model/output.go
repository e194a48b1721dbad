package model

import (
	"context"

	"gonum.org/v1/gonum/floats"
)

// HasOutput says whether the means are c_i + s_i·g and not g alone.
func (p *Params) HasOutput() bool { return p.Offset != nil }

// OutputOf returns c_i and s_i of expert i, 0 and 1 where there are none.
func (p *Params) OutputOf(i int) (offset, scale float64) {
	switch {
	case p.Offset == nil:
		return 0, 1
	case len(p.Offset) == 1:
		return p.Offset[0], p.Scale[0]
	}
	return p.Offset[i], p.Scale[i]
}

// Means replaces g, K rows of equal length, by the experts' means c_i + s_i·g.
func (p *Params) Means(g []float64) {
	p.eachOutput(g, func(g []float64, offset, scale float64) {
		floats.Scale(scale, g)
		floats.AddConst(offset, g)
	})
}

// Slopes replaces derivatives of g, K rows of equal length, by those of the means.
func (p *Params) Slopes(dg []float64) {
	p.eachOutput(dg, func(dg []float64, _, scale float64) { floats.Scale(scale, dg) })
}

func (p *Params) eachOutput(v []float64, fn func(v []float64, offset, scale float64)) {
	if !p.HasOutput() {
		return
	}
	n := len(v) / p.K
	for i := range p.K {
		offset, scale := p.OutputOf(i)
		fn(v[i*n:(i+1)*n], offset, scale)
	}
}

// Output is what makes experts' means of their predictors: g itself, or c_i + s_i·g on
// K rows of equal length.
func (p *Params) Output(g Activation) Activation {
	if !p.HasOutput() {
		return g
	}
	return output{g, p}
}

type output struct {
	g Activation
	p *Params
}

// Eval implements [Activation] on K rows.
func (o output) Eval(ctx context.Context, dst, z []float64) error {
	if err := o.g.Eval(ctx, dst, z); err != nil {
		return err
	}
	o.p.Means(dst)
	return nil
}

// Deriv implements [Activation] on K rows.
func (o output) Deriv(ctx context.Context, dst, z []float64) error {
	if err := o.g.Deriv(ctx, dst, z); err != nil {
		return err
	}
	o.p.Slopes(dst)
	return nil
}

// SetOutput gives p the output c + s·g: one pair for all experts, or a pair for each.
func (p *Params) SetOutput(perExpert bool, offset, scale float64) {
	n := 1
	if perExpert {
		n = p.K
	}
	p.Offset, p.Scale = make([]float64, n), make([]float64, n)
	for i := range n {
		p.Offset[i], p.Scale[i] = offset, scale
	}
}

// CopyOutput gives expert to the output of expert from, where each has its own.
func (p *Params) CopyOutput(to, from int) {
	if len(p.Offset) > 1 {
		p.Offset[to], p.Scale[to] = p.Offset[from], p.Scale[from]
	}
}

// Upright returns p with every s_i above 0, the same mixture, for a g with
// g(−z) = sum − g(z):
//
//	c + s·g(z) = (c + s·sum) − s·g(−z)
//
// One s of all experts turns the regressors of all.
func (p *Params) Upright(sum float64) *Params {
	out := p.Clone()
	for m, s := range p.Scale {
		if s >= 0 {
			continue
		}
		out.Offset[m], out.Scale[m] = p.Offset[m]+s*sum, -s
		for i := range p.K {
			if len(p.Scale) > 1 && i != m {
				continue
			}
			floats.Scale(-1, out.Regressor(i))
			if out.RegressorIntercepts != nil {
				out.RegressorIntercepts[i] *= -1
			}
		}
	}
	return out
}
