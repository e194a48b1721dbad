package learn

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
)

// rows are the data in units of the fit: features with standard deviation 1.
type rows struct {
	n, d int
	x    []float64 // n×d, row-major
	y    []float64
}

// state is a mixture with one curve for all experts.
type state struct {
	k         int
	a         [][]float64 // regressors, in units of the fit
	b         []float64   // intercepts; nil for none
	w         [][]float64 // k−1 rows of d, or of d+1 with an intercept
	sigma     float64
	g         curve
	unit      bool      // all regressors have norm 1, not the first alone
	metric    []float64 // norms are Σ metric_j·a_j²
	intercept bool      // of the gate
	placed    bool      // where the index is 0 is a convention: the features are centred
	rising    bool      // g is held to rise

	loglik  float64
	settled bool // see climb
}

func (s *state) clone() *state {
	c := *s
	c.a, c.w = nil, nil
	for _, r := range s.a {
		c.a = append(c.a, slices.Clone(r))
	}
	for _, r := range s.w {
		c.w = append(c.w, slices.Clone(r))
	}
	c.b = slices.Clone(s.b)
	return &c
}

func (s *state) norm(a []float64) float64 {
	sum := 0.0
	for j, v := range a {
		sum += s.metric[j] * v * v
	}
	return math.Sqrt(sum)
}

func dot(a, b []float64) (sum float64) {
	for j, v := range a {
		sum += v * b[j]
	}
	return sum
}

// gateAt writes the log-probabilities of the experts at x.
func (s *state) gateAt(x, out []float64) {
	out[s.k-1] = 0
	for i, w := range s.w {
		out[i] = dot(w[:len(x)], x)
		if s.intercept {
			out[i] += w[len(x)]
		}
	}
	floats.AddConst(-floats.LogSumExp(out), out)
}

// view is what a state says of a row.
type view struct {
	prior, post   []float64   // probabilities of the experts, without and with y
	means, slopes []float64   // g and g′ at the experts' indices
	by            [][]float64 // derivatives of g there by the curve's parameters
}

func (s *state) newView() *view {
	v := &view{prior: make([]float64, s.k), post: make([]float64, s.k), means: make([]float64, s.k),
		slopes: make([]float64, s.k),
		by:     make([][]float64, s.k)}
	for i := range v.by {
		v.by[i] = make([]float64, s.g.size())
	}
	return v
}

// index is the argument of g for expert i at x.
func (s *state) index(i int, x []float64) float64 {
	z := dot(s.a[i], x)
	if s.b != nil {
		z += s.b[i]
	}
	return z
}

// look fills v with what s says of a row, priors and posteriors as probabilities, and returns the row's
// log-likelihood.
func (s *state) look(x []float64, y float64, v *view) float64 {
	s.gateAt(x, v.prior)
	for i := range s.k {
		v.means[i], v.slopes[i] = s.g.at(s.index(i, x), v.by[i])
		e := (y - v.means[i]) / s.sigma
		v.post[i] = v.prior[i] - e*e/2
		v.prior[i] = math.Exp(v.prior[i])
	}
	return mixture.SharePosterior(v.post) - math.Log(s.sigma) - math.Log(2*math.Pi)/2
}

// feature is x_j, or 1 behind the last.
func feature(x []float64, j int) float64 {
	if j == len(x) {
		return 1
	}
	return x[j]
}

// sums are what a step needs of the rows.
type sums struct {
	loglik   float64
	h        *mat.SymDense // of regressors, intercepts and curve: Σ r·JᵀJ
	grad     []float64     // Σ r·e·J
	hg       *mat.SymDense // of the gate
	gg       []float64
	sse      float64
	expected []float64 // Σ r, by expert
}

// per is how many parameters an expert has: the d regressors and, where there is one, the intercept. The curve's
// stand behind those of all experts.
func (s *state) per(d int) int {
	if s.b != nil {
		return d + 1
	}
	return d
}

func (s *state) pass(r *rows) *sums {
	k, d, per, m := s.k, r.d, s.per(r.d), s.g.size()
	p := k*per + m
	gd := d
	if s.intercept {
		gd++
	}
	q := (k - 1) * gd
	out := &sums{grad: make([]float64, p), gg: make([]float64, q), expected: make([]float64, k)}
	h, hg := make([]float64, p*p), make([]float64, max(q*q, 1))
	v := s.newView()
	jac, at := make([]float64, per+m), make([]int, per+m)
	for t := range r.n {
		x, y := r.x[t*d:(t+1)*d], r.y[t]
		out.loglik += s.look(x, y, v)
		prior, post := v.prior, v.post
		for i := range k {
			weight, e := post[i], y-v.means[i]
			out.expected[i] += weight
			out.sse += weight * e * e
			if weight < 1e-12 {
				continue
			}
			for j := range per {
				jac[j], at[j] = v.slopes[i]*feature(x, j), i*per+j
			}
			for j := range m {
				jac[per+j], at[per+j] = v.by[i][j], k*per+j
			}
			for j, v := range jac {
				if v == 0 {
					continue
				}
				v *= weight
				out.grad[at[j]] += v * e
				row := h[at[j]*p:]
				for l := j; l < len(jac); l++ {
					row[at[l]] += v * jac[l]
				}
			}
		}
		for i := range k - 1 {
			for j := range gd {
				v := feature(x, j)
				out.gg[i*gd+j] += (post[i] - prior[i]) * v
				for l := i; l < k-1; l++ {
					c := -prior[i] * prior[l]
					if i == l {
						c += prior[i]
					}
					for u := range gd {
						hg[(i*gd+j)*q+l*gd+u] += c * v * feature(x, u)
					}
				}
			}
		}
	}
	out.h = mat.NewSymDense(p, h)
	if q > 0 {
		out.hg = mat.NewSymDense(q, hg)
	}
	return out
}

