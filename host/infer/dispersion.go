package infer

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Dispersion returns p with the first own parameter ψ of its density corrected for the experts' coefficients β that are
// estimated beside it: at the maximum p of l the rows, which are l's, seem to spread less than they do, since β fits
// some of the noise. c is the covariance there. The adjusted profile likelihood (Cox & Reid 1987)
//
//	ℓ_A(ψ) = ℓ_p(ψ) − ½·log|S(ψ)|,   S_i = Σ_t w_ti·x_t·x_tᵀ,   w_ti = p_i(x_t)·g′(z_ti)²·E[−∂²log f_i/∂m_i²]
//
// is, to first order, that of ψ where β is integrated over. From the maximum of ℓ_p a Newton step of log ψ is
//
//	Δ = −½·J⁻¹·Σ_i q_i·δ_i,   δ_i = Σ_t ∂w_ti/∂log ψ / Σ_t w_ti
//
// with q_i the number of expert i's coefficients, a share of those that it has with others, and J the information of
// log ψ where the density's other own parameters are held and all else has followed. q·δ is tr(S⁻¹·∂S/∂log ψ) where
// ∂log w/∂log ψ is the same at all rows: −2 of normal noise and of a t law, 1 of a gamma law's shape. [byStep] has how
// the step is taken. Of normal noise it leads to σ²·n/(n−q), as [NoiseCorrected] does. It is nil where c has no ψ.
func Dispersion(ctx context.Context, c *Covariance, l *loss.Likelihood, rows model.Rows,
	p *model.Params) (*model.Params, error) {
	own := mixture.DensityOf(p.Family).Own()
	if c.inverse == nil {
		return nil, nil
	}
	// Places in θ of log ψ, of those at their end, and of the logarithms of other own parameters.
	var first, ended, others []int
	coefficients := make([]float64, p.K)
	parameters := l.Parameters()
	for at, q := range parameters {
		switch {
		case q.Part == model.Noise && q.Own == 0 && own[0].Reciprocal && *q.In(p) > own[0].Most*(1-1e-6):
			ended = append(ended, at)
		case !(c.inverse.At(at, at) > 0): // it is held
		case q.Part == model.Expert:
			coefficients[q.Index] += share(l.Ties(), at)
		case q.Part == model.Noise && q.Own == 0:
			first = append(first, at)
		case q.Part == model.Noise:
			others = append(others, at)
		}
	}
	if len(first)+len(ended) == 0 {
		return nil, nil
	}
	rises, err := informationRises(ctx, l.Activation(), rows, p)
	if err != nil {
		return nil, err
	}
	adjusted := func(at int) (score float64) { // what −½·log|S| adds to the score of log ψ
		for i, rise := range rises {
			if len(p.Sigma) == 1 || parameters[at].Index == i {
				score -= coefficients[i] * rise / 2
			}
		}
		return score
	}
	out := p.Clone()
	if len(first) > 0 {
		v, known := conditional(c.inverse, first, others)
		if !known {
			return nil, nil
		}
		score := mat.NewVecDense(len(first), nil)
		for m, at := range first {
			score.SetVec(m, adjusted(at))
		}
		var steps mat.VecDense
		steps.MulVec(v, score)
		for m, at := range first {
			psi := p.OwnOf(nil, parameters[at].Index)
			moved := psi[0] * byStep(own[0], psi, steps.AtVec(m))
			*parameters[at].In(out) = min(max(moved, own[0].Least), own[0].Most)
		}
	}
	if len(ended) > 0 {
		scores, information, err := ownScores(ctx, l.Activation(), rows, p)
		if err != nil {
			return nil, err
		}
		for _, at := range ended {
			m := parameters[at].Index
			moved := beyondEnd(*parameters[at].In(p), scores[m]+adjusted(at), information[m])
			*parameters[at].In(out) = min(max(moved, own[0].Least), own[0].Most)
		}
	}
	return out, nil
}

// beyondEnd is 1/E[u] of a reciprocal u = 1/ψ that is 0 at the end ψ, where the adjusted score of log ψ and its
// information are given. By a likelihood that is quadratic in u, u is normal, of mean score/information and variance
// 1/information by u, and not below 0: its mean there is above 0, however far the likelihood falls.
func beyondEnd(psi, score, information float64) float64 {
	sd := 1 / (math.Sqrt(information) * psi) // of u: ∂log ψ/∂u is −ψ
	at := -score / math.Sqrt(information)    // the mean over the standard deviation
	return 1 / (sd * (at + hazard(-at)))
}

// hazard is φ(x)/(1 − Φ(x)) of a standard normal, by its first terms where 1 − Φ is small.
func hazard(x float64) float64 {
	if x > 30 {
		return x + 1/x
	}
	return distuv.UnitNormal.Prob(x) / distuv.UnitNormal.Survival(x)
}

