package optim

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Hinge is a kink of an objective beside a point. Behind a step δ the objective is by
//
//	Force·max(0, Gap + Σ_j X_j·δ_(At+j)),  Gap ≤ 0
//
// above what its derivatives at the point say. A minimum may be at a kink where Force is above 0, and at no other.
type Hinge struct {
	At         int
	X          []float64
	Gap, Force float64
}

// Bend is what hinges add to an objective behind a step.
func Bend(hinges []Hinge, step []float64) (sum float64) {
	for _, h := range hinges {
		sum += h.Force * max(0, min(h.Gap, 0)+floats.Dot(h.X, step[h.At:h.At+len(h.X)]))
	}
	return sum
}

// Kinked is an objective that is smooth but for hinges, of which Hinges returns those next to x.
type Kinked interface {
	Curved
	Hinges(ctx context.Context, x []float64) ([]Hinge, error)
}

// PolishKinks takes an x0 near a minimum of c to it, where that is at kinks too: a step goes to the minimum of the
// quadratic model and its hinges, see [HingedStep]. So it is Newton's method along the kinks that the minimum is at,
// which are met to rounding. It has converged where the next step would move no variable by more than Tolerance
// (default 1e−12) times the larger of 1 and its size: x is then a minimum to that, at its kinks as well, since what
// each takes to hold x is between nothing and its force. Of minima that are next to each other it takes one that is
// lower by more than Worth. An x0 that is such a minimum stays as it is, to the byte. Where steps do not lower the
// value, or have no positive definite Hessian, it has stalled.
func PolishKinks(ctx context.Context, c Kinked, x0 []float64, set Settings) (*Result, error) {
	set = set.or(40, 1e-12)
	r := newResult(x0)
	at, trial := newQuadratic(len(x0)), newQuadratic(len(x0))
	copy(at.x, x0)
	if err := at.fill(ctx, c); err != nil {
		return r.end(NotRun, err)
	}
	if !numeric.Finite(at.value) {
		return r.end(Diverged, nil)
	}
	r.step(at.x, at.value)
	hinges, err := c.Hinges(ctx, at.x)
	if err != nil {
		return r.end(NotRun, err)
	}
	worth, damping := set.Worth, 0.0
	for r.Iterations < set.Iterations {
		step, used := HingedStep(at.h, at.grad, hinges, damping, worth)
		small := step != nil && Largest(step, at.x) <= set.Tolerance
		switch {
		case small && used == 0:
			r.Settled = true
			return r.end(Converged, nil)
		case step == nil, small, used > mostDamping:
			return r.end(Stalled, nil)
		}
		r.Iterations++
		project(c, floats.AddTo(trial.x, at.x, step))
		if err := trial.fill(ctx, c); err != nil {
			return r.end(NotRun, err)
		}
		if !(trial.value <= at.value+lastRounding*math.Abs(at.value)) {
			damping, worth = raised(used), math.Inf(1)
			continue
		}
		at, trial = trial, at
		r.step(at.x, at.value)
		damping = lowered(used, true)
		if hinges, err = c.Hinges(ctx, at.x); err != nil {
			return r.end(NotRun, err)
		}
	}
	return r.end(IterationLimit, nil)
}

// HingedStep minimises grad·δ + δᵀHδ/2 and what hinges add, with H damped as in [Newton]; of several minima it takes
// one that is lower by more than worth if it is behind one hinge. It returns the damping used; nil is no step.
func HingedStep(h *mat.SymDense, grad []float64, hinges []Hinge, damping, worth float64) ([]float64, float64) {
	q := &quadratic{x: grad, grad: grad, h: h}
	free, _, used := q.newtonStep(damping)
	if free == nil || len(hinges) == 0 {
		return free, used
	}
	s := newHinged(q.chol.RawU().(*mat.TriDense).RawTriangular(), q.scale, grad, hinges)
	if !s.minimise() {
		return nil, used
	}
	return s.lowest(worth).step(), used
}

// hinged minimises yᵀy/2 + gᵀy + Σ f_t·max(0, b_t + a_tᵀy) from y = 0 by a method of active sets. y is U·S⁻¹·δ, with
// UᵀU = S·H·S and S the scales.
type hinged struct {
	u     blas64.Triangular
	scale []float64
	g     []float64
	a     [][]float64
	b, f  []float64

	y      []float64
	on     []bool // y is taken to be beyond the kink
	held   []int  // y is at these kinks
	pinned int    // y is taken to stay on its side of this kink; −1 for none
}

func newHinged(u blas64.Triangular, scale, grad []float64, hinges []Hinge) *hinged {
	s := &hinged{u: u, scale: scale, y: make([]float64, len(grad)), on: make([]bool, len(hinges)), pinned: -1}
	s.g = s.into(0, grad)
	for _, h := range hinges {
		s.a = append(s.a, s.into(h.At, h.X))
		s.b, s.f = append(s.b, min(h.Gap, 0)), append(s.f, h.Force)
	}
	return s
}

