package report

import (
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// sentence says what was found to someone who decides: how many kinds of rows there are, in what they differ, and how
// far off an expert is.
func sentence(m *fitted.Model, d *Diagnosis) string {
	target := shown.Name(m.ScaledTarget())
	out, beside := fmt.Sprintf("%s of %s follow one expert", fittedRows(m), target), ""
	if m.ZeroExpert {
		beside = ", beside a zero expert"
	}
	if m.K > 1 {
		out = fmt.Sprintf("%s of %s follow %d experts: %s", fittedRows(m), target, m.K, shares(d))
	}
	out += beside + "."
	if names := mostDifferent(d); m.K > 1 && len(names) > 0 {
		out += fmt.Sprintf(" Their rows differ the most in %s.", numeral.List(names))
	}
	return out + around(m, d)
}

// fittedRows says how many rows a fit is of, and in how many groups.
func fittedRows(m *fitted.Model) string {
	out := numeral.Plural(m.Fit.N, "row")
	if m.Groups != nil {
		out += " in " + numeral.Plural(m.Groups.Count, "group")
	}
	return out
}

// around says how far off an expert of a target is, beside how much that varies; "" where the noise is not normal.
func around(m *fitted.Model, d *Diagnosis) string {
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
func shares(d *Diagnosis) string {
	const most = 5
	var out []string
	for i, share := range d.Shares {
		if i == most && len(d.Shares) > most+1 {
			out = append(out, fmt.Sprintf("%d others share the rest", len(d.Shares)-most))
			break
		}
		out = append(out, fmt.Sprintf("%s expert %d", numeral.Percent(share), i+1))
	}
	return numeral.List(out)
}

// mostDifferent are the columns in which the experts' rows differ the most, at most three of those in which they do.
func mostDifferent(d *Diagnosis) (names []string) {
	const most, least = 3, 0.1
	for _, c := range strongestFirst(d.Members) {
		if len(names) < most && c.Differs >= least {
			names = append(names, shown.Name(c.Name))
		}
	}
	return names
}
