package report

import (
	"fmt"

	"github.com/gatedlearning/moe/host/fitted"
)

// arrangements is the table of other optima near the model's, and what its intervals rest on.
func arrangements(s *fitted.Arrangements) (line string, table [][]string) {
	line = fmt.Sprintf("Arrangements: %s within 6 units of log-likelihood; intervals hold given that of the model.", plural(len(s.Others), "other optimum"))
	if len(s.Others) != 1 {
		line = fmt.Sprintf("Arrangements: %d other optima within 6 units of log-likelihood; intervals hold given that of the model.", len(s.Others))
	}
	switch {
	case len(s.Others) == 0:
		line = "Arrangements: no other optimum was seen within 6 units of log-likelihood."
		if s.Intervals != nil {
			line += " The model file has the intervals of draws from the posterior."
		}
		return line, nil
	case s.Intervals != nil:
		line = fmt.Sprintf("Arrangements: %d, this one with weight %s; the model file has the intervals over all, and predictions are over them.", len(s.Others)+1, weightOf(s.Weight, s.Unweighted))
	case s.Weight != nil:
		line += " None has a weight: " + s.Unweighted + "."
	}
	head := []string{"Arrangements", "below", "differs"}
	if s.Weight != nil {
		head = []string{"Arrangements", "below", "weight", "differs"}
	}
	table = append(table, head)
	for i, a := range s.Others {
		row := []string{fmt.Sprint(i + 1), hundredths(a.Below)}
		if s.Weight != nil {
			row = append(row, weightOf(a.Weight, a.Unweighted))
		}
		table = append(table, append(row, a.Differs))
	}
	return line, table
}

// weightOf is a weight, or why there is none.
func weightOf(w *float64, why string) string {
	if why != "" || w == nil {
		return "none: " + why
	}
	return fmt.Sprintf("%.3g", *w)
}
