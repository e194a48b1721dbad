package specification

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

type identity struct{}

func (identity) Eval(_ context.Context, dst, z []float64) error { copy(dst, z); return nil }

func (identity) Deriv(_ context.Context, dst, z []float64) error {
	for i := range z {
		dst[i] = 1
	}
	return nil
}

// softsign is a curved nonlinearity with g(z) = z/(1+|z|).
type softsign struct{}

func (softsign) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = v / (1 + math.Abs(v))
	}
	return nil
}

func (softsign) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 1 / ((1 + math.Abs(v)) * (1 + math.Abs(v)))
	}
	return nil
}

// twoExperts returns n rows of features, with targets drawn from p, and p: two
// experts with overlapping densities, intercepts and noise of their own.
func twoExperts(t *testing.T, n int, act model.Activation) (*model.Data, *model.Params) {
	t.Helper()
	p := model.NewParams(3, 3)
	copy(p.Regressors, []float64{1, 0.5, 0, -1, 0.2, 0, 0, 1, -2})
	copy(p.Gating, []float64{0.5, 0, 1, -0.3, 0.4, 0})
	p.RegressorIntercepts, p.GatingIntercepts = []float64{0.3, -0.2, 1}, []float64{0.5, -0.5}
	p.Sigma = []float64{0.2, 0.3, 0.5}
	return drawn(t, n, act, p), p
}

// drawn returns n rows of features, with targets drawn from p.
func drawn(t *testing.T, n int, act model.Activation, p *model.Params) *model.Data {
	t.Helper()
	data := &model.Data{D: p.D}
	rng := rand.New(rand.NewPCG(5, 5))
	m := newTerms(act, p, loss.All)
	for data.N < n {
		b := model.Block{N: min(model.BlockRows, n-data.N)}
		b.X, b.Y = make([]float64, b.N*p.D), make([]float64, b.N)
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		data.Blocks = append(data.Blocks, b)
		data.N += b.N
	}
	measure(t, m, data)
	w := m.newRows()
	for i := range data.Blocks {
		if err := m.given(t.Context(), w, &data.Blocks[i]); err != nil {
			t.Fatal(err)
		}
		for r := range w.N {
			u, z := rng.Float64(), 0
			for u -= w.PriorOf(z)[r]; u >= 0 && z < p.K-1; u -= w.PriorOf(z)[r] {
				z++
			}
			data.Blocks[i].Y[r] = w.g[z*w.N+r] + p.Sigma[z]*rng.NormFloat64()
		}
	}
	return data
}

// TestTermsHaveMeanZero: under the model the mean of every term given x is 0,
// at each of a few x, by integration over y with the density of the mixture.
func TestTermsHaveMeanZero(t *testing.T) {
	data, p := twoExperts(t, 5, softsign{})
	m := newTerms(softsign{}, p, loss.All)
	measure(t, m, data)
	for r := range data.N {
		// One x in every row of a block, y on a grid: the trapezoidal rule is exact
		// to rounding for smooth integrands that vanish at both ends.
		const half, steps = 12.0, 20000
		sums := make([]float64, m.at[atEnd])
		density := 0.0
		w := m.newRows()
		for from := 0; from < steps; from += model.BlockRows {
			n := min(model.BlockRows, steps-from)
			b := model.Block{N: n, X: make([]float64, n*p.D), Y: make([]float64, n)}
			for i := range n {
				for j := range p.D {
					b.X[j*n+i] = data.Blocks[0].Col(j)[r]
				}
				b.Y[i] = half * (2*float64(from+i)/steps - 1)
			}
			if err := m.given(t.Context(), w, &b); err != nil {
				t.Fatal(err)
			}
			m.fill(w, b.Y)
			f := mixtureDensity(t, p, w, b.Y)
			density += floats.Sum(f)
			for c := range sums {
				sums[c] += floats.Dot(w.out[c][:n], f)
			}
		}
		const h = 2 * half / steps
		if math.Abs(density*h-1) > 1e-10 {
			t.Fatalf("the density integrates to %v", density*h)
		}
		for c, v := range sums {
			if math.Abs(v*h) > 1e-10 {
				t.Errorf("row %d, term %d: mean %.3g given x", r, c, v*h)
			}
		}
	}
}

