package host

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// byL4 is 002 Section 4 on a table: SGD on L4 in ℝ^d from random unit rows, the
// regressors as the rows of (A†)ᵀ, their signs by the first moment, then L_log by
// projected gradient descent. On a table L4 has no lower bound: a run that leaves
// for infinity ends diverged, with the model of the point at which it moved
// least.
func (f *fit) byL4(ctx context.Context) (*fitted.Model, error) {
	if why := f.unidentified(); why != "" {
		return nil, &RequestError{"L4 does not determine the regressors: " + why + "; method auto falls back to the likelihood"}
	}
	f.noteInputs()
	descended, estimate, err := f.descendL4(ctx)
	if err != nil {
		return nil, err
	}
	f.adoptEstimate(estimate)
	c := &climber{kind: KindRandom, rows: f.data.N, agrees: true}
	f.progress(StageFinish, 0, 1)
	if c.params, c.run, err = f.gatingAlone(ctx, f.adopt(estimate.params)); err != nil {
		return nil, err
	}
	if c.failed() {
		return nil, f.noneFinite()
	}
	if descended != optim.Converged {
		c.run.Status, c.agrees = descended, false
	}
	f.noteNoCertificate()
	return f.model(ctx, c, []*climber{c})
}

// l4Bound is the largest |entry| of A at which a descent of L4 has not yet
// diverged. Minima of L4 have rows of norm 1/√p where the regressors are
// orthogonal.
const l4Bound = 100

// descendL4 takes SGD down L4 and returns how it ended and the estimate.
func (f *fit) descendL4(ctx context.Context) (optim.Status, *momentEstimate, error) {
	how, q, k, d := f.descent, f.transform, f.cfg.K, f.data.D
	data := f.inputs.whitened(f.data)
	l := loss.NewOnlineL4(k, d, q, f.cfg.Mu, how.Lambda, *how.Ridge)
	rng := rand.New(rand.NewPCG(f.cfg.Seed, 1<<34))
	t, err := f.descend(ctx, l, data, unitRows(rng, k, d), rng, l4Bound, f.epochs(1))
	if err != nil {
		return t.Status, nil, err
	}
	whole := &loss.Whole{Loss: l, Rows: data}
	early, err := t.unsettled(ctx, whole, func(x []float64) *model.Params { return f.readL4(x).params })
	if err != nil {
		return t.Status, nil, err
	}
	f.noteEarly(early)
	made := t.Iterations
	if t.Status == optim.Diverged {
		var at int
		at, t.X = t.stillest()
		f.noteL4Diverged(made, t.steps, at)
	}
	value, err := whole.Value(ctx, t.X)
	if err != nil {
		return t.Status, nil, err
	}
	f.record(MethodL4, made, t.steps, value)
	f.descended.Mu, f.descended.Lambda, f.descended.Ridge, f.descended.Radius = f.cfg.Mu, how.Lambda, how.Ridge, f.cfg.Radius
	return t.Status, f.readL4(t.X), nil
}

func (f *fit) noteL4Diverged(made, steps, kept int) {
	text := fmt.Sprintf("L4 diverged after %d of %d mini-batches: over the rows of a table it has no lower bound. The model is that of mini-batch %d, where it moved least. "+
		"Try fewer epochs, a smaller step size, a larger lambda or ridge, or method moments, whose L4 is bounded", made, steps, kept)
	if f.scale != 1 {
		text += fmt.Sprintf("; and L4 takes regressors to be of unit norm: divide the target by about %.3g", f.scale)
	}
	f.note(text)
}

// readL4 reads regressors and proportions from the rows of A: at a minimum of L4
// (A†)ᵀ has the rows √p_i·a_i (002 Theorem 1). Where A has no full rank its own
// rows stand in.
func (f *fit) readL4(a []float64) *momentEstimate {
	k, d := f.cfg.K, f.data.D
	rows := mat.NewDense(k, d, slices.Clone(a))
	if dual, err := loss.PseudoInverseRows(rows); err == nil && finite(dual.RawMatrix().Data) {
		rows = dual
	}
	e := &momentEstimate{params: model.NewParams(k, d), proportions: make([]float64, k)}
	for i := range k {
		row := rows.RawRowView(i)
		norm := max(floats.Norm(row, 2), math.SmallestNonzeroFloat64)
		e.proportions[i] = norm * norm
		to := e.params.Regressor(i)
		copy(to, row)
		if w := f.inputs.whiten; w != nil {
			mat.NewVecDense(d, to).MulVec(w, mat.NewVecDense(d, row))
		}
		if norm := floats.Norm(to, 2); norm > 0 {
			floats.Scale(1/norm, to)
		}
	}
	floats.Scale(1/max(floats.Sum(e.proportions), math.SmallestNonzeroFloat64), e.proportions)
	return e
}

func finite(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) })
}

