package page

import (
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// sentence says what was found to someone who decides: how many kinds of rows there are, in what they differ, and how
// far off an expert is.
func sentence(m *fitted.Model, d *diagnosis.Diagnosis) string {
	target := shown.Name(m.ScaledTarget())
	out, beside := fmt.Sprintf("%s of %s follow one expert", report.FittedRows(m), target), ""
	if m.ZeroExpert {
		beside = ", beside a zero expert"
	}
	if m.K > 1 {
		out = fmt.Sprintf("%s of %s follow %d experts: %s", report.FittedRows(m), target, m.K, shares(d))
	}
	out += beside + "."
	if names := mostDifferent(d); m.K > 1 && len(names) > 0 {
		out += fmt.Sprintf(" Their rows differ the most in %s.", shown.List(names))
	}
	return out + around(m, d)
}

// around says how far off an expert of a target is, beside how much that varies; "" where the noise is not normal.
func around(m *fitted.Model, d *diagnosis.Diagnosis) string {
	if m.Family != "" || len(m.Sigma) == 0 {
		return ""
	}
	lo, hi := slices.Min(m.Sigma), slices.Max(m.Sigma)
	off := numeral.Significant(lo)
	if hi > lo {
		off += " to " + numeral.Significant(hi)
	}
	return fmt.Sprintf(" Around its expert %s has a standard deviation of %s; over all rows it has %s.",
		shown.Name(m.ScaledTarget()), off, numeral.Significant(d.Target.SD))
}

// shares says what share of the rows each expert has, of many experts the first.
func shares(d *diagnosis.Diagnosis) string {
	const most = 5
	var out []string
	for i, share := range d.Shares {
		if i == most && len(d.Shares) > most+1 {
			out = append(out, fmt.Sprintf("%d others share the rest", len(d.Shares)-most))
			break
		}
		out = append(out, fmt.Sprintf("%s expert %d", numeral.Percent(share), i+1))
	}
	return shown.List(out)
}

// mostDifferent are the columns in which the experts' rows differ the most, at most three of those in which they do.
func mostDifferent(d *diagnosis.Diagnosis) (names []string) {
	const most, least = 3, 0.1
	for _, c := range strongestFirst(d.Members) {
		if len(names) < most && c.Differs >= least {
			names = append(names, shown.Name(c.Name))
		}
	}
	return names
}
