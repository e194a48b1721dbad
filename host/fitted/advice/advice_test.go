package advice

import (
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/terms"
)

// TestAdvice: the flags that allow for what the tests suggest first, in the model's own columns or formula.
func TestAdvice(t *testing.T) {
	plain := func() *fitted.Model {
		return &fitted.Model{
			K: 2, D: 3, Features: []string{"x1", "a b", "x3"}, Target: "y",
			Regressors: [][]float64{{1, 1, 1}, {1, 1, 1}}, Gating: [][]float64{{1, 0, 1}}, Sigma: fitted.Sigma{1},
		}
	}
	with := func(change func(m *fitted.Model)) *fitted.Model {
		m := plain()
		change(m)
		return m
	}
	level := "m"
	design := with(func(m *fitted.Model) {
		m.Features = []string{"log(x1)", "sex[m]", "x3"}
		m.Design = &terms.Design{Formula: "y ~ log(x1) + sex + x3", Columns: []string{"x1", "sex", "x3"}, Terms: []terms.Term{
			{Name: "log(x1)", Product: []terms.Value{{Expression: "log(x1)"}}},
			{Name: "sex[m]", Product: []terms.Value{{Factor: "sex", Level: &level}}},
			{Name: "x3", Product: []terms.Value{{Column: "x3"}}},
		}}
	})
	for name, c := range map[string]struct {
		m    *fitted.Model
		why  infer.Cause
		want string
	}{
		"k":                 {plain(), infer.Cause{}, "--k 3"},
		"a tree":            {with(func(m *fitted.Model) { m.Hierarchy = "2x2" }), infer.Cause{}, "--hierarchy auto"},
		"noise":             {plain(), infer.Cause{Test: "residuals"}, "--noise per-expert"},
		"noise of its own":  {with(func(m *fitted.Model) { m.Sigma = fitted.Sigma{1, 2} }), infer.Cause{Test: "residuals"}, "--robust"},
		"robust already":    {with(func(m *fitted.Model) { m.StandardErrors = &fitted.StandardErrors{Kind: "robust"} }), infer.Cause{Test: "spread"}, ""},
		"dependence":        {plain(), infer.Cause{Test: "dependence"}, "--hac"},
		"a square":          {plain(), infer.Cause{Test: "gate features", Features: []int{2, 2}}, "--formula 'y ~ x1 + `a b` + x3 | x1 + x3 + I(x3^2)'"},
		"a product":         {plain(), infer.Cause{Test: "interactions", Features: []int{0, 1}}, "--formula 'y ~ x1 + `a b` + x3 + x1:`a b` | x1 + x3'"},
		"no features known": {plain(), infer.Cause{Test: "gate"}, "--formula 'y ~ x1 + `a b` + x3 | (x1 + x3)^2'"},
		"a constant gate":   {with(func(m *fitted.Model) { m.Gating = [][]float64{{0, 0, 0}} }), infer.Cause{Test: "gate features", Features: []int{0, 0}}, "--gate softmax"},
		"many columns": {with(func(m *fitted.Model) {
			m.Features = append(m.Features, "x4", "x5", "x6", "x7", "x8", "x9")
		}), infer.Cause{Test: "gate features", Features: []int{0, 2}}, "--formula 'y ~ . | . + x1:x3'"},
		"a formula":   {design, infer.Cause{Test: "gate features", Features: []int{0, 0}}, "--formula 'y ~ log(x1) + sex + x3 | log(x1) + sex + x3 + I(log(x1)^2)'"},
		"of a factor": {design, infer.Cause{Test: "interactions", Features: []int{1, 2}}, "--formula 'y ~ log(x1) + sex + x3 + sex:x3 | log(x1) + sex + x3'"},
	} {
		c.m.Fit.Certificate = new(fitted.Certificate)
		Add(c.m, &infer.Certificate{Causes: []infer.Cause{c.why, {Test: "spread"}}})
		if got := c.m.Fit.Certificate.Try; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		// What is advised is a formula that can be read.
		if f := c.m.Fit.Certificate.Try; len(f) > 11 && f[:10] == "--formula " {
			if _, err := terms.Parse(f[11 : len(f)-1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	m := plain()
	Add(m, nil)
	Add(m, &infer.Certificate{})
}
