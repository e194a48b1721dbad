// Package page writes a fit, or a curve that was learned, as one HTML file that needs nothing else, with SVG pictures.
package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

//go:embed page.html
var pageText string

var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Parse(
		pageText))
})

// Setting is a line of a page's table of settings.
type Setting struct {
	Name, Value string
	Default     bool
}

// section is a part of a page: pictures or tables with a sentence on how to
// read them.
type section struct {
	Title, Reading string
	Under          bool     // it belongs to the section before it
	Doubts         bool     // it begins what to doubt
	Items          []string // a list below the reading
	Stack          bool     // pictures below each other, large
	Wide           bool     // two pictures beside each other at most
	Pictures       []template.HTML
	Tables         []table
}

type table struct {
	Caption string
	Fold    string // what is folded away; "" for nothing
	Head    []string
	Rows    [][]string
}

// Fitted is a fit as a page shows it.
type Fitted struct {
	*fitted.Model
	*diagnosis.Diagnosis
}

// Fits writes the report of a fit, or of those of several targets one below the other, as
// one HTML file that needs nothing else: no network, no scripts.
func Fits(w io.Writer, settings []Setting, fits ...Fitted) error {
	var shownFits []map[string]any
	for _, f := range fits {
		m := f.Model
		title := fmt.Sprintf("%s, %s", report.HowMany(m), report.FittedRows(m))
		if len(fits) > 1 {
			title = shown.Name(m.Target) + ": " + title
		}
		shownFits = append(shownFits, map[string]any{
			"Title":    title,
			"Doubt":    len(shownFits),
			"Sentence": sentence(m, f.Diagnosis),
			"Good":     m.Fit.Converged,
			"Badges":   badges(m.Fit.Certificate),
			"Notes":    m.Fit.Notes,
			"Legend":   append(legend(f.Diagnosis.Shares), zeroLegend(m, f.Diagnosis.Shares)...),
			"Sections": sections(m, f.Diagnosis),
		})
	}
	title := shownFits[0]["Title"]
	if len(fits) > 1 {
		title = fmt.Sprintf("%d targets", len(fits))
	}
	return pageTemplate().Execute(shown.Writer(w), map[string]any{"Settings": settings, "Fits": shownFits,
		"Last": len(shownFits) - 1, "Title": title})
}

// legend names the experts' colours, with their shares of the rows.
func legend(shares []float64) (out []map[string]string) {
	for i, share := range shares {
		out = append(out, map[string]string{
			"Class": colour(i),
			"Text":  fmt.Sprintf("expert %d, %s of the rows", i+1, numeral.Percent(share)),
		})
	}
	return out
}

// zeroLegend has the share of the expert that is always 0, what the others leave; nothing where there is none.
func zeroLegend(m *fitted.Model, shares []float64) []map[string]string {
	if !m.ZeroExpert {
		return nil
	}
	return []map[string]string{{"Class": "plain",
		"Text": fmt.Sprintf("zero expert, %s of the rows", numeral.Percent(max(0, 1-floats.Sum(shares))))}}
}

// sections are the parts of a page in the order in which someone reads it who decides: the picture, who is in each
// expert, the coefficients, and what to doubt.
func sections(m *fitted.Model, d *diagnosis.Diagnosis) []section {
	out := []section{dataSection(m, d)}
	if tree, ok := treeSection(m); ok {
		out = append(out, tree)
	}
	out = append(out, memberSection(m, d, d.Target))
	if len(d.Profiles) > 0 && d.Curves == nil { // of one feature the picture has them
		out = append(out, profileSection(m, d))
	}
	out = append(out, coefficientSection(m, d))
	if s, ok := penaltySection(m); ok {
		out = append(out, s)
	}
	if m.HAC != nil {
		s := section{Title: "Dependence of rows", Reading: report.Dependence(m)}
		for _, t := range report.DependentErrors(m, report.MaxFeatures) {
			s.Tables = append(s.Tables, asTable(t))
		}
		out = append(out, s)
	}
	return append(out, doubts(m, d)...)
}

