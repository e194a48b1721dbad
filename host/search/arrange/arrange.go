// Package arrange finds the place of every expert in a tree of gates, given whose the rows are.
package arrange

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/internal/numeric"
)

// arrangement looks for the place of every expert in a tree. Given whose the rows are, by
// posteriors r, the likelihood of a tree's gates is a sum over them: of
//
//	Σ_rows Σ_c (Σ_{i under c} r_i)·log q_c(x)
//
// with q the gate's softmax, a multinomial regression of the branch on x that depends on
// no more than which experts are under which branch. So a gate is fitted once for every
// partition, and experts change places as long as that gains.
type arrangement struct {
	tree  model.Hierarchy
	nodes []model.GateNode
	kinds []int       // of the places; nil: all the same
	x     [][]float64 // the gate's columns
	r     [][]float64 // posteriors of the experts

	fitted map[string]fittedGate
}

// fittedGate is a gate fitted to the experts under its branches.
type fittedGate struct {
	w    []float64 // predictors of all branches but the last, one after the other
	gain float64   // the log-likelihood
}

// arrangedRows is the most rows that an arrangement looks at: trees that differ by the
// place of one expert are close.
const arrangedRows = 8192

// newArrangement returns that of the experts of q, under whatever gate, in the tree of
// the problem. The posteriors are those under q, after change, if there is one, has been
// at the gate's scores log P(z|x) of a block.
func newArrangement(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params,
	change func(*mixture.Posterior)) (*arrangement, error) {
	part := model.Part(rows, arrangedRows)
	n, _ := part.Dims()
	_, columns := p.Shape.Free().Columns(q)
	a := &arrangement{
		tree: p.Shape.Tree, nodes: p.Shape.Tree.Gates(), kinds: p.Shape.Kinds,
		x: numeric.Columns(max(len(columns), 1), n), r: numeric.Columns(q.K, n), fitted: map[string]fittedGate{},
	}
	at := 0
	err := mixture.EachPosterior(ctx, p.G, part, q, change, func(b *model.Block, post *mixture.Posterior) {
		for c, j := range columns {
			dst := a.x[c][at : at+b.N]
			if j < q.D {
				copy(dst, b.Col(j))
				continue
			}
			for t := range dst {
				dst[t] = 1
			}
		}
		for i := range q.K {
			dst := a.r[i][at : at+b.N]
			copy(dst, post.PostOf(i))
			if b.Role[model.Weights] != nil {
				floats.Mul(dst, b.Role[model.Weights])
			}
		}
		at += b.N
	})
	return a, err
}

// gate returns the gate v fitted to the experts under its branches: places[i] is the
// expert at leaf i. Gates whose branches only stand in another order are one fit.
func (a *arrangement) gate(ctx context.Context, v model.GateNode, places []int) (fittedGate, error) {
	branches := make([][]int, len(v.Ends))
	for c := range v.Ends {
		from, to := v.Branch(c)
		branches[c] = slices.Sorted(slices.Values(places[from:to]))
	}
	sorted := slices.SortedFunc(slices.Values(branches), slices.Compare)
	key := fmt.Sprint(sorted)
	g, ok := a.fitted[key]
	if !ok {
		b := newBranching(a.x, a.r, sorted)
		run, err := optim.Newton(ctx, b, make([]float64, b.Dim()),
			optim.Settings{Iterations: 15, Tolerance: 1e-4 / b.n})
		if err != nil {
			return fittedGate{}, err
		}
		g = fittedGate{run.X, -run.Value * b.n}
		a.fitted[key] = g
	}
	return fittedGate{reordered(g.w, len(a.x), sorted, branches), g.gain}, nil
}

// reordered returns the predictors w, d coefficients each, of the branches sorted for the
// same branches in another order, the last of which is 0.
func reordered(w []float64, d int, sorted, branches [][]int) []float64 {
	predictor := func(branch []int) []float64 {
		c := slices.IndexFunc(sorted, func(s []int) bool { return slices.Equal(s, branch) })
		if c == len(sorted)-1 {
			return make([]float64, d)
		}
		return w[c*d : (c+1)*d]
	}
	out := make([]float64, 0, len(w))
	zero := predictor(branches[len(branches)-1])
	for _, branch := range branches[:len(branches)-1] {
		out = append(out, floats.SubTo(make([]float64, d), predictor(branch), zero)...)
	}
	return out
}

// value returns the gates' log-likelihood.
func (a *arrangement) value(ctx context.Context, places []int) (sum float64, err error) {
	for _, v := range a.nodes {
		g, err := a.gate(ctx, v, places)
		if err != nil {
			return 0, err
		}
		sum += g.gain
	}
	return sum, nil
}

// exchange is two branches of a tree that may change places, each by its first leaf.
type exchange struct{ i, j, leaves int }

// exchanges lists the pairs of branches of the same shape and kinds, leaves among them,
// of which neither is below the other.
func exchanges(h model.Hierarchy, kinds []int) (out []exchange) {
	type branch struct {
		h    model.Hierarchy
		from int
	}
	var all []branch
	var list func(h model.Hierarchy, from int)
	list = func(h model.Hierarchy, from int) {
		all = append(all, branch{h, from})
		for _, b := range h.Branches {
			list(b, from)
			from += b.Leaves()
		}
	}
	list(h, 0)
	for n, b := range all {
		for _, a := range all[:n] {
			if !a.h.Equal(b.h) { // nor above it
				continue
			}
			leaves := b.h.Leaves()
			if kinds == nil || slices.Equal(kinds[a.from:a.from+leaves], kinds[b.from:b.from+leaves]) {
				out = append(out, exchange{a.from, b.from, leaves})
			}
		}
	}
	return out
}

