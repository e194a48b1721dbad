package compare

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
)

// comparedGates is the gate of a flat mixture relative to one of its experts, counted from 0: w_i − w_ref for all K
// experts, which gives the same probabilities. Standard errors are those of the differences, absent where the model has
// not the covariance that they take.
func comparedGates(m *fitted.Model, ref int) []ComparedGate {
	place := map[string]int{}
	if m.Covariance != nil {
		for at, name := range m.Covariance.Parameters {
			place[name] = at
		}
	}
	deviation := func(i, j int, column string) (float64, bool) {
		if withoutError(m.StandardErrors, i, j) || withoutError(m.StandardErrors, ref, j) {
			return 0, false
		}
		at := func(expert int) int {
			if at, ok := place[fmt.Sprintf("gate%d:%s", expert+1, column)]; ok {
				return at
			}
			return -1
		}
		variance, x, y := 0.0, at(i), at(ref)
		if i == ref || x < 0 && y < 0 {
			return 0, i == ref && len(place) > 0
		}
		if x >= 0 {
			variance += m.Covariance.Matrix[x][x]
		}
		if y >= 0 {
			variance += m.Covariance.Matrix[y][y]
		}
		if x >= 0 && y >= 0 {
			variance -= 2 * m.Covariance.Matrix[x][y]
		}
		return math.Sqrt(max(variance, 0)), true
	}
	of := func(rows []float64, i int) float64 {
		if i < len(rows) {
			return rows[i]
		}
		return 0
	}
	out := make([]ComparedGate, m.K)
	for i := range out {
		c := &out[i]
		c.Coefficients = map[string]float64{}
		for j, name := range m.Features {
			if !sees(m.Gating, j) {
				continue
			}
			var column []float64
			for _, row := range m.Gating {
				column = append(column, row[j])
			}
			c.Coefficients[name] = of(column, i) - of(column, ref)
			if se, ok := deviation(i, j, name); ok {
				if c.Errors == nil {
					c.Errors = map[string]float64{}
				}
				c.Errors[name] = se
			}
		}
		if m.GatingIntercepts != nil {
			v := of(m.GatingIntercepts, i) - of(m.GatingIntercepts, ref)
			c.Intercept = &v
			if se, ok := deviation(i, m.D, "(intercept)"); ok {
				c.InterceptError = &se
			}
		}
	}
	return out
}

// gateReference is the pair of experts that the gates of both models are relative to, from 1: the last of a that has
// another beside it, and that. It is nil where the gates are not flat or have nothing to compare.
func gateReference(a, b *fitted.Model, matched [][2]int) *[2]int {
	if a.Hierarchy != "" || b.Hierarchy != "" || a.K == 1 || b.K == 1 {
		return nil
	}
	whole := slices.DeleteFunc(slices.Clone(matched), func(p [2]int) bool { return p[0] == 0 || p[1] == 0 })
	if len(whole) == 0 {
		return nil
	}
	last := slices.MaxFunc(whole, func(p, q [2]int) int { return p[0] - q[0] })
	return &last
}

// withoutError says whether row i of the gate has no standard error of column j, D being the intercept.
func withoutError(s *fitted.StandardErrors, i, j int) bool {
	switch {
	case s == nil || i >= len(s.Gating):
		return false
	case j < len(s.Gating[i]):
		return math.IsNaN(s.Gating[i][j])
	}
	return i < len(s.GatingIntercepts) && math.IsNaN(s.GatingIntercepts[i])
}
