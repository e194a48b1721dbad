package specification

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// VectorTests are [Tests] of a mixture with vector outputs under one gate, fitted to rows
// with their targets in M columns. With r_i the posterior given all targets and
// e_ic = (U(y−μ_i))_c/s_c, which are N(0, I) where a row is expert i's, the terms of
// every expert and coordinate are those of [Tests] with e_ic for e_i; those of the gate
// have functions of every coordinate's z_ic, those of heteroscedasticity and interactions
// are taken of every coordinate; and where the noise is diagonal there are besides
//
//	correlation   Σ_i r_i·h(e_ia)·h(e_ib) for every pair of coordinates,  h the identity held within ±2
//
// The scores are those of the joint likelihood.
func VectorTests(ctx context.Context, rows model.Rows, act model.Activation, p *model.VectorParams, free loss.Free,
	seed uint64, workers int) (Tested, error) {
	m := newVectorTerms(act, p, free)
	if m.end > mostTerms {
		return Tested{}, &TooManyError{m.end}
	}
	draws := drawsFor(m.end)
	if err := m.scale(ctx, model.Part(rows, draws)); err != nil {
		return Tested{}, err
	}
	sums, err := m.sums(ctx, rows, workers)
	if err != nil {
		return Tested{}, err
	}
	of := terms{p: p.Gate()}
	drawn, err := of.sample(ctx, rows, 0, draws, sums, seed, workers)
	if err != nil {
		return Tested{}, err
	}
	by := &rowTargets[vectorTermRows]{drawing: m.drawing(), drawn: drawn, seed: seed, workers: workers}
	return testsOf(ctx, by, m.blocks(), sums, float64(draws), m.quadratic)
}

// vectorTerms are the terms of a row of a mixture with vector outputs.
type vectorTerms struct {
	act                    model.Activation
	p                      *model.VectorParams
	free                   loss.Free
	coefficients           int // of an expert for one coordinate
	groups, pairs          int // as of terms
	gateGroups, gatePairs  int
	zRMS, lRMS, xRMS       []float64
	residuals, correlation int // where each kind of terms begins
	nonlinearity, gate     int
	gateFeatures, spread   int
	interactions, end      int
}

func newVectorTerms(act model.Activation, p *model.VectorParams, free loss.Free) *vectorTerms {
	m := &vectorTerms{act: act, p: p, free: free, groups: min(p.D, mostGroups), pairs: min(p.D*(p.D+1)/2, mostPairs)}
	m.gateGroups, m.gatePairs = gateGroups(m.groups, m.pairs, p.Gate().Gates())
	expert, _ := free.Columns(p.Coordinate(0))
	m.coefficients = len(expert)
	m.residuals = loss.VectorDim(p, free)
	m.correlation = m.residuals + 3*p.K*p.M
	m.nonlinearity = m.correlation
	if p.Noise[0].Lower == nil {
		m.nonlinearity += p.M * (p.M - 1) / 2
	}
	m.gate = m.nonlinearity + 3*p.K*p.M
	m.gateFeatures = m.gate + (3+2*p.M)*p.Gate().Gates()
	m.spread = m.gateFeatures + (m.gateGroups+m.gatePairs)*p.Gate().Gates()
	m.interactions = m.spread + m.groups*p.M
	m.end = m.interactions + m.pairs*p.M
	return m
}

// blocks are those of the covariance.
func (m *vectorTerms) blocks() []int {
	return []int{m.nonlinearity, m.gate, m.gateFeatures, m.spread, m.interactions, m.end}
}