// doubts are what to doubt: the verdicts and warnings, then the pictures and tables behind them.
func doubts(m *fitted.Model, d *diagnosis.Diagnosis) []section {
	out := []section{doubtSection(m, report.Answer(m)), residualSection(m, d), calibrationSection(m, d)}
	if d.Index != nil {
		out = append(out, indexSection(m, d), featureSection(m, d))
	}
	out = append(out, sharpnessSection(d))
	out = append(out, certificateSections(m.Fit.Certificate, mixtureTests)...)
	out = append(out, startSection(m))
	if len(m.Fit.Descriptions) > 0 {
		out = append(out, descriptionSection(m))
	}
	switch {
	case report.IsGrown(m):
		out = append(out, growthSection(m))
	case len(m.Fit.Selection) > 1:
		out = append(out, selectionSection(m))
	}
	if d.Joins != nil {
		out = append(out, joinSection(m, d.Joins))
	}
	return under(out)
}

// under has all sections but the first belong to that.
func under(all []section) []section {
	for i := range all {
		all[i].Under = i > 0
	}
	return all
}

// doubtSection says what speaks for and against the fit, whose answer this is.
func doubtSection(m *fitted.Model, answer string) section {
	lines, other := report.Doubts(m)
	s := section{Title: "What to doubt", Reading: answer, Doubts: true, Items: lines}
	if other != nil {
		s.Tables = append(s.Tables, asTable(other))
	}
	return s
}

// mixtureTests says what the tests of a mixture mean.
const mixtureTests = "Each test adds up terms whose mean is 0 if the model is right; p is the probability of a sum " +
	"as far from 0. A fit that merged experts fails them; a better optimum that does not part merged experts can go " +
	"unseen."

func residualSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	of := ""
	if m.TargetScale != "" {
		of = " of " + shown.Name(m.ScaledTarget())
	}
	s := section{
		Title: "Residuals",
		Reading: "Each expert's standardised residuals" + of +
			", weighted by the posterior, against the standard normal density that the model " +
			"claims. Two humps are two experts in one; heavy tails are noise that is not Gaussian.",
		Pictures: residualCharts(m, d),
	}
	if m.Family != "" { // as [predict.Standardised] has them
		s.Reading = "Each expert's quantile residuals, weighted by the posterior, against the standard normal " +
			"density: a row's is the normal number with as much below it as its target has under the expert's law, " +
			"a count in the middle of its step. Two humps are two experts in one; heavy tails are targets that lie " +
			"further out than the law has them."
	}
	return s
}

// residualWords are what residuals are called and their unit.
func residualWords(m *fitted.Model) (name, unit string) {
	if m.Family != "" {
		return "quantile residual", ""
	}
	return "residual", ", in σ"
}

func sharpnessSection(d *diagnosis.Diagnosis) section {
	return section{
		Title: "How sure the assignment is",
		Reading: "Rows by the posterior of their most probable expert. Far to the right the experts are told apart; " +
			"near 1/k they overlap, " +
			"and standard errors are larger than the number of rows suggests.",
		Pictures: []template.HTML{sharpnessChart(d)},
	}
}

// selectionSection shows the criteria by k.
func selectionSection(m *fitted.Model) section {
	s := section{
		Title:   "How many experts",
		Reading: "The criteria by k: the lower the better. " + report.ChosenBy(m) + " chose the fit of this page.",
		Tables:  []table{asTable(report.Selection(m))},
	}
	if m.Fit.EigengapK > 0 {
		s.Reading += fmt.Sprintf(" The largest gap between the eigenvalues of T2 suggests k = %d.", m.Fit.EigengapK)
	}
	s.Reading = strings.TrimSpace(s.Reading + " " + report.Plausible(m))
	var k, bic, icl []float64
	for _, c := range m.Fit.Selection {
		k, bic, icl = append(k, float64(c.K)), append(bic, c.BIC), append(icl, c.ICL)
	}
	lo, hi := numeric.Extent(bic, icl)
	c := newChart("criteria by k", k[0]-0.3, k[len(k)-1]+0.3, lo-0.05*(hi-lo), hi+0.05*(hi-lo))
	c.height = 220
	c.xLabel, c.yLabel = "k", "BIC (line), ICL (dashed)"
	c.line(k, bic, "ink")
	c.line(k, icl, "ink dashed")
	for i := range k {
		class := "ink"
		if int(k[i]) == m.K {
			class = "good"
		}
		c.dot(k[i], bic[i], 4.5, 1, class)
	}
	s.Pictures = []template.HTML{c.svg()}
	return s
}

// descriptionSection shows the descriptions that were compared by rows that were left out.
func descriptionSection(m *fitted.Model) section {
	rows, says := report.ComparedDescriptions(m)
	return section{
		Title: "Which description",
		Reading: strings.Join(append([]string{"Log-likelihood of all rows, each by a fit without its part: higher is " +
			"better. Of those within a standard error (±) of the highest the one of the fewest parameters is chosen."},
			says...), " "),
		Tables: []table{asTable(rows)},
	}
}

