package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// sums are what a pass adds up over rows.
type sums struct {
	k, da, dw, dx, ns int
	level             want
	experts, gates    []int // columns of their coefficients
	loglik            float64
	rss, mass, prior  []float64 // Σ r_i(y−g_i)², Σ r_i, Σ p_i
	score             []float64 // k experts: Σ r_i(y−g_i)g′_i·x; k−1 gates: Σ (r_j−p_j)·x
	grams             []float64 // packed upper triangles, in the order of addExperts and addGates or of addHessian
	sigmaScore        []float64 // ns × (k experts and k−1 gates): the information's columns of log σ
	sigmaSigma        []float64 // ns × ns
	overlap           []float64 // k × k: Σ r_i·r_j
}

func newSums(l *Likelihood, level want) *sums {
	s := &sums{k: l.k, da: l.da, dw: l.dw, dx: l.width(), ns: l.ns, level: level, experts: l.expert, gates: l.gate}
	s.rss, s.mass, s.prior = make([]float64, l.k), make([]float64, l.k), make([]float64, l.k)
	vectors := l.k*l.da + (l.k-1)*l.dw
	s.score = make([]float64, vectors)
	grams := 0
	switch level {
	case wantExperts, wantEM:
		grams = l.k + l.k*(l.k-1)/2
	case wantHessian, wantInformation:
		grams = l.k * (2*l.k - 1)
		s.sigmaScore = make([]float64, l.ns*vectors)
		s.sigmaSigma = make([]float64, l.ns*l.ns)
	case wantStructure:
		grams = 2 * l.k
		s.overlap = make([]float64, l.k*l.k)
	}
	s.grams = make([]float64, grams*s.dx*(s.dx+1)/2)
	if level == wantScores {
		s.grams = make([]float64, l.Dim()*(l.Dim()+1)/2)
	}
	return s
}

// fits says whether s has the room that level needs.
func (s *sums) fits(level want) bool {
	return level <= wantGrad || s.level == level || level == wantExperts && s.level == wantEM
}

func (s *sums) clear() {
	s.loglik = 0
	for _, v := range [][]float64{s.rss, s.mass, s.prior, s.score, s.grams, s.sigmaScore, s.sigmaSigma, s.overlap} {
		clear(v)
	}
}

func (s *sums) add(o *sums, level want) {
	s.loglik += o.loglik
	floats.Add(s.rss, o.rss)
	floats.Add(s.mass, o.mass)
	floats.Add(s.prior, o.prior)
	floats.Add(s.score, o.score)
	if level >= wantExperts {
		floats.Add(s.grams, o.grams)
		floats.Add(s.sigmaScore, o.sigmaScore)
		floats.Add(s.sigmaSigma, o.sigmaSigma)
		floats.Add(s.overlap, o.overlap)
	}
}

func (s *sums) expert(i int) []float64 { return s.score[i*s.da : (i+1)*s.da] }

func (s *sums) gate(j int) []float64 {
	at := s.k*s.da + j*s.dw
	return s.score[at : at+s.dw]
}

func (s *sums) sigmaExpert(m, i int) []float64 {
	at := m*len(s.score) + i*s.da
	return s.sigmaScore[at : at+s.da]
}

func (s *sums) sigmaGate(m, j int) []float64 {
	at := m*len(s.score) + s.k*s.da + j*s.dw
	return s.sigmaScore[at : at+s.dw]
}

func (s *sums) gram(i int) []float64 {
	q := s.dx * (s.dx + 1) / 2
	return s.grams[i*q : (i+1)*q]
}

// place writes scale times the rows and columns named of the packed Gram matrix
// g to the block of h whose first entry is (r, c), r ≤ c.
func (s *sums) place(h *mat.SymDense, g []float64, r, c int, rows, cols []int, scale float64) {
	for a, j := range rows {
		for b, l := range cols {
			if r == c && b < a {
				continue
			}
			lo, hi := min(j, l), max(j, l)
			h.SetSym(r+a, c+b, scale*g[lo*s.dx-lo*(lo-1)/2+hi-lo])
		}
	}
}

// relativeRidge keeps a Gram matrix of nearly collinear or nearly unused
// columns invertible; it slows a step there and never moves its fixed point.
const relativeRidge = 1e-10

// solveRidge returns h⁻¹·b with the ridge of factorize; nil if there is none.
func solveRidge(h *mat.SymDense, b []float64) []float64 {
	var chol mat.Cholesky
	if !factorize(&chol, h) {
		return nil
	}
	out := mat.NewVecDense(len(b), nil)
	if chol.SolveVecTo(out, mat.NewVecDense(len(b), b)) != nil {
		return nil
	}
	return out.RawVector().Data
}

// factorize factorises h with the least ridge, from relativeRidge of the mean
// diagonal up, that makes it positive definite; false if none does.
func factorize(chol *mat.Cholesky, h *mat.SymDense) bool {
	n := h.SymmetricDim()
	mean := mat.Trace(h) / float64(n)
	// Where g is saturated g′² may be so small that no ridge is smaller.
	if !(relativeRidge*mean > 0) || math.IsInf(mean, 0) {
		return false
	}
	was := 0.0
	for ridge := relativeRidge * mean; ridge < 1e3*mean; ridge *= 100 {
		for i := range n {
			h.SetSym(i, i, h.At(i, i)+ridge-was)
		}
		was = ridge
		if chol.Factorize(h) && chol.Cond() <= mat.ConditionTolerance {
			return true
		}
	}
	return false
}

