package report

import (
	"fmt"
	"html/template"
	"math"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/shown"
)

const (
	// transformBins is the number of bins of the histogram of F(y|x).
	transformBins = 20
	// rootRows is about how many rows a rootogram is of at most, and rootBins how many bars it has.
	rootRows, rootBins = 5000, 40
)

// Calibration is what a page shows of the laws that the model predicts beside the targets.
type Calibration struct {
	// Transform are the shares of the rows' weight by F(y|x), in transformBins bins on [0, 1], of which a target with a
	// probability of its own is evenly in all between P(Y < y|x) and F(y|x), see [predict.AddTransform].
	Transform []float64
	Weight    float64
	Counts    *Counts // of families of counts; nil elsewhere
}

// Counts is how often counts are seen among some of the rows, and how often the model expects them.
type Counts struct {
	Rows, Width        int       // bar b is of counts from b·Width to (b+1)·Width − 1
	Observed, Expected []float64 // Σ w over the rows whose count it is, Σ w·P(it)

	every int
	rows  []countRow // until they are counted
}

// countRow is a row of a rootogram.
type countRow struct {
	y, weight float64
	law       *mixture.Distribution
}

// newCalibration is that of no rows.
func newCalibration(m *fitted.Model) *Calibration {
	c := &Calibration{Transform: make([]float64, transformBins)}
	if mixture.Counts(mixture.DensityOf(m.Family)) {
		c.Counts = &Counts{every: (m.Fit.N + rootRows - 1) / rootRows}
	}
	return c
}

// add adds row r of a block, the at-th of all, with its prediction.
func (c *Calibration) add(p *predict.Predictor, pred *predict.Prediction, b *model.Block, r, at int) {
	w := b.Weight(r)
	before, upto := p.Transform(pred, r, b.Y[r])
	predict.AddTransform(c.Transform, before, upto, w)
	c.Weight += w
	if c.Counts != nil && at%max(1, c.Counts.every) == 0 {
		c.Counts.rows = append(c.Counts.rows, countRow{b.Y[r], w, p.Law(pred, r)})
	}
}

// finish makes shares of the sums, and counts the rows of the rootogram.
func (c *Calibration) finish() {
	for i := range c.Transform {
		c.Transform[i] /= max(c.Weight, 1e-300)
	}
	if c.Counts != nil {
		c.Counts.count()
	}
}

// count sums over the rows, with bars as wide as they must be for the largest count.
func (c *Counts) count() {
	largest := 0.0
	for _, row := range c.rows {
		largest = max(largest, row.y)
	}
	c.Rows, c.Width = len(c.rows), int(math.Ceil((largest+1)/rootBins))
	width := float64(c.Width)
	bars := int(math.Ceil((largest + 1) / width))
	c.Observed, c.Expected = make([]float64, bars), make([]float64, bars)
	for _, row := range c.rows {
		c.Observed[int(row.y/width)] += row.weight
		before := 0.0
		for b := range bars {
			upto := row.law.CDF(float64(b+1)*width - 1)
			c.Expected[b] += row.weight * (upto - before)
			before = upto
		}
	}
	c.rows = nil
}

// calibrationSection shows the predicted laws beside the targets.
func calibrationSection(m *fitted.Model, d *Diagnosis) section {
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
func transformChart(c *Calibration) template.HTML {
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
func rootogram(m *fitted.Model, c *Counts) template.HTML {
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
