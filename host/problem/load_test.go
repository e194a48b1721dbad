package problem

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

func activation(t testing.TB, family sdk.Family) sdk.Activation {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// table is n rows of d standard normal features, each times its size and with
// its mean, and a target.
func table(n int, mean, size []float64) (*mat.Dense, []float64) {
	rng := rand.New(rand.NewPCG(9, 9))
	x, y := mat.NewDense(n, len(mean), nil), make([]float64, n)
	for i := range y {
		for j := range mean {
			x.Set(i, j, mean[j]+size[j]*rng.NormFloat64())
		}
		y[i] = 2 + x.At(i, 0)/size[0] + rng.NormFloat64()
	}
	return x, y
}

func loaded(t *testing.T, src dataset.Source, r Request) *Problem {
	t.Helper()
	p, err := Load(t.Context(), src, activation(t, identity.Family), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// data are rows that lie in memory.
func data(t *testing.T, rows model.Rows) *model.Data {
	t.Helper()
	d, ok := rows.(*model.Data)
	if !ok {
		t.Fatalf("the rows are a %T", rows)
	}
	return d
}

// TestLoadStandard: features that look standard stay as they are, to the last
// bit, unless there are intercepts, which come with mean 0 and unit variance.
func TestLoadStandard(t *testing.T) {
	x, y := table(700, []float64{0, 0}, []float64{1, 1})
	p := loaded(t, dataset.Matrix(x, y), Request{K: 2})
	if p.Units != nil || !p.Inputs.Standard() || p.Rows != p.Given || p.N() != 700 || len(p.Notes) > 0 {
		t.Errorf("units %v, inputs %q, %d rows, notes %q", p.Units, p.Inputs.Far, p.N(), p.Notes)
	}
	for i, b := range data(t, p.Rows).Blocks {
		for r := range b.N {
			row := 256*i + r
			if b.Col(0)[r] != x.At(row, 0) || b.Col(1)[r] != x.At(row, 1) || b.Y[r] != y[row] {
				t.Fatalf("row %d is (%v, %v), %v", row, b.Col(0)[r], b.Col(1)[r], b.Y[r])
			}
		}
	}
	if got, want := p.RMS(), floats.Norm(y, 2)/math.Sqrt(700); math.Abs(got-want) > 1e-12*want {
		t.Errorf("rms %v, want %v", got, want)
	}
	if p := loaded(t, dataset.Matrix(x, y), Request{K: 2, Intercepts: BothIntercepts}); p.Units == nil || !p.Inputs.Standard() {
		t.Errorf("with intercepts: units %v, inputs %q", p.Units, p.Inputs.Far)
	}
}

// TestLoadUnits: other features are brought to mean square 1, and where there are
// intercepts to mean 0; the sums are those of the rows as fitted; what showed
// that they are not standard is remembered.
func TestLoadUnits(t *testing.T) {
	const n = 900
	mean, size := []float64{0, 1000, -3}, []float64{7, 5, 1e-4}
	for _, intercept := range []bool{false, true} {
		x, y := table(n, mean, size)
		p := loaded(t, dataset.Matrix(x, y), Request{K: 2, Intercepts: InterceptsOf(intercept, intercept)})
		if p.Inputs.Standard() || p.Rows != p.Given {
			t.Errorf("intercept %v: inputs %q", intercept, p.Inputs.Far)
		}
		for j := range 3 {
			var sum, squares float64
			for i, b := range data(t, p.Rows).Blocks {
				for r, v := range b.Col(j) {
					sum, squares = sum+v, squares+v*v
					if want := (x.At(256*i+r, j) - p.Units.Mean[j]) / p.Units.SD[j]; math.Abs(v-want) > 1e-12*max(1, math.Abs(want)) {
						t.Fatalf("feature %d of row %d is %v, want %v", j, 256*i+r, v, want)
					}
				}
			}
			// The variance of a column far from 0 is a difference of squares: 1e−16 of
			// (3/1e−4)² is lost.
			if math.Abs(squares/n-1) > 1e-6 || intercept && math.Abs(sum/n) > 1e-6 || !intercept && p.Units.Mean[j] != 0 {
				t.Errorf("intercept %v, feature %d: mean %v, mean square %v, taken off %v", intercept, j, sum/n, squares/n, p.Units.Mean[j])
			}
			if got := p.Second.X[0][j]; math.Abs(got-sum) > 1e-9*n {
				t.Errorf("intercept %v: the sum of feature %d is %v, kept %v", intercept, j, sum, got)
			}
		}
	}
}

// TestUnits: into the units of the fit and back are inverse, and neither changes
// what is predicted, intercepts or none. Units that are nil change nothing.
func TestUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 10))
	for _, intercept := range []bool{false, true} {
		u := &Units{Mean: []float64{0, 0, 0}, SD: []float64{3, 1e-4, 200}}
		if intercept {
			u.Mean = []float64{-2, 1e3, 0.5}
		}
		p := Shape{K: 3, D: 3, Intercept: intercept, GateIntercept: intercept}.Blank(0.5)
		for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
			for i := range v {
				v[i] = rng.NormFloat64()
			}
		}
		was := p.Clone()
		in := u.Into(p)
		if fmt.Sprint(p) != fmt.Sprint(was) {
			t.Errorf("intercept %v: what was converted has changed", intercept)
		}
		for name, back := range map[string]*model.Params{"back": u.OutOf(in), "forth": u.Into(u.OutOf(p))} {
			for i, v := range [][]float64{back.Regressors, back.Gating, back.RegressorIntercepts, back.GatingIntercepts, back.Sigma} {
				want := [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts, p.Sigma}[i]
				// The shifts go to 1e7 and come back: 1e−16 of that is lost.
				if !floats.EqualApprox(v, want, 1e-8) {
					t.Errorf("intercept %v, %s: %v, want %v", intercept, name, v, want)
				}
			}
		}
		for range 20 {
			x, z := make([]float64, 3), make([]float64, 3)
			for j := range x {
				x[j] = u.Mean[j] + u.SD[j]*rng.NormFloat64()
				z[j] = (x[j] - u.Mean[j]) / u.SD[j]
			}
			for i := range 3 {
				out, inside := floats.Dot(p.Regressor(i), x), floats.Dot(in.Regressor(i), z)
				gate, gateInside := logitOf(p, i, x), logitOf(in, i, z)
				if intercept {
					out, inside = out+p.RegressorIntercepts[i], inside+in.RegressorIntercepts[i]
				}
				if math.Abs(out-inside) > 1e-10*max(1, math.Abs(out)) || math.Abs(gate-gateInside) > 1e-10*max(1, math.Abs(gate)) {
					t.Errorf("intercept %v, expert %d: %v and gate %v, in other units %v and %v", intercept, i, out, gate, inside, gateInside)
				}
			}
		}
		if none := (*Units)(nil); none.Into(p) != p || none.OutOf(p) != p {
			t.Errorf("no units change parameters")
		}
	}
}

