package diagnosis

import (
	"math"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
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
