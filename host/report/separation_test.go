package report

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
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
