package infer

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// leastDraws is the least number of targets drawn from the fitted model for
	// the covariance of the terms, drawsPerTerm what each term asks for: 12 per
	// term leave the χ² statistics a relative error below 1/√(6·terms).
	leastDraws   = 4096
	drawsPerTerm = 12
	// A direction of which the scores leave little needs more. Where the terms are
	// few they are cheap: up to mostDraws, as long as that costs less than
	// cheapProducts.
	mostDraws     = 40000
	cheapProducts = 25_000_000
	// MostTerms bounds the work: the covariance has as many rows.
	MostTerms = 1000
	// rankTolerance is the share of a direction's variance that must be left
	// after the scores are taken off for it to count as a test of its own.
	// Exactly dependent terms leave rounding, about 1e−12.
	rankTolerance = 1e-3
	// drawStream separates these random numbers from those of a fit.
	drawStream = 1 << 34
)

// Tests are the specification tests of the mixture p, fitted to data by maximum
// likelihood over the free parameters. They are conditional-moment
// (information-matrix) tests: sums over the rows of terms whose mean given x is 0
// under the model, adjusted for what the estimation of the parameters takes off.
//
// With T the sums of the terms tested, S those of the scores (0 at an exact
// maximum) and C the covariance of a row's terms,
//
//	U = T − C_ts·C_ss⁻¹·S,   U ~ N(0, n·(C_tt − C_ts·C_ss⁻¹·C_st)),
//
// and UᵀV⁺U is χ² with rank V degrees of freedom. C is taken under the fitted
// model itself, from targets drawn from it at the x of the data: it is free of
// the noise of the data's own fourth moments, and departures from the model do
// not inflate it. The robust tests count the sums of the residuals' shape among
// the scores: what a shape of the noise shared by all x does to them is taken off.
//
// The statistics do not depend on the number of workers. Errors: those of the
// activation and of ctx, or [*TooManyError].
func Tests(ctx context.Context, rows model.Rows, act model.Activation, p *model.Params, free loss.Free, seed uint64, workers int) ([]Test, error) {
	m := newTerms(act, p, free)
	if m.at[atEnd] > MostTerms {
		return nil, &TooManyError{m.at[atEnd]}
	}
	draws := drawsFor(m.at[atEnd])
	part := model.Part(rows, draws)
	if err := m.measure(ctx, part); err != nil {
		return nil, err
	}
	n, _ := part.Dims()
	times := (draws + n - 1) / n
	c, err := m.covariance(ctx, part, times, seed, workers)
	if err != nil {
		return nil, err
	}
	sums, err := m.sums(ctx, rows, workers)
	if err != nil {
		return nil, err
	}
	weight, err := model.Weight(rows)
	if err != nil {
		return nil, err
	}
	q := &quadraticForms{cov: c, sums: sums, n: weight}
	q.standardise()
	// Regressing on terms by as many draws leaves that much less variance.
	q.project(0, m.at[atResiduals], float64(times*n))
	var tests []Test
	add := func(name string, from, to int, robust bool) {
		if t := q.test(m.at[from], m.at[to]); t.DF > 0 {
			t.Name, t.Robust = name, robust
			tests = append(tests, t)
		}
	}
	add(testResiduals, atResiduals, atNonlinearity, false)
	q.project(m.at[atResiduals], m.at[atNonlinearity], float64(times*n))
	add(testNonlinearity, atNonlinearity, atGate, true)
	add(testGate, atGate, atHeteroscedasticity, true)
	add(testHeteroscedasticity, atHeteroscedasticity, atInteractions, true)
	add(testInteractions, atInteractions, atEnd, true)
	return tests, nil
}

// drawsFor is how many targets the covariance of so many terms is taken over.
func drawsFor(terms int) int {
	return max(leastDraws, drawsPerTerm*terms, min(mostDraws, cheapProducts/(terms*terms)))
}

// TooManyError says that a model has more terms than [MostTerms].
type TooManyError struct{ Terms int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("the certificate needs %d terms for each row, more than %d", e.Terms, MostTerms)
}