// ownScores returns for each level the score of log ψ of its rows, and the sum of the squares of theirs, its
// information where the law is right.
func ownScores(ctx context.Context, act model.Activation, rows model.Rows,
	p *model.Params) (scores, information []float64, err error) {
	scores, information = make([]float64, len(p.Sigma)), make([]float64, len(p.Sigma))
	all, row := mixture.NewPosteriors(act, p), make([]float64, model.BlockRows)
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		post, err := all.Of(ctx, b, nil)
		if err != nil {
			return err
		}
		for m := range scores {
			post.NoiseScore(row[:b.N], m, 0)
			for t, v := range row[:b.N] {
				scores[m] += b.Weight(t) * v
				information[m] += b.Weight(t) * v * v
			}
		}
		return nil
	})
	return scores, information, err
}

// share is that of a coefficient which some experts have together.
func share(ties [][]int, at int) float64 {
	for _, places := range ties {
		if slices.Contains(places, at) {
			return 1 / float64(len(places))
		}
	}
	return 1
}

// mostCorrection bounds how many times a variance grows by the correction: a longer step is none from near a maximum.
const mostCorrection = 4

// byStep is the factor of the first own parameter of ψ by a Newton step that is Δ of its logarithm, in what the
// likelihood is nearly quadratic in: 1/ψ of a reciprocal, ψ itself of others, and of a scale σ^−κ, where the third
// derivative by it is 0 in the mean: κ is 2 of normal noise, and 2(ν−1)/(ν+5) of a t law.
func byStep(own mixture.OwnParameter, psi []float64, step float64) float64 {
	const least, most = 1. / mostCorrection, mostCorrection
	switch {
	case own.Name == mixture.Sigma && len(psi) > 1 && psi[1] < 1+1e-6:
		return math.Exp(min(step, math.Log(most)/2))
	case own.Name == mixture.Sigma:
		kappa := 2.0
		if len(psi) > 1 {
			kappa *= (psi[1] - 1) / (psi[1] + 5)
		}
		return min(math.Pow(max(1-kappa*step, 1e-9), -1/kappa), math.Sqrt(most))
	case own.Reciprocal:
		return 1 / min(max(1-step, least), most)
	}
	return min(max(1+step, least), most)
}

// conditional is the covariance of some parameters where others are held, by that of all; false where there is none.
func conditional(all *mat.SymDense, of, held []int) (*mat.SymDense, bool) {
	if len(held) == 0 {
		return submatrix(all, of), true
	}
	both, err := inverse(submatrix(all, append(slices.Clone(of), held...)))
	if err != nil {
		return nil, false
	}
	first := make([]int, len(of))
	for i := range first {
		first[i] = i
	}
	v, err := inverse(submatrix(both, first))
	return v, err == nil
}

// stepOfPsi is that of central differences by log ψ, with errors of 1e−10 of a value.
const stepOfPsi = 1e-5

// informationRises returns δ_i, see [Dispersion].
func informationRises(ctx context.Context, act model.Activation, rows model.Rows, p *model.Params) ([]float64, error) {
	const n = model.BlockRows
	own := len(mixture.DensityOf(p.Family).Own())
	post := mixture.NewPosterior(mixture.Mixture{}, p.K)
	means, slopes, terms := make([]float64, p.K*n), make([]float64, p.K*n), mixture.NewTerms(own)
	total, rises := make([]float64, p.K), make([]float64, p.K)
	err := model.InOrder(ctx, rows, func(b *model.Block) error {
		z, mean, slope := make([]float64, p.K*b.N), means[:p.K*b.N], slopes[:p.K*b.N]
		p.Predictors(z, b)
		if err := act.Eval(ctx, mean, z); err != nil {
			return err
		}
		if err := act.Deriv(ctx, slope, z); err != nil {
			return err
		}
		post.Given(p, b)
		for i := range p.K {
			here, psi := terms.First(b.N), p.OwnOf(nil, i)
			at, prior := i*b.N, post.PriorOf(i)
			for side, by := range []float64{0, stepOfPsi, -stepOfPsi} {
				psi := slices.Clone(psi)
				psi[0] *= math.Exp(by)
				post.Density.Derive(here, b.Y, mean[at:at+b.N], psi)
				for t, e := range here.Expected {
					w := b.Weight(t) * prior[t] * slope[at+t] * slope[at+t] * e
					switch {
					case math.IsNaN(w) || math.IsInf(w, 0):
					case side == 0:
						total[i] += w
					case side == 1:
						rises[i] += w / (2 * stepOfPsi)
					default:
						rises[i] -= w / (2 * stepOfPsi)
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range rises {
		if rises[i] /= total[i]; !(total[i] > 0) {
			rises[i] = 0
		}
	}
	return rises, nil
}
