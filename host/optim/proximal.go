package optim

import (
	"context"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
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
	at, trial, model := newQuadratic(len(x0)), newQuadratic(len(x0)), newComposite(len(x0), groups)
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
	damping, before := 0.0, false // the step before promised as little
	for r.Iterations < set.Iterations {
		next, promised, used, held := model.step(at, damping)
		if next == nil {
			return r.end(Stalled, nil)
		}
		small := promised*(1+held) < set.Tolerance
		last := small && (used <= undamped || used <= mostFlat && before)
		before = small && used <= mostFlat
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

const (
	// undamped is the damping up to which a step's promise is that of the model itself.
	undamped = 1e-6
	// mostFlat is the damping that shortens a step along flat directions alone, as those of a gate that separates
	// rows, which never has so little of it that it counts as none: it has converged where two in a row promise
	// little.
	mostFlat = 1e-2
)

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

// composite is the quadratic model of a function plus the norms of groups, with room for its minimisation that is used
// again. Matrices are n×n in rows where nothing else is said.
type composite struct {
	groups     []Group
	free, held []int // variables in no group, and in one, group by group

	scaled []float64 // the second derivatives, of unit diagonal: the upper triangle
	h      []float64 // those of the model, damped
	factor []float64

	scale  []float64         // of the free variables
	own    blas64.Triangular // U with UᵀU = D·h·D over the free variables, D their scale
	across blas64.General    // U⁻ᵀ·D·h of the free variables with the held ones
	along  blas64.Vector     // U⁻ᵀ·D·g of the free variables
	moved  blas64.Vector     // of the held ones
	blocks                   // what is left of the held variables, the free ones at their minimum given these
}

func newComposite(n int, groups []Group) *composite {
	c := &composite{
		groups: groups, scaled: make([]float64, n*n), h: make([]float64, n*n), factor: make([]float64, n*n),
	}
	grouped := make([]bool, n)
	for _, g := range groups {
		places := make([]int, len(g.At))
		for i, at := range g.At {
			places[i], grouped[at] = len(c.held), true
			c.held = append(c.held, at)
		}
		c.blocks.groups = append(c.blocks.groups, Group{places, g.Weight})
	}
	for at, in := range grouped {
		if !in {
			c.free = append(c.free, at)
		}
	}
	m, k := len(c.free), len(c.held)
	vector := func(n int) blas64.Vector { return blas64.Vector{N: n, Inc: 1, Data: make([]float64, n)} }
	c.scale, c.along, c.moved = make([]float64, m), vector(m), vector(k)
	c.own = blas64.Triangular{Uplo: blas.Upper, Diag: blas.NonUnit, N: m, Stride: max(1, m), Data: make([]float64, m*m)}
	c.across = blas64.General{Rows: m, Cols: k, Stride: k, Data: make([]float64, m*k)}
	c.blocks.room(k)
	return c
}

// step minimises the model at q, with a damping that makes it convex, and returns where, the fall that it promises,
// the damping, and what that of the groups at 0 is more: where these are the likelihood need not be convex along them,
// and that of all others slows nobody down if it has none. It returns nil if there is none.
func (c *composite) step(q *quadratic, damping float64) (next []float64, promised, used, held float64) {
	n := len(q.x)
	scale, zero := q.scales(), make([]bool, n)
	for _, g := range c.groups {
		for _, at := range g.At {
			zero[at] = g.norm(q.x) == 0
		}
	}
	raw := q.h.RawSymmetric()
	for i, s := range scale {
		for j := i; j < n; j++ {
			c.scaled[i*n+j] = s * raw.Data[i*raw.Stride+j] * scale[j]
		}
	}
	for ; damping < 1e9; damping = raised(damping) {
		for _, held := range []float64{0, 1, 10, 100, 1000} {
			copy(c.h, c.scaled)
			for i := range n {
				c.h[i*n+i] += damping
				if zero[i] {
					c.h[i*n+i] += held
				}
			}
			if !c.definite(n) {
				continue
			}
			for i, s := range scale {
				for j := i; j < n; j++ {
					c.h[i*n+j] /= s * scale[j]
					c.h[j*n+i] = c.h[i*n+j]
				}
			}
			next = c.minimise(q.grad, q.x)
			step := floats.SubTo(make([]float64, n), next, q.x)
			promised = norms(c.groups, q.x) - norms(c.groups, next) - floats.Dot(q.grad, step)
			for i, v := range step {
				promised -= v * floats.Dot(c.h[i*n:(i+1)*n], step) / 2
			}
			return next, promised, damping, held
		}
	}
	return nil, 0, 0, 0
}

// definite says whether h, of which there is the upper triangle, is positive definite, and no pivot of its
// factorisation has lost all digits but one or two.
func (c *composite) definite(n int) bool {
	const least = 1e-14 // of the diagonal
	copy(c.factor, c.h)
	if _, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: c.factor}); !ok {
		return false
	}
	for i := range n {
		if at := i*n + i; c.factor[at]*c.factor[at] < least*c.h[at] {
			return false
		}
	}
	return true
}

