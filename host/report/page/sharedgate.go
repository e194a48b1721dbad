package page

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// SharedGate writes the report of a fit of several targets under one gate as one HTML
// file, as [Fits] does: what they have together, then every target with its diagnosis.
func SharedGate(w io.Writer, settings []Setting, v *fitted.Vector, targets []*diagnosis.Diagnosis) error {
	m, s := report.Together(v), v.SharedGate
	title := fmt.Sprintf("%s, %s", report.UnderOneGate(v), numeral.Plural(s.Fit.N, "row"))
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
func sharedSentence(v *fitted.Vector, targets []*diagnosis.Diagnosis) string {
	var names []string
	for _, o := range v.Outputs {
		names = append(names, shown.Name(o.Target))
	}
	out := fmt.Sprintf("%s of %s follow %s", numeral.Plural(v.SharedGate.Fit.N, "row"), shown.List(names),
		numeral.Plural(v.K, "expert"))
	if v.K == 1 {
		return out + "."
	}
	out += ": " + shares(targets[0]) + "."
	if different := mostDifferent(targets[0]); len(different) > 0 {
		out += fmt.Sprintf(" Their rows differ the most in %s.", shown.List(different))
	}
	return out
}

// ofTarget says how far off the experts of a target are.
func ofTarget(m *fitted.Model, d *diagnosis.Diagnosis) string {
	out := strings.TrimSpace(around(m, d))
	if se := m.StandardErrors; se != nil && len(m.Sigma) == 1 {
		out += fmt.Sprintf(" Its sigma is %s %s.", numeral.Significant(m.Sigma[0]), numeral.PlusMinus(se.Sigma[0]))
	}
	return strings.TrimSpace(out + " " + report.AgainstTruth(m))
}

// sharedSections are what targets under one gate have together, of which m is the first.
func sharedSections(v *fitted.Vector, m *fitted.Model, targets []*diagnosis.Diagnosis) (out []section) {
	d := targets[0]
	if tree, ok := treeSection(m); ok {
		out = append(out, tree)
	}
	var all []diagnosis.Members
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
			Tables: []table{asTable(report.Gates(each, report.MaxFeatures))},
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
			gate.Items = []string{report.Separated(m)}
		}
		own := asTable(report.Gates(m, report.MaxFeatures))
		own.Fold = own.Head[0] + ", in the features' own units"
		gate.Tables = append(gate.Tables, own)
		out = append(out, gate)
	}
	if v.SharedGate.Noise == fitted.Full {
		noise := section{Title: "Noise", Reading: "The correlations of the noise of a row's targets."}
		for i := range v.SharedGate.Correlations {
			noise.Tables = append(noise.Tables, asTable(report.Correlations(v, i)))
		}
		out = append(out, noise)
	}
	if len(v.SharedGate.Own) > 0 {
		out = append(out, section{Title: "Noise", Reading: "What the density of a row's targets has beside its scales.",
			Tables: []table{asTable(report.OwnOfFamily(v))}})
	}
	if with := report.WithDependence(v); with != nil && m.K > 1 {
		out = append(out, section{Title: "Gate with dependence of rows", Reading: report.Dependence(m),
			Tables: []table{asTable(report.Gates(report.Together(with), report.MaxFeatures))}})
	}
	return out
}

// sharedDoubts are what to doubt of targets under one gate, of which m is the first.
func sharedDoubts(v *fitted.Vector, m *fitted.Model, targets []*diagnosis.Diagnosis) []section {
	out := []section{doubtSection(m, report.SharedAnswer(v)), sharpnessSection(targets[0])}
	out = append(out, certificateSections(m.Fit.Certificate, mixtureTests)...)
	out = append(out, startSection(m))
	if len(m.Fit.Descriptions) > 0 {
		out = append(out, descriptionSection(m))
	}
	return under(out)
}

// targetSections are what a target under the gate of several has of its own.
func targetSections(m *fitted.Model, d *diagnosis.Diagnosis) []section {
	out := []section{dataSection(m, d)}
	if len(d.Profiles) > 0 && d.Curves == nil {
		out = append(out, profileSection(m, d))
	}
	each := perSD(m, d.SD)
	own := asTable(report.Experts(m, report.MaxFeatures))
	own.Fold = own.Head[0] + ", in the features' own units"
	of := section{Title: "Experts", Reading: "Regressors by expert, per standard deviation of a feature.",
		Tables: []table{asTable(report.Experts(each, report.MaxFeatures)), own}}
	if se := m.StandardErrors; se != nil {
		of.Reading += " The bars are 95 % intervals (" + se.Kind + " information); one that misses 0 is drawn full."
	}
	if chart, _ := regressorChart(each); chart != "" {
		of.Pictures = []template.HTML{chart}
	}
	out = append(out, of)
	if m.HAC != nil {
		s := section{Title: "Dependence of rows", Reading: report.Dependence(m)}
		if tables := report.DependentErrors(m, report.MaxFeatures); tables != nil {
			s.Tables = []table{asTable(tables[0])} // the gate is that of all targets
		}
		out = append(out, s)
	}
	out = append(out, residualSection(m, d), calibrationSection(m, d))
	if d.Index != nil {
		out = append(out, indexSection(m, d), featureSection(m, d))
	}
	return out
}
