package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// maxTerms is the number of features that a boundary is shown with.
const maxTerms = 8

// separation says where the gate separates rows, a sentence for every boundary; none
// where it does not.
func separation(m *fitted.Model) []string {
	if len(m.Fit.Separation) == 0 {
		return nil
	}
	errors := " (standard error –)"
	if gatePenalised(m) {
		errors = ""
	}
	lines := []string{"The gate separates rows: coefficients across a boundary have no finite optimum" + errors +
		", and the log-likelihood is within 0.01 of its supremum as they grow. Boundaries:"}
	for _, s := range m.Fit.Separation {
		lines = append(lines, fmt.Sprintf("%s%s where %s > %s, %s where it is less; the nearest rows are %s away, by "+
			"features of unit variance.",
			rowsOf(m, s), numbersOf(m, s.Above), terms(m.Features, s.Coefficients), numeral.Significant(-s.Intercept),
			numbersOf(m, s.Below), numeral.Significant(s.Margin)))
	}
	return lines
}

// Separated says in one line that the gate separates rows, and of which experts.
func Separated(m *fitted.Model) string {
	var between []string
	for _, s := range m.Fit.Separation {
		between = append(between, rowsOf(m, s)+numbersOf(m, s.Above)+" from "+strings.TrimPrefix(numbersOf(m, s.Below),
			"expert "))
	}
	instead := ", and say nothing but on which side a row is."
	if gatePenalised(m) {
		instead = " at the maximum of the likelihood. " + penalised(m)
	}
	const most = 3
	if more := len(between) - most; more > 0 {
		between = append(between[:most], fmt.Sprintf("%d more", more))
	}
	return "The gate separates the rows of " + strings.Join(between, ", ") +
		": across these boundaries its coefficients have no finite optimum" + instead
}

// rowsOf says among which rows a boundary is: those of its gate, "" where that is the only
// one or the first of a tree.
func rowsOf(m *fitted.Model, s fitted.Separation) string {
	own := model.GateNode{To: m.Classes()}
	for _, v := range m.Params().GateNodes() { // parents come first
		if under := func(i int) bool { return v.From < i && i <= v.To }; !slices.ContainsFunc(slices.Concat(s.Above,
			s.Below), func(i int) bool { return !under(i) }) {
			own = v
		}
	}
	if own.To-own.From == m.Classes() {
		return ""
	}
	return "Among the rows of experts " + leavesOf(own.From, own.To) + ": "
}

// numbersOf is "expert 1" or "experts 1, 2", in ascending order; one beyond the model's is the zero expert.
func numbersOf(m *fitted.Model, experts []int) string {
	what, names, zero := "expert ", []string(nil), ""
	for _, e := range experts {
		if e > m.K {
			zero = "the zero expert"
			continue
		}
		names = append(names, fmt.Sprint(e))
	}
	switch {
	case len(names) == 0:
		return zero
	case len(names) > 1:
		what = "experts "
	}
	if zero != "" {
		zero = " and " + zero
	}
	return what + strings.Join(names, ", ") + zero
}

// terms is a sum of coefficients times features, the largest of them where there are
// many.
func terms(features []string, coefficients []float64) string {
	var all []int
	for j, v := range coefficients {
		if v != 0 {
			all = append(all, j)
		}
	}
	more := ""
	if len(all) > maxTerms {
		slices.SortStableFunc(all, func(a, b int) int {
			return cmp.Compare(math.Abs(coefficients[b]), math.Abs(coefficients[a]))
		})
		all, more = all[:maxTerms], " + … (all of them are in the model file)"
		slices.Sort(all)
	}
	var out strings.Builder
	for i, j := range all {
		v := coefficients[j]
		switch {
		case i == 0:
		case v < 0:
			out.WriteString(" - ")
			v = -v
		default:
			out.WriteString(" + ")
		}
		fmt.Fprintf(&out, "%s*%s", numeral.Significant(v), shown.Name(features[j]))
	}
	return out.String() + more
}
