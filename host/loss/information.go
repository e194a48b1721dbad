package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Information writes the observed information at p to h and the score to
// score: minus the second and the first derivatives of the log-likelihood
// Σ_rows log p(y|x) by θ,
//
//	h = −∂²/∂θ∂θᵀ Σ_rows log p(y|x),   score = ∂/∂θ Σ_rows log p(y|x)
//
// Unlike [Likelihood.Hessian] it has the terms in g″, −r_i·e_i·g″_i/σ_i in the
// notation of [mixture.Posterior], with g″ from central differences of g′. kinks are
// those of g, ascending; differences do not reach across them, and where g is
// piecewise linear there is no g″. The information is that of a point at which
// no row sits on a kink. A noise level at its floor has a score as any other.
func (l *Likelihood) Information(ctx context.Context, h *mat.SymDense, score []float64, p *model.Params,
	kinks []float64) error {
	l.kinks = kinks
	s, err := l.at(ctx, l.Theta(p), ofGradient|ofInformation|withBend)
	if err != nil {
		return err
	}
	l.pass.writeScore(score, -1/l.n, s, l.cur)
	floats.Scale(-l.n, score)
	s.information.write(h, 1/l.n)
	l.missing(h, 1/l.n)
	h.ScaleSym(l.n, h)
	return nil
}

// ScoreProducts writes Σ_rows s·sᵀ at p to m, with s = ∂/∂θ log p(y|x) the
// score of a row, times its weight where it has one: the middle of the sandwich
// covariance. A row is one observation, however much it weighs; of rows in groups a group is one.
func (l *Likelihood) ScoreProducts(ctx context.Context, m *mat.SymDense, p *model.Params) error {
	if l.groups != nil {
		_, err := l.productsBy(ctx, m, p, model.Groups)
		return err
	}
	s, err := l.at(ctx, l.Theta(p), ofProducts)
	if err != nil {
		return err
	}
	s.products.write(m)
	return nil
}

// ClusterProducts writes to m what takes the place of [Likelihood.ScoreProducts] where rows are independent of those of
// other clusters alone, and returns the number of clusters G, at least 2:
//
//	M = G/(G−1)·Σ_g S_g·S_gᵀ,   S_g = Σ_{rows t of g} s_t
//
// with s_t the score of row t, times its weight (Liang & Zeger 1986). With the factor it is CR1 of linear models
// (Bell & McCaffrey 2002), and with one row a cluster Σ_t s_t·s_tᵀ but for it. Rows of a cluster need not stand beside
// each other. It panics where the rows have no column of clusters.
func (l *Likelihood) ClusterProducts(ctx context.Context, m *mat.SymDense, p *model.Params) (clusters int, err error) {
	if clusters, err = l.productsBy(ctx, m, p, model.Clusters); err == nil {
		m.ScaleSym(float64(clusters)/float64(clusters-1), m)
	}
	return clusters, err
}

// productsBy writes Σ_g S_g·S_gᵀ to m, S_g the sum of the scores of the rows with one value in the column of a role,
// and returns how many values there are.
func (l *Likelihood) productsBy(ctx context.Context, m *mat.SymDense, p *model.Params,
	role model.Role) (count int, err error) {
	n := len(l.parameters)
	places := make(map[float64]int) // of the values, as they come
	var sums []float64              // their scores, rows of n
	if err := l.eachScore(ctx, p, func(scores [][]float64, b *model.Block) {
		if b.Role[role] == nil {
			panic("loss: rows without a column of clusters")
		}
		for t, id := range b.Role[role] {
			g, known := places[id]
			if !known {
				g = len(places)
				places[id], sums = g, append(sums, make([]float64, n)...)
			}
			for i, s := range scores {
				sums[g*n+i] += s[t]
			}
		}
	}); err != nil {
		return 0, err
	}
	m.SymOuterK(1, mat.NewDense(len(places), n, sums).T())
	return len(places), nil
}

