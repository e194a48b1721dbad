package infer

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

type identity struct{}

func (identity) Eval(_ context.Context, dst, z []float64) error { copy(dst, z); return nil }

func (identity) Deriv(_ context.Context, dst, z []float64) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

// regression returns n rows of a linear model with noise that grows with |x1|,
// with integer weights if asked, its design with a column of ones, and the
// maximum of the likelihood of one expert.
func regression(t *testing.T, n int, weights bool) (*model.Data, *mat.Dense, *model.Params) {
	t.Helper()
	const d = 3
	rng := rand.New(rand.NewPCG(1, 1))
	b := model.Block{N: n, X: make([]float64, n*d), Y: make([]float64, n)}
	x, y := mat.NewDense(n, d+1, nil), mat.NewVecDense(n, nil)
	for r := range n {
		for j := range d {
			x.Set(r, j, rng.NormFloat64()*float64(j+1))
			b.X[j*n+r] = x.At(r, j)
		}
		x.Set(r, d, 1)
		b.Y[r] = x.At(r, 0) - 2*x.At(r, 1) + 3 + (0.2+math.Abs(x.At(r, 0)))*rng.NormFloat64()
		y.SetVec(r, b.Y[r])
		if weights {
			b.Role[model.Weights] = append(b.Role[model.Weights], float64(rng.IntN(4)))
		}
	}
	root := func(r int) float64 {
		if b.Role[model.Weights] == nil {
			return 1
		}
		return math.Sqrt(b.Role[model.Weights][r])
	}
	scaled, target := mat.DenseCopyOf(x), mat.VecDenseCopyOf(y)
	for r := range n {
		for j := range d + 1 {
			scaled.Set(r, j, x.At(r, j)*root(r))
		}
		target.SetVec(r, y.AtVec(r)*root(r))
	}
	var beta mat.VecDense
	if err := beta.SolveVec(scaled, target); err != nil {
		t.Fatal(err)
	}
	p := model.NewParams(1, d)
	p.RegressorIntercepts, p.GatingIntercepts = []float64{beta.AtVec(d)}, []float64{}
	copy(p.Regressors, beta.RawVector().Data[:d])
	data := &model.Data{N: n, D: d, Blocks: []model.Block{b}}
	var rss float64
	for r := range n {
		e := y.AtVec(r) - mat.Dot(x.RowView(r), &beta)
		rss += root(r) * root(r) * e * e
	}
	p.Sigma[0] = math.Sqrt(rss / weightOf(t, data))
	return data, x, p
}