// growthSection shows the trees that were fitted while the model's grew.
func growthSection(m *fitted.Model) section {
	var leaves, bic, kept, keptBIC []float64
	for _, c := range m.Fit.Selection {
		leaves, bic = append(leaves, float64(c.K)), append(bic, c.BIC)
		if c.Kept {
			kept, keptBIC = append(kept, float64(c.K)), append(keptBIC, c.BIC)
		}
	}
	lo, hi := numeric.Extent(bic)
	c := newChart("BIC by leaves", slices.Min(leaves)-0.3, slices.Max(leaves)+0.3, lo-0.05*(hi-lo), hi+0.05*(hi-lo))
	c.height = 220
	c.xLabel, c.yLabel = "leaves", "BIC (line: trees kept)"
	c.line(kept, keptBIC, "ink")
	for i, candidate := range m.Fit.Selection {
		class := "ink"
		if report.IsChosen(m, candidate) {
			class = "good"
		}
		c.dot(leaves[i], bic[i], 4.5, 1, class)
	}
	return section{
		Title: "How the tree was grown",
		Reading: "From one expert a leaf became a gate of two as long as that lowered BIC, then a branch a leaf " +
			"again, then two gates one. " +
			"Trees are in the order in which they were fitted; the lower the criteria the better.",
		Tables:   []table{asTable(report.Growth(m))},
		Pictures: []template.HTML{c.svg()},
	}
}

// traceChart draws the path of every start: the mean log-likelihood of its rows
// after each iteration.
func traceChart(m *fitted.Model) template.HTML {
	var all, ends []float64
	longest := 0
	for _, st := range m.Fit.Starts {
		if len(st.Path) == 0 {
			continue
		}
		all = append(all, st.Path...)
		ends = append(ends, st.Path[len(st.Path)-1])
		longest = max(longest, len(st.Path))
	}
	if longest < 2 {
		return ""
	}
	_, hi := numeric.Extent(all)
	lo, _ := numeric.Extent(ends)
	// The first iterations climb from far below: show what lies above twice the
	// spread of the ends, or the last few units.
	lo -= max(hi-lo, 2)
	c := newChart("paths of the starts", 0, float64(longest-1), lo, hi+0.05*(hi-lo))
	c.height = 240
	c.xLabel, c.yLabel = "iteration", "mean log-likelihood of its rows"
	for _, st := range m.Fit.Starts {
		x := make([]float64, len(st.Path))
		for i := range x {
			x[i] = float64(i)
		}
		class := "thin"
		if st.Agrees {
			class = "thin agrees"
		}
		c.clipped(x, st.Path, class)
	}
	return c.svg()
}

// dataSection shows the rows with the experts: curves over the scatter where
// there is one column of numbers, observed against predicted otherwise.
func dataSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	s := section{Title: "Data and experts"}
	if m.TargetScale != "" {
		s.Title += ", on the scale " + shown.Name(m.ScaledTarget())
	}
	colours := "Rows have the colour of their most probable expert, paler where that is less sure."
	if m.K == 1 {
		colours = ""
	}
	switch {
	case d.Panels != nil:
		s.Reading = strings.TrimSpace("The experts over the rows, dashed where hardly a row is their own. "+colours) +
			atOffset(d)
		s.Pictures, s.Stack = panelCharts(d), len(d.Panels) == 1
	case d.Curves == nil:
		s.Reading = "Each row's target against its prediction, the mean over the experts. " + colours
		if m.K > 1 {
			s.Reading += " The mean of a mixture is no expert's curve: rows need not lie on the diagonal."
		}
		s.Pictures, s.Stack = []template.HTML{predictedChart(d)}, true
	default:
		s.Reading = strings.TrimSpace("The experts over the rows. "+colours) + atOffset(d)
		s.Pictures, s.Stack = []template.HTML{scatterChart(m, d)}, true
		if m.Classes() > 1 {
			s.Reading += " Below, the gate: the probability of each expert."
			s.Pictures = append(s.Pictures, gateChart(m, d))
		}
	}
	if len(d.Points) < d.Rows {
		s.Reading += fmt.Sprintf(" The picture has %d of the %d rows, evenly.", len(d.Points), d.Rows)
	}
	return s
}

