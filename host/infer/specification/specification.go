// Package specification tests the specification of a fitted mixture: whether sums over its rows of terms whose mean
// given x is 0 under the model are as the model has them. host/infer judges what the tests tell.
package specification

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// leastDraws is the least number of targets drawn from the fitted model for
	// the covariance of the terms, drawsPerTerm what each term asks for: 12 per
	// term leave the χ² statistics a relative error below 1/√(6·terms).
	leastDraws   = 3072
	drawsPerTerm = 12
	// A direction of which the scores leave little needs more. Where the terms are
	// few they are cheap: up to mostDraws, as long as that costs less than
	// cheapProducts.
	mostDraws     = 40000
	cheapProducts = 25_000_000
	// mostTerms bounds the work: the covariance has as many rows.
	mostTerms = 1000
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
func Tests(ctx context.Context, rows model.Rows, act model.Activation, p *model.Params, free loss.Free, seed uint64,
	workers int) (Tested, error) {
	s, err := NewSteps(act, p, free)
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
	return s.Tests(ctx, sums, drawn, seed, workers)
}

// Tested is what [Tests] tell.
type Tested struct {
	Tests    []infer.Test
	Untested []infer.Untested // experts of too few rows
	NotMade  []infer.NotMade  // tests
	Mass     []float64        // Σ r_i of every expert over the rows
	Overlap  float64          // of the experts: the mean of Σ_i r_i·(1 − r_i)
	inTime   infer.Test       // that of dependence of rows that may be sorted, as of rows in time
}

// InTime are those of rows that are said to stand in time, so that they are not sorted.
func (t Tested) InTime() Tested {
	if t.inTime.DF > 0 {
		other := func(of infer.Test) bool { return of.Name == infer.DependenceTest }
		t.Tests, t.NotMade = append(slices.DeleteFunc(slices.Clone(t.Tests), other), t.inTime), nil
	}
	return t
}

// quadratic makes the tests of sums over the rows that are quadratic forms in them: see [layout.forms].
func (m *terms) quadratic(s *RowSums, c *mat.SymDense, draws float64, along bool) (*quadraticForms,
	[]infer.Untested) {
	m.allowForCoefficients(s)
	return m.forms(s, c, draws, along)
}

// tests makes those of sums, given so many draws.
func (m *terms) tests(ctx context.Context, d targets, sums *RowSums, draws float64) (Tested, error) {
	out, err := testsOf(ctx, d, m.at[atNonlinearity:], sums, draws, m.quadratic)
	if law := mixture.DensityOf(m.p.Family); !mixture.Normal(law) {
		out.under(law)
	}
	return out, err
}

// drawsFor is how many targets the covariance of so many terms is taken over.
func drawsFor(terms int) int {
	return max(leastDraws, drawsPerTerm*terms, min(mostDraws, cheapProducts/(terms*terms)))
}

// rowsPerCoefficient is the least number of an expert's rows, for each of its
// coefficients, with which its residuals are tested: with fewer the estimation
// takes more than half off their sums, and the rest is far from normal.
const rowsPerCoefficient = 2

// TooManyError says that a model has more terms than [mostTerms].
type TooManyError struct{ Terms int }

func (e *TooManyError) Error() string {
	return fmt.Sprintf("the certificate needs %d terms for each row, more than %d", e.Terms, mostTerms)
}

// RowSums are sums over rows of what the specification tests of a mixture of k experts
// need of them.
type RowSums struct {
	Terms       []float64
	Prior, Mass []float64 // Σ p_i and Σ r_i, k each
	Weight      float64   // rows, or the sum of their weights
	Shared      float64   // Σ r_i·(1 − r_i): how much the experts overlap
	Neighbours  infer.Neighbours
	// Of every expert 2Σ of what a larger variance of y under it adds to each term, see [terms.allowForCoefficients];
	// none of normal noise whose level was estimated. Of other densities how many rows say something of its mean.
	Slopes, Telling []float64
	Groups          *GroupSums // nil where each row has its own expert
}

// draws are how many independent draws of an expert the sums are of.
func (s *RowSums) draws() float64 {
	if s.Groups != nil {
		return s.Groups.Weight
	}
	return s.Weight
}

// dependence is the test of rows that depend on each other beyond their experts, and what of it was not made.
func (s *RowSums) dependence() (t infer.Test, not []infer.NotMade) {
	if s.Groups == nil {
		return s.Neighbours.Test()
	}
	t, why := s.Groups.test()
	if why != "" {
		not = []infer.NotMade{{Name: infer.DependenceTest, Why: why}}
	}
	return t, not
}

func (m *terms) newSums() *RowSums {
	s := newRowSums(m.at[atEnd], m.p.K, 1)
	if m.slopes() {
		s.Slopes = make([]float64, m.p.K*m.at[atEnd])
	}
	if !m.normal() {
		s.Telling = make([]float64, m.p.K)
	}
	return s
}

// slopes says whether the means that the estimation of coefficients leaves are taken off all terms: where no σ makes up
// for them, and under other densities than the normal one.
func (m *terms) slopes() bool { return !m.noise || !m.normal() }

// normal says whether the noise is.
func (m *terms) normal() bool { return mixture.Normal(mixture.DensityOf(m.p.Family)) }

// Like returns those of no rows.
func (s *RowSums) Like() *RowSums {
	out := newRowSums(len(s.Terms), len(s.Prior), len(s.Neighbours.Sums))
	out.Slopes, out.Telling = make([]float64, len(s.Slopes)), make([]float64, len(s.Telling))
	if s.Groups != nil {
		out.Groups = new(GroupSums)
	}
	return out
}

