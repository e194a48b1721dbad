package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// Doubts are the verdicts and warnings of a fit, a line each, and the table of the other optima near it, nil where
// there is none.
func Doubts(m *fitted.Model) (lines []string, arranged [][]string) {
	lines = slices.Concat(shortVerdicts(&m.Fit), leftOut(m))
	for _, warning := range m.Fit.Weighed() {
		lines = append(lines, "Warning: "+warning+".")
	}
	lines = append(lines, separation(m)...)
	if against := AgainstTruth(m); against != "" {
		lines = append(lines, against)
	}
	if m.Arrangements != nil {
		line, rows := arrangements(m.Arrangements)
		lines, arranged = append(lines, line), rows
	}
	return lines, arranged
}

// ChosenBy is what chose the number of experts.
func ChosenBy(m *fitted.Model) string {
	if m.Fit.ChosenBy == "set" {
		return "The least of those that the data leave"
	}
	return choiceOf(m).name
}

const (
	// screenFeatures is the number of features up to which a screen shows all of them.
	screenFeatures = 12
	// screenWarnings is how many warnings it has at most, beside that of the gate.
	screenWarnings = 3
	// screenCompared is how many fits of a comparison it names.
	screenCompared = 6
)

// Screen writes the first screen of a fitted model, at most 40 lines for 10 features and 3
// experts: what was fitted and how well, the two verdicts, experts and gate, and at most three
// warnings. What else there is [Explain] says, of the model's file; the screen names its path, or,
// where that is "", none. [Text] has everything.
func Screen(w io.Writer, m *fitted.Model, file string, all bool) error {
	out := bufio.NewWriter(w)
	writeAnswer(out, m)
	if line := chosen(m); line != "" {
		fmt.Fprintln(out, line)
	}
	if line := Plausible(m); line != "" {
		fmt.Fprintln(out, line)
	}
	for _, line := range slices.Concat(shortVerdicts(&m.Fit), leftOut(m)) {
		fmt.Fprintln(out, shown.Line(line))
	}
	writeEstimates(out, m.ForNewRows(), shortDesign(m), screenFeatures, all)
	if s := m.Arrangements; s != nil && s.Weight != nil { // they were asked for
		writeArrangements(out, s)
	}
	writeDoubts(out, &m.Fit, gatePenalised(m), file)
	return out.Flush()
}

// writeDoubts writes the weightiest warnings, always that the gate separates or nearly does, which is less where the
// coefficients are those of a penalised gate, and how much more there is to be read.
func writeDoubts(out io.Writer, f *fitted.Fit, penalised bool, file string) {
	var gate []string
	for i, kind := range f.WarningKinds {
		if kind == fitted.WarnGate && i < len(f.Warnings) {
			gate = append(gate, f.Warnings[i])
		}
	}
	more := len(f.Warnings) + len(f.Notes)
	if len(f.Separation) > 0 {
		what := "its coefficients without a standard error (–) have no finite optimum"
		if penalised {
			what = "at the maximum of the likelihood it is infinite"
		}
		gate = append(gate, "the gate separates rows: "+what)
		more++ // where it does
	}
	gate = gate[:min(len(gate), screenWarnings)]
	warnings := slices.DeleteFunc(slices.Clone(f.Weighed()), func(w string) bool { return slices.Contains(gate, w) })
	warnings = append(warnings[:min(len(warnings), screenWarnings-len(gate))], gate...)
	if more -= len(warnings); len(f.Separation) > 0 {
		more = max(more, 1)
	}
	if len(warnings) > 0 || more > 0 {
		fmt.Fprintln(out)
	}
	for _, warning := range warnings {
		fmt.Fprintf(out, "Warning: %s.\n", shown.Line(warning))
	}
	switch {
	case more == 0:
	case file == "":
		fmt.Fprintf(out, "%d more: --verbose\n", more)
	default:
		fmt.Fprintf(out, "%d more: moe explain %s\n", more, shown.Name(file))
	}
}

// shortVerdicts are the certificate's two answers without what was not tested, and without
// what a warning contradicts: more experts where some are too many.
func shortVerdicts(f *fitted.Fit) []string {
	c := f.Certificate
	if c == nil { // a note says why
		i := slices.IndexFunc(f.Notes, func(note string) bool { return strings.HasPrefix(note, "no certificate: ") })
		if i < 0 {
			return nil
		}
		return []string{"Not judged: " + f.Notes[i] + "."}
	}
	cause, try := c.Cause, c.Try
	if f.Has(fitted.WarnTooMany) {
		cause = strings.TrimSuffix(cause, infer.OrCause+infer.FewCause)
		if strings.HasPrefix(try, "--k ") {
			cause, try = "experts of another kind, as k may be too large already",
				"other terms by --formula, or another --activation"
		}
	}
	model := fmt.Sprintf("Model: %s; %s", c.Model, found(c, cause, try))
	isSlow := func(t fitted.TestNotMade) bool { return t.Name == infer.SlowDependenceTest }
	if c.Model == infer.Pass && slices.ContainsFunc(c.NotMade, isSlow) {
		model += "; slow dependence was not tested, since neighbouring rows have y alike (sorted, or dependent): " +
			"give --hac where rows stand in time"
	}
	return []string{optimumVerdict(c), model + "."}
}

