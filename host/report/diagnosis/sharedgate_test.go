package diagnosis_test

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestDiagnoseSharedGate: two experts that differ in the second target alone are told apart in
// the first too, since a row's expert is that of both; and the page has every section.
func TestDiagnoseSharedGate(t *testing.T) {
	p := model.NewVectorParams(2, 2, 2, false)
	copy(p.Regressors, []float64{1, 1, 5, 0, 1, 1, -5, 0})
	copy(p.Gating, []float64{0, 1})
	p.Noise[0].Scale = []float64{0.1, 0.1}
	const n = 700
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(n, 2, nil), [2][]float64{make([]float64, n), make([]float64, n)}
	for r := range n {
		row := x.RawRowView(r)
		row[0], row[1] = 1+rng.Float64(), rng.NormFloat64() // the first is away from 0
		for c := range y {
			y[c][r] = floats.Dot(p.Regressor(r%2, c), row) + 0.1*rng.NormFloat64()
		}
	}
	leaf := stated.Activation{Name: "identity"}
	v := fitted.NewSharedGate(p, []string{"a", "b"}, []string{"u", "v"}, []stated.Activation{leaf, leaf})
	v.SharedGate.Fit = &fitted.Fit{N: n, Method: "auto", Converged: true, Starts: []fitted.Start{{Kind: "random", Rows: n, LogLikelihood: -1, Agrees: true}}}
	v.SharedGate.Proportions = []float64{0.5, 0.5}
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	tables := []dataset.Source{dataset.Matrix(x, y[0]), dataset.Matrix(x, y[1])}
	together, err := diagnosis.OfSharedGate(t.Context(), v, act, tables)
	if err != nil {
		t.Fatal(err)
	}
	m := v.Model(0)
	m.Fit.N = n
	alone, err := diagnosis.Of(t.Context(), m, act, tables[0])
	if err != nil {
		t.Fatal(err)
	}
	sure := func(d *diagnosis.Diagnosis) float64 { return d.Sharpness[len(d.Sharpness)-1] }
	if sure(together[0]) != 1 || sure(together[1]) != 1 || sure(alone) > 0.3 {
		t.Errorf("shares of rows that are surely one expert's: %v and %v, want 1; of the first target alone %v, want less than 0.3", sure(together[0]), sure(together[1]), sure(alone))
	}
	for r, point := range together[0].Points {
		if point.Expert != r%2 {
			t.Fatalf("point %d is of expert %d, want %d", r, point.Expert, r%2)
		}
	}
	var out bytes.Buffer
	if err := page.SharedGate(&out, nil, v, together); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 identity experts with 2 outputs each under one gate, 700 rows", "<h2>Gate</h2>", "<h3>Starts</h3>", "<h1>Target u</h1>", "<h1>Target v</h1>", "<h2>Residuals</h2>"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
