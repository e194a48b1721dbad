package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// vectorGradient are the sums behind the gradient, and what EM needs of them.
type vectorGradient struct {
	*layout
	mass    []float64 // k: Σ r_i
	score   []float64 // k·m coordinates: Σ r_i·∂log f_i/∂z_ic·x; then the gate's rows
	scatter []float64 // k × m×m, its upper triangle: Σ r_i·t_a·t_b of the residuals t
	own     ownSums   // none where the noise is normal
}

func newVectorGradient(o *layout, normal bool) *vectorGradient {
	k := func(n int) []float64 { return make([]float64, o.k*n) }
	s := &vectorGradient{layout: o, mass: k(1), score: make([]float64, o.atNoise), scatter: k(o.m * o.m)}
	if !normal {
		s.own = newOwnSums(o)
	}
	return s
}

func (s *vectorGradient) values() [][]float64 {
	return [][]float64{s.mass, s.score, s.scatter, s.own.values}
}

// ofGate returns the scores of all rows of the gate.
func (s *vectorGradient) ofGate() []float64 { return s.score[s.atGate:] }

func (s *vectorGradient) block(w *work) {
	terms := w.termsOf(s.means)
	for i := range s.k {
		s.mass[i] += w.Sum(w.PostOf(i))
		if s.own.values != nil {
			s.own.add(w, terms[i*s.m], i)
		}
		for a := range s.m {
			wt := terms[i*s.m+a]
			kernel.Mul(wt, w.PostOf(i), w.row(w.res, i*s.m+a))
			w.WeighRows(wt)
			for b := a; b < s.m; b++ {
				s.scatter[(i*s.m+a)*s.m+b] += kernel.Dot(wt, w.row(w.res, i*s.m+b))
			}
			kernel.Mul(wt, w.PostOf(i), w.scoreOf(i*s.m+a))
			w.WeighRows(wt)
		}
	}
	w.AddColumns(s.score[:s.atGate], terms, s.expert)
	w.addGateScores(s.layout, s.ofGate())
}

// ofLevel returns the scatter of the experts that share noise level s, and their mass.
func (s *vectorGradient) ofLevel(level int) (scatter *mat.SymDense, mass float64) {
	scatter = mat.NewSymDense(s.m, nil)
	for i := range s.k {
		if s.levels > 1 && i != level {
			continue
		}
		mass += s.mass[i]
		for a := range s.m {
			for b := a; b < s.m; b++ {
				scatter.SetSym(a, b, scatter.At(a, b)+s.scatter[(i*s.m+a)*s.m+b])
			}
		}
	}
	return scatter, mass
}

// write writes the gradient, times factor, to dst. With S the scatter of a level
//
//	∂/∂log s_c = (U·S·Uᵀ)_cc/s_c² − Σ r,   ∂/∂u_cb = −(U·S)_cb/s_c²
//
// where the noise is normal.
func (s *vectorGradient) write(dst []float64, factor float64, noises []joint.Noise) {
	floats.ScaleTo(dst[:s.atNoise], factor, s.score)
	for level, n := range noises {
		if s.own.values != nil {
			scores, _ := s.own.ofLevel(level)
			floats.ScaleTo(dst[s.noiseAt(level, 0):s.noiseAt(level, s.layout.own)], factor, scores)
			continue
		}
		scatter, mass := s.ofLevel(level)
		unit := mat.NewDense(s.m, s.m, n.Unit())
		var left, both mat.Dense
		left.Mul(unit, scatter)
		both.Mul(&left, unit.T())
		for l := range s.layout.own {
			at := s.noiseAt(level, l)
			if l < s.m {
				dst[at] = factor * (both.At(l, l)/n.Scale[l]/n.Scale[l] - mass)
				continue
			}
			c, b := s.pairOf(l)
			dst[at] = -factor * left.At(c, b) / n.Scale[c] / n.Scale[c]
		}
	}
}

// stepNoise writes the noise of the scatter, which the experts' step has lowered, to its
// part of θ: none of its scales less than half of what it was (see [gradientSums.stepNoise]). ψ of another density
// takes the step of that.
func (s *vectorGradient) stepNoise(theta []float64, level int, noise joint.Noise) {
	was := noise.Normal
	if was == nil {
		for q, v := range upwards(s.own.ofLevel(level)) {
			theta[q] = s.ends[q].hold(theta[q] + v)
		}
		return
	}
	scatter, mass := s.ofLevel(level)
	if mass <= 0 {
		return
	}
	// In the coordinates that whiten the noise as it was.
	white := mat.NewDense(s.m, s.m, nil)
	for c := range s.m {
		for b := range c + 1 {
			white.Set(c, b, was.Unit[c*s.m+b]/was.Scale[c])
		}
	}
	var left, both mat.Dense
	left.Mul(white, scatter)
	both.Mul(&left, white.T())
	now := mat.NewSymDense(s.m, nil)
	for c := range s.m {
		for b := c; b < s.m; b++ {
			now.SetSym(c, b, both.At(c, b)/mass)
		}
	}
	step, ok := model.VectorNoiseOf(now, s.correlated)
	if !ok { // residuals of nothing but rounding
		step = model.NewVectorNoise(s.m, s.correlated)
		for c := range step.Scale {
			step.Scale[c] = math.Sqrt(max(0, now.At(c, c)))
		}
	}
	for c, scale := range step.Scale {
		theta[c] = max(math.Log(was.Scale[c]*max(scale, slowest)), s.ends[c].least)
	}
	if !s.correlated {
		return
	}
	// diag(s)·U_step·diag(s)⁻¹·U is unit lower triangular and makes the noise diagonal.
	next := mat.NewDense(s.m, s.m, step.Unit())
	next.Apply(func(c, b int, v float64) float64 { return v * was.Scale[c] / was.Scale[b] }, next)
	var unit mat.Dense
	unit.Mul(next, mat.NewDense(s.m, s.m, was.Unit))
	for l := s.m; l < s.layout.own; l++ {
		c, b := s.pairOf(l)
		theta[l] = unit.At(c, b)
	}
}