// chosen says in one line what the model was compared with; "" where with nothing.
func chosen(m *fitted.Model) string {
	list := m.Fit.Selection
	switch {
	case len(m.Fit.Descriptions) > 0:
		return ofDescriptions(m.Fit.Descriptions)
	case len(list) == 0:
		return ""
	case IsGrown(m):
		return fmt.Sprintf("Grown by BIC: the tree %s is the best of %d.", m.Params().Hierarchy(), len(list))
	}
	near := slices.Clone(list)
	if len(near) > screenCompared { // those around the one that was chosen
		i := slices.IndexFunc(near, func(c fitted.Candidate) bool { return c.K == m.K })
		from := min(max(0, i-screenCompared/2), len(near)-screenCompared)
		near = near[from : from+screenCompared]
	}
	var terms []string
	by := choiceOf(m)
	for _, c := range near {
		term := fmt.Sprintf("%s for %d", known(by.of(c)), c.K)
		if c.K == m.K {
			term += " (chosen)"
		} else if !c.Converged {
			term += " (not converged)"
		}
		terms = append(terms, term)
	}
	line := fmt.Sprintf("%s by k, of %d to %d: %s.", by.name, list[0].K, list[len(list)-1].K, strings.Join(terms, ", "))
	if m.Fit.ChosenBy == "bicc" {
		could := slices.DeleteFunc(slices.Clone(list), func(c fitted.Candidate) bool { return !c.Converged })
		if len(could) == 0 {
			could = list
		}
		least := slices.MinFunc(could, func(a, b fitted.Candidate) int { return cmp.Compare(a.BIC, b.BIC) })
		line += fmt.Sprintf(" BIC itself is least for %d: --choose bic takes that.", least.K)
	}
	return line
}

// settingName is the key of a description in words.
func settingName(key string) string { return strings.ReplaceAll(key, "_", " ") }

// ofDescriptions says which of several was chosen, and beside which that is highest.
func ofDescriptions(all []fitted.Description) string {
	words := func(d fitted.Description) string {
		parts := []string{fmt.Sprintf("k = %d", d.K)}
		for _, key := range slices.Sorted(maps.Keys(d.Settings)) {
			parts = append(parts, settingName(key)+" "+d.Settings[key])
		}
		return shown.Line(strings.Join(parts, ", ")) + " (" + numeral.Plural(d.Parameters, "parameter") + ")"
	}
	compared := 0
	var chosen, top fitted.Description
	for _, d := range all {
		if d.Parameters > 0 {
			compared++
		}
		if d.HeldOut == nil || d.Below == nil || d.StandardError == nil {
			continue
		}
		if d.Chosen {
			chosen = d
		}
		if top.HeldOut == nil || *d.HeldOut > *top.HeldOut {
			top = d
		}
	}
	if chosen.HeldOut == nil { // of a file that is not ours
		return ""
	}
	of := numeral.Plural(compared, "description")
	if chosen.Targets > 1 {
		of += " of " + numeral.Plural(chosen.Targets, "target") + " together"
	}
	line := fmt.Sprintf("Held-out log-likelihood of %s: %s for %s, chosen", of, numeral.Likelihood(*chosen.HeldOut),
		words(chosen))
	if top.Chosen {
		return line + ", the highest."
	}
	return fmt.Sprintf("%s; %s for %s, higher by %s ± %s.", line, numeral.Likelihood(*top.HeldOut), words(top),
		numeral.Hundredths(*chosen.Below), numeral.Hundredths(*chosen.StandardError))
}

// choice is a criterion by which a fit was chosen.
type choice struct {
	name   string
	column string // of the table, where it has one beside [criteria]
	of     func(c fitted.Candidate) *float64
}

// choiceOf is that of a model.
func choiceOf(m *fitted.Model) choice {
	switch m.Fit.ChosenBy {
	case "bicc":
		return choice{"BIC corrected for few rows", "BICc", func(c fitted.Candidate) *float64 { return c.BICc }}
	case "icl":
		return choice{"ICL", "", func(c fitted.Candidate) *float64 { return &c.ICL }}
	case "heldout":
		return choice{"Held-out log-likelihood", "held out", func(c fitted.Candidate) *float64 { return c.HeldOut }}
	}
	return choice{"BIC", "", func(c fitted.Candidate) *float64 { return &c.BIC }}
}

