package gain

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
)

// drawn are n rows of k lines over d features, with weights of 1, and the truth.
func drawn(seed uint64, n, k, d int, intercept bool, sigma float64) (*model.Data, *model.Params) {
	rng := rand.New(rand.NewPCG(seed, 1))
	p := model.NewParams(k, d)
	p.GatingIntercepts = make([]float64, k-1)
	if intercept {
		p.RegressorIntercepts = make([]float64, k)
		for i := range k {
			p.RegressorIntercepts[i] = rng.NormFloat64()
		}
	}
	for i := range p.Regressors {
		p.Regressors[i] = rng.NormFloat64()
	}
	p.Sigma[0] = sigma
	data := &model.Data{N: n, D: d}
	for from := 0; from < n; from += model.BlockRows {
		rows := min(model.BlockRows, n-from)
		b := model.Block{N: rows, X: make([]float64, rows*d), Y: make([]float64, rows)}
		for r := range rows {
			i := rng.IntN(k)
			if intercept {
				b.Y[r] = p.RegressorIntercepts[i]
			}
			for j := range d {
				b.X[j*rows+r] = rng.NormFloat64()
				b.Y[r] += p.Regressor(i)[j] * b.X[j*rows+r]
			}
			b.Y[r] += sigma * rng.NormFloat64()
		}
		data.Blocks = append(data.Blocks, b)
	}
	return data, p
}

