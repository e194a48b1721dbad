package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
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
	kinds []int      // of the places; nil: all the same
	x     *mat.Dense // the gate's columns, a row each
	r     *mat.Dense // posteriors of the experts

	fitted map[string]*branching
}

// arrangedRows is the most rows that an arrangement looks at: trees that differ by the
// place of one expert are close.
const arrangedRows = 8192

// newArrangement returns that of the experts of q, under whatever gate, in the tree of
// the problem. The posteriors are those under q, after change, if there is one, has been
// at the gate's scores log P(z|x) of a block.
func newArrangement(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params, change func(*mixture.Posterior)) (*arrangement, error) {
	part := model.Part(rows, arrangedRows)
	n, _ := part.Dims()
	_, columns := p.Shape.Free().Columns(q)
	a := &arrangement{
		tree: p.Shape.Tree, nodes: p.Shape.Tree.Gates(), kinds: p.Shape.Kinds,
		x: mat.NewDense(n, max(len(columns), 1), nil), r: mat.NewDense(n, q.K, nil), fitted: map[string]*branching{},
	}
	at := 0
	err := eachPosterior(ctx, p, part, q, change, func(b *model.Block, post *mixture.Posterior) {
		for t := range b.N {
			for c, j := range columns {
				v := 1.0
				if j < q.D {
					v = b.Col(j)[t]
				}
				a.x.Set(at+t, c, v)
			}
			for i := range q.K {
				v := post.PostOf(i)[t]
				if b.W != nil {
					v *= b.W[t]
				}
				a.r.Set(at+t, i, v)
			}
		}
		at += b.N
	})
	return a, err
}

// eachPosterior calls fn with every block of rows and the posteriors of its experts under q,
// after change, if there is one, has been at the gate's scores log P(z|x).
func eachPosterior(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params, change func(*mixture.Posterior), fn func(*model.Block, *mixture.Posterior)) error {
	means, post, res := q.Output(p.G), mixture.NewPosterior(mixture.Mixture{}, q.K), make([]float64, q.K*model.BlockRows)
	return model.InOrder(ctx, rows, func(b *model.Block) error {
		if err := residuals(ctx, means, q, res[:q.K*b.N], b); err != nil {
			return err
		}
		post.Given(q, b)
		if change != nil {
			change(post)
		}
		post.Observe(res[:q.K*b.N], 0)
		fn(b, post)
		return nil
	})
}

// residuals writes those of every expert of q to dst, K rows of b.N; the means are
// [model.Params.Output] of q.
func residuals(ctx context.Context, means model.Activation, q *model.Params, dst []float64, b *model.Block) error {
	q.Predictors(dst, b)
	if err := means.Eval(ctx, dst, dst); err != nil {
		return err
	}
	for i := range q.K {
		r := dst[i*b.N : (i+1)*b.N]
		floats.SubTo(r, b.Y, r)
	}
	return nil
}

// gate returns the gate v fitted to the experts under its branches: places[i] is the
// expert at leaf i.
func (a *arrangement) gate(ctx context.Context, v model.GateNode, places []int) (*branching, error) {
	key := ""
	branches := make([][]int, len(v.Ends))
	for c := range v.Ends {
		from, to := v.Branch(c)
		branches[c] = slices.Sorted(slices.Values(places[from:to]))
	}
	key = fmt.Sprint(branches)
	if b := a.fitted[key]; b != nil {
		return b, nil
	}
	b := newBranching(a.x, a.r, branches)
	run, err := optim.Newton(ctx, b, make([]float64, (len(branches)-1)*b.d), optim.Settings{Iterations: 15, Tolerance: 1e-4 / b.n})
	if err != nil {
		return nil, err
	}
	b.w, b.gain = run.X, -run.Value*b.n
	a.fitted[key] = b
	return b, nil
}