// mixtureDensity returns the density of y given the x of w.
func mixtureDensity(t *testing.T, p *model.Params, w *termRows, y []float64) []float64 {
	t.Helper()
	out := make([]float64, len(y))
	for r := range out {
		for i := range p.K {
			e := (y[r] - w.g[i*w.N+r]) / p.Sigma[i]
			out[r] += w.Prior[i*w.N+r] * math.Exp(-e*e/2) / (p.Sigma[i] * math.Sqrt(2*math.Pi))
		}
	}
	return out
}

// TestScoresAreTheGradient: the first terms add up to minus the gradient of the
// likelihood, in its order, with noise per expert and shared, some columns and
// weights.
func TestScoresAreTheGradient(t *testing.T) {
	for name, change := range map[string]func(*model.Data, *model.Params, *loss.Free){
		"all":          func(*model.Data, *model.Params, *loss.Free) {},
		"shared noise": func(_ *model.Data, p *model.Params, _ *loss.Free) { p.Sigma = p.Sigma[:1] },
		"fixed noise":  func(_ *model.Data, _ *model.Params, f *loss.Free) { f.Sigma = false },
		"columns": func(_ *model.Data, _ *model.Params, f *loss.Free) {
			f.ExpertColumns, f.GateColumns = []int{0, 2}, []int{1}
		},
		"no intercepts": func(_ *model.Data, p *model.Params, _ *loss.Free) {
			p.RegressorIntercepts, p.GatingIntercepts = nil, nil
		},
		"with weights":   weigh,
		"moved from top": func(_ *model.Data, p *model.Params, _ *loss.Free) { p.Regressors[0] += 0.5 },
	} {
		t.Run(name, func(t *testing.T) {
			data, p := twoExperts(t, 700, softsign{})
			free := loss.All
			change(data, p, &free)
			m := newTerms(softsign{}, p, free)
			measure(t, m, data)
			sums, err := m.sums(t.Context(), data, 2)
			if err != nil {
				t.Fatal(err)
			}
			got := sums.Terms
			l := loss.NewLikelihood(data, softsign{}, p, free, 1)
			want := make([]float64, l.Dim())
			if _, err := l.Grad(t.Context(), want, l.Theta(p)); err != nil {
				t.Fatal(err)
			}
			if m.at[atResiduals] != l.Dim() {
				t.Fatalf("%d scores for %d parameters", m.at[atResiduals], l.Dim())
			}
			for i, v := range want {
				// Sums of 700 terms of order 1.
				if math.Abs(got[i]+v*l.Rows()) > 1e-9 {
					t.Errorf("score %d = %v, want %v", i, got[i], -v*l.Rows())
				}
			}
		})
	}
}

func weigh(data *model.Data, _ *model.Params, _ *loss.Free) {
	for i := range data.Blocks {
		b := &data.Blocks[i]
		b.Role[model.Weights] = make([]float64, b.N)
		for r := range b.Role[model.Weights] {
			b.Role[model.Weights][r] = float64(r % 4)
		}
	}
}

// TestTestsDoNotDependOnWorkers, and use random numbers of the seed alone.
func TestTestsDoNotDependOnWorkers(t *testing.T) {
	data, p := twoExperts(t, 5000, softsign{})
	run := func(seed uint64, workers int) []infer.Test {
		tested, err := Tests(t.Context(), data, softsign{}, p, loss.All, seed, workers)
		if err != nil {
			t.Fatal(err)
		}
		return tested.Tests
	}
	want := run(1, 1)
	for _, workers := range []int{2, 7} {
		if got := run(1, workers); !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers: %v, want %v", workers, got, want)
		}
	}
	if reflect.DeepEqual(run(2, 1), want) {
		t.Error("another seed gives the same statistics")
	}
}

