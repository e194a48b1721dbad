package recheck

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/model"
)

// Mixture is the parameters of a mixture with one target or several, as they are:
//
//	p(y|x) = Σ_i P(z=i|x)·N(y; μ_i, Σ_i),   μ_ic = offset_i + scale_i·g(⟨a_ic,x⟩ + b_ic)
type Mixture struct {
	k, d, m                int
	tree                   model.Hierarchy
	gating, gateIntercepts []float64
	regressors, intercepts []float64 // K·M rows
	output                 func(i int) (offset, scale float64)
	noise                  []model.VectorNoise // one, or K
	law                    func(r *room, i int, b *model.Block, t int) float64
	zero                   bool // beside the k experts the gate has one that is always 0
}

// Of returns the mixture of parameters with one target.
func Of(p *model.Params) Mixture {
	m := Mixture{
		k: p.K, d: p.D, m: 1, tree: p.Hierarchy(), gating: p.Gating, gateIntercepts: p.GatingIntercepts,
		regressors: p.Regressors, intercepts: p.RegressorIntercepts, output: p.OutputOf, zero: p.Zero,
	}
	if p.Zero {
		m.tree = model.FlatHierarchy(m.classes())
	}
	for _, sigma := range p.Sigma {
		m.noise = append(m.noise, model.VectorNoise{Scale: []float64{sigma}})
	}
	return m
}

// Law is the logarithm of the density of row t's target of a block under one expert.
type Law func(b *model.Block, t int, mean float64, psi []float64) float64

// Laws are those of the experts of a mixture with several targets, whose values and means are given.
type Laws func(i int, y, mean []float64) float64

// Under returns the mixture of parameters with one target, whose density at one y under one expert has this logarithm
// in place of the normal one; nil is that. Beside it, of what rounding explains only that of probabilities next to 1 is
// known, and there is no computation in many digits.
func Under(p *model.Params, law Law) Mixture {
	m := Of(p)
	if law == nil {
		return m
	}
	psi := make([][]float64, p.K)
	for i := range psi {
		psi[i] = p.OwnOf(nil, i)
	}
	m.law = func(r *room, i int, b *model.Block, t int) float64 { return law(b, t, r.mean[i*r.n+t], psi[i]) }
	if len(m.noise) == 0 {
		m.noise = []model.VectorNoise{{Scale: []float64{1}}}
	}
	return m
}

// OfVector returns the mixture of parameters with several targets, with [Laws] as of [Under] or none.
func OfVector(p *model.VectorParams, laws Laws) Mixture {
	m := Mixture{
		k: p.K, d: p.D, m: p.M, tree: p.OfGate().Hierarchy(), gating: p.Gating, gateIntercepts: p.GatingIntercepts,
		regressors: p.Regressors, intercepts: p.RegressorIntercepts,
		output: func(int) (float64, float64) { return 0, 1 }, noise: p.Noise,
	}
	if laws != nil {
		m.law = func(r *room, i int, b *model.Block, t int) float64 {
			y, mean := make([]float64, p.M), make([]float64, p.M)
			for c := range y {
				y[c], mean[c] = b.Y[c*r.n+t], r.mean[(i*p.M+c)*r.n+t]
			}
			return laws(i, y, mean)
		}
	}
	return m
}

// classes is how many the gate chooses among.
func (m Mixture) classes() int {
	if m.zero {
		return m.k + 1
	}
	return m.k
}

// widened returns m with noise levels so many times as large.
func (m Mixture) widened(times float64) Mixture {
	noise := make([]model.VectorNoise, len(m.noise))
	for l, n := range m.noise {
		noise[l] = model.VectorNoise{Scale: make([]float64, m.m), Lower: n.Lower}
		for c, s := range n.Scale {
			noise[l].Scale[c] = times * s
		}
	}
	m.noise = noise
	return m
}

// noiseOf returns the noise of expert i, and u_cb of it.
func (m Mixture) noiseOf(i int) model.VectorNoise { return m.noise[min(i, len(m.noise)-1)] }

func lower(n model.VectorNoise, c, b int) float64 {
	if n.Lower == nil {
		return 0
	}
	return n.Lower[c*(c-1)/2+b]
}

// node is a gate of the tree: the rows of its branches' predictors, −1 of the last, which is 0,
// and what the branches are: nodes, or leaves from 0 down, ^leaf.
type node struct{ rows, branches []int }

// nodesOf lists the gates of a tree whose leaves begin at from, parents first, behind those of list.
func nodesOf(list []node, h model.Hierarchy, from int) []node {
	at := len(list)
	list = append(list, node{})
	var of node
	for c, branch := range h.Branches {
		end := from + branch.Leaves()
		row := end - 1
		if c == len(h.Branches)-1 {
			row = -1
		}
		to := ^from
		if len(branch.Branches) > 0 {
			to = len(list)
			list = nodesOf(list, branch, from)
		}
		of.rows, of.branches = append(of.rows, row), append(of.branches, to)
		from = end
	}
	list[at] = of
	return list
}

// room is where the rows of a block are computed.
type room struct {
	m        Mixture
	nodes    []node
	constant []float64 // of the experts' log-densities
	shift    []float64
	targets  []float64

	// Of a block: predictors of the experts, their means, and the derivatives of these, K·M rows of
	// N values; predictors of the gate, K−1 rows.
	z, mean, slope, logits []float64
	n                      int

	// Of a row.
	branch, above []float64 // predictors of a node's branches; log-probabilities of the nodes
	logP, joint   []float64 // K, and one for an expert that is always 0
	e             []float64 // K·M standardised residuals

	logitError, gateError, err []float64
}