// scale sets the rms of what the bounded functions are taken of, over rows.
func (m *vectorTerms) scale(ctx context.Context, rows model.Rows) error {
	of := terms{p: m.p.Gate()}
	of.p.Regressors = make([]float64, m.p.K*m.p.D)
	q, err := of.squares(ctx, rows)
	if err != nil {
		return err
	}
	q.Z = make([]float64, m.p.K*m.p.M)
	values := make([]float64, len(q.Z)*model.BlockRows)
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		m.p.Predictors(values, b)
		for at := range q.Z {
			z := values[at*b.N : (at+1)*b.N]
			q.Z[at] += floats.Dot(z, z)
		}
		return nil
	})
	of.scale(q)
	m.zRMS, m.lRMS, m.xRMS = of.zRMS, of.lRMS, of.xRMS
	return err
}

// features are terms of which those of the features are the same.
func (m *vectorTerms) features() *terms {
	return &terms{p: m.p.Gate(), groups: m.groups, pairs: m.pairs, gateGroups: m.gateGroups, gatePairs: m.gatePairs,
		xRMS: m.xRMS}
}

// vectorTermRows is room for the terms of a block of rows.
type vectorTermRows struct {
	*loss.VectorRows
	features              *termRows // the bounded functions of the features
	logits                []float64
	bump, bend            []float64 // of one predictor
	ones, one, two, three []float64
	near                  [][]float64 // u and y of [Neighbours]
	row, products         []float64   // room for a row of them
	out                   [][]float64
	n                     int
}

func (m *vectorTerms) newRows() *vectorTermRows {
	const n = model.BlockRows
	of := m.features()
	w := &vectorTermRows{
		VectorRows: loss.NewVectorRows(m.act, m.p, m.free), features: of.newRows(), logits: make([]float64, m.p.K*n),
		bump: make([]float64, n), bend: make([]float64, n), ones: make([]float64, n), one: make([]float64, n),
		two: make([]float64, n), three: make([]float64, n),
		out: make([][]float64, m.end),
	}
	for i := range w.ones {
		w.ones[i] = 1
	}
	for range 2 * m.p.M {
		w.near = append(w.near, make([]float64, n))
	}
	w.row, w.products = make([]float64, 2*m.p.M), make([]float64, m.p.M)
	columns(w.out)
	return w
}

// fill writes the terms of a block with targets to w.out.
func (m *vectorTerms) fill(ctx context.Context, w *vectorTermRows, b *model.Block) error {
	if err := w.Observe(ctx, b); err != nil {
		return err
	}
	if err := w.Scores(ctx, w.out[:m.residuals], b); err != nil {
		return err
	}
	w.n = b.N
	of := m.features()
	of.features(w.features, b)
	for at := m.spread; at < m.end; at++ {
		clear(w.out[at][:b.N])
	}
	for at := m.correlation; at < m.nonlinearity; at++ {
		clear(w.out[at][:b.N])
	}
	for i := range m.p.K {
		for c := range m.p.M {
			m.fillShape(w, i, c)
			m.fillMeans(w, i, c)
		}
		m.fillCorrelation(w, i)
	}
	m.fillGate(w, b)
	return nil
}

// fillShape writes the terms of expert i and coordinate c that depend on the residual's
// shape, and adds to those of heteroscedasticity.
func (m *vectorTerms) fillShape(w *vectorTermRows, i, c int) {
	wide := shape(w.out[m.residuals+3*(i*m.p.M+c):], w.one, w.Standard(i, c), w.Posterior(i))
	for g := range m.groups {
		kernel.AddMul(w.out[m.spread+c*m.groups+g][:w.n], wide, w.features.xBump[g*w.n:(g+1)*w.n])
	}
}

// fillMeans writes the terms of nonlinearity of expert i and coordinate c, and adds to those
// of interactions.
func (m *vectorTerms) fillMeans(w *vectorTermRows, i, c int) {
	n := w.n
	pull := w.one[:n] // r_i·e_ic
	kernel.Mul(pull, w.Posterior(i), w.Standard(i, c))
	m.bounded(w, i, c)
	at := m.nonlinearity + 3*(i*m.p.M+c)
	for l, h := range [][]float64{w.ones[:n], w.bump[:n], w.bend[:n]} {
		kernel.Mul(w.out[at+l][:n], pull, h)
	}
	for g := range m.pairs {
		kernel.AddMul(w.out[m.interactions+c*m.pairs+g][:n], pull, w.features.xPairs[g*n:(g+1)*n])
	}
}

