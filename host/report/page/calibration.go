package page

import (
	"fmt"
	"html/template"
	"math"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

// calibrationSection shows the predicted laws beside the targets.
func calibrationSection(m *fitted.Model, d *diagnosis.Diagnosis) section {
	s := section{
		Title: "Predicted and observed",
		Reading: "How much of the law that the model predicts for a row lies below its target, F(y|x), by " +
			"twentieths: level where the model is right, with at least 95 in 100 bars within the dashed lines. A " +
			"hump says that predicted laws are too wide, a U that they are too narrow, a slope that means are off.",
		Pictures: []template.HTML{transformChart(d.Calibration)},
	}
	if mixture.DensityOf(m.Family).Domain().Whole {
		s.Reading += " A target with a probability of its own is evenly in all bars between P(Y < y|x) and F(y|x), " +
			"without random numbers (Czado, Gneiting & Held 2009)."
	}
	if c := d.Calibration.Counts; c != nil {
		s.Reading += " The other picture, a rootogram, has the square roots of how many rows the model expects to " +
			"have each count, as a line, from which those of the rows that have it hang. A bar that ends above 0 is " +
			"of a count that is rarer than expected; one that goes below is of one that is commoner."
		if c.Rows < d.Rows {
			s.Reading += fmt.Sprintf(" It is of %d of the %d rows, evenly.", c.Rows, d.Rows)
		}
		s.Pictures = append(s.Pictures, rootogram(m, c))
	}
	return s
}

// transformChart draws the histogram of F(y|x), as a density, with the bounds of a right model's bars.
func transformChart(c *diagnosis.Calibration) template.HTML {
	// Of shares 1/B of so much weight; rows of counts are spread, and vary less.
	bins := float64(len(c.Transform))
	within := 1.96 * math.Sqrt((bins-1)/max(c.Weight, 1))
	_, hi := numeric.Extent(c.Transform)
	top := 1.1 * max(bins*hi, 1+within)
	chart := newChart("F(y|x) of the rows", 0, 1, 0, top)
	chart.height = 260
	chart.xLabel, chart.yLabel = "F(y|x)", "density"
	for b, share := range c.Transform {
		chart.bar(float64(b)/bins, float64(b+1)/bins, share*bins, "plain")
	}
	for _, level := range []float64{max(0, 1-within), 1 + within} {
		chart.segment(0, level, 1, level, "ink dashed")
	}
	chart.segment(0, 1, 1, 1, "ink")
	return chart.svg()
}

// rootogram draws bars of √observed that hang from √expected (Tukey 1972, Kleiber & Zeileis 2016).
func rootogram(m *fitted.Model, c *diagnosis.Counts) template.HTML {
	x, curve := make([]float64, len(c.Expected)), make([]float64, len(c.Expected))
	least, most := 0.0, 0.0
	for b, expected := range c.Expected {
		x[b] = (float64(b) + 0.5) * float64(c.Width)
		curve[b] = math.Sqrt(max(0, expected))
		least, most = min(least, curve[b]-math.Sqrt(c.Observed[b])), max(most, curve[b])
	}
	if c.Width == 1 { // bars stand at their counts
		for b := range x {
			x[b] -= 0.5
		}
	}
	half := float64(c.Width) / 2
	pad := 0.06 * (most - least)
	chart := newChart("rootogram", x[0]-half, x[len(x)-1]+half, least-pad, most+pad)
	chart.height = 260
	chart.xLabel, chart.yLabel = shown.Name(m.Target), "√ of the number of rows"
	if c.Width > 1 {
		chart.xLabel += fmt.Sprintf(", by %ds", c.Width)
	}
	for b, top := range curve {
		chart.box(x[b]-half, x[b]+half, top-math.Sqrt(c.Observed[b]), top, "plain")
	}
	chart.segment(chart.x0, 0, chart.x1, 0, "ink")
	chart.line(x, curve, "stroke e1")
	for b, top := range curve {
		chart.dot(x[b], top, 2.6, 1, "e1")
	}
	return chart.svg()
}
