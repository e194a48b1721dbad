// Package separation is about gates that separate rows: the groups of branches between which they do, and where
// coefficients have no finite optimum, the boundaries between the groups, and the cells of rows that each has.
package separation

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// slack is a difference in the total log-likelihood, or a part of a row, that does not matter.
const slack = 0.01

// Likelihood is that of rows under mixtures with parameters P, of one target or of several, as a gate asks for it.
type Likelihood[L, P any] interface {
	comparable
	Part(n int) L
	Shared(ctx context.Context, p P) ([]float64, error)
	LogLikelihood(ctx context.Context, p P) (float64, error)
}

// Gated are parameters with a gate.
type Gated[P any] interface {
	Clone() P
	OfGate() *model.Params // the gate's, which it aliases
}

// Groups are the groups of branches between which gates separate rows: those of each gate
// of the tree, each named by its last branch; nil for a gate that separates none. Under one
// gate the branches are the experts. A nil *Groups is of a gate, or a tree, that separates
// nothing.
type Groups struct {
	gates []model.GateNode
	of    [][]int // branches of gates
}

// UnderOne are groups of experts under one gate.
func UnderOne(groups []int) *Groups {
	return &Groups{gates: model.FlatHierarchy(len(groups)).Gates(), of: [][]int{groups}}
}

// OneGate says whether there are groups, of one gate.
func (g *Groups) OneGate() bool { return g != nil && len(g.gates) == 1 }

// named returns the gate and the branch that row j of the gating is the predictor of.
func (g *Groups) named(j int) (gate, branch int) {
	for gate, v := range g.gates {
		for c := range len(v.Ends) - 1 {
			if v.Row(c) == j {
				return gate, c
			}
		}
	}
	panic("separation: no such row of the gating")
}

// Infinite says whether the coefficients of row j of the gating have no finite optimum:
// those of a branch that is separated from the last of its gate, where the predictor is 0.
func (g *Groups) Infinite(j int) bool {
	if g == nil {
		return false
	}
	gate, c := g.named(j)
	of := g.of[gate]
	return of != nil && of[c] != of[len(of)-1]
}

// Leads says whether row j of the gating is the one of its group that goes to infinity;
// the others of the group stay where they are beside it.
func (g *Groups) Leads(j int) bool {
	if !g.Infinite(j) {
		return false
	}
	gate, c := g.named(j)
	return g.of[gate][c] == c
}

// All says whether every coefficient of the gates is infinite.
func (g *Groups) All() bool {
	for gate, of := range g.of {
		for c := range len(g.gates[gate].Ends) {
			if of == nil || of[c] != c {
				return false
			}
		}
	}
	return true
}

// Relabel returns the groups, of parameters p, after expert i has become expert order[i], as
// [model.Params.Relabel] does; nil for nil.
func (g *Groups) Relabel(p *model.Params, order []int) *Groups {
	if g == nil {
		return nil
	}
	out := &Groups{gates: p.Relabel(order).GateNodes()}
	if p.Zero { // the last class stays
		order = append(slices.Clone(order), p.K)
	}
	for _, v := range out.gates {
		out.of = append(out.of, nil)
		at := slices.IndexFunc(g.gates, func(o model.GateNode) bool {
			leaves := order[o.From:o.To]
			return slices.Min(leaves) == v.From && slices.Max(leaves) == v.To-1
		})
		if g.of[at] == nil {
			continue
		}
		// The branch that each has become, by one of its leaves.
		became := make([]int, len(v.Ends))
		for c := range became {
			from, _ := g.gates[at].Branch(c)
			became[c], _ = slices.BinarySearch(v.Ends, order[from]+1)
		}
		of, name := make([]int, len(v.Ends)), make([]int, len(v.Ends))
		for c, group := range g.of[at] {
			name[group] = max(name[group], became[c])
		}
		for c, group := range g.of[at] {
			of[became[c]] = name[group]
		}
		out.of[len(out.of)-1] = of
	}
	return out
}

// only returns the groups of one gate; the others separate nothing.
func (g *Groups) only(gate int) *Groups {
	out := &Groups{gates: g.gates, of: make([][]int, len(g.of))}
	out.of[gate] = g.of[gate]
	return out
}

// Separated returns the groups of branches where a gate of p separates the rows of some
// from those of others, nil where none does: where no more than slack of the total
// log-likelihood is between p and what it tends to as the predictors of the groups go apart
// along the line from their mean, to infinity. Branches that share rows by the gates'
// probabilities are of one group.
func Separated[L Likelihood[L, P], P Gated[P]](ctx context.Context, l L, p P) (*Groups, error) {
	if p.OfGate().Gates() == 0 {
		return nil, nil
	}
	if some := l.Part(someRows); some != l { // who shares these rows shares all
		if _, apart, err := parted(ctx, some, p); err != nil || apart == nil {
			return nil, err
		}
	}
	g, apart, err := parted(ctx, l, p)
	if err != nil || apart == nil {
		return nil, err
	}
	here, err := l.LogLikelihood(ctx, p)
	if err != nil {
		return nil, err
	}
	near := func(g *Groups) (bool, error) {
		limit, err := l.LogLikelihood(ctx, harden(p, g))
		return math.Abs(limit-here) <= slack, err
	}
	if yes, err := near(g); yes || err != nil || len(apart) == 1 {
		if !yes {
			g = nil
		}
		return g, err
	}
	for _, at := range apart { // one that does not is no reason to give up the others
		if yes, err := near(g.only(at)); err != nil {
			return nil, err
		} else if !yes {
			g.of[at] = nil
		}
	}
	if yes, err := near(g); !yes || err != nil || !slices.ContainsFunc(g.of, func(of []int) bool { return of != nil }) {
		return nil, err
	}
	return g, nil
}

