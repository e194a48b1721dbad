package loss

import (
	"context"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
)

// want is how much a pass over the data computes; each level includes those
// before it.
type want int

const (
	wantValue       want = iota // log-likelihood
	wantGrad                    // sums of the gradient
	wantExperts                 // Gram matrices of the M-step of the experts
	wantEM                      // and of the gate
	wantHessian                 // Gram matrices of the observed information instead
	wantInformation             // the same with the terms in g″
	wantScores                  // products of the rows' scores instead
	wantStructure               // what a split-and-merge move needs instead
)

// scratch is one worker's room for a block: k×BlockRows values each, and the
// products of columns.
type scratch struct {
	*mixture.Posterior
	z, res, dg    []float64 // predictors; y−g(z); g′(z)
	cols          [][]float64
	products      []float64 // x_j·x_l, j ≤ l; nil for wide designs
	multiplied    bool      // products are those of cols
	w             []float64
	room          []float64
	rows          []int       // of a block, whose terms are not 0
	few           [][]float64 // their columns
	weight        []float64   // of the block's rows; nil: all 1
	second, ahead []float64   // g″, and room for it; nil before they are needed
	scores        [][]float64
}

func (l *Likelihood) newScratch() *scratch {
	const n = model.BlockRows
	kn := func() []float64 { return make([]float64, l.k*n) }
	dx := l.width()
	var products []float64
	if dx <= widest {
		products = make([]float64, dx*(dx+1)/2*n)
	}
	return &scratch{
		Posterior: mixture.NewPosterior(l.mix, l.k),
		z:         kn(), res: kn(), dg: kn(),
		cols:     make([][]float64, dx),
		products: products,
		w:        make([]float64, n), room: make([]float64, n),
		rows: make([]int, 0, n), few: columnsOf(dx, n),
	}
}

// columnsOf returns room for so many columns of n values.
func columnsOf(columns, n int) [][]float64 {
	out, store := make([][]float64, columns), make([]float64, columns*n)
	for j := range out {
		out[j] = store[j*n : (j+1)*n]
	}
	return out
}

// widest is the number of columns up to which the products of pairs are kept:
// 1 MiB for the rows of a block, which the processor's cache holds.
const widest = 32

// pass sums over all rows what is wanted at p.
func (l *Likelihood) pass(ctx context.Context, p *model.Params, level want) (*sums, error) {
	if l.unread != nil {
		return nil, l.unread
	}
	if l.total == nil || !l.total.fits(level) {
		l.total = newSums(l, level)
		for c := range l.chunks {
			l.chunks[c] = newSums(l, level)
		}
	}
	for c := range l.chunks {
		l.chunks[c].clear()
	}
	err := model.Each(ctx, l.rows, l.workers, func(worker, chunk, block int, b *model.Block) error {
		if l.scratch[worker] == nil {
			l.scratch[worker] = l.newScratch()
		}
		return l.block(ctx, l.scratch[worker], l.chunks[chunk], p, block, b, level)
	})
	if err != nil {
		return nil, err
	}
	l.total.clear()
	for _, c := range l.chunks {
		l.total.add(c, level)
	}
	return l.total, nil
}

// block adds one block to the sums.
func (l *Likelihood) block(ctx context.Context, w *scratch, s *sums, p *model.Params, block int, b *model.Block, level want) error {
	n, kn := b.N, l.k*b.N
	w.Given(p, b)
	res, err := l.residuals(ctx, w, p, block, b)
	if err != nil {
		return err
	}
	w.Observe(res, 0)
	w.weight = b.W
	s.loglik += w.LogLikelihood(b.W)
	if level == wantValue {
		return nil
	}
	if l.free.Regressors {
		if err := l.act.Deriv(ctx, w.dg[:kn], w.z[:kn]); err != nil {
			return err
		}
	}
	l.columns(w, b)
	l.addGradient(w, s, res, n)
	switch level {
	case wantExperts, wantEM:
		l.addExperts(w, s, n)
		if level == wantEM {
			l.addGates(w, s, n)
		}
	case wantHessian:
		l.addHessian(w, s, n, nil)
	case wantInformation:
		if l.free.Regressors {
			if err := l.curvature(ctx, w, kn); err != nil {
				return err
			}
		}
		l.addHessian(w, s, n, w.second)
	case wantScores:
		l.addScores(w, s, p, n)
	case wantStructure:
		l.addStructure(w, s, n)
	}
	return nil
}

