// Package atleast says how many experts there are at least, with confidence: by the likelihoods of fits to one half of
// the rows on the other.
package atleast

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/sdk"
)

// level is the confidence of a lower bound for the number of experts.
const level = 0.95

// Bound is a lower confidence bound for the number of experts, of at most to, by split likelihood ratios (Wasserman,
// Ramdas & Balakrishnan 2020; Nguyen, Fryer & McLachlan 2021). Of random halves D₁ and D₂ of the rows
//
//	E_k = mean over h = 1, 2 of  p(D_{3−h}; fit of k + 1 experts to D_h) / max over at most k experts of p(D_{3−h})
//
// has a mean of at most 1 where k experts are enough, so that E_k ≥ 1/(1 − level) speaks against them with that
// confidence, however irregular mixtures are. Of "at most 1, 2, … experts" the first that stands gives the bound. The
// rows of a group or a cluster are in one half; a weight is a count. The rows are to be independent otherwise, the
// experts' family and activation right. Half h is fitted by fit.
func Bound(ctx context.Context, act sdk.Activation, half [2]dataset.Loaded, to int,
	fit func(h, k int) (*fitted.Model, error)) (*fitted.AtLeast, error) {
	bound := &fitted.AtLeast{K: 1, Level: level, Rows: half[0].Data.N + half[1].Data.N}
	for bound.K < to {
		var e [2]float64
		for h := range half {
			greatest, err := most(bound.K, func(k int) (*fitted.Model, error) { return fit(1-h, k) })
			if err != nil {
				return nil, err
			}
			m, err := fit(h, bound.K+1)
			if err != nil {
				return nil, err
			}
			if e[h], err = newRowsOf(ctx, act, m, half[1-h]); err != nil {
				return nil, err
			}
			e[h] -= greatest
		}
		v := floats.LogSumExp(e[:]) - math.Ln2
		if !numeric.Finite(v) { // a maximum is not known
			break
		}
		bound.LogE = append(bound.LogE, v)
		if v < -math.Log(1-level) {
			break
		}
		bound.K++
	}
	return bound, nil
}

// most is the greatest log-likelihood of at most k experts: +Inf where the search has not come to a maximum of one of
// them.
func most(k int, fit func(k int) (*fitted.Model, error)) (float64, error) {
	greatest := math.Inf(-1)
	for j := 1; j <= k; j++ {
		m, err := fit(j)
		if err != nil || !m.Fit.Converged {
			return math.Inf(1), err
		}
		greatest = max(greatest, m.Fit.LogLikelihood)
	}
	return greatest, nil
}

// newRowsOf is the log-likelihood of rows by the model that predicts new ones.
func newRowsOf(ctx context.Context, act sdk.Activation, m *fitted.Model, rows dataset.Loaded) (float64, error) {
	at := m.ForNewRows().Params()
	return loss.NewLikelihood(rows.Data, act, at, loss.All, 1).LogLikelihood(ctx, at)
}