// tangent returns the directions in which regressors, intercepts and curve may go: a basis of those that
// leave the norms that are held, the mean of the intercepts over the experts' shares, and the curve's parameters
// that are held.
func (s *state) tangent(d int, shares []float64, held []bool) *mat.Dense {
	per, m := s.per(d), s.g.size()
	p := s.k*per + m
	total := 0.0
	for _, v := range shares {
		total += v
	}
	var columns [][]float64
	for i := range s.k {
		skip := -1
		if i == 0 || s.unit { // the largest entry follows from the others
			for j, v := range s.a[i] {
				if skip < 0 || math.Abs(s.metric[j]*v) > math.Abs(s.metric[skip]*s.a[i][skip]) {
					skip = j
				}
			}
		}
		for j := range per {
			if j == skip || i == 0 && j == d {
				continue
			}
			c := make([]float64, p)
			c[i*per+j] = 1
			switch {
			case j == d:
				for l := range s.k {
					c[l*per+d] -= shares[i] / total
				}
			case skip >= 0:
				c[i*per+skip] = -s.metric[j] * s.a[i][j] / (s.metric[skip] * s.a[i][skip])
			}
			columns = append(columns, c)
		}
	}
	for j := range m {
		if held != nil && held[j] {
			continue
		}
		c := make([]float64, p)
		c[s.k*per+j] = 1
		columns = append(columns, c)
	}
	out := mat.NewDense(p, len(columns), nil)
	for c, column := range columns {
		out.SetCol(c, column)
	}
	return out
}

// step returns s after a damped step of regressors and curve, of the gate and of the noise.
func (s *state) step(r *rows, now *sums, damping float64) *state {
	d, per := r.d, s.per(r.d)
	t := s.tangent(d, now.expected, s.g.held(now.grad[s.k*per:]))
	_, f := t.Dims()
	var ht, tht mat.Dense
	ht.Mul(now.h, t)
	tht.Mul(t.T(), &ht)
	system := mat.NewSymDense(f, nil)
	for i := range f {
		for j := i; j < f; j++ {
			system.SetSym(i, j, tht.At(i, j))
		}
		system.SetSym(i, i, tht.At(i, i)*(1+damping)+1e-10*float64(r.n)*1e-3)
	}
	var rhs, move, full mat.VecDense
	rhs.MulVec(t.T(), mat.NewVecDense(len(now.grad), now.grad))
	if err := move.SolveVec(system, &rhs); err != nil && move.Len() == 0 {
		return nil
	}
	full.MulVec(t, &move)
	delta := full.RawVector().Data
	out := s.clone()
	for i := range s.k {
		for j := range d {
			out.a[i][j] += delta[i*per+j]
		}
		if s.b != nil {
			out.b[i] += delta[i*per+d]
		}
		if i == 0 || s.unit {
			norm := out.norm(out.a[i])
			for j := range d {
				out.a[i][j] /= norm
			}
		}
	}
	out.g = s.g.moved(delta[s.k*per:])
	if now.hg != nil {
		q, _ := now.hg.Dims()
		system := mat.NewSymDense(q, nil)
		system.CopySym(now.hg)
		for i := range q {
			system.SetSym(i, i, now.hg.At(i, i)*(1+damping)+1e-6*float64(r.n)*1e-3+1e-3)
		}
		var move mat.VecDense
		if err := move.SolveVec(system, mat.NewVecDense(q, now.gg)); err == nil {
			gd := q / (s.k - 1)
			for i := range out.w {
				for j := range out.w[i] {
					out.w[i][j] += move.AtVec(i*gd + j)
				}
			}
		}
	}
	out.sigma = math.Sqrt(now.sse / float64(r.n))
	return out
}

// climb goes up the likelihood by steps that are damped where it falls, and has what it ends at settled where it rises
// no more.
func (s *state) climb(ctx context.Context, r *rows, iterations int, tolerance float64) (*state, error) {
	now := s.pass(r)
	s.loglik = now.loglik
	damping := 1e-4
	small := 0
	s.settled = false
	for range iterations {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		next := s.step(r, now, damping)
		var after *sums
		if next != nil {
			after = next.pass(r)
			next.loglik = after.loglik
		}
		if next == nil || !(after.loglik >= s.loglik) {
			if damping *= 10; damping > 1e6 {
				s.settled = true
				break
			}
			continue
		}
		gain := after.loglik - s.loglik
		s, now, damping = next, after, max(damping/10, 1e-8)
		if small++; gain > tolerance {
			small = 0
		}
		if small == 3 {
			s.settled = true
			break
		}
	}
	return s, nil
}