func scatterChart(m *fitted.Model, d *diagnosis.Diagnosis) template.HTML {
	y := make([]float64, len(d.Points))
	for i, p := range d.Points {
		y[i] = p.Y
	}
	lo, hi := numeric.Extent(y)
	pad := 0.05 * (hi - lo)
	c := newChart("rows and experts", d.Curves.X[0], d.Curves.X[len(d.Curves.X)-1], lo-pad, hi+pad)
	c.xLabel, c.yLabel = shown.Name(m.Features[0]), shown.Name(d.Drawn)
	for _, p := range d.Points {
		c.point(p.X, p)
	}
	for i, mean := range d.Curves.Means {
		c.named(fmt.Sprintf("expert %d", i+1),
			func() { c.parts(d.Curves.X, mean, d.Curves.Gate[i], "stroke "+colour(i)) })
	}
	return c.svg()
}

func gateChart(m *fitted.Model, d *diagnosis.Diagnosis) template.HTML {
	c := newChart("gate", d.Curves.X[0], d.Curves.X[len(d.Curves.X)-1], 0, 1)
	c.height = 170
	c.xLabel, c.yLabel = shown.Name(m.Features[0]), "probability"
	for i, gate := range d.Curves.Gate {
		_, class, _ := gated(m, i)
		c.line(d.Curves.X, gate, class)
	}
	return c.svg()
}

func predictedChart(d *diagnosis.Diagnosis) template.HTML {
	x, y := make([]float64, len(d.Points)), make([]float64, len(d.Points))
	for i, p := range d.Points {
		x[i], y[i] = p.Mean, p.Y
	}
	x0, x1 := numeric.Extent(x)
	y0, y1 := numeric.Extent(y)
	c := newChart("observed against predicted", x0, x1, y0, y1)
	c.xLabel, c.yLabel = "predicted mean", shown.Name(d.Drawn)
	c.segment(max(x0, y0), max(x0, y0), min(x1, y1), min(x1, y1), "ink dashed")
	for i, p := range d.Points {
		c.dot(x[i], y[i], 2.2, 0.15+0.6*p.Posterior*p.Posterior, colour(p.Expert))
	}
	return c.svg()
}

// residualWidth is that of a bin of such shares of residuals.
func residualWidth(shares []float64) float64 {
	return 2 * diagnosis.ResidualRange / float64(len(shares))
}

func residualCharts(m *fitted.Model, d *diagnosis.Diagnosis) (out []template.HTML) {
	highest := densest(d.Residuals...)
	name, unit := residualWords(m)
	for i, shares := range d.Residuals {
		out = append(out, residualChart(fmt.Sprintf("residuals of expert %d", i+1),
			fmt.Sprintf("%s of expert %d%s", name, i+1, unit), shares, highest, colour(i)))
	}
	return out
}

// densest is the height of a chart that holds these shares and the normal density.
func densest(residuals ...[]float64) float64 {
	highest := 0.45
	for _, shares := range residuals {
		_, hi := numeric.Extent(shares)
		highest = max(highest, 1.05*hi/residualWidth(shares))
	}
	return highest
}

// residualChart draws the shares of residuals by bins beside the normal density.
func residualChart(title, label string, shares []float64, highest float64, class string) template.HTML {
	var x, normal []float64
	for t := -diagnosis.ResidualRange; t <= diagnosis.ResidualRange; t += 0.1 {
		x, normal = append(x, t), append(normal, math.Exp(-t*t/2)/math.Sqrt(2*math.Pi))
	}
	c := newChart(title, -diagnosis.ResidualRange, diagnosis.ResidualRange, 0, highest)
	c.height = 260
	c.xLabel, c.yLabel = label, "density"
	width := residualWidth(shares)
	for b, s := range shares {
		c.bar(-diagnosis.ResidualRange+float64(b)*width, -diagnosis.ResidualRange+float64(b+1)*width, s/width, class)
	}
	c.line(x, normal, "ink")
	return c.svg()
}

func sharpnessChart(d *diagnosis.Diagnosis) template.HTML {
	_, hi := numeric.Extent(d.Sharpness)
	bins := float64(len(d.Sharpness))
	c := newChart("posterior of the most probable expert", 0, 1, 0, 1.05*hi)
	c.height = 200
	c.xLabel, c.yLabel = "posterior of the most probable expert", "share of rows"
	for b, s := range d.Sharpness {
		c.bar(float64(b)/bins, float64(b+1)/bins, s, "plain")
	}
	return c.svg()
}