// value returns the gates' log-likelihood.
func (a *arrangement) value(ctx context.Context, places []int) (sum float64, err error) {
	for _, v := range a.nodes {
		b, err := a.gate(ctx, v, places)
		if err != nil {
			return 0, err
		}
		sum += b.gain
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
			leaves := b.h.Leaves()
			if a.from+leaves > b.from || !a.h.Equal(b.h) {
				continue
			}
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

// arranged returns the experts of q, under whatever gate, as leaves of the tree of the
// problem, with its gates fitted to whose the rows are under q.
func arranged(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params, rng *rand.Rand) (*model.Params, error) {
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

// params returns the experts of q in these places under the gates fitted to them.
func (a *arrangement) params(ctx context.Context, p *problem.Problem, q *model.Params, places []int) (*model.Params, error) {
	out := p.Shape.Blank(q.Sigma[0])
	for at, i := range places {
		copy(out.Regressor(at), q.Regressor(i))
		if out.RegressorIntercepts != nil && q.RegressorIntercepts != nil {
			out.RegressorIntercepts[at] = q.RegressorIntercepts[i]
		}
		if len(out.Sigma) == out.K {
			out.Sigma[at] = q.SigmaOf(i)
		}
	}
	_, columns := p.Shape.Free().Columns(out)
	for _, v := range a.nodes {
		b, err := a.gate(ctx, v, places)
		if err != nil {
			return nil, err
		}
		for c := range len(v.Ends) - 1 {
			row := v.Row(c)
			for l, j := range columns {
				if w := b.w[c*b.d+l]; j < out.D {
					out.Gate(row)[j] = w
				} else {
					out.GatingIntercepts[row] = w
				}
			}
		}
	}
	return out, nil
}

// branching is minus the mean log-likelihood of a gate whose branches the rows have gone
// by weights, with the ridge of the screening: an objective of optim that does not depend on which
// branch is the last. Its argument is
// the predictors of all branches but the last, d coefficients each.
type branching struct {
	x     *mat.Dense
	mass  [][]float64 // of every branch, a value for each row
	total []float64   // of all
	d     int
	n     float64

	w    []float64 // where it is least
	gain float64   // the log-likelihood there
	prob []float64 // room
}

// leastMass is the weight below which a row says nothing of a gate.
const leastMass = 1e-6

func newBranching(x, r *mat.Dense, branches [][]int) *branching {
	n, d := x.Dims()
	b := &branching{x: x, d: d, total: make([]float64, n), n: float64(n), prob: make([]float64, len(branches))}
	for _, experts := range branches {
		mass := make([]float64, n)
		for t := range mass {
			for _, i := range experts {
				mass[t] += r.At(t, i)
			}
		}
		floats.Add(b.total, mass)
		b.mass = append(b.mass, mass)
	}
	return b
}

// row computes the probabilities of row t at w and returns its log-likelihood.
func (b *branching) row(w []float64, t int) float64 {
	x, last, top := b.x.RawRowView(t), len(b.prob)-1, 0.0
	b.prob[last] = 0
	for c := range last {
		b.prob[c] = floats.Dot(w[c*b.d:(c+1)*b.d], x)
		top = max(top, b.prob[c])
	}
	sum := 0.0
	for _, v := range b.prob {
		sum += math.Exp(v - top)
	}
	norm, value := top+math.Log(sum), 0.0
	for c, v := range b.prob {
		value += b.mass[c][t] * (v - norm)
		b.prob[c] = math.Exp(v - norm)
	}
	return value
}

// Dim implements optim.Objective.
func (b *branching) Dim() int { return (len(b.prob) - 1) * b.d }

// mean writes the mean of the predictors of all branches, the last of which is 0.
func (b *branching) mean(w []float64) []float64 {
	mean := make([]float64, b.d)
	for c := range len(b.prob) - 1 {
		floats.AddScaled(mean, 1/float64(len(b.prob)), w[c*b.d:(c+1)*b.d])
	}
	return mean
}

// penalty is the ridge, (τ/2)·Σ_c ‖w_c − w̄‖², as that of [loss.Likelihood.PenaliseGate].
func (b *branching) penalty(w []float64) float64 {
	mean := b.mean(w)
	return screenRidge / 2 * (floats.Dot(w, w) - float64(len(b.prob))*floats.Dot(mean, mean))
}

// Value implements optim.Objective.
func (b *branching) Value(_ context.Context, w []float64) (float64, error) {
	value := -b.penalty(w)
	for t, total := range b.total {
		if total > leastMass {
			value += b.row(w, t)
		}
	}
	return -value / b.n, nil
}

// Grad implements optim.Objective.
func (b *branching) Grad(ctx context.Context, dst, w []float64) (float64, error) {
	return b.sums(nil, dst, w)
}

// Hessian implements optim.Curved.
func (b *branching) Hessian(_ context.Context, h *mat.SymDense, grad, w []float64) (float64, error) {
	return b.sums(h, grad, w)
}

func (b *branching) sums(h *mat.SymDense, grad, w []float64) (float64, error) {
	value, last, mean := -b.penalty(w), len(b.prob)-1, b.mean(w)
	floats.ScaleTo(grad, screenRidge/b.n, w)
	for c := range last {
		floats.AddScaled(grad[c*b.d:(c+1)*b.d], -screenRidge/b.n, mean)
	}
	if h != nil {
		h.Zero()
		for i := range w {
			for j := i; j < len(w); j += b.d {
				h.SetSym(i, j, -screenRidge/b.n/float64(last+1))
			}
			h.SetSym(i, i, h.At(i, i)+screenRidge/b.n)
		}
	}
	for t, total := range b.total {
		if !(total > leastMass) {
			continue
		}
		value += b.row(w, t)
		x := b.x.RawRowView(t)
		for c := range last {
			floats.AddScaled(grad[c*b.d:(c+1)*b.d], (total*b.prob[c]-b.mass[c][t])/b.n, x)
			if h == nil {
				continue
			}
			for e := c; e <= last-1; e++ {
				weight := -total * b.prob[c] * b.prob[e] / b.n
				if e == c {
					weight += total * b.prob[c] / b.n
				}
				addOuter(h, c*b.d, e*b.d, weight, x)
			}
		}
	}
	return -value / b.n, nil
}

// addOuter adds weight·x·xᵀ to the block of h that begins at (r, c), r ≤ c, in the upper
// triangle.
func addOuter(h *mat.SymDense, r, c int, weight float64, x []float64) {
	raw := h.RawSymmetric()
	for i, v := range x {
		from := 0
		if r == c {
			from = i
		}
		row := raw.Data[(r+i)*raw.Stride+c:]
		for j := from; j < len(x); j++ {
			row[j] += weight * v * x[j]
		}
	}
}
