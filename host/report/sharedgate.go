package report

import (
	"bufio"
	"fmt"
	"html/template"
	"io"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/shown"
)

// sharedGate writes a model of several targets under one gate for a terminal: what they have
// together, the experts of every target, the gate, and the correlations of the noise.
func sharedGate(w io.Writer, v *fitted.Vector, all bool) error {
	out := bufio.NewWriter(w)
	s := v.SharedGate
	fmt.Fprintln(out, sharedAnswer(v))
	for _, line := range verdicts(s.Fit.Certificate) {
		fmt.Fprintln(out, line)
	}
	for _, warning := range s.Fit.Warnings {
		fmt.Fprintf(out, "Warning: %s.\n", warning)
	}
	writeShared(out, v, maxFeatures, all)
	writeTable(out, starts(together(v)))
	if c := s.Fit.Certificate; c != nil && len(c.Tests) > 0 {
		writeTable(out, tests(c))
	}
	writeNotes(out, s.Fit.Notes)
	return out.Flush()
}

// sharedGateScreen is the [Screen] of several targets under one gate.
func sharedGateScreen(w io.Writer, v *fitted.Vector, file string, all bool) error {
	out := bufio.NewWriter(w)
	f := v.SharedGate.Fit
	fmt.Fprintln(out, sharedAnswer(v))
	for _, line := range shortVerdicts(f) {
		fmt.Fprintln(out, line)
	}
	writeShared(out, v, screenFeatures, all)
	writeDoubts(out, f, file)
	return out.Flush()
}

// writeShared writes the experts of every target, the gate, and the correlations of the noise, with at
// most so many features, or all of them.
func writeShared(out io.Writer, v *fitted.Vector, most int, all bool) {
	s := v.SharedGate
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
		writeTable(out, gates(together(v), most))
	}
	if s.Noise == fitted.Full {
		for i := range s.Correlations {
			writeTable(out, correlations(v, i))
		}
	}
	if v.D > most {
		fmt.Fprintln(out, "\n--all shows all features")
	}
}

// together is the first output as a model, with the fit of all.
func together(v *fitted.Vector) *fitted.Model {
	m := v.Model(0)
	m.Fit = *v.SharedGate.Fit
	return m
}

// underOneGate says what was fitted.
func underOneGate(v *fitted.Vector) string {
	return fmt.Sprintf("%s with %s each under one gate", howMany(v.Model(0)), plural(len(v.Outputs), "output"))
}

// sharedAnswer is [answer] of targets under one gate.
func sharedAnswer(v *fitted.Vector) string {
	s := v.SharedGate
	verdict := "Converged"
	if !s.Fit.Converged {
		verdict = "Not converged (" + s.Fit.Status + ")"
	}
	return fmt.Sprintf("%s: %s, over %s, %s noise, log-likelihood %s on %s (BIC %s, AIC %s; method %s).",
		verdict, underOneGate(v), plural(v.D, "feature"), s.Noise,
		Likelihood(s.Fit.LogLikelihood), plural(s.Fit.N, "row"), Likelihood(s.Fit.BIC), Likelihood(s.Fit.AIC), s.Fit.Method)
}

// SharedGatePage writes the report of a fit of several targets under one gate as one HTML
// file, as [Page] does: what they have together, then every target with its diagnosis.
func SharedGatePage(w io.Writer, settings []Setting, v *fitted.Vector, targets []*Diagnosis) error {
	m, s := together(v), v.SharedGate
	whole := map[string]any{
		"Title": fmt.Sprintf("%s, %s", underOneGate(v), plural(s.Fit.N, "row")), "Answer": sharedAnswer(v), "Good": s.Fit.Converged, "Badges": badges(s.Fit.Certificate),
		"Warnings": s.Fit.Warnings, "Notes": s.Fit.Notes, "Legend": legend(m), "Sections": sharedSections(v, m, targets[0]),
	}
	parts := []map[string]any{whole}
	for j, d := range targets {
		m := v.Model(j)
		sigma := "sigma per expert"
		if len(m.Sigma) == 1 {
			sigma = "sigma " + significant(m.Sigma[0])
			if se := m.StandardErrors; se != nil {
				sigma += " " + plusMinus(se.Sigma[0])
			}
		}
		parts = append(parts, map[string]any{
			"Title": "Target " + shown.Name(m.Target), "Answer": "Its " + sigma + ".", "Good": s.Fit.Converged,
			"Truth": againstTruth(m), "Legend": legend(m), "Sections": targetSections(m, d),
		})
	}
	return pageTemplate().Execute(shown.Writer(w), map[string]any{"Settings": settings, "Fits": parts, "Title": whole["Title"]})
}

// sharedSections are what targets under one gate have together, of which m is the first.
func sharedSections(v *fitted.Vector, m *fitted.Model, d *Diagnosis) (out []section) {
	if tree, ok := treeSection(m); ok {
		out = append(out, tree)
	}
	if m.K > 1 {
		gate := section{Title: "Gate", Reading: "The gate of all targets, relative to the last expert, whose gate is 0.", Tables: []table{asTable(gates(m, maxFeatures))}}
		if m.Hierarchy != "" {
			gate.Reading = "The gates of all targets: every branch relative to the last of its gate, whose predictor is 0."
		}
		if se := m.StandardErrors; se != nil {
			gate.Reading += " The bars are 95 % intervals (" + se.Kind + " information); one that misses 0 is drawn full."
			gate.Pictures = []template.HTML{gatingChart(m, se)}
		}
		out = append(out, gate)
	}
	if v.SharedGate.Noise == fitted.Full {
		noise := section{Title: "Noise", Reading: "The correlations of the noise of a row's targets."}
		for i := range v.SharedGate.Correlations {
			noise.Tables = append(noise.Tables, asTable(correlations(v, i)))
		}
		out = append(out, noise)
	}
	out = append(out, sharpnessSection(d), startSection(m))
	return append(out, certificateSections(m.Fit.Certificate, mixtureTests)...)
}

// targetSections are what a target under the gate of several has of its own.
func targetSections(m *fitted.Model, d *Diagnosis) []section {
	out := []section{dataSection(m, d)}
	if d.Index != nil {
		out = append(out, indexSection(m, d))
	}
	of := section{Title: "Experts", Reading: "Regressors by expert.", Tables: []table{asTable(experts(m, maxFeatures))}}
	if se := m.StandardErrors; se != nil {
		of.Reading += " The bars are 95 % intervals (" + se.Kind + " information); one that misses 0 is drawn full."
		of.Pictures = []template.HTML{regressorChart(m, se)}
	}
	out = append(out, of, residualSection(m, d))
	if d.Index != nil {
		out = append(out, featureSection(m, d))
	}
	return out
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
