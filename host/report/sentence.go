package report

import (
	"fmt"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// AgainstTruth says how far the model is from known parameters; "" where there are none.
func AgainstTruth(m *fitted.Model) string {
	if m.Truth == nil {
		return ""
	}
	return fmt.Sprintf("Against the truth: E_reg %.3g, E_gating %.3g.", m.Truth.EReg, m.Truth.EGating)
}

// FittedRows says how many rows a fit is of, and in how many groups.
func FittedRows(m *fitted.Model) string {
	out := numeral.Plural(m.Fit.N, "row")
	if m.Groups != nil {
		out += " in " + numeral.Plural(m.Groups.Count, "group")
	}
	return out
}

// ofWeight says what the rows of a fit weigh, "" where that is their number.
func ofWeight(f *fitted.Fit) string {
	if f.Weight == 0 || f.Weight == float64(f.N) {
		return ""
	}
	return fmt.Sprintf(" of weight %.6g", f.Weight)
}
