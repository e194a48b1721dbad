package predict

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/sdk"
)

// tanhNamed is tanh as an sdk.Activation of this name.
func tanhNamed(name string) sdk.Activation {
	return sdk.Func{Name: name, G: math.Tanh, DG: func(z float64) float64 { return 1 - math.Tanh(z)*math.Tanh(z) }}
}

// fittedModel is a model file's content over the parameters of randomModel.
func fittedModel(p *model.Params) *fitted.Model {
	m := &fitted.Model{
		Format: fitted.Format, Activation: stated.Activation{Name: "tanh"},
		Features: []string{"a", "b"}, Target: "y", Proportions: []float64{0.2, 0.3, 0.5}, Fit: fitted.Fit{N: 1},
	}
	m.SetParams(p)
	return m
}

// TestMatrix: in one call the numbers of the table of predictions, with posteriors
// where there is y and intervals where they are asked for.
func TestMatrix(t *testing.T) {
	const n = 2*model.BlockRows + 5
	p, x, y := randomModel(n)
	m := New(fittedModel(p), tanhNamed("tanh"))
	got, err := m.Matrix(t.Context(), x, y, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	err = m.Table(dataset.Matrix(x, y), Extras{Experts: true, Interval: 0.9}).Read(t.Context(), func(b *model.Block) error {
		for r := range b.N {
			row := slices.Concat([]float64{got.Mean[at]}, got.Gate.RawRowView(at), got.Posterior.RawRowView(at),
				got.Experts.RawRowView(at), []float64{got.Lower[at], got.Upper[at]})
			for j, v := range row {
				if b.Col(j)[r] != v {
					t.Fatalf("row %d, column %d: %v, want %v", at, j, v, b.Col(j)[r])
				}
			}
			if _, _, _, density := naive(p, x.RawRowView(at), y[at]); math.Abs(got.LogDensity[at]-math.Log(density)) > 1e-12 {
				t.Fatalf("row %d: log density %v, want %v", at, got.LogDensity[at], math.Log(density))
			}
			at++
		}
		return nil
	})
	if err != nil || at != n {
		t.Errorf("%d rows, %v", at, err)
	}
	plain, err := m.Matrix(t.Context(), x, nil, 0)
	if err != nil || plain.Posterior != nil || plain.LogDensity != nil || plain.Lower != nil || !slices.Equal(plain.Mean, got.Mean) {
		t.Errorf("without y and intervals: %v, other means or more than them", err)
	}
	x.Set(3, 1, math.NaN())
	if _, err := m.Matrix(t.Context(), x, nil, 0); err == nil {
		t.Error("NaN is predicted from")
	}
}

// TestMatrixErrors: data that do not fit the model are errors, as they are of a fit.
func TestMatrixErrors(t *testing.T) {
	p, x, y := randomModel(10)
	m := New(fittedModel(p), tanhNamed("tanh"))
	for _, c := range []struct {
		want  string
		x     *mat.Dense
		y     []float64
		level float64
	}{
		{"matrix: 8 columns, the model has 2 features", mat.NewDense(10, 8, nil), y, 0},
		{"matrix: 1 column, the model has 2 features", mat.NewDense(3, 1, nil), nil, 0},
		{"matrix: 9 targets for 10 rows", x, y[1:], 0},
		{"matrix: 0 targets for 10 rows", x, []float64{}, 0},
		{"prediction interval of level 1, want 0 for none or one between 0 and 1", x, y, 1},
		{"prediction interval of level NaN, want 0 for none or one between 0 and 1", x, y, math.NaN()},
		{"prediction interval of level -0.5, want 0 for none or one between 0 and 1", x, nil, -0.5},
	} {
		if r, err := m.Matrix(t.Context(), c.x, c.y, c.level); r != nil || err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
}

// TestProgrammersErrors: what is wrong in the program is a panic that says what.
func TestProgrammersErrors(t *testing.T) {
	p, x, y := randomModel(10)
	m := New(fittedModel(p), tanhNamed("tanh"))
	ctx := context.Background()
	for want, fn := range map[string]func(){
		"predict: prediction interval of level NaN, want 0 for none or one between 0 and 1": func() { m.Table(dataset.Matrix(x, y), Extras{Interval: math.NaN()}) },
		"predict: no activation": func() { NewPredictor(p, nil, "") },
		"predict: the model was fitted with tanh, which is not in its file and was not given": func() { New(fittedModel(p), nil) },
		"predict: the model was fitted with tanh, not with relu":                              func() { New(fittedModel(p), tanhNamed("relu")) },
		"predict: 3 columns, the model has 2 features": func() {
			NewPredictor(p, tanh{}, "").Predict(ctx, &model.Block{N: 2, X: make([]float64, 6)})
		},
	} {
		func() {
			defer func() {
				if got := recover(); got != want {
					t.Errorf("panic %v, want %s", got, want)
				}
			}()
			fn()
		}()
	}
}

// TestTablesThatDoNotFit: of data from elsewhere the same is an error.
func TestTablesThatDoNotFit(t *testing.T) {
	p, x, y := randomModel(10)
	m := New(fittedModel(p), tanhNamed("tanh"))
	for want, src := range map[string]dataset.Source{
		"matrix: 8 features, the model has 2":                          dataset.Matrix(mat.NewDense(10, 8, nil), y),
		"matrix: 1 feature, the model has 2":                           dataset.Matrix(mat.NewDense(10, 1, nil), y),
		"matrix: the features stand in another order than the model's": dataset.Matrix(x, y).Named([]string{"b", "a"}, ""),
	} {
		_, err := m.Evaluate(t.Context(), src)
		if err == nil || err.Error() != want {
			t.Errorf("evaluation: error %v, want %s", err, want)
		}
		err = m.Table(src, Extras{}).Read(t.Context(), func(*model.Block) error { return nil })
		if err == nil || err.Error() != want {
			t.Errorf("predictions: error %v, want %s", err, want)
		}
	}
	for _, src := range []dataset.Source{dataset.Matrix(x, y), dataset.Matrix(x, y).Named([]string{"a", "b"}, "t")} {
		if _, err := m.Evaluate(t.Context(), src); err != nil {
			t.Error(err)
		}
	}
}

func write(t *testing.T, m *fitted.Model) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.json")
	if err := m.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpen: with the activation, with one found by its name, and with none.
func TestOpen(t *testing.T) {
	p, x, y := randomModel(300)
	want, err := New(fittedModel(p), tanhNamed("tanh")).Matrix(t.Context(), x, y, 0)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, fittedModel(p))
	same := func(m *Model, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got, err := m.Matrix(t.Context(), x, y, 0)
		if err != nil || !slices.Equal(got.Mean, want.Mean) || !mat.Equal(got.Posterior, want.Posterior) {
			t.Errorf("other predictions from the file, error %v", err)
		}
	}
	same(Open(t.Context(), path, tanhNamed("tanh")))
	same(Open(t.Context(), path, tanh{})) // one that does not say what it is
	same(OpenWith(t.Context(), path, func(_ context.Context, named stated.Activation) (model.Activation, error) {
		return tanhNamed(named.Name), nil
	}))
	for want, fn := range map[string]func() (*Model, error){
		"the model was fitted with tanh, not with relu":                              func() (*Model, error) { return Open(t.Context(), path, tanhNamed("relu")) },
		"the model was fitted with tanh, which is not in its file and was not given": func() (*Model, error) { return Open(t.Context(), path, nil) },
	} {
		_, err := fn()
		if fault := (*dataset.Error)(nil); !errors.As(err, &fault) || fault.File != path || fault.Msg != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	missing := errors.New("not here")
	if _, err := OpenWith(t.Context(), path, func(context.Context, stated.Activation) (model.Activation, error) { return nil, missing }); err != missing {
		t.Errorf("error %v of a resolver", err)
	}
}

// TestOpenApproximated: the file alone predicts within the approximation's range;
// further out the activation is asked once, and compared with it first.
func TestOpenApproximated(t *testing.T) {
	p, x, _ := randomModel(300)
	m := fittedModel(p)
	f, err := native.Build(t.Context(), tanhNamed("tanh"))
	if err != nil {
		t.Fatal(err)
	}
	m.Approximation = f.Coefficients()
	path := write(t, m)
	alone, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alone.Matrix(t.Context(), x, nil, 0); err != nil {
		t.Fatal(err)
	}
	far := mat.NewDense(1, 2, []float64{1e9, 1e9})
	beyond := (*BeyondError)(nil)
	if _, err := alone.Matrix(t.Context(), far, nil, 0); !errors.As(err, &beyond) || beyond.Err == nil || beyond.File != path {
		t.Errorf("far out, without the activation: error %v", err)
	}
	asked := 0
	open := func(g func(float64) float64) *Model {
		m, err := OpenWith(t.Context(), path, func(context.Context, stated.Activation) (model.Activation, error) {
			asked++
			return sdk.Func{Name: "tanh", G: g, DG: g}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	right := open(math.Tanh)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := right.Matrix(t.Context(), far, nil, 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if asked != 1 {
		t.Errorf("the resolver was asked %d times", asked)
	}
	if _, err := open(math.Atan).Matrix(t.Context(), far, nil, 0); !errors.As(err, &beyond) || beyond.Err != nil || !strings.Contains(err.Error(), "another one") {
		t.Errorf("far out, with another function of that name: error %v", err)
	}
}