// newRowSums are those of no rows, of so many terms, experts and targets.
func newRowSums(terms, k, targets int) *RowSums {
	return &RowSums{Terms: make([]float64, terms), Prior: make([]float64, k), Mass: make([]float64, k),
		Neighbours: infer.NewNeighbours(targets)}
}

// clone returns a copy whose terms may be used up.
func (s *RowSums) clone() *RowSums {
	out := *s
	out.Terms = slices.Clone(s.Terms)
	return &out
}

// blockTerms are the terms of a block of rows, the gate's and the posterior
// probabilities of its experts, and what [infer.Neighbours] are of: u and y of every target, with
// room for a row of them.
type blockTerms struct {
	out           [][]float64
	ones          []float64
	prior, post   func(i int) []float64
	neighbours    [][]float64
	row, products []float64
	// of every expert, as far as [RowSums] has them; the first may be used up
	convexity, telling [][]float64
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
		s.Shared += s.shared(t.post(i), weight)
	}
	for i, convexity := range t.convexity {
		if weight != nil {
			kernel.Mul(convexity, convexity, weight)
		}
		for at, v := range t.out {
			s.Slopes[i*len(t.out)+at] += kernel.Dot(v[:len(t.ones)], convexity)
		}
	}
	for i, v := range t.telling {
		s.Telling[i] += sum(v)
	}
	s.Weight += sum(t.ones)
	if t.neighbours == nil { // of rows in groups
		return
	}
	for r := range t.ones {
		if weight != nil && !(weight[r] > 0) {
			continue
		}
		for c, v := range t.neighbours {
			t.row[c] = v[r]
		}
		s.Neighbours.Add(t.row, t.products)
	}
}

// shared returns Σ r·(1 − r).
func (s *RowSums) shared(post, weight []float64) (sum float64) {
	if weight == nil {
		return kernel.Sum(post) - kernel.Dot(post, post)
	}
	for r, v := range post {
		sum += weight[r] * v * (1 - v)
	}
	return sum
}

// Merge adds those of later rows.
func (s *RowSums) Merge(o *RowSums) {
	floats.Add(s.Terms, o.Terms)
	floats.Add(s.Prior, o.Prior)
	floats.Add(s.Mass, o.Mass)
	s.Weight += o.Weight
	s.Shared += o.Shared
	s.Neighbours.Merge(&o.Neighbours)
	floats.Add(s.Slopes, o.Slopes)
	floats.Add(s.Telling, o.Telling)
	if s.Groups != nil {
		s.Groups.merge(o.Groups)
	}
}

// sums returns the sums over the data.
func (m *terms) sums(ctx context.Context, data model.Rows, workers int) (*RowSums, error) {
	return sumsOf(ctx, data, workers, m.newSums, m.newRows, func(w *termRows, b *model.Block) (blockTerms, error) {
		if err := m.given(ctx, w, b); err != nil {
			return blockTerms{}, err
		}
		m.fill(w, b.Y)
		m.neighbours(w, b.Y)
		convexity, telling := m.fillUnder(w)
		return blockTerms{w.out, w.ones[:w.N], w.PriorOf, w.PostOf, w.near[:2], w.near[2], w.near[3], convexity,
			telling}, nil
	})
}

// fillUnder computes what [RowSums.Slopes] and Telling are of, of a block's rows whose terms are filled in.
func (m *terms) fillUnder(w *termRows) (convexity, telling [][]float64) {
	if !m.slopes() {
		return nil, nil
	}
	for i := range m.p.K {
		of, tells := w.under[2*i][:w.N], w.under[2*i+1][:w.N]
		w.Convexity(of, i)
		for t, v := range of {
			if math.IsNaN(v) || math.IsInf(v, 0) { // nothing is to be told of the row's mean
				of[t] = 0
			}
		}
		kernel.Mul(of, of, w.PostOf(i))
		convexity = append(convexity, of)
		if !m.normal() {
			w.Telling(tells, i, w.g[i*w.N:(i+1)*w.N])
			telling = append(telling, tells)
		}
	}
	return convexity, telling
}

// sumsOf adds up the terms of blocks, which fill computes in the room W of a worker.
func sumsOf[W any](ctx context.Context, data model.Rows, workers int, none func() *RowSums, room func() *W,
	fill func(w *W, b *model.Block) (blockTerms, error)) (*RowSums, error) {
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
		chunks[chunk].add(t, b.Role[model.Weights])
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

// allowForCoefficients is [layout.allow].
func (m *terms) allowForCoefficients(s *RowSums) {
	if m.noise && len(m.p.Sigma) == m.p.K {
		return
	}
	rows := s.Weight
	if m.p.Zero {
		rows = floats.Sum(s.Mass)
	}
	m.allow(s, float64(m.coefficients)+float64(len(m.outputs))/float64(m.p.K), rows, m.noise)
}

// ConditionalMoments is the χ² test that terms have mean 0: sums are those over n rows, cov the mean of the products of
// a row's terms, taken over as many. The test has no name; its DF is 0 where nothing is left of the
// terms.
func ConditionalMoments(cov *mat.SymDense, sums []float64, n float64) infer.Test {
	q := &quadraticForms{cov: cov, sums: sums, n: n, draws: n, blocks: []int{0, len(sums)}}
	q.standardise()
	return q.form(0, len(sums)).chiSquared()
}
