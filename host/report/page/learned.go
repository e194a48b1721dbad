package page

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

// mostNamed is how many named functions are drawn beside a curve.
const mostNamed = 3

// Learned writes the report of a curve that was learned as one HTML file that needs nothing else, as [Fits] does of
// a mixture.
func Learned(w io.Writer, l *learn.Learned, features []string, target string, settings []Setting) error {
	title := fmt.Sprintf("A curve of %d knots for %s, %s", l.Knots, numeral.Plural(l.Params.K, "expert"),
		numeral.Plural(l.N, "row"))
	legend := append(legend(l.Proportions)[:min(l.Params.K, maxExpertPlots)],
		map[string]string{"Class": "ink", "Text": "the curve and its intervals of 95 %"})
	drawn := worthDrawing(l.Named)
	for i, n := range drawn {
		legend = append(legend, map[string]string{"Class": besideClass(l, i), "Text": n.String()})
	}
	sections := []section{
		curveSection(l, drawn, target), namedSection(l, drawn), learnedWeights(l, features),
		{Title: "What to doubt", Items: learnedDoubts(l), Doubts: true}, learnedStarts(l),
	}
	return pageTemplate().Execute(shown.Writer(w), map[string]any{
		"Title": title, "Settings": settings, "Last": 0,
		"Fits": []map[string]any{{
			"Title":    title,
			"Doubt":    0,
			"Sentence": learnedSentence(l),
			"Legend":   legend,
			"Sections": sections,
		}},
	})
}

// besideClass is the colour of the i-th function that is drawn beside the curve: none of an expert's, while there are
// colours left.
func besideClass(l *learn.Learned, i int) string { return colour(l.Params.K + i) }

// worthDrawing are the functions that the test does not reject, or else the one of the least BIC.
func worthDrawing(all []learn.Named) []learn.Named {
	out := slices.DeleteFunc(slices.Clone(all), func(n learn.Named) bool { return n.Rejected() })
	if len(out) == 0 {
		return all[:min(1, len(all))]
	}
	return out[:min(mostNamed, len(out))]
}

func learnedSentence(l *learn.Learned) string {
	var may []string
	for _, n := range l.Named {
		if !n.Rejected() {
			may = append(may, n.String())
		}
	}
	text := fmt.Sprintf("σ = %s, log-likelihood %s (BIC %s). ", numeral.Significant(l.Params.Sigma[0]),
		numeral.Likelihood(l.LogLikelihood), numeral.Likelihood(l.BIC))
	if len(may) == 0 {
		return text + "The rows reject, at .05, all functions with a name that were tried."
	}
	return text + "Of the functions with a name that were tried the rows do not reject, at .05: " +
		strings.Join(may, "; ") + "."
}

// curveSection shows the curve over its knots, and the rows along it.
func curveSection(l *learn.Learned, drawn []learn.Named, target string) section {
	var z, g, lower, upper []float64
	for _, p := range l.Curve {
		z, g = append(z, p.Z), append(g, p.G)
		if p.Lower != nil {
			lower, upper = append(lower, *p.Lower), append(upper, *p.Upper)
		}
	}
	var others [][]float64
	for _, n := range drawn {
		values := make([]float64, len(z))
		n.Eval(values, z)
		others = append(others, values)
	}
	knots := make([]float64, len(l.Points))
	for i, p := range l.Points {
		knots[i] = p.Z
	}
	lo, hi := numeric.Extent(g, lower, upper)
	pad := .05 * (hi - lo)
	curve := newChart("the curve", z[0], z[len(z)-1], lo-pad, hi+pad)
	curve.xLabel, curve.yLabel = "index ⟨a, x⟩, knots below", "g"
	if lower != nil {
		curve.band(z, lower, upper, "ink")
	}
	for _, at := range l.Middle {
		curve.segment(at, lo-pad, at, hi+pad, "ink dashed")
	}
	curve.line(z, g, "ink")
	for i, values := range others {
		curve.clipped(z, values, "stroke dashed "+besideClass(l, i))
	}
	curve.ticks(knots)
	pictures := []template.HTML{curve.svg()}

	less := func(values []float64) []float64 {
		out := slices.Clone(values)
		floats.Sub(out, g)
		return out
	}
	if lower != nil {
		under, over := less(lower), less(upper)
		lo, hi := numeric.Extent(under, over)
		most := 1.5 * max(-lo, hi)
		differences := newChart("differences from the curve", z[0], z[len(z)-1], -most, most)
		differences.xLabel, differences.yLabel = "index ⟨a, x⟩", "less the curve"
		differences.band(z, under, over, "ink")
		differences.segment(z[0], 0, z[len(z)-1], 0, "ink")
		for i, values := range others {
			differences.clipped(z, less(values), "stroke dashed "+besideClass(l, i))
		}
		differences.ticks(knots)
		pictures = append(pictures, differences.svg())
	}

	var at, y []float64
	for _, r := range l.Rows {
		at, y = append(at, r.Z), append(y, r.Y)
	}
	left, right := numeric.Extent(at)
	down, up := numeric.Extent(y)
	rows := newChart("the rows along the curve", left, right, down, up)
	rows.xLabel, rows.yLabel = "index of the row's most probable expert", shown.Name(target)
	for _, r := range l.Rows {
		rows.dot(r.Z, r.Y, 2.2, .2+.6*r.Posterior*r.Posterior, colour(r.Expert))
	}
	rows.clipped(z, g, "ink")
	return section{
		Title: "The curve",
		Reading: "The curve with its intervals, one at each place; they know nothing of the spline's bias. The " +
			"middle 95 % of indices are between the dashed lines. Dashed curves are functions with a name, beside it " +
			"and less it. Each row stands at the index of its most probable expert.",
		Wide:     true,
		Pictures: append(pictures, rows.svg()),
	}
}

