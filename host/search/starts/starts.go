// Package starts has the places where climbs to a maximum of the likelihood begin: estimates from moments, random
// directions, lines of clusters.
package starts

import (
	"context"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/splitmerge"
	"github.com/gatedlearning/moe/internal/stream"
)

// Kinds of starts, as model files name them.
const (
	KindMoments         = "moments"         // the moment estimate
	KindSpectral        = "spectral"        // the spectral estimate from the cubic tensor
	KindSpan            = "span"            // random directions in the subspace of T̂2, fitted there first
	KindRandom          = "random"          // random directions in ℝ^d
	KindHeteroscedastic = "heteroscedastic" // random directions, fitted first with a noise level for each expert
	KindKMeans          = "kmeans"          // least squares lines of k-means clusters of (x, y)
	KindOwn             = "own"             // the user's
	KindFlat            = "flat"            // of trees: the best of a search under one gate, arranged
	KindSplits          = "splits"          // of trees: experts split one by one under one gate, arranged

	KindNarrower  = "narrower"  // an optimum under the density of which the family's is a wider one
	KindSpare     = "spare"     // an optimum, with an expert that hardly counts placed anew
	KindNeighbour = "neighbour" // the fit of one expert less or more, in a range of them

	// Kinds of a survey, see search.Survey, beside random and kmeans.
	KindPartition = "partition" // least squares lines of cells that random hyperplanes cut
	KindResiduals = "residuals" // of k-means clusters of (x, residual)
	KindTrimmed   = "trimmed"   // of the rows near random ones, the worst left out
	KindRows      = "rows"      // of a handful of random rows each
	KindMove      = "moves"     // an optimum, of which an expert has been moved
)

// ScreenRidge is the ridge on the gate in the screening, in units of the total log-likelihood: a gate stays soft enough
// to be mended, on more rows as well.
const ScreenRidge = 0.1

// From costlyExperts experts with costlyParams parameters on a start's own maximum, which is seldom the best, takes
// longer to find than the way from there to the best.
const (
	costlyExperts = 10
	costlyParams  = 500
)

// Costly says whether p has as many of both, and no more: see [Many].
func Costly(p *problem.Problem) bool { return atLeast(p, costlyExperts, costlyParams) && !Many(p) }

// From manyExperts experts with manyParams parameters on a climb costs so much, and starts at random meet the best
// optimum so rarely, that none is made to its end that cannot catch up with the best. Fewer parameters cost less, and
// moves carry their starts to the best.
const (
	manyExperts = 16
	manyParams  = 1000
)

// Many says whether p has as many of both.
func Many(p *problem.Problem) bool { return atLeast(p, manyExperts, manyParams) }

func atLeast(p *problem.Problem, experts, parameters int) bool {
	return p.OneGate() && p.Shape.Classes() >= experts && p.Shape.Parameters() >= parameters
}

// Start is where candidates begin. Draw is given random numbers of the
// candidate's own; where there are several targets under one gate Vector stands in its place.
type Start struct {
	Kind   string
	Draw   func(ctx context.Context, rng *rand.Rand) (*model.Params, error)
	Vector func(ctx context.Context, rng *rand.Rand) (*model.VectorParams, error)
}

// Random is random directions with norms about the evidence's and no
// gating. The norms differ so that no two experts are equal where there are few
// directions (d = 1 has two): equal experts stay equal for ever.
func Random(p *problem.Problem, e *moment.Evidence) Start {
	return Start{Kind: KindRandom, Draw: func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
		q := p.Shape.Blank(p.RMS())
		centre, spread := 0.0, p.RMS()
		if p.Link != nil { // in units of the predictor, not of y
			centre, spread = p.Link.Centre, p.Link.Spread
		}
		for i := range q.K {
			a := q.Regressor(i)
			for j := range a {
				a[j] = rng.NormFloat64()
			}
			p.Shape.MaskExperts(a)
			times := e.Norm * math.Exp(rng.NormFloat64()/4)
			if norm := floats.Norm(a, 2); norm > 0 { // experts see some feature
				floats.Scale(times/norm, a)
			}
		}
		for i := range q.RegressorIntercepts {
			q.RegressorIntercepts[i] = centre + spread*rng.NormFloat64()
		}
		if o := p.Shape.Output; o != nil {
			o.Draw(rng, q)
			for i := range q.RegressorIntercepts { // in units of the predictor, not of y
				q.RegressorIntercepts[i] *= e.Norm / p.RMS()
			}
		}
		return q, nil
	}}
}

