package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// joinSection draws the joins of the experts as a tree that grows together.
func joinSection(m *fitted.Model, joins []diagnosis.Join) section {
	order := slices.Concat(joins[len(joins)-1].Experts[0], joins[len(joins)-1].Experts[1])
	names := make([]string, len(order))
	for row, i := range order {
		names[row] = fmt.Sprintf("expert %d, %s", i+1, numeral.Percent(m.Proportions[i]))
	}
	const least = 0.1 // of a cost: what is less is drawn there
	height := func(cost float64) float64 { return math.Log10(max(cost, least)) }
	saved := float64(savedByJoin(m)) * math.Log(observations(m)) / 2
	hi := height(saved)
	for _, j := range joins {
		hi = max(hi, height(j.Cost))
	}
	c := rowChart("joins of the experts", "log10 of the cost in log-likelihood", names, height(least), hi+0.1)
	c.segment(height(saved), c.y0, height(saved), c.y1, "ink dashed")
	type end struct{ x, y float64 }
	ends := make([]end, m.K) // of the groups, by their first expert
	for row, i := range order {
		ends[i] = end{height(least), -float64(row)}
	}
	rows := [][]string{{"Join", "cost in log-likelihood", "BIC"}}
	for _, j := range joins {
		a, b := ends[j.Experts[0][0]], ends[j.Experts[1][0]]
		x := max(height(j.Cost), a.x, b.x)
		c.named(fmt.Sprintf("%s: %s", joined(j), numeral.Significant(j.Cost)), func() {
			c.segment(a.x, a.y, x, a.y, "ink")
			c.segment(b.x, b.y, x, b.y, "ink")
			c.segment(x, a.y, x, b.y, "ink")
		})
		ends[j.Experts[0][0]] = end{x, (a.y + b.y) / 2} // the first of both
		rows = append(rows, []string{joined(j), numeral.Significant(j.Cost), fmt.Sprintf("%+.3g", 2*(j.Cost-saved))})
	}
	for row, i := range order {
		c.dot(height(least), -float64(row), 4, 1, colour(i))
	}
	folded := asTable(rows)
	folded.Fold = "The joins"
	return section{
		Title: "Which experts are alike",
		Reading: "Experts are joined two by two, those first that cost the least log-likelihood if every row keeps " +
			"its experts' probabilities. Left of the dashed line a join has less BIC. It is a guide: gate, noise and " +
			"the experts' rows change with a join. A warning above has what a fit to joined experts has come to.",
		Pictures: []template.HTML{c.svg()},
		Tables:   []table{folded},
	}
}

// joined names the experts of a join, as "1 and 2+3".
func joined(j diagnosis.Join) string {
	sides := make([]string, 2)
	for s, experts := range j.Experts {
		var of []string
		for _, i := range slices.Sorted(slices.Values(experts)) {
			of = append(of, fmt.Sprint(i+1))
		}
		sides[s] = strings.Join(of, "+")
	}
	return sides[0] + " and " + sides[1]
}

// savedByJoin is how many parameters one expert fewer has.
func savedByJoin(m *fitted.Model) int {
	all := m.Fit.Parameters()
	shared := 0
	if len(m.Sigma) == 1 && !m.Fit.SigmaGiven {
		shared = 1
	}
	gate := 0
	if m.K > 1 {
		for j := range m.D {
			if slices.ContainsFunc(m.Gating, func(row []float64) bool { return row[j] != 0 }) {
				gate++
			}
		}
		if m.GatingIntercepts != nil {
			gate++
		}
	}
	return (all - shared + gate) / m.K // k·(expert, its noise and gate) less one gate
}

// observations is how many BIC counts.
func observations(m *fitted.Model) float64 {
	return math.Exp((m.Fit.BIC + 2*m.Fit.LogLikelihood) / float64(m.Fit.Parameters()))
}
