package optim

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Group is variables whose norm costs Weight times itself.
type Group struct {
	At     []int
	Weight float64
}

// Proximal minimises c(x) + Σ_g w_g·‖x_g‖ over groups, one at least, that do not overlap, from x0 (Yuan & Lin
// 2006), whose norms have kinks at 0: there groups come to stand, to all digits. A step minimises the
// quadratic model of c plus the norms (Lee, Sun & Saunders 2014), damped as one of [Newton] is, and has
// converged as that has: where the model promises less than Tolerance. At a minimum the gradient of c by a
// group is −w·x/‖x‖, at a group that is 0 it is w long at most; [Residual] says how nearly. The value of the
// result has the norms in it.
func Proximal(ctx context.Context, c Curved, groups []Group, x0 []float64, set Settings) (*Result, error) {
	set = set.or(100, 1e-12)
	r := newResult(x0)
	at, trial := newQuadratic(len(x0)), newQuadratic(len(x0))
	copy(at.x, x0)
	project(c, at.x)
	if err := at.fill(ctx, c); err != nil {
		return r.end(NotRun, err)
	}
	at.value += norms(groups, at.x)
	if !numeric.Finite(at.value) {
		return r.end(Diverged, nil)
	}
	r.step(at.x, at.value)
	damping := 0.0
	for r.Iterations < set.Iterations {
		next, promised, used, held := at.proximalStep(groups, damping)
		if next == nil {
			return r.end(Stalled, nil)
		}
		last := promised*(1+held) < set.Tolerance && used <= 1e-6
		r.Iterations++
		copy(trial.x, next)
		project(c, trial.x)
		if err := trial.try(ctx, c, true); err != nil {
			return r.end(NotRun, err)
		}
		gain := at.value - trial.value - norms(groups, trial.x)
		switch {
		case last && gain >= -lastRounding*math.Abs(at.value):
			r.step(trial.x, at.value-gain)
			return r.end(Converged, nil)
		case last || !(gain > 0) && promised <= max(set.Slack, rounding*math.Abs(at.value)):
			return r.end(Converged, nil)
		case !(gain > 0):
			if damping = raised(used); damping > mostDamping {
				return r.end(Stalled, nil)
			}
			continue
		}
		if err := trial.fill(ctx, c); err != nil {
			return r.end(NotRun, err)
		}
		trial.value += norms(groups, trial.x)
		at, trial = trial, at
		r.step(at.x, at.value)
		damping = lowered(used, gain > 0.5*promised)
		if set.stop(r.Iterations, at.value) {
			return r.end(Stopped, nil)
		}
	}
	return r.end(IterationLimit, nil)
}

// Residual is how far x, where a function has this gradient, is from a minimum of it and the groups' norms: the length
// of the gradient with what the norms add, by what is longer than its weight at a group that is 0.
func Residual(groups []Group, grad, x []float64) float64 {
	rest := append([]float64(nil), grad...)
	for _, g := range groups {
		size := g.norm(x)
		if size == 0 {
			size = g.norm(rest)
			for _, at := range g.At {
				rest[at] *= max(0, 1-g.Weight/max(size, g.Weight))
			}
			continue
		}
		for _, at := range g.At {
			rest[at] += g.Weight * x[at] / size
		}
	}
	return floats.Norm(rest, 2)
}

// norm is that of the group's part of x.
func (g Group) norm(x []float64) float64 {
	size := 0.0
	for _, at := range g.At {
		size = math.Hypot(size, x[at])
	}
	return size
}

// norms is Σ_g w_g·‖x_g‖.
func norms(groups []Group, x []float64) (sum float64) {
	for _, g := range groups {
		sum += g.Weight * g.norm(x)
	}
	return sum
}

// proximalStep minimises the model, with a damping that makes it convex, and returns where, the fall that it promises,
// the damping, and what that of the groups at 0 is more: where these are the likelihood need not be convex along them,
// and that of all others slows nobody down if it has none. It returns nil if there is none.
func (q *quadratic) proximalStep(groups []Group, damping float64) (next []float64, promised, used, held float64) {
	n := len(q.x)
	scale, zero := q.scales(), make([]bool, n)
	for _, g := range groups {
		for _, at := range g.At {
			zero[at] = g.norm(q.x) == 0
		}
	}
	h, scaled := mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	for i, s := range scale {
		for j := i; j < n; j++ {
			scaled.SetSym(i, j, s*q.h.At(i, j)*scale[j])
		}
	}
	for ; damping < 1e9; damping = raised(damping) {
		for _, held := range []float64{0, 1, 10, 100, 1000} {
			h.CopySym(scaled)
			for i := range n {
				v := scaled.At(i, i) + damping
				if zero[i] {
					v += held
				}
				h.SetSym(i, i, v)
			}
			var chol mat.Cholesky
			if !chol.Factorize(h) || chol.Cond() > 1e14 {
				continue
			}
			for i, s := range scale {
				for j := i; j < n; j++ {
					h.SetSym(i, j, h.At(i, j)/s/scale[j])
				}
			}
			next = minimiseNorms(h, q.grad, q.x, groups)
			step := mat.NewVecDense(n, nil)
			floats.SubTo(step.RawVector().Data, next, q.x)
			promised = norms(groups, q.x) - norms(groups, next) - floats.Dot(q.grad, step.RawVector().Data) -
				mat.Inner(step, h, step)/2
			return next, promised, damping, held
		}
	}
	return nil, 0, 0, 0
}

