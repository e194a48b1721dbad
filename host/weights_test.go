package host_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

func activation(t testing.TB, f sdk.Family) sdk.Activation {
	t.Helper()
	act, err := f.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// drawn returns a sample as a matrix and its targets.
func drawn(t testing.TB, family sdk.Family, n, d, k int, seed uint64) (*mat.Dense, []float64) {
	t.Helper()
	s, err := sample.New(sample.Config{Activation: activation(t, family), K: k, D: d, N: n, Sigma: 0.3, Design: sample.Paper, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Load(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	x, y := mat.NewDense(n, d, nil), make([]float64, 0, n)
	for i := range data.Blocks {
		b := &data.Blocks[i]
		for r := range b.N {
			for j := range d {
				x.Set(len(y), j, b.Col(j)[r])
			}
			y = append(y, b.Y[r])
		}
	}
	return x, y
}

// A row of weight w counts as w rows, a row of weight 0 as none: the fit is that
// of the rows repeated, moments included.
func TestWeightsCountRows(t *testing.T) {
	testslow.Mark(t)
	for name, test := range map[string]struct {
		family sdk.Family
		cfg    host.Config
	}{
		"identity":            {identity.Family, host.Config{K: 2, Seed: 1}},
		"sigmoid, intercepts": {sigmoid.Family, host.Config{K: 2, Seed: 1, Intercepts: host.BothIntercepts, Noise: host.PerExpert{}}},
		"em":                  {identity.Family, host.Config{K: 2, Seed: 1, Method: host.EM{}}},
		"moments":             {identity.Family, host.Config{K: 2, Seed: 1, Method: host.Moments{}}},
	} {
		t.Run(name, func(t *testing.T) {
			const n, d = 900, 5
			x, y := drawn(t, test.family, n, d, 2, 6) // one optimum stands out: the two searches start from other rows
			w := make([]float64, n)
			var rows, target []float64
			for i := range n {
				w[i] = float64(i * 7 % 4) // 0, 3, 2, 1, …
				for range i * 7 % 4 {
					rows, target = append(rows, x.RawRowView(i)...), append(target, y[i])
				}
			}
			fit := func(src dataset.Source) *fitted.Model {
				m, err := host.Fit(context.Background(), activation(t, test.family), src, test.cfg)
				if err != nil {
					t.Fatal(err)
				}
				return m
			}
			weighted := fit(dataset.WeightedMatrix(x, y, w))
			if test.cfg.Noise != nil {
				// With a noise of its own an expert may shrink onto a few rows, to an optimum that one search of the
				// two finds and the other does not: so both go on from where the one ended.
				test.cfg.Method, test.cfg.Start = host.Auto{Starts: 1}, weighted.Params()
				weighted = fit(dataset.WeightedMatrix(x, y, w))
			}
			repeated := fit(dataset.Matrix(mat.NewDense(len(target), d, rows), target))
			if got, want := weighted.Fit.LogLikelihood, repeated.Fit.LogLikelihood; math.Abs(got-want) > 1e-8*math.Abs(want) {
				t.Errorf("log-likelihood %v, of the repeated rows %v", got, want)
			}
			// The iterations end within 1e−12 in the mean log-likelihood, which
			// leaves parameters 1e−6 of a standard deviation; Newton's last step
			// leaves the square of that.
			near := cmpopts.EquateApprox(0, 1e-8)
			if diff := cmp.Diff(repeated.Params(), weighted.Params(), near); diff != "" {
				t.Errorf("parameters of the repeated rows (−) and of the weights (+):\n%s", diff)
			}
			if diff := cmp.Diff(repeated.Fit.BIC, weighted.Fit.BIC, cmpopts.EquateApprox(1e-8, 0)); diff != "" {
				t.Errorf("BIC:\n%s", diff)
			}
			if weighted.Fit.Weight != float64(len(target)) || weighted.Fit.N != n {
				t.Errorf("weight %v, n %d", weighted.Fit.Weight, weighted.Fit.N)
			}
		})
	}
}

// Weights of another size are the same weights to the parameters; the
// log-likelihood goes with them.
func TestWeightsOfAnySize(t *testing.T) {
	x, y := drawn(t, identity.Family, 600, 5, 2, 4)
	w := make([]float64, 600)
	fit := func(scale float64) *fitted.Model {
		for i := range w {
			w[i] = scale * float64(1+i%3)
		}
		m, err := host.Fit(context.Background(), activation(t, identity.Family), dataset.WeightedMatrix(x, y, w), host.Config{K: 2, Seed: 1, Method: host.Auto{Starts: 2}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	want := fit(1)
	for _, scale := range []float64{1e-6, 0.5, 3, 1e9} {
		m := fit(scale)
		if diff := cmp.Diff(want.Params(), m.Params(), cmpopts.EquateApprox(0, 1e-8)); diff != "" {
			t.Errorf("weights times %v: parameters\n%s", scale, diff)
		}
		if got := m.Fit.LogLikelihood / scale; math.Abs(got-want.Fit.LogLikelihood) > 1e-8*math.Abs(want.Fit.LogLikelihood) {
			t.Errorf("weights times %v: log-likelihood %v, want %v", scale, got, want.Fit.LogLikelihood)
		}
	}
}

// TestCertificateOfWeights: the certificate of rows that all weigh w is that of w copies of each: the statistics go with
// w, also across powers of two, by which weights are divided in a search, and the p-values with them. Rows that depend
// on those before them are rows, whatever they weigh. One expert has one optimum, and targets the same random numbers.
func TestCertificateOfWeights(t *testing.T) {
	x, y := drawn(t, identity.Family, 400, 3, 2, 4) // of two experts
	fit := func(weight, first float64) map[string]fitted.CertificateTest {
		w := make([]float64, len(y))
		for i := range w {
			w[i] = weight
		}
		w[0] = first
		m, err := host.Fit(t.Context(), activation(t, identity.Family), dataset.WeightedMatrix(x, y, w), host.Config{K: 1, Intercepts: host.BothIntercepts})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]fitted.CertificateTest{}
		for _, test := range m.Fit.Certificate.Tests {
			out[test.Name] = test
		}
		return out
	}
	want := fit(8, 8) // clearly suspect, so that all are made with the same draws again
	for _, c := range []struct{ weight, first float64 }{
		{16, 16}, {16, 15.9}, {15.9, 15.9}, {12, 12},
	} {
		got := fit(c.weight, c.first)
		if len(got) != len(want) {
			t.Errorf("weights of %v: %d tests, want %d", c.weight, len(got), len(want))
		}
		for name, test := range want {
			size := c.weight / 8
			if name == infer.DependenceTest {
				size = 1
			}
			// What is taken off for coefficients and skewness does not go with the weights.
			if v := got[name].Statistic / size; math.Abs(v-test.Statistic) > 0.1*test.Statistic {
				t.Errorf("weights of %v (the first %v): %s has χ² %v a unit of weight, want %v", c.weight, c.first, name, v, test.Statistic)
			}
		}
	}
}

// TestGapOfWeights: of rows of a right model that all weigh 10, or 1 to 19, leaving out each whole costs what so many
// parameters explain, to half of it, and is no warning; in the file is the weights' column.
func TestGapOfWeights(t *testing.T) {
	x, y := drawn(t, identity.Family, 400, 3, 2, 4)
	for name, weight := range map[string]func(i int) float64{
		"all 10":  func(int) float64 { return 10 },
		"1 to 19": func(i int) float64 { return float64(1 + i%19) },
	} {
		w := make([]float64, len(y))
		sum, squares := 0.0, 0.0
		for i := range w {
			w[i] = weight(i)
			sum, squares = sum+w[i], squares+w[i]*w[i]
		}
		m, err := host.Fit(t.Context(), activation(t, identity.Family), dataset.WeightedMatrix(x, y, w), host.Config{K: 2, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		left := m.LeftOut()
		if left == nil {
			t.Fatalf("%s: rows were not left out", name)
		}
		want := float64(left.Parameters) * squares / sum
		if math.Abs(left.Explained-want) > 1e-9*want || math.Abs(left.Gap-want) > want/2 {
			t.Errorf("%s: a gap of %v, %v explained, want %v", name, left.Gap, left.Explained, want)
		}
		for _, warning := range m.Fit.Warnings {
			if strings.Contains(warning, "leaving out each row") {
				t.Errorf("%s: %s", name, warning)
			}
		}
		if m.Fit.WeightColumn == "" {
			t.Errorf("%s: the file does not name the weights", name)
		}
	}
}

// TestCellsOfCounts: a table of cells with counts has the log-likelihood, BIC, experts and verdicts of its rows one by
// one.
func TestCellsOfCounts(t *testing.T) {
	testslow.Mark(t)
	var cells, rows, targets, weights, each []float64
	for i := range 88 {
		x := float64(i%11) - 5
		y := math.Floor(2*x) / 2
		if i%2 == 1 {
			y = 3 - math.Floor(x)
		}
		y += float64(i/22)/4 - 0.375
		w := 3 + i*7%11 + 4*(i%2)
		cells, targets, weights = append(cells, x), append(targets, y), append(weights, float64(w))
		for range w {
			rows, each = append(rows, x), append(each, y)
		}
	}
	fit := func(src dataset.Source) *fitted.Model {
		m, err := host.Fit(t.Context(), activation(t, identity.Family), src, host.Config{K: 2, Seed: 1, Intercepts: host.BothIntercepts})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	got := fit(dataset.WeightedMatrix(mat.NewDense(len(cells), 1, cells), targets, weights))
	want := fit(dataset.Matrix(mat.NewDense(len(rows), 1, rows), each))
	if diff := cmp.Diff(want.Params(), got.Params(), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
		t.Errorf("parameters of rows (−) and cells (+):\n%s", diff)
	}
	if math.Abs(got.Fit.LogLikelihood-want.Fit.LogLikelihood) > 1e-6 || math.Abs(got.Fit.BIC-want.Fit.BIC) > 1e-6 {
		t.Errorf("log-likelihood %v, BIC %v, of rows %v, %v", got.Fit.LogLikelihood, got.Fit.BIC, want.Fit.LogLikelihood, want.Fit.BIC)
	}
	if a, b := got.Fit.Certificate, want.Fit.Certificate; a.Optimum != b.Optimum {
		t.Errorf("optimum %s (%s), of rows %s (%s)", a.Optimum, a.Reason, b.Optimum, b.Reason)
	}
}

// TestWeightsOfParts: weights that add up to 1, or to far less than the rows, change no coefficient, and nothing is
// judged by them; one warning says so, and no other comes of rows that are too few.
func TestWeightsOfParts(t *testing.T) {
	x, y := drawn(t, identity.Family, 400, 3, 2, 4)
	fit := func(each float64) *fitted.Model {
		w := make([]float64, len(y))
		for i := range w {
			w[i] = each * (0.5 + float64(i%3)/2)
		}
		m, err := host.Fit(t.Context(), activation(t, identity.Family), dataset.WeightedMatrix(x, y, w), host.Config{K: 2, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	want := fit(1)
	if want.Fit.Has(fitted.WarnWeights) || want.Fit.Certificate.Model == infer.NotJudged {
		t.Errorf("weights of a mean of 1: %q, %+v", want.Fit.Warnings, want.Fit.Certificate)
	}
	for _, each := range []float64{1.0 / 400, 1e-9, 0.3} {
		m := fit(each)
		if diff := cmp.Diff(want.Params(), m.Params(), cmpopts.EquateApprox(0, 1e-6)); diff != "" {
			t.Errorf("weights of %v: parameters\n%s", each, diff)
		}
		c := m.Fit.Certificate
		if c.Optimum != infer.NotJudged || c.Model != infer.NotJudged || !strings.Contains(c.Reason, "add up to") {
			t.Errorf("weights of %v: %s, %s: %s", each, c.Optimum, c.Model, c.Reason)
		}
		if all := m.Fit.Weighed(); len(all) == 0 || all[0] != c.Reason || m.Fit.Has(fitted.WarnTooMany) || m.Fit.Has(fitted.WarnNewRows) {
			t.Errorf("weights of %v: warnings %q", each, all)
		}
	}
}
