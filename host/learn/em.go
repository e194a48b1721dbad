package learn

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
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

	loglik float64
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
	top := 0.0
	out[s.k-1] = 0
	for i, w := range s.w {
		out[i] = dot(w[:len(x)], x)
		if s.intercept {
			out[i] += w[len(x)]
		}
		top = max(top, out[i])
	}
	sum := 0.0
	for _, v := range out {
		sum += math.Exp(v - top)
	}
	for i := range out {
		out[i] -= top + math.Log(sum)
	}
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
	out := &sums{grad: make([]float64, p), gg: make([]float64, max(q, 1)), expected: make([]float64, k)}
	h, hg := make([]float64, p*p), make([]float64, max(q*q, 1))
	prior, post := make([]float64, k), make([]float64, k)
	means, slopes := make([]float64, k), make([]float64, k)
	by := make([][]float64, k)
	for i := range by {
		by[i] = make([]float64, m)
	}
	jac, at := make([]float64, per+m), make([]int, per+m)
	feature := func(x []float64, j int) float64 {
		if j == d {
			return 1
		}
		return x[j]
	}
	for t := range r.n {
		x, y := r.x[t*d:(t+1)*d], r.y[t]
		s.gateAt(x, prior)
		top := math.Inf(-1)
		for i := range k {
			z := dot(s.a[i], x)
			if s.b != nil {
				z += s.b[i]
			}
			means[i], slopes[i] = s.g.at(z, by[i])
			e := (y - means[i]) / s.sigma
			post[i] = prior[i] - e*e/2
			top = max(top, post[i])
		}
		sum := 0.0
		for _, v := range post {
			sum += math.Exp(v - top)
		}
		out.loglik += top + math.Log(sum) - math.Log(s.sigma) - math.Log(2*math.Pi)/2
		for i := range k {
			post[i] = math.Exp(post[i]-top) / sum
			prior[i] = math.Exp(prior[i])
			weight, e := post[i], y-means[i]
			out.expected[i] += weight
			out.sse += weight * e * e
			if weight < 1e-12 {
				continue
			}
			for j := range per {
				jac[j], at[j] = slopes[i]*feature(x, j), i*per+j
			}
			for j := range m {
				jac[per+j], at[per+j] = by[i][j], k*per+j
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
// leave the norms that are held.
func (s *state) tangent(d int) *mat.Dense {
	per, m := s.per(d), s.g.size()
	p := s.k*per + m
	var columns [][]float64
	for i := range s.k {
		held := i == 0 || s.unit
		skip := -1
		if held { // the largest entry follows from the others
			for j, v := range s.a[i] {
				if skip < 0 || math.Abs(s.metric[j]*v) > math.Abs(s.metric[skip]*s.a[i][skip]) {
					skip = j
				}
			}
		}
		for j := range per {
			if j == skip || i == 0 && j == d { // of intercepts the first: their mean is the curve's
				continue
			}
			c := make([]float64, p)
			c[i*per+j] = 1
			if skip >= 0 && j < d {
				c[i*per+skip] = -s.metric[j] * s.a[i][j] / (s.metric[skip] * s.a[i][skip])
			}
			columns = append(columns, c)
		}
	}
	for j := range m {
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
	t := s.tangent(d)
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

// climb goes up the likelihood by steps that are damped where it falls.
func (s *state) climb(ctx context.Context, r *rows, iterations int, tolerance float64) (*state, error) {
	now := s.pass(r)
	s.loglik = now.loglik
	damping := 1e-4
	small := 0
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
			break
		}
	}
	return s, nil
}