// TestDegreesOfFreedom: terms that are scores themselves do not count. A linear
// expert's r·e is the score of its intercept, and r_j−p_j that of the gate's.
func TestDegreesOfFreedom(t *testing.T) {
	data, p := twoExperts(t, 3000, identity{})
	p.Sigma = p.Sigma[:1]
	dfs := func() []int {
		tested, err := Tests(t.Context(), data, identity{}, p, loss.All, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var out []int
		for _, x := range tested.Tests {
			out = append(out, x.DF)
		}
		return out
	}
	if got, want := dfs(), []int{9, 6, 8, 18, 3, 6, 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("with intercepts: degrees of freedom %v, want %v", got, want)
	}
	p.RegressorIntercepts, p.GatingIntercepts = nil, nil
	if got, want := dfs(), []int{9, 9, 10, 18, 3, 6, 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("without: degrees of freedom %v, want %v", got, want)
	}
}

func TestTooManyTerms(t *testing.T) {
	data := &model.Data{N: 1, D: 600, Blocks: []model.Block{{N: 1, X: make([]float64, 600), Y: []float64{1}}}}
	p := model.NewParams(2, 600)
	p.Sigma[0] = 1
	if _, err := Tests(t.Context(), data, identity{}, p, loss.All, 1, 1); err == nil {
		t.Error("1,800 parameters pass")
	}
}

// rare returns data of the mixture p of which the first expert has about so many
// of n rows.
func rare(t *testing.T, n int, share float64) (*model.Data, *model.Params) {
	t.Helper()
	_, p := twoExperts(t, 1, identity{})
	p.Gating = make([]float64, len(p.Gating))
	p.GatingIntercepts = []float64{math.Log(2 * share / (1 - share)), 0}
	return drawn(t, n, identity{}, p), p
}

// TestSampleGivesRareExpertsTheirDraws: an expert rarer than 1/k has as many
// draws as one of that proportion, and the weights make up for it: those of its
// draws add up to its proportion. Every block is drawn from systematically, which
// leaves an error of less than one draw for each.
func TestSampleGivesRareExpertsTheirDraws(t *testing.T) {
	const wanted, share, k = 9000, 0.004, 3
	data, p := rare(t, 5000, share)
	m := newTerms(identity{}, p, loss.All)
	measure(t, m, data)
	for name, weighted := range map[string]bool{"": false, "weights": true} {
		if weighted {
			weigh(data, p, nil)
		}
		sums, err := m.sums(t.Context(), data, 2)
		if err != nil {
			t.Fatal(err)
		}
		s, err := sample(t.Context(), data, m.p, 0, wanted, sums, 1, 2)
		if err != nil {
			t.Fatal(err)
		}
		count, weight := make([]float64, k), make([]float64, k)
		for r, i := range s.Expert {
			count[i]++
			weight[i] += s.Weight[r]
		}
		blocks := float64(len(data.Blocks))
		for i, want := range []float64{share, (1 - share) / 2, (1 - share) / 2} {
			if math.Abs(count[i]-wanted*max(want, 1./k)) > blocks {
				t.Errorf("%s expert %d: %v draws, want %v", name, i, count[i], wanted*max(want, 1./k))
			}
			if math.Abs(weight[i]-wanted*want) > blocks {
				t.Errorf("%s expert %d: draws of weight %v, want %v", name, i, weight[i], wanted*want)
			}
		}
	}
}

// TestCovarianceOfRareExperts: the variance of every term of an expert with 0.4 %
// of the rows against integrals over y at each x. From 13,000 draws of it, of
// terms with a kurtosis of at most 15, a variance has a standard error of
// 3.3 %; drawn at its share it would have had 160 draws, and ten times that.
func TestCovarianceOfRareExperts(t *testing.T) {
	data, p := rare(t, 200, 0.004)
	m := newTerms(identity{}, p, loss.All)
	measure(t, m, data)
	sums, err := m.sums(t.Context(), data, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sample(t.Context(), data, m.p, 0, 40000, sums, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	got, err := covarianceOf(t.Context(), &rowTargets[termRows]{drawing: m.drawing(), drawn: s, seed: 1, workers: 1}, 1, m.at[atNonlinearity:])
	if err != nil {
		t.Fatal(err)
	}
	want := integrated(t, data, p, m, func(w *termRows, f, dst []float64) {
		for c := range dst {
			for r, v := range w.out[c][:w.N] {
				dst[c] += f[r] * v * v
			}
		}
	})
	for c, v := range want {
		v /= float64(data.N)
		if math.Abs(got.At(c, c)/v-1) > 0.15 {
			t.Errorf("term %d: variance %v, want %v", c, got.At(c, c), v)
		}
	}
}

// integrated returns integrals over y, with the density of the mixture, of what
// add adds of the terms at a grid of y with the density f there: the sums over the
// rows.
func integrated(t *testing.T, data *model.Data, p *model.Params, m *terms, add func(w *termRows, f, dst []float64)) []float64 {
	t.Helper()
	// The trapezoidal rule is exact to rounding for smooth integrands that vanish
	// at both ends.
	const half, steps = 14.0, 4 * model.BlockRows
	out := make([]float64, m.at[atEnd])
	w := m.newRows()
	for i := range data.Blocks {
		from := &data.Blocks[i]
		for r := range from.N {
			for lo := 0; lo < steps; lo += model.BlockRows {
				b := model.Block{N: model.BlockRows, X: make([]float64, p.D*model.BlockRows), Y: make([]float64, model.BlockRows)}
				for s := range b.N {
					for j := range p.D {
						b.X[j*b.N+s] = from.Col(j)[r]
					}
					b.Y[s] = half * (2*float64(lo+s)/steps - 1)
				}
				if err := m.given(t.Context(), w, &b); err != nil {
					t.Fatal(err)
				}
				m.fill(w, b.Y)
				f := mixtureDensity(t, p, w, b.Y)
				floats.Scale(2*half/steps, f)
				add(w, f, out)
			}
		}
	}
	return out
}

// TestFewRowsAreNotTested: an expert with fewer than two rows for a coefficient
// is named, and its terms do not count among the degrees of freedom.
func TestFewRowsAreNotTested(t *testing.T) {
	for _, c := range []struct {
		share    float64
		last     bool // the rare expert stands last
		untested []int
		df       int // of the residuals; in the first a test is in doubt, and a direction that few rows make is left out
	}{{0.5, false, nil, 8}, {0.0003, false, []int{0}, 6}, {0.0003, true, []int{2}, 6}} {
		data, p := rare(t, 2000, c.share)
		if c.last {
			p = p.Relabel([]int{2, 0, 1})
		}
		tested, err := Tests(t.Context(), data, identity{}, p, loss.All, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var experts []int
		for _, u := range tested.Untested {
			experts = append(experts, u.Expert)
			if u.Coefficients != 4 || !(u.Rows > 0 && u.Rows < 8) {
				t.Errorf("share %v: %+v", c.share, u)
			}
		}
		if !reflect.DeepEqual(experts, c.untested) || tested.Tests[0].DF != c.df {
			t.Errorf("share %v: untested %v, %d degrees of freedom, want %v, %d", c.share, experts, tested.Tests[0].DF, c.untested, c.df)
		}
	}
}

// TestSharedNoiseAllowsForCoefficients: with a shared σ the mean of the shape's
// terms is that of residuals whose coefficients were estimated, an expert of few
// rows losing the most. Least squares fits of 6 coefficients to 24 and 240 rows,
// 2,000 times: what is left is less than a quarter of what is taken off.
func TestSharedNoiseAllowsForCoefficients(t *testing.T) {
	const d, few, many, times = 6, 24, 240, 2000
	rng := rand.New(rand.NewPCG(3, 3))
	p := model.NewParams(2, d)
	p.Regressors[0], p.Regressors[d] = 1, -1
	m := newTerms(identity{}, p, loss.All)
	mean, allowed := make([]float64, 6), make([]float64, 6)
	for range times {
		rss, terms := 0.0, make([]float64, 0, 6)
		var residuals [2][]float64
		for i, n := range []int{few, many} {
			residuals[i] = leastSquaresResiduals(t, n, d, rng)
			rss += floats.Dot(residuals[i], residuals[i])
		}
		sigma := math.Sqrt(rss / (few + many))
		for _, all := range residuals {
			var wide, narrow, skew float64
			for _, e := range all {
				e /= sigma
				wide += math.Exp(-e*e/8) - meanWide
				narrow += math.Exp(-e*e/2) - meanNarrow
				skew += e * math.Exp(-e*e/4)
			}
			terms = append(terms, wide, narrow, skew)
		}
		floats.Add(mean, terms)
		s := m.newSums()
		copy(s.Terms[m.at[atResiduals]:], terms)
		s.Mass, s.Weight = []float64{few, many}, few+many
		m.allowForCoefficients(s)
		floats.Add(allowed, s.Terms[m.at[atResiduals]:m.at[atNonlinearity]])
	}
	for _, i := range []int{0, 1, 3, 4} {
		before, after := mean[i]/times, allowed[i]/times
		if math.Abs(before) < 0.2 || math.Abs(after) > math.Abs(before)/4 {
			t.Errorf("term %d: mean %.3f, %.3f allowing for the coefficients", i, before, after)
		}
	}
}

// leastSquaresResiduals returns those of noise regressed on d random features.
func leastSquaresResiduals(t *testing.T, n, d int, rng *rand.Rand) []float64 {
	t.Helper()
	x, y := mat.NewDense(n, d, nil), mat.NewVecDense(n, nil)
	for r := range n {
		for j := range d {
			x.Set(r, j, rng.NormFloat64())
		}
		y.SetVec(r, rng.NormFloat64())
	}
	var coef, fit mat.VecDense
	if err := coef.SolveVec(x, y); err != nil {
		t.Fatal(err)
	}
	fit.MulVec(x, &coef)
	y.SubVec(y, &fit)
	return y.RawVector().Data
}

// measure sets the scales of the bounded functions by these rows.
func measure(t *testing.T, m *terms, data *model.Data) {
	t.Helper()
	squares, err := m.squares(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	m.scale(squares)
}

// TestTermsAreOfTheirExperts: the bounded functions of predictors, logits and features are of each one's own values in units of its own rms,
// and with the names of two experts exchanged their terms are exchanged and nothing else.
func TestTermsAreOfTheirExperts(t *testing.T) {
	data, p := twoExperts(t, 300, softsign{})
	for i := range data.Blocks { // features in units of 1, 3 and 9
		b := &data.Blocks[i]
		for j := range p.D {
			floats.Scale(math.Pow(3, float64(j)), b.X[j*b.N:(j+1)*b.N])
		}
	}
	perm := []int{1, 0, 2}
	termsOf := func(p *model.Params) (*terms, *termRows) {
		m := newTerms(softsign{}, p, loss.All)
		measure(t, m, data)
		w := m.newRows()
		b := &data.Blocks[0]
		if err := m.given(t.Context(), w, b); err != nil {
			t.Fatal(err)
		}
		m.fill(w, b.Y)
		return m, w
	}
	m, w := termsOf(p)
	rms := func(of func(b *model.Block) []float64) float64 {
		sum := 0.0
		for i := range data.Blocks {
			v := of(&data.Blocks[i])
			sum += floats.Dot(v, v)
		}
		return math.Sqrt(sum / float64(data.N))
	}
	b, n := &data.Blocks[0], data.Blocks[0].N
	want := make([]float64, n)
	for i := range p.K {
		z := func(b *model.Block) []float64 {
			all := make([]float64, p.K*b.N)
			p.Predictors(all, b)
			return all[i*b.N : (i+1)*b.N]
		}
		if kernel.Bump(want, z(b), 1/rms(z)); !floats.EqualApprox(want, w.zBump[i*n:(i+1)*n], 1e-12) {
			t.Errorf("bumps of expert %d's predictor are others", i)
		}
		if kernel.Bend(want, z(b), 1/rms(z)); !floats.EqualApprox(want, w.zBend[i*n:(i+1)*n], 1e-12) {
			t.Errorf("bends of expert %d's predictor are others", i)
		}
	}
	for j := range p.D {
		x := func(b *model.Block) []float64 { return b.Col(j) }
		if kernel.Soft(want, b.Col(j), 1/rms(x)); !floats.EqualApprox(want, w.xSoft[j*n:(j+1)*n], 1e-12) {
			t.Errorf("softened feature %d is another", j)
		}
	}
	m2, w2 := termsOf(p.Relabel(perm))
	if m2.at != m.at {
		t.Fatalf("places %v and %v", m2.at, m.at)
	}
	for i, to := range perm {
		for part, each := range map[int]int{atNonlinearity: 3, atGate: 5, atGateFeatures: m.gateGroups + m.gatePairs} {
			for c := range each {
				if part != atNonlinearity && i == p.K-1 { // the last has no gate
					continue
				}
				a, b := w.out[m.at[part]+each*i+c][:n], w2.out[m.at[part]+each*to+c][:n]
				if !floats.EqualApprox(a, b, 1e-12) {
					t.Errorf("term %d of part %d: expert %d's is not that of expert %d renamed", c, part, to, i)
				}
			}
		}
	}
}

// TestTermsOfDrawsAreKept: a second pass over several targets of each row drawn is over the same terms, and draws none.
func TestTermsOfDrawsAreKept(t *testing.T) {
	data, p := rare(t, 200, 0.1)
	m := newTerms(identity{}, p, loss.All)
	measure(t, m, data)
	sums, err := m.sums(t.Context(), data, 1)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := sample(t.Context(), data, m.p, 0, 1000, sums, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	var filled atomic.Int64
	pass := func(of *rowTargets[termRows], times int) *mat.SymDense {
		c, err := covarianceOf(t.Context(), of, times, m.at[atNonlinearity:])
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	counting := func(workers int) *rowTargets[termRows] {
		of := &rowTargets[termRows]{drawing: m.drawing(), drawn: drawn, seed: 1, workers: workers}
		fill := of.fill
		of.fill = func(ctx context.Context, w *termRows, b *model.Block, experts []int, rng *rand.Rand) ([][]float64, error) {
			filled.Add(1)
			return fill(ctx, w, b, experts, rng)
		}
		return of
	}
	of := counting(2)
	first := pass(of, 3)
	drew := filled.Load()
	if drew == 0 || !mat.Equal(pass(of, 3), first) || filled.Load() != drew {
		t.Errorf("%d blocks were drawn in a first pass and %d more in a second", drew, filled.Load()-drew)
	}
	if !mat.Equal(pass(of, 1), pass(counting(1), 1)) || !mat.Equal(pass(counting(1), 3), first) {
		t.Error("other passes differ from those of targets of which none are kept")
	}
}

// TestHeld: a test that does not depend on the noise's shape holds as long as little may be added to it.
func TestHeld(t *testing.T) {
	for _, c := range []struct {
		robust         bool
		overlap, shape float64
		want           bool
	}{{true, 0, 1e6, true}, {true, 0.3, 7, true}, {true, 0.3, 300, false}, {false, 0, 0, false}} {
		tests := []infer.Test{{Name: infer.ResidualsTest, Statistic: c.shape, DF: 0}, {Name: infer.GateTest, Robust: c.robust}}
		allowForNoise(tests, c.overlap)
		if got := tests[1].Held(); got != c.want {
			t.Errorf("%+v: held %v", c, got)
		}
	}
}