// minimiseNorms returns the minimum over z of gᵀ(z − x) + (z − x)ᵀh(z − x)/2 + Σ w‖z_g‖, h positive definite. The
// variables in no group are eliminated; of the others a group at a time is brought to its minimum given the others,
// which is exact, and the groups that are not 0 take Newton's step together now and then.
func minimiseNorms(h *mat.SymDense, g, x []float64, groups []Group) []float64 {
	n := len(x)
	of := make([]bool, n)
	for _, group := range groups {
		for _, at := range group.At {
			of[at] = true
		}
	}
	var free, held []int
	for i := range n {
		if of[i] {
			held = append(held, i)
		} else {
			free = append(free, i)
		}
	}
	b := &blocks{h: mat.NewSymDense(len(held), nil), slope: make([]float64, len(held)), z: make([]float64, len(held))}
	place := make(map[int]int)
	for i, at := range held {
		place[at], b.slope[i], b.z[i] = i, g[at], x[at]
	}
	for _, group := range groups {
		var at []int
		for _, v := range group.At {
			at = append(at, place[v])
		}
		b.groups = append(b.groups, Group{at, group.Weight})
	}
	eliminated := eliminate(h, g, free, held, b)
	b.descend()
	out := append([]float64(nil), x...)
	for i, at := range held {
		out[at] = b.z[i]
	}
	eliminated(out, x)
	return out
}

// eliminate writes h and g of the variables held, with the free ones at their minimum given these, to b, and returns
// what brings the free ones of out there.
func eliminate(h *mat.SymDense, g []float64, free, held []int, b *blocks) func(out, x []float64) {
	m := len(free)
	scale := make([]float64, m)
	for i, at := range free {
		scale[i] = 1 / math.Sqrt(h.At(at, at))
	}
	own := mat.NewSymDense(max(1, m), nil)
	own.SetSym(0, 0, 1)
	for i, a := range free {
		for j := i; j < m; j++ {
			own.SetSym(i, j, scale[i]*h.At(a, free[j])*scale[j])
		}
	}
	var chol mat.Cholesky
	chol.Factorize(own) // of a part of what is positive definite
	u := chol.RawU().(*mat.TriDense).RawTriangular()
	solve := func(right func(i int) float64) []float64 {
		v := make([]float64, max(1, m))
		for i := range free {
			v[i] = scale[i] * right(i)
		}
		numeric.SolveCholesky(u, v)
		for i := range free {
			v[i] *= scale[i]
		}
		return v[:m]
	}
	along := solve(func(i int) float64 { return g[free[i]] })
	for c, at := range held {
		column := solve(func(i int) float64 { return h.At(free[i], at) })
		for i, other := range held[:c+1] {
			v := h.At(other, at)
			for j, a := range free {
				v -= h.At(other, a) * column[j]
			}
			b.h.SetSym(i, c, v)
		}
		for j, a := range free {
			b.slope[c] -= h.At(at, a) * along[j]
		}
	}
	return func(out, x []float64) {
		step := solve(func(i int) float64 {
			v := g[free[i]]
			for _, at := range held {
				v += h.At(free[i], at) * (out[at] - x[at])
			}
			return v
		})
		for i, at := range free {
			out[at] = x[at] - step[i]
		}
	}
}

// blocks is a quadratic with the norms of groups, which have all of its variables: where it is, its slope there
// without the norms, and its second derivatives.
type blocks struct {
	h      *mat.SymDense
	slope  []float64
	z      []float64
	groups []Group
}

const (
	mostSweeps = 10_000
	// sweptStep is the most that a step of the last sweep moves a variable, in units of one over the root of its second
	// derivative: the square is what it gains.
	sweptStep = 1e-11
	// joint is the number of sweeps after which the groups that are not 0 take a step together.
	joint = 8
)

// descend brings b to its minimum.
func (b *blocks) descend() {
	curves := make([]*curve, len(b.groups))
	for i, g := range b.groups {
		curves[i] = newCurve(b.h, g)
	}
	for sweep := 1; sweep <= mostSweeps; sweep++ {
		largest := 0.0
		for i, g := range b.groups {
			largest = max(largest, b.moveTo(g.At, curves[i].minimum(b.slope, b.z)))
		}
		if largest <= sweptStep {
			return
		}
		if sweep%joint == 0 {
			b.newton()
		}
	}
}

