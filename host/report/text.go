// Package report says what there is to say of a fitted model, in sentences, tables and as text for a terminal.
package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// MaxFeatures is the number of features whose coefficients a report shows; the
// model file has them all.
const MaxFeatures = 40

// Text writes all of a fitted model for a terminal: the answer in one line, then a
// column for every expert and for every gate, the starts, and the notes. Of more than
// 40 features it shows those with the largest |t|, unless all are asked for. [Screen] is
// the short of it.
func Text(w io.Writer, m *fitted.Model, all bool) error {
	out := bufio.NewWriter(w)
	writeAnswer(out, m)
	for _, line := range slices.Concat(Verdicts(m.Fit.Certificate), leftOut(m)) {
		fmt.Fprintln(out, line)
	}
	for _, warning := range m.Fit.Warnings {
		fmt.Fprintf(out, "Warning: %s.\n", warning)
	}
	if m.Approximation != nil {
		fmt.Fprintln(out, approximation(m))
	}
	writeEstimates(out, m.ForNewRows(), design(m), MaxFeatures, all)
	for _, line := range separation(m) {
		fmt.Fprintln(out, shown.Line(line))
	}
	writeStarts(out, m)
	if path := penaltyPath(m); path != nil {
		writeTable(out, path)
	}
	if c := m.Fit.Certificate; c != nil && len(c.Tests) > 0 {
		writeTable(out, Tests(c))
	}
	writeArrangements(out, m.Arrangements)
	writeNotes(out, m.Fit.Notes)
	return out.Flush()
}

// writeAnswer writes what was fitted and how well.
func writeAnswer(out io.Writer, m *fitted.Model) {
	fmt.Fprintln(out, Answer(m))
	if against := AgainstTruth(m); against != "" {
		fmt.Fprintln(out, against)
	}
	if d := m.Fit.Descent; d != nil {
		fmt.Fprintln(out, descent(d))
	}
	for _, line := range modules(m) {
		fmt.Fprintln(out, line)
	}
}

// writeEstimates writes the parameters and what they are of: how sure they are, what the features were made of, in
// these lines, the tree and the output's scale, and the coefficients of at most so many features, or all of them.
func writeEstimates(out io.Writer, m *fitted.Model, design []string, most int, all bool) {
	if line := penalised(m); line != "" {
		fmt.Fprintln(out, line)
	}
	if s := m.StandardErrors; s != nil {
		fmt.Fprintln(out, uncertainty(m, s))
	}
	for _, line := range slices.Concat(design, drawnTree(m)) {
		fmt.Fprintln(out, line)
	}
	for _, line := range []string{Output(m), Zero(m)} {
		if line != "" {
			fmt.Fprintln(out, line)
		}
	}
	writeCoefficients(out, m, most, all)
}

// writeCoefficients writes the tables of experts and gate with at most so many features, or all of them.
func writeCoefficients(out io.Writer, m *fitted.Model, most int, all bool) {
	if all {
		most = m.D
	}
	writeTable(out, Experts(m, most))
	if m.Classes() > 1 {
		writeTable(out, Gates(m, most))
	}
	if m.HAC != nil {
		fmt.Fprintf(out, "\n%s\n", Dependence(m))
		for _, table := range DependentErrors(m, most) {
			writeTable(out, table)
		}
	}
	if m.D > most {
		fmt.Fprintln(out, "\n--all shows all features")
	}
}

// writeStarts writes what was compared, and what the search has seen.
func writeStarts(out io.Writer, m *fitted.Model) {
	writeDescriptions(out, m)
	switch {
	case IsGrown(m):
		writeTable(out, Growth(m))
	case len(m.Fit.Selection) > 0:
		writeTable(out, Selection(m))
		if line := Plausible(m); line != "" {
			fmt.Fprintln(out, line)
		}
	}
	if len(m.Fit.Starts) > 0 {
		writeTable(out, Starts(m))
	}
	if s := m.Fit.Survey; s != nil {
		fmt.Fprintln(out, survey(s))
	}
}

// writeDescriptions writes the descriptions that were compared; nothing where there are none.
func writeDescriptions(out io.Writer, m *fitted.Model) {
	if len(m.Fit.Descriptions) == 0 {
		return
	}
	table, reasons := descriptions(m)
	writeTable(out, table)
	for _, reason := range reasons {
		fmt.Fprintln(out, reason)
	}
}

