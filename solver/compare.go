package solver

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/sdk"
)

// matchTol is how far an activation's own numbers may lie from the host's
// quadrature, relative to the natural size of the entry and beyond the errors
// that the two state. Closed forms agree to 1e−13; the transforms lose two
// digits against the moments for ReLU.
const matchTol = 1e-9

// size returns the natural size of E[y^p·(a polynomial of degree ≤ 4 in Z)]:
// (E[g⁴]^{1/4} + σ)^p.
func size(m sdk.Moments, sigma float64, p int) float64 {
	return math.Pow(math.Pow(m.Value[4][0], 0.25)+sigma, float64(p))
}

// uncertain is the largest error of a moment, relative to 1 + E[g⁴], with which
// it can still be compared: a larger one would excuse any value.
const uncertain = 1e-6

// CompareMoments checks an activation's own moments against quadrature of its
// g. The check's value is the largest difference relative to the entry's
// natural size E[g⁴]^{p/4}; reason names the entry that disagrees most and both
// values, or the entry whose error, as either side states it, is above
// 1e−6·(1 + E[g⁴]) by quadrature, and is "" where the check holds.
func CompareMoments(own, quadrature sdk.Moments) (reason string, check Check) {
	check = Check{Name: "own moments agree with quadrature of g", Tolerance: matchTol, Holds: true}
	worst := 0.0
	largest := uncertain * (1 + math.Abs(quadrature.Value[4][0]))
	for p := range own.Value {
		for q := range own.Value[p] {
			a, b := own.Value[p][q], quadrature.Value[p][q]
			scale := max(size(quadrature, 0, p), math.Abs(b), 0x1p-1022)
			diff := min(math.Abs(a-b)/scale, math.MaxFloat64)
			check.Value = max(check.Value, diff)
			stated := own.Error[p][q]
			if !(max(stated, quadrature.Error[p][q]) <= largest) && check.Holds {
				check.Holds = false
				reason = fmt.Sprintf("the activation's own moment E[g^%d·Z^%d] = %.10g ± %.1g is too uncertain to "+
					"check: quadrature of its g gives %.10g ± %.1g", p, q, a, stated, b, quadrature.Error[p][q])
			}
			if !(diff <= matchTol+(quadrature.Error[p][q]+stated)/scale) && !(diff <= worst) {
				check.Holds, worst = false, diff
				reason = fmt.Sprintf(
					"the activation's own moment E[g^%d·Z^%d] = %.10g, quadrature of its g gives %.10g", p, q, a, b)
			}
		}
	}
	return reason, check
}

// CompareSystem checks the system that an activation offers, entry by entry,
// against the one that its moments give at the same noise level. The check's
// value is the largest difference relative to the entry's natural size; reason
// names the entry that disagrees most and both values, and is "" where the check
// holds. This is what finds out the ReLU matrix printed in 002 (Example 2),
// whose β column carries a σ² too many.
func CompareSystem(offered sdk.System, m sdk.Moments) (reason string, check Check) {
	check = Check{Name: "system agrees with the moments", Tolerance: matchTol, Holds: true}
	worst := 0.0
	largest := uncertain * (1 + math.Abs(m.Value[4][0]))
	want := entries(m.System(offered.Sigma))
	for i, e := range entries(offered) {
		scale := max(size(m, offered.Sigma, e.power), math.Abs(want[i].value), 0x1p-1022)
		diff := min(math.Abs(e.value-want[i].value)/scale, math.MaxFloat64)
		check.Value = max(check.Value, diff)
		if !(diff <= matchTol+min(m.HermiteError(e.power, e.row), largest)/scale) && !(diff <= worst) {
			check.Holds, worst = false, diff
			reason = fmt.Sprintf("the system offered at σ = %g is wrong: %s is %.10g, the moments of g give %.10g",
				offered.Sigma, e.name, e.value, want[i].value)
		}
	}
	return reason, check
}

// entry is a number of a system: its name, the power of y in it and the
// Hermite order of its row.
type entry struct {
	name       string
	value      float64
	power, row int
}

func entries(s sdk.System) []entry {
	var list []entry
	add := func(value float64, power, row int, format string, args ...any) {
		list = append(list, entry{fmt.Sprintf(format, args...), value, power, row})
	}
	for i, row := range s.Matrix {
		for j, v := range row {
			add(v, 3-j, i+1, "the %c entry of row %d", []rune("αβγ")[j], i+1)
		}
		add(s.RHS[i], 4, i+1, "the right-hand side of row %d", i+1)
	}
	for j, v := range s.C4 {
		add(v, 4-j, 4, "entry %d of the row for c4", j)
	}
	add(s.Delta[0], 1, 1, "the δ entry")
	add(s.Delta[1], 2, 1, "the right-hand side of the row for δ")
	add(s.C2[0], 2, 2, "entry 0 of the row for c2")
	add(s.C2[1], 1, 2, "entry 1 of the row for c2")
	for i, row := range s.Cubic.Matrix {
		for j, v := range row {
			add(v, 2-j, i+1, "the third-order %c entry of row %d", []rune("αβ")[j], i+1)
		}
		add(s.Cubic.RHS[i], 3, i+1, "the third-order right-hand side of row %d", i+1)
	}
	for j, v := range s.Cubic.C3 {
		add(v, 3-j, 3, "entry %d of the row for c3", j)
	}
	return list
}
