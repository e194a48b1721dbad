package specification

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"
)

// Per-row terms of a fitted model, each of mean 0 given x under it. With r_i the
// posterior, p_i the gate, e_i = (y−g_i)/σ_i, and bounded functions h of x:
//
//	scores              r_i·e_i·g′_i/σ_i·x,  (r_j−p_j)·x,  r_i·(e_i²−1), or ∂/∂log ψ_i of another density, and of
//	                    means c + s·g those of c and s, r_i·e_i/σ_i and r_i·e_i·g/σ_i
//	residuals           r_i·(ψ(e_i) − E ψ(Z)),  ψ = exp(−e²/8), exp(−e²/2), e·exp(−e²/4)
//	nonlinearity        r_i·e_i·h(z_i),  z_i = ⟨a_i,x⟩ + b_i
//	gate                (r_j−p_j)·h(x),  h of its logit and of the expert's z
//	gate features       (r_j−p_j)·h(x_c) for every feature c, h bent, and ·h(x_c)·h(x_l) for every pair c ≤ l
//	heteroscedasticity  Σ_i r_i·(ψ_1(e_i) − E ψ_1(Z))·h(x_c) for every feature c
//	interactions        Σ_i r_i·e_i·h(x_c)·h(x_l) for every pair of features c ≤ l
//
// The ψ stand for He2, He3 and He4: they see the same departures, and being
// bounded they are nearly normal in sum from a hundred rows on, where the
// eighth moments of He4 need tens of thousands.
type terms struct {
	layout
	act     model.Activation
	p       *model.Params
	columns []int            // of an expert's coefficients; D is the column of ones
	psi     [][]float64      // own parameters of the experts
	noise   bool             // σ is free, and the other own parameters with it
	noises  int              // of those that are free
	outputs []loss.Parameter // the free ones of the means c + s·g
}

func newTerms(act model.Activation, p *model.Params, free loss.Free) *terms {
	m := &terms{act: act, p: p, noise: free.Sigma && len(p.Sigma) > 0}
	for i := range p.K {
		m.psi = append(m.psi, p.OwnOf(nil, i))
	}
	expert, gate := free.Columns(p)
	m.columns = expert
	if m.noise {
		m.noises = len(p.Sigma) * (1 + len(p.Own) - free.GivenOwn)
	}
	for h, part := range []model.ParamPart{model.Offset, model.Scale} {
		for i := range p.Offset {
			if h == 0 || !free.FixedScale {
				m.outputs = append(m.outputs, loss.Parameter{Part: part, Index: i, Feature: -1})
			}
		}
	}
	scores := p.K*len(expert) + p.Gates()*len(gate) + m.noises + len(m.outputs)
	m.layout = newLayout(p, free, 1, scores, 0)
	return m
}

// termRows is room for the terms of a block of rows.
type termRows struct {
	*mixture.Posterior
	functions
	cols            [][]float64 // x and ones
	z, g, dg, res   []float64   // k rows of N values: predictors, means, their slopes, residuals
	raw             []float64   // g, where the means are c + s·g
	y               []float64
	logits          []float64 // the gate's predictors
	score, one, two []float64
	near            [][]float64 // u and y of [infer.Neighbours], and room for a row of them
	out             [][]float64
	under           [][]float64 // 2k: see fillUnder
	shared          *sharing    // of rows in groups; nil where each has its own expert
}

func (m *terms) newRows() *termRows {
	const n = model.BlockRows
	kn := func() []float64 { return make([]float64, m.p.Classes()*n) }
	w := &termRows{
		Posterior: mixture.NewPosterior(mixture.Mixture{}, m.p.K), functions: m.newFunctions(),
		z: kn(), g: kn(), dg: kn(), res: kn(), raw: kn(), logits: kn(),
		y: make([]float64, n), score: make([]float64, n), one: make([]float64, n), two: make([]float64, n),
		cols: make([][]float64, m.p.D+1), out: make([][]float64, m.at[atEnd]),
	}
	w.near = [][]float64{make([]float64, n), make([]float64, n), make([]float64, 2), make([]float64, 1)}
	columns(w.out)
	if m.slopes() {
		w.under = make([][]float64, 2*m.p.K)
		columns(w.under)
	}
	return w
}

