package report

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

// TestSeparationInATree: a boundary of a gate below another is said to be among the rows of
// that gate, one of the first gate of all rows.
func TestSeparationInATree(t *testing.T) {
	m := &fitted.Model{
		K: 4, D: 1, Hierarchy: "2x(1,3)", Features: []string{"u"},
		Regressors: [][]float64{{1}, {2}, {3}, {4}}, Gating: [][]float64{{1}, {1}, {1}}, Sigma: fitted.Sigma{1},
	}
	for want, s := range map[string]fitted.Separation{
		"Among the rows of experts 2-4: experts 2, 4 where 2*u > 3, expert 3 where it is less;": {Above: []int{2, 4}, Below: []int{3}, Coefficients: []float64{2}, Intercept: -3, Margin: 1},
		"Among the rows of experts 2-4: expert 2 where 2*u > 3, expert 3 where it is less;":     {Above: []int{2}, Below: []int{3}, Coefficients: []float64{2}, Intercept: -3, Margin: 1},
		"expert 1 where 2*u > 3, experts 2, 3, 4 where it is less;":                             {Above: []int{1}, Below: []int{2, 3, 4}, Coefficients: []float64{2}, Intercept: -3, Margin: 1},
	} {
		m.Fit.Separation = []fitted.Separation{s}
		if lines := separation(m); len(lines) != 2 || !strings.HasPrefix(lines[1], want) {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}

// TestSeparationOfSeveral: of targets under one gate the text states the boundaries, and the screen that there are some.
func TestSeparationOfSeveral(t *testing.T) {
	p := model.NewVectorParams(2, 1, 2, false)
	p.Gating[0] = 1e4
	v := fitted.NewSharedGate(p, []string{"u"}, []string{"y", "z"}, make([]stated.Activation, 2))
	v.SharedGate.Proportions = []float64{0.5, 0.5}
	v.SharedGate.Fit = &fitted.Fit{N: 10, Converged: true, Separation: []fitted.Separation{
		{Above: []int{1}, Below: []int{2}, Coefficients: []float64{2}, Intercept: -3, Margin: 0.5},
	}}
	var text, screen strings.Builder
	if err := sharedGate(&text, v, false); err != nil {
		t.Fatal(err)
	}
	if want := "expert 1 where 2*u > 3, expert 2 where it is less; the nearest rows are 0.5 away"; !strings.Contains(text.String(), want) {
		t.Errorf("%s\nhas not: %s", text.String(), want)
	}
	if err := sharedGateScreen(&screen, v, "m.json", false); err != nil {
		t.Fatal(err)
	}
	if want := "Warning: the gate separates rows: "; !strings.Contains(screen.String(), want) {
		t.Errorf("%s\nhas not: %s", screen.String(), want)
	}
}