func tableOf(t *testing.T, data model.Rows, p *model.Params) *table {
	t.Helper()
	table, err := newTable(t.Context(), data, p, loss.All)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func boundOf(t *testing.T, data model.Rows, p *model.Params, budget int) *Bound {
	t.Helper()
	g, err := BoundOf(t.Context(), data, p, loss.All, budget)
	if err != nil {
		t.Fatal(err)
	}
	if math.IsNaN(g.Upper) || g.Lower > g.Upper || g.Upper > g.Derivative+1e-6*(1+g.Derivative) {
		t.Errorf("gains %.4g to %.4g, derivative %.4g", g.Lower, g.Upper, g.Derivative)
	}
	return g
}

// logLikelihood is that of experts in the units of the rows, written down as it is, and the log-density of every row.
func logLikelihood(data *model.Data, pi []float64, theta [][]float64, intercept bool, sigma float64) (sum float64, each [][]float64) {
	for _, b := range data.Blocks {
		for r := range b.N {
			terms := make([]float64, len(pi))
			for j, v := range theta {
				m := 0.0
				for l := range data.D {
					m += v[l] * b.Col(l)[r]
				}
				if intercept {
					m += v[data.D]
				}
				e := (b.Y[r] - m) / sigma
				terms[j] = math.Log(pi[j]) - e*e/2
			}
			f := floats.LogSumExp(terms)
			sum += b.Weight(r) * f
			each = append(each, append(terms, f))
		}
	}
	return sum, each
}

func expertsOf(p *model.Params) (pi []float64, theta [][]float64) {
	logits := append(slices.Clone(p.GatingIntercepts), 0)
	all := floats.LogSumExp(logits)
	for i, v := range logits {
		pi = append(pi, math.Exp(v-all))
		a := slices.Clone(p.Regressor(i))
		if p.RegressorIntercepts != nil {
			a = append(a, p.RegressorIntercepts[i])
		}
		theta = append(theta, a)
	}
	return pi, theta
}

// manyByEM fits many experts, from some at random besides those given, by EM with σ held: a loop of its own.
func manyByEM(rng *rand.Rand, data *model.Data, p *model.Params, k, steps int) *model.Params {
	many := model.NewParams(k, p.D)
	many.GatingIntercepts, many.Sigma[0] = make([]float64, k-1), p.Sigma[0]
	if p.RegressorIntercepts != nil {
		many.RegressorIntercepts = make([]float64, k)
	}
	pi, theta := expertsOf(p)
	for len(theta) < k {
		from := theta[rng.IntN(p.K)]
		v := make([]float64, len(from))
		for j := range v {
			v[j] = from[j] + rng.NormFloat64()
		}
		theta, pi = append(theta, v), append(pi, 0.1)
	}
	floats.Scale(1/floats.Sum(pi), pi)
	table := &table{c: len(theta[0])}
	for _, b := range data.Blocks {
		for r := range b.N {
			for j := range data.D {
				table.x = append(table.x, b.Col(j)[r])
			}
			if p.RegressorIntercepts != nil {
				table.x = append(table.x, 1)
			}
			table.y, table.w = append(table.y, b.Y[r]), append(table.w, b.Weight(r))
		}
	}
	for range steps {
		_, each := logLikelihood(data, pi, theta, p.RegressorIntercepts != nil, p.Sigma[0])
		weights := make([]float64, len(each))
		for j := range theta {
			for i, terms := range each {
				weights[i] = table.w[i] * math.Exp(terms[j]-terms[k])
			}
			theta[j] = table.leastSquares(weights, theta[j])
			pi[j] = floats.Sum(weights) / floats.Sum(table.w)
		}
	}
	for i, v := range theta {
		copy(many.Regressor(i), v)
		if p.RegressorIntercepts != nil {
			many.RegressorIntercepts[i] = v[p.D]
		}
		if i < k-1 {
			many.GatingIntercepts[i] = math.Log(max(pi[i], 1e-300) / max(pi[k-1], 1e-300))
		}
	}
	return many
}

var cases = []struct {
	n, k, d   int
	intercept bool
	sigma     float64
}{
	{50, 1, 1, false, 0.3}, {100, 2, 1, false, 0.5}, {100, 1, 1, true, 0.3}, {200, 2, 1, true, 0.3}, {280, 3, 1, true, 0.1},
	{120, 2, 2, false, 0.5}, {60, 2, 2, true, 0.5},
}

// TestManyExperts: mixtures of 15 experts, by EM from two starts with σ held, gain less than the bound, and the
// best of them nearly as much: so the bound is neither too small nor loose.
func TestManyExperts(t *testing.T) {
	testslow.Mark(t)
	for at, c := range cases {
		data, p := drawn(uint64(at), c.n, c.k, c.d, c.intercept, c.sigma)
		p = manyByEM(nil, data, p, p.K, 200)
		g := boundOf(t, data, p, 20*Budget)
		pi, theta := expertsOf(p)
		base, _ := logLikelihood(data, pi, theta, c.intercept, c.sigma)
		best := 0.0
		for start := range 2 {
			many := manyByEM(rand.New(rand.NewPCG(uint64(at), uint64(start))), data, p, 15, 500)
			pi, theta := expertsOf(many)
			l, _ := logLikelihood(data, pi, theta, c.intercept, c.sigma)
			best = max(best, l-base)
			if l-base > g.Upper {
				t.Errorf("%+v: a mixture gains %.4f, and the bound is %.4f", c, l-base, g.Upper)
			}
			if start > 0 {
				continue
			}
			// What is nearly the maximum already gains nearly nothing.
			if again := boundOf(t, data, many, 10*Budget); again.Upper > g.Upper-(l-base)+0.15 || again.Upper < 0 {
				t.Errorf("%+v: of the many %.4f, of %.4f that were left", c, again.Upper, g.Upper-(l-base))
			}
		}
		t.Logf("%+v: EM %.4f, found %.4f of %d, bound %.4f, derivative %.4g, %d boxes", c, best, g.Lower, g.Experts, g.Upper, g.Derivative, g.Boxes)
		if !g.Closed || g.Upper-g.Lower > 0.11 || best < g.Lower-1 {
			t.Errorf("%+v: bound %.4f, found %.4f, EM %.4f, closed %v", c, g.Upper, g.Lower, best, g.Closed)
		}
	}
}

// TestBoxes: in no box is S above its bound, wherever the box is and however wide, at experts drawn in it; and
// the boxes are of all experts.
func TestBoxes(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(7, 7))
	for at, c := range cases {
		data, p := drawn(uint64(at), c.n, c.k, c.d, c.intercept, c.sigma)
		table := tableOf(t, data, p)
		f := table.logDensities(table.mixtureOf(p))
		s := newSearch(table, f)
		tight := 0
		for trial := range 3000 {
			boxes := table.all()
			b := boxes[rng.IntN(len(boxes))]
			if trial%3 > 0 { // towards experts of the mixture
				b = boxes[0]
			}
			aim := table.mixtureOf(p)[rng.IntN(p.K)].t
			for range rng.IntN(40) {
				halves := b.halves(table.c)
				b = halves[rng.IntN(2)]
				if trial%3 == 1 { // that with the expert in it
					for _, h := range halves {
						inside := true
						for j, v := range aim {
							inside = inside && math.Abs(v-h.mid[j]) <= h.half[j]
						}
						if inside {
							b = h
						}
					}
				}
			}
			bound, _ := s.bound(&b)
			for range 10 {
				v := make([]float64, table.c)
				for j := range v {
					v[j] = b.mid[j] + b.half[j]*(2*rng.Float64()-1)
					if rng.IntN(3) == 0 {
						v[j] = b.mid[j] + b.half[j]*float64(1-2*rng.IntN(2))
					}
				}
				if b.far >= 0 {
					far := b.sign / max(v[b.far], 1e-300)
					for j := range v {
						v[j] *= far
					}
					v[b.far] = far
				}
				logS, _ := table.shares(f, v)
				if bound == 0 { // left out for tied rows
					continue
				}
				if logS > s.shift+math.Log(bound)+1e-9 {
					t.Fatalf("%+v: log S = %.6f at %v in %+v, whose bound is %.6f", c, logS, v, b, s.shift+math.Log(bound))
				}
				if s.shift+math.Log(bound)-logS < 1e-3 {
					tight++
				}
			}
		}
		if tight < 30 {
			t.Errorf("%+v: tight at %d of 30000 experts", c, tight)
		}
	}
}