// apply exchanges the experts below the two branches; twice is not at all.
func (e exchange) apply(places []int) {
	for l := range e.leaves {
		places[e.i+l], places[e.j+l] = places[e.j+l], places[e.i+l]
	}
}

// settle exchanges branches as long as one exchange gains, the best first.
func (a *arrangement) settle(ctx context.Context, places []int) (float64, error) {
	value, err := a.value(ctx, places)
	if err != nil {
		return 0, err
	}
	all := exchanges(a.tree, a.kinds)
	for {
		var best *exchange
		highest := value + 1e-6*math.Abs(value)
		for at := range all {
			all[at].apply(places)
			v, err := a.value(ctx, places)
			all[at].apply(places)
			if err != nil {
				return 0, err
			}
			if v > highest {
				best, highest = &all[at], v
			}
		}
		if best == nil {
			return value, nil
		}
		best.apply(places)
		value = highest
	}
}

// asTheyAre are the places of experts that stand where they are.
func (a *arrangement) asTheyAre() []int {
	places := make([]int, a.tree.Leaves())
	for i := range places {
		places[i] = i
	}
	return places
}

// shuffle puts the experts of every kind in a random order.
func (a *arrangement) shuffle(rng *rand.Rand, places []int) {
	for i := len(places) - 1; i > 0; i-- {
		j := rng.IntN(i + 1)
		if a.kinds == nil || a.kinds[i] == a.kinds[j] {
			places[i], places[j] = places[j], places[i]
		}
	}
}

// arrangements is how many random orders are settled besides the given one.
const arrangements = 5

// best returns the places of the highest likelihood that settling finds: from the experts
// as they are, and from random orders.
func (a *arrangement) best(ctx context.Context, rng *rand.Rand) ([]int, error) {
	places := a.asTheyAre()
	best, highest := []int(nil), math.Inf(-1)
	for try := range arrangements + 1 {
		if try > 0 {
			a.shuffle(rng, places)
		}
		value, err := a.settle(ctx, places)
		if err != nil {
			return nil, err
		}
		if value > highest {
			best, highest = slices.Clone(places), value
		}
	}
	return best, nil
}

// params returns the experts of q in these places under the gates fitted to them.
func (a *arrangement) params(ctx context.Context, p *problem.Problem, q *model.Params,
	places []int) (*model.Params, error) {
	out := p.Shape.Blank(q.SigmaOf(0))
	for at, i := range places {
		out.CopyExpert(at, q, i)
	}
	_, columns := p.Shape.Free().Columns(out)
	for _, v := range a.nodes {
		g, err := a.gate(ctx, v, places)
		if err != nil {
			return nil, err
		}
		for c := range len(v.Ends) - 1 {
			row := v.Row(c)
			for l, j := range columns {
				if w := g.w[c*len(a.x)+l]; j < out.D {
					out.Gate(row)[j] = w
				} else {
					out.GatingIntercepts[row] = w
				}
			}
		}
	}
	return out, nil
}

// Best returns the experts of q, under whatever gate, as leaves of the tree of the
// problem, with its gates fitted to whose the rows are under q.
func Best(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params,
	rng *rand.Rand) (*model.Params, error) {
	a, err := newArrangement(ctx, p, rows, q, nil)
	if err != nil {
		return nil, err
	}
	places, err := a.best(ctx, rng)
	if err != nil {
		return nil, err
	}
	return a.params(ctx, p, q, places)
}

// Settled returns the experts of q, under the gates of the tree, exchanged as long as one exchange of two branches
// gains. Whose the rows are is seen under q after change, as [newArrangement] has it.
func Settled(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params,
	change func(*mixture.Posterior)) (*model.Params, error) {
	a, err := newArrangement(ctx, p, rows, q, change)
	if err != nil {
		return nil, err
	}
	places := a.asTheyAre()
	if _, err := a.settle(ctx, places); err != nil {
		return nil, err
	}
	return a.params(ctx, p, q, places)
}

// neighbours is how many exchanges of branches are tried from one optimum.
const neighbours = 5

// Others returns q with its experts in other places: those of the highest likelihood,
// if it is not there, and those one exchange away whose likelihood is next to that of
// where it is. Whose the rows are is seen under the gates of q, which favours its own.
func Others(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params,
	rng *rand.Rand) (out []*model.Params, err error) {
	a, err := newArrangement(ctx, p, rows, q, nil)
	if err != nil {
		return nil, err
	}
	type arrangementAt struct {
		places []int
		value  float64
	}
	here := arrangementAt{places: a.asTheyAre()}
	if here.value, err = a.value(ctx, here.places); err != nil {
		return nil, err
	}
	same := func(v, w float64) bool { return math.Abs(v-w) <= 1e-6*math.Abs(w) }
	var others []arrangementAt
	for _, e := range exchanges(a.tree, a.kinds) {
		other := arrangementAt{places: slices.Clone(here.places)}
		e.apply(other.places)
		if other.value, err = a.value(ctx, other.places); err != nil {
			return nil, err
		}
		if !same(other.value, here.value) { // branches of one gate
			others = append(others, other)
		}
	}
	slices.SortStableFunc(others, func(x, y arrangementAt) int { return cmp.Compare(y.value, x.value) })
	others = slices.CompactFunc(others, func(x, y arrangementAt) bool { return same(x.value, y.value) })
	others = others[:min(len(others), neighbours)]
	best, err := a.best(ctx, rng)
	if err != nil {
		return nil, err
	}
	there, err := a.value(ctx, best)
	if err != nil {
		return nil, err
	}
	if there > here.value && !same(there, here.value) {
		others = append([]arrangementAt{{best, there}}, others...)
	}
	for _, other := range others {
		q, err := a.params(ctx, p, q, other.places)
		if err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}