// steeper multiplies the gates of a climb that stopped on its way to hard ones.
const steeper = 16

// AllApart returns the groups of one branch each, at every gate, and p, or p with steeper gates, where that is
// within slack of what it tends to as all gates become hard, and that is not below p; nil and p where it is not so.
// Some rows are near every boundary and share branches ([Separated] sees no groups), while the gate is so steep that a
// climb makes no progress.
func AllApart[L Likelihood[L, P], P Gated[P]](ctx context.Context, l L, p P) (g *Groups, q P, err error) {
	if p.OfGate().Gates() == 0 {
		return nil, p, nil
	}
	g = &Groups{gates: p.OfGate().GateNodes()}
	for _, v := range g.gates {
		of, _ := together(len(v.Ends), func(int, int) bool { return false })
		g.of = append(g.of, of)
	}
	var at [3]float64
	for i, by := range []float64{1, steeper, hardness} {
		if at[i], err = l.LogLikelihood(ctx, steepen(p, g, by)); err != nil {
			return nil, p, err
		}
	}
	here, there, limit := at[0], at[1], at[2]
	switch {
	case math.Abs(limit-here) <= slack:
		return g, p, nil
	case limit > here && math.Abs(limit-there) <= slack:
		return g, steepen(p, g, steeper), nil
	}
	return nil, p, nil
}

// someRows are mostly enough to see that no gate separates.
const someRows = 2048

// parted returns the groups of branches that share rows by the gates' probabilities, and the
// gates that have several.
func parted[L Likelihood[L, P], P Gated[P]](ctx context.Context, l L, p P) (*Groups, []int, error) {
	shared, err := l.Shared(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	gate := p.OfGate()
	g, k := &Groups{gates: gate.GateNodes()}, gate.Classes()
	var apart []int
	for at, v := range g.gates {
		of, several := together(len(v.Ends), func(a, b int) bool { return branchesShare(shared, k, v, a, b) > slack })
		if !several {
			of = nil
		} else {
			apart = append(apart, at)
		}
		g.of = append(g.of, of)
	}
	return g, apart, nil
}

// branchesShare is what branches a < b of a gate share of its rows, of k×k values of leaves.
func branchesShare(shared []float64, k int, v model.GateNode, a, b int) (sum float64) {
	fromA, toA := v.Branch(a)
	fromB, toB := v.Branch(b)
	for i := fromA; i < toA; i++ {
		for j := fromB; j < toB; j++ {
			sum += shared[i*k+j]
		}
	}
	return sum
}

// hardness multiplies what parts the predictors of two groups where their probabilities
// are to be those of an infinite gate. They share no more than slack of a row: logits
// that are at least 4 apart there become 40,000, and rounding is still no matter.
const hardness = 1e4

// harden returns p with the predictors of the groups so far apart that each row has one
// group for certain, and the gates within a group as they are.
func harden[P Gated[P]](p P, g *Groups) P { return steepen(p, g, hardness) }

// steepen returns p with what parts the predictors of the groups multiplied, and the gates
// within a group as they are.
func steepen[P Gated[P]](p P, g *Groups, by float64) P {
	out := p.Clone()
	was, gate := p.OfGate(), out.OfGate()
	for at, v := range g.gates {
		last := len(v.Ends) - 1
		for c, group := range g.of[at] {
			if c == last || group == last {
				continue
			}
			to, from := v.Row(c), v.Row(group)
			for j, w := range was.Gate(from) {
				gate.Gate(to)[j] += (by - 1) * w
			}
			if was.GatingIntercepts != nil {
				gate.GatingIntercepts[to] += (by - 1) * was.GatingIntercepts[from]
			}
		}
	}
	return out
}

// together returns the components of the graph over k nodes with the given edges, each
// named by its last node, and says whether there are several.
func together(k int, edge func(i, j int) bool) (groups []int, several bool) {
	groups = make([]int, k)
	for i := range groups {
		groups[i] = i
	}
	for i := range k {
		for j := i + 1; j < k; j++ {
			if from, to := min(groups[i], groups[j]), max(groups[i], groups[j]); edge(i, j) && from != to {
				for m := range groups {
					if groups[m] == from {
						groups[m] = to
					}
				}
			}
		}
	}
	for _, g := range groups {
		several = several || g != k-1
	}
	return groups, several
}
