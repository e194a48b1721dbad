package infer

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
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
// Experts of too few rows are left out, and named.
//
// The statistics do not depend on the number of workers. Errors: those of the
// activation and of ctx, or [*TooManyError].
func Tests(ctx context.Context, rows model.Rows, act model.Activation, p *model.Params, free loss.Free, seed uint64, workers int) (Tested, error) {
	s, err := NewSpecification(act, p, free)
	if err != nil {
		return Tested{}, err
	}
	squares, err := s.Squares(ctx, model.Part(rows, s.Draws()))
	if err != nil {
		return Tested{}, err
	}
	s.Scale(squares)
	sums, err := s.Sums(ctx, rows, workers)
	if err != nil {
		return Tested{}, err
	}
	drawn, err := s.Draw(ctx, rows, 0, sums, seed, workers)
	if err != nil {
		return Tested{}, err
	}
	out := Tested{Mass: sums.Mass}
	out.Tests, out.Untested, err = s.Tests(ctx, sums, drawn, seed, workers)
	return out, err
}

// Tested is what [Tests] tell.
type Tested struct {
	Tests    []Test
	Untested []Untested // experts of too few rows
	Mass     []float64  // Σ r_i of every expert over the rows
}

// tests makes the tests of sums over the rows, given the covariance of a row's terms,
// which was taken over so many draws. The sums are used up.
func (m *terms) tests(s *RowSums, c *mat.SymDense, draws float64) (tests []Test, untested []Untested) {
	m.allowForCoefficients(s)
	untested = m.untested(s)
	q := &quadraticForms{cov: c, sums: s.Terms, n: s.Weight}
	for _, u := range untested {
		q.omit(m.at[atResiduals]+3*u.Expert, 3)
		q.omit(m.at[atNonlinearity]+3*u.Expert, 3)
	}
	for _, j := range q.omitHardGates(m.p.K*len(m.expert), m.p.Gates(), gateScale(m.gate, m.xRMS), draws) {
		q.omit(m.at[atGate]+5*j, 5)
	}
	q.standardise()
	// Regressing on terms by as many draws leaves that much less variance.
	q.project(0, m.at[atResiduals], draws)
	add := func(name string, from, to int, robust bool) {
		if t := q.test(m.at[from], m.at[to]); t.DF > 0 {
			t.Name, t.Robust = name, robust
			tests = append(tests, t)
		}
	}
	add(testResiduals, atResiduals, atNonlinearity, false)
	q.project(m.at[atResiduals], m.at[atNonlinearity], draws)
	add(testNonlinearity, atNonlinearity, atGate, true)
	add(testGate, atGate, atHeteroscedasticity, true)
	add(testHeteroscedasticity, atHeteroscedasticity, atInteractions, true)
	add(testInteractions, atInteractions, atEnd, true)
	return tests, untested
}

// drawsFor is how many targets the covariance of so many terms is taken over.
func drawsFor(terms int) int {
	return max(leastDraws, drawsPerTerm*terms, min(mostDraws, cheapProducts/(terms*terms)))
}

// Untested is an expert with too few rows for tests of its own: fewer than
// rowsPerCoefficient for each of its coefficients.
type Untested struct {
	Expert       int
	Rows         float64 // Σ r_i
	Coefficients int     // that were estimated from them
}

// rowsPerCoefficient is the least number of an expert's rows, for each of its
// coefficients, with which its residuals are tested: with fewer the estimation
// takes more than half off their sums, and the rest is far from normal.
const rowsPerCoefficient = 2

// untested returns the experts with too few rows.
func (m *terms) untested(s *RowSums) (out []Untested) {
	for i, mass := range s.Mass {
		if mass < float64(rowsPerCoefficient*len(m.expert)) {
			out = append(out, Untested{i, mass, len(m.expert)})
		}
	}
	return out
}

// TooManyError says that a model has more terms than [MostTerms].
type TooManyError struct{ Terms int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("the certificate needs %d terms for each row, more than %d", e.Terms, MostTerms)
}

// RowSums are sums over rows of what the specification tests of a mixture of k experts
// need of them.
type RowSums struct {
	Terms       []float64
	Prior, Mass []float64 // Σ p_i and Σ r_i, k each
	Weight      float64   // rows, or the sum of their weights
}

func (m *terms) newSums() *RowSums { return newRowSums(m.at[atEnd], m.p.K) }

func newRowSums(terms, k int) *RowSums {
	return &RowSums{Terms: make([]float64, terms), Prior: make([]float64, k), Mass: make([]float64, k)}
}