// TestIntervals holds the means in boxes of no width against rational arithmetic.
func TestIntervals(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	data, p := drawn(5, 200, 2, 2, true, 0.3)
	table := tableOf(t, data, p)
	s := newSearch(table, table.logDensities(table.mixtureOf(p)))
	outside := 0
	for range 20000 {
		boxes := table.all()
		b := boxes[rng.IntN(len(boxes))]
		for j := range table.c {
			b.mid[j], b.half[j] = 2*rng.Float64()-1, 0
			if j == b.far {
				b.mid[j] = rng.Float64()
			}
		}
		i := rng.IntN(table.n)
		low, high := s.interval(&b, i)
		exact := new(big.Rat)
		for j, x := range table.row(i) {
			m := b.mid[j]
			if j == b.far {
				m = 1
			}
			exact.Add(exact, new(big.Rat).Mul(new(big.Rat).SetFloat64(m), new(big.Rat).SetFloat64(x)))
		}
		if b.far >= 0 {
			exact.Quo(exact, new(big.Rat).SetFloat64(b.sign*b.mid[b.far]))
		}
		if exact.Cmp(new(big.Rat).SetFloat64(low)) < 0 || exact.Cmp(new(big.Rat).SetFloat64(high)) > 0 {
			outside++
		}
	}
	if outside > 0 {
		t.Errorf("%d means outside", outside)
	}
}

// TestNoticesARow: the bound of S is within what a row adds: where a row that the best expert explains is left out of
// the boxes, an expert that was found is above it.
func TestNoticesARow(t *testing.T) {
	data, p := drawn(3, 150, 2, 1, true, 0.3)
	table := tableOf(t, data, p)
	f := table.logDensities(table.mixtureOf(p))
	whole, err := table.maximise(t.Context(), f, table.mixtureOf(p), Budget, false)
	if err != nil {
		t.Fatal(err)
	}
	if whole.logBest > whole.logUpper {
		t.Errorf("found %.6f above the bound %.6f", whole.logBest, whole.logUpper)
	}
	most, at := 0.0, 0
	for i := range table.n {
		e, _ := table.residual(i, whole.best)
		if v := math.Exp(-f[i] - e*e/2); v > most {
			most, at = v, i
		}
	}
	f[at] += 1e3 // its term is next to nothing
	less, err := table.maximise(t.Context(), f, table.mixtureOf(p), Budget, false)
	if err != nil {
		t.Fatal(err)
	}
	if less.logUpper > whole.logBest {
		t.Errorf("without row %d the bound is %.6f, and %.6f was found with it", at, less.logUpper, whole.logBest)
	}
}

// TestWeights: a weight of 2 is a row twice.
func TestWeights(t *testing.T) {
	data, p := drawn(2, 100, 1, 1, true, 0.3)
	b := data.Blocks[0]
	twice := model.Block{N: 200, X: slices.Concat(b.X, b.X), Y: slices.Concat(b.Y, b.Y)}
	weighted := b.Clone()
	weighted.Role[model.Weights] = slices.Repeat([]float64{2}, 100)
	one := boundOf(t, &model.Data{N: 200, D: 1, Blocks: []model.Block{twice}}, p, Budget)
	two := boundOf(t, &model.Data{N: 100, D: 1, Blocks: []model.Block{weighted}}, p, Budget)
	if math.Abs(one.Upper-two.Upper) > 0.11 || math.Abs(one.Derivative-two.Derivative) > 0.1*one.Derivative {
		t.Errorf("rows twice %+v, weights %+v", one, two)
	}
}

