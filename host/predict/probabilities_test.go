package predict

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// logistic is 1/(1 + exp(−z)); its slope is not asked for.
type logistic struct{ identity }

func (logistic) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 1 / (1 + math.Exp(-v))
	}
	return nil
}

// rowsOf are rows of a table in memory.
type rowsOf struct {
	schema dataset.Schema
	block  model.Block
}

func (t rowsOf) Schema() dataset.Schema { return t.schema }

func (t rowsOf) Read(_ context.Context, fn func(*model.Block) error) error { return fn(&t.block) }

// TestProbabilities: p_0, p_1 … are Σ_i P(z=i|x)·P(y = j|z=i), of counts with a zero expert that of it at 0, and of successes those of the row's trials: 0 beyond
// them. A row without its feature has none, and of normal noise they are refused.
func TestProbabilities(t *testing.T) {
	p := model.NewParams(2, 1)
	p.RegressorIntercepts = []float64{0.2, -0.4}
	copy(p.Regressors, []float64{0.7, -0.3})
	x := []float64{-1, 0.5, math.NaN(), 2}
	read := func(p *model.Params, act model.Activation, trials []float64, values ...float64) ([]string, *model.Block) {
		t.Helper()
		src := rowsOf{dataset.Schema{Name: "rows", Features: []string{"x"}}, model.Block{N: len(x), X: x}}
		src.block.Role[model.Trials] = trials
		table := Predictions(p, act, src, Extras{Values: values})
		var out model.Block
		if err := table.Read(t.Context(), func(b *model.Block) error { out = b.Clone(); return nil }); err != nil {
			t.Fatal(err)
		}
		return table.Schema().Features, &out
	}
	choose := func(n, y float64) float64 {
		a, _ := math.Lgamma(n + 1)
		b, _ := math.Lgamma(y + 1)
		c, _ := math.Lgamma(n - y + 1)
		return math.Exp(a - b - c)
	}
	for _, zero := range []bool{false, true} {
		q := p.Clone()
		q.Family, q.Sigma, q.Gating = "poisson", nil, []float64{0.8}
		if zero {
			q.Zero, q.Gating = true, []float64{0.8, -0.5}
		}
		names, out := read(q, logistic{}, nil, 0, 1, 2)
		if !slices.Equal(names[len(names)-3:], []string{"p_0", "p_1", "p_2"}) {
			t.Errorf("columns %v", names)
		}
		for r, v := range x {
			odds := []float64{math.Exp(0.8 * v), 1}
			if zero {
				odds = []float64{math.Exp(0.8 * v), math.Exp(-0.5 * v), 1}
			}
			sum := 0.0
			for _, o := range odds {
				sum += o
			}
			for j := range 3 {
				want := 0.0
				for i := range 2 {
					mean := 1 / (1 + math.Exp(-q.RegressorIntercepts[i]-q.Regressors[i]*v))
					want += odds[i] / sum * math.Exp(-mean) * math.Pow(mean, float64(j)) / []float64{1, 1, 2}[j]
				}
				if zero && j == 0 {
					want += odds[2] / sum
				}
				got := out.Col(len(names) - 3 + j)[r]
				if math.IsNaN(v) != math.IsNaN(got) || math.Abs(got-want) > 1e-14 {
					t.Errorf("zero %v, row %d: P(y = %d) = %v, want %v", zero, r, j, got, want)
				}
			}
		}
	}
	q := p.Clone()
	q.Family, q.Sigma, q.Gating = "binomial", nil, []float64{0.8}
	trials := []float64{1, 2, 3, 4}
	names, out := read(q, logistic{}, trials, 2, 3)
	for r, v := range x {
		for j, y := range []float64{2, 3} {
			want, first := 0.0, 1/(1+math.Exp(-0.8*v))
			for i, share := range []float64{first, 1 - first} {
				m := 1 / (1 + math.Exp(-q.RegressorIntercepts[i]-q.Regressors[i]*v))
				if y <= trials[r] {
					want += share * choose(trials[r], y) * math.Pow(m, y) * math.Pow(1-m, trials[r]-y)
				}
			}
			got := out.Col(len(names) - 2 + j)[r]
			if math.IsNaN(v) != math.IsNaN(got) || math.Abs(got-want) > 1e-14 {
				t.Errorf("row %d: P(y = %v of %v) = %v, want %v", r, y, trials[r], got, want)
			}
		}
	}
	defer func() {
		if said, ok := recover().(string); !ok || !strings.Contains(said, "probabilities of single values of the density gaussian") {
			t.Errorf("panic %v", said)
		}
	}()
	read(p, identity{}, nil, 0)
}

// exponential is exp(z).
type exponential struct{ identity }

func (exponential) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = math.Exp(v)
	}
	return nil
}

// TestMeansOfSmallProbabilities: an expert whose probability is e^−60 has a mean of e^60 and more, and counts. The oracle
// adds up exp(log P(z=i|x) + z_i), whose exponents are rounded to some 1e−14.
func TestMeansOfSmallProbabilities(t *testing.T) {
	for _, zero := range []bool{false, true} {
		p := model.NewParams(2, 1)
		p.Family, p.Sigma = "poisson", nil
		p.RegressorIntercepts = []float64{2, 0.3}
		copy(p.Regressors, []float64{-0.3, 1.5})
		p.Gating = []float64{1.02}
		odds := []float64{1.02, 0}
		if zero {
			p.Zero, p.Gating = true, []float64{1.02 - 2, -2}
			odds = []float64{1.02 - 2, -2, 0}
		}
		predictor := NewPredictor(p, exponential{}, "rows")
		far, err := predictor.Predict(t.Context(), &model.Block{N: 1, X: []float64{500}})
		if err != nil || far.Mean[0] > 1 { // the second expert's mean, e^750, is no number
			t.Errorf("zero %v: mean %v, error %v", zero, far, err)
		}
		x := []float64{-80, -50, 0, 30, 38, 40, 45, 50, 60, 200, 300}
		got, err := predictor.Predict(t.Context(), &model.Block{N: len(x), X: x})
		if err != nil {
			t.Fatal(err)
		}
		for r, v := range x {
			top, sum, want := math.Inf(-1), 0.0, 0.0
			for _, w := range odds {
				top = max(top, w*v)
			}
			for _, w := range odds {
				sum += math.Exp(w*v - top)
			}
			for i := range 2 {
				want += math.Exp(odds[i]*v - top - math.Log(sum) + p.Regressors[i]*v + p.RegressorIntercepts[i])
			}
			if math.Abs(got.Mean[r]-want) > 1e-12*want {
				t.Errorf("zero %v, x = %v: mean %v, want %v", zero, v, got.Mean[r], want)
			}
		}
	}
}
