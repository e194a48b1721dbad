package specification

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
)

// groupRows draws groups of rows, of which the first has so many, of the mixture p, whose gate sees the last feature
// alone, in any order.
func groupRows(p *model.Params, groups, first int, rng *rand.Rand) *model.Data {
	type row struct {
		x      []float64
		y      float64
		id     float64
		trials float64
	}
	var rows []row
	density := mixture.DensityOf(p.Family)
	for g := range groups {
		level, size := rng.NormFloat64(), 1+rng.IntN(9)
		if g == 0 {
			size = first
		}
		logit := p.Gate(0)[p.D-1]*level + p.GatingIntercepts[0]
		z := 0
		if rng.Float64() > 1/(1+math.Exp(-logit)) {
			z = 1
		}
		for range size {
			x := make([]float64, p.D)
			for j := range x {
				x[j] = rng.NormFloat64()
			}
			x[p.D-1] = level
			m := groupMean(p, z, x)
			out := row{x: x, id: float64(g)}
			if p.Family == "binomial" {
				out.trials = 1 + float64(rng.IntN(4))
				density = mixture.OfTrials(mixture.DensityOf(p.Family), []float64{out.trials})
			}
			out.y = mixture.FromNormal(density, m, p.OwnOf(nil, z), rng.NormFloat64())
			rows = append(rows, out)
		}
	}
	rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	data := &model.Data{N: len(rows), D: p.D}
	for from := 0; from < len(rows); from += model.BlockRows {
		part := rows[from:min(from+model.BlockRows, len(rows))]
		b := model.Block{N: len(part)}
		for j := range p.D {
			for _, r := range part {
				b.X = append(b.X, r.x[j])
			}
		}
		for _, r := range part {
			b.Y, b.Role[model.Groups] = append(b.Y, r.y), append(b.Role[model.Groups], r.id)
			if r.trials > 0 {
				b.Role[model.Trials] = append(b.Role[model.Trials], r.trials)
			}
		}
		data.Blocks = append(data.Blocks, b)
	}
	return data
}

func groupMean(p *model.Params, i int, x []float64) float64 {
	z := floats.Dot(p.Regressor(i), x) + p.RegressorIntercepts[i]
	switch p.Family {
	case "poisson":
		return math.Exp(z)
	case "binomial":
		return 1 / (1 + math.Exp(-z))
	}
	return z
}

// sigmoidal is g = 1/(1 + exp(−z)).
type sigmoidal struct{}

func (sigmoidal) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 1 / (1 + math.Exp(-v))
	}
	return nil
}

func (s sigmoidal) Deriv(ctx context.Context, dst, z []float64) error {
	err := s.Eval(ctx, dst, z)
	for i, v := range dst[:len(z)] {
		dst[i] = v * (1 - v)
	}
	return err
}

func groupParams(family string) *model.Params {
	p := model.NewParams(2, 3)
	copy(p.Regressors, []float64{0.5, 0.2, 0.1, -0.4, 0.3, 0})
	copy(p.Gating, []float64{0, 0, 0.8})
	p.RegressorIntercepts, p.GatingIntercepts = []float64{0.9, -0.2}, []float64{0.3}
	p.Sigma[0] = 0.8
	if family != "" {
		p.Family, p.Sigma = family, nil
	}
	return p
}

