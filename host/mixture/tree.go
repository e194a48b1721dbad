package mixture

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Tree is the gate of a hierarchical mixture (Jordan & Jacobs 1994): a softmax over
// the branches of every node, P(leaf) their product along its path. With P_c the sum
// of P(z|x) over the leaves of branch c of node v, R_c that of the posterior, and
// q_c = P_c/P_v, the derivative of log P(z=i|x) by the predictor of branch c is
//
//	c_ij = [i under c] − [i under v]·q_c
//
// [model.Hierarchy] says which row j of the gating that is. The tree of one gate is
// [Flat] but for the last digits of its scores.
type Tree struct {
	shape model.Hierarchy
	gates []model.GateNode // parents first
	rows  []branchRow
}

// A span is a run of leaves.
type span struct{ from, to int }

func (s span) within(o span) bool { return o.from <= s.from && s.to <= o.to }
func (s span) has(i int) bool     { return s.from <= i && i < s.to }

// branchRow is what row j of the gating is the predictor of.
type branchRow struct{ node, branch span }

// NewTree returns the gate of a shape.
func NewTree(shape model.Hierarchy) *Tree {
	g := &Tree{shape: shape, gates: shape.Gates(), rows: make([]branchRow, shape.Leaves()-1)}
	for _, v := range g.gates {
		for c := range len(v.Ends) - 1 {
			from, to := v.Branch(c)
			g.rows[v.Row(c)] = branchRow{span{v.From, v.To}, span{from, to}}
		}
	}
	return g
}

// GateOf returns the gate of parameters with this shape: [Flat] where there is one gate
// or none.
func GateOf(shape model.Hierarchy) Gate {
	if shape.Depth() <= 1 {
		return Flat{}
	}
	return NewTree(shape)
}

// Shape returns the tree's shape.
func (g *Tree) Shape() model.Hierarchy { return g.shape }

// Scores implements [Gate]: log P(leaf), the sum of the branches' log-probabilities.
func (g *Tree) Scores(dst []float64, p *model.Params, n int) {
	if p.K != len(g.rows)+1 {
		panic(fmt.Sprintf("mixture: %d experts under the tree %s", p.K, g.shape))
	}
	// A branch's log-probability takes the place of its predictor, at its last leaf,
	// and a node's own is at the last leaf of its last branch.
	for _, v := range g.gates {
		for at := 0; at < n; at += strip {
			descend(v, dst, n, at, min(at+strip, n))
		}
	}
}

// strip is the number of rows whose scores are taken at a time: what they need between
// stays in the nearest cache.
const strip = 128

// descend goes from the log-probability of a node to those of its branches, in rows from
// to to−1 of n: ℓ_c = ℓ_v + ((z_c − max z) − log Σ_c exp(z_c − max z)), with 0 for the z of the
// last: the largest goes first, so that the branches likely have all digits whatever its size.
func descend(v model.GateNode, dst []float64, n, from, to int) {
	of := func(end int) []float64 { return dst[(end-1)*n+from : (end-1)*n+to] }
	node, inner := of(v.To), v.Ends[:len(v.Ends)-1]
	var tops, sums, terms [strip]float64
	top, sum, term := tops[:to-from], sums[:to-from], terms[:to-from]
	for _, end := range inner {
		for t, z := range of(end) {
			top[t] = max(top[t], z)
		}
	}
	for t, z := range top {
		sum[t] = -z
	}
	kernel.Exp(sum, sum)
	for _, end := range inner {
		for t, z := range of(end) {
			term[t] = z - top[t]
		}
		kernel.Exp(term, term)
		for t, e := range term {
			sum[t] += e
		}
	}
	kernel.Log(sum, sum)
	for _, end := range inner {
		branch := of(end)
		for t, l := range node {
			branch[t] = l + ((branch[t] - top[t]) - sum[t])
		}
	}
	for t, l := range node {
		node[t] = l - (top[t] + sum[t])
	}
}

// masses returns those of branch and node j in row t: P_c, P_v, R_c, R_v and q_c.
func (g *Tree) masses(j, t int, r *Posterior) (m branchMass) {
	row := g.rows[j]
	prior, post := 0.0, 0.0
	for i := row.node.from; i < row.node.to; i++ {
		p, q := r.Prior[i*r.N+t], r.Post[i*r.N+t]
		prior += p
		post += q
		if row.branch.has(i) {
			m.prior += p
			m.post += q
		}
	}
	m.node = post
	m.q = m.prior / prior
	if prior < 1e-290 { // its digits are gone, or it is 0
		m.q = g.fromScores(row, t, r)
	}
	return m
}