// moveTo puts values at places and returns the largest move in the units of sweptStep.
func (b *blocks) moveTo(at []int, values []float64) (largest float64) {
	for i, v := range values {
		step := v - b.z[at[i]]
		if step == 0 {
			continue
		}
		b.z[at[i]] = v
		for j := range b.slope {
			b.slope[j] += step * b.h.At(j, at[i])
		}
		largest = max(largest, math.Abs(step)*math.Sqrt(b.h.At(at[i], at[i])))
	}
	return largest
}

// newton takes the step of the groups that are not 0 as if none had a kink, where it lowers the value.
func (b *blocks) newton() {
	var at []int
	var of []Group
	for _, g := range b.groups {
		if g.norm(b.z) > 0 {
			at, of = append(at, g.At...), append(of, g)
		}
	}
	if len(at) == 0 {
		return
	}
	h, right, base := mat.NewSymDense(len(at), nil), mat.NewVecDense(len(at), nil), 0
	for i, a := range at {
		for j := i; j < len(at); j++ {
			h.SetSym(i, j, b.h.At(a, at[j]))
		}
		right.SetVec(i, -b.slope[a])
	}
	for _, g := range of {
		size := g.norm(b.z)
		for i, a := range g.At {
			right.SetVec(base+i, right.AtVec(base+i)-g.Weight*b.z[a]/size)
			for j := i; j < len(g.At); j++ {
				v := -b.z[a] * b.z[g.At[j]] / (size * size)
				if i == j {
					v++
				}
				h.SetSym(base+i, base+j, h.At(base+i, base+j)+g.Weight/size*v)
			}
		}
		base += len(g.At)
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) {
		return
	}
	var step mat.VecDense
	if chol.SolveVecTo(&step, right) != nil {
		return
	}
	next, gain := append([]float64(nil), b.z...), 0.0
	for i, a := range at {
		next[a] += step.AtVec(i)
		gain -= step.AtVec(i) * b.slope[a]
		for j, other := range at {
			gain -= step.AtVec(i) * b.h.At(a, other) * step.AtVec(j) / 2
		}
	}
	if gain += norms(of, b.z) - norms(of, next); !(gain > 0) {
		return
	}
	values := make([]float64, len(at))
	for i, a := range at {
		values[i] = next[a]
	}
	b.moveTo(at, values)
}

// curve is the second derivatives of a quadratic by a group, and their axes.
type curve struct {
	Group
	h       *mat.SymDense
	values  []float64
	vectors mat.Dense
	right   []float64 // room
}

func newCurve(h *mat.SymDense, g Group) *curve {
	n := len(g.At)
	c := &curve{Group: g, h: mat.NewSymDense(n, nil), right: make([]float64, n)}
	for i, a := range g.At {
		for j := i; j < n; j++ {
			c.h.SetSym(i, j, h.At(a, g.At[j]))
		}
	}
	if n > 1 {
		var eigen mat.EigenSym
		eigen.Factorize(c.h, true)
		c.values = eigen.Values(nil)
		eigen.VectorsTo(&c.vectors)
	}
	return c
}

// minimum is that over the group's z, all others as they are, of a quadratic that has this slope at z:
//
//	0 where ‖b‖ ≤ w, b = H·z − slope, else z = (H + w/r·I)⁻¹·b with r = ‖z‖
func (c *curve) minimum(slope, z []float64) []float64 {
	b := c.right
	for i, at := range c.At {
		b[i] = -slope[at]
		for j, other := range c.At {
			b[i] += c.h.At(i, j) * z[other]
		}
	}
	out := make([]float64, len(b))
	switch size := floats.Norm(b, 2); {
	case size <= c.Weight:
	case len(b) == 1:
		out[0] = math.Copysign(size-c.Weight, b[0]) / c.h.At(0, 0)
	case c.Weight == 0:
		c.solve(out, 0)
	default:
		c.solve(out, c.Weight/c.root())
	}
	return out
}

// along is b by axis i.
func (c *curve) along(i int) (sum float64) {
	for j, v := range c.right {
		sum += v * c.vectors.At(j, i)
	}
	return sum
}

// solve writes (H + ridge·I)⁻¹·b to out.
func (c *curve) solve(out []float64, ridge float64) {
	for i, value := range c.values {
		v := c.along(i) / (max(value, 0) + ridge)
		for j := range out {
			out[j] += v * c.vectors.At(j, i)
		}
	}
}

// root is the r > 0 with Σ_i b_i²/(h_i·r + w)² = 1, by the axes: by Newton's method on one over the root of the sum,
// which is concave and rises, so that it comes from below, and by no more steps than digits need.
func (c *curve) root() float64 {
	r := 0.0
	for range 100 {
		sum, slope := 0.0, 0.0
		for i, value := range c.values {
			value = max(value, 0)
			u := value*r + c.Weight
			part := c.along(i) / u
			sum += part * part
			slope += part * part * value / u
		}
		step := sum * (math.Sqrt(sum) - 1) / slope
		if r += step; !(math.Abs(step) > 1e-15*r) {
			break
		}
	}
	return r
}
