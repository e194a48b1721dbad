package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// sharedGate writes a model of several targets under one gate for a terminal: what they have
// together, the experts of every target, the gate, and the correlations of the noise.
func sharedGate(w io.Writer, v *fitted.Vector, all bool) error {
	out := bufio.NewWriter(w)
	s := v.SharedGate
	fmt.Fprintln(out, SharedAnswer(v))
	for _, line := range modules(Together(v)) {
		fmt.Fprintln(out, line)
	}
	for _, line := range Verdicts(s.Fit.Certificate) {
		fmt.Fprintln(out, line)
	}
	for _, warning := range s.Fit.Warnings {
		fmt.Fprintf(out, "Warning: %s.\n", warning)
	}
	writeShared(out, v, MaxFeatures, all)
	for _, line := range separation(Together(v)) {
		fmt.Fprintln(out, shown.Line(line))
	}
	writeStarts(out, Together(v))
	if c := s.Fit.Certificate; c != nil && len(c.Tests) > 0 {
		writeTable(out, Tests(c))
	}
	writeNotes(out, s.Fit.Notes)
	return out.Flush()
}

// sharedGateScreen is the [Screen] of several targets under one gate.
func sharedGateScreen(w io.Writer, v *fitted.Vector, file string, all bool) error {
	out := bufio.NewWriter(w)
	f := v.SharedGate.Fit
	fmt.Fprintln(out, SharedAnswer(v))
	for _, line := range modules(Together(v)) {
		fmt.Fprintln(out, line)
	}
	if line := chosen(Together(v)); line != "" {
		fmt.Fprintln(out, line)
	}
	for _, line := range shortVerdicts(f) {
		fmt.Fprintln(out, line)
	}
	writeShared(out, v, screenFeatures, all)
	writeDoubts(out, f, false, file)
	return out.Flush()
}

// writeShared writes the experts of every target, the gate, and the correlations of the noise, with at
// most so many features, or all of them, and again with standard errors for rows that follow each other.
func writeShared(out io.Writer, v *fitted.Vector, most int, all bool) {
	if all {
		most = v.D
	}
	writeTargets(out, v, most)
	if se := v.Outputs[0].StandardErrors; se != nil && se.Kind != "observed" {
		fmt.Fprintf(out, "\n%s\n", errorsBy(se))
	}
	if with := WithDependence(v); with != nil {
		fmt.Fprintf(out, "\n%s\n", dependence(v.Outputs[0].HAC))
		writeTargets(out, with, most)
	}
	if v.D > most {
		fmt.Fprintln(out, "\n--all shows all features")
	}
}

// WithDependence is v with the standard errors for rows that follow each other in the place of the others; nil where it
// has none, or there is no room for them.
func WithDependence(v *fitted.Vector) *fitted.Vector {
	if v.Outputs[0].HAC == nil || v.K > maxErrors {
		return nil
	}
	with, shared := *v, *v.SharedGate
	with.Outputs, with.SharedGate = slices.Clone(v.Outputs), &shared
	shared.CorrelationErrors, shared.OwnErrors = shared.CorrelationHACErrors, shared.OwnHACErrors
	for j := range with.Outputs {
		o := &with.Outputs[j]
		o.StandardErrors, o.Truth = o.HAC.StandardErrors, nil
	}
	return &with
}

// writeTargets writes the experts of every target, the gate, and the correlations of the noise.
func writeTargets(out io.Writer, v *fitted.Vector, most int) {
	s := v.SharedGate
	for j := range v.Outputs {
		m := v.Model(j)
		fmt.Fprintf(out, "\nTarget %s", shown.Name(m.Target))
		if sigma := v.Outputs[j].Sigma; len(sigma) == 1 {
			fmt.Fprintf(out, ": sigma %s", numeral.Significant(sigma[0]))
			if se := m.StandardErrors; se != nil {
				fmt.Fprintf(out, " %s", numeral.PlusMinus(se.Sigma[0]))
			}
		}
		fmt.Fprintln(out)
		if against := AgainstTruth(m); against != "" {
			fmt.Fprintln(out, against)
		}
		writeTable(out, Experts(m, most))
	}
	if v.K > 1 {
		writeTable(out, Gates(Together(v), most))
	}
	if s.Noise == fitted.Full {
		for i := range s.Correlations {
			writeTable(out, Correlations(v, i))
		}
	}
	if len(s.Own) > 0 {
		writeTable(out, OwnOfFamily(v))
	}
}

// Together is the first output as a model, with the fit of all.
func Together(v *fitted.Vector) *fitted.Model {
	m := v.Model(0)
	m.Fit = *v.SharedGate.Fit
	return m
}

// UnderOneGate says what was fitted.
func UnderOneGate(v *fitted.Vector) string {
	return fmt.Sprintf("%s with %s each under one gate", HowMany(v.Model(0)), numeral.Plural(len(v.Outputs), "output"))
}

// SharedAnswer is [Answer] of targets under one gate.
func SharedAnswer(v *fitted.Vector) string {
	s := v.SharedGate
	verdict := "Converged"
	if !s.Fit.Converged {
		verdict = "Not converged (" + s.Fit.Status + ")"
	}
	return fmt.Sprintf("%s: %s, over %s, %s noise, log-likelihood %s on %s (BIC %s, AIC %s; method %s).",
		verdict, UnderOneGate(v), numeral.Plural(v.D, "feature"), cmp.Or(string(s.Noise), shown.Name(s.Family)),
		numeral.Likelihood(s.Fit.LogLikelihood), numeral.Plural(s.Fit.N, "row")+ofWeight(s.Fit),
		numeral.Likelihood(s.Fit.BIC), numeral.Likelihood(s.Fit.AIC),
		s.Fit.Method)
}

// OwnOfFamily is the table of what the noise of a family has beside its scales, of all experts or of each.
func OwnOfFamily(v *fitted.Vector) [][]string {
	s := v.SharedGate
	table := [][]string{{shown.Name(s.Family)}}
	for level := range v.Outputs[0].Sigma {
		title := ""
		if len(v.Outputs[0].Sigma) > 1 {
			title = fmt.Sprint(level + 1)
		}
		table[0] = append(table[0], title, "")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Own)) {
		row := []string{shown.Name(name)}
		for level, value := range s.Own[name] {
			se := ""
			if of := s.OwnErrors[name]; of != nil {
				se = numeral.PlusMinus(of[level])
			}
			row = append(row, numeral.Significant(value), se)
		}
		table = append(table, row)
	}
	return table
}

// Correlations is the table of the noise's correlations of one level.
func Correlations(v *fitted.Vector, level int) [][]string {
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
				cell = numeral.Fixed(s.Correlations[level][c][b])
			}
			if b < c && s.CorrelationErrors != nil {
				se = numeral.PlusMinus(s.CorrelationErrors[level][c][b])
			}
			if row = append(row, cell); s.CorrelationErrors != nil {
				row = append(row, se)
			}
		}
		table = append(table, row)
	}
	return table
}
