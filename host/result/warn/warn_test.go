package warn

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
)

// twoExperts are 400 rows of two experts of three features, and what they were drawn from.
func twoExperts(t *testing.T) (dataset.Source, *model.Params) {
	t.Helper()
	const n = 400
	q := model.NewParams(2, 3)
	copy(q.Regressors, []float64{1, 0.5, 0, -1, 0.5, 1})
	copy(q.Gating, []float64{0, 2, -1})
	q.RegressorIntercepts, q.GatingIntercepts, q.Sigma = []float64{0, 1}, []float64{0.3}, []float64{0.3}
	rng := rand.New(rand.NewPCG(2, 2))
	x, y := mat.NewDense(n, 3, nil), make([]float64, n)
	for r := range y {
		for j := range 3 {
			x.Set(r, j, rng.NormFloat64())
		}
		score, i := q.GatingIntercepts[0], 0
		for j, w := range q.Gate(0) {
			score += w * x.At(r, j)
		}
		if rng.Float64()*(1+math.Exp(-score)) > 1 {
			i = 1
		}
		y[r] = q.RegressorIntercepts[i] + q.Sigma[0]*rng.NormFloat64()
		for j, a := range q.Regressor(i) {
			y[r] += a * x.At(r, j)
		}
	}
	return dataset.Matrix(x, y), q
}

// TestWarningsOfTooManyExperts: of the parameters that 400 rows were drawn from, whether an
// expert of few rows and two that are nearly equal are named.
func TestWarningsOfTooManyExperts(t *testing.T) {
	for _, c := range []struct {
		name        string
		proportions []float64
		first, last float64 // the first coefficients of experts 2 and 3; expert 1 has 1
		noise       float64 // of expert 2; the others' is 0.3
		want        []string
	}{
		{"none", []float64{0.5, 0.3, 0.2}, 0, -1, 0.3, nil},
		{"few rows", []float64{0.6, 0.37, 0.03}, 0, -1, 0.3, []string{"expert 3 has 12 rows for 3 coefficients"}},
		{"nearly equal", []float64{0.5, 0.3, 0.2}, 0.9, -1, 0.3, []string{"experts 1 and 2 are nearly equal"}},
		{"equal but for the noise", []float64{0.5, 0.3, 0.2}, 0.9, -1, 1.5, nil},
		{"both", []float64{0.6, 0.37, 0.03}, 0, 0.1, 0.3, []string{"expert 3 has 12 rows", "experts 2 and 3 are nearly equal"}},
	} {
		q := model.NewParams(3, 3)
		q.Regressors[0], q.Regressors[3], q.Regressors[6] = 1, c.first, c.last
		q.Sigma = []float64{0.3, c.noise, 0.3}
		const n = 400
		rng := rand.New(rand.NewPCG(1, 1))
		x, y := mat.NewDense(n, 3, nil), make([]float64, n)
		for r := range y {
			for j := range 3 {
				x.Set(r, j, rng.NormFloat64())
			}
			i := rng.IntN(3)
			y[r] = q.Regressor(i)[0]*x.At(r, 0) + q.Sigma[i]*rng.NormFloat64()
		}
		p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family),
			problem.Request{K: 3, Gate: problem.Softmax{}, Noise: problem.PerExpert{}})
		m := &fitted.Model{Proportions: c.proportions}
		m.SetParams(q)
		if err := tooMany(t.Context(), m, p, q, nil); err != nil {
			t.Fatal(err)
		}
		if len(m.Fit.Warnings) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, m.Fit.Warnings, c.want)
			continue
		}
		for i, w := range c.want {
			if !strings.HasPrefix(m.Fit.Warnings[i], "k may be too large: "+w) {
				t.Errorf("%s: %q, want %q", c.name, m.Fit.Warnings[i], w)
			}
		}
	}
}