func newRoom(m Mixture, shift []float64) *room {
	kmn := func() []float64 { return make([]float64, m.k*m.m*model.BlockRows) }
	k := func() []float64 { return make([]float64, m.classes()) }
	r := &room{
		m: m, nodes: m.nodes(), constant: k(), shift: shift,
		z: kmn(), mean: kmn(), slope: kmn(), logits: make([]float64, m.classes()*model.BlockRows),
		branch: k(), above: k(), logP: k(), joint: k(), e: make([]float64, m.k*m.m),
		logitError: k(), gateError: k(), err: make([]float64, m.m),
	}
	for i := range m.k {
		r.constant[i] = -0.5 * float64(m.m) * math.Log(2*math.Pi)
		for _, s := range m.noiseOf(i).Scale {
			r.constant[i] -= math.Log(s)
		}
	}
	return r
}

// nodes lists the gates; none of a leaf.
func (m Mixture) nodes() []node {
	if m.classes() == 1 {
		return nil
	}
	return nodesOf(nil, m.tree, 0)
}

// predictors writes ⟨row, x⟩ + its intercept for so many rows of coef and the rows of a block,
// from the last term to the first.
func predictors(dst, coef, intercepts []float64, rows, d int, b *model.Block) {
	for at := range rows {
		sums := dst[at*b.N : (at+1)*b.N]
		clear(sums)
		j := d - 1
		for ; j >= 3; j -= 4 { // four columns a sweep
			c := coef[at*d+j-3 : at*d+j+1]
			x0, x1, x2, x3 := b.Col(j), b.Col(j - 1)[:len(sums)], b.Col(j - 2)[:len(sums)], b.Col(j - 3)[:len(sums)]
			for t, x := range x0[:len(sums)] {
				sums[t] += c[3]*x + c[2]*x1[t] + c[1]*x2[t] + c[0]*x3[t]
			}
		}
		for ; j >= 0; j-- {
			c, column := coef[at*d+j], b.Col(j)
			for t, x := range column {
				sums[t] += c * x
			}
		}
		if intercepts != nil {
			for t := range sums {
				sums[t] += intercepts[at]
			}
		}
	}
}

// take computes the gate's predictors and the means of a block, and with slopes the derivatives of the means.
func (r *room) take(ctx context.Context, act model.Activation, b *model.Block, slopes bool) error {
	m, n := r.m, b.N
	r.n = n
	rows := m.k * m.m
	z, mean, slope := r.z[:rows*n], r.mean[:rows*n], r.slope[:rows*n]
	predictors(r.logits, m.gating, m.gateIntercepts, m.classes()-1, m.d, b)
	predictors(z, m.regressors, m.intercepts, rows, m.d, b)
	for t, offset := range b.Role[model.Offsets] {
		for at := range rows {
			z[at*n+t] += offset
		}
	}
	if err := act.Eval(ctx, mean, z); err != nil {
		return err
	}
	if slopes {
		if err := act.Deriv(ctx, slope, z); err != nil {
			return err
		}
	}
	for at := range rows {
		offset, scale := m.output(at / m.m)
		if offset == 0 && scale == 1 {
			continue
		}
		for t := at * n; t < (at+1)*n; t++ {
			mean[t] = offset + scale*mean[t]
			slope[t] *= scale
		}
	}
	return nil
}

// term returns log p(y|x) of row t.
func (r *room) term(b *model.Block, t int) float64 {
	m := r.m
	r.logProbabilities(t)
	for i := range m.k {
		n, v := m.noiseOf(i), r.constant[i]
		if m.law != nil {
			r.joint[i] = r.logP[i] + m.law(r, i, b, t)
			continue
		}
		for c, s := range n.Scale {
			e := b.Y[c*r.n+t] - r.mean[(i*m.m+c)*r.n+t]
			for a := range c {
				e += lower(n, c, a) * (b.Y[a*r.n+t] - r.mean[(i*m.m+a)*r.n+t])
			}
			e /= s
			r.e[i*m.m+c] = e
			v -= e / 2 * e
		}
		r.joint[i] = r.logP[i] + v
	}
	if m.zero {
		r.joint[m.k] = math.Inf(-1)
		if b.Y[t] == 0 {
			r.joint[m.k] = r.logP[m.k]
		}
	}
	return logSumExp(r.joint)
}

// logProbabilities writes log P(z=i|x) of row t, from the root down: log P(branch) = log P(node) + z −
// log Σ exp z, of which the largest z is taken off all first.
func (r *room) logProbabilities(t int) {
	r.logP[0], r.above[0] = 0, 0
	for at, node := range r.nodes {
		z := r.branch[:len(node.rows)]
		top := 0.0
		for c, row := range node.rows {
			if z[c] = 0; row >= 0 {
				z[c] = r.logits[row*r.n+t]
			}
			top = max(top, z[c])
		}
		for c := range z {
			z[c] -= top
		}
		norm := logSumExp(z)
		for c, to := range node.branches {
			if v := r.above[at] + (z[c] - norm); to < 0 {
				r.logP[^to] = v
			} else {
				r.above[to] = v
			}
		}
	}
}

// logSumExp returns log Σ exp v.
func logSumExp(v []float64) float64 {
	top := math.Inf(-1)
	for _, a := range v {
		top = max(top, a)
	}
	if math.IsInf(top, 0) || math.IsNaN(top) {
		return top
	}
	sum := 0.0
	for _, a := range v {
		if a -= top; a > -45 { // or exp is nothing beside 1
			sum += math.Exp(a)
		}
	}
	return top + math.Log(sum)
}