func namedSection(l *learn.Learned, drawn []learn.Named) section {
	rows := [][]string{{"function", "p", "χ² of the score", "of the likelihood ratio", "degrees of freedom",
		"BIC less the curve's"}}
	for _, n := range l.Named {
		p, ratio := "–", "–"
		switch least := n.LeastP(); {
		case least == nil:
		case *least < .001:
			p = "< 0.001"
		default:
			p = fmt.Sprintf("%.3f", *least)
		}
		if n.Ratio != nil {
			ratio = numeral.Significant(n.Ratio.Statistic)
		}
		rows = append(rows, []string{n.String(), p, numeral.Significant(n.Statistic), ratio, fmt.Sprint(n.DF),
			fmt.Sprintf("%+.1f", n.BIC-l.BIC)})
	}
	var items []string
	for _, n := range drawn {
		items = append(items, n.String()+" as an activation: "+n.Activation)
	}
	return section{
		Title: "Functions with a name",
		Reading: "Each was fitted in the place of the curve, with everything else. p is the smaller " +
			"of two tests of whether g deviates from it by a spline: below .05 g is another function. A p above says " +
			"no more than that the rows do not tell them apart. A BIC below 0 prefers the function to the curve.",
		Items:  items,
		Tables: []table{asTable(rows)},
	}
}

func learnedWeights(l *learn.Learned, features []string) section {
	p, se, reading := l.Params, new(model.Params), ""
	if l.StandardErrors != nil {
		se = l.StandardErrors
		reading = "Estimates ± standard errors, which take into account that the curve is estimated too."
	}
	// weights are those of n experts by feature, in columns, with their standard errors where there are any.
	weights := func(what string, n int, values, errors, intercepts, interceptErrors []float64) table {
		cell := func(values, errors []float64, at int) string {
			text := numeral.Significant(values[at])
			if errors != nil {
				text += " " + numeral.PlusMinus(errors[at])
			}
			return text
		}
		rows := make([][]string, len(features)+2)
		rows[0] = []string{what}
		for j, name := range features {
			rows[1+j] = []string{shown.Name(name)}
		}
		rows[1+len(features)] = []string{"intercept"}
		for i := range n {
			rows[0] = append(rows[0], fmt.Sprint(i+1))
			for j := range features {
				rows[1+j] = append(rows[1+j], cell(values, errors, i*p.D+j))
			}
			if intercepts != nil {
				rows[1+len(features)] = append(rows[1+len(features)], cell(intercepts, interceptErrors, i))
			}
		}
		if intercepts == nil {
			rows = rows[:1+len(features)]
		}
		return asTable(rows)
	}
	out := section{
		Title:   "Regressors and gate",
		Reading: reading,
		Tables: []table{weights("regressors of expert", p.K, p.Regressors, se.Regressors, p.RegressorIntercepts,
			se.RegressorIntercepts)},
	}
	if p.K > 1 {
		out.Tables = append(out.Tables, weights("gate of expert", p.K-1, p.Gating, se.Gating, p.GatingIntercepts,
			se.GatingIntercepts))
	}
	return out
}

// learnedDoubts is a list of what the numbers do not say.
func learnedDoubts(l *learn.Learned) []string {
	var out []string
	if l.StandardErrors == nil {
		out = append(out, "No standard errors: "+l.Unjudged+".")
	}
	if b := l.Bias; b != nil {
		with := "; its standard error cannot be given, for the finer spline is no less certain there"
		if b.SE != nil {
			with = fmt.Sprintf(", with a standard error of %.1g", *b.SE)
		}
		out = append(out, fmt.Sprintf("A spline of %d knots differs from this one by up to %.2g at index %.3g%s. The "+
			"bias of this one is about as much there.", b.Knots, math.Abs(b.Difference), b.Z, with))
	}
	if l.Even {
		out = append(out, fmt.Sprintf("g is even about %.3g as far as it is known: the sign of every expert's "+
			"regressor is free.", *l.Center))
	}
	return append(out, "A spline rounds off a kink, and the noise is taken for normal and of one level.",
		"Beyond the outer knots the curve goes on as a line, whatever g does.")
}

func learnedStarts(l *learn.Learned) section {
	rows := [][]string{{"start", "log-likelihood with 6 knots"}}
	for _, s := range l.Starts {
		rows = append(rows, []string{s.Name, numeral.Likelihood(s.LogLikelihood)})
	}
	return section{Title: "Starts", Under: true,
		Reading: "What each start came to, on at most 4,000 rows. The three highest went on.",
		Tables:  []table{{Fold: numeral.Plural(len(l.Starts), "start"), Head: rows[0], Rows: rows[1:]}}}
}
