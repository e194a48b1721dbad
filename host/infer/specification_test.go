package infer

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

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
	const d = 3
	p := model.NewParams(3, d)
	copy(p.Regressors, []float64{1, 0.5, 0, -1, 0.2, 0, 0, 1, -2})
	copy(p.Gating, []float64{0.5, 0, 1, -0.3, 0.4, 0})
	p.RegressorIntercepts, p.GatingIntercepts = []float64{0.3, -0.2, 1}, []float64{0.5, -0.5}
	p.Sigma = []float64{0.2, 0.3, 0.5}
	data := &model.Data{D: d}
	rng := rand.New(rand.NewPCG(5, 5))
	m := newTerms(act, p, loss.All)
	for data.N < n {
		b := model.Block{N: min(model.BlockRows, n-data.N)}
		b.X, b.Y = make([]float64, b.N*d), make([]float64, b.N)
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		data.Blocks = append(data.Blocks, b)
		data.N += b.N
	}
	m.measure(t.Context(), data)
	w := m.newRows()
	for i := range data.Blocks {
		if err := m.given(t.Context(), w, &data.Blocks[i]); err != nil {
			t.Fatal(err)
		}
		m.draw(w, rng)
		copy(data.Blocks[i].Y, w.y)
	}
	return data, p
}

// TestTermsHaveMeanZero: under the model the mean of every term given x is 0,
// at each of a few x, by integration over y with the density of the mixture.
func TestTermsHaveMeanZero(t *testing.T) {
	data, p := twoExperts(t, 5, softsign{})
	m := newTerms(softsign{}, p, loss.All)
	m.measure(t.Context(), data)
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
			m.measure(t.Context(), data)
			got, err := m.sums(t.Context(), data, 2)
			if err != nil {
				t.Fatal(err)
			}
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
		b.W = make([]float64, b.N)
		for r := range b.W {
			b.W[r] = float64(r % 4)
		}
	}
}

// TestTestsDoNotDependOnWorkers, and use random numbers of the seed alone.
func TestTestsDoNotDependOnWorkers(t *testing.T) {
	data, p := twoExperts(t, 5000, softsign{})
	run := func(seed uint64, workers int) []Test {
		tests, err := Tests(t.Context(), data, softsign{}, p, loss.All, seed, workers)
		if err != nil {
			t.Fatal(err)
		}
		return tests
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
		tests, err := Tests(t.Context(), data, identity{}, p, loss.All, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var out []int
		for _, x := range tests {
			out = append(out, x.DF)
		}
		return out
	}
	if got, want := dfs(), []int{9, 6, 8, 3, 6}; !reflect.DeepEqual(got, want) {
		t.Errorf("with intercepts: degrees of freedom %v, want %v", got, want)
	}
	p.RegressorIntercepts, p.GatingIntercepts = nil, nil
	if got, want := dfs(), []int{9, 9, 10, 3, 6}; !reflect.DeepEqual(got, want) {
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
