package separation

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// Boundary is the hyperplane ⟨normal, x⟩ + offset = 0 between the rows of two groups of
// branches that a gate separates: the one whose nearest rows, on both sides, are as
// far away as they can be.
type Boundary struct {
	Above, Below []int     // the experts of the groups where that is positive and negative, ascending
	Normal       []float64 // unit length; 0 for features that the gate does not see
	Offset       float64   // 0 where the gate has no intercept
	Margin       float64   // distance of the nearest rows
}

// ofNode is the posterior from which on a row is among those of a gate of a tree.
const ofNode = slack

// Posteriors calls fn with every block of rows, in order, and their posterior of expert i.
type Posteriors func(ctx context.Context, fn func(b *model.Block, of func(i int) []float64)) error

// Boundaries returns the boundaries between the groups of branches of q, in the units of
// the fit: of every two of a gate that are, for some row, its first and second
// choice. The rows of a gate below another are those that are its own by their posterior.
func Boundaries(ctx context.Context, p *problem.Problem, q *model.Params, groups *Groups) ([]Boundary, error) {
	return BoundariesOf(ctx, p.Rows, p.Shape.GateFeatures(), posteriorsOf(p, q), q, groups)
}

// posteriorsOf are those of one target.
func posteriorsOf(p *problem.Problem, q *model.Params) Posteriors {
	return func(ctx context.Context, fn func(*model.Block, func(i int) []float64)) error {
		return mixture.EachPosterior(ctx, p.G, p.Rows, q, nil,
			func(b *model.Block, post *mixture.Posterior) { fn(b, post.PostOf) })
	}
}