// vectorExperts are the curvatures of the experts' M-step and what its residuals pull at,
// for the pairs of coordinates that the noise may join.
type vectorExperts struct {
	grams           // of every expert, for its pairs a ≤ b: Σ r_i·g′_a·g′_b·x·xᵀ, see [joint.Experts.Curvature]
	cross []float64 // of every expert, for a and b: Σ r_i·g′_a·t_b·x, or [joint.Experts.Pull] for it

	apart, joint *gram.System // of one coordinate's step, and of all
}

func newVectorExperts(o *layout) *vectorExperts {
	return &vectorExperts{grams: newGrams(o, o.k*len(o.joined)), cross: make([]float64, o.k*o.m*o.m*o.da)}
}

func (s *vectorExperts) values() [][]float64 { return append(s.grams.values(), s.cross) }

func (s *vectorExperts) crossOf(i, a, b int) []float64 {
	at := ((i*s.m+a)*s.m + b) * s.da
	return s.cross[at : at+s.da]
}

func (s *vectorExperts) block(w *work) {
	m := s.m
	g := s.Begin(&w.Design)
	wt := w.terms[:w.N]
	for i := range s.k {
		for _, p := range s.joined {
			w.Curvature(g.Terms, i, p[0], p[1])
			g.Next()
		}
		for a := range m {
			for b := range m {
				if w.Pull(wt, i, a, b) {
					w.AddWeighted(s.crossOf(i, a, b), wt, s.expert)
				}
			}
		}
	}
}

// step adds the weighted least squares step of expert i to its coefficients, and takes what
// it gains, exactly where g is linear, off the scatter.
func (s *vectorExperts) step(coef []float64, i int, weight []float64, g *vectorGradient) {
	if len(s.joined) > s.m {
		s.stepJoint(coef, i, weight, g)
		return
	}
	if s.apart == nil {
		s.apart = gram.NewSystem(s.da)
	}
	m := s.m
	for a := range m {
		s.Put(s.apart.H, i*m+a, 0, 0, s.expert, s.expert, 1)
		if !s.apart.Factorize() {
			continue
		}
		step := s.apart.Solve(s.crossOf(i, a, a))
		floats.Add(coef[a*s.da:(a+1)*s.da], step)
		at := (i*m+a)*m + a
		g.scatter[at] = max(0, g.scatter[at]-floats.Dot(step, s.crossOf(i, a, a)))
	}
}

// stepJoint is step of all coordinates together, each in units of its own precision.
func (s *vectorExperts) stepJoint(coef []float64, i int, weight []float64, g *vectorGradient) {
	m, da, n := s.m, s.da, len(s.joined)
	if s.joint == nil {
		s.joint = gram.NewSystem(m * da)
	}
	unit := func(a int) float64 { return 1 / math.Sqrt(weight[a*m+a]) }
	for p, of := range s.joined {
		a, b := of[0], of[1]
		s.Put(s.joint.H, i*n+p, a*da, b*da, s.expert, s.expert, weight[a*m+b]*unit(a)*unit(b))
	}
	if !s.joint.Factorize() {
		return
	}
	pull := make([]float64, m*da)
	for a := range m {
		for b := range m {
			floats.AddScaled(pull[a*da:(a+1)*da], weight[a*m+b]*unit(a), s.crossOf(i, a, b))
		}
	}
	step := s.joint.Solve(pull)
	for a := range m {
		floats.Scale(unit(a), step[a*da:(a+1)*da])
	}
	floats.Add(coef, step)
	of := func(a int) []float64 { return step[a*da : (a+1)*da] }
	for p, pair := range s.joined {
		a, b := pair[0], pair[1]
		at := (i*m+a)*m + b
		g.scatter[at] += s.inner(i*n+p, of(a), of(b)) - floats.Dot(of(a), s.crossOf(i, a, b)) - floats.Dot(of(b),
			s.crossOf(i, b, a))
		if a == b {
			g.scatter[at] = max(0, g.scatter[at])
		}
	}
}

// inner returns xᵀ·G·y of Gram matrix i over an expert's columns.
func (s *vectorExperts) inner(i int, x, y []float64) (sum float64) {
	for a, j := range s.expert {
		for b, l := range s.expert {
			sum += x[a] * y[b] * s.At(i, j, l)
		}
	}
	return sum
}
