package moment

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
)

// Sign gives the regressors the signs that the first moment asks for, and notes
// where it should tell them and does not.
func (est *Estimate) Sign(p *problem.Problem, e *Evidence) {
	if why := ChooseSigns(est.Params, p.Second.YX(), p.Moments); why != "" && e.Verdict.SignsIdentifiable {
		est.Notes = append(est.Notes, "the first moment does not tell the regressors' signs: "+why)
	}
}

// ChooseSigns gives the regressors of p the signs that the first moment yx =
// E[y·x] asks for (Ge, Lee & Ma 2018; 002 Remark 1): E[y·x] =
// E[g′(Z)]·Σ_i p_i s_i a_i, so the signs of the coefficients of E[y·x] in the
// basis of the rows are the s_i. Where that cannot tell it leaves the rows alone
// and says why.
func ChooseSigns(p *model.Params, yx []float64, m sdk.Moments) (obstacle string) {
	slope := m.Value[1][1] // E[g′(Z)] = E[g(Z)·Z]
	if math.Abs(slope) < 1e-8*math.Sqrt(m.Value[2][0]) {
		return "E[g'(Z)] = 0"
	}
	return signsOf(p, yx, slope)
}

// signsOf is [ChooseSigns] of slope·Σ_i p_i s_i a_i.
func signsOf(p *model.Params, yx []float64, slope float64) (obstacle string) {
	dual, err := tensor.PseudoInverseRows(mat.NewDense(p.K, p.D, append([]float64(nil), p.Regressors...)))
	if err != nil {
		return "the estimated regressors are linearly dependent"
	}
	for i := range p.K {
		if floats.Dot(dual.RawRowView(i), yx)/slope < 0 {
			floats.Scale(-1, p.Regressor(i))
		}
	}
	return ""
}

// signByFirst is Sign by T_1 of a density that is not normal: y need not have a mean.
func (est *Estimate) signByFirst(ctx context.Context, p *problem.Problem, e *Evidence) error {
	if !e.Optimal.Has(1) { // of an even g
		return nil
	}
	first, err := firstMoment(ctx, p, e)
	if err != nil {
		return err
	}
	if why := signsOf(est.Params, first, 1); why != "" {
		est.Notes = append(est.Notes, "the first moment does not tell the regressors' signs: "+why)
	}
	return nil
}
