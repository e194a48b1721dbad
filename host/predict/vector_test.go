package predict_test

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// TestOutputs: the means of two trees 2x(1,2), written to a file and read again, against
// the products of probabilities written out.
func TestOutputs(t *testing.T) {
	v := &fitted.Vector{
		Format: fitted.FormatV2, Hierarchy: "2x(1,2)", K: 3, D: 2, Features: []string{"a", "b"},
		Leaves: []stated.Activation{{Name: "identity"}, {Name: "tanh"}, {Name: "tanh"}},
	}
	for j, name := range []string{"u", "v"} {
		p := model.NewParams(3, 2)
		p.RegressorIntercepts, p.GatingIntercepts = []float64{0.1, -0.2, 0.3}, []float64{0.5, -0.7}
		for i := range p.Regressors {
			p.Regressors[i] = math.Sin(float64(1 + i + 7*j))
		}
		for i := range p.Gating {
			p.Gating[i] = math.Cos(float64(2 + i + 5*j))
		}
		v.Outputs = append(v.Outputs, fitted.NewOutput(name, p))
	}
	path := filepath.Join(t.TempDir(), "vector.json")
	if err := v.Write(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	v, err := fitted.ReadVector(path)
	if err != nil {
		t.Fatal(err)
	}
	id, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	th, err := tanh.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := mat.NewDense(300, 2, nil)
	for i := range 300 {
		x.SetRow(i, []float64{math.Sin(float64(3 * i)), 2 * math.Cos(float64(i))})
	}
	table, err := predict.Outputs(v, model.PerExpert{id, th, th}, dataset.Matrix(x, nil), 0)
	if err != nil {
		t.Fatal(err)
	}
	if s := table.Schema(); len(s.Features) != 2 || s.Features[0] != "u" || s.Features[1] != "v" || s.Target != "" {
		t.Errorf("columns %v, target %q", s.Features, s.Target)
	}
	row := 0
	err = table.Read(t.Context(), func(b *model.Block) error {
		for r := range b.N {
			for j := range v.Outputs {
				p := v.Params(j)
				linear := func(w []float64, b float64) float64 { return w[0]*x.At(row, 0) + w[1]*x.At(row, 1) + b }
				sigma := func(i int) float64 { return 1 / (1 + math.Exp(-linear(p.Gate(i), p.GatingIntercepts[i]))) }
				arg := func(i int) float64 { return linear(p.Regressor(i), p.RegressorIntercepts[i]) }
				z, first := sigma(0), sigma(1)
				want := z*arg(0) + (1-z)*(first*math.Tanh(arg(1))+(1-first)*math.Tanh(arg(2)))
				if got := b.X[j*b.N+r]; math.Abs(got-want) > 1e-14 {
					t.Fatalf("row %d, output %d: %v, want %v", row, j, got, want)
				}
			}
			row++
		}
		return nil
	})
	if err != nil || row != 300 {
		t.Errorf("%d rows, %v", row, err)
	}
}

// TestJointOutputs: the probabilities of two experts with correlated outputs under one gate,
// given x and given x and both targets, against the bivariate normal density written out.
func TestJointOutputs(t *testing.T) {
	const n, rho = 2*model.BlockRows + 100, 0.7
	sigma := []float64{0.5, 2}
	cov := mat.NewSymDense(2, []float64{sigma[0] * sigma[0], rho * sigma[0] * sigma[1], rho * sigma[0] * sigma[1], sigma[1] * sigma[1]})
	noise, ok := model.VectorNoiseOf(cov, true)
	if !ok {
		t.Fatal("no noise")
	}
	p := model.NewVectorParams(2, 2, 2, true)
	p.Noise = []model.VectorNoise{noise}
	copy(p.Regressors, []float64{1, -0.5, 0.3, 2, -1, 0.7, 0.2, -0.4})
	copy(p.Gating, []float64{0.8, -1.1})
	v := fitted.NewSharedGate(p, []string{"a", "b"}, []string{"u", "v"}, []stated.Activation{{Name: "identity"}, {Name: "identity"}})
	id, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	x, y := mat.NewDense(n, 2, nil), [2][]float64{make([]float64, n), make([]float64, n)}
	for r := range n {
		x.SetRow(r, []float64{math.Sin(float64(3 * r)), 2 * math.Cos(float64(r))})
		y[0][r], y[1][r] = math.Cos(float64(5*r)), 3*math.Sin(float64(7*r))
	}
	tables := []dataset.Source{dataset.Matrix(x, y[0]), lacking{dataset.Matrix(x, y[1]), 5}}
	table, err := predict.JointOutputs(v, id, tables, 0.9)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"u", "v", "p1", "p2", "posterior1", "posterior2", "lower_u", "upper_u", "lower_v", "upper_v"}
	if s := table.Schema(); !slices.Equal(s.Features, want) || s.Target != "" {
		t.Errorf("columns %v, target %q", s.Features, s.Target)
	}
	linear := func(w []float64, r int) float64 { return w[0]*x.At(r, 0) + w[1]*x.At(r, 1) }
	density := func(i, r int) float64 { // of both targets under expert i, up to a factor
		e := y[0][r] - linear(p.Regressor(i, 0), r)
		f := y[1][r] - linear(p.Regressor(i, 1), r)
		e, f = e/sigma[0], f/sigma[1]
		return math.Exp(-(e*e - 2*rho*e*f + f*f) / (2 * (1 - rho*rho)))
	}
	row := 0
	err = table.Read(t.Context(), func(b *model.Block) error {
		for r := range b.N {
			first := 1 / (1 + math.Exp(-linear(p.Gating, row)))
			if got := b.Col(2)[r]; math.Abs(got-first) > 1e-14 || math.Abs(b.Col(3)[r]-(1-first)) > 1e-14 {
				t.Fatalf("row %d: probabilities %v and %v, want %v", row, got, b.Col(3)[r], first)
			}
			f0, f1 := first*density(0, row), (1-first)*density(1, row)
			posterior := f0 / (f0 + f1)
			if row == 5 {
				posterior = math.NaN()
			}
			// Exponents of up to 300 are rounded in their last digit.
			if got := b.Col(4)[r]; !(math.Abs(got-posterior) < 1e-12) && !(row == 5 && math.IsNaN(got)) {
				t.Fatalf("row %d: posterior %v, want %v", row, got, posterior)
			}
			if got := b.Col(4)[r] + b.Col(5)[r]; !(math.Abs(got-1) < 1e-14) && row != 5 {
				t.Fatalf("row %d: posteriors that add up to %v", row, got)
			}
			if mean := first*linear(p.Regressor(0, 1), row) + (1-first)*linear(p.Regressor(1, 1), row); math.Abs(b.Col(1)[r]-mean) > 1e-14 {
				t.Fatalf("row %d: mean %v, want %v", row, b.Col(1)[r], mean)
			}
			if !(b.Col(8)[r] < b.Col(1)[r] && b.Col(1)[r] < b.Col(9)[r]) {
				t.Fatalf("row %d: interval from %v to %v", row, b.Col(8)[r], b.Col(9)[r])
			}
			row++
		}
		return nil
	})
	if err != nil || row != n {
		t.Errorf("%d rows, %v", row, err)
	}
	short := []dataset.Source{tables[0], dataset.Matrix(mat.DenseCopyOf(x.Slice(0, n-1, 0, 2)), y[1][:n-1])}
	if table, err = predict.JointOutputs(v, id, short, 0); err != nil {
		t.Fatal(err)
	}
	fault := new(dataset.Error)
	if err := table.Read(t.Context(), func(*model.Block) error { return nil }); !errors.As(err, &fault) {
		t.Errorf("tables of different rows: %v, want a dataset.Error", err)
	}
}

// lacking is a source of which a row of the first block lacks the target.
type lacking struct {
	dataset.Source
	row int
}

func (l lacking) Read(ctx context.Context, fn func(*model.Block) error) error {
	first := true
	return l.Source.Read(ctx, func(b *model.Block) error {
		if !first {
			return fn(b)
		}
		first = false
		y := slices.Clone(b.Y)
		y[l.row] = math.NaN()
		return fn(&model.Block{N: b.N, X: b.X, Y: y})
	})
}
