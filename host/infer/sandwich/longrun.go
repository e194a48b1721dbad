package sandwich

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// LongRun writes to m the middle of the sandwich where the rows follow each other in time: with s_t the score of row t
// at p, times its weight, and W_t = s_t + … + s_{t−b+1},
//
//	M = (1/b)·Σ_t U_t·U_tᵀ,   U_t = (I + H_t·V)·W_t,   H_t = s_t·s_tᵀ/w_t + … + s_{t−b+1}·s_{t−b+1}ᵀ/w_{t−b+1}
//
// with w_t the weights, over all windows of b rows, at least 1, that have a row. With V = 0, as with a nil inverse,
// that is Σ_{|l|<b} (1 − |l|/b)·Γ_l, Γ_l = Σ_t s_t·s_{t−l}ᵀ: the Bartlett kernel of bandwidth b (Newey & West
// 1987), with b = 1 Σ_t s_t·s_tᵀ. With V the inverse of the information V·U_t is, to first order in
// the window's share of the information, by how much the maximum moves when the window is left out,
// (H − H_t)⁻¹·W_t, as in a jackknife by blocks (Künsch 1989): scores at the maximum are smaller than
// those at the truth, most where a window says much of a parameter. M is never indefinite.
func LongRun[P any](ctx context.Context, m *mat.SymDense, l Scores[P], p P, inverse *mat.SymDense,
	bandwidth int) error {
	if bandwidth < 1 {
		panic("sandwich: bandwidth below 1")
	}
	n := l.Dim()
	packed, w := make([]float64, n*(n+1)/2), newWindow(n, bandwidth, inverse)
	if err := l.EachScore(ctx, p, func(scores [][]float64, b *model.Block) {
		sums := w.slide(scores, b.Role[model.Weights])
		kernel.AddGram(packed, sums, sums)
	}); err != nil {
		return err
	}
	none := numeric.Columns(n, model.BlockRows)
	for left := bandwidth - 1; left > 0; left -= model.BlockRows { // the windows that end behind the rows
		sums := w.slide(numeric.FirstOf(none, min(left, model.BlockRows)), nil)
		kernel.AddGram(packed, sums, sums)
	}
	floats.Scale(1/float64(bandwidth), packed)
	numeric.SetTriangle(m, packed)
	return nil
}

// window is the last rows' scores, as [LongRun] takes them.
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
	out := numeric.FirstOf(w.columns, len(scores[0]))
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

// mostCorrelation bounds the autocorrelations from which a bandwidth is told.
const mostCorrelation = 0.97

// Bandwidth returns that of the Bartlett kernel at which the long-run covariance of [LongRun], without an
// inverse, has the least mean squared error where every parameter's scores are an autoregression
// of order 1 (Andrews 1991, Eq. 6.2 and 6.4):
//
//	b = 1.1447·(α·n)^(1/3),   α = Σ_i 4ρ_i²/((1−ρ_i)⁶(1+ρ_i)²) / Σ_i 1/(1−ρ_i)⁴
//
// with ρ_i the scores' first autocorrelation at p, at most 0.97 in size. His weights
// of the parameters are here the inverse squares of the innovations' variances, so that
// units do not matter. It is rounded up, and between 1 and the number of rows.
func Bandwidth[P any](ctx context.Context, l Scores[P], p P) (int, error) {
	n := l.Dim()
	squares, products, last := make([]float64, n), make([]float64, n), make([]float64, n)
	rows := 0
	err := l.EachScore(ctx, p, func(scores [][]float64, _ *model.Block) {
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