// columns makes them as long as a block.
func columns(of [][]float64) {
	const n = model.BlockRows
	store := make([]float64, len(of)*n)
	for i := range of {
		of[i] = store[i*n : (i+1)*n]
	}
}

// given computes what depends on x alone.
func (m *terms) given(ctx context.Context, w *termRows, b *model.Block) error {
	kn := m.p.K * b.N
	for j := range m.p.D {
		w.cols[j] = b.Col(j)
	}
	w.cols[m.p.D] = w.ones[:b.N]
	w.Given(m.p, b)
	m.p.Predictors(w.z[:kn], b)
	if err := m.act.Eval(ctx, w.g[:kn], w.z[:kn]); err != nil {
		return err
	}
	if err := m.act.Deriv(ctx, w.dg[:kn], w.z[:kn]); err != nil {
		return err
	}
	if m.p.HasOutput() {
		copy(w.raw, w.g[:kn])
		m.p.Means(w.g[:kn])
		m.p.Slopes(w.dg[:kn])
	}
	m.p.GateLogits(w.logits, b)
	w.functions.given(&m.layout, b, func(i int) []float64 { return w.z[i*b.N : (i+1)*b.N] }, w.logits)
	return nil
}

// fill writes the terms of targets y to w.out.
func (m *terms) fill(w *termRows, y []float64) {
	m.posterior(w, y)
	n, k := w.N, m.p.K
	at, noiseAt := 0, k*m.coefficients+m.p.Gates()*len(m.gate)
	if m.noise {
		for i := range m.noises {
			w.NoiseScore(w.out[noiseAt+i][:n], i%len(m.p.Sigma), i/len(m.p.Sigma))
		}
	}
	outputs := w.out[m.at[atResiduals]-len(m.outputs):]
	for o := range m.outputs {
		clear(outputs[o][:n])
	}
	for g := range m.groups {
		clear(w.out[m.at[atHeteroscedasticity]+g][:n])
	}
	all := w.two[:n] // Σ r_i·e_i
	clear(all)
	for i := range k {
		score := w.score[:n]
		m.fillShape(w, y, i)
		w.Standardised(score, i)
		floats.Add(all, score)
		m.fillMeans(w.out, &w.functions, score, i, 0)
		inv := 1 / w.ScaleOf(i)
		w.MeanScore(score, i)
		for o, q := range m.outputs {
			if q.Index != i && len(m.p.Offset) > 1 {
				continue
			}
			if q.Part == model.Offset {
				floats.AddScaled(outputs[o][:n], inv, score)
				continue
			}
			for t, g := range w.raw[i*n : (i+1)*n] {
				outputs[o][t] += inv * score[t] * g
			}
		}
		for t, dg := range w.dg[i*n : (i+1)*n] {
			score[t] *= dg * inv
		}
		for _, j := range m.columns {
			kernel.Mul(w.out[at][:n], score, w.cols[j])
			at++
		}
	}
	for g := range m.pairs {
		kernel.Mul(w.out[m.at[atInteractions]+g][:n], all, w.xPairs[g*n:(g+1)*n])
	}
	for j := range m.p.Gates() {
		diff := w.score[:n]
		w.GateScore(diff, j)
		for _, c := range m.gate {
			kernel.Mul(w.out[at][:n], diff, w.cols[c])
			at++
		}
		m.fillGate(w.out, &w.functions, diff, j)
	}
}

// posterior computes e_i and r_i of targets y.
func (m *terms) posterior(w *termRows, y []float64) {
	n := w.N
	if w.shared != nil {
		w.Densities(w.shared.logf[:m.p.K*n], y, m.residuals(w, y))
		w.Share(w.shared.posts, w.shared.at[:n], w.shared.speaks[:n])
		return
	}
	if !mixture.Normal(w.Density) {
		w.ObserveMeans(y, w.g[:m.p.K*n])
		return
	}
	w.Observe(m.residuals(w, y), 0)
}