// minimise returns the minimum over z of gᵀ(z − x) + (z − x)ᵀh(z − x)/2 + Σ w‖z_g‖, h positive definite. The
// variables in no group are eliminated, by a Cholesky factor; of the others a group at a time is brought to its minimum
// given the others, which is exact, and the groups that are not 0 take Newton's step together now and then.
func (c *composite) minimise(g, x []float64) []float64 {
	n, k := len(x), len(c.held)
	for i, at := range c.free {
		c.scale[i] = 1 / math.Sqrt(c.h[at*n+at])
	}
	for i, a := range c.free {
		row := c.h[a*n : (a+1)*n]
		for j := i; j < len(c.free); j++ {
			c.own.Data[i*c.own.Stride+j] = c.scale[i] * row[c.free[j]] * c.scale[j]
		}
		for j, at := range c.held {
			c.across.Data[i*k+j] = c.scale[i] * row[at]
		}
		c.along.Data[i] = c.scale[i] * g[a]
	}
	b := &c.blocks
	for i, a := range c.held {
		for j, at := range c.held {
			b.h[i*k+j] = c.h[a*n+at]
		}
		b.slope[i], b.z[i] = g[a], x[a]
	}
	if len(c.free) > 0 {
		lapack64.Potrf(blas64.Symmetric{Uplo: blas.Upper, N: c.own.N, Stride: c.own.Stride, Data: c.own.Data})
		blas64.Trsm(blas.Left, blas.Trans, 1, c.own, c.across)
		blas64.Trsv(blas.Trans, c.own, c.along)
		left := blas64.General{Rows: k, Cols: k, Stride: k, Data: b.h}
		blas64.Gemm(blas.Trans, blas.NoTrans, -1, c.across, c.across, 1, left)
		blas64.Gemv(blas.Trans, -1, c.across, c.along, 1, blas64.Vector{N: k, Inc: 1, Data: b.slope})
	}
	b.descend()
	out := append([]float64(nil), x...)
	for i, at := range c.held {
		out[at] = b.z[i]
		c.moved.Data[i] = b.z[i] - x[at]
	}
	if len(c.free) > 0 {
		blas64.Gemv(blas.NoTrans, 1, c.across, c.moved, 1, c.along)
		blas64.Trsv(blas.NoTrans, c.own, c.along)
	}
	for i, at := range c.free {
		out[at] = x[at] - c.scale[i]*c.along.Data[i]
	}
	return out
}

// blocks is a quadratic with the norms of groups, which have all of its k variables: where it is, its slope there
// without the norms, and its second derivatives, k×k in rows.
type blocks struct {
	h        []float64
	slope, z []float64
	groups   []Group

	curvature, right, next []float64 // room for a step of newton
}

func (b *blocks) room(k int) {
	v := func(n int) []float64 { return make([]float64, n) }
	b.h, b.slope, b.z, b.curvature, b.right, b.next = v(k*k), v(k), v(k), v(k*k), v(k), v(k)
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
		curves[i] = newCurve(b.h, len(b.z), g)
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
	k := len(b.z)
	for i, v := range values {
		step := v - b.z[at[i]]
		if step == 0 {
			continue
		}
		row := b.h[at[i]*k : (at[i]+1)*k]
		b.z[at[i]] = v
		floats.AddScaled(b.slope, step, row)
		largest = max(largest, math.Abs(step)*math.Sqrt(row[at[i]]))
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
	n, k := len(at), len(b.z)
	if n == 0 {
		return
	}
	h := blas64.Symmetric{Uplo: blas.Upper, N: n, Stride: n, Data: b.curvature[:n*n]}
	step := b.right[:n]
	for i, a := range at {
		for j := i; j < n; j++ {
			h.Data[i*n+j] = b.h[a*k+at[j]]
		}
		step[i] = -b.slope[a]
	}
	base := 0
	for _, g := range of {
		size := g.norm(b.z)
		for i, a := range g.At {
			step[base+i] -= g.Weight * b.z[a] / size
			for j := i; j < len(g.At); j++ {
				v := -b.z[a] * b.z[g.At[j]] / (size * size)
				if i == j {
					v++
				}
				h.Data[(base+i)*n+base+j] += g.Weight / size * v
			}
		}
		base += len(g.At)
	}
	factor, ok := lapack64.Potrf(h)
	if !ok {
		return
	}
	numeric.SolveCholesky(factor, step)
	next, gain := b.next, 0.0
	copy(next, b.z)
	for i, a := range at {
		next[a] += step[i]
		gain -= step[i] * b.slope[a]
		row := b.h[a*k : (a+1)*k]
		for j, other := range at {
			gain -= step[i] * row[other] * step[j] / 2
		}
	}
	if gain += norms(of, b.z) - norms(of, next); !(gain > 0) {
		return
	}
	for i, a := range at {
		step[i] = next[a]
	}
	b.moveTo(at, step)
}

// curve is the second derivatives of a quadratic by a group, and their axes.
type curve struct {
	Group
	h       *mat.SymDense
	values  []float64
	vectors mat.Dense
	right   []float64 // room
	out     []float64 // likewise
}

// newCurve is that of a group in a k×k matrix of second derivatives.
func newCurve(h []float64, k int, g Group) *curve {
	n := len(g.At)
	c := &curve{Group: g, h: mat.NewSymDense(n, nil), right: make([]float64, n), out: make([]float64, n)}
	for i, a := range g.At {
		for j := i; j < n; j++ {
			c.h.SetSym(i, j, h[a*k+g.At[j]])
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
//
// It is valid until the next.
func (c *curve) minimum(slope, z []float64) []float64 {
	b := c.right
	for i, at := range c.At {
		b[i] = -slope[at]
		for j, other := range c.At {
			b[i] += c.h.At(i, j) * z[other]
		}
	}
	out := c.out
	clear(out)
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
