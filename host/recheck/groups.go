package recheck

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// group is one of the rows' groups, all rows of which have one expert.
type group struct {
	weight float64
	logP   []float64 // log P(z=i|x), of any of its rows
	sum    []neumaier
	spread float64 // what rounding explains
}

// sumGroups passes over rows in groups, from the last to the first: of each group
//
//	log Σ_i P(z=i|x_g)·Π_t f(y_gt; m_i(x_gt), ψ_i)
func (f Fit) sumGroups(ctx context.Context, m Mixture, rounding bool) (total sums, err error) {
	r, of, order := f.room(m), map[float64]*group{}, []*group(nil)
	var room model.Room
	for block := model.Blocks(f.Rows) - 1; block >= 0; block-- {
		b, err := f.Rows.Block(block, &room)
		if err != nil {
			return total, err
		}
		if err := r.take(ctx, f.Act, b, rounding); err != nil {
			return total, err
		}
		for t := b.N - 1; t >= 0; t-- {
			g := of[b.Role[model.Groups][t]]
			if g == nil {
				g = &group{weight: b.Weight(t), logP: make([]float64, m.k), sum: make([]neumaier, m.k)}
				of[b.Role[model.Groups][t]], order = g, append(order, g)
			}
			v := r.term(b, t)
			for i, joint := range r.joint {
				g.sum[i].add(joint - r.logP[i])
			}
			copy(g.logP, r.logP)
			if rounding {
				g.spread += r.rounding(b, t, v)
			}
		}
	}
	joint := make([]float64, m.k)
	for _, g := range order {
		if g.weight == 0 {
			continue
		}
		for i := range joint {
			if joint[i] = math.Inf(-1); !math.IsInf(g.logP[i], -1) {
				joint[i] = g.logP[i] + g.sum[i].value()
			}
		}
		v := logSumExp(joint)
		total.loglik.add(g.weight * v)
		total.size.add(g.weight * math.Abs(v))
		total.rounding.add(g.weight * g.spread)
		total.weight.add(g.weight)
	}
	return total, context.Cause(ctx)
}