// residuals are those of targets y of normal noise, K rows of N values; of other densities the means.
func (m *terms) residuals(w *termRows, y []float64) []float64 {
	n := w.N
	if !mixture.Normal(w.Density) {
		return w.g[:m.p.K*n]
	}
	for i := range m.p.K {
		kernel.Sub(w.res[i*n:(i+1)*n], y, w.g[i*n:(i+1)*n])
	}
	return w.res[:m.p.K*n]
}

// neighbours computes what [infer.Neighbours] are of, of the targets whose terms are filled in.
func (m *terms) neighbours(w *termRows, y []float64) {
	n := w.N
	u, held := w.near[0][:n], w.near[1][:n]
	w.near[0], w.near[1] = u, held
	clear(u)
	lo, hi := w.one[:n], w.two[:n]
	for t := range n {
		lo[t], hi[t] = math.Inf(1), math.Inf(-1)
	}
	for i := range m.p.K {
		room := w.score[:n]
		if mixture.Normal(w.Density) {
			kernel.Soft(room, w.StdOf(i), 1)
			kernel.AddMul(u, room, w.PostOf(i))
		} else { // h is e·exp(−e²/4), whose mean is 0 whatever the density
			floats.Add(u, w.out[m.at[atResiduals]+3*i+2][:n])
		}
		w.Spread(room, i)
		for t, g := range w.g[i*n : (i+1)*n] {
			reach := 3 * room[t]
			lo[t], hi[t] = min(lo[t], g-reach), max(hi[t], g+reach)
		}
	}
	for t, y := range y {
		held[t] = min(max(y, lo[t]), hi[t])
	}
}

var (
	meanWide   = 1 / math.Sqrt(1.25) // E exp(−Z²/8)
	meanNarrow = 1 / math.Sqrt2      // E exp(−Z²/2)
	// The derivatives of E exp(−s²Z²/8) and E exp(−s²Z²/2) by s² at 1.
	slopeWide   = -1 / (8 * math.Pow(1.25, 1.5))
	slopeNarrow = -1 / (2 * math.Pow(2, 1.5))
)

// fillShape writes the terms of expert i that depend on the residual's shape,
// and adds to those of heteroscedasticity.
func (m *terms) fillShape(w *termRows, y []float64, i int) {
	out := w.out[m.at[atResiduals]+3*i:]
	var wide []float64
	if mixture.Normal(w.Density) {
		wide = shape(out, w.one, w.StdOf(i), w.PostOf(i))
	} else {
		wide = shapeUnder(w.Density, out, w.one, w.PostOf(i), y, w.g[i*w.N:(i+1)*w.N], m.psi[i])
	}
	m.addSpread(w.out, &w.functions, wide, 0)
}

// shape writes the terms r·ψ(e) of a residual's shape to the first three columns of out and
// returns the first, r·(exp(−e²/8) − its mean). Room is for as many values as there are rows.
func shape(out [][]float64, room, e, r []float64) []float64 {
	n := len(r)
	wide, narrow, skew, squares := out[0][:n], out[1][:n], out[2][:n], room[:n]
	for t, e := range e {
		squares[t] = -e * e / 8
	}
	kernel.Exp(wide, squares)
	for t, r := range r {
		e, v := e[t], wide[t]
		v2 := v * v
		wide[t], narrow[t], skew[t] = r*(v-meanWide), r*(v2*v2-meanNarrow), r*e*v2
	}
	return wide
}

