package predict

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Evaluation is how well a model describes data.
type Evaluation struct {
	N             int     `json:"n"`
	Dropped       int     `json:"dropped,omitempty"` // rows left out for missing cells
	Weight        float64 `json:"weight,omitempty"`  // sum of the observations' weights, where there are any
	Groups        int     `json:"groups,omitempty"`  // of the rows, where they are in groups
	LogLikelihood float64 `json:"log_likelihood"`    // Σ log p(y|x) over the rows, or their groups, natural log
	// Σ log of the density that intervals are of, with the parameters' uncertainty in it; absent where a model has none
	Predictive *float64 `json:"predictive_log_likelihood,omitempty"`
	RMSE       float64  `json:"rmse"` // root of the mean of (y − E[y|x])²
	// 1 − Σ(y − E[y|x])² / Σ(y − ȳ)²; null where the targets are equal
	R2 *float64 `json:"r2"`

	// Of models of a scale h(y) of the target, all else being of y: which, Σ log p(h(y)|x), and, where y has no mean,
	// that RMSE and R2 are of the medians.
	TargetScale              scaling.Scale `json:"target_scale,omitempty"`
	LogLikelihoodTransformed *float64      `json:"log_likelihood_transformed,omitempty"`
	Point                    string        `json:"point,omitempty"` // "median"
	// rows that have none, and are left out of RMSE and R2
	WithoutMedian int `json:"without_median,omitempty"`

	Calibration  []Coverage `json:"calibration"`         // of the prediction intervals
	Baselines    *Baselines `json:"baselines,omitempty"` // absent where the model has none
	PITHistogram []float64  `json:"pit_histogram"`       // rows by F(y|x), in ten bins of equal width from 0 to 1
}

// Evaluate reads the source once and measures the model with parameters p and
// activation act on it; a row of weight w counts as w rows. Sums go block by
// block in order. It is an error if the source has no target or another number of
// features than the model. Of rows in groups the log-likelihood is that of groups which the model has not seen,
//
//	Σ_g w_g·log Σ_i P(z=i|x_g)·Π_t f(y_gt; m_i(x_gt), ψ_i),
//
// and all else is of each row by itself.
func Evaluate(ctx context.Context, p *model.Params, act model.Activation, src dataset.Source) (*Evaluation, error) {
	return EvaluateWith(ctx, p, nil, act, src)
}

// EvaluateWith is [Evaluate] with the parameters' uncertainty in the distributions whose calibration is
// measured, as it is in the intervals; the log-likelihood is that of the parameters as they are, or of the mixture of
// arrangements where u has them, and the predictive one that of these distributions.
func EvaluateWith(ctx context.Context, p *model.Params, u *Uncertainty, act model.Activation,
	src dataset.Source) (*Evaluation, error) {
	return evaluateBeside(ctx, p, u, nil, act, src)
}

// EvaluateModel is [EvaluateWith] of a model, the one for new rows where its file has another beside the maximum, whose
// [Features] src has, with its simpler models beside it.
func EvaluateModel(ctx context.Context, m *fitted.Model, act model.Activation,
	src dataset.Source) (*Evaluation, error) {
	m = m.ForNewRows()
	return evaluateBeside(ctx, m.Params(), UncertaintyOf(m), m.Baselines, act, src)
}

func evaluateBeside(ctx context.Context, p *model.Params, u *Uncertainty, beside *fitted.Baselines,
	act model.Activation, src dataset.Source) (*Evaluation, error) {
	predictor := NewPredictor(p, act, src.Schema().Name).With(u)
	scale := src.Schema().Scale
	var groups *joints
	if src.Schema().Roles[model.Groups] != "" {
		groups = newJoints(p, src.Schema())
	}
	never := func(int) bool { return false }
	simpler := simpler{beside, !mixture.DensityOf(p.Family).Domain().Whole}
	return evaluate(ctx, src, p.D, simpler, groups, func(ctx context.Context, b *model.Block) (*described, error) {
		if err := predictor.admit(b); err != nil {
			return nil, err
		}
		pred, err := predictor.Predict(ctx, b)
		if err != nil {
			return nil, err
		}
		if groups != nil {
			if err := groups.add(b, pred, never, never); err != nil {
				return nil, err
			}
		}
		out := &described{mean: pred.Mean, logDens: pred.LogDens, law: func(r int, y float64) (of lawful) {
			law := predictor.distribution(pred, r)
			of.before, of.upto = predictor.below(law, y)
			if of.predictive = math.NaN(); groups == nil {
				of.predictive = predictor.logPredictive(law, pred, r, y) + scale.LogSlope(y)
			}
			return of
		}}
		if scale != "" {
			own, err := predictor.OwnScale(pred, scale, b.Y)
			if err != nil {
				return nil, err
			}
			out.mean, out.logDens = own.Point, own.LogDens
			if rising := out.law; scale.Falls() {
				out.law = func(r int, v float64) lawful {
					of := rising(r, v)
					of.before, of.upto = 1-of.upto, 1-of.before
					return of
				}
			}
		}
		return out, nil
	})
}

// described is what a model says of the rows of a block with targets: their means, the logs of their densities, and
// what their laws say at the target as the block has it.
type described struct {
	mean, logDens []float64
	law           func(row int, y float64) lawful
}

// lawful is P(Y < y|x) and F(y|x) of a law, and the log of its density of the target where the parameters' uncertainty
// is in it, else NaN.
type lawful struct{ before, upto, predictive float64 }

