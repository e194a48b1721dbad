package page

import (
	"cmp"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

const (
	maxScattered   = 500 // points of a picture of one expert or one feature
	maxExpertPlots = 12  // experts with one
	trendBins      = 10
)

// indexSection shows the rows along the index of their expert.
func indexSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	index := "⟨a, x⟩ + b"
	if d.Offset != nil {
		index += " with the offset"
	}
	s := section{
		Title: "Each expert along its index",
		Reading: "The rows that are most probably an expert's own, against its index " + index + ", paler where that " +
			"is less sure, and the expert's curve g. " +
			"Rows that leave the curve together are a shape that g does not have.",
	}
	for i := range min(m.K, maxExpertPlots) {
		own := pointsOf(d, func(p diagnosis.Point) bool { return p.Expert == i })
		var y []float64
		for _, p := range own {
			y = append(y, p.Y)
		}
		lo, hi := numeric.Extent(y, d.Index.G[i])
		pad := 0.05 * (hi - lo)
		c := newChart(fmt.Sprintf("rows of expert %d along its index", i+1), d.Index.Z[i][0],
			d.Index.Z[i][len(d.Index.Z[i])-1], lo-pad, hi+pad)
		c.height = 260
		c.xLabel, c.yLabel = fmt.Sprintf("index of expert %d", i+1), shown.Name(d.Drawn)
		for _, p := range own {
			c.dot(p.Index, p.Y, 2.2, 0.2+0.6*p.Posterior*p.Posterior, colour(i))
		}
		c.line(d.Index.Z[i], d.Index.G[i], "ink")
		s.Pictures = append(s.Pictures, c.svg())
	}
	if m.K > maxExpertPlots {
		s.Reading += fmt.Sprintf(" The first %d of %d experts.", maxExpertPlots, m.K)
	}
	return s
}

// featureSection shows residuals against features.
func featureSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	name, unit := residualWords(m)
	from := name + " from its most probable expert"
	if unit != "" {
		from += unit + ","
	}
	s := section{
		Title: "Residuals against features",
		Reading: "Each row's " + from + " against a feature, and the mean residual of rows with similar values. " +
			"A mean that leaves 0 in a bow or in steps is something in that feature that the experts lack.",
	}
	if m.D > len(d.Features) {
		s.Reading += fmt.Sprintf(" The %d features with the largest coefficients of the experts relative to their "+
			"standard errors.", len(d.Features))
	}
	points := pointsOf(d, func(diagnosis.Point) bool { return true })
	for at, j := range d.Features {
		var x, r []float64
		for _, p := range d.Points {
			x, r = append(x, p.Features[at]), append(r, p.Residual)
		}
		x0, x1 := numeric.Extent(x)
		y0, y1 := numeric.Extent(r)
		c := newChart("residuals against "+m.Features[j], x0, x1, max(y0, -diagnosis.ResidualRange),
			min(y1, diagnosis.ResidualRange))
		c.height = 220
		c.xLabel, c.yLabel = shown.Name(m.Features[j]), name+unit
		c.segment(x0, 0, x1, 0, "ink dashed")
		for _, p := range points {
			c.dot(p.Features[at], min(max(p.Residual, c.y0), c.y1), 2, 0.2+0.6*p.Posterior*p.Posterior,
				colour(p.Expert))
		}
		tx, ty := trend(x, r)
		c.line(tx, ty, "ink")
		s.Pictures = append(s.Pictures, c.svg())
	}
	return s
}

// pointsOf returns the points that are wanted, at most maxScattered of them, evenly.
func pointsOf(d *diagnosis.Diagnosis, wanted func(diagnosis.Point) bool) []diagnosis.Point {
	var all []diagnosis.Point
	for _, p := range d.Points {
		if wanted(p) {
			all = append(all, p)
		}
	}
	every := (len(all) + maxScattered - 1) / maxScattered
	var out []diagnosis.Point
	for i, p := range all {
		if i%every == 0 {
			out = append(out, p)
		}
	}
	return out
}

// trend returns the means of x and of y in trendBins groups of as many points with
// similar x; where x has few values, a group for each.
func trend(x, y []float64) (mx, my []float64) {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	values := len(slices.Compact(slices.Sorted(slices.Values(x))))
	var gx, gy []float64
	for i, at := range order {
		gx, gy = append(gx, x[at]), append(gy, y[at])
		last := i+1 == len(order)
		full := (i+1)*trendBins/len(order) > i*trendBins/len(order)
		if values <= trendBins {
			full = !last && x[order[i+1]] != x[at]
		}
		if last || full {
			mx, my = append(mx, stat.Mean(gx, nil)), append(my, stat.Mean(gy, nil))
			gx, gy = gx[:0], gy[:0]
		}
	}
	return mx, my
}