// TestLeastSquares: for one linear expert the covariances are known. Observed:
// σ̂²(XᵀWX)⁻¹, and σ̂/√(2Σw) for σ. Robust: White's, with W² in the middle.
func TestLeastSquares(t *testing.T) {
	const n = 200
	for _, weights := range []bool{false, true} {
		data, x, p := regression(t, n, weights)
		gram, middle := mat.NewSymDense(4, nil), mat.NewSymDense(4, nil)
		for r := range n {
			w := 1.0
			if weights {
				w = data.Blocks[0].Role[model.Weights][r]
			}
			row := mat.VecDenseCopyOf(x.RowView(r))
			e := data.Blocks[0].Y[r] - mat.Dot(row, mat.NewVecDense(4, append(slices.Clone(p.Regressors), p.RegressorIntercepts...)))
			gram.SymRankOne(gram, w, row)
			middle.SymRankOne(middle, w*w*e*e, row)
		}
		var inv, left, white mat.Dense
		if err := inv.Inverse(gram); err != nil {
			t.Fatal(err)
		}
		left.Mul(&inv, middle)
		white.Mul(&left, &inv)
		inv.Scale(p.Sigma[0]*p.Sigma[0], &inv)
		for kind, want := range map[Kind]*mat.Dense{Observed: &inv, Robust: &white} {
			l := loss.NewLikelihood(data, identity{}, p, loss.All, 1)
			c, err := Estimate(t.Context(), l, p, kind, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := c.Matrix.SliceSym(0, 4)
			// The matrices' condition is about 10: 1e−12 is what rounding leaves.
			if !mat.EqualApprox(got, want, 1e-12) {
				t.Errorf("%s, weights %v:\n%v\nwant\n%v", kind, weights, mat.Formatted(got), mat.Formatted(want))
			}
			se := c.Errors(p)
			if wantSE := p.Sigma[0] / math.Sqrt(2*weightOf(t, data)); kind == Observed && math.Abs(se.Sigma[0]/wantSE-1) > 1e-12 {
				t.Errorf("standard error %v of sigma, want %v", se.Sigma[0], wantSE)
			}
			if se.Regressors[1] != math.Sqrt(c.Matrix.At(1, 1)) || se.RegressorIntercepts[0] != math.Sqrt(c.Matrix.At(3, 3)) {
				t.Error("standard errors in the wrong places")
			}
			names := strings.Join(c.Names([]string{"a", "b", "c"}), " ")
			if names != "expert1:a expert1:b expert1:c expert1:(intercept) sigma" {
				t.Errorf("names %s", names)
			}
		}
	}
}

// TestWeightsAreRepeatedRows, for the observed information.
func TestWeightsAreRepeatedRows(t *testing.T) {
	data, _, p := regression(t, 200, true)
	b := data.Blocks[0]
	long := model.Block{}
	columns := make([][]float64, data.D)
	for r := range b.N {
		for range int(b.Role[model.Weights][r]) {
			for j := range columns {
				columns[j] = append(columns[j], b.Col(j)[r])
			}
			long.Y = append(long.Y, b.Y[r])
		}
	}
	long.N, long.X = len(long.Y), slices.Concat(columns...)
	// Blocks hold at most BlockRows rows: cut.
	repeated := &model.Data{N: long.N, D: data.D}
	for at := 0; at < long.N; at += model.BlockRows {
		end := min(at+model.BlockRows, long.N)
		cut := model.Block{N: end - at, Y: long.Y[at:end]}
		for j := range data.D {
			cut.X = append(cut.X, long.Col(j)[at:end]...)
		}
		repeated.Blocks = append(repeated.Blocks, cut)
	}
	var got [2]*Covariance
	for i, d := range []*model.Data{data, repeated} {
		var err error
		if got[i], err = Estimate(t.Context(), loss.NewLikelihood(d, identity{}, p, loss.All, 1), p, Observed, nil); err != nil {
			t.Fatal(err)
		}
	}
	if !mat.EqualApprox(got[0].Matrix, got[1].Matrix, 1e-13) {
		t.Error("weights do not count as repeated rows")
	}
}

// TestNone: where there is no covariance there is a reason, and no number.
func TestNone(t *testing.T) {
	for name, change := range map[string]func(*model.Data, *model.Params){
		"not at a maximum": func(_ *model.Data, p *model.Params) { p.Regressors[0] += 1 },
		"singular": func(d *model.Data, p *model.Params) { // column 2 repeats column 1
			b := &d.Blocks[0]
			copy(b.Col(1), b.Col(0))
		},
		"an unused column": func(d *model.Data, p *model.Params) { clear(d.Blocks[0].Col(1)) },
		"overflow":         func(d *model.Data, p *model.Params) { p.Sigma[0] = 1e-200 },
	} {
		data, _, p := regression(t, 100, false)
		change(data, p)
		c, err := Estimate(t.Context(), loss.NewLikelihood(data, identity{}, p, loss.All, 1), p, Observed, nil)
		if none := (*NoneError)(nil); c != nil || !errors.As(err, &none) || none.Reason == "" {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
	data, _, p := regression(t, 100, false)
	if _, err := Estimate(t.Context(), loss.NewLikelihood(data, identity{}, p, loss.All, 1), p, Observed, nil); err != nil {
		t.Errorf("where nothing is wrong: %v", err)
	}
}

// TestIntervals against the tables' 1.959964 and 1.644854.
func TestIntervals(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-6 }
	if lo, hi := Interval(1, 0.1, 0.95); !near(lo, 1-0.1959964) || !near(hi, 1+0.1959964) {
		t.Errorf("95 %%: %v to %v", lo, hi)
	}
	// 100 rows less 19 coefficients: the centre is 2·10/9.
	if lo, hi := NoiseInterval(2, 0.4, 0.9, 100, 19); !near(lo, 20./9*math.Exp(-0.2*1.644854)) || !near(hi, 20./9*math.Exp(0.2*1.644854)) {
		t.Errorf("90 %% of a noise level: %v to %v", lo, hi)
	}
	if v := NoiseCorrected(2, 100, 19); v != 20./9 {
		t.Errorf("corrected %v", v)
	}
	if lo, hi := NoiseInterval(2, 0.4, 0.9, 5, 19); !(0 < lo && lo < 2 && hi > 2) {
		t.Errorf("fewer rows than coefficients: %v to %v", lo, hi)
	}
}

// BenchmarkEstimate is the covariance of a fit of 10,000 rows.
func BenchmarkEstimate(b *testing.B) {
	const n, d, k = 10000, 10, 3
	rng := rand.New(rand.NewPCG(1, 1))
	p := model.NewParams(k, d)
	p.Sigma[0] = 0.05
	for i := range k {
		p.Regressor(i)[i] = 1
	}
	data := &model.Data{N: n, D: d}
	for at := 0; at < n; at += model.BlockRows {
		m := min(model.BlockRows, n-at)
		block := model.Block{N: m, X: make([]float64, m*d), Y: make([]float64, m)}
		for i := range block.X {
			block.X[i] = rng.NormFloat64()
		}
		for r := range m {
			block.Y[r] = block.Col(rng.IntN(k))[r] + 0.05*rng.NormFloat64()
		}
		data.Blocks = append(data.Blocks, block)
	}
	l := loss.NewLikelihood(data, identity{}, p, loss.All, 1)
	theta, next := l.Theta(p), make([]float64, l.Dim())
	for range 100 {
		if _, err := l.EMStep(b.Context(), next, theta); err != nil {
			b.Fatal(err)
		}
		theta, next = next, theta
	}
	p = l.Params(theta)
	for _, kind := range []Kind{Observed, Robust} {
		b.Run(string(kind), func(b *testing.B) {
			for b.Loop() {
				l := loss.NewLikelihood(data, identity{}, p, loss.All, 1)
				if _, err := Estimate(b.Context(), l, p, kind, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func weightOf(t *testing.T, rows model.Rows) float64 {
	t.Helper()
	totals, err := model.TotalsOf(rows)
	if err != nil {
		t.Fatal(err)
	}
	return totals.Weight
}

// TestDecrementAllowed: p²/n more where g has kinks, 1 at most.
func TestDecrementAllowed(t *testing.T) {
	for _, c := range []struct {
		p     int
		rows  float64
		kinks []float64
		want  float64
	}{{30, 9000, nil, 0.1}, {30, 9000, []float64{0}, 0.2}, {30, 90, []float64{0}, 1}} {
		if got := decrementAllowed(c.p, c.rows, c.kinks); math.Abs(got-c.want) > 1e-15 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestInverseOfAnyUnits: parameters in units that differ by 1e16 have the inverse that they have
// in equal ones.
func TestInverseOfAnyUnits(t *testing.T) {
	unit := []float64{1e-8, 1, 1e8}
	h := mat.NewSymDense(3, nil)
	for i, u := range unit {
		for j := i; j < 3; j++ {
			c := 0.5
			if i == j {
				c = 1
			}
			h.SetSym(i, j, c*u*unit[j])
		}
	}
	v, err := inverse(h)
	if err != nil {
		t.Fatal(err)
	}
	for i, u := range unit { // (½I + ½11ᵀ)⁻¹ = 2I − ½·11ᵀ
		for j, w := range unit {
			want := -0.5
			if i == j {
				want = 1.5
			}
			if got := v.At(i, j) * u * w; math.Abs(got-want) > 1e-14 {
				t.Errorf("entry (%d, %d) is %v, want %v", i, j, got, want)
			}
		}
	}
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := inverse(mat.NewSymDense(2, []float64{1, 0, 0, bad})); err == nil {
			t.Errorf("with %v on the diagonal there is an inverse", bad)
		}
	}
}

// TestNames: experts are counted from 1; a part of which the model has one has no number.
func TestNames(t *testing.T) {
	c := &Covariance{d: 2, Parameters: []loss.Parameter{
		{Part: model.Expert, Index: 1, Feature: 0}, {Part: model.Expert, Index: 1, Feature: 2}, {Part: model.Gate, Index: 0, Feature: 1},
		{Part: model.Noise, Feature: -1}, {Part: model.Offset, Index: 0, Feature: -1}, {Part: model.Offset, Index: 1, Feature: -1}, {Part: model.Scale, Feature: -1},
	}}
	want := []string{"expert2:a", "expert2:(intercept)", "gate1:b", "sigma", "offset1", "offset2", "scale"}
	if got := c.Names([]string{"a", "b"}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Of several targets, whose noise is correlated or has own parameters beside the levels.
	c = &Covariance{d: 2, levels: 2, Parameters: []loss.Parameter{
		{Part: model.Expert, Index: 4, Feature: 0}, {Part: model.Expert, Index: 2, Feature: 2}, {Part: model.Gate, Index: 0, Feature: 2},
		{Part: model.Noise, Feature: -1}, {Part: model.Noise, Index: 1, Feature: -1, Own: 2}, {Part: model.Noise, Index: 1, Feature: -1, Own: 4},
	}}
	want = []string{"v:expert2:a", "w:expert1:(intercept)", "gate1:(intercept)", "u:sigma1", "w:sigma2", "u:w:correlation2"}
	if got := c.Names([]string{"a", "b"}, "u", "v", "w"); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	c = &Covariance{own: mixture.StudentT{}.Own(), levels: 1, Parameters: []loss.Parameter{{Part: model.Noise, Feature: -1, Own: 2}, {Part: model.Noise, Feature: -1, Own: 3}}}
	if got, want := c.Names(nil, "u", "v"), []string{"sigma", "dof"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	// Of a dof for every expert, of which that of the first is held, the other says whose it is.
	c = &Covariance{own: mixture.StudentT{}.Own(), levels: 2, Parameters: []loss.Parameter{
		{Part: model.Noise, Feature: -1}, {Part: model.Noise, Index: 1, Feature: -1}, {Part: model.Noise, Own: 1, Index: 1, Feature: -1},
	}}
	if got, want := c.Names(nil), []string{"sigma1", "sigma2", "dof2"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