// startSection shows where every start ended.
func startSection(m *fitted.Model) section {
	s := section{
		Title: "Starts",
		Reading: "Every start's log-likelihood on all rows. Starts are screened on part of the rows, so even those " +
			"that agree with the best lie a little " +
			"below it; those far below are other optima.",
		Tables: []table{asTable(report.Starts(m))},
	}
	below := make([]float64, len(m.Fit.Starts))
	for i, st := range m.Fit.Starts {
		if !math.IsNaN(st.LogLikelihood) { // a start that led nowhere stands at 0, unmarked
			below[i] = st.LogLikelihood - m.Fit.LogLikelihood
		}
	}
	lo, hi := numeric.Extent(below)
	lo = min(lo, -1) // differences below 1 tell nothing
	c := newChart("log-likelihood of every start", 0.5, float64(len(below))+0.5, lo-0.08*(hi-lo), hi+0.08*(hi-lo))
	c.height = 220
	c.xLabel, c.yLabel = "start, best first", "log-likelihood − the fit's"
	for i, st := range m.Fit.Starts {
		class := "ink"
		if st.Agrees {
			class = "good"
		}
		if !math.IsNaN(st.LogLikelihood) {
			c.dot(float64(i+1), below[i], 4.5, 1, class)
		}
	}
	s.Pictures = []template.HTML{c.svg()}
	if trace := traceChart(m); trace != "" {
		s.Reading += " The paths are those of the screening; green ones reached the best optimum."
		s.Pictures = append(s.Pictures, trace)
	}
	return s
}

// coefficientReading says what the coefficients are of.
func coefficientReading(m *fitted.Model) string {
	per := "Per standard deviation of a feature, so that they compare: what one more of it adds to an expert's "
	if m.Leaves == nil && m.Activation.Name == "identity" {
		per += "mean"
	} else {
		per += "predictor"
	}
	if m.Classes() == 1 {
		return per + ". Intercepts are apart, where all features are 0."
	}
	per += ", and to the log of the gate's odds "
	if m.Hierarchy != "" {
		return per + "for a branch against the last of its gate. Intercepts are apart, where all features are 0."
	}
	if m.ZeroExpert {
		return per + "for an expert against the zero expert. Intercepts are apart, where all features are 0."
	}
	return per + "for an expert against the last. Intercepts are apart, where all features are 0."
}

func coefficientSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	each := perSD(m, d.SD)
	s := section{
		Title:   "Coefficients",
		Reading: strings.TrimSpace(coefficientReading(m) + " " + report.Output(m) + report.Zero(m)),
		Tables:  []table{asTable(report.Experts(each, report.MaxFeatures))},
	}
	if m.Classes() > 1 {
		s.Tables = append(s.Tables, asTable(report.Gates(each, report.MaxFeatures)))
	}
	for _, rows := range report.Intercepts(m) {
		s.Tables = append(s.Tables, asTable(rows))
	}
	own := []table{asTable(report.Experts(m, report.MaxFeatures))}
	if m.Classes() > 1 {
		own = append(own, asTable(report.Gates(m, report.MaxFeatures)))
	}
	for i := range own {
		own[i].Fold = own[i].Head[0] + ", in the features' own units"
	}
	s.Tables = append(s.Tables, own...)
	if se := m.StandardErrors; se != nil {
		s.Reading += " The bars are 95 % intervals (" + se.Kind + " information); one that misses 0 is drawn full." +
			report.SharedNoise(m, se)
	}
	if len(m.Fit.Separation) > 0 {
		s.Items = []string{report.Separated(m)}
	}
	var more int
	s.Wide = true
	s.Pictures, more = coefficientCharts(each)
	if more > 0 {
		s.Reading += fmt.Sprintf(" The pictures have the %d features of the largest.", drawnFeatures)
	}
	return s
}

// perSD is a model with its coefficients per standard deviation of their features, and without intercepts.
func perSD(m *fitted.Model, sd []float64) *fitted.Model {
	scaled := func(rows [][]float64) (out [][]float64) {
		for _, row := range rows {
			of := make([]float64, len(row))
			for j, v := range row {
				of[j] = v * sd[j]
			}
			out = append(out, of)
		}
		return out
	}
	out := *m
	out.Features = make([]string, len(m.Features))
	for j, name := range m.Features {
		out.Features[j] = fmt.Sprintf("%s (SD %s)", shown.Name(name), numeral.TwoDigits(sd[j]))
	}
	out.Regressors, out.Gating, out.RegressorIntercepts, out.GatingIntercepts = scaled(m.Regressors), scaled(m.Gating),
		nil, nil
	if se := m.StandardErrors; se != nil {
		errors := *se
		errors.Regressors, errors.Gating = scaled(se.Regressors), scaled(se.Gating)
		out.StandardErrors = &errors
	}
	return &out
}