// known is a criterion, which may be unknown or infinite.
func known(v *float64) string {
	if v == nil {
		return "–"
	}
	return numeral.Likelihood(*v)
}

// shortDesign names the formula, and the references of the factors, a line each.
func shortDesign(m *fitted.Model) (lines []string) {
	lines = formula(m)
	if m.Design == nil {
		return lines
	}
	var factors []string
	for _, f := range m.Design.Factors {
		factors = append(factors, shown.Name(f.Name)+" against "+shown.Name(f.Reference))
	}
	if len(factors) > 0 {
		lines = append(lines, "Factors: "+strings.Join(factors, ", ")+".")
	}
	return lines
}

// Part is a part of what [Explain] says.
type Part string

// The parts of an explanation, in the order in which they are written.
const (
	PartStarts      Part = "starts"
	PartCertificate Part = "certificate"
	PartNotes       Part = "notes"
)

// wants says whether a part is one of these: all where none is named.
func wants(parts []Part, p Part) bool { return len(parts) == 0 || slices.Contains(parts, p) }

// Explain writes what a model's file knows beside [Screen]: these parts of it, all where none is named.
func Explain(w io.Writer, m *fitted.Model, parts ...Part) error {
	return explain(w, Answer(m), m, parts)
}

func explain(w io.Writer, answer string, m *fitted.Model, parts []Part) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, answer)
	for _, line := range modules(m) {
		fmt.Fprintln(out, line)
	}
	if wants(parts, PartStarts) {
		writeStarts(out, m)
		writeArrangements(out, m.Arrangements)
		if path := penaltyPath(m); path != nil {
			writeTable(out, path)
		}
	}
	if c := m.Fit.Certificate; wants(parts, PartCertificate) && c != nil {
		fmt.Fprintln(out)
		for _, line := range Verdicts(c) {
			fmt.Fprintln(out, line)
		}
		if len(c.Tests) > 0 {
			writeTable(out, Tests(c))
		}
	} else if wants(parts, PartCertificate) {
		fmt.Fprintln(out, "\nThere is no certificate; the notes say why.")
	}
	if wants(parts, PartNotes) {
		writeAllNotes(out, m)
	}
	return out.Flush()
}

// writeAllNotes writes warnings, boundaries, how g was evaluated, factors and notes.
func writeAllNotes(out io.Writer, m *fitted.Model) {
	var lines []string
	for _, warning := range m.Fit.Warnings {
		lines = append(lines, "Warning: "+warning+".")
	}
	lines = append(lines, separation(m)...)
	if line := penalised(m); line != "" {
		lines = append(lines, line)
	}
	if m.Approximation != nil {
		lines = append(lines, approximation(m))
	}
	lines = append(lines, design(m)...)
	for i, line := range lines {
		if i == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, shown.Line(line))
	}
	writeNotes(out, m.Fit.Notes)
	if len(lines)+len(m.Fit.Notes) == 0 {
		fmt.Fprintln(out, "\nThere are no warnings and no notes.")
	}
}

// OutputsScreen is [Screen] of several targets; those that share a gate together.
func OutputsScreen(w io.Writer, v *fitted.Vector, file string, all bool) error {
	if v.SharedGate != nil && v.SharedGate.Fit != nil {
		return sharedGateScreen(w, v, file, all)
	}
	return eachOutput(w, v, false, func(m *fitted.Model) error { return Screen(w, m, file, all) })
}

// ExplainOutputs is [Explain] of several targets.
func ExplainOutputs(w io.Writer, v *fitted.Vector, parts ...Part) error {
	if v.SharedGate != nil && v.SharedGate.Fit != nil {
		return explain(w, SharedAnswer(v), Together(v), parts)
	}
	return eachOutput(w, v, wants(parts, PartStarts), func(m *fitted.Model) error {
		return Explain(w, m, parts...)
	})
}

// eachOutput writes the targets one below the other, each below its name, and before them what chose one description
// for all, with its table or without.
func eachOutput(w io.Writer, v *fitted.Vector, table bool, write func(*fitted.Model) error) error {
	first := v.Model(0)
	all := len(v.Outputs) > 1 && len(first.Fit.Descriptions) > 0
	if all {
		fmt.Fprintf(w, "All targets\n%s\n", ofDescriptions(first.Fit.Descriptions))
	}
	if all && table {
		out := bufio.NewWriter(w)
		writeDescriptions(out, first)
		if err := out.Flush(); err != nil {
			return err
		}
	}
	for j := range v.Outputs {
		m := v.Model(j)
		if all {
			m.Fit.Descriptions = nil // which are above
		}
		if all || j > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "Target %s\n", shown.Name(m.Target))
		if err := write(m); err != nil {
			return err
		}
	}
	return nil
}
