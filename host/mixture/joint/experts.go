package joint

import (
	"math"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Experts are the densities of K experts in a block of rows, with z_ia the expert's linear predictors. Values are K·M
// rows of N, expert by expert. It is not safe for concurrent use.
type Experts interface {
	mixture.Complete // after Slope

	// Under takes the noises of a pass, one of all experts or K.
	Under([]Noise)
	// Observe takes the targets, M columns, and the means, in the place of which it leaves the residuals, and makes the
	// posterior.
	Observe(y, mean []float64)
	// Slope takes g′.
	Slope(slopes []float64)
	// LinearScores are ∂log f_i/∂z_ia, after Slope.
	LinearScores() []float64
	// Standard returns numbers that are N(0,1) where a row is expert i's: e_ic = (U(y−μ_i))_c/s_c of normal noise,
	// which are independent, of other noise the quantile residual Φ⁻¹(F(y_c)) of the marginal law.
	Standard(i, c int) []float64
	// Curvature writes r_i·E[−∂²log f_i/∂z_ia∂z_ib], but for [Noise].Weight, which is the same in all rows.
	Curvature(dst []float64, i, a, b int)
	// Pull writes what with those weights is r_i·∂log f_i/∂z_ia in sum over b, and says whether it is not 0.
	Pull(dst []float64, i, a, b int) bool
}

// NewExperts returns those of a posterior of experts with m targets and so many parameters of their noise each.
func NewExperts(r *mixture.Posterior, family string, m, own int) Experts {
	const n = model.BlockRows
	values := func(rows int) []float64 { return make([]float64, r.K*rows*n) }
	of := experts{Posterior: r, m: m, own: own, score: values(m), more: make([]float64, n)}
	if family == "" {
		return &normal{experts: of, std: values(m), pull: values(m)}
	}
	g := &general{experts: of, mean: values(m), std: make([]float64, n), at: NewTerms(m, own),
		y: make([]float64, m), means: make([]float64, m)}
	for i, part := range g.at.parts() {
		g.terms[i] = values(len(part))
	}
	return g
}

// experts is what they have in common.
type experts struct {
	*mixture.Posterior
	m, own int
	slopes []float64
	score  []float64 // ∂log f_i/∂z_ia
	more   []float64 // room for N values
}

func (w *experts) row(v []float64, at int) []float64 { return v[at*w.N : (at+1)*w.N] }

// LinearScores implements [Experts].
func (w *experts) LinearScores() []float64 { return w.score }

// residuals makes them of means.
func (w *experts) residuals(y, mean []float64) {
	for at := range w.K * w.m {
		t, c := w.row(mean, at), at%w.m
		kernel.Sub(t, w.row(y, c), t)
	}
}

// bend takes r_i·score·g″ off dst.
func (w *experts) bend(dst []float64, i int, bend, score []float64) {
	for t, r := range w.PostOf(i) {
		dst[t] -= r * bend[t] * score[t]
	}
}

// general are experts of any density.
type general struct {
	experts
	noises   []Noise
	y        []float64 // of a row
	means    []float64 // likewise
	targets  []float64 // of the block
	mean     []float64 // K·M rows
	std      []float64 // N values
	at       *Terms
	terms    [6][]float64 // of every expert the parts of [Terms], a row of N values each
	marginal []func(y, mean float64) float64
}

// Under implements [Experts].
func (w *general) Under(noises []Noise) {
	w.noises, w.marginal = noises, w.marginal[:0]
	for _, n := range noises {
		for c := range w.m {
			family, psi := n.Marginal(c)
			d := mixture.DensityOf(family)
			w.marginal = append(w.marginal, func(y, mean float64) float64 { return standard(d, y, mean, psi) })
		}
	}
}

// level is the noise of expert i.
func (w *general) level(i int) int { return min(i, len(w.noises)-1) }

// take puts targets and means of expert i in row t to their places.
func (w *general) take(i, t int) {
	for c := range w.m {
		w.y[c], w.means[c] = w.targets[c*w.N+t], w.mean[(i*w.m+c)*w.N+t]
	}
}

// Observe implements [Experts].
func (w *general) Observe(y, mean []float64) {
	w.targets = y
	copy(w.mean, mean)
	w.residuals(y, mean)
	for i := range w.K {
		law, dst, scores := w.noises[w.level(i)].Law, w.PostOf(i), w.row(w.Scores, i)
		for t := range dst {
			w.take(i, t)
			dst[t] = scores[t] + (law.LogDensity(w.y, w.means) + logNorm) // which the sum over rows takes off
		}
	}
	w.Infer(func(i, t int) (most float64) {
		for c, s := range w.noises[w.level(i)].Scale {
			most = max(most, math.Abs(w.row(mean, i*w.m+c)[t])/s)
		}
		return most
	})
}

// The places of the parts of [Terms].
const (
	ofScore = iota
	ofInformation
	ofExpected
	ofOwnScore
	ofOwnInformation
	ofCross
)

// part returns place at of a part of expert i's terms.
func (w *general) part(of, i, at int) []float64 {
	return w.row(w.terms[of], i*len(w.at.parts()[of])+at)
}

// Slope implements [Experts].
func (w *general) Slope(slopes []float64) {
	w.slopes = slopes
	parts := w.at.parts()
	for i := range w.K {
		law := w.noises[w.level(i)].Law
		for t := range w.N {
			w.take(i, t)
			for _, v := range parts {
				clear(v)
			}
			law.Derive(w.at, w.y, w.means)
			for of, v := range parts {
				for at, x := range v {
					w.terms[of][(i*len(v)+at)*w.N+t] = x
				}
			}
		}
		for a := range w.m {
			kernel.Mul(w.row(w.score, i*w.m+a), w.part(ofScore, i, a), w.row(slopes, i*w.m+a))
		}
	}
}

// Standard implements [Experts].
func (w *general) Standard(i, c int) []float64 {
	dst, mean, of := w.std[:w.N], w.row(w.mean, i*w.m+c), w.marginal[w.level(i)*w.m+c]
	for t, y := range w.row(w.targets, c) {
		dst[t] = of(y, mean[t])
	}
	return dst
}

// weigh writes r_i·g′_a·g′_b·v.
func (w *general) weigh(dst []float64, i, a, b int, v []float64) {
	ga, gb := w.row(w.slopes, i*w.m+a), w.row(w.slopes, i*w.m+b)
	for t, r := range w.PostOf(i) {
		dst[t] = r * v[t] * ga[t] * gb[t]
	}
}

// Curvature implements [Experts].
func (w *general) Curvature(dst []float64, i, a, b int) {
	w.weigh(dst, i, a, b, w.part(ofExpected, i, mixture.OwnAt(a, b)))
}

// Pull implements [Experts].
func (w *general) Pull(dst []float64, i, a, b int) bool {
	if a != b {
		return false
	}
	kernel.Mul(dst, w.PostOf(i), w.row(w.score, i*w.m+a))
	return true
}

// Predictors implements [mixture.Complete].
func (w *general) Predictors(dst []float64, i, a, b int) {
	w.weigh(dst, i, a, b, w.part(ofInformation, i, mixture.OwnAt(a, b)))
}

// Bend implements [mixture.Complete].
func (w *general) Bend(dst []float64, i, a int, bend []float64) {
	w.bend(dst, i, bend, w.part(ofScore, i, a))
}

// Cross implements [mixture.Complete].
func (w *general) Cross(dst []float64, i, a, l int) {
	r, score, dg := w.PostOf(i), w.row(w.score, i*w.m+a), w.row(w.slopes, i*w.m+a)
	for t, v := range w.part(ofCross, i, a*w.own+l) {
		dst[t] = r[t] * (v*dg[t] - score[t]*dst[t])
	}
}

// OwnScore implements [mixture.Complete].
func (w *general) OwnScore(dst []float64, i, l int) { copy(dst, w.part(ofOwnScore, i, l)) }

// Own implements [mixture.Complete].
func (w *general) Own(dst []float64, i, l, n int) {
	copy(dst, w.part(ofOwnInformation, i, mixture.OwnAt(l, n)))
}