// blockTerms are the terms of a block of rows, and the gate's and the posterior
// probabilities of its experts.
type blockTerms struct {
	out         [][]float64
	ones        []float64
	prior, post func(i int) []float64
}

// add adds a block's, of rows with these weights.
func (s *RowSums) add(t blockTerms, weight []float64) {
	sum := kernel.Sum
	if weight != nil {
		sum = func(v []float64) float64 { return kernel.Dot(v, weight) }
	}
	for i, v := range t.out {
		s.Terms[i] += sum(v[:len(t.ones)])
	}
	for i := range s.Prior {
		s.Prior[i] += sum(t.prior(i))
		s.Mass[i] += sum(t.post(i))
	}
	s.Weight += sum(t.ones)
}

// Merge adds those of later rows.
func (s *RowSums) Merge(o *RowSums) {
	floats.Add(s.Terms, o.Terms)
	floats.Add(s.Prior, o.Prior)
	floats.Add(s.Mass, o.Mass)
	s.Weight += o.Weight
}

// sums returns the sums over the data.
func (m *terms) sums(ctx context.Context, data model.Rows, workers int) (*RowSums, error) {
	return sumsOf(ctx, data, workers, m.newSums, m.newRows, func(w *termRows, b *model.Block) (blockTerms, error) {
		if err := m.given(ctx, w, b); err != nil {
			return blockTerms{}, err
		}
		m.fill(w, b.Y)
		return blockTerms{w.out, w.ones[:w.N], w.PriorOf, w.PostOf}, nil
	})
}

// sumsOf adds up the terms of blocks, which fill computes in the room W of a worker.
func sumsOf[W any](ctx context.Context, data model.Rows, workers int, none func() *RowSums, room func() *W, fill func(w *W, b *model.Block) (blockTerms, error)) (*RowSums, error) {
	chunks := make([]*RowSums, model.Chunks(data))
	rows := make([]*W, model.Workers(workers))
	err := model.Each(ctx, data, len(rows), func(worker, chunk, _ int, b *model.Block) error {
		if rows[worker] == nil {
			rows[worker] = room()
		}
		if chunks[chunk] == nil {
			chunks[chunk] = none()
		}
		t, err := fill(rows[worker], b)
		if err != nil {
			return err
		}
		chunks[chunk].add(t, b.W)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, c := range chunks[1:] {
		chunks[0].Merge(c)
	}
	return chunks[0], nil
}

// allowForCoefficients takes off the sums of the residuals' shape what the
// estimation of the experts' coefficients adds to them in the mean. The p
// coefficients of expert i leave its squared residuals, over m_i rows, a mean of
// σ²·(1 − p/m_i), and a free σ² is less than the noise's by the mean of that over
// the experts that share it: so those of expert i have a mean of 1 + δ_i, where
// δ_i = (coefficients that share σ_i)/(their rows) − p/m_i, or −p/m_i alone for a
// given σ, and its terms ψ one of δ_i·dEψ(sZ)/ds² for each row.
func (m *terms) allowForCoefficients(s *RowSums) {
	if m.noise && len(m.p.Sigma) == m.p.K {
		return
	}
	own := float64(len(m.expert)) + float64(len(m.outputs))/float64(m.p.K)
	for i, mass := range s.Mass {
		excess := -min(own, mass)
		if m.noise {
			excess += mass * own * float64(m.p.K) / s.Weight
		}
		at := m.at[atResiduals] + 3*i
		s.Terms[at] -= excess * slopeWide
		s.Terms[at+1] -= excess * slopeNarrow
	}
}

// ConditionalMoments is the χ² test that the terms behind the first scores of them
// have mean 0, adjusted for the estimation that made the scores 0 (outer-product
// form): sums are those over n rows, cov the mean of the products of a row's terms,
// taken over as many. The test has no name; its DF is 0 where nothing is left of the
// terms.
func ConditionalMoments(cov *mat.SymDense, sums []float64, scores int, n float64) Test {
	q := &quadraticForms{cov: cov, sums: sums, n: n}
	q.standardise()
	q.project(0, scores, n)
	return q.test(scores, len(sums))
}

// quadraticForms holds the sums of terms and the covariance of one row's.
type quadraticForms struct {
	cov  *mat.SymDense
	sums []float64
	n    float64
}

// omit makes n of the terms 0.
func (q *quadraticForms) omit(from, n int) {
	for i := from; i < from+n; i++ {
		q.sums[i] = 0
		for j := range q.sums {
			q.cov.SetSym(i, j, 0)
		}
	}
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