// shapeUnder is shape of a density other than the normal one: ψ of the quantile residual e = Φ⁻¹(F(y)), which is N(0,1)
// (Dunn & Smyth 1996). Where y takes whole numbers its probability F(y) − F(y−1) goes over all e between, and ψ is
// their mean, so that that of the term is 0 in any case.
func shapeUnder(law mixture.Density, out [][]float64, room, r, y, mean, psi []float64) []float64 {
	const (
		farthest   = 8     // where ψ is 0 but for rounding
		negligible = 1e-12 // what r is not seen below beside the terms of other rows; F is dear
		leastMass  = 1e-9  // below it differences of F have few digits, and ψ hardly differs between
	)
	n := len(r)
	e, upto, mass := make([]float64, n), make([]float64, n), make([]float64, n) // e, F(y), F(y) − F(y−1)
	normal := func(q float64) float64 { return min(max(distuv.UnitNormal.Quantile(q), -farthest), farthest) }
	if law.Domain().Whole {
		law.LogDensity(mass, upto, y, mean, psi)
		kernel.Exp(mass, mass)
	}
	for t, v := range y {
		if r[t] < negligible {
			e[t], mass[t] = farthest, 0
			continue
		}
		upto[t] = mixture.OfRow(law, t).CDF(v, mean[t], psi)
		if mass[t] <= leastMass {
			e[t] = normal((max(0, upto[t]-mass[t]) + upto[t]) / 2)
		}
	}
	wide := shape(out, room, e, r)
	for t, mass := range mass {
		if mass <= leastMass {
			continue
		}
		lo, hi := normal(max(0, upto[t]-mass)), normal(upto[t])
		between := func(c float64) float64 { // ∫ exp(−(c²−1)e²/2)·φ(e) de
			return (distuv.UnitNormal.CDF(c*hi) - distuv.UnitNormal.CDF(c*lo)) / (c * mass)
		}
		ends := math.Exp(-0.75*lo*lo) - math.Exp(-0.75*hi*hi)
		out[0][t] = r[t] * (between(math.Sqrt(1.25)) - meanWide)
		out[1][t] = r[t] * (between(math.Sqrt2) - meanNarrow)
		out[2][t] = r[t] * ends / (1.5 * math.Sqrt(2*math.Pi) * mass)
	}
	return wide
}

// Squares are the sums of the squares of what the bounded functions are taken of. Rows is the sum of the weights.
type Squares struct {
	Rows         float64
	Z, Logits, X []float64 // of the experts' predictors, of the gate's logits, of the features
}

// Like returns those of no rows.
func (s *Squares) Like() *Squares {
	return &Squares{Z: make([]float64, len(s.Z)), Logits: make([]float64, len(s.Logits)), X: make([]float64, len(s.X))}
}

// Merge adds those of other rows.
func (s *Squares) Merge(o *Squares) {
	s.Rows += o.Rows
	floats.Add(s.Z, o.Z)
	floats.Add(s.Logits, o.Logits)
	floats.Add(s.X, o.X)
}

// squares returns those of rows.
func (m *terms) squares(ctx context.Context, rows model.Rows) (*Squares, error) {
	return squaresOf(ctx, rows, m.p, m.p.K, m.p.Predictors)
}

// squaresOf returns those of rows under the gate of p, with so many predictors.
func squaresOf(ctx context.Context, rows model.Rows, p *model.Params, predictors int,
	predict func(dst []float64, b *model.Block)) (*Squares, error) {
	out := &Squares{Z: make([]float64, predictors), Logits: make([]float64, p.K), X: make([]float64, p.D)}
	values := make([]float64, max(predictors, p.Classes())*model.BlockRows)
	weighted := make([]float64, model.BlockRows)
	add := func(dst, values []float64, b *model.Block) {
		for i := range dst {
			v := values[i*b.N : (i+1)*b.N]
			of := v
			if w := b.Role[model.Weights]; w != nil {
				of = floats.MulTo(weighted[:b.N], v, w)
			}
			dst[i] += floats.Dot(of, v)
		}
	}
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		predict(values[:predictors*b.N], b)
		add(out.Z, values, b)
		p.GateLogits(values, b)
		add(out.Logits, values, b)
		add(out.X, b.X, b)
		for r := range b.N {
			out.Rows += b.Weight(r)
		}
		return nil
	})
	return out, err
}

// rms are the roots of the means of squares that add up to sums over rows; 1 where they are 0.
func rms(sums []float64, rows float64) []float64 {
	out := make([]float64, len(sums))
	for i, sum := range sums {
		if out[i] = math.Sqrt(sum / rows); !(out[i] > 0) {
			out[i] = 1
		}
	}
	return out
}

// gateScale is the rms of what a gate's coefficients are of, given that of the features.
func gateScale(columns []int, rms []float64) []float64 {
	out := make([]float64, len(columns))
	for i, c := range columns {
		out[i] = 1
		if c < len(rms) {
			out[i] = rms[c]
		}
	}
	return out
}