// TestFewBoxes: a bound of a small budget holds too.
func TestFewBoxes(t *testing.T) {
	testslow.Mark(t)
	data, p := drawn(4, 200, 2, 2, true, 0.3)
	whole := boundOf(t, data, p, 20*Budget)
	for _, budget := range []int{0, 1e4, 1e5, 1e6} {
		if g := boundOf(t, data, p, budget); g.Closed || g.Upper < whole.Lower {
			t.Errorf("budget %d: %+v, of which %.4f is found", budget, *g, whole.Lower)
		}
	}
}

// TestAwkwardRows: rows of two values of x, of one that is 0, and one that is far off.
func TestAwkwardRows(t *testing.T) {
	for name, change := range map[string]func(b *model.Block){
		"two values": func(b *model.Block) {
			for i := range b.X {
				b.Y[i] -= b.X[i]
				b.X[i] = float64(i % 2)
				b.Y[i] += b.X[i]
			}
		},
		"zeros":   func(b *model.Block) { b.X[3], b.X[4], b.X[5] = 0, 0, 0 },
		"far off": func(b *model.Block) { b.Y[7] = 100 },
	} {
		for _, intercept := range []bool{false, true} {
			data, p := drawn(9, 100, 2, 1, intercept, 0.3)
			change(&data.Blocks[0])
			g := boundOf(t, data, p, Budget)
			t.Logf("%s, intercept %v: %+v", name, intercept, *g)
			if !g.Closed || g.Upper-g.Lower > 0.11 {
				t.Errorf("%s, intercept %v: %+v", name, intercept, *g)
			}
		}
	}
}

// TestFarOut: rows of a line that is far steeper than what coefficients are looked for first, among others, are not
// missed.
func TestFarOut(t *testing.T) {
	data, p := drawn(11, 120, 1, 1, true, 0.1)
	b := &data.Blocks[0]
	const slope = 5e5
	for i := range 6 {
		b.X[i] = 1 + 1e-5*float64(i)
		b.Y[i] = slope*(b.X[i]-1) - 10
	}
	table := tableOf(t, data, p)
	f := table.logDensities(table.mixtureOf(p))
	steep, _ := table.shares(f, []float64{slope / table.unit[0], (-10 - slope) / table.unit[1]})
	m, err := table.maximise(t.Context(), f, table.mixtureOf(p), Budget, false)
	if err != nil {
		t.Fatal(err)
	}
	if m.logUpper < steep || m.logUpper > 1.1*steep+1 || !m.closed {
		t.Errorf("log S is %.4f of the steep line, and at most %.4f, found %.4f, closed %v", steep, m.logUpper, m.logBest, m.closed)
	}
}

// TestNoBound: what there is no bound of is said.
func TestNoBound(t *testing.T) {
	for name, change := range map[string]func(data *model.Data, p *model.Params, free *loss.Free){
		"gate":   func(_ *model.Data, p *model.Params, _ *loss.Free) { p.Gating[0] = 1 },
		"noise":  func(_ *model.Data, p *model.Params, _ *loss.Free) { p.Sigma = []float64{1, 2} },
		"family": func(_ *model.Data, p *model.Params, _ *loss.Free) { p.Family = "student-t"; p.Own = [][]float64{{5}} },
		"tied":   func(_ *model.Data, _ *model.Params, f *loss.Free) { f.Tied = []int{0} },
		"held":   func(_ *model.Data, _ *model.Params, f *loss.Free) { f.ExpertColumns = []int{} },
		"output": func(_ *model.Data, p *model.Params, _ *loss.Free) { p.SetOutput(false, 0, 1) },
		"offset": func(d *model.Data, _ *model.Params, _ *loss.Free) {
			d.Blocks[0].Role[model.Offsets] = make([]float64, 50)
		},
		"numbers": func(d *model.Data, _ *model.Params, _ *loss.Free) { d.Blocks[0].X[0] = 1e-200 },
	} {
		data, p := drawn(1, 50, 2, 1, true, 0.3)
		free := loss.All
		change(data, p, &free)
		_, err := BoundOf(t.Context(), data, p, free, Budget)
		if no := (*NoBoundError)(nil); !errors.As(err, &no) {
			t.Errorf("%s: %v", name, err)
		}
	}
	data, p := drawn(1, 301, 2, 1, true, 0.3)
	if _, err := BoundOf(t.Context(), data, p, loss.All, Budget); err == nil {
		t.Error("301 rows have a bound")
	}
}
