// Package penalty follows the maxima of the log-likelihood less a penalty on the gate or on the experts, from the
// maximum that a search has found, over how much of a penalty there is, and has the rows choose.
package penalty

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/shrinkage"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/internal/stream"
)

// Maximum is a maximum of the log-likelihood less a ridge on the gate, or a ridge or a lasso on the experts,
//
//	ℓ(θ) − λ·Σ_ij (w_ij − w̄_j)²,    ℓ(θ) − λ·Σ_ij a_ij²/s²    or    ℓ(θ) − λ·Σ_ig √m_g·‖a_ig‖/s
//
// over all k branches of a gate, the last of which is 0, with w̄ their mean, summed over the gates of a tree, in the
// units of the fit: features of unit variance; s² is the mean square of the slopes at the maximum of the likelihood
// ([MeanSquare]), and a_ig are those of expert i of the m_g columns of one thing, a factor's levels together.
// Intercepts are free, and all parameters are at the maximum together. Where a gate separates rows it
// is finite under a ridge on it, where the maximum of the likelihood is not.
type Maximum struct {
	Lambda        float64 // 0 for none
	Params        *model.Params
	LogLikelihood float64 // ℓ alone, of all rows
	Converged     bool
	// HeldOut is what the data say of the ridge: ℓ of rows that were not fitted. NaN where nothing was asked of it.
	HeldOut float64
}

// Path is the maxima over penalties, ascending, with the place of the one that is to be taken.
type Path struct {
	Points []Maximum
	Chosen int
	Folds  int // of the crossvalidation that chose; 0: it was given, or there are too many rows for folds
}