// covariance returns the upper triangle of E[term·termᵀ] under the fitted
// model, from several targets drawn for every row.
func (m *terms) covariance(ctx context.Context, data model.Rows, times int, seed uint64, workers int) (*mat.SymDense, error) {
	size := m.at[atEnd]
	chunks := make([][]float64, model.Chunks(data))
	rows := make([]*termRows, model.Workers(workers))
	err := model.Each(ctx, data, len(rows), func(worker, chunk, block int, b *model.Block) error {
		if rows[worker] == nil {
			rows[worker] = m.newRows()
		}
		if chunks[chunk] == nil {
			chunks[chunk] = make([]float64, size*size)
		}
		w := rows[worker]
		if err := m.given(ctx, w, b); err != nil {
			return err
		}
		rng := rand.New(rand.NewPCG(seed, drawStream+uint64(block)))
		for range times {
			m.draw(w, rng)
			m.fill(w, w.y[:b.N])
			addGram(chunks[chunk], w, b.W)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range chunks[1:] {
		floats.Add(chunks[0], c)
	}
	weight, err := model.Weight(data)
	if err != nil {
		return nil, err
	}
	floats.Scale(1/(weight*float64(times)), chunks[0])
	return mat.NewSymDense(size, chunks[0]), nil
}

// addGram adds the products of all pairs of terms, in the upper triangle.
func addGram(dst []float64, w *termRows, weight []float64) {
	size := len(w.out)
	for i, a := range w.out {
		a = a[:w.N]
		if weight != nil {
			a = floats.MulTo(w.one[:w.N], a, weight)
		}
		row := dst[i*size : (i+1)*size]
		for j := i; j < size; j++ {
			row[j] += floats.Dot(a, w.out[j][:w.N])
		}
	}
}

// sums returns the sums of the terms over the data.
func (m *terms) sums(ctx context.Context, data model.Rows, workers int) ([]float64, error) {
	chunks := make([][]float64, model.Chunks(data))
	rows := make([]*termRows, model.Workers(workers))
	err := model.Each(ctx, data, len(rows), func(worker, chunk, _ int, b *model.Block) error {
		if rows[worker] == nil {
			rows[worker] = m.newRows()
		}
		if chunks[chunk] == nil {
			chunks[chunk] = make([]float64, m.at[atEnd])
		}
		w := rows[worker]
		if err := m.given(ctx, w, b); err != nil {
			return err
		}
		m.fill(w, b.Y)
		for i, v := range w.out {
			if b.W != nil {
				chunks[chunk][i] += floats.Dot(v[:b.N], b.W)
			} else {
				chunks[chunk][i] += floats.Sum(v[:b.N])
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range chunks[1:] {
		floats.Add(chunks[0], c)
	}
	return chunks[0], nil
}

// quadraticForms holds the sums of terms and the covariance of one row's.
type quadraticForms struct {
	cov  *mat.SymDense
	sums []float64
	n    float64
}

// standardise brings the terms to unit variance; those that are always 0 stay.
func (q *quadraticForms) standardise() {
	size := len(q.sums)
	sd := make([]float64, size)
	for i := range sd {
		if sd[i] = math.Sqrt(q.cov.At(i, i)); !(sd[i] > 0) {
			sd[i] = 1
		}
		q.sums[i] /= sd[i]
	}
	for i := range size {
		for j := i; j < size; j++ {
			q.cov.SetSym(i, j, q.cov.At(i, j)/(sd[i]*sd[j]))
		}
	}
}

// project takes off all later terms what the terms from lo to hi explain, and
// widens the rest for having been estimated from so many draws.
func (q *quadraticForms) project(lo, hi int, draws float64) {
	size, m := len(q.sums), hi-lo
	if m == 0 || hi == size {
		return
	}
	known := mat.NewSymDense(m, nil)
	cross := mat.NewDense(m, size-hi+1, nil) // the sums last
	for i := range m {
		for j := i; j < m; j++ {
			known.SetSym(i, j, q.cov.At(lo+i, lo+j))
		}
		known.SetSym(i, i, known.At(i, i)+ridge)
		for j := hi; j < size; j++ {
			cross.Set(i, j-hi, q.cov.At(lo+i, j))
		}
		cross.Set(i, size-hi, q.sums[lo+i])
	}
	var chol mat.Cholesky
	var coef mat.Dense
	if !chol.Factorize(known) || chol.SolveTo(&coef, cross) != nil {
		return
	}
	var taken mat.Dense
	taken.Mul(cross.T(), &coef)
	widen := draws / max(draws-float64(m), draws/2)
	for i := hi; i < size; i++ {
		q.sums[i] -= taken.At(i-hi, size-hi)
		for j := i; j < size; j++ {
			q.cov.SetSym(i, j, widen*(q.cov.At(i, j)-taken.At(i-hi, j-hi)))
		}
	}
}

// ridge keeps the correlations of collinear scores invertible.
const ridge = 1e-10

// test returns the χ² test of the terms from lo to hi.
func (q *quadraticForms) test(lo, hi int) Test {
	m := hi - lo
	if m == 0 {
		return Test{}
	}
	v := mat.NewSymDense(m, nil)
	for i := range m {
		for j := i; j < m; j++ {
			v.SetSym(i, j, q.cov.At(lo+i, lo+j))
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(v, true) {
		return Test{}
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	t := Test{PValue: 1}
	for i, value := range eig.Values(nil) {
		if value < rankTolerance {
			continue
		}
		u := 0.0
		for j := range m {
			u += vectors.At(j, i) * q.sums[lo+j]
		}
		t.Statistic += u * u / (q.n * value)
		t.DF++
	}
	if !numeric.Finite(t.Statistic) {
		return Test{} // g is not finite at some x
	}
	if t.DF > 0 {
		t.PValue = distuv.ChiSquared{K: float64(t.DF)}.Survival(t.Statistic)
	}
	return t
}