// LongRunProducts writes to m what takes the place of [Likelihood.ScoreProducts] where the
// rows follow each other in time: with s_t the score of row t, times its weight, and
// W_t = s_t + … + s_{t−b+1},
//
//	M = (1/b)·Σ_t U_t·U_tᵀ,   U_t = (I + H_t·V)·W_t,   H_t = s_t·s_tᵀ/w_t + … + s_{t−b+1}·s_{t−b+1}ᵀ/w_{t−b+1}
//
// with w_t the weights, over all windows of b rows, at least 1, that have a row. With V = 0, as with a nil inverse,
// that is Σ_{|l|<b} (1 − |l|/b)·Γ_l, Γ_l = Σ_t s_t·s_{t−l}ᵀ: the Bartlett kernel of bandwidth b (Newey & West
// 1987), with b = 1 Σ_t s_t·s_tᵀ. With V the inverse of the information V·U_t is, to first order in
// the window's share of the information, by how much the maximum moves when the window is left out,
// (H − H_t)⁻¹·W_t, as in a jackknife by blocks (Künsch 1989): scores at the maximum are smaller than
// those at the truth, most where a window says much of a parameter. M is never indefinite.
func (l *Likelihood) LongRunProducts(ctx context.Context, m *mat.SymDense, p *model.Params, inverse *mat.SymDense,
	bandwidth int) error {
	if bandwidth < 1 {
		panic("loss: bandwidth below 1")
	}
	out := newProductSums(l.layout)
	w := newWindow(len(l.parameters), bandwidth, inverse)
	if err := l.eachScore(ctx, p, func(scores [][]float64, b *model.Block) {
		sums := w.slide(scores, b.Role[model.Weights])
		kernel.AddGram(out.packed, sums, sums)
	}); err != nil {
		return err
	}
	none := numeric.Columns(len(l.parameters), model.BlockRows)
	for left := bandwidth - 1; left > 0; left -= model.BlockRows { // the windows that end behind the rows
		sums := w.slide(firstOf(none, min(left, model.BlockRows)), nil)
		kernel.AddGram(out.packed, sums, sums)
	}
	floats.Scale(1/float64(bandwidth), out.packed)
	out.write(m)
	return nil
}

// window is the last rows' scores, as [Likelihood.LongRunProducts] takes them.
type window struct {
	past     *mat.Dense    // the rows of scores, in a ring
	weights  []float64     // of them
	at       int           // the oldest of them
	sum      *mat.VecDense // W
	products *mat.SymDense // H_t; nil where there is no inverse
	inverse  *mat.SymDense // V
	step     *mat.VecDense // V·W
	more     *mat.VecDense // H_t·V·W
	columns  [][]float64   // U of the rows of a block
}

func newWindow(n, bandwidth int, inverse *mat.SymDense) *window {
	w := &window{
		past: mat.NewDense(bandwidth, n, nil), weights: make([]float64, bandwidth), sum: mat.NewVecDense(n, nil),
		inverse: inverse,
		step:    mat.NewVecDense(n, nil), more: mat.NewVecDense(n, nil), columns: numeric.Columns(n, model.BlockRows),
	}
	if inverse != nil {
		w.products = mat.NewSymDense(n, nil)
	}
	return w
}

// slide goes on by the rows of a block, of which it is given the scores and the weights, nil where
// all are 1, and returns U for each, a column for every parameter, valid until the next call.
func (w *window) slide(scores [][]float64, weights []float64) [][]float64 {
	out := firstOf(w.columns, len(scores[0]))
	sum := w.sum.RawVector().Data
	for t := range scores[0] {
		weight := 1.0
		if weights != nil {
			weight = weights[t]
		}
		w.replace(scores, t, weight)
		if w.products != nil {
			w.step.MulVec(w.inverse, w.sum)
			w.more.MulVec(w.products, w.step)
		}
		for i, s := range sum {
			out[i][t] = s + w.more.AtVec(i)
		}
	}
	return out
}

