package descent

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
)

// Bounds of the projected gradient descent on L_log. σ is brought up to date
// between rounds; the gate has converged when a step changes no coefficient by
// more than gateTolerance. Steps shrink by a tenth each or more, so that what is
// left is about 1e−6, a thousandth of the standard error that 1e6 rows leave.
const (
	gateRounds     = 400
	gateIterations = 25
	gateTolerance  = 1e-7
)

// Gate fits the gate by projected gradient descent on L_log,
// W ← Π(W − η·∇L_log(W)) with Π onto |w_i| ≤ radius (002 §3.2), from W = 0 with
// the regressors of q as they are. Where σ is not given it starts as large as the
// target's rms and is maximised over between rounds of steps. The step
// η = 2/λ_max(E[x·xᵀ]) is the inverse of the largest curvature that L_log can
// have, so that no step raises it. The note says which gating vectors the radius
// holds back, "" for none.
func Gate(ctx context.Context, p *problem.Problem, q *model.Params,
	radius float64) (_ *model.Params, _ *optim.Result, note string, err error) {
	q = p.Shape.WithNoise(q, p.RMS())
	step, err := gateStep(p)
	if err != nil {
		return nil, nil, "", err
	}
	total := &optim.Result{Status: optim.IterationLimit}
	for range gateRounds {
		l := loss.Log(p.Rows, p.G, q, p.Threads)
		run, err := optim.Projected(ctx, l, l.Theta(q), optim.ProjectedSettings{
			Iterations: gateIterations, StepSize: step, Tolerance: gateTolerance, Project: optim.RowBall(p.Shape.D,
				radius),
		})
		if err != nil {
			return nil, nil, "", err
		}
		q = l.Params(run.X)
		total.Value, total.Iterations = run.Value, total.Iterations+run.Iterations
		total.Trace = append(total.Trace, run.Trace[min(len(run.Trace), min(1, len(total.Trace))):]...)
		if run.Status == optim.Diverged {
			total.Status = run.Status
			break
		}
		change := 0.0
		if p.Shape.Sigma == 0 {
			if q, total.Value, change, err = noiseStep(ctx, p, q); err != nil {
				return nil, nil, "", err
			}
		}
		if run.Status == optim.Converged && change <= gateTolerance {
			total.Status = optim.Converged
			break
		}
	}
	return q, total, heldNote(q, radius), nil
}

// noiseStep maximises the likelihood over σ alone and returns the largest
// change of log σ.
func noiseStep(ctx context.Context, p *problem.Problem,
	q *model.Params) (_ *model.Params, value, change float64, err error) {
	l := loss.NewLikelihood(p.Rows, p.G, q, loss.Free{Sigma: true}, p.Threads)
	theta := l.Theta(q)
	run, err := climb.Climb(ctx, l, theta, nil)
	if err != nil {
		return nil, 0, 0, err
	}
	return l.Params(run.X), run.Value, floats.Distance(theta, run.X, math.Inf(1)), nil
}

// gateStep is 2/λ_max(E[x·xᵀ]): the Hessian of L_log is a mean of
// (Cov_p − Cov_r)⊗x·xᵀ over rows, and covariances of one-hot vectors have
// eigenvalues between 0 and ½.
func gateStep(p *problem.Problem) (float64, error) {
	second := p.Second.Covariance()
	mean := mat.NewVecDense(p.Shape.D, p.Second.Mean())
	second.SymRankOne(second, 1, mean)
	var eig mat.EigenSym
	if !eig.Factorize(second, false) {
		return 0, fmt.Errorf("the eigenvalues of the features' second moments cannot be computed")
	}
	return 2 / eig.Values(nil)[p.Shape.D-1], nil
}

func heldNote(q *model.Params, radius float64) string {
	const rounding = 1e-9
	held := 0
	for i := range q.K - 1 {
		if floats.Norm(q.Gate(i), 2) >= radius*(1-rounding) {
			held++
		}
	}
	if held == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d gating vectors stand at the radius %g; a larger one lets them grow", held, q.K-1,
		radius)
}