// drawnFeatures is how many features a picture of coefficients has.
const drawnFeatures = 24

// coefficientCharts draw the coefficients of experts and gate, the largest first, and say how many features they leave
// out.
func coefficientCharts(m *fitted.Model) (out []template.HTML, more int) {
	var chart template.HTML
	if chart, more = regressorChart(m); chart != "" {
		out = append(out, chart)
	}
	if m.Classes() > 1 {
		chart, left := gatingChart(m)
		if chart != "" {
			out = append(out, chart)
		}
		more = max(more, left)
	}
	return out, more
}

func regressorChart(m *fitted.Model) (chart template.HTML, more int) {
	return coefficientChart(m, "of the experts, per standard deviation", m.Regressors, report.KnownErrors(m).Regressors)
}

func gatingChart(m *fitted.Model) (chart template.HTML, more int) {
	return coefficientChart(m, "of the gate, per standard deviation", m.Gating, report.KnownErrors(m).Gating)
}

// coefficientChart draws coefficients with their 95 % intervals where there are any, a row for each feature, the
// largest first, and says how many features it leaves out; "" where there is nothing to draw.
func coefficientChart(m *fitted.Model, what string, value, se [][]float64) (chart template.HTML, more int) {
	const z95 = 1.959963984540054 // the 97.5 % point of the normal distribution
	size := make([]float64, m.D)
	for _, row := range value {
		for j, v := range row {
			size[j] = max(size[j], math.Abs(v))
		}
	}
	features := report.SeenFeatures(m, value)
	slices.SortStableFunc(features, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	more = max(0, len(features)-drawnFeatures)
	features = features[:len(features)-more]
	if len(features) == 0 {
		return "", 0
	}
	names := make([]string, len(features))
	for row, j := range features {
		names[row] = m.Features[j]
	}
	return dotChart("coefficients "+what, names, len(value), func(i, row int) (v, half float64) {
		j := features[row]
		if se != nil && !math.IsNaN(se[i][j]) {
			half = z95 * se[i][j]
		}
		return value[i][j], half
	}), more
}

// dotChart draws k values with their intervals, where these have a length, beside each
// of the named rows.
func dotChart(what string, names []string, k int, at func(i, row int) (v, half float64)) template.HTML {
	lo, hi := 0.0, 0.0
	for i := range k {
		for row := range names {
			v, e := at(i, row)
			lo, hi = min(lo, v-e), max(hi, v+e)
		}
	}
	pad := 0.04 * (hi - lo)
	c := rowChart(what, what, names, lo-pad, hi+pad)
	c.height = max(c.height, c.top+bottom+float64(len(names)*(8*k+8))) // room for all experts
	c.segment(0, c.y0, 0, c.y1, "ink dashed")
	for i := range k {
		c.named(fmt.Sprintf("%d", i+1), func() {
			for row := range names {
				v, e := at(i, row)
				y := offsetOf(row, i, k)
				opacity := 0.35
				if math.Abs(v) > e {
					opacity = 1
				}
				if e > 0 {
					c.segment(v-e, y, v+e, y, "stroke "+colour(i))
				}
				c.dot(v, y, 3.4, opacity, colour(i))
			}
		})
	}
	return c.svg()
}

func asTable(rows [][]string) table { return table{Head: rows[0], Rows: rows[1:]} }

// panelCharts draw the panels to one scale.
func panelCharts(d *diagnosis.Diagnosis) (out []template.HTML) {
	y := make([]float64, len(d.Points))
	for i, p := range d.Points {
		y[i] = p.Y
	}
	lo, hi := numeric.Extent(y)
	pad := 0.05 * (hi - lo)
	for _, p := range d.Panels {
		title := "rows and experts"
		c := newChart(title, p.At[0], p.At[len(p.At)-1], lo-pad, hi+pad)
		c.xLabel, c.yLabel = shown.Name(p.Name), shown.Name(d.Drawn)
		if p.Level != "" {
			c.title += " of " + shown.Name(p.Level)
			c.yLabel += ", " + shown.Name(p.Level)
		}
		for at, i := range p.Rows {
			c.point(p.X[at], d.Points[i])
		}
		for i, means := range p.Means {
			c.named(fmt.Sprintf("expert %d", i+1), func() { c.parts(p.At, means, p.Gate[i], "stroke "+colour(i)) })
		}
		out = append(out, c.svg())
	}
	return out
}