// BoundariesOf is [Boundaries] of a gate of any mixture of rows, which sees these features.
func BoundariesOf(ctx context.Context, rows model.Rows, seen []int, posteriors Posteriors, gate *model.Params,
	groups *Groups) ([]Boundary, error) {
	var out []Boundary
	for at, v := range groups.gates {
		if groups.of[at] == nil {
			continue
		}
		s := sides{rows: rows, seen: seen, offset: gate.GatingIntercepts != nil, node: v, groups: groups.of[at],
			gate: harden(gate, groups)}
		var err error
		if s.own, err = rowsOf(ctx, posteriors, gate.Classes(), v); err != nil {
			return nil, err
		}
		all, err := s.boundaries(ctx, gate.D)
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}

// rowsOf says which rows are those of a gate, nil for all.
func rowsOf(ctx context.Context, posteriors Posteriors, classes int, v model.GateNode) (own []bool, err error) {
	if v.To-v.From == classes {
		return nil, nil
	}
	err = posteriors(ctx, func(b *model.Block, of func(i int) []float64) {
		for t := range b.N {
			mass := 0.0
			for i := v.From; i < v.To; i++ {
				mass += of(i)[t]
			}
			own = append(own, mass > ofNode)
		}
	})
	return own, err
}

// boundaries are those between the groups of one gate.
func (s sides) boundaries(ctx context.Context, d int) (out []Boundary, err error) {
	neighbours, err := s.neighbours(ctx)
	if err != nil {
		return nil, err
	}
	n := len(s.groups)
	for g := range n {
		for h := g + 1; h < n; h++ {
			if !neighbours[g*n+h] {
				continue
			}
			b, err := s.between(ctx, g, h, d)
			if err != nil {
				return nil, err
			}
			b.Above, b.Below = s.expertsOf(g), s.expertsOf(h)
			if b.Margin > 0 {
				out = append(out, b)
			}
		}
	}
	return out, nil
}

// membersOf are those of group g.
func membersOf(groups []int, g int) (out []int) {
	for i, of := range groups {
		if of == g {
			out = append(out, i)
		}
	}
	return out
}

// expertsOf are those under the branches of group g.
func (s sides) expertsOf(g int) (out []int) {
	for _, c := range membersOf(s.groups, g) {
		from, to := s.node.Branch(c)
		for i := from; i < to; i++ {
			out = append(out, i)
		}
	}
	return out
}

// choices calls fn with every block and, for each of its rows, the groups whose predictors
// are the largest and the second; −1 for a row that is not the gate's.
func (s sides) choices(ctx context.Context, fn func(b *model.Block, first, second []int)) error {
	var first, second [model.BlockRows]int
	logits, at, last := make([]float64, s.gate.Classes()*model.BlockRows), 0, len(s.groups)-1
	return model.InOrder(ctx, s.rows, func(b *model.Block) error {
		s.gate.GateLogits(logits, b)
		logit := func(c, r int) float64 {
			if c == last {
				return 0
			}
			return logits[s.node.Row(c)*b.N+r]
		}
		for r := range b.N {
			if first[r], second[r] = -1, -1; s.own != nil && !s.own[at+r] {
				continue
			}
			best, next := -1, -1
			for i, g := range s.groups {
				v := logit(i, r)
				switch {
				case best < 0 || v > logit(best, r):
					if best >= 0 && s.groups[best] != g {
						next = best
					}
					best = i
				case g != s.groups[best] && (next < 0 || v > logit(next, r)):
					next = i
				}
			}
			first[r], second[r] = s.groups[best], s.groups[next]
		}
		at += b.N
		fn(b, first[:b.N], second[:b.N])
		return nil
	})
}

// neighbours says which groups are for some row the first and the second, in a square
// table of which the entries above the diagonal are used.
func (s sides) neighbours(ctx context.Context) ([]bool, error) {
	n := len(s.groups)
	neighbours := make([]bool, n*n)
	err := s.choices(ctx, func(_ *model.Block, first, second []int) {
		for r, g := range first {
			if g >= 0 {
				neighbours[min(g, second[r])*n+max(g, second[r])] = true
			}
		}
	})
	return neighbours, err
}

// sides are rows that are to be separated.
type sides struct {
	rows   model.Rows
	own    []bool // which of them are the gate's; nil: all
	seen   []int  // features
	offset bool   // the hyperplane need not go through 0
	node   model.GateNode
	groups []int // of its branches
	gate   *model.Params
}

// between returns the hyperplane of the largest margin between the rows of groups g and
// h. It is normal to the shortest vector between the convex hulls of the two; through 0,
// to the shortest vector in the hull of the rows of g and the negatives of those of h.
func (s sides) between(ctx context.Context, g, h, d int) (Boundary, error) {
	var err error
	x := nearest(func(v []float64) []float64 {
		var above, below []float64
		if above, below, err = s.extremes(ctx, g, h, v); err != nil {
			return nil
		}
		switch {
		case s.offset:
			return floats.SubTo(above, above, below)
		case v == nil || floats.Dot(v, above) <= -floats.Dot(v, below):
			return above
		}
		floats.Scale(-1, below)
		return below
	}, len(s.seen))
	if err != nil {
		return Boundary{}, err
	}
	b := Boundary{Normal: make([]float64, d)}
	length := floats.Norm(x, 2)
	if !(length > 0) {
		return b, nil
	}
	floats.Scale(1/length, x)
	above, below, err := s.extremes(ctx, g, h, x)
	if err != nil {
		return b, err
	}
	nearAbove, nearBelow := floats.Dot(x, above), floats.Dot(x, below)
	if s.offset {
		b.Offset = -(nearAbove + nearBelow) / 2
	}
	b.Margin = min(nearAbove+b.Offset, -(nearBelow + b.Offset))
	for i, j := range s.seen {
		b.Normal[j] = x[i]
	}
	return b, nil
}

// extremes returns the row of group g with the least ⟨v, x⟩ and that of h with the
// largest; any where v is nil.
func (s sides) extremes(ctx context.Context, g, h int, v []float64) (least, most []float64, err error) {
	least, most = make([]float64, len(s.seen)), make([]float64, len(s.seen))
	lo, hi := math.Inf(1), math.Inf(-1)
	err = s.choices(ctx, func(b *model.Block, first, _ []int) {
		for r, of := range first {
			if of != g && of != h {
				continue
			}
			dot := 0.0
			for i, j := range s.seen {
				if v != nil {
					dot += v[i] * b.Col(j)[r]
				}
			}
			to := most
			switch {
			case of == g && dot < lo:
				lo, to = dot, least
			case of == h && dot > hi:
				hi = dot
			default:
				continue
			}
			for i, j := range s.seen {
				to[i] = b.Col(j)[r]
			}
		}
	})
	return least, most, err
}

// nearest returns the point of least norm in the convex hull of points in so many
// dimensions, of which support returns one with the least ⟨v, ·⟩, any for nil: Wolfe's
// algorithm (1976). It returns 0 where the hull holds 0.
func nearest(support func(v []float64) []float64, dim int) []float64 {
	const most = 1000 // steps; it needs some tens
	corral, weight := [][]float64{support(nil)}, []float64{1}
	x := slices.Clone(corral[0])
	for range most {
		p := support(x)
		if p == nil {
			return x
		}
		norm := floats.Dot(x, x)
		if norm-floats.Dot(x, p) <= 1e-9*norm || norm < 1e-20 {
			break
		}
		corral, weight = append(corral, p), append(weight, 0)
		for {
			affine := affineNearest(corral)
			if affine == nil { // the new point lies in the span of the others: rounding
				return x
			}
			if floats.Min(affine) > 1e-12 {
				weight = affine
				break
			}
			theta := 1.0
			for i, a := range affine {
				if a <= 1e-12 && weight[i] > a {
					theta = min(theta, weight[i]/(weight[i]-a))
				}
			}
			var kept [][]float64
			var left []float64
			for i, a := range affine {
				if w := theta*a + (1-theta)*weight[i]; w > 1e-12 {
					kept, left = append(kept, corral[i]), append(left, w)
				}
			}
			corral, weight = kept, left
		}
		clear(x)
		for i, c := range corral {
			floats.AddScaled(x, weight[i], c)
		}
	}
	return x
}

// affineNearest returns the weights, which add up to 1, of the point of least norm in
// the affine hull of points; nil where they are dependent.
func affineNearest(points [][]float64) []float64 {
	n := len(points)
	a, ones := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	size := floats.Dot(points[0], points[0])
	for i := range n {
		ones.SetVec(i, 1)
		for j := i; j < n; j++ {
			a.SetSym(i, j, size+floats.Dot(points[i], points[j]))
		}
	}
	var chol mat.Cholesky
	var u mat.VecDense
	if !chol.Factorize(a) || chol.SolveVecTo(&u, ones) != nil {
		return nil
	}
	w := u.RawVector().Data
	floats.Scale(1/floats.Sum(w), w)
	return w
}