// TestGroupTerms: the sums of the scores among the terms are the gradient of the likelihood of groups, at any
// parameters; under the model every term has mean 0 over groups, within four standard errors, and so have the products
// of residuals, which are those of pairs written out. The binomial has trials.
func TestGroupTerms(t *testing.T) {
	free := loss.All
	free.GateColumns = []int{2}
	for _, family := range []string{"", "poisson", "binomial"} {
		act := map[string]model.Activation{"": identity{}, "poisson": mixturetest.Exp{}, "binomial": sigmoidal{}}[family]
		truth := groupParams(family)
		data := groupRows(truth, 3000, model.BlockRows+44, rand.New(rand.NewPCG(34, 5)))
		at := truth.Clone()
		at.Regressors[0] += 0.1
		at.GatingIntercepts[0] -= 0.2
		for _, p := range []*model.Params{truth, at} {
			m, err := newGroupTerms(t.Context(), data, act, p, free)
			if err != nil {
				t.Fatal(err)
			}
			sums, _, err := m.sums(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			l := loss.NewLikelihood(data, act, p, free, 1)
			grad := make([]float64, l.Dim())
			if _, err := l.Grad(t.Context(), grad, l.Theta(p)); err != nil {
				t.Fatal(err)
			}
			for i, v := range grad {
				want := -v * l.Rows()
				if math.Abs(sums.Terms[i]-want) > 1e-8*math.Abs(want)+1e-8 {
					t.Errorf("%q: score %d of the terms %v, of the likelihood %v", family, i, sums.Terms[i], want)
				}
			}
			if p == at {
				continue
			}
			m.checkMeans(t, family, sums)
		}
	}
}

// checkMeans compares the means of the terms over groups, and of the products of residuals, with 0.
func (m *groupTerms) checkMeans(t *testing.T, family string, sums *RowSums) {
	t.Helper()
	n := float64(len(m.table.groups))
	squares := make([]float64, m.at[atEnd])
	w := m.newRoom()
	alike, squared := 0.0, 0.0
	for g := range m.table.groups {
		if err := m.fill(t.Context(), w, []int{g}, nil, nil); err != nil {
			t.Fatal(err)
		}
		for i, v := range w.sums {
			squares[i] += v[0] * v[0]
		}
		d := m.alike(w.posts[:m.p.K], g)
		alike += d
		squared += d * d
	}
	for i, sum := range sums.Terms {
		if sd := math.Sqrt(squares[i]); math.Abs(sum) > 4*sd {
			t.Errorf("%q: term %d has a sum of %.3g, a standard error of %.3g", family, i, sum, sd)
		}
	}
	if sums.Groups.Weight != n || math.Abs(alike) > 4*math.Sqrt(squared) ||
		math.Abs(alike-sums.Groups.Products) > 1e-8*math.Sqrt(squared) ||
		math.Abs(squared/sums.Groups.Squares-1) > 1e-8 {
		t.Errorf("%q: products %v and %v of squares, written out %v and %v", family, sums.Groups.Products,
			sums.Groups.Squares, alike, squared)
	}
}

// alike is Σ_i r_i·Σ_{s<t} h(e_is)·h(e_it) of a group of several rows, h(e) = e·exp(−e²/4) of normal residuals and, of
// whole numbers, its mean over the normal numbers between Φ⁻¹(F(y−1)) and Φ⁻¹(F(y)).
func (m *groupTerms) alike(post []float64, g int) (sum float64) {
	rows := m.table.groups[g]
	if len(rows) < 2 {
		return 0
	}
	for i, r := range post {
		h := make([]float64, len(rows))
		for t, row := range rows {
			mean := groupMean(m.p, i, m.table.x[row*m.table.d:(row+1)*m.table.d])
			if m.p.Family == "" {
				e := (m.table.y[row] - mean) / m.p.SigmaOf(i)
				h[t] = e * math.Exp(-e*e/4)
				continue
			}
			out := [][]float64{{0}, {0}, {0}}
			density := mixture.DensityOf(m.p.Family)
			if trials := m.table.role[model.Trials]; trials != nil {
				density = mixture.OfTrials(density, trials[row:row+1])
			}
			shapeUnder(density, out, []float64{0}, []float64{1}, m.table.y[row:row+1],
				[]float64{mean}, nil)
			h[t] = out[2][0]
		}
		for t := range h {
			for s := range t {
				sum += r * h[s] * h[t]
			}
		}
	}
	return sum
}

// TestGroupCovariance: the covariance of a group's terms under the fitted model is that of many groups of the same
// features drawn from it.
func TestGroupCovariance(t *testing.T) {
	p := groupParams("")
	data := groupRows(p, 60, 9, rand.New(rand.NewPCG(34, 6)))
	free := loss.All
	free.GateColumns = []int{2}
	m, err := newGroupTerms(t.Context(), data, identity{}, p, free)
	if err != nil {
		t.Fatal(err)
	}
	table := m.table
	_, prior, err := m.sums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const draws = 20000
	drawn := m.sample(prior, m.all(prior), draws, 1)
	of := &groupTerms{terms: m.terms, table: drawn.table}
	got, err := covarianceOf(t.Context(), groupTargets{of, drawn, 1, 2}, 1, m.at[atNonlinearity:])
	if err != nil {
		t.Fatal(err)
	}
	// Of every group as many, each with its own expert and targets.
	const each = 300
	rng := rand.New(rand.NewPCG(34, 7))
	n := m.at[atNonlinearity]
	want, w := mat.NewSymDense(n, nil), m.newRoom()
	for g := range table.groups {
		x := table.x[table.groups[g][0]*3:]
		chance := 1 / (1 + math.Exp(-(0.8*x[2] + 0.3)))
		for range each {
			z := 0
			if rng.Float64() > chance {
				z = 1
			}
			err := m.fill(t.Context(), w, []int{g}, func(b *part) {
				for r := range b.Y {
					row := []float64{b.Col(0)[r], b.Col(1)[r], b.Col(2)[r]}
					b.Y[r] = groupMean(p, z, row) + p.Sigma[0]*rng.NormFloat64()
				}
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			terms := mat.NewVecDense(n, nil)
			for i := range n {
				terms.SetVec(i, w.sums[i][0])
			}
			want.SymRankOne(want, 1/float64(each*len(table.groups)), terms)
		}
	}
	for i := range n {
		for j := range i + 1 {
			// Of 18,000 and 20,000 draws, 300 of each group: three standard errors of the sums of squares of the largest.
			scale := math.Sqrt(want.At(i, i) * want.At(j, j))
			if diff := math.Abs(got.At(i, j)-want.At(i, j)) / scale; diff > 0.12 {
				t.Errorf("covariance of terms %d and %d: %v, drawn %v", i, j, got.At(i, j), want.At(i, j))
			}
		}
	}
}

// newGroupTerms are those of rows at p.
func newGroupTerms(ctx context.Context, rows model.Rows, act model.Activation, p *model.Params,
	free loss.Free) (*groupTerms, error) {
	s, err := NewSteps(act, p, free)
	if err != nil {
		return nil, err
	}
	squares, err := s.Squares(ctx, rows)
	if err != nil {
		return nil, err
	}
	s.Scale(squares)
	table, err := byGroup(ctx, rows, 0)
	return &groupTerms{terms: s.terms, table: table}, err
}

// TestLightened: a number at some place of a t law of variance 1, whose kurtosis is 3 + 6/(ν − 4), goes to that place of the normal one,
// and one of a law without excess stays.
func TestLightened(t *testing.T) {
	for _, nu := range []float64{5, 9, 40, 1000} {
		law := distuv.StudentsT{Sigma: math.Sqrt((nu - 2) / nu), Nu: nu}
		for _, p := range []float64{1e-9, 1e-4, 0.03, 0.4, 0.5, 0.9, 0.9999} {
			got, want := lightened(law.Quantile(p), 6/(nu-4)), distuv.UnitNormal.Quantile(p)
			if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
				t.Errorf("ν = %g, p = %g: %v, want %v", nu, p, got, want)
			}
		}
	}
	for _, kurtosis := range []float64{0, -1, math.NaN()} {
		if got := lightened(-3.5, kurtosis); got != -3.5 {
			t.Errorf("kurtosis %v: %v", kurtosis, got)
		}
	}
}
