package predict

import (
	"math"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
)

// Baselines are what simpler models, fitted to the rows that the model was fitted to, make of the rows of an
// evaluation: what a mixture is to be better than. They are of the same scale of the target.
type Baselines struct {
	Mean Baseline `json:"mean"` // one normal distribution
	// a linear regression on the features with an intercept; null for more than 100 of them
	Linear *Baseline `json:"linear"`
}

// Baseline is how well a normal regression describes rows.
type Baseline struct {
	// null beside a model of whole numbers, whose probabilities no density is to be held against
	LogLikelihood *float64 `json:"log_likelihood"`
	RMSE          float64  `json:"rmse"`
	R2            *float64 `json:"r2"` // null where the targets are equal
}

// simpler are the simpler models beside a model, nil where it has none, and whether their densities compare with what
// it says of a target.
type simpler struct {
	*fitted.Baselines
	density bool
}

// against measures a simpler model while the rows are read.
type against struct {
	*fitted.Baseline
	density                    bool // it has one that compares
	scale                      scaling.Scale
	logLikelihood, sse, scored float64
}

// add takes the rows of a block, whose targets are h(y).
func (a *against) add(b *model.Block) {
	for r, v := range b.Y {
		w, mean := b.Weight(r), a.Intercept
		for j, c := range a.Coefficients {
			mean += c * b.X[j*b.N+r]
		}
		z := (v - mean) / a.Sigma
		a.logLikelihood += w * (a.scale.LogSlope(v) - z*z/2 - math.Log(a.Sigma) - math.Log(2*math.Pi)/2)
		if point := a.scale.Point(mean, a.Sigma); !math.IsNaN(point) { // there is a mean, or a median
			e := a.scale.Back(v) - point
			a.sse, a.scored = a.sse+w*e*e, a.scored+w
		}
	}
}

// baseline is what has come of it; nil where that is not finite.
func (a *against) baseline(target deviations, weight float64) *Baseline {
	if a == nil {
		return nil
	}
	b := new(Baseline)
	b.RMSE, b.R2 = errorsOf(a.sse, a.scored, target, weight)
	if !finite(a.logLikelihood, b.RMSE, b.R2) {
		return nil
	}
	if a.density {
		b.LogLikelihood = &a.logLikelihood
	}
	return b
}