// bounded computes the bounded functions of z_ic.
func (m *vectorTerms) bounded(w *vectorTermRows, i, c int) {
	z, inv := w.Predictor(i, c), 1/m.zRMS[i*m.p.M+c]
	kernel.Bump(w.bump[:w.n], z, inv)
	kernel.Bend(w.bend[:w.n], z, inv)
}

// fillCorrelation adds to the terms of correlation those of expert i.
func (m *vectorTerms) fillCorrelation(w *vectorTermRows, i int) {
	at, n := m.correlation, w.n
	if at == m.nonlinearity {
		return
	}
	for a := range m.p.M {
		first := w.two[:n]
		kernel.Soft(first, w.Standard(i, a), 1)
		kernel.Mul(first, first, w.Posterior(i))
		for b := range a {
			second := w.three[:n]
			kernel.Soft(second, w.Standard(i, b), 1)
			kernel.AddMul(w.out[at][:n], first, second)
			at++
		}
	}
}

// fillGate writes the terms of the gate.
func (m *vectorTerms) fillGate(w *vectorTermRows, b *model.Block) {
	n := w.n
	gate := m.p.Gate()
	logits := w.logits[:m.p.K*n]
	gate.GateLogits(logits, b)
	per := 3 + 2*m.p.M
	for j := range gate.Gates() {
		diff, at := w.one[:n], m.gate+per*j
		w.GateScore(diff, j)
		copy(w.out[at][:n], diff)
		logit, inv := logits[j*n:(j+1)*n], 1/m.lRMS[j]
		kernel.Bump(w.bump[:n], logit, inv)
		kernel.Bend(w.bend[:n], logit, inv)
		for c := -1; c < m.p.M; c++ {
			if c >= 0 {
				m.bounded(w, j, c)
			}
			kernel.Mul(w.out[at+3+2*c][:n], diff, w.bump[:n])
			kernel.Mul(w.out[at+4+2*c][:n], diff, w.bend[:n])
		}
		of := m.gateGroups + m.gatePairs
		for g := range of {
			kernel.Mul(w.out[m.gateFeatures+of*j+g][:n], diff, w.features.xGate[g*n:(g+1)*n])
		}
	}
}

// neighbours computes what [Neighbours] are of.
func (m *vectorTerms) neighbours(w *vectorTermRows, b *model.Block) {
	n := b.N
	for c := range m.p.M {
		u, held := w.near[c][:n], w.near[m.p.M+c][:n]
		w.near[c], w.near[m.p.M+c] = u, held
		clear(u)
		for i := range m.p.K {
			soft := w.one[:n]
			kernel.Soft(soft, w.Standard(i, c), 1)
			kernel.AddMul(u, soft, w.Posterior(i))
		}
		copy(held, b.Y[c*n:(c+1)*n])
	}
}

// sums returns the sums over the data.
func (m *vectorTerms) sums(ctx context.Context, data model.Rows, workers int) (*RowSums, error) {
	none := func() *RowSums { return newRowSums(m.end, m.p.K, m.p.M) }
	return sumsOf(ctx, data, workers, none, m.newRows, func(w *vectorTermRows, b *model.Block) (blockTerms, error) {
		err := m.fill(ctx, w, b)
		if err == nil {
			m.neighbours(w, b)
		}
		return blockTerms{w.out, w.ones[:b.N], w.Prior, w.Posterior, w.near, w.row, w.products, nil, nil}, err
	})
}

