// Package predict is what a fitted model says of rows: the mean of y, the experts'
// probabilities given x and given x and y, densities, prediction intervals, and how
// well all that describes data.
//
// A [Model] is a fitted model with its activation, from a fit ([New]) or from a file
// ([Open]):
//
//	p, err := predict.New(m, g).Matrix(ctx, x, nil, 0.9)
//
// gives p.Mean, p.Gate and the intervals from p.Lower to p.Upper for the rows of a
// matrix; [Model.Table] does so for a table of any size, and [Model.Evaluate]
// measures the model on rows with targets. Below it a [Predictor] goes block by
// block.
package predict

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Prediction is what a model says of a block of rows. Matrices are K rows of N
// values, those of probabilities with one more of an expert that is always 0.
type Prediction struct {
	N         int
	Mean      []float64 // E[y|x] = Σ_i P(z=i|x)·m_i(x), times the row's trials where it has some
	Gate      []float64 // P(z=i|x)
	Posterior []float64 // P(z=i|x,y); nil where the block has no y
	LogDens   []float64 // log of the density of y given x; nil where there is no y
	Experts   []float64 // m_i(x) = g(⟨a_i,x⟩), or c_i + s_i·g: the mean of y under each expert

	trials  []float64 // of the rows, nil: none, or one each
	around  *around   // the parameters' uncertainty; nil: they are taken as they are
	members []member  // of several arrangements; nil of one
}

// triedOf is what means of shares are multiplied by in a row: its trials, or 1.
func (p *Prediction) triedOf(row int) float64 {
	if p.trials == nil {
		return 1
	}
	return p.trials[row]
}

// own is what the prediction says of the target itself, without a scale of it.
func (p *Prediction) own() *Own {
	own := &Own{Point: p.Mean, Experts: p.Experts, LogDens: p.LogDens}
	if p.trials != nil {
		own.Experts = slices.Clone(p.Experts)
		for at := range own.Experts {
			own.Experts[at] *= p.triedOf(at % p.N)
		}
	}
	return own
}

// Predictor predicts block by block, reusing its memory. It is not safe for
// concurrent use.
type Predictor struct {
	params *model.Params
	act    model.Activation // what makes means of predictors
	raw    model.Activation // g
	table  string           // what errors call the table
	seen   int              // rows predicted so far
	cut    int              // of them with intervals that end where means do, see [Predictor.Intervals]

	uncertainty *Uncertainty // nil: the parameters are taken as they are
	members     []member     // of several arrangements; nil of one

	post          *mixture.Posterior
	expert, means []float64
	z             []float64 // nil without uncertainty
	around        *around   // likewise
	row           *mixture.Distribution
}

// NewPredictor returns the predictor of a model with parameters p and
// activation act for one pass over a table; errors use the table's name. It panics
// if there is no activation.
func NewPredictor(p *model.Params, act model.Activation, table string) *Predictor {
	const n = model.BlockRows
	if act == nil {
		panic("predict: no activation")
	}
	post := mixture.NewPosterior(mixture.Mixture{}, p.K)
	post.Exact = true
	return &Predictor{
		params: p, act: p.Output(act), raw: act, table: table, post: post,
		expert: make([]float64, p.K*n), means: make([]float64, n),
		row: mixture.NewDistribution(mixture.Mixture{}, p),
	}
}

// With has the intervals, and F(y|x), take in the parameters' uncertainty, and predictions the arrangements of a fit
// that has weighed them; nil is none. It returns p.
func (p *Predictor) With(u *Uncertainty) *Predictor {
	p.uncertainty = u
	if u != nil && u.arrangements != nil {
		p.spreadOver(u.arrangements)
	} else if n := len(p.expert); u != nil && p.z == nil {
		p.z, p.around = make([]float64, n), newAround(u)
		if u.normal() {
			p.row = roomFor(p.params.K * u.points())
		}
	}
	return p
}

// roomFor is a distribution of n normal ones.
func roomFor(n int) *mixture.Distribution {
	return mixture.NewDistribution(mixture.Mixture{}, &model.Params{K: n, Sigma: make([]float64, n)})
}