// writeArrangements writes the other optima near the model's; nothing for nil.
func writeArrangements(out io.Writer, s *fitted.Arrangements) {
	if s == nil {
		return
	}
	line, table := arrangements(s)
	fmt.Fprintf(out, "\n%s\n", line)
	if table != nil {
		writeTable(out, table)
	}
}

func writeNotes(out io.Writer, notes []string) {
	for i, note := range notes {
		if i == 0 {
			fmt.Fprintln(out, "\nNotes")
		}
		fmt.Fprintf(out, "  - %s\n", shown.Line(note))
	}
}

// Outputs writes the fits of several targets for a terminal, one below the other; those that
// share a gate together.
func Outputs(w io.Writer, v *fitted.Vector, all bool) error {
	if v.SharedGate != nil && v.SharedGate.Fit != nil {
		return sharedGate(w, v, all)
	}
	return eachOutput(w, v, true, func(m *fitted.Model) error { return Text(w, m, all) })
}

// approximation says how g was evaluated, of a model with a native approximation of it.
func approximation(m *fitted.Model) string {
	a := m.Approximation
	lo, hi := a.Value.Range()
	return fmt.Sprintf("Values of %s by a native approximation on %.6g <= z < %.6g: relative error at most %.2g, of "+
		"its derivative %.2g.",
		m.Activation.Name, lo, hi, a.Value.Error, a.Derivative.Error)
}

