package predict_test

import (
	"math"
	"path/filepath"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
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
		Leaves: []fitted.Activation{{Name: "identity"}, {Name: "tanh"}, {Name: "tanh"}},
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