// residuals returns y − g(⟨a_i,x⟩) for the rows of a block, k rows of b.N
// values. Where the regressors are fixed they are computed once.
func (l *Likelihood) residuals(ctx context.Context, w *scratch, p *model.Params, block int, b *model.Block) ([]float64, error) {
	res := w.res[:l.k*b.N]
	if !l.free.Regressors {
		if l.fixed[block] != nil {
			return l.fixed[block], nil
		}
		res = make([]float64, l.k*b.N)
	}
	z := w.z[:l.k*b.N]
	p.Predictors(z, b)
	if err := l.act.Eval(ctx, res, z); err != nil {
		return nil, err
	}
	for i := range l.k {
		r := res[i*b.N : (i+1)*b.N]
		floats.SubTo(r, b.Y, r)
	}
	if !l.free.Regressors {
		l.fixed[block] = res
	}
	return res, nil
}

// weigh multiplies terms of rows by the rows' weights.
func (w *scratch) weigh(terms []float64) {
	if w.weight != nil {
		floats.Mul(terms, w.weight)
	}
}

// sum adds terms of rows, weighted.
func (w *scratch) sum(terms []float64) float64 {
	if w.weight != nil {
		return floats.Dot(terms, w.weight)
	}
	return floats.Sum(terms)
}

// columns points w.cols at the design: the features and a column of ones where
// there are intercepts.
func (l *Likelihood) columns(w *scratch, b *model.Block) {
	w.multiplied = false
	for j := range l.d {
		w.cols[j] = b.Col(j)
	}
	if len(w.cols) > l.d {
		w.cols[l.d] = l.ones[:b.N]
	}
}

// multiply writes the products of all pairs of columns, unless they are there.
func (w *scratch) multiply(n int) {
	if w.multiplied {
		return
	}
	at := 0
	for j, a := range w.cols {
		for _, b := range w.cols[j:] {
			floats.MulTo(w.products[at:at+n], a, b)
			at += n
		}
	}
	w.multiplied = true
}

// addGradient adds the sums behind the gradient.
func (l *Likelihood) addGradient(w *scratch, s *sums, residuals []float64, n int) {
	wt := w.w[:n]
	for i := range l.k {
		r, res := w.PostOf(i), residuals[i*n:(i+1)*n]
		s.mass[i] += w.sum(r)
		s.prior[i] += w.sum(w.PriorOf(i))
		w.Family.Weigh(wt, r, res)
		w.weigh(wt)
		s.rss[i] += floats.Dot(wt, res)
		if l.free.Regressors {
			floats.Mul(wt, w.dg[i*n:(i+1)*n])
			addWeighted(s.expert(i), wt, w.cols, l.expert)
		}
	}
	if !l.free.Gating {
		return
	}
	for j := range l.k - 1 {
		w.GateScore(wt, j)
		w.weigh(wt)
		addWeighted(s.gate(j), wt, w.cols, l.gate)
	}
}

// addExperts adds the Gram matrices of the experts' M-step, with weights
// r_i·g′_i².
func (l *Likelihood) addExperts(w *scratch, s *sums, n int) {
	if !l.free.Regressors {
		return
	}
	for i := range l.k {
		dg := w.dg[i*n : (i+1)*n]
		for t, p := range w.PostOf(i) {
			w.w[t] = p * dg[t] * dg[t]
		}
		w.gram(s.gram(i), w.w[:n])
	}
}

// addGates adds the Gram matrices of the gate's M-step, for gates j ≤ m.
func (l *Likelihood) addGates(w *scratch, s *sums, n int) {
	if !l.free.Gating {
		return
	}
	at := l.k
	for j := range l.k - 1 {
		for m := j; m < l.k-1; m++ {
			w.GateComplete(w.w[:n], j, m)
			w.gram(s.gram(at), w.w[:n])
			at++
		}
	}
}