const (
	// leastLevel is the smallest of those levels, as a share of the target's rms.
	leastLevel = 1e-3
	// levelSteps of EM are made at most, where so many times rows times parameters are levelWork at most: some twenty
	// seconds of one core.
	levelSteps, levelWork = 300, 2e10
	// pooledSteps and pooledWork are the same of steps that cost a row k·d: a minute. They go on until they
	// gain less than pooledCrawl of a row: where few experts have found rows they pass by plateaus.
	pooledSteps, pooledWork, pooledCrawl = 1000, 4.1e11, 1e-5
)

// Levelled says whether random starts of p are fitted to these rows with a noise level for each expert first: where
// many share one, and that is not too much work.
func Levelled(p *problem.Problem, rows model.Rows) bool {
	n, _ := rows.Dims()
	steps, most := levelSteps, levelWork
	if Pooled(p) {
		steps, most = pooledSteps, pooledWork
	}
	return p.OneGate() && p.Shape.ManyShare() && p.Link == nil &&
		float64(n)*float64(steps*p.Shape.Parameters()) <= most
}

// Pooled says whether such starts are fitted without a gate first, and climbs make pooled steps of EM
// ([loss.Likelihood.PoolCurvature]), where others would cost too much.
func Pooled(p *problem.Problem) bool {
	return Many(p) && p.Link == nil && p.Shape.Output == nil && len(p.Shape.Free().Tied) == 0
}

// Heteroscedastic is [Random], fitted to rows in memory with a noise level for each expert first: one that has found
// its rows gets a small level and lets go of the others, and those that have not stay wide until they find some. Where
// all have one level, which the worst decide, a wrong expert keeps what it has. [Many] of them have no gate meanwhile,
// and pooled curvatures.
func Heteroscedastic(p *problem.Problem, e *moment.Evidence, rows model.Rows) Start {
	random, shape := Random(p, e), p.Shape
	shape.PerExpert = true
	return Start{Kind: KindHeteroscedastic, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		begin, err := random.Draw(ctx, rng)
		if err != nil {
			return nil, err
		}
		q, free := shape.Adopt(begin), shape.Free()
		free.LeastSigma = leastLevel * p.RMS()
		free.Gating = !Pooled(p)
		l := loss.NewLikelihood(rows, p.G, q, free, 1)
		em, set := optim.EM, optim.Settings{Iterations: levelSteps, Tolerance: climb.Crawl}
		if free.Gating {
			l.PenaliseGate(ScreenRidge)
			l.ReuseCurvature()
		} else {
			em, set = optim.SQUAREM, optim.Settings{Iterations: pooledSteps, Tolerance: pooledCrawl}
			if err := l.PoolCurvature(ctx); err != nil {
				return nil, err
			}
		}
		r, err := em(ctx, l, l.Theta(q), set)
		if err != nil {
			return nil, err
		}
		q = l.Params(r.X)
		return p.Shape.WithNoise(p.Shape.Adopt(q), floats.Norm(q.Sigma, 2)/math.Sqrt(float64(q.K))), nil
	}}
}

// mostOwnPrecision is how many times smaller than the target's rms the noise of
// the user's start may be: smaller, and a start that is a little off freezes where
// it is.
const mostOwnPrecision = 10

// Own is the user's start, given in the units of the data.
func Own(p *problem.Problem, start *model.Params) Start {
	return Start{Kind: KindOwn, Draw: func(context.Context, *rand.Rand) (*model.Params, error) {
		q := p.Units.Into(start.Clone())
		if p.Shape.Density().Domain().Scale {
			for i, s := range q.Sigma {
				q.Sigma[i] = max(s, p.RMS()/mostOwnPrecision)
			}
		}
		return p.Shape.Adopt(q), nil
	}}
}

// Moments is a moment estimate of this kind with a gate fitted to it on part of the rows.
func Moments(p *problem.Problem, e *moment.Evidence, kind string, est *moment.Estimate, part model.Rows) Start {
	return Start{Kind: kind, Draw: func(ctx context.Context, _ *rand.Rand) (*model.Params, error) {
		by := climb.Way(climb.Climb)
		if Many(p) || Costly(p) {
			by = climb.Approach // the start's own climb goes on from there
		}
		q, _, err := fitGate(ctx, p, part, moment.Begin(p, e, est), ScreenRidge, 1, by)
		return q, err
	}}
}

// FitGate fits the gate, and σ with it, by L_log over the rows with the
// regressors as they are, from a gate of 0 and a σ as large as the target's rms
// (002 §3.2), with a ridge on the gate if it is not 0. The noise of a density that is not normal begins where q has it.
func FitGate(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params, ridge float64,
	workers int) (*model.Params, *optim.Result, error) {
	return fitGate(ctx, p, rows, q, ridge, workers, climb.Climb)
}