// TestAsOne: of a maximum of two experts with the second in two alike, these are offered as one, which costs no
// likelihood and saves their parameters; the others are not.
func TestAsOne(t *testing.T) {
	request := problem.Request{K: 2, Gate: problem.Softmax{}, Noise: problem.Shared{}, Intercepts: problem.BothIntercepts}
	src, truth := twoExperts(t)
	p := searchtest.Load(t, src, searchtest.Activation(t, identity.Family), request)
	l := loss.NewLikelihood(p.Rows, p.G, p.Shape.Adopt(p.Units.Into(truth)), p.Shape.Estimated(), 1)
	run, err := climb.Climb(t.Context(), l, l.Theta(p.Shape.Adopt(p.Units.Into(truth))), nil)
	if err != nil {
		t.Fatal(err)
	}
	proportions, err := l.Proportions(t.Context(), l.Params(run.X))
	if err != nil {
		t.Fatal(err)
	}
	two := p.Units.OutOf(l.Params(run.X))
	none := &fitted.Model{Proportions: proportions}
	none.SetParams(two)
	if err := tooMany(t.Context(), none, p, l.Params(run.X), nil); err != nil {
		t.Fatal(err)
	}
	if len(none.Fit.Merges) > 0 {
		t.Errorf("of the right number %+v are offered", none.Fit.Merges)
	}
	request.K = 3
	p = searchtest.Load(t, src, searchtest.Activation(t, identity.Family), request)
	q, of := p.Shape.Blank(two.Sigma[0]), two
	for i := range 3 {
		from := min(i, 1)
		copy(q.Regressor(i), of.Regressor(from))
		q.RegressorIntercepts[i] = of.RegressorIntercepts[from]
	}
	copy(q.Gate(0), of.Gate(0)) // against expert 3, which has half of expert 2's rows, as expert 2 has
	q.GatingIntercepts[0] = of.GatingIntercepts[0] + math.Ln2
	m := &fitted.Model{Proportions: []float64{proportions[0], proportions[1] / 2, proportions[1] / 2}}
	errors := p.Shape.Blank(1)
	for _, part := range [][]float64{errors.Regressors, errors.RegressorIntercepts, errors.Gating, errors.GatingIntercepts} {
		for i := range part {
			part[i] = 1
		}
	}
	m.StandardErrors = fitted.NewStandardErrors("observed", errors, true)
	if err := tooMany(t.Context(), m, p, p.Units.Into(q), nil); err != nil {
		t.Fatal(err)
	}
	saved := 8 * math.Log(400)
	if len(m.Fit.Merges) != 1 || m.Fit.Merges[0].Experts != [2]int{2, 3} ||
		math.Abs(m.Fit.Merges[0].LogLikelihood) > 1e-6 || math.Abs(m.Fit.Merges[0].BIC+saved) > 1e-5 {
		t.Errorf("offered are %+v, want experts 2 and 3 with a BIC of %v", m.Fit.Merges, -saved)
	}
	if len(m.Fit.Warnings) != 1 || !strings.HasSuffix(m.Fit.Warnings[0], fmt.Sprintf(
		", BIC better by %.3g, and the two have no standard errors", saved)) {
		t.Errorf("warnings %q", m.Fit.Warnings)
	}
	se := m.StandardErrors
	for i := range 3 {
		without := i > 0
		if math.IsNaN(se.Regressors[i][0]) != without || math.IsNaN(se.RegressorIntercepts[i]) != without {
			t.Errorf("expert %d has the errors %v and %v", i+1, se.Regressors[i], se.RegressorIntercepts[i])
		}
	}
	// All gates are against expert 3, which may be expert 2.
	if !math.IsNaN(se.Gating[0][0]) || !math.IsNaN(se.Gating[1][0]) || !math.IsNaN(se.GatingIntercepts[0]) ||
		math.IsNaN(se.Sigma[0]) {
		t.Errorf("gates have the errors %v and %v, the noise %v", se.Gating, se.GatingIntercepts, se.Sigma)
	}
}

// TestWarningOfTwinLeaves: experts that are nearly equal are said to have no gate to
// estimate where they are leaves of one gate of the tree, and not where they are not.
func TestWarningOfTwinLeaves(t *testing.T) {
	src, _ := twoExperts(t)
	for _, c := range []struct {
		shape string
		first [3]float64 // the first coefficients of the experts
		pair  string
		twins bool
	}{
		{"2x(1,2)", [3]float64{-1, 1, 1}, "2 and 3", true},
		{"2x(1,2)", [3]float64{1, 1, -1}, "1 and 2", false},
		{"2x(2,1)", [3]float64{1, 1, -1}, "1 and 2", true},
		{"2x(2,1)", [3]float64{-1, 1, 1}, "2 and 3", false},
		{"3", [3]float64{-1, 1, 1}, "2 and 3", false},
	} {
		shape, err := model.ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		p := searchtest.Load(t, src, searchtest.Activation(t, identity.Family),
			problem.Request{K: 3, Gate: problem.Softmax{}, Noise: problem.Shared{}, Tree: shape})
		q := p.Shape.Blank(0.3)
		for i, a := range c.first {
			q.Regressor(i)[0] = a
		}
		m := &fitted.Model{Proportions: []float64{0.4, 0.3, 0.3}}
		m.SetParams(q)
		if err := tooMany(t.Context(), m, p, q, nil); err != nil {
			t.Fatal(err)
		}
		if len(m.Fit.Warnings) != 1 || !strings.Contains(m.Fit.Warnings[0], "experts "+c.pair+" are nearly equal") ||
			strings.Contains(m.Fit.Warnings[0], "no gate to estimate between them") != c.twins {
			t.Errorf("%s, %v: %q", c.shape, c.first, m.Fit.Warnings)
		}
	}
}