func (m *vectorTerms) drawing() drawing[vectorTermRows] {
	return drawing[vectorTermRows]{m.p.D, m.end, m.newRows,
		func(ctx context.Context, w *vectorTermRows, b *model.Block, experts []int, rng *rand.Rand) (terms [][]float64,
			err error) {
			drawn := *b
			if drawn.Y, err = m.draw(ctx, b, experts, rng); err == nil {
				err = m.fill(ctx, w, &drawn)
			}
			return w.out, err
		}}
}

// draw draws the targets of rows from these experts: M columns.
func (m *vectorTerms) draw(ctx context.Context, b *model.Block, experts []int, rng *rand.Rand) ([]float64, error) {
	means := make([]float64, m.p.K*m.p.M*b.N)
	m.p.Predictors(means, b)
	if err := m.act.Eval(ctx, means, means); err != nil {
		return nil, err
	}
	units := make([][]float64, m.p.K)
	for i := range units {
		units[i] = m.p.NoiseOf(i).Unit()
	}
	y, noise := make([]float64, m.p.M*b.N), make([]float64, m.p.M)
	for r, i := range experts {
		for c, scale := range m.p.NoiseOf(i).Scale {
			noise[c] = scale * rng.NormFloat64()
			for a := range c {
				noise[c] -= units[i][c*m.p.M+a] * noise[a]
			}
			y[c*b.N+r] = means[(i*m.p.M+c)*b.N+r] + noise[c]
		}
	}
	return y, nil
}

// quadratic is [terms.quadratic].
func (m *vectorTerms) quadratic(s *RowSums, c *mat.SymDense, draws float64, along bool) (*quadraticForms,
	[]infer.Untested) {
	m.allowForCoefficients(s)
	q := &quadraticForms{cov: c, sums: s.Terms, n: s.Weight, draws: draws, blocks: m.blocks(), along: along}
	var untested []infer.Untested
	for i, mass := range s.Mass {
		if mass < float64(rowsPerCoefficient*m.coefficients) {
			untested = append(untested, infer.Untested{Expert: i, Rows: mass, Coefficients: m.coefficients})
			q.omit(m.residuals+3*i*m.p.M, 3*m.p.M)
			q.omit(m.nonlinearity+3*i*m.p.M, 3*m.p.M)
		}
	}
	_, gate := m.free.Columns(m.p.Coordinate(0))
	per, of := 3+2*m.p.M, m.gateGroups+m.gatePairs
	for _, j := range q.omitHardGates(m.p.K*m.p.M*m.coefficients, m.p.Gate().Gates(), gateScale(gate, m.xRMS), draws) {
		q.omit(m.gate+per*j, per)
		q.omit(m.gateFeatures+of*j, of)
	}
	q.standardise()
	q.project(0, m.residuals, ridged)
	q.test(infer.ResidualsTest, m.residuals, m.correlation)
	q.test(infer.CorrelationTest, m.correlation, m.nonlinearity)
	q.project(m.residuals, m.nonlinearity, ranked)
	blocks := m.blocks()
	for i, name := range []string{infer.NonlinearityTest, infer.GateTest, infer.GateFeaturesTest, infer.SpreadTest,
		infer.InteractionsTest} {
		q.test(name, blocks[i], blocks[i+1])
	}
	q.nameFeatures(m.p.D, m.pairs, m.gateGroups, m.gatePairs, []int{m.gateFeatures, m.spread, m.interactions, m.end})
	return q, untested
}

// allowForCoefficients is [terms.allowForCoefficients] for every coordinate.
func (m *vectorTerms) allowForCoefficients(s *RowSums) {
	if len(m.p.Noise) > 1 {
		return
	}
	own := float64(m.coefficients)
	for i, mass := range s.Mass {
		excess := mass*own*float64(m.p.K)/s.Weight - min(own, mass)
		for c := range m.p.M {
			at := m.residuals + 3*(i*m.p.M+c)
			s.Terms[at] -= excess * slopeWide
			s.Terms[at+1] -= excess * slopeNarrow
		}
	}
}