// into returns U⁻ᵀ·S·v, of v that begins at a place.
func (s *hinged) into(at int, v []float64) []float64 {
	out := make([]float64, len(s.scale))
	floats.MulTo(out[at:at+len(v)], v, s.scale[at:at+len(v)])
	blas64.Trsv(blas.Trans, s.u, blas64.Vector{N: len(out), Inc: 1, Data: out})
	return out
}

// step returns δ = S·U⁻¹·y.
func (s *hinged) step() []float64 {
	out := slices.Clone(s.y)
	blas64.Trsv(blas.NoTrans, s.u, blas64.Vector{N: len(out), Inc: 1, Data: out})
	floats.Mul(out, s.scale)
	return out
}

// beyond is by how much y is beyond kink t.
func (s *hinged) beyond(t int) float64 { return s.b[t] + floats.Dot(s.a[t], s.y) }

func (s *hinged) value() float64 {
	v := floats.Dot(s.y, s.y)/2 + floats.Dot(s.g, s.y)
	for t, f := range s.f {
		v += f * max(0, s.beyond(t))
	}
	return v
}

// slack is the rounding of forces and slopes, relative to their size.
const slack = 1e-12

// minimise goes to a local minimum, and says whether it came there. Of these sides and these kinks it goes to the
// minimum, or to the first kink that holds it on the way there; and lets go of the kink that holds it least.
func (s *hinged) minimise() bool {
	for range 100 + 20*(len(s.a)+len(s.y)) {
		p, hold, ok := s.direction()
		if !ok {
			return false
		}
		if s.along(p) {
			continue
		}
		most, out := 0.0, -1
		for i, t := range s.held {
			if v := max(-hold[i], hold[i]-s.f[t]) / s.f[t]; v > most+slack {
				most, out = v, i
			}
		}
		if out < 0 {
			return true
		}
		s.on[s.held[out]] = hold[out] > 0
		s.held = slices.Delete(s.held, out, out+1)
	}
	return false
}

// direction returns the way from y to the minimum of its sides at the kinks that are held, and the force that each of
// them holds it with.
func (s *hinged) direction() (p, hold []float64, ok bool) {
	n, m := len(s.y), len(s.held)
	p = floats.AddTo(make([]float64, n), s.g, s.y)
	for t, on := range s.on {
		if on {
			floats.AddScaled(p, s.f[t], s.a[t])
		}
	}
	floats.Scale(-1, p)
	if m == 0 || m > n {
		return p, nil, m == 0
	}
	a := mat.NewDense(n, m, nil)
	for i, t := range s.held {
		a.SetCol(i, s.a[t])
	}
	var qr mat.QR
	var x mat.VecDense
	qr.Factorize(a)
	if qr.SolveVecTo(&x, false, mat.NewVecDense(n, slices.Clone(p))) != nil { // they are not independent
		return nil, nil, false
	}
	hold = x.RawVector().Data
	for i, t := range s.held {
		floats.AddScaled(p, -hold[i], s.a[t])
	}
	return p, hold, true
}

// meeting is a kink that is met at a part of the way, where the slope rises.
type meeting struct {
	kink      int
	at, rises float64
}

// along goes along p to the first minimum, and says whether there is more to do: it is at a kink, or beyond one.
func (s *hinged) along(p []float64) bool {
	square := floats.Dot(p, p)
	var meets []meeting
	for t, a := range s.a {
		v := floats.Dot(a, p)
		if s.on[t] == (v > 0) || t == s.pinned || slices.Contains(s.held, t) ||
			math.Abs(v) <= slack*math.Sqrt(square*floats.Dot(a, a)) {
			continue
		}
		meets = append(meets, meeting{t, max(0, -s.beyond(t)/v), s.f[t] * math.Abs(v)})
	}
	slices.SortFunc(meets, func(a, b meeting) int { return cmp.Or(cmp.Compare(a.at, b.at), a.kink-b.kink) })
	slope, from := -square, 0.0 // of the value, and where: it rises by square over the whole way
	for _, m := range meets {
		if slope+square*(m.at-from) >= 0 {
			break
		}
		slope += square * (m.at - from)
		from = m.at
		if slope+m.rises >= 0 {
			floats.AddScaled(s.y, from, p)
			s.on[m.kink], s.held = false, append(s.held, m.kink)
			return true
		}
		slope += m.rises
		s.on[m.kink] = !s.on[m.kink]
	}
	if from == 0 && slope == -square {
		floats.Add(s.y, p)
		return false
	}
	floats.AddScaled(s.y, from-slope/square, p)
	return true
}

// lowest is the lowest minimum that is found from y by going to the other side of one kink after the other that holds
// nothing, each time for more than worth.
func (s *hinged) lowest(worth float64) *hinged {
	if math.IsInf(worth, 1) {
		return s
	}
	for value := s.value(); ; {
		best, least := s, value-worth
		for t, f := range s.f {
			if f > 0 {
				continue
			}
			c := *s
			c.y, c.on, c.held, c.pinned = slices.Clone(s.y), slices.Clone(s.on), slices.Clone(s.held), t
			c.on[t] = !c.on[t]
			if c.minimise() && c.on[t] == (c.beyond(t) > 0) && c.value() < least {
				best, least = &c, c.value()
			}
		}
		if best == s {
			return s
		}
		s, value = best, least
		s.pinned = -1
	}
}