// GateLambdas are the ridges on a gate among which one is chosen, ExpertLambdas those on experts, and LassoLambdas the
// lassos, where none is one of them.
var (
	GateLambdas   = []float64{1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10}
	ExpertLambdas = []float64{0, 1e-2, 1e-1, 3e-1, 1, 3, 10, 30, 100, 1000}
	LassoLambdas  = []float64{0, .1, .2, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

const (
	// hardestStart bounds the coefficients of a gate from which a path begins, in the units of the fit: what is much
	// harder than any ridge leaves it has no gradient.
	hardestStart = 200
	// gateFolds are the folds of the crossvalidation, and mostFolded rows times parameters up to which there is one.
	gateFolds, mostFolded = 10, 2_000_000
	// leastGain is how much more likely the rows that are left out must be under a penalty than under none, where none
	// is one of them: less is chance.
	leastGain = 1
)

// putting puts a penalty of so much on a likelihood.
type putting func(l *loss.Likelihood, lambda float64)

// Gate follows the maxima of the likelihood with a ridge on the gate from a maximum of the likelihood, or from
// where a gate separates, over GateLambdas: each begins where the last ended. With lambda above 0 the path ends there,
// and that is chosen. Else the rows choose: each of ten folds of them is left out in turn, the maxima move on from
// where they are, and the ridge is that under which what was left out has the highest likelihood. Where rows times
// parameters are more than two millions the likelihood of rows that are not fitted is by the information, ℓ − tr(H⁻¹M),
// H that of the penalised likelihood and M the products of the rows' scores. It is nil where no ridge leads to a
// maximum.
func Gate(ctx context.Context, p *problem.Problem, at *model.Params, lambda float64) (*Path, error) {
	return pathOver(ctx, p, softenedStart(at), GateLambdas, lambda,
		func(l *loss.Likelihood, lambda float64) { l.PenaliseGate(2 * lambda) })
}

// Experts is [Gate] of a ridge on the experts over ExpertLambdas, from where the ridge on the gate is
// as given; s² is square. A ridge of ½ is a normal prior of that variance.
func Experts(ctx context.Context, p *problem.Problem, at *model.Params, gate, square,
	lambda float64) (*Path, error) {
	return pathOver(ctx, p, softenedStart(at), ExpertLambdas, lambda,
		func(l *loss.Likelihood, lambda float64) { PutRidge(l, gate, lambda, square) })
}

// Lasso is [Experts] of a lasso over LassoLambdas, on these sets of features. Where all slopes are 0 the
// path ends. It is nil too where there are too many coefficients for a Hessian.
func Lasso(ctx context.Context, p *problem.Problem, at *model.Params, sets [][]int, gate, square,
	lambda float64) (*Path, error) {
	l := loss.NewLikelihood(p.Given, p.G, at, p.Shape.Estimated(), p.Threads)
	if !l.Dense() {
		return nil, nil
	}
	norms := l.ExpertNorms(sets)
	return pathOver(ctx, p, softenedStart(at), LassoLambdas, lambda,
		func(l *loss.Likelihood, lambda float64) { PutLasso(l, norms, gate, lambda, square) })
}

// PutRidge puts a ridge on the gate of l and one on its experts, of which 0 is none: see [Maximum], s² is square.
func PutRidge(l *loss.Likelihood, gate, experts, square float64) {
	l.PenaliseGate(2 * gate)
	tau := 0.0
	if experts > 0 {
		tau = 2 * experts / square
	}
	l.PenaliseExperts(tau)
}

// PutLasso is PutRidge with a lasso on the experts, of their norms.
func PutLasso(l *loss.Likelihood, norms []shrinkage.Norm, gate, experts, square float64) {
	l.PenaliseGate(2 * gate)
	l.PenaliseNorms(shrinkage.Times(norms, experts/math.Sqrt(square)))
}

// MeanSquare is that of the experts' slopes of q, of the features that they have; 0 where they have none.
func MeanSquare(q *model.Params) float64 {
	sum, n := 0.0, 0.0
	for _, a := range q.Regressors {
		if a != 0 {
			sum, n = sum+a*a, n+1
		}
	}
	return sum / max(n, 1)
}

// pathOver is the path from a start over the penalties below lambda and that, or over all where it is 0.
func pathOver(ctx context.Context, p *problem.Problem, from *model.Params, all []float64, lambda float64,
	put putting) (*Path, error) {
	lambdas := all
	if lambda > 0 {
		lambdas = nil
		for _, l := range all {
			if l < lambda {
				lambdas = append(lambdas, l)
			}
		}
		lambdas = append(lambdas, lambda)
	}
	l := loss.NewLikelihood(p.Given, p.G, from, p.Shape.Estimated(), p.Threads)
	points, err := follow(ctx, l, lambdas, put, climb.Climb, func(i int, last *model.Params) *model.Params {
		if i == 0 {
			return from
		}
		return last
	})
	if err != nil || len(points) == 0 || points[0].Params == nil || lambda > 0 && len(points) < len(lambdas) {
		return nil, err
	}
	path := &Path{Points: points, Chosen: len(points) - 1}
	if lambda > 0 {
		return path, nil
	}
	for i, c := range points {
		if c.Params != nil && MeanSquare(c.Params) == 0 { // nothing is left to penalise
			path.Points, path.Chosen = points[:i+1], i
			break
		}
	}
	if p.Size() <= mostFolded {
		path.Folds, err = gateFolds, path.crossValidate(ctx, p, put)
	} else {
		err = path.byInformation(ctx, l, put, p.Kinks())
	}
	if err != nil {
		return nil, err
	}
	path.choose()
	return path, nil
}

// choose takes the point of which the rows that were left out are the most likely, and none where none is one of the
// points and hardly less likely. One whose climb has not converged is taken where there is no other.
func (path *Path) choose() {
	path.Chosen = -1
	for _, converged := range []bool{true, false} {
		for i, c := range path.Points {
			none := c.Lambda == 0 // the fit's own
			if converged && !c.Converged && !none {
				continue
			}
			if at := path.Chosen; at < 0 || c.HeldOut > path.Points[at].HeldOut || math.IsNaN(path.Points[at].HeldOut) {
				path.Chosen = i
			}
		}
		if path.Chosen >= 0 {
			break
		}
	}
	if none := path.Points[0]; none.Lambda == 0 && path.Points[path.Chosen].HeldOut-none.HeldOut < leastGain {
		path.Chosen = 0
	}
}

// climbing is [climb.Climb] or [climb.Near].
type climbing func(context.Context, climb.Likelihood, []float64, func(int, float64) bool) (*optim.Result, error)

// follow is the path of a likelihood, as far as no expert shrinks onto a few rows: each maximum by a climb from where
// start says, which knows the maximum before.
func follow(ctx context.Context, l *loss.Likelihood, lambdas []float64, put putting, climb climbing,
	start func(i int, last *model.Params) *model.Params) (out []Maximum, err error) {
	defer put(l, 0)
	var q *model.Params
	for i, lambda := range lambdas {
		put(l, lambda)
		run, err := climb(ctx, l, l.Theta(start(i, q)), nil)
		if err != nil {
			return nil, err
		}
		q = l.Params(run.X)
		if shrunk, err := l.Degenerate(ctx, q); err != nil || shrunk && lambda > 0 {
			return out, err
		} else if shrunk {
			out, q = append(out, Maximum{LogLikelihood: math.Inf(-1)}), start(i, q)
			continue
		}
		next := Maximum{Lambda: lambda, Params: q, Converged: run.Status == optim.Converged, HeldOut: math.NaN()}
		if next.LogLikelihood, err = l.LogLikelihood(ctx, q); err != nil {
			return nil, err
		}
		out = append(out, next)
	}
	return out, nil
}

// crossValidate fills in what the points say of rows that they are fitted without.
func (path *Path) crossValidate(ctx context.Context, p *problem.Problem, put putting) error {
	fold := Folds(p.N(), gateFolds, p.Seed)
	var lambdas []float64
	for _, c := range path.Points {
		lambdas = append(lambdas, c.Lambda)
	}
	sums := make([][]float64, gateFolds)
	err := model.Parallel(ctx, p.Threads, gateFolds, func(ctx context.Context, f int) error {
		likelihood := func(rows model.Rows) *loss.Likelihood {
			return loss.NewLikelihood(rows, p.G, path.Points[0].Params, p.Shape.Estimated(), 1)
		}
		rest, err := model.Where(ctx, p.Given, func(row int) bool { return fold[row] != f })
		if err != nil {
			return err
		}
		left, err := model.Where(ctx, p.Given, func(row int) bool { return fold[row] == f })
		if err != nil {
			return err
		}
		points, err := follow(ctx, likelihood(rest), lambdas, put, climb.Near,
			func(i int, _ *model.Params) *model.Params { return path.Points[i].Params })
		if err != nil {
			return err
		}
		judge := likelihood(left)
		sums[f] = make([]float64, len(lambdas))
		for i := range sums[f] {
			if sums[f][i] = math.Inf(-1); i < len(points) && points[i].Params != nil {
				if sums[f][i], err = judge.LogLikelihood(ctx, points[i].Params); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range path.Points {
		path.Points[i].HeldOut = 0
		for _, s := range sums {
			path.Points[i].HeldOut += s[i]
		}
	}
	return nil
}

// byInformation fills in ℓ − tr(H⁻¹M), what the information says of rows that are not fitted where each says little of
// any parameter (Takeuchi 1976); NaN where H has no inverse.
func (path *Path) byInformation(ctx context.Context, l *loss.Likelihood, put putting, kinks []float64) error {
	defer put(l, 0)
	for i := range path.Points {
		c := &path.Points[i]
		put(l, c.Lambda)
		effective, err := infer.Effective(ctx, l, c.Params, kinks)
		if none := (*infer.NoneError)(nil); err != nil && !errors.As(err, &none) {
			return err
		}
		if err == nil {
			c.HeldOut = c.LogLikelihood - effective
		}
	}
	return nil
}

// softenedStart is at with gates no coefficient of which is beyond hardestStart: rows stay on their sides.
func softenedStart(at *model.Params) *model.Params {
	q := at.Clone()
	if most := floats.Norm(q.Gating, math.Inf(1)); most > hardestStart {
		floats.Scale(hardestStart/most, q.Gating)
		floats.Scale(hardestStart/most, q.GatingIntercepts)
	}
	return q
}

// Folds deals n rows into folds at random, as equal as can be: those of every crossvalidation.
func Folds(n, folds int, seed uint64) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i % folds
	}
	stream.New(seed, stream.Folds, 0).Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
