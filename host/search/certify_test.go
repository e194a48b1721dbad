package search

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/identity"
)

// certified judges q, as if it were a maximum.
func certified(t *testing.T, p *problem.Problem, q *model.Params) *infer.Certificate {
	t.Helper()
	c := &Candidate{Run: &optim.Result{Status: optim.Converged}, Params: q}
	got, note, err := Certify(t.Context(), p, c, []*Candidate{c}, nil)
	if err != nil || got == nil {
		t.Fatalf("certificate %v, note %q: %v", got, note, err)
	}
	return got
}

// TestExactFits: a target of two values that two experts are is not judged, and the
// reason names them; one that two lines fit exactly passes, as it did.
func TestExactFits(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(1, 1))
	x, classes, lines := mat.NewDense(n, 1, nil), make([]float64, n), make([]float64, n)
	for r := range n {
		x.Set(r, 0, rng.NormFloat64())
		classes[r] = 3 + float64(r%2)
		lines[r] = x.At(r, 0) * float64(1-2*(r%2))
	}
	for _, c := range []struct {
		y            []float64
		slope, apart float64 // of the experts, to either side
		optimum      string
		says         string
	}{
		{classes, 0, 0.5, infer.NotJudged, "the target takes two values, 3 and 4"},
		{lines, 1, 0, infer.Pass, "exact to rounding"},
	} {
		p := load(t, dataset.Matrix(x, c.y), activation(t, identity.Family), problem.Request{K: 2, Intercept: true})
		q := p.Shape.Blank(1e-9)
		q.Regressors[0], q.Regressors[1] = c.slope, -c.slope
		if c.apart > 0 {
			q.RegressorIntercepts[0], q.RegressorIntercepts[1] = 3.5+c.apart, 3.5-c.apart
		}
		if got := certified(t, p, q); got.Optimum != c.optimum || got.Model != infer.NotJudged || !strings.Contains(got.Reason, c.says) {
			t.Errorf("optimum %s, model %s: %s", got.Optimum, got.Model, got.Reason)
		}
	}
}

// TestRestsOnLittle: what passes does not where an expert has three rows, or a σ that is
// a thousandth of the other's.
func TestRestsOnLittle(t *testing.T) {
	p := parallels(t, 400, 2, func(r int) float64 { return float64(r%2) * 10 }, problem.Request{Noise: problem.PerExpert{}})
	good := at(p, 0.3, 0, 10)
	quiet := good.Clone()
	quiet.Sigma[0] = 1000 * good.Sigma[1]
	few := good.Clone()
	few.RegressorIntercepts[1] = 30 // nobody is there
	few.RegressorIntercepts[0], few.Sigma[0] = 5, 5
	for _, c := range []struct {
		q    *model.Params
		says string
	}{{good, ""}, {quiet, "sigma is 0.001 of the largest"}, {few, "rows for 2 coefficients"}} {
		tested, err := infer.Tests(t.Context(), p.Rows, p.G, c.q, p.Shape.Estimated(), p.Seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := restsOnLittle(p, c.q, tested.Mass)
		if c.says == "" && got != "" || !strings.Contains(got, c.says) {
			t.Errorf("%q, want %q", got, c.says)
		}
	}
}
