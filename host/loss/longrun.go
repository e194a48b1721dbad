package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// LongRunProducts writes to m what takes the place of [Likelihood.ScoreProducts] where the
// rows follow each other in time: with s_t the score of row t, times its weight, and
// Γ_l = Σ_t s_t·s_{t−l}ᵀ,
//
//	M = Σ_{|l|<b} (1 − |l|/b)·Γ_l
//
// with the Bartlett kernel of bandwidth b, at least 1 (Newey & West 1987). It is never
// indefinite: it is (1/b)·Σ_t W_t·W_tᵀ with W_t = s_t + … + s_{t−b+1}, which is how it is
// computed. With b = 1 it is Σ_t s_t·s_tᵀ.
func (l *Likelihood) LongRunProducts(ctx context.Context, m *mat.SymDense, p *model.Params, bandwidth int) error {
	if bandwidth < 1 {
		panic("loss: bandwidth below 1")
	}
	out := newProductSums(l.layout)
	n := len(l.parameters)
	window := columnsOf(n, model.BlockRows)
	past := columnsOf(n, bandwidth) // the last scores of every parameter, in a ring
	sum, at := make([]float64, n), 0
	add := func(rows int, score func(i, t int) float64) {
		for i := range n {
			ring, w, here := past[i], sum[i], at
			for t := range rows {
				s := score(i, t)
				w += s - ring[here]
				ring[here] = s
				window[i][t] = w
				if here++; here == bandwidth {
					here = 0
				}
			}
			sum[i] = w
		}
		at = (at + rows) % bandwidth
		columns := make([][]float64, n)
		for i := range columns {
			columns[i] = window[i][:rows]
		}
		kernel.AddGram(out.packed, columns, columns)
	}
	if err := l.eachScore(ctx, p, func(scores [][]float64) {
		add(len(scores[0]), func(i, t int) float64 { return scores[i][t] })
	}); err != nil {
		return err
	}
	for left := bandwidth - 1; left > 0; left -= model.BlockRows { // the windows that end behind the rows
		add(min(left, model.BlockRows), func(int, int) float64 { return 0 })
	}
	floats.Scale(1/float64(bandwidth), out.packed)
	out.write(m)
	return nil
}

// mostCorrelation bounds the autocorrelations from which a bandwidth is told.
const mostCorrelation = 0.97

// Bandwidth returns that of the Bartlett kernel at which [Likelihood.LongRunProducts] has the least
// mean squared error where every parameter's scores are an autoregression of order 1
// (Andrews 1991, Eq. 6.2 and 6.4):
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
	err := l.eachScore(ctx, p, func(scores [][]float64) {
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
// every parameter, times the rows' weights, valid until fn returns.
func (l *Likelihood) eachScore(ctx context.Context, p *model.Params, fn func(scores [][]float64)) error {
	if l.unread != nil {
		return l.unread
	}
	l.unpack(l.cur, l.Theta(p))
	w, block := l.newWork(), 0
	return model.InOrder(ctx, l.rows, func(b *model.Block) error {
		if err := l.observe(ctx, w, l.cur, block, b); err != nil {
			return err
		}
		block++
		if err := l.slopes(ctx, w, b, ofProducts); err != nil {
			return err
		}
		fn(w.scoresOf(l.parameters))
		return nil
	})
}
