package report

import (
	"bufio"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// sharedGate writes a model of several targets under one gate for a terminal: what they have
// together, the experts of every target, the gate, and the correlations of the noise.
func sharedGate(w io.Writer, v *fitted.Vector, all bool) error {
	out := bufio.NewWriter(w)
	s := v.SharedGate
	fmt.Fprintln(out, sharedAnswer(v))
	for _, line := range modules(together(v)) {
		fmt.Fprintln(out, line)
	}
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
	for _, line := range modules(together(v)) {
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
			fmt.Fprintf(out, ": sigma %s", numeral.Significant(m.Sigma[0]))
			if se := m.StandardErrors; se != nil {
				fmt.Fprintf(out, " %s", numeral.PlusMinus(se.Sigma[0]))
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
	return fmt.Sprintf("%s with %s each under one gate", howMany(v.Model(0)), numeral.Plural(len(v.Outputs), "output"))
}

// sharedAnswer is [answer] of targets under one gate.
func sharedAnswer(v *fitted.Vector) string {
	s := v.SharedGate
	verdict := "Converged"
	if !s.Fit.Converged {
		verdict = "Not converged (" + s.Fit.Status + ")"
	}
	return fmt.Sprintf("%s: %s, over %s, %s noise, log-likelihood %s on %s (BIC %s, AIC %s; method %s).",
		verdict, underOneGate(v), numeral.Plural(v.D, "feature"), s.Noise,
		numeral.Likelihood(s.Fit.LogLikelihood), numeral.Plural(s.Fit.N, "row"), numeral.Likelihood(s.Fit.BIC),
		numeral.Likelihood(s.Fit.AIC),
		s.Fit.Method)
}

// SharedGatePage writes the report of a fit of several targets under one gate as one HTML
// file, as [Page] does: what they have together, then every target with its diagnosis.
func SharedGatePage(w io.Writer, settings []Setting, v *fitted.Vector, targets []*Diagnosis) error {
	m, s := together(v), v.SharedGate
	title := fmt.Sprintf("%s, %s", underOneGate(v), numeral.Plural(s.Fit.N, "row"))
	parts := []map[string]any{{
		"Title": title, "Doubt": len(targets) + 1, "Sentence": sharedSentence(v, targets), "Good": s.Fit.Converged,
		"Badges": badges(s.Fit.Certificate),
		"Legend": legend(targets[0].Shares), "Sections": sharedSections(v, m, targets),
	}}
	for j, d := range targets {
		m := v.Model(j)
		parts = append(parts, map[string]any{
			"Title": "Target " + shown.Name(m.Target), "Sentence": ofTarget(m, d),
			"Legend": legend(d.Shares), "Sections": targetSections(m, d),
		})
	}
	parts = append(parts, map[string]any{"Title": "All targets", "Sections": sharedDoubts(v, m, targets),
		"Notes": s.Fit.Notes})
	return pageTemplate().Execute(shown.Writer(w), map[string]any{"Settings": settings, "Fits": parts,
		"Last": len(parts) - 1, "Title": title})
}

// sharedSentence is [sentence] of targets under one gate.
func sharedSentence(v *fitted.Vector, targets []*Diagnosis) string {
	var names []string
	for _, o := range v.Outputs {
		names = append(names, shown.Name(o.Target))
	}
	out := fmt.Sprintf("%s of %s follow %s", numeral.Plural(v.SharedGate.Fit.N, "row"), numeral.List(names),
		numeral.Plural(v.K, "expert"))
	if v.K == 1 {
		return out + "."
	}
	out += ": " + shares(targets[0]) + "."
	if different := mostDifferent(targets[0]); len(different) > 0 {
		out += fmt.Sprintf(" Their rows differ the most in %s.", numeral.List(different))
	}
	return out
}

// ofTarget says how far off the experts of a target are.
func ofTarget(m *fitted.Model, d *Diagnosis) string {
	out := strings.TrimSpace(around(m, d))
	if se := m.StandardErrors; se != nil && len(m.Sigma) == 1 {
		out += fmt.Sprintf(" Its sigma is %s %s.", numeral.Significant(m.Sigma[0]), numeral.PlusMinus(se.Sigma[0]))
	}
	return strings.TrimSpace(out + " " + againstTruth(m))
}

// sharedSections are what targets under one gate have together, of which m is the first.
func sharedSections(v *fitted.Vector, m *fitted.Model, targets []*Diagnosis) (out []section) {
	d := targets[0]
	if tree, ok := treeSection(m); ok {
		out = append(out, tree)
	}
	var all []Members
	for _, of := range targets {
		all = append(all, of.Target)
	}
	out = append(out, memberSection(m, d, all...))
	if m.K > 1 {
		each := perSD(m, d.SD)
		gate := section{
			Title: "Gate",
			Reading: "The gate of all targets, per standard deviation of a feature: the log of the odds for an " +
				"expert against the last.",
			Tables: []table{asTable(gates(each, maxFeatures))},
		}
		if m.Hierarchy != "" {
			gate.Reading = "The gates of all targets, per standard deviation of a feature: the log of the odds for a " +
				"branch against the last of its gate."
		}
		if se := m.StandardErrors; se != nil {
			gate.Reading += " The bars are 95 % intervals (" + se.Kind +
				" information); one that misses 0 is drawn full."
		}
		if chart, _ := gatingChart(each); chart != "" {
			gate.Pictures = []template.HTML{chart}
		}
		if len(m.Fit.Separation) > 0 {
			gate.Items = []string{separates(m)}
		}
		own := asTable(gates(m, maxFeatures))
		own.Fold = own.Head[0] + ", in the features' own units"
		gate.Tables = append(gate.Tables, own)
		out = append(out, gate)
	}
	if v.SharedGate.Noise == fitted.Full {
		noise := section{Title: "Noise", Reading: "The correlations of the noise of a row's targets."}
		for i := range v.SharedGate.Correlations {
			noise.Tables = append(noise.Tables, asTable(correlations(v, i)))
		}
		out = append(out, noise)
	}
	return out
}

// sharedDoubts are what to doubt of targets under one gate, of which m is the first.
func sharedDoubts(v *fitted.Vector, m *fitted.Model, targets []*Diagnosis) []section {
	out := []section{doubtSection(m, sharedAnswer(v)), sharpnessSection(targets[0])}
	out = append(out, certificateSections(m.Fit.Certificate, mixtureTests)...)
	return under(append(out, startSection(m)))
}

// targetSections are what a target under the gate of several has of its own.
func targetSections(m *fitted.Model, d *Diagnosis) []section {
	out := []section{dataSection(m, d)}
	if len(d.Profiles) > 0 && d.Curves == nil {
		out = append(out, profileSection(m, d))
	}
	each := perSD(m, d.SD)
	own := asTable(experts(m, maxFeatures))
	own.Fold = own.Head[0] + ", in the features' own units"
	of := section{Title: "Experts", Reading: "Regressors by expert, per standard deviation of a feature.",
		Tables: []table{asTable(experts(each, maxFeatures)), own}}
	if se := m.StandardErrors; se != nil {
		of.Reading += " The bars are 95 % intervals (" + se.Kind + " information); one that misses 0 is drawn full."
	}
	if chart, _ := regressorChart(each); chart != "" {
		of.Pictures = []template.HTML{chart}
	}
	out = append(out, of, residualSection(m, d), calibrationSection(m, d))
	if d.Index != nil {
		out = append(out, indexSection(m, d), featureSection(m, d))
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