// stepRegressor adds the weighted least squares step of expert i to a and
// lowers rss by what it gains (exactly where g is linear).
func (s *sums) stepRegressor(a []float64, i int) {
	h := mat.NewSymDense(s.da, nil)
	s.place(h, s.gram(i), 0, 0, s.experts, s.experts, 1)
	step := solveRidge(h, s.expert(i))
	if step == nil {
		return
	}
	floats.Add(a, step)
	s.rss[i] = max(0, s.rss[i]-floats.Dot(step, s.expert(i)))
}

// longestGateStep bounds one Newton step of the gating, in the norm of all its
// parameters: where classes separate the full step runs away.
const longestGateStep = 5

// gateCurvature is that of the weighted multinomial logistic regression of the
// gating, where it was taken.
type gateCurvature struct {
	at   []float64 // the gating there
	rows float64
	chol mat.Cholesky
}

// sameCurvature is how far a gate may be, in the rms over the rows and the
// gate's own probabilities of how much its logits differ, from where its
// curvature was taken to be used again. A logit that changes by t changes the
// weight p(1−p) by a factor of at most eᵗ, so that a Newton step with that
// curvature leaves about a quarter of the way, less than EM leaves itself where
// it crawls.
const sameCurvature = 0.25

// near says whether the curvature is good enough for a step from the gating w.
func (c *gateCurvature) near(w []float64) bool {
	if c == nil {
		return false
	}
	diff := mat.NewVecDense(len(w), nil)
	floats.SubTo(diff.RawVector().Data, w, c.at)
	diff.MulVec(c.chol.RawU(), diff)
	return mat.Dot(diff, diff) <= sameCurvature*sameCurvature*c.rows
}

// gateCurvature returns the curvature of the gating at w from the sums there, nil
// where it is none.
func (s *sums) gateCurvature(w []float64, rows float64) *gateCurvature {
	h := mat.NewSymDense(len(w), nil)
	at := s.k
	for j := range s.k - 1 {
		for m := j; m < s.k-1; m++ {
			s.place(h, s.gram(at), j*s.dw, m*s.dw, s.gates, s.gates, 1)
			at++
		}
	}
	c := &gateCurvature{at: append([]float64(nil), w...), rows: rows}
	if !factorize(&c.chol, h) {
		return nil
	}
	return c
}

// stepGating adds one Newton step of that regression to the gating, with the
// curvature there or nearby.
func (s *sums) stepGating(w []float64, c *gateCurvature) {
	if len(w) == 0 || c == nil {
		return
	}
	step := mat.NewVecDense(len(w), nil)
	if c.chol.SolveVecTo(step, mat.NewVecDense(len(w), s.score[s.k*s.da:])) != nil {
		return
	}
	d := step.RawVector().Data
	if norm := floats.Norm(d, 2); norm > longestGateStep {
		floats.Scale(longestGateStep/norm, d)
	}
	floats.Add(w, d)
}

// hessian assembles ∇²L over the free parameters.
func (l *Likelihood) hessian(h *mat.SymDense, s *sums) {
	if !h.IsEmpty() && h.SymmetricDim() != l.Dim() {
		panic("loss: hessian of the wrong size")
	}
	scale := 1 / l.n
	offA, offW, offS := -1, -1, -1
	n := 0
	if l.free.Regressors {
		offA, n = n, n+l.k*l.da
	}
	if l.free.Gating {
		offW, n = n, n+(l.k-1)*l.dw
	}
	if l.free.Sigma {
		offS = n
	}
	at := 0
	put := func(r, c int, rows, cols []int) {
		if r >= 0 && c >= 0 {
			s.place(h, s.gram(at), r, c, rows, cols, scale)
		}
		at++
	}
	off := func(base, i, d int) int {
		if base < 0 {
			return -1
		}
		return base + i*d
	}
	for i := range l.k {
		for j := i; j < l.k; j++ {
			put(off(offA, i, l.da), off(offA, j, l.da), l.expert, l.expert)
		}
		for j := range l.k - 1 {
			put(off(offA, i, l.da), off(offW, j, l.dw), l.expert, l.gate)
		}
	}
	for j := range l.k - 1 {
		for m := j; m < l.k-1; m++ {
			put(off(offW, j, l.dw), off(offW, m, l.dw), l.gate, l.gate)
		}
	}
	if offS < 0 {
		return
	}
	column := func(base, m int, v []float64) {
		if base < 0 {
			return
		}
		for t, x := range v {
			h.SetSym(base+t, offS+m, scale*x)
		}
	}
	for m := range l.ns {
		for i := range l.k {
			column(off(offA, i, l.da), m, s.sigmaExpert(m, i))
		}
		for j := range l.k - 1 {
			column(off(offW, j, l.dw), m, s.sigmaGate(m, j))
		}
		for i := m; i < l.ns; i++ {
			h.SetSym(offS+m, offS+i, scale*s.sigmaSigma[m*l.ns+i])
		}
	}
}