// branchMass is what is known of a branch c of a node v in one row.
type branchMass struct {
	prior, post float64 // P_c, R_c
	node        float64 // R_v
	q           float64 // P_c/P_v
}

// slope returns Σ_i r_i·c_ij.
func (m branchMass) slope() float64 { return m.post - m.q*m.node }

// fromScores returns q_c from the logarithms of the probabilities.
func (g *Tree) fromScores(row branchRow, t int, r *Posterior) float64 {
	top := math.Inf(-1)
	for i := row.node.from; i < row.node.to; i++ {
		top = max(top, r.Scores[i*r.N+t])
	}
	if math.IsInf(top, -1) { // so unlikely a node that nothing is left of its branches
		return 0
	}
	in, all := 0.0, 0.0
	for i := row.node.from; i < row.node.to; i++ {
		e := math.Exp(r.Scores[i*r.N+t] - top)
		all += e
		if row.branch.has(i) {
			in += e
		}
	}
	return in / all
}

// Slope implements [Gate]: R_c − q_c·R_v.
func (g *Tree) Slope(dst []float64, j int, r *Posterior) {
	for t := range r.N {
		dst[t] = g.masses(j, t, r).slope()
	}
}

// Complete implements [CurvedGate]: R_v·q_j(δ_jm − q_m) at one node v, 0 between two.
func (g *Tree) Complete(dst []float64, j, m int, r *Posterior) {
	if g.rows[j].node != g.rows[m].node {
		clear(dst)
		return
	}
	for t := range r.N {
		a := g.masses(j, t, r)
		if j == m {
			dst[t] = a.node * a.q * (1 - a.q)
		} else {
			dst[t] = -a.node * a.q * g.masses(m, t, r).q
		}
	}
}

// Missing implements [CurvedGate]. The posterior mean of c_·j·c_·m is, at one node v,
//
//	δ_jm·R_j − q_j·R_m − q_m·R_j + q_j·q_m·R_v,
//
// and where the node of one lies in a branch of the other's, c_·j is one number κ over
// all its leaves, and the mean κ·c̄_m; otherwise it is 0.
func (g *Tree) Missing(dst []float64, j, m int, r *Posterior) {
	at, to := g.rows[j], g.rows[m]
	for t := range r.N {
		a, b := g.masses(j, t, r), g.masses(m, t, r)
		mean := 0.0
		switch {
		case at.node == to.node:
			mean = a.q*b.q*a.node - a.q*b.post - b.q*a.post
			if j == m {
				mean += a.post
			}
		case to.node.within(at.node):
			mean = at.over(to.node, a) * b.slope()
		case at.node.within(to.node):
			mean = to.over(at.node, b) * a.slope()
		}
		dst[t] = mean - a.slope()*b.slope()
	}
}

// over returns c_ij over the leaves of a node below row j's.
func (row branchRow) over(below span, m branchMass) float64 {
	if below.within(row.branch) {
		return 1 - m.q
	}
	return -m.q
}

// Cross implements [CurvedGate].
func (g *Tree) Cross(dst []float64, i, j int, v []float64, r *Posterior) {
	row := g.rows[j]
	for t, p := range r.PostOf(i) {
		m := g.masses(j, t, r)
		c := 0.0
		if row.node.has(i) {
			c = row.over(span{i, i + 1}, m)
		}
		dst[t] = -p * (c - m.slope()) * v[t]
	}
}

// Across implements [CurvedGate]: −Σ_{i under c} r_i·v_i + q_c·Σ_{i under v} r_i·v_i + c̄_j·mean.
func (g *Tree) Across(dst []float64, j int, v, mean []float64, r *Posterior) {
	row := g.rows[j]
	for t := range r.N {
		m := g.masses(j, t, r)
		branch, node := 0.0, 0.0
		for i := row.node.from; i < row.node.to; i++ {
			s := r.Post[i*r.N+t] * v[i*r.N+t]
			node += s
			if row.branch.has(i) {
				branch += s
			}
		}
		dst[t] = m.q*node - branch + m.slope()*mean[t]
	}
}
