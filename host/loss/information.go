package loss

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Part is the part of a mixture that a parameter belongs to.
type Part int

// The parts, in the order in which θ lists them.
const (
	Expert Part = iota // a_i and b_i
	Gate               // w_i and v_i
	Noise              // log σ_i
)

// Parameter says which free parameter a place of θ holds.
type Parameter struct {
	Part    Part
	Index   int // of the expert, the gate or the noise level
	Feature int // the coefficient's; D for an intercept, −1 for a noise level
}

// Parameters lists the free parameters in the order of θ.
func (l *Likelihood) Parameters() []Parameter {
	var out []Parameter
	list := func(part Part, n int, columns []int) {
		for i := range n {
			for _, j := range columns {
				out = append(out, Parameter{part, i, j})
			}
		}
	}
	if l.free.Regressors {
		list(Expert, l.k, l.expert)
	}
	if l.free.Gating {
		list(Gate, l.k-1, l.gate)
	}
	if l.free.Sigma {
		list(Noise, l.ns, []int{-1})
	}
	return out
}

// Information writes the observed information at p to h and the score to
// score: minus the second and the first derivatives of the log-likelihood
// Σ_rows log p(y|x) by θ,
//
//	h = −∂²/∂θ∂θᵀ Σ_rows log p(y|x),   score = ∂/∂θ Σ_rows log p(y|x)
//
// Unlike [Likelihood.Hessian] it has the terms in g″, −r_i·e_i·g″_i/σ_i in the
// notation of addHessian, with g″ from central differences of g′. kinks are
// those of g, ascending; differences do not reach across them, and where g is
// piecewise linear there is no g″. The information is that of a point at which
// no row sits on a kink. A noise level at its floor has a score as any other.
func (l *Likelihood) Information(ctx context.Context, h *mat.SymDense, score []float64, p *model.Params, kinks []float64) error {
	l.Unpack(l.cur, l.Theta(p))
	l.kinks = kinks
	s, err := l.pass(ctx, l.cur, wantInformation)
	if err != nil {
		return err
	}
	free := make([]float64, l.Dim())
	for i := range free {
		free[i] = math.Inf(1) // off the floor
	}
	l.gradient(score, s, free)
	floats.Scale(-l.n, score)
	l.hessian(h, s)
	h.ScaleSym(l.n, h)
	return nil
}

// ScoreProducts writes Σ_rows s·sᵀ at p to m, with s = ∂/∂θ log p(y|x) the
// score of a row, times its weight where it has one: the middle of the sandwich
// covariance. A row is one observation, however much it weighs.
func (l *Likelihood) ScoreProducts(ctx context.Context, m *mat.SymDense, p *model.Params) error {
	l.Unpack(l.cur, l.Theta(p))
	s, err := l.pass(ctx, l.cur, wantScores)
	if err != nil {
		return err
	}
	at := 0
	for i := range l.Dim() {
		for j := i; j < l.Dim(); j++ {
			m.SetSym(i, j, s.grams[at])
			at++
		}
	}
	return nil
}

// curvature writes g″ at the predictors w.z to w.second.
func (l *Likelihood) curvature(ctx context.Context, w *scratch, kn int) error {
	if w.second == nil {
		w.second, w.ahead = make([]float64, len(w.z)), make([]float64, len(w.z))
	}
	// Twice the cube root of the precision: truncation and rounding are about
	// equal, 1e−10 of g's scale.
	step := func(z float64) float64 { return 1e-5 * max(1, math.Abs(z)) }
	second, ahead := w.second[:kn], w.ahead[:kn]
	for t, z := range w.z[:kn] {
		h := step(z)
		z = offKinks(z, h, l.kinks)
		second[t], ahead[t] = z-h, z+h
	}
	if err := l.act.Deriv(ctx, second, second); err != nil {
		return err
	}
	if err := l.act.Deriv(ctx, ahead, ahead); err != nil {
		return err
	}
	for t, z := range w.z[:kn] {
		second[t] = (ahead[t] - second[t]) / (2 * step(z))
	}
	return nil
}

// offKinks moves z away from the nearest kink until z ± h lie on the side of it
// that z is on.
func offKinks(z, h float64, kinks []float64) float64 {
	if len(kinks) == 0 {
		return z
	}
	i, _ := slices.BinarySearch(kinks, z) // kinks[i−1] < z ≤ kinks[i]
	if i < len(kinks) && kinks[i]-z <= h {
		return z - 2*h
	}
	if i > 0 && z-kinks[i-1] <= h {
		return z + 2*h
	}
	return z
}

// addScores adds the products of all pairs of scores, the upper triangle in
// rows.
func (l *Likelihood) addScores(w *scratch, s *sums, p *model.Params, n int) {
	rows := l.rowScores(w, p, n)
	at := 0
	for i, a := range rows {
		for _, b := range rows[i:] {
			s.grams[at] += floats.Dot(a, b)
			at++
		}
	}
}

// rowScores returns the scores of the n rows of a block: for every free
// parameter, n values.
func (l *Likelihood) rowScores(w *scratch, p *model.Params, n int) [][]float64 {
	if w.scores == nil {
		w.scores = make([][]float64, l.Dim())
		for i := range w.scores {
			w.scores[i] = make([]float64, model.BlockRows)
		}
	}
	for at, q := range l.Parameters() {
		dst := w.scores[at][:n]
		switch q.Part {
		case Expert:
			w.MeanScore(dst, q.Index)
			inv, dg := 1/p.SigmaOf(q.Index), w.dg[q.Index*n:(q.Index+1)*n]
			for t, x := range w.cols[q.Feature] {
				dst[t] = dst[t] * dg[t] * inv * x
			}
		case Gate:
			w.GateScore(dst, q.Index)
			floats.Mul(dst, w.cols[q.Feature])
		case Noise:
			w.NoiseScore(dst, q.Index)
		}
		w.weigh(dst)
	}
	out := make([][]float64, len(w.scores))
	for i, v := range w.scores {
		out[i] = v[:n]
	}
	return out
}