// modules names the WebAssembly modules that the model's file has in it, a line each.
func modules(m *fitted.Model) (lines []string) {
	for _, a := range append([]stated.Activation{m.Activation}, m.Leaves...) {
		if a.Module == nil {
			continue
		}
		line := fmt.Sprintf("Module in the file: %s, %s, sha256 %s.", shown.Name(a.Name),
			numeral.Plural(len(a.Module.Code), "byte"), a.Module.SHA256)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Answer is the first line: did it work, what was found, how good is it.
func Answer(m *fitted.Model) string {
	verdict := "Converged"
	if !m.Fit.Converged {
		verdict = "Not converged (" + m.Fit.Status + ")"
	}
	noise := strings.Join(noiseWords(m), ", ")
	left := ""
	if m.Fit.Dropped > 0 {
		left = fmt.Sprintf(" (%d left out for missing cells)", m.Fit.Dropped)
	}
	if m.TargetScale != "" {
		noise += " of " + shown.Name(m.ScaledTarget())
	}
	return fmt.Sprintf("%s: %s over %s, %s, log-likelihood %s on %s%s (BIC %s, AIC %s; method %s).",
		verdict, HowMany(m), numeral.Plural(m.D, "feature"), noise,
		numeral.Likelihood(m.Fit.LogLikelihood), FittedRows(m)+ofWeight(&m.Fit), left, numeral.Likelihood(m.Fit.BIC),
		numeral.Likelihood(m.Fit.AIC),
		m.Fit.Method)
}

// leftOut says in a line what leaving out each row comes to, where that is known.
func leftOut(m *fitted.Model) []string {
	left := m.LeftOut()
	if left == nil {
		return nil
	}
	by, some := "", ""
	if m.Penalised != nil {
		by = " of the penalised " + PenalisedPart(m.Penalised)
	}
	if left.Rows > 0 {
		some = fmt.Sprintf("; from %d of them", left.Rows)
	}
	rows := float64(m.Fit.N)
	if m.Fit.Weight > 0 {
		rows = m.Fit.Weight
	}
	each, explained := rows/float64(left.Parameters), ""
	if left.Explained > 0 {
		explained = fmt.Sprintf(", which explain about %.4g by these weights", left.Explained)
	}
	return []string{fmt.Sprintf("Leave-one-out: log-likelihood %s%s, lower by %s, with %s%s (%s rows each%s).",
		numeral.Likelihood(left.LogLikelihood), by, numeral.Likelihood(left.Gap),
		numeral.Plural(left.Parameters, "parameter"), explained,
		strconv.FormatFloat(each, 'f', max(0, 1-int(each/100)), 64), some)}
}

// formula names the formula, and the scale of the target.
func formula(m *fitted.Model) (lines []string) {
	if d := m.Design; d != nil && d.Formula != "" {
		lines = append(lines, "Formula: "+shown.Name(d.Formula)+".")
	}
	if len(m.Shared) > 0 {
		lines = append(lines, fmt.Sprintf("Shared by all experts: %s.", shownNames(m.Shared)))
	}
	return append(lines, onScale(m)...)
}

// shownNames lists names as they may be shown.
func shownNames(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = shown.Name(name)
	}
	return shown.List(out)
}

// design says what the features are made of, where they are not columns.
func design(m *fitted.Model) (lines []string) {
	lines = formula(m)
	if m.Design == nil {
		return lines
	}
	for _, f := range m.Design.Factors {
		var others []string
		for _, level := range f.Levels {
			if level != f.Reference {
				others = append(others, shown.Name(level))
			}
		}
		if more := len(others) - 12; more > 0 {
			others = append(others[:12], fmt.Sprintf("%d more", more))
		}
		lines = append(lines, fmt.Sprintf("Factor %s: %s against the reference %s.", shown.Name(f.Name),
			strings.Join(others, ", "), shown.Name(f.Reference)))
	}
	return lines
}

// onScale says what a model of a scale of the target is of, and what is of the target.
func onScale(m *fitted.Model) []string {
	if m.TargetScale == "" {
		return nil
	}
	y, h := shown.Name(m.Target), shown.Name(m.ScaledTarget())
	line := fmt.Sprintf(
		"Target: %s. Coefficients, sigma and the tests are of it; log-likelihood, BIC and AIC are of %s", h, y)
	if v := m.Fit.LogLikelihoodTransformed; v != nil {
		line += fmt.Sprintf(" (log-likelihood of %s: %s)", h, numeral.Likelihood(*v))
	}
	lines := []string{line + "."}
	if m.TargetScale.Bounded() {
		lines = append(lines, fmt.Sprintf("Noise below 0, which %s never is: %.2g %% of the probability, a mean over "+
			"the rows.", h, 100*m.Fit.ProbabilityOutside))
	}
	if !m.TargetScale.HasMean() {
		lines = append(lines, fmt.Sprintf("Where %s is normal %s has no mean: predictions are medians.", h, y))
	}
	return lines
}

// descent says how far a method that descends by mini-batches went, and to
// which loss.
func descent(d *fitted.Descent) string {
	loss := map[string]string{"l2": "l2, the mean squared error,", "l4": "L4"}[d.Loss]
	made := fmt.Sprintf("%s, %d mini-batches", numeral.Plural(d.Epochs, "epoch"), d.Steps)
	if d.Made < d.Steps {
		made = fmt.Sprintf("%d of %d mini-batches, %s", d.Made, d.Steps, numeral.Plural(d.Epochs, "epoch"))
	}
	value := "not finite"
	if d.Value != nil {
		value = numeral.Significant(*d.Value)
	}
	line := fmt.Sprintf("Descent: %s of %s each, by %s, step size %v (%s)", made, numeral.Plural(d.Batch, "row"),
		d.Optimiser,
		d.StepSize, d.Schedule)
	if d.Ridge != nil { // L4
		line += fmt.Sprintf(", mu %v, lambda %v, ridge %v, radius of the gate %v", d.Mu, d.Lambda, *d.Ridge, d.Radius)
	}
	return fmt.Sprintf("%s; over all rows %s is %s.", line, loss, value)
}

// Experts is the table of proportions, noise and regressors: a column for
// every expert.
func Experts(m *fitted.Model, most int) [][]string {
	s := shownErrors(m)
	table := [][]string{beside("Experts", numbers(m.K), blanks(m.K, s))}
	table = append(table, beside("proportion", each(m.Proportions, numeral.Significant), blanks(m.K, s)))
	if m.Leaves != nil {
		names := make([]string, m.K)
		for i := range names {
			names[i] = activationOf(m, i)
		}
		table = append(table, beside("activation", names, blanks(m.K, s)))
	}
	for _, own := range noises(m, s) {
		if len(own.values) > 1 {
			table = append(table, beside(own.name, each(own.values, numeral.Significant),
				noiseErrors(m.K, own.errors, s)))
		}
	}
	table = append(table, coefficients(m, m.Regressors, KnownErrors(m).Regressors, s.Regressors, most)...)
	if m.RegressorIntercepts != nil {
		table = append(table, withErrors("intercept", m.RegressorIntercepts, s.RegressorIntercepts))
	}
	if o := m.OutputScale; o != nil && len(o.Offset) == m.K && m.K > 1 {
		var se fitted.OutputScale
		if s.OutputScale != nil {
			se = *s.OutputScale
		}
		table = append(table, withErrors("offset", o.Offset, se.Offset))
		if se.Scale == nil {
			table = append(table, beside("scale", each(o.Scale, numeral.Fixed), blanks(m.K, s)))
		} else {
			table = append(table, withErrors("scale", o.Scale, se.Scale))
		}
	}
	return table
}

// Output says what all experts make of g, where their means are c + s·g; those that have
// each their own have them in the table.
func Output(m *fitted.Model) string {
	o := m.OutputScale
	if o == nil || len(o.Offset) == m.K && m.K > 1 {
		return ""
	}
	offset, scale := numeral.Fixed(o.Offset[0]), numeral.Fixed(o.Scale[0])
	if se := shownErrors(m).OutputScale; se != nil {
		offset = numeral.Estimate(o.Offset[0], se.Offset[0])
		if se.Scale != nil {
			scale = numeral.Estimate(o.Scale[0], se.Scale[0])
		}
	}
	return fmt.Sprintf("Output: the experts' means are c + s*%s with c = %s and s = %s.", m.Activation.Name, offset,
		scale)
}

// Gates is the table of the gate: a column for every expert but the last,
// whose gate is 0, and for every one beside a zero expert; under a tree, for every branch but the last of its gate.
func Gates(m *fitted.Model, most int) [][]string {
	s := shownErrors(m)
	table := [][]string{beside(gateTitle(m), branchLabels(m), blanks(len(m.Gating), s))}
	table = append(table, coefficients(m, m.Gating, KnownErrors(m).Gating, s.Gating, most)...)
	if m.GatingIntercepts != nil {
		table = append(table, withErrors("intercept", m.GatingIntercepts, s.GatingIntercepts))
	}
	return table
}

// coefficients are the rows of a table that show the transpose of a matrix of D
// columns, and of that of its standard errors where there are any and room for them,
// of at most so many features.
func coefficients(m *fitted.Model, matrix, errors, shownErrors [][]float64, most int) [][]string {
	var table [][]string
	features, more := ShownFeatures(m, matrix, errors, most)
	for _, j := range features {
		table = append(table, withErrors(shown.Name(m.Features[j]), column(matrix, j), column(shownErrors, j)))
	}
	if more > 0 {
		by := "|t|"
		if errors == nil {
			by = "size"
		}
		table = append(table, []string{fmt.Sprintf("… %s more in the model file, of smaller %s",
			numeral.Plural(more, "feature"), by)})
	}
	return table
}

// ShownFeatures are the features that a table shows, at most so many, and the number
// of those that it does not. Where it does not show all, it shows those of the largest
// |t|, a coefficient over its standard error, the largest first; without standard
// errors those of the largest coefficients. A coefficient that has none beside others
// that do, as in a gate that separates, counts as 0.
func ShownFeatures(m *fitted.Model, matrix, errors [][]float64, most int) (features []int, more int) {
	features = SeenFeatures(m, matrix)
	if len(features) <= most {
		return features, 0
	}
	size := make([]float64, m.D)
	for i, row := range matrix {
		for j, v := range row {
			t := math.Abs(v)
			if errors != nil {
				if t /= errors[i][j]; math.IsNaN(t) || math.IsInf(t, 0) {
					t = 0
				}
			}
			size[j] = max(size[j], t)
		}
	}
	slices.SortStableFunc(features, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return features[:most], len(features) - most
}

// SeenFeatures are those of which a matrix has coefficients: in a model with a formula
// the terms of the other side of the bar are 0.
func SeenFeatures(m *fitted.Model, matrix [][]float64) (seen []int) {
	for j := range m.D {
		if m.Design == nil || used(matrix, j) {
			seen = append(seen, j)
		}
	}
	return seen
}

// used says whether a row of a matrix has anything but 0 in column j.
func used(matrix [][]float64, j int) bool {
	return slices.ContainsFunc(matrix, func(row []float64) bool { return row[j] != 0 })
}

// Starts shows where every start ended. They are screened on part of the rows, which is
// why their log-likelihoods on all rows are a little below the fit's.
func Starts(m *fitted.Model) [][]string {
	table := [][]string{{"Starts", "on rows", "log-likelihood of all", "converged", "agrees with best"}}
	for _, s := range m.Fit.Starts {
		table = append(table, []string{
			s.Kind, strconv.Itoa(s.Rows), likelihood(s), yesNo(s.Converged), yesNo(s.Agrees),
		})
	}
	if len(m.Fit.Starts) == 0 || m.Fit.Starts[0].Loss == nil {
		return table
	}
	table[0] = slices.Insert(table[0], 2, m.Fit.Method)
	for i, s := range m.Fit.Starts {
		loss := "not finite"
		if s.Loss != nil {
			loss = strconv.FormatFloat(*s.Loss, 'g', 6, 64)
		}
		table[i+1] = slices.Insert(table[i+1], 2, loss)
	}
	return table
}

// survey says what many short starts have seen.
func survey(s *fitted.Survey) string {
	optima := "one optimum"
	if s.Optima != 1 {
		optima = fmt.Sprintf("%d optima", s.Optima)
	}
	unseen := "none of them only once"
	if s.Unseen > 0 {
		unseen = fmt.Sprintf("another start would see a new one with a probability of about %.2g", s.Unseen)
	}
	return fmt.Sprintf("Survey of all rows: %s of %s and %s saw %s, the best %s; %s.",
		numeral.Plural(s.Starts, "start"), numeral.Plural(len(s.Kinds), "kind"), numeral.Plural(s.Moves, "move"),
		optima, numeral.Plural(s.Met, "time"),
		unseen)
}

// likelihood is that of a start, or why it has none.
func likelihood(s fitted.Start) string {
	if math.IsNaN(s.LogLikelihood) {
		return s.Status
	}
	return numeral.Hundredths(s.LogLikelihood)
}

// Selection compares the numbers of experts that were fitted; less is better in
// all columns but the first and the likelihood.
func Selection(m *fitted.Model) [][]string {
	names, by := slices.Clone(criteria), choiceOf(m)
	if by.column != "" {
		names = slices.Insert(names, len(names)-2, by.column)
	}
	table := [][]string{append([]string{"Experts"}, names...)}
	for _, c := range m.Fit.Selection {
		remarks := ""
		if c.K == m.K {
			remarks = "chosen"
		}
		if c.K == m.Fit.EigengapK {
			remarks = strings.TrimLeft(remarks+", eigenvalues of T2", ", ")
		}
		if c.Begun != nil {
			remarks = strings.TrimLeft(remarks+", "+c.Begun.String(), ", ")
		}
		row := compared(c, remarks)
		if by.column != "" {
			row = slices.Insert(row, len(row)-2, known(by.of(c)))
		}
		table = append(table, append([]string{strconv.Itoa(c.K)}, row...))
	}
	return table
}

// descriptions compares those of which rows that were left out chose one, and says why some were not fitted.
func descriptions(m *fitted.Model) (table [][]string, reasons []string) {
	all := m.Fit.Descriptions
	keys := slices.Sorted(maps.Keys(all[0].Settings))
	head := []string{"Experts"}
	for _, key := range keys {
		head = append(head, settingName(key))
	}
	table = [][]string{append(head, "parameters", "held out", "below the best", "±", "")}
	for _, d := range all {
		row := []string{"–"}
		if d.K > 0 {
			row[0] = strconv.Itoa(d.K)
		}
		for _, key := range keys {
			row = append(row, shown.Line(d.Settings[key]))
		}
		numbers, remark := []string{"–", "–", "–", "–"}, ""
		if d.Parameters > 0 {
			numbers[0] = strconv.Itoa(d.Parameters)
		}
		if d.HeldOut != nil && d.Below != nil && d.StandardError != nil {
			numbers[1], numbers[2] = numeral.Hundredths(*d.HeldOut), numeral.Hundredths(*d.Below)
			numbers[3] = numeral.Hundredths(*d.StandardError)
		}
		switch {
		case d.Chosen:
			remark = "chosen"
		case d.Reason != "":
			at := slices.Index(reasons, d.Reason)
			if at < 0 {
				at, reasons = len(reasons), append(reasons, d.Reason)
			}
			remark = "not fitted"
			if d.Parameters > 0 {
				remark = "left"
			}
			remark += fmt.Sprintf(" (%d)", at+1)
		}
		if d.HeldOut != nil && d.Converged == 0 {
			remark = strings.TrimPrefix(remark+", no fit has converged", ", ")
		}
		table = append(table, append(append(row, numbers...), remark))
	}
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("(%d) %s", i+1, shown.Line(reason))
	}
	return table, reasons
}

// ComparedDescriptions is the table of the descriptions that were compared by rows that were left out, with which was
// chosen, and why some were not fitted, in sentences.
func ComparedDescriptions(m *fitted.Model) (table [][]string, says []string) {
	table, reasons := descriptions(m)
	return table, append([]string{ofDescriptions(m.Fit.Descriptions)}, reasons...)
}

// Plausible says which numbers of experts the data leave; "" of fits of one.
func Plausible(m *fitted.Model) string {
	var parts []string
	if b := m.Fit.AtLeast; b != nil {
		parts = append(parts, fmt.Sprintf("at least %s, with %.0f%% confidence", numeral.Plural(b.K, "expert"),
			100*b.Level))
	}
	if ks := m.Fit.KSet; len(ks) == 1 {
		parts = append(parts, fmt.Sprintf("the data leave k = %d alone", ks[0]))
	} else if len(ks) > 1 {
		words := make([]string, len(ks))
		for i, k := range ks {
			words[i] = strconv.Itoa(k)
		}
		last := len(words) - 1
		parts = append(parts, fmt.Sprintf("the data leave k = %s and %s", strings.Join(words[:last], ", "),
			words[last]))
	}
	if len(parts) == 0 {
		return ""
	}
	return "How many: " + strings.Join(parts, "; ") + "."
}

// Growth is the way of a tree that was grown: every tree that was fitted, in turn, with the
// move that led there.
func Growth(m *fitted.Model) [][]string {
	table := [][]string{append([]string{"Tree grown", "by"}, criteria...)}
	for _, c := range m.Fit.Selection {
		by, remark := "", ""
		if c.Move != "" {
			by = c.Move + " of " + c.From
		}
		switch {
		case IsChosen(m, c):
			remark = "chosen"
		case c.Kept:
			remark = "kept"
		}
		table = append(table, append([]string{c.Hierarchy, by}, compared(c, remark)...))
	}
	return table
}

// criteria head the columns of [compared].
var criteria = []string{"log-likelihood", "AIC", "BIC", "ICL", "converged", ""}

// compared is what is told of a candidate beside the others, and a remark.
func compared(c fitted.Candidate, remark string) []string {
	return []string{numeral.Hundredths(c.LogLikelihood), numeral.Hundredths(c.AIC), numeral.Hundredths(c.BIC),
		numeral.Hundredths(c.ICL),
		yesNo(c.Converged), remark}
}

// IsGrown says whether the model is a tree that was grown.
func IsGrown(m *fitted.Model) bool {
	return len(m.Fit.Selection) > 0 && m.Fit.Selection[0].Hierarchy != ""
}

// IsChosen says whether the model, which was grown, is that candidate.
func IsChosen(m *fitted.Model, c fitted.Candidate) bool {
	return c.Hierarchy == m.Params().Hierarchy().String()
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// Table writes a table below an empty line, the first row its head.
func Table(w io.Writer, table [][]string) error {
	out := bufio.NewWriter(w)
	writeTable(out, table)
	return out.Flush()
}

// writeTable writes a table below an empty line, the first column to the left
// and all others to the right.
func writeTable(w io.Writer, table [][]string) {
	var width []int
	for _, row := range table {
		for j, cell := range row {
			if j == len(width) {
				width = append(width, 0)
			}
			if len(row) > 1 { // a remark in the first column does not widen it
				width[j] = max(width[j], utf8.RuneCountInString(cell))
			}
		}
	}
	fmt.Fprintln(w)
	for _, row := range table {
		var line strings.Builder
		for j, cell := range row {
			pad := strings.Repeat(" ", max(0, width[j]-utf8.RuneCountInString(cell)))
			if j == 0 {
				line.WriteString(cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}

func each(values []float64, format func(float64) string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = format(v)
	}
	return out
}