// TestUnitsOfConstantFeature: one that is constant in the sums, and all 0 once
// its mean is off, keeps its size.
func TestUnitsOfConstantFeature(t *testing.T) {
	x, y := table(300, []float64{0, 0}, []float64{1, 1})
	d, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Blocks {
		clear(d.Blocks[i].Col(1))
	}
	p := &Problem{Shape: Shape{K: 1, D: 2, Intercept: true, GateIntercept: true}}
	if err := p.measure(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if p.Units.SD[1] != 1 || p.Units.Mean[1] != 0 {
		t.Errorf("units %v of a column of zeros", p.Units)
	}
}

// TestWeights: those of the rows that are fitted are the given ones over a power
// of two, so that they are near 1 and no digit changes; features and target are
// shared with the rows as given, whose weights are bit for bit the user's.
func TestWeights(t *testing.T) {
	for name, r := range map[string]Request{"as they are": {K: 2}, "other units": {K: 2, Intercepts: BothIntercepts}} {
		for _, scale := range []float64{1, 1e-300, 1e-7, 0.3, 5, 1e12, 1e250} {
			x, y := table(600, []float64{0, 0}, []float64{1, 1})
			w := make([]float64, 600)
			total, positive := 0.0, 0
			for i := range w {
				w[i] = scale * float64(i%4) / 3
				total += w[i]
				if w[i] > 0 {
					positive++
				}
			}
			p := loaded(t, dataset.WeightedMatrix(x, y, w), r)
			even, given := data(t, p.Rows), data(t, p.Given)
			sum := 0.0
			var ratio float64
			for i := range even.Blocks {
				e, g := &even.Blocks[i], &given.Blocks[i]
				if &e.X[0] != &g.X[0] || &e.Y[0] != &g.Y[0] {
					t.Fatalf("%s, weights of %g: block %d of the rows as given has features or a target of its own", name, scale, i)
				}
				for r, v := range e.Role[model.Weights] {
					sum += v
					if g.Role[model.Weights][r] != w[256*i+r] {
						t.Fatalf("%s: weight %v, given %v", name, g.Role[model.Weights][r], w[256*i+r])
					}
					if v == 0 {
						continue
					}
					if ratio == 0 {
						ratio = g.Role[model.Weights][r] / v
					}
					if fraction, _ := math.Frexp(ratio); fraction != 0.5 || v*ratio != g.Role[model.Weights][r] {
						t.Fatalf("%s: weight %v was %v", name, v, g.Role[model.Weights][r])
					}
				}
			}
			if mean := sum / 600; mean < 0.5 || mean > 2 {
				t.Errorf("%s, weights of %g: their mean is %v", name, scale, mean)
			}
			if !p.Weights.Given || p.Weights.Rows != positive || math.Abs(p.Weights.Total-total) > 1e-12*total || p.Weights.Reported() != p.Weights.Total {
				t.Errorf("%s, weights of %g: %+v, want a total of %v over %d rows", name, scale, p.Weights, total, positive)
			}
			// 450 rows count as 300 times the scale.
			if got := p.Weights; got.Light() != (scale < 0.75) || got.Doubt != (scale < 0.75 || scale > 3) || len(p.Notes) > 0 {
				t.Errorf("%s, weights of %g: %+v, notes %q", name, scale, got, p.Notes)
			}
		}
	}
	x, y := table(600, []float64{0}, []float64{1})
	p := loaded(t, dataset.Matrix(x, y), Request{K: 2})
	if p.Weights.Given || p.Weights.Rows != 600 || p.Weights.Total != 600 || p.Weights.Reported() != 0 {
		t.Errorf("no weights: %+v, reported %v", p.Weights, p.Weights.Reported())
	}
}

// TestLoadRefuses what no method can fit, and says why.
func TestLoadRefuses(t *testing.T) {
	x, y := table(40, []float64{0, 0, 0}, []float64{1, 1, 1})
	change := func(column int, f func(i int, v float64) float64) dataset.Source {
		x, y := mat.DenseCopyOf(x), append([]float64(nil), y...)
		for i := range y {
			if column == 3 {
				y[i] = f(i, y[i])
			} else {
				x.Set(i, column, f(i, x.At(i, column)))
			}
		}
		return dataset.Matrix(x, y)
	}
	weighted := func(w func(i int) float64) dataset.Source {
		out := make([]float64, len(y))
		for i := range out {
			out[i] = w(i)
		}
		return dataset.WeightedMatrix(x, y, out)
	}
	all := dataset.Matrix(x, y)
	act, constant := activation(t, identity.Family), sdk.Func{Name: "flat", G: func(float64) float64 { return 3 }, DG: func(float64) float64 { return 0 }}
	for name, c := range map[string]struct {
		src  dataset.Source
		act  sdk.Activation
		r    Request
		want string
		data bool // it is an error of the data, not of the request
	}{
		"no target":            {dataset.Matrix(x, nil), act, Request{K: 1}, "no target column", false},
		"more experts":         {all, act, Request{K: 41}, "k = 41 experts for 40 rows", false},
		"more than weighted":   {weighted(func(i int) float64 { return float64(i % 2) }), act, Request{K: 21}, "k = 21 experts for 20 rows", false},
		"constant feature":     {change(1, func(int, float64) float64 { return 7 }), act, Request{K: 1}, `column "x2" is 7 in every row`, true},
		"constant target":      {change(3, func(int, float64) float64 { return 7 }), act, Request{K: 1}, `column "y" is 7 in every row`, true},
		"equal features":       {change(2, func(i int, _ float64) float64 { return x.At(i, 0) }), act, Request{K: 1}, `columns "x1" and "x3" are equal`, true},
		"weights all 0":        {weighted(func(int) float64 { return 0 }), act, Request{K: 1}, "weights in column \"weight\" add up to 0", true},
		"large feature":        {change(0, func(_ int, v float64) float64 { return v * 1e80 }), act, Request{K: 1}, `column "x1" has values up to`, true},
		"small target":         {change(3, func(_ int, v float64) float64 { return v * 1e-80 }), act, Request{K: 1}, `column "y" has values up to`, true},
		"unknown feature":      {all, act, Request{K: 1, ExpertFeatures: []string{"x1", "z"}}, `feature "z" of an expert is not among the columns`, false},
		"unknown gate feature": {all, act, Request{K: 1, Gate: Softmax{Features: []string{"z"}}}, `feature "z" of the gate is not among the columns`, false},
		"constant activation":  {all, constant, Request{K: 1}, "activation flat is constant", false},
	} {
		_, err := Load(t.Context(), c.src, c.act, c.r)
		request, fault := (*RequestError)(nil), (*dataset.Error)(nil)
		if errors.As(err, &request) == c.data || errors.As(err, &fault) != c.data || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v (%T), want %q", name, err, err, c.want)
		}
	}
	// Four experts over three features have 12 + 9 + 1 parameters: 22 rows cannot
	// determine them, 23 may.
	for n, want := range map[int]bool{22: false, 23: true} {
		_, err := Load(t.Context(), dataset.Matrix(mat.DenseCopyOf(x.Slice(0, n, 0, 3)), y[:n]), act, Request{K: 4})
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "22 rows cannot determine the 22 parameters of k = 4 experts over 3 features") {
			t.Errorf("22 parameters, %d rows: %v", n, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Load(ctx, all, act, Request{K: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestRequestCheck: bounds that hold whatever the data.
func TestRequestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		r    Request
		want string // "" for none
	}{
		"one expert":       {Request{K: 1}, ""},
		"none":             {Request{}, "k = 0"},
		"threads":          {Request{K: 1, Threads: -1}, "threads = -1"},
		"noise to be had":  {Request{K: 1, Noise: Shared{}}, ""},
		"known noise":      {Request{K: 1, Noise: PerExpert{Sigma: 1e-75}}, ""},
		"noise below 0":    {Request{K: 1, Noise: Shared{Sigma: -1}}, "sigma = -1"},
		"too small":        {Request{K: 1, Noise: Shared{Sigma: 1e-76}}, "sigma = 1e-76"},
		"too large":        {Request{K: 1, Noise: PerExpert{Sigma: 1e76}}, "sigma = 1e+76"},
		"noise infinite":   {Request{K: 1, Noise: Shared{Sigma: math.Inf(1)}}, "sigma = +Inf"},
		"noise, no number": {Request{K: 1, Noise: Shared{Sigma: math.NaN()}}, "sigma = NaN"},
	} {
		err := c.r.Check()
		if request := (*RequestError)(nil); (err != nil) != (c.want != "") || err != nil && (!errors.As(err, &request) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestLoaded is told between the reading and all else, and not of data that are
// refused.
func TestLoaded(t *testing.T) {
	x, y := table(40, []float64{0}, []float64{1})
	told := 0
	r := Request{K: 1, Loaded: func() { told++ }}
	loaded(t, dataset.Matrix(x, y), r)
	r.K = 41
	if _, err := Load(t.Context(), dataset.Matrix(x, y), activation(t, identity.Family), r); err == nil || told != 1 {
		t.Errorf("told %d times, want once; error %v", told, err)
	}
}

// TestWithAnotherNumberOfExperts: the same data, and the problem as it was.
func TestWithAnotherNumberOfExperts(t *testing.T) {
	x, y := table(100, []float64{0, 0}, []float64{1, 1})
	p := loaded(t, dataset.Matrix(x, y), Request{K: 2, Seed: 3, Threads: 1})
	q := p.With(5)
	if q.Shape.K != 5 || p.Shape.K != 2 || q.Rows != p.Rows || q.Second != p.Second || q.Seed != 3 {
		t.Errorf("k = %d of %d, rows shared %v", q.Shape.K, p.Shape.K, q.Rows == p.Rows)
	}
}

// logitOf is the gate's logit of expert i at x, 0 for the last.
func logitOf(p *model.Params, i int, x []float64) float64 {
	if i == p.K-1 {
		return 0
	}
	v := floats.Dot(p.Gate(i), x)
	if p.GatingIntercepts != nil {
		v += p.GatingIntercepts[i]
	}
	return v
}