// fitGate is [FitGate] by another climb.
func fitGate(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params, ridge float64,
	workers int, by climb.Way) (*model.Params, *optim.Result, error) {
	q = q.Clone()
	if p.Link == nil {
		p.Shape.StartNoise(q, p.RMS())
	}
	l := loss.NewLikelihood(rows, p.G, q, loss.Free{Gating: true, Sigma: true, GateColumns: p.Shape.Gate}, workers)
	l.PenaliseGate(ridge)
	run, err := by(ctx, l, l.Theta(q), nil)
	if err != nil {
		return nil, nil, err
	}
	return l.Params(run.X), run, nil
}

// KMeans clusters the rows (x, y), each column at unit variance, by k-means with
// k-means++ seeds, and fits a least squares line of y on x to each cluster. Where the noise is not normal
// y is the working predictor, see [problem.Link].
func KMeans(p *problem.Problem, rows model.Rows) Start {
	return Start{Kind: KindKMeans, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		data, err := model.InMemory(ctx, p.Link.Working(rows), 1)
		if err != nil {
			return nil, err
		}
		return partition.Lines(p, rng, data, partition.Of(data).Clusters(rng, p.Shape.K)), nil
	}}
}

// Subspace is random orthonormal directions of the whitened subspace of T̂2. They
// are first fitted as a mixture over its k coordinates, in which part are the
// projected rows, which is cheap, then lifted to ℝ^D. The gate of that small
// problem has an intercept: where gating and regressors are orthogonal, the
// gate given z = Uᵀx is constant. Where starts are costly the small mixture is
// carried on by moves of split and merge, each of which costs a part of what it
// would in ℝ^d.
func Subspace(p *problem.Problem, e *moment.Evidence, projected model.Rows) Start {
	return Start{Kind: KindSpan, Draw: func(ctx context.Context, rng *rand.Rand) (*model.Params, error) {
		s := e.Subspace
		d, k := s.Basis.Dims()
		small := model.NewParams(k, k)
		small.GatingIntercepts = make([]float64, k-1)
		if p.Shape.Intercept {
			small.RegressorIntercepts = make([]float64, k)
		}
		small.Sigma[0] = p.RMS()
		free := loss.All
		if o := p.Shape.Output; o != nil {
			begin := p.Shape.Blank(p.RMS())
			o.Draw(rng, begin)
			small.Offset, small.Scale, free.FixedScale = begin.Offset, begin.Scale, o.Fixed
		}
		small.Regressors = spread(rng, s.Values, e.Norm)
		l := loss.NewLikelihood(projected, p.G, small, free, 1)
		l.PenaliseGate(ScreenRidge)
		l.ReuseCurvature()
		if Pooled(p) {
			if err := l.PoolCurvature(ctx); err != nil {
				return nil, err
			}
		}
		r, err := optim.EM(ctx, l, l.Theta(small), optim.Settings{Iterations: 60, Tolerance: 1e-4})
		if err != nil {
			return nil, err
		}
		if Costly(p) {
			if r, err = carried(ctx, l, r, splitmerge.Of(p, projected, rng)); err != nil {
				return nil, err
			}
		}
		small = l.Params(r.X)
		q := model.NewParams(k, d)
		q.RegressorIntercepts, q.GatingIntercepts = small.RegressorIntercepts, small.GatingIntercepts
		s.Lift(q.Regressors, small.Regressors)
		s.Lift(q.Gating, small.Gating)
		q.Sigma[0] = small.Sigma[0]
		q.Offset, q.Scale = small.Offset, small.Scale
		return p.Shape.Adopt(q), nil
	}}
}

// spanRounds bounds the moves that carry on a small mixture.
const spanRounds = 20

// carried goes on from where r ended by moves, until none gains.
func carried(ctx context.Context, l *loss.Likelihood, r *optim.Result,
	moves splitmerge.Proposals[*model.Params]) (*optim.Result, error) {
	for range spanRounds {
		better, err := splitmerge.Improve(ctx, l, r, moves, climb.Leap)
		if better == nil || err != nil {
			return r, err
		}
		r = better
	}
	return r, nil
}

// spread returns k random directions, one after the other, in the coordinates of a subspace with
// these eigenvalues: orthogonal in the whitened ones, all of the same norm.
func spread(rng *rand.Rand, values []float64, norm float64) []float64 {
	k := len(values)
	u := moment.RandomOrthonormal(rng, k)
	for i := range k {
		a := u[i*k : (i+1)*k]
		for j, v := range values {
			a[j] *= math.Sqrt(v)
		}
		floats.Scale(norm/floats.Norm(a, 2), a)
		if stream.Coin(rng) {
			floats.Scale(-1, a)
		}
	}
	return u
}
