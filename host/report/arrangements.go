package report

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// arrangements is the table of other optima near the model's, and what its intervals rest on.
func arrangements(s *fitted.Arrangements) (line string, table [][]string) {
	line = fmt.Sprintf("Arrangements: %s within 6 units of log-likelihood; intervals hold given that of the model.",
		numeral.Plural(len(s.Others), "other optimum"))
	if len(s.Others) != 1 {
		line = fmt.Sprintf("Arrangements: %d other optima within 6 units of log-likelihood; intervals hold given "+
			"that of the model.", len(s.Others))
	}
	switch {
	case len(s.Others) == 0:
		line = "Arrangements: no other optimum was seen within 6 units of log-likelihood."
		if s.Intervals != nil {
			line += " The model file has the intervals of draws from the posterior."
		}
		return line, nil
	case s.Intervals != nil:
		line = fmt.Sprintf("Arrangements: %d, this one with weight %s; the model file has the intervals over all, "+
			"and predictions are over them.", len(s.Others)+1, weightOf(s.Weight))
	case s.Weight != nil:
		line += " None has a weight: " + s.Unweighted + "."
	}
	return line, arrangementRows(s)
}

// arrangementRows is the table of arrangements: rows of every expert, and how many rows are of another one than in the
// model. What keeps one from having a weight stands below.
func arrangementRows(s *fitted.Arrangements) [][]string {
	head, first := []string{"Arrangements", "below"}, []string{"the model", numeral.Hundredths(0)}
	var reasons []string
	weigh := func(w *float64, why string) string {
		if w != nil && why == "" {
			return weightOf(w)
		}
		if !slices.Contains(reasons, why) {
			reasons = append(reasons, why)
		}
		return "–"
	}
	if s.Weight != nil {
		head, first = append(head, "weight"), append(first, weigh(s.Weight, s.Unweighted))
	}
	head, first = append(head, "moved"), append(first, "")
	for i, n := range s.Rows {
		head, first = append(head, fmt.Sprintf("expert %d", i+1)), append(first, wholeRows(n))
	}
	table := [][]string{head, first}
	for i, a := range s.Others {
		row := []string{fmt.Sprint(i + 1), numeral.Hundredths(a.Below)}
		if s.Weight != nil {
			row = append(row, weigh(a.Weight, a.Unweighted))
		}
		row = append(row, wholeRows(a.Moved))
		for _, n := range a.Rows {
			row = append(row, wholeRows(n))
		}
		table = append(table, row)
	}
	for _, why := range reasons {
		table = append(table, []string{"– no weight: " + why})
	}
	return table
}

// wholeRows is a sum of posterior probabilities as a number of rows.
func wholeRows(n float64) string { return strconv.FormatFloat(n, 'f', 0, 64) }

func weightOf(w *float64) string { return fmt.Sprintf("%.3g", *w) }
