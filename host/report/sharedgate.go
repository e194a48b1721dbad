package report

import (
	"bufio"
	"fmt"
	"io"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/shown"
)

// sharedGate writes a model of several targets under one gate for a terminal: what they have
// together, the experts of every target, the gate, and the correlations of the noise.
func sharedGate(w io.Writer, v *fitted.Vector, all bool) error {
	out := bufio.NewWriter(w)
	s := v.SharedGate
	first := v.Model(0)
	first.Fit = *s.Fit
	verdict := "Converged"
	if !s.Fit.Converged {
		verdict = "Not converged (" + s.Fit.Status + ")"
	}
	fmt.Fprintf(out, "%s: %s with %s each under one gate, over %s, %s noise, log-likelihood %.2f on %s (BIC %.2f, AIC %.2f; method %s).\n",
		verdict, howMany(first), plural(len(v.Outputs), "output"), plural(v.D, "feature"), s.Noise,
		s.Fit.LogLikelihood, plural(s.Fit.N, "row"), s.Fit.BIC, s.Fit.AIC, s.Fit.Method)
	for _, warning := range s.Fit.Warnings {
		fmt.Fprintf(out, "Warning: %s.\n", warning)
	}
	most := maxFeatures
	if all {
		most = v.D
	}
	for j := range v.Outputs {
		m := v.Model(j)
		fmt.Fprintf(out, "\nTarget %s", shown.Name(m.Target))
		if len(m.Sigma) == 1 {
			fmt.Fprintf(out, ": sigma %s", significant(m.Sigma[0]))
			if se := m.StandardErrors; se != nil {
				fmt.Fprintf(out, " %s", plusMinus(se.Sigma[0]))
			}
		}
		fmt.Fprintln(out)
		if against := againstTruth(m); against != "" {
			fmt.Fprintln(out, against)
		}
		writeTable(out, experts(m, most))
	}
	if v.K > 1 {
		writeTable(out, gates(first, most))
	}
	if s.Noise == fitted.Full {
		for i := range s.Correlations {
			writeTable(out, correlations(v, i))
		}
	}
	if v.D > most {
		fmt.Fprintln(out, "\n--all shows all features")
	}
	writeTable(out, starts(first))
	for i, note := range s.Fit.Notes {
		if i == 0 {
			fmt.Fprintln(out, "\nNotes")
		}
		fmt.Fprintf(out, "  - %s\n", shown.Line(note))
	}
	return out.Flush()
}

// correlations is the table of the noise's correlations of one level.
func correlations(v *fitted.Vector, level int) [][]string {
	s := v.SharedGate
	title := "Correlations"
	if len(s.Correlations) > 1 {
		title += fmt.Sprintf(" of expert %d", level+1)
	}
	head := []string{title}
	for _, o := range v.Outputs {
		head = append(head, shown.Name(o.Target))
		if s.CorrelationErrors != nil {
			head = append(head, "")
		}
	}
	table := [][]string{head}
	for c, o := range v.Outputs {
		row := []string{shown.Name(o.Target)}
		for b := range v.Outputs {
			cell, se := "", ""
			if b <= c {
				cell = fixed(s.Correlations[level][c][b])
			}
			if b < c && s.CorrelationErrors != nil {
				se = plusMinus(s.CorrelationErrors[level][c][b])
			}
			if row = append(row, cell); s.CorrelationErrors != nil {
				row = append(row, se)
			}
		}
		table = append(table, row)
	}
	return table
}
