// Package model holds the values that the rest of the host passes around: the
// parameters of a mixture of experts, blocks of rows, and the softmax gate.
package model

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/kernel"
)

// BlockRows is the number of rows in every block but the last. It is a
// constant because sums over rows are taken block by block, in order: the same
// numbers then give the same bytes whatever the file format, the size of the
// reads or the number of processors.
const BlockRows = 256

// InterceptName is what an intercept is called among the names of features.
const InterceptName = "(intercept)"

// Block is a run of consecutive rows. X is column-major: feature j of the
// block's row i is X[j*N+i].
type Block struct {
	N int
	X []float64 // d columns of N values
	Y []float64 // N targets, of several M columns of N values, see [Beside]; nil where there is no target

	Role ByRole[[]float64] // N values of every column that has a role; nil where none has it
}

// Clone returns a copy of the block with memory of its own.
func (b *Block) Clone() Block {
	size := 0
	for v := range b.Values() {
		size += len(v)
	}
	values := make([]float64, 0, size)
	keep := func(from []float64) []float64 {
		if from == nil {
			return nil
		}
		at := len(values)
		values = append(values, from...)
		return values[at:len(values):len(values)]
	}
	out := Block{N: b.N, X: keep(b.X), Y: keep(b.Y)}
	for r, v := range b.Role {
		out.Role[r] = keep(v)
	}
	return out
}

// Weight is the weight of row r: 1 where the block has no weights.
func (b *Block) Weight(r int) float64 {
	if w := b.Role[Weights]; w != nil {
		return w[r]
	}
	return 1
}

// Sum is Σ_r w_r·v_r of a value for each row.
func (b *Block) Sum(v []float64) float64 {
	if w := b.Role[Weights]; w != nil {
		return kernel.Dot(v, w)
	}
	return kernel.Sum(v)
}

// Col returns feature j of the block's rows.
func (b *Block) Col(j int) []float64 { return b.X[j*b.N : (j+1)*b.N] }

// Data is a table of N rows with D features and a target, in blocks of
// [BlockRows] rows.
type Data struct {
	N, D   int
	Blocks []Block

	Memo *Memo // of what is summed of them; nil where blocks may change
}

// Settled returns d for passes over rows that will not change: what is summed of them is kept.
func (d *Data) Settled() *Data { return &Data{N: d.N, D: d.D, Blocks: d.Blocks, Memo: new(Memo)} }

// Dims implements [Rows].
func (d *Data) Dims() (n, features int) { return d.N, d.D }

// Block implements [Rows]: it needs no room.
func (d *Data) Block(i int, _ *Room) (*Block, error) { return &d.Blocks[i], nil }

// Params are the parameters of a mixture of K experts over D features
// (002 Eq. 1):
//
//	P(z = i | x) = softmax_i(⟨w_1,x⟩+v_1, …, ⟨w_{K−1},x⟩+v_{K−1}, 0)
//	y | z = i, x ~ N(c_i + s_i·g(⟨a_i,x⟩ + b_i), σ_i²)
//
// with c_i = 0 and s_i = 1 where there is no output of its own.
type Params struct {
	K, D                int
	Regressors          []float64 // K×D, row-major: a_i
	Gating              []float64 // (K−1)×D, row-major: w_i
	RegressorIntercepts []float64 // K values b_i, or nil for none
	GatingIntercepts    []float64 // K−1 values v_i, or nil for none; see Gates
	// one value shared by all experts, or K; none where the density of y has no parameter but its mean
	Sigma []float64

	// Tree is the shape of the gates, whose rows Gating then has; the zero value is one
	// gate over all experts.
	Tree Hierarchy `json:",omitzero"`

	// Offset c and Scale s of the means c + s·g: one value each, shared by all experts,
	// or K; nil where the means are g.
	Offset []float64 `json:",omitempty"`
	Scale  []float64 `json:",omitempty"`

	// Family is the density of y under an expert, by its name among those of host/mixture, with the
	// mean that N has here and Sigma the first of its own parameters ψ; "" is N. Own are those after the first, each
	// with as many values as Sigma; nil where there are none.
	Family string      `json:",omitempty"`
	Own    [][]float64 `json:",omitempty"`

	// Zero says that the gate has one class more, the last, under which y is 0 whatever x: an expert without
	// parameters (Lambert 1992). Gating then has K rows, that of the zero expert being 0.
	Zero bool `json:",omitempty"`
}

// NewParams returns zero parameters of the given shape with a shared Sigma.
func NewParams(k, d int) *Params {
	if k < 1 || d < 1 {
		panic(fmt.Sprintf("model: k = %d, d = %d", k, d))
	}
	return &Params{
		K: k, D: d,
		Regressors: make([]float64, k*d),
		Gating:     make([]float64, Gates(k)*d),
		Sigma:      make([]float64, 1),
	}
}