// addHessian (for all parameters, whichever are free) adds the Gram matrices of
// the observed information, whose weights are those of mixture.Posterior. second
// is g″, or nil where the terms in it are left out.
func (l *Likelihood) addHessian(w *scratch, s *sums, n int, second []float64) {
	var slopes []float64
	if l.free.Regressors {
		slopes = w.dg[:l.k*n]
	}
	w.Differentiate(slopes)
	wt, at := w.w[:n], 0
	next := func() { w.gram(s.gram(at), wt); at++ }
	for i := range l.k {
		var bend []float64
		if second != nil {
			bend = second[i*n : (i+1)*n]
		}
		for j := i; j < l.k; j++ {
			w.ExpertExpert(wt, i, j, bend)
			next()
		}
		for j := range l.k - 1 {
			w.ExpertGate(wt, i, j)
			next()
		}
	}
	for j := range l.k - 1 {
		for m := j; m < l.k-1; m++ {
			w.GateGate(wt, j, m)
			next()
		}
	}
	l.addSigmaRows(w, s, n)
}

// addSigmaRows adds the rows of the information that belong to log σ: its
// products with every a_i and w_j, and with itself.
func (l *Likelihood) addSigmaRows(w *scratch, s *sums, n int) {
	if !l.free.Sigma {
		return
	}
	w.DifferentiateNoise()
	wt := w.w[:n]
	for m := range l.ns {
		for i := range l.k {
			w.NoiseExpert(wt, m, i)
			w.weigh(wt)
			addWeighted(s.sigmaExpert(m, i), wt, w.cols, l.expert)
		}
		for j := range l.k - 1 {
			w.NoiseGate(wt, m, j)
			w.weigh(wt)
			addWeighted(s.sigmaGate(m, j), wt, w.cols, l.gate)
		}
		for i := range l.ns {
			w.NoiseNoise(wt, m, i)
			s.sigmaSigma[m*l.ns+i] += w.sum(wt)
		}
	}
}

// addWeighted adds Σ_t w_t·x_t over the columns named.
func addWeighted(dst, w []float64, cols [][]float64, named []int) {
	for i, j := range named {
		dst[i] += floats.Dot(w, cols[j])
	}
}

// gram adds Σ_t w_t·x_t·x_tᵀ, the upper triangle in rows, and multiplies w by
// the rows' weights.
func (w *scratch) gram(dst, terms []float64) {
	w.weigh(terms)
	n := len(terms)
	switch rows := w.nonzero(terms); {
	case 4*len(rows) <= 3*n:
		w.gather(terms, rows)
		gramOf(dst, terms[:len(rows)], w.few, w.room)
	case w.products == nil:
		gramOf(dst, terms, w.cols, w.room)
	default:
		w.multiply(n)
		for q := range dst {
			dst[q] += floats.Dot(terms, w.products[q*n:(q+1)*n])
		}
	}
}

// nonzero lists the rows whose terms are not 0. They are often few: a row has
// few experts that could have made it, and posteriors below e⁻⁴⁰ are 0.
func (w *scratch) nonzero(terms []float64) []int {
	rows := w.rows[:0]
	for t, v := range terms {
		if v != 0 {
			rows = append(rows, t)
		}
	}
	return rows
}

// gather moves the terms of the rows named to the front, and writes those rows'
// columns to w.few.
func (w *scratch) gather(terms []float64, rows []int) {
	for at, t := range rows {
		terms[at] = terms[t]
	}
	for j, col := range w.cols {
		few := w.few[j][:len(rows)]
		for at, t := range rows {
			few[at] = col[t]
		}
		w.few[j] = few
	}
}

// gramOf is gram from the columns, with room for as many values as there are
// terms.
func gramOf(dst, terms []float64, cols [][]float64, room []float64) {
	if len(terms) == 0 {
		return
	}
	weighted, at := room[:len(terms)], 0
	for j, a := range cols {
		floats.MulTo(weighted, terms, a)
		for _, b := range cols[j:] {
			dst[at] += floats.Dot(weighted, b)
			at++
		}
	}
}
