package report

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
)

// Diagnosis is what a page shows of the rows: a sample of them, and
// distributions over all.
type Diagnosis struct {
	Rows   int
	Points []Point
	// Residuals are, for each expert, the posterior-weighted shares of rows by
	// their standardised residual (y − g(⟨a_i,x⟩))/σ_i, in residualBins bins on
	// [−residualRange, residualRange]; the outer bins take what lies beyond.
	Residuals [][]float64
	// Sharpness are the shares of rows by their largest posterior, in
	// sharpnessBins bins on [0, 1].
	Sharpness []float64
	Curves    *Curves // where there is one feature
	Index     *Index  // where there are more
	Features  []int   // that the points have values of, where there are more
}

// Point is one row.
type Point struct {
	X, Y, Mean float64 // X is the first feature
	Expert     int     // the most probable given x and y
	Posterior  float64 // its probability
	Index      float64 // ⟨a,x⟩ + b of that expert
	Residual   float64 // (y − g(⟨a,x⟩ + b))/σ of that expert
	Features   []float64
}

// Curves are the experts over the range of the only feature.
type Curves struct {
	X     []float64
	Means [][]float64 // per expert
	Gate  [][]float64 // per expert
}

const (
	maxPoints     = 1500
	residualBins  = 40
	residualRange = 5.0
	sharpnessBins = 20
	curvePoints   = 200 // at most model.BlockRows
)

// Diagnose reads the rows of src once through the model.
func Diagnose(ctx context.Context, m *fitted.Model, act model.Activation, src dataset.Source) (*Diagnosis, error) {
	p := m.Params()
	d := &Diagnosis{Residuals: make([][]float64, p.K), Sharpness: make([]float64, sharpnessBins)}
	for i := range d.Residuals {
		d.Residuals[i] = make([]float64, residualBins)
	}
	predictor := predict.NewPredictor(p, act, src.Schema().Name)
	stride := (m.Fit.N + maxPoints - 1) / maxPoints
	if p.D > 1 {
		d.Features = scattered(m)
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	err := src.Read(ctx, func(b *model.Block) error {
		pred, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		index := make([]float64, p.K*b.N)
		p.Predictors(index, b)
		for r := range b.N {
			d.add(p, b, pred, index, r, stride)
			lo, hi = min(lo, b.Col(0)[r]), max(hi, b.Col(0)[r])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d.share()
	if p.D == 1 {
		d.Curves, err = curves(ctx, p, act, lo, hi)
	} else {
		d.Index, err = d.along(ctx, p.K, p.Output(act))
	}
	return d, err
}

func (d *Diagnosis) add(p *model.Params, b *model.Block, pred *predict.Prediction, index []float64, r, stride int) {
	point := Point{X: b.Col(0)[r], Y: b.Y[r], Mean: pred.Mean[r]}
	for i := range p.K {
		post := pred.Posterior[i*b.N+r]
		e := (b.Y[r] - pred.Experts[i*b.N+r]) / p.SigmaOf(i)
		d.Residuals[i][bin((e+residualRange)/(2*residualRange), residualBins)] += post
		if post > point.Posterior {
			point.Expert, point.Posterior, point.Residual, point.Index = i, post, e, index[i*b.N+r]
		}
	}
	d.Sharpness[bin(point.Posterior, sharpnessBins)]++
	if d.Rows%stride == 0 {
		for _, j := range d.Features {
			point.Features = append(point.Features, b.Col(j)[r])
		}
		d.Points = append(d.Points, point)
	}
	d.Rows++
}

func bin(share float64, bins int) int {
	return int(min(max(share*float64(bins), 0), float64(bins-1)))
}

// share turns counts into shares of their sum.
func (d *Diagnosis) share() {
	for _, counts := range append(d.Residuals, d.Sharpness) {
		sum := 0.0
		for _, c := range counts {
			sum += c
		}
		for i := range counts {
			counts[i] /= max(sum, 1e-300)
		}
	}
}

// curves evaluates experts and gate on a grid over [lo, hi].
func curves(ctx context.Context, p *model.Params, act model.Activation, lo, hi float64) (*Curves, error) {
	c := &Curves{X: make([]float64, curvePoints), Means: make([][]float64, p.K), Gate: make([][]float64, p.K)}
	for i := range c.X {
		c.X[i] = lo + (hi-lo)*float64(i)/(curvePoints-1)
	}
	pred, err := predict.NewPredictor(p, act, "").Predict(ctx, &model.Block{N: curvePoints, X: c.X})
	if err != nil {
		return nil, err
	}
	for i := range p.K {
		c.Means[i], c.Gate[i] = pred.Experts[i*curvePoints:(i+1)*curvePoints], pred.Gate[i*curvePoints:(i+1)*curvePoints]
	}
	return c, nil
}