// An expert whose probability is nothing beside 1 adds to the mean up to mostSquared, of which there is a square: one
// of a few rows has means far from these that are no numbers.
const negligible, mostSquared = 4.3e-18, 0x1p511 // e^−40, and 7e153

// Predict predicts the rows of b; the result is valid until the next call. It
// fails where the activation does; a mean that is not finite, as inputs near
// the largest float64 can make it, is a *dataset.Error. It panics if b has another
// number of features than the model.
func (p *Predictor) Predict(ctx context.Context, b *model.Block) (*Prediction, error) {
	n, k := b.N, p.params.K
	if columns := len(b.X) / max(n, 1); columns != p.params.D {
		panic(fmt.Sprintf("predict: %s, the model has %s", count(columns, "column"), count(p.params.D, "feature")))
	}
	if p.members != nil {
		return p.over(ctx, b)
	}
	expert, mean := p.expert[:k*n], p.means[:n]
	p.params.Predictors(expert, b)
	copy(p.z, expert)
	if err := p.act.Eval(ctx, expert, expert); err != nil {
		return nil, err
	}
	if p.around != nil {
		if err := p.uncertainty.at(ctx, p.around, p.params, p.act, b, p.z[:k*n], expert); err != nil {
			return nil, err
		}
	}
	p.post.Given(p.params, b)
	gate := p.post.Prior
	out := &Prediction{N: n, Mean: mean, Gate: gate, Experts: expert, around: p.around, trials: b.Role[model.Trials]}
	if b.Y != nil {
		p.post.Predict(b.Y, expert)
		out.Posterior, out.LogDens = p.post.Post, p.post.LogJoint
	}
	clear(mean)
	for i := range k {
		for r := range n {
			if p, m := gate[i*n+r], expert[i*n+r]; p > negligible || math.Abs(p*m) < mostSquared {
				mean[r] += p * m
			}
		}
	}
	for r := range out.trials {
		mean[r] *= out.triedOf(r)
	}
	for r, v := range mean {
		if !numeric.Finite(v) {
			return nil, &dataset.Error{File: p.table,
				Msg: fmt.Sprintf("the prediction for row %d is %v: its values are too large", p.seen+r+1, v)}
		}
	}
	p.seen += n
	return out, nil
}

// count is so many of something in words: 1 row, 2 rows.
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// Intervals writes to lower and upper the central prediction intervals of the
// rows of b, of which pred is the prediction: y lies in one with probability
// level, between 0 and 1, if the parameters are right; their own uncertainty is
// in it where p has it ([Predictor.With]). The ends are exact quantiles of the mixture. One that is not finite
// is a *dataset.Error. Of a density that is not normal no mean is taken further than e^mostLogSigma times what is
// predicted: p counts the rows whose intervals end there.
func (p *Predictor) Intervals(lower, upper []float64, pred *Prediction, level float64) error {
	for r := range pred.N {
		lower[r], upper[r] = p.distribution(pred, r).Interval(level)
		if pred.around != nil && pred.around.spread.beyond > (1-level)/2 {
			p.cut++
		}
		if !numeric.Finite(lower[r]) || !numeric.Finite(upper[r]) {
			return &dataset.Error{File: p.table,
				Msg: fmt.Sprintf("the prediction interval for row %d is %v to %v: its values are too large",
					p.seen-pred.N+r+1, lower[r], upper[r])}
		}
	}
	return nil
}

// probabilities appends P(y = v|x) of the rows of a prediction to dst, a column for each of the values.
func (p *Predictor) probabilities(dst []float64, pred *Prediction, values []float64) []float64 {
	at := len(dst)
	dst = append(dst, make([]float64, len(values)*pred.N)...)
	for r := range pred.N {
		if len(values) == 0 {
			break
		}
		law := p.distribution(pred, r)
		for c, v := range values {
			dst[at+c*pred.N+r] = p.density(law, pred, r, v)
		}
	}
	return dst
}