// replace puts row t of the scores in the place of the oldest.
func (w *window) replace(scores [][]float64, t int, weight float64) {
	row, sum := w.past.RawRowView(w.at), w.sum.RawVector().Data
	w.count(-1, w.weights[w.at], row)
	for i, s := range row {
		row[i] = scores[i][t]
		sum[i] += row[i] - s
	}
	w.weights[w.at] = weight
	w.count(1, weight, row)
	if w.at++; w.at == len(w.weights) {
		w.at = 0
	}
}

// count adds the products of a row's scores, or takes them off.
func (w *window) count(sign, weight float64, row []float64) {
	if w.products != nil && weight > 0 {
		w.products.SymRankOne(w.products, sign/weight, mat.NewVecDense(len(row), row))
	}
}

// firstOf are the first so many values of every column.
func firstOf(columns [][]float64, rows int) [][]float64 {
	out := make([][]float64, len(columns))
	for i, c := range columns {
		out[i] = c[:rows]
	}
	return out
}

// mostCorrelation bounds the autocorrelations from which a bandwidth is told.
const mostCorrelation = 0.97

// Bandwidth returns that of the Bartlett kernel at which the long-run covariance of [Likelihood.LongRunProducts],
// without an inverse, has the least mean squared error where every parameter's scores are an autoregression
// of order 1 (Andrews 1991, Eq. 6.2 and 6.4):
//
//	b = 1.1447·(α·n)^(1/3),   α = Σ_i 4ρ_i²/((1−ρ_i)⁶(1+ρ_i)²) / Σ_i 1/(1−ρ_i)⁴
//
// with ρ_i the scores' first autocorrelation at p, at most 0.97 in size. His weights
// of the parameters are here the inverse squares of the innovations' variances, so that
// units do not matter. It is rounded up, and between 1 and the number of rows.
func (l *Likelihood) Bandwidth(ctx context.Context, p *model.Params) (int, error) {
	n := len(l.parameters)
	squares, products, last := make([]float64, n), make([]float64, n), make([]float64, n)
	rows := 0
	err := l.eachScore(ctx, p, func(scores [][]float64, _ *model.Block) {
		for i, s := range scores {
			squares[i] += kernel.Dot(s, s)
			products[i] += last[i]*s[0] + kernel.Dot(s[1:], s[:len(s)-1])
			last[i] = s[len(s)-1]
		}
		rows += len(scores[0])
	})
	if err != nil {
		return 0, err
	}
	above, below := 0.0, 0.0
	for i := range n {
		if squares[i] == 0 {
			continue
		}
		r := max(-mostCorrelation, min(products[i]/squares[i], mostCorrelation))
		above += 4 * r * r / (math.Pow(1-r, 6) * (1 + r) * (1 + r))
		below += math.Pow(1-r, -4)
	}
	if below == 0 {
		return 1, nil
	}
	b := 1.1447 * math.Cbrt(above/below*float64(rows))
	return min(max(int(math.Ceil(b)), 1), rows), nil
}

// eachScore calls fn with the scores of every block's rows at p, in order: N values for
// every parameter, times the rows' weights, valid until fn returns; and with the block.
func (l *Likelihood) eachScore(ctx context.Context, p *model.Params,
	fn func(scores [][]float64, b *model.Block)) error {
	if l.unread != nil {
		return l.unread
	}
	l.unpack(l.here, l.Theta(p))
	if l.groups != nil {
		if err := l.takeGroups(ctx, l.cur); err != nil {
			return err
		}
	}
	w, block := l.newWork(), 0
	return model.InOrder(ctx, l.rows, func(b *model.Block) error {
		if err := l.observe(ctx, w, l.cur, block, b); err != nil {
			return err
		}
		block++
		if err := l.slopes(ctx, w, l.cur, b, ofProducts); err != nil {
			return err
		}
		fn(w.scoresOf(l.layout), b)
		return nil
	})
}
