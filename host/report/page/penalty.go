package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

// penaltySection draws what was compared of the penalties of the model for new rows; false where nothing was.
func penaltySection(m *fitted.Model) (section, bool) {
	p := m.Penalised
	if p == nil {
		return section{}, false
	}
	s := section{
		Title: "How strong the penalty is",
		Reading: "The log-likelihood of rows that were left out, by the strength of the penalty; green is what was " +
			"taken, by which new rows are predicted. Where the curve is flat the strength hardly matters.",
	}
	for _, of := range []struct {
		what  string
		path  []fitted.PenalisedPoint
		taken float64
	}{{"gate, a ridge", p.Path, p.Lambda}, {"experts, " + penaltyName(p), p.ExpertPath, p.ExpertLambda}} {
		if picture := heldOutChart(of.what, of.path, of.taken); picture != "" {
			s.Pictures = append(s.Pictures, picture)
		}
	}
	if slopes := slopeCharts(m); slopes != nil {
		s.Reading += " The slopes of each expert follow, per standard deviation of a feature; the dashed line is at " +
			"what was taken. Where curves are too near for their names, the pointer shows them."
		s.Pictures = append(s.Pictures, slopes...)
	}
	s.Wide = true
	return s, len(s.Pictures) > 0
}

// penaltyName is that of the one on the experts.
func penaltyName(p *fitted.Penalised) string {
	if p.ExpertPenalty == fitted.Lasso {
		return "a lasso"
	}
	return "a ridge"
}

// lambdaChart is a chart over the penalties of a path by their logarithms; that of none is a decade below the least.
// It returns where the points stand.
func lambdaChart(title string, path []fitted.PenalisedPoint, lo, hi float64) (c *chart, x []float64) {
	least := math.Inf(1)
	for _, p := range path {
		if p.Lambda > 0 {
			least = min(least, p.Lambda)
		}
	}
	none := math.Floor(math.Log10(least)) - 1
	for _, p := range path {
		at := none
		if p.Lambda > 0 {
			at = math.Log10(p.Lambda)
		}
		x = append(x, at)
	}
	from, to := numeric.Extent(x)
	pad := 0.06 * (hi - lo)
	c = newChart(title, from-0.1, to+0.1, lo-pad, hi+pad)
	c.height, c.xLabel = 240, "lambda"
	c.xTick = func(t float64) string {
		if path[0].Lambda == 0 && math.Abs(t-none) < 1e-9 {
			return "none"
		}
		return strconv.FormatFloat(math.Pow(10, t), 'g', 2, 64)
	}
	return c, x
}

// heldOutChart draws the log-likelihood of rows that were left out; "" where nobody asked for it.
func heldOutChart(what string, path []fitted.PenalisedPoint, taken float64) template.HTML {
	var known []fitted.PenalisedPoint
	var held []float64
	for _, p := range path {
		if p.HeldOut != nil {
			known, held = append(known, p), append(held, *p.HeldOut)
		}
	}
	if len(held) < 2 {
		return ""
	}
	lo, hi := numeric.Extent(held)
	c, x := lambdaChart("rows left out, "+what, known, lo, hi)
	c.yLabel = "log-likelihood of rows left out: " + what
	c.line(x, held, "ink")
	for i, p := range known {
		class := "ink"
		if p.Lambda == taken {
			class = "good"
		}
		c.named(fmt.Sprintf("lambda %.3g: %s", p.Lambda, numeral.Likelihood(held[i])), func() {
			c.dot(x[i], held[i], 4.5, 1, class)
		})
	}
	return c.svg()
}

// slopeCharts draws the slopes of every expert along the path of the penalty on them; nil where the file has none.
func slopeCharts(m *fitted.Model) (out []template.HTML) {
	p := m.Penalised
	var path []fitted.PenalisedPoint
	for _, at := range p.ExpertPath {
		if at.Slopes != nil {
			path = append(path, at)
		}
	}
	if len(path) < 2 {
		return nil
	}
	lo, hi := 0.0, 0.0
	for _, at := range path {
		from, to := numeric.Extent(at.Slopes...)
		lo, hi = min(lo, from), max(hi, to)
	}
	for i := range m.K {
		c, x := lambdaChart(fmt.Sprintf("slopes of expert %d, %s", i+1, penaltyName(p)), path, lo, hi)
		c.yLabel = fmt.Sprintf("slopes of expert %d", i+1)
		c.segment(c.x0, 0, c.x1, 0, "thin")
		for t, at := range path {
			if at.Lambda == p.ExpertLambda {
				c.segment(x[t], c.y0, x[t], c.y1, "ink dashed")
			}
		}
		var names []float64 // where they stand
		for j, name := range m.Features {
			y := make([]float64, len(path))
			for t, at := range path {
				y[t] = at.Slopes[i][j]
			}
			if from, to := numeric.Extent(y); from == 0 && to == 0 {
				continue // it does not see it
			}
			c.named(shown.Name(name), func() { c.line(x, y, "stroke "+colour(i)) })
			at := c.py(y[0]) - 4
			if !slices.ContainsFunc(names, func(v float64) bool { return math.Abs(v-at) < lineHeight }) {
				names = append(names, at)
				fmt.Fprintf(&c.body, `<text x="%s" y="%s">%s</text>`, n(c.px(x[0])+4), n(at),
					template.HTMLEscapeString(shown.Name(name)))
			}
		}
		out = append(out, c.svg())
	}
	return out
}