// density is that of row r, whose law is given, at y, or the probability of y.
func (p *Predictor) density(law *mixture.Distribution, pred *Prediction, r int, y float64) float64 {
	if pred.around != nil && pred.around.spread.narrowAt(r) {
		return math.Exp(pred.around.spread.logDensity(law, r, y))
	}
	return law.Density(y)
}

// Transform returns P(Y < y) and P(Y ≤ y) of row r under its predicted law, y on the model's scale: the same where no
// value has a probability of its own.
func (p *Predictor) Transform(pred *Prediction, r int, y float64) (before, upto float64) {
	return p.below(p.distribution(pred, r), y)
}

// below is Transform of a law.
func (p *Predictor) below(law *mixture.Distribution, y float64) (before, upto float64) {
	return law.CDFBefore(y), law.CDF(y)
}

// LogPredictive is the log of the density of row r at y, y on the model's scale, with the parameters' uncertainty in
// it, as intervals have it; NaN where the predictor knows of none.
func (p *Predictor) LogPredictive(pred *Prediction, r int, y float64) float64 {
	return p.logPredictive(p.distribution(pred, r), pred, r, y)
}

// logPredictive is LogPredictive of a row whose law is given, and log Σ_a w_a·f_a(y|x) over arrangements.
func (p *Predictor) logPredictive(law *mixture.Distribution, pred *Prediction, r int, y float64) float64 {
	switch {
	case pred.members != nil:
		logs := make([]float64, len(pred.members))
		for a, m := range pred.members {
			logs[a] = math.Log(m.weight) + m.Predictor.LogPredictive(m.Prediction, r, y)
			if math.IsNaN(logs[a]) {
				return math.NaN()
			}
		}
		return floats.LogSumExp(logs)
	case pred.around == nil:
		return math.NaN()
	}
	return pred.around.spread.logDensity(law, r, y)
}

// Law returns a copy of the predicted law of row r. It panics where the rows have trials, which stand in their block.
func (p *Predictor) Law(pred *Prediction, r int) *mixture.Distribution {
	if pred.trials != nil {
		panic("predict: the law of a row with trials")
	}
	return p.distribution(pred, r).Clone()
}

// admit refuses a block with a target that the family does not take.
func (p *Predictor) admit(b *model.Block) error {
	if row, wrong := mixture.Outside(mixture.DensityOf(p.params.Family), b); row >= 0 {
		return &dataset.Error{File: p.table, Msg: fmt.Sprintf("row %d: %s", p.seen+row+1, wrong)}
	}
	return nil
}

// Standardised returns the residual of a target under expert i, whose mean is given: (y − mean)/σ_i of normal noise,
// and of any density the normal number with as much below it as y has, Φ⁻¹(F(y)), in the middle of its step where y has
// a probability of its own (the quantile residual of Dunn & Smyth 1996, not randomised).
// Row r of a block has the target.
func Standardised(p *model.Params, i int, b *model.Block, r int, mean float64) float64 {
	d, y := mixture.OfRow(mixture.OfTrials(mixture.DensityOf(p.Family), b.Role[model.Trials]), r), b.Y[r]
	if mixture.Normal(d) {
		return (y - mean) / p.SigmaOf(i)
	}
	psi := p.OwnOf(nil, i)
	q := d.CDF(y, mean, psi)
	if d.Domain().Whole {
		q = (q + d.CDF(y-1, mean, psi)) / 2
	}
	return distuv.UnitNormal.Quantile(min(max(q, math.SmallestNonzeroFloat64), 1-0x1p-53))
}

// distribution returns the predicted one of a row, valid until the next call.
func (p *Predictor) distribution(pred *Prediction, row int) *mixture.Distribution {
	if pred.members != nil {
		return p.distributionOver(pred, row)
	}
	if pred.trials != nil {
		p.row.OfTrials(pred.trials[row : row+1])
	}
	if pred.around != nil {
		p.uncertainty.distribution(p.row, p.params, p.post.Gate, pred, row)
		return p.row
	}
	for i := range p.params.K {
		p.row.P[i], p.row.Mean[i] = pred.Gate[i*pred.N+row], pred.Experts[i*pred.N+row]
	}
	return p.row
}