// whitened returns the data with features of mean 0 and unit covariance, or as
// they are where they are N(0, I) or cannot be whitened.
func (in *inputs) whitened(data *model.Data) *model.Data {
	if in.whiten == nil {
		return data
	}
	out := &model.Data{N: data.N, D: data.D, Blocks: make([]model.Block, len(data.Blocks))}
	for t := range data.Blocks {
		from := &data.Blocks[t]
		to := model.Block{N: from.N, X: make([]float64, len(from.X)), Y: from.Y, W: from.W}
		for j := range data.D {
			shift := 0.0
			for i := range data.D {
				w := in.whiten.At(j, i)
				floats.AddScaled(to.Col(j), w, from.Col(i))
				shift += w * in.centre[i]
			}
			floats.AddConst(-shift, to.Col(j))
		}
		out.Blocks[t] = to
	}
	return out
}

// Bounds of the projected gradient descent on L_log. σ is brought up to date
// between rounds; the gate has converged when a step changes no coefficient by
// more than gateTolerance. Steps shrink by a tenth each or more, so that what is
// left is about 1e−6, a thousandth of the standard error that 1e6 rows leave.
const (
	gateRounds     = 400
	gateIterations = 25
	gateTolerance  = 1e-7
)

// gatingWithin fits the gate by projected gradient descent on L_log,
// W ← Π(W − η·∇L_log(W)) with Π onto |w_i| ≤ Radius (002 §3.2), from W = 0 with
// the regressors as they are. Where σ is not given it starts as large as the
// target's spread and is maximised over between rounds of steps. The step
// η = 2/λ_max(E[x·xᵀ]) is the inverse of the largest curvature that L_log can
// have, so that no step raises it.
func (f *fit) gatingWithin(ctx context.Context, p *model.Params) (*model.Params, *optim.Result, error) {
	p = p.Clone()
	for i := range p.Sigma {
		p.Sigma[i] = f.spread()
	}
	if f.cfg.Sigma > 0 {
		f.fixSigma(p)
	}
	step, err := f.gateStep()
	if err != nil {
		return nil, nil, err
	}
	total := &optim.Result{Status: optim.IterationLimit}
	for range gateRounds {
		l := loss.Log(f.data, f.act, p, f.cfg.Threads)
		run, err := optim.Projected(ctx, l, l.Theta(p), optim.ProjectedSettings{
			Iterations: gateIterations, StepSize: step, Tolerance: gateTolerance, Project: optim.RowBall(f.data.D, f.cfg.Radius),
		})
		if err != nil {
			return nil, nil, err
		}
		p = l.Params(run.X)
		total.Value, total.Iterations = run.Value, total.Iterations+run.Iterations
		total.Trace = append(total.Trace, run.Trace[min(len(run.Trace), min(1, len(total.Trace))):]...)
		if run.Status == optim.Diverged {
			total.Status = run.Status
			break
		}
		change := 0.0
		if f.cfg.Sigma == 0 {
			if p, total.Value, change, err = f.sigmaStep(ctx, p); err != nil {
				return nil, nil, err
			}
		}
		if run.Status == optim.Converged && change <= gateTolerance {
			total.Status = optim.Converged
			break
		}
	}
	f.noteRadius(p)
	return p, total, nil
}

// sigmaStep maximises the likelihood over σ alone and returns the largest
// change of log σ.
func (f *fit) sigmaStep(ctx context.Context, p *model.Params) (_ *model.Params, value, change float64, err error) {
	l := loss.NewLikelihood(f.data, f.act, p, loss.Free{Sigma: true}, f.cfg.Threads)
	theta := l.Theta(p)
	run, err := refine(ctx, l, theta, nil)
	if err != nil {
		return nil, 0, 0, err
	}
	return l.Params(run.X), run.Value, floats.Distance(theta, run.X, math.Inf(1)), nil
}

// gateStep is 2/λ_max(E[x·xᵀ]): the Hessian of L_log is a mean of
// (Cov_p − Cov_r)⊗x·xᵀ over rows, and covariances of one-hot vectors have
// eigenvalues between 0 and ½.
func (f *fit) gateStep() (float64, error) {
	second := f.second.Covariance()
	mean := mat.NewVecDense(f.data.D, f.second.Mean())
	second.SymRankOne(second, 1, mean)
	var eig mat.EigenSym
	if !eig.Factorize(second, false) {
		return 0, fmt.Errorf("the eigenvalues of the features' second moments cannot be computed")
	}
	return 2 / eig.Values(nil)[f.data.D-1], nil
}

// noteRadius says which gating vectors the radius holds back.
func (f *fit) noteRadius(p *model.Params) {
	const rounding = 1e-9
	held := 0
	for i := range p.K - 1 {
		if floats.Norm(p.Gate(i), 2) >= f.cfg.Radius*(1-rounding) {
			held++
		}
	}
	if held > 0 {
		f.note(fmt.Sprintf("%d of %d gating vectors stand at the radius %g; a larger one lets them grow", held, p.K-1, f.cfg.Radius))
	}
}