// AddZero gives p, which has no gate's intercepts, an expert that is always 0, as probable as any other.
func (p *Params) AddZero() {
	p.Zero = true
	p.Gating = append(p.Gating, make([]float64, (p.Gates()*p.D)-len(p.Gating))...)
}

// Classes returns how many the gate chooses among: the experts, and the one that is always 0 where there is one.
func (p *Params) Classes() int { return Classes(p.K, p.Zero) }

// Classes returns how many the gate over k experts chooses among, with one beside them that is always 0 or none.
func Classes(k int, zero bool) int {
	if zero {
		return k + 1
	}
	return k
}

// GateNodes lists the gates, parents first; their leaves are [Params.Classes].
func (p *Params) GateNodes() []GateNode {
	if p.Zero {
		return FlatHierarchy(p.Classes()).Gates()
	}
	return p.Hierarchy().Gates()
}

// Hierarchy returns the shape of the gates over the experts.
func (p *Params) Hierarchy() Hierarchy {
	if len(p.Tree.Branches) == 0 {
		return FlatHierarchy(p.K)
	}
	return p.Tree
}

// ParamPart is the part of a mixture that a parameter belongs to.
type ParamPart int

// The parts, in the order in which [Params.Each] has them and θ lists them.
const (
	Expert ParamPart = iota // a_i and b_i
	Gate                    // w_i and v_i
	Noise                   // σ_i, and what else a density has of its own
	Offset                  // c_i
	Scale                   // s_i
)

// slot is a slice of p's numbers, as a field of p.
type slot struct {
	part   ParamPart
	values *[]float64
}

// slots lists all slices of p: one that is added is a line here.
func (p *Params) slots() []slot {
	out := []slot{
		{Expert, &p.Regressors}, {Expert, &p.RegressorIntercepts},
		{Gate, &p.Gating}, {Gate, &p.GatingIntercepts},
		{Noise, &p.Sigma}, {Offset, &p.Offset}, {Scale, &p.Scale},
	}
	for q := range p.Own {
		out = append(out, slot{Noise, &p.Own[q]})
	}
	return out
}

// Each calls fn with every slice of p's numbers, which aliases p and may be empty. Of parts other than [Gate] it has
// one value of all experts, or as many for each, in their order.
func (p *Params) Each(fn func(part ParamPart, values []float64)) {
	for _, s := range p.slots() {
		fn(s.part, *s.values)
	}
}

// OfGate returns parameters with the gate of p: p.
func (p *Params) OfGate() *Params { return p }

// Clone returns a deep copy of p.
func (p *Params) Clone() *Params {
	c := *p
	c.Own = slices.Clone(p.Own)
	for _, s := range c.slots() {
		*s.values = append([]float64(nil), *s.values...)
	}
	return &c
}

// Like returns parameters of p's shape and density, all 0.
func (p *Params) Like() *Params {
	c := p.Clone()
	c.Each(func(_ ParamPart, values []float64) { clear(values) })
	return c
}

// CopyFrom copies to p what from has of it: slices of as many values.
func (p *Params) CopyFrom(from *Params) {
	source := from.slots()
	for i, s := range p.slots() {
		if i == len(source) {
			return
		}
		if values := *source[i].values; len(values) == len(*s.values) {
			copy(*s.values, values)
		}
	}
}

// Regressor returns a_i; the slice aliases p.
func (p *Params) Regressor(i int) []float64 { return p.Regressors[i*p.D : (i+1)*p.D] }

// Gates returns the number of rows of a gate over k classes: the last one's is 0
// and is not stored.
func Gates(k int) int { return k - 1 }

// Gates returns the number of rows of Gating.
func (p *Params) Gates() int { return Gates(p.Classes()) }

// Gate returns row i of the gate, w_i, i < Gates(); the slice aliases p.
func (p *Params) Gate(i int) []float64 { return p.Gating[i*p.D : (i+1)*p.D] }

// SigmaOf returns the noise level of expert i; 1 where there is none.
func (p *Params) SigmaOf(i int) float64 {
	switch len(p.Sigma) {
	case 0:
		return 1
	case 1:
		return p.Sigma[0]
	}
	return p.Sigma[i]
}

// OwnOf appends ψ of expert i to dst: σ_i where there is one, and the further own parameters of the density.
func (p *Params) OwnOf(dst []float64, i int) []float64 {
	if len(p.Sigma) > 0 {
		dst = append(dst, p.SigmaOf(i))
	}
	for _, v := range p.Own {
		dst = append(dst, v[min(i, len(v)-1)])
	}
	return dst
}

// Permuted is v, of the experts, in the order of [Params.Relabel]: value i is at order[i].
func Permuted(v []float64, order []int) []float64 {
	out := make([]float64, len(v))
	for i, to := range order {
		out[to] = v[i]
	}
	return out
}

// CopyOwn gives expert to the own parameters of expert from, where each has its own.
func (p *Params) CopyOwn(to, from int) {
	p.Each(func(part ParamPart, values []float64) {
		if part == Noise && len(values) > 1 {
			values[to] = values[from]
		}
	})
}