// evaluate is [Evaluate] for whatever describes blocks of d features, and adds them to the groups where there are any.
func evaluate(ctx context.Context, src dataset.Source, d int, beside simpler, groups *joints,
	describe func(context.Context, *model.Block) (*described, error)) (*Evaluation, error) {
	schema := src.Schema()
	if schema.Target == "" {
		return nil, &dataset.Error{File: schema.Name, Msg: "no target column to evaluate against"}
	}
	if err := fits(schema, d); err != nil {
		return nil, err
	}
	e := Evaluation{TargetScale: schema.Scale}
	var sse, weight, scored, slopes, predictive float64
	var target deviations
	var mean, line *against
	if beside.Baselines != nil {
		mean = &against{Baseline: &beside.Mean, density: beside.density, scale: schema.Scale}
		if beside.Linear != nil {
			line = &against{Baseline: beside.Linear, density: beside.density, scale: schema.Scale}
		}
	}
	own := make([]float64, 0, model.BlockRows)
	var calibration calibration
	err := src.Read(ctx, func(b *model.Block) error {
		pred, err := describe(ctx, b)
		if err != nil {
			return err
		}
		e.N += b.N
		var s, logLikelihood, rows float64
		own = own[:0]
		for r, v := range b.Y {
			y := schema.Scale.Back(v)
			own = append(own, y)
			w := b.Weight(r)
			rows += w
			logLikelihood += w * pred.logDens[r]
			if point := pred.mean[r]; math.IsNaN(point) {
				e.WithoutMedian++
			} else {
				s += w * (y - point) * (y - point)
				scored += w
			}
			slopes += w * schema.Scale.LogSlope(v)
			law := pred.law(r, v)
			predictive += w * law.predictive
			calibration.add(law.before, law.upto, w)
		}
		e.LogLikelihood += logLikelihood
		sse += s
		weight += rows
		target.add(own, b.Role[model.Weights])
		for _, a := range []*against{mean, line} {
			if a != nil {
				a.add(b)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if groups != nil {
		e.Groups, e.LogLikelihood = len(groups.order), groups.logLikelihood()+slopes
	}
	if numeric.Finite(predictive) {
		e.Predictive = &predictive
	}
	e.Dropped = dataset.Dropped(src)
	if mean := mean.baseline(target, weight); mean != nil {
		e.Baselines = &Baselines{Mean: *mean, Linear: line.baseline(target, weight)}
	}
	if schema.Scale != "" {
		of := e.LogLikelihood - slopes
		e.LogLikelihoodTransformed = &of
	}
	if !schema.Scale.HasMean() {
		e.Point = "median"
	}
	if schema.Roles[model.Weights] != "" {
		e.Weight = weight
	}
	e.RMSE, e.R2 = errorsOf(sse, scored, target, weight)
	if !finite(e.LogLikelihood, e.RMSE, e.R2) {
		r2 := "not defined"
		if e.R2 != nil {
			r2 = fmt.Sprintf("%.3g", *e.R2)
		}
		return nil, &dataset.Error{File: schema.Name,
			Msg: fmt.Sprintf("log-likelihood %.3g, rmse %.3g and r2 %s are not all finite: the model's predictions "+
				"are too far from the data to be squared", e.LogLikelihood, e.RMSE, r2)}
	}
	e.Calibration, e.PITHistogram = calibration.coverage(weight), calibration.bins[:]
	return &e, nil
}

// errorsOf are RMSE and R2 of squared errors over rows of one weight, where the target's squared deviations are over
// rows of another; no R2 where the targets are equal.
func errorsOf(sse, scored float64, target deviations, weight float64) (rmse float64, r2 *float64) {
	rmse = math.Sqrt(sse / scored)
	if target.least == target.most || target.squares == 0 {
		return rmse, nil
	}
	of := 1 - sse/target.squares
	if scored != weight {
		of = 1 - sse/scored/(target.squares/weight)
	}
	return rmse, &of
}

// finite tells whether measures are, and R2 where there is one.
func finite(logLikelihood, rmse float64, r2 *float64) bool {
	return numeric.Finite(logLikelihood, rmse) && (r2 == nil || numeric.Finite(*r2))
}

// deviations accumulates Σw(y − ȳ)² over blocks, without the cancellation of
// Σwy² − nȳ² (Chan, Golub & LeVeque 1983). Of equal targets it may be the square of a rounding error: the least and
// the greatest, of rows with a weight, tell them.
type deviations struct{ n, mean, squares, least, most float64 }

// add takes a block; w is nil where all weights are 1.
func (s *deviations) add(y, w []float64) {
	n := float64(len(y))
	if w != nil {
		n = floats.Sum(w)
	}
	if n == 0 {
		return
	}
	if s.n == 0 {
		s.least, s.most = math.Inf(1), math.Inf(-1)
	}
	mean := stat.Mean(y, w)
	var squares float64
	for i, v := range y {
		d := (v - mean) * (v - mean)
		if w != nil {
			d *= w[i]
		}
		squares += d
		if w == nil || w[i] > 0 {
			s.least, s.most = min(s.least, v), max(s.most, v)
		}
	}
	step := mean - s.mean
	total := s.n + n
	s.squares += squares + step*step*s.n*n/total
	s.mean += step * n / total
	s.n = total
}
