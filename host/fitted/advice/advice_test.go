package advice

import (
	"strings"
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
	// Of a formula, of whose features the gate sees the first, or none.
	of := func(formula string, grouped, constant bool) *fitted.Model {
		return with(func(m *fitted.Model) {
			m.Features = []string{"a", "b", "c"}
			m.Design = &terms.Design{Formula: formula, Columns: m.Features}
			for _, name := range m.Features {
				m.Design.Terms = append(m.Design.Terms, terms.Term{Name: name, Product: []terms.Value{{Column: name}}})
			}
			if grouped {
				m.Groups = &fitted.Groups{Column: "id", Count: 9}
			}
			if m.Gating = [][]float64{{1, 0, 0}}; constant {
				m.Gating = [][]float64{{0, 0, 0}}
			}
		})
	}
	gate := func(features ...int) infer.Cause { return infer.Cause{Test: "gate features", Features: features} }
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
		"allowed for":       {with(func(m *fitted.Model) { m.HAC = new(fitted.HAC) }), infer.Cause{Test: "dependence"}, ""},
		"a square":          {plain(), infer.Cause{Test: "gate features", Features: []int{2, 2}}, "--formula 'y ~ x1 + `a b` + x3 | x1 + x3 + I(x3^2)'"},
		"a product":         {plain(), infer.Cause{Test: "interactions", Features: []int{0, 1}}, "--formula 'y ~ x1 + `a b` + x3 + x1:`a b` | x1 + x3'"},
		"no features known": {plain(), infer.Cause{Test: "gate"}, "--formula 'y ~ x1 + `a b` + x3 | (x1 + x3)^2'"},
		"a constant gate":   {with(func(m *fitted.Model) { m.Gating = [][]float64{{0, 0, 0}} }), infer.Cause{Test: "gate features", Features: []int{0, 0}}, "--gate softmax"},
		"many columns": {with(func(m *fitted.Model) {
			m.Features = append(m.Features, "x4", "x5", "x6", "x7", "x8", "x9")
		}), infer.Cause{Test: "gate features", Features: []int{0, 2}}, "--formula 'y ~ . | . + x1:x3'"},
		"a formula":                             {design, infer.Cause{Test: "gate features", Features: []int{0, 0}}, "--formula 'y ~ log(x1) + sex + x3 | log(x1) + sex + x3 + I(log(x1)^2)'"},
		"of a factor":                           {design, infer.Cause{Test: "interactions", Features: []int{1, 2}}, "--formula 'y ~ log(x1) + sex + x3 + sex:x3 | log(x1) + sex + x3'"},
		"a constant gate of a formula":          {of("log(y) ~ a*b + c | 1", false, true), gate(0, 0), "--formula 'log(y) ~ a*b + c | a*b + c'"},
		"with an offset":                        {of("y ~ a + offset(n) | 1", false, true), gate(0, 0), "--formula 'y ~ a + offset(n)'"},
		"a constant gate of groups":             {of("y ~ a*b + c | 1 | id", true, true), gate(0, 0), "--formula 'y ~ a*b + c' --group id"},
		"groups by a flag":                      {of("y ~ a*b + c | 1", true, true), gate(0, 0), "--formula 'y ~ a*b + c'"},
		"nothing is constant within groups":     {of("y ~ a*b + c", true, true), gate(0, 0), ""},
		"a gate of groups":                      {of("y ~ a + b | a | id", true, false), gate(0, 0), "--formula 'y ~ a + b | a + I(a^2) | id'"},
		"what varies in groups":                 {of("y ~ a + b | a | id", true, false), gate(0, 1), ""},
		"nobody named the gate of groups":       {of("y ~ a + b", true, false), gate(0, 0), "--formula 'y ~ a + b | a + I(a^2)'"},
		"experts of groups":                     {of("y ~ a + b", true, false), infer.Cause{Test: "interactions", Features: []int{0, 1}}, "--formula 'y ~ a + b + a:b | a'"},
		"an offset is none of the gate's":       {of("y ~ a + offset(n)", false, false), gate(0, 0), "--formula 'y ~ a + offset(n) | a + I(a^2)'"},
		"shared terms are none of the gate's":   {of("y ~ shared(a) + b", false, false), gate(0, 0), "--formula 'y ~ shared(a) + b | a + I(a^2)'"},
		"a constant gate of groups, no formula": {with(func(m *fitted.Model) { m.Gating, m.Groups = [][]float64{{0, 0, 0}}, &fitted.Groups{} }), gate(0, 0), ""},
	} {
		c.m.Fit.Certificate = new(fitted.Certificate)
		Add(c.m, &infer.Certificate{Causes: []infer.Cause{c.why, {Test: "spread"}}})
		if got := c.m.Fit.Certificate.Try; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		// What is advised is a formula that can be read.
		if f := strings.TrimSuffix(c.m.Fit.Certificate.Try, " --group id"); len(f) > 11 && f[:10] == "--formula " {
			if _, err := terms.Parse(f[11 : len(f)-1]); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	m := plain()
	Add(m, nil)
	Add(m, &infer.Certificate{})
}