// CopyExpert gives expert to what expert i of another mixture, or of p itself, has of its own, and what all of either
// share.
func (p *Params) CopyExpert(to int, from *Params, i int) {
	of := func(values []float64, k, i int) []float64 {
		if len(values) <= 1 {
			return values // none, or one of all
		}
		width := len(values) / k
		return values[i*width : (i+1)*width]
	}
	source := from.slots()
	for at, s := range p.slots() {
		if s.part != Gate && at < len(source) {
			copy(of(*s.values, p.K, to), of(*source[at].values, from.K, i))
		}
	}
}

// Fewer returns p, of one gate and more than one expert, without its last expert and without the last row of its gate.
func (p *Params) Fewer() *Params {
	out := p.Clone()
	out.K, out.Tree = p.K-1, Hierarchy{}
	for _, s := range out.slots() {
		switch n := len(*s.values); {
		case s.part == Gate && n > 0:
			*s.values = (*s.values)[:n/p.Gates()*out.Gates()]
		case n > 1:
			*s.values = (*s.values)[:n/p.K*out.K]
		}
	}
	return out
}

// branchOf returns the predictor of branch c of a gate, zeros for its last. It may
// alias p.
func (p *Params) branchOf(g GateNode, c int) (w []float64, v float64) {
	if c == len(g.Ends)-1 {
		return make([]float64, p.D), 0
	}
	row := g.Row(c)
	if p.GatingIntercepts != nil {
		v = p.GatingIntercepts[row]
	}
	return p.Gate(row), v
}

// ShareGate makes expert i as probable as expert j at every x, while the other
// experts keep their odds against j. It is for a single gate, and panics where there
// are more.
func (p *Params) ShareGate(i, j int) {
	gates := p.GateNodes()
	if len(gates) != 1 {
		panic(fmt.Sprintf("model: experts of the tree %s cannot share a gate", p.Tree))
	}
	w, v := p.branchOf(gates[0], j)
	w = slices.Clone(w)
	if i < p.Gates() {
		copy(p.Gate(i), w)
		if p.GatingIntercepts != nil {
			p.GatingIntercepts[i] = v
		}
		return
	}
	// The last row is 0: w is taken off all others instead.
	for l := range p.Gates() {
		floats.Sub(p.Gate(l), w)
		if p.GatingIntercepts != nil {
			p.GatingIntercepts[l] -= v
		}
	}
}

// Relabel returns a copy of p with its experts in another order: expert i of p
// is expert perm[i] of the result. P(z|x) is the same up to the labels. Under a tree
// the leaves of every branch must stay beside each other; the branches are then in
// the order of their leaves. It panics where they do not.
func (p *Params) Relabel(perm []int) *Params {
	out := p.Clone()
	source := p.slots()
	for at, s := range out.slots() {
		width := len(*s.values) / p.K // 0 of a value that all share
		if s.part == Gate {
			continue
		}
		for i, j := range perm {
			copy((*s.values)[j*width:(j+1)*width], (*source[at].values)[i*width:])
		}
	}
	if len(p.Tree.Branches) > 0 {
		out.Tree = p.Tree.Relabel(perm)
	}
	if p.Zero { // the last class stays
		perm = append(slices.Clone(perm), p.K)
	}
	for _, g := range p.GateNodes() {
		last := 0 // the branch that will stand last, by its last leaf
		at := make([]int, len(g.Ends))
		for c := range g.Ends {
			from, to := g.Branch(c)
			at[c] = slices.Max(perm[from:to])
			if c == 0 || at[c] > at[last] {
				last = c
			}
		}
		lastRow, lastIntercept := p.branchOf(g, last)
		for c := range g.Ends {
			if c == last {
				continue
			}
			// The row that now stands last is taken off all others.
			w, v := p.branchOf(g, c)
			floats.SubTo(out.Gate(at[c]), w, lastRow)
			if p.GatingIntercepts != nil {
				out.GatingIntercepts[at[c]] = v - lastIntercept
			}
		}
	}
	return out
}

// Select returns a copy of p over other features: its feature j is feature from[j]
// of p.
func (p *Params) Select(from []int) *Params {
	out := p.Clone()
	out.D = len(from)
	out.Regressors = make([]float64, p.K*out.D)
	out.Gating = make([]float64, p.Gates()*out.D)
	for j, at := range from {
		for i := range p.K {
			out.Regressor(i)[j] = p.Regressor(i)[at]
		}
		for i := range p.Gates() {
			out.Gate(i)[j] = p.Gate(i)[at]
		}
	}
	return out
}

// RandomDirections draws m points of the unit sphere of ℝ^d, m×d in rows.
func RandomDirections(rng *rand.Rand, m, d int) []float64 {
	a := make([]float64, m*d)
	for i := range m {
		row := a[i*d : (i+1)*d]
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	return a
}
