package fitted

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Prediction is what a model says of a block of rows. Matrices are K rows of N
// values.
type Prediction struct {
	N         int
	Mean      []float64 // E[y|x] = Σ_i P(z=i|x)·g(⟨a_i,x⟩)
	Gate      []float64 // P(z=i|x)
	Posterior []float64 // P(z=i|x,y); nil where the block has no y
	LogDens   []float64 // log of the density of y given x; nil where there is no y
	Experts   []float64 // g(⟨a_i,x⟩): the mean of y under each expert
}

// Predictor predicts block by block, reusing its memory. It is not safe for
// concurrent use.
type Predictor struct {
	params *model.Params
	act    model.Activation
	table  string // what errors call the table
	seen   int    // rows predicted so far

	post          *mixture.Posterior
	expert, means []float64
	row           *mixture.Distribution
}

// NewPredictor returns the predictor of a model with parameters p and
// activation act for one pass over a table; errors use the table's name.
func NewPredictor(p *model.Params, act model.Activation, table string) *Predictor {
	const n = model.BlockRows
	return &Predictor{
		params: p, act: act, table: table,
		post:   mixture.NewPosterior(mixture.Mixture{}, p.K),
		expert: make([]float64, p.K*n), means: make([]float64, n),
		row: mixture.NewDistribution(mixture.Mixture{}, p),
	}
}

// Predict predicts the rows of b; the result is valid until the next call. It
// fails where the activation does; a mean that is not finite, as inputs near
// the largest float64 can make it, is a *dataset.Error.
func (p *Predictor) Predict(ctx context.Context, b *model.Block) (*Prediction, error) {
	n, k := b.N, p.params.K
	expert, mean := p.expert[:k*n], p.means[:n]
	p.params.Predictors(expert, b)
	if err := p.act.Eval(ctx, expert, expert); err != nil {
		return nil, err
	}
	p.post.Given(p.params, b)
	gate := p.post.Prior
	out := &Prediction{N: n, Mean: mean, Gate: gate, Experts: expert}
	if b.Y != nil {
		p.post.Predict(b.Y, expert)
		out.Posterior, out.LogDens = p.post.Post, p.post.LogJoint
	}
	clear(mean)
	for i := range k {
		for r := range n {
			mean[r] += gate[i*n+r] * expert[i*n+r]
		}
	}
	for r, v := range mean {
		if !isFinite(v) {
			return nil, &dataset.Error{File: p.table, Msg: fmt.Sprintf("the prediction for row %d is %v: its values are too large", p.seen+r+1, v)}
		}
	}
	p.seen += n
	return out, nil
}

// Intervals writes to lower and upper the central prediction intervals of the
// rows of b, of which pred is the prediction: y lies in one with probability
// level, between 0 and 1, if the parameters are right; their own uncertainty is
// not in it. The ends are exact quantiles of the mixture. One that is not finite
// is a *dataset.Error.
func (p *Predictor) Intervals(lower, upper []float64, pred *Prediction, level float64) error {
	for r := range pred.N {
		lower[r], upper[r] = p.distribution(pred, r).Interval(level)
		if !isFinite(lower[r]) || !isFinite(upper[r]) {
			return &dataset.Error{File: p.table, Msg: fmt.Sprintf("the prediction interval for row %d is %v to %v: its values are too large", p.seen-pred.N+r+1, lower[r], upper[r])}
		}
	}
	return nil
}

// distribution returns the predicted one of a row, valid until the next call.
func (p *Predictor) distribution(pred *Prediction, row int) *mixture.Distribution {
	for i := range p.params.K {
		p.row.P[i], p.row.Mean[i] = pred.Gate[i*pred.N+row], pred.Experts[i*pred.N+row]
	}
	return p.row
}

// Evaluation is how well a model describes data.
type Evaluation struct {
	N             int     `json:"n"`
	Weight        float64 `json:"weight,omitempty"` // sum of the observations' weights, where there are any
	LogLikelihood float64 `json:"log_likelihood"`   // Σ log p(y|x) over the rows, natural log
	RMSE          float64 `json:"rmse"`             // root of the mean of (y − E[y|x])²
	R2            float64 `json:"r2"`               // 1 − Σ(y − E[y|x])² / Σ(y − ȳ)²

	Calibration  []Coverage `json:"calibration"`   // of the prediction intervals
	PITHistogram []float64  `json:"pit_histogram"` // rows by F(y|x), in ten bins of equal width from 0 to 1
}

// Evaluate reads the source once and measures the model with parameters p and
// activation act on it; a row of weight w counts as w rows. Sums go block by
// block in order. It is an error if the source has no target, or if the target is
// constant, which leaves R2 without meaning.
func Evaluate(ctx context.Context, p *model.Params, act model.Activation, src dataset.Source) (*Evaluation, error) {
	schema := src.Schema()
	if schema.Target == "" {
		return nil, &dataset.Error{File: schema.Name, Msg: "no target column to evaluate against"}
	}
	predictor := NewPredictor(p, act, schema.Name)
	var e Evaluation
	var sse, weight float64
	var spread spread
	var calibration calibration
	err := src.Read(ctx, func(b *model.Block) error {
		pred, err := predictor.Predict(ctx, b)
		if err != nil {
			return err
		}
		e.N += b.N
		var s, logLikelihood, rows float64
		for r, y := range b.Y {
			w := 1.0
			if b.W != nil {
				w = b.W[r]
			}
			rows += w
			logLikelihood += w * pred.LogDens[r]
			s += w * (y - pred.Mean[r]) * (y - pred.Mean[r])
			calibration.add(predictor.distribution(pred, r).CDF(y), w)
		}
		e.LogLikelihood += logLikelihood
		sse += s
		weight += rows
		spread.add(b.Y, b.W)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if spread.squares == 0 {
		return nil, &dataset.Error{File: schema.Name, Msg: fmt.Sprintf("column %q is the same in every row; r2 has no meaning", schema.Target)}
	}
	if schema.Weights != "" {
		e.Weight = weight
	}
	e.RMSE = math.Sqrt(sse / weight)
	e.R2 = 1 - sse/spread.squares
	e.Calibration, e.PITHistogram = calibration.coverage(weight), calibration.bins[:]
	return &e, nil
}

// spread accumulates Σw(y − ȳ)² over blocks, without the cancellation of
// Σwy² − nȳ² (Chan, Golub & LeVeque 1983).
type spread struct{ n, mean, squares float64 }

// add takes a block; w is nil where all weights are 1.
func (s *spread) add(y, w []float64) {
	n := float64(len(y))
	if w != nil {
		n = floats.Sum(w)
	}
	if n == 0 {
		return
	}
	mean := stat.Mean(y, w)
	var squares float64
	for i, v := range y {
		d := (v - mean) * (v - mean)
		if w != nil {
			d *= w[i]
		}
		squares += d
	}
	step := mean - s.mean
	total := s.n + n
	s.squares += squares + step*step*s.n*n/total
	s.mean += step * n / total
	s.n = total
}
