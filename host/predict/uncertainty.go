package predict

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Uncertainty is that of the parameters of a model, as prediction intervals take it. With the covariance C of all
// parameters, the experts' means m, the gate's predictors η and the logarithms of σ are normal at x to first order,
//
//	(m, η, log σ)(x) ~ N(estimates, J·C·Jᵀ)
//	∂m_i/∂(a_i, b_i, c, s) = (s·g′(z_i)·x, s·g′(z_i), 1, g(z_i)),   ∂η_j/∂(w_j, v_j) = (x, 1)
//
// with σ corrected for degrees of freedom (infer.NoiseCorrected), and F(y|x) is the mean of Σ_i p_i(η)·Φ((y − m_i)/σ_i)
// over that. Given u = (η, log σ) the means are normal still, and y under expert i is N(E[m_i|u], σ_i(u)² +
// Var[m_i|u]); the mean over u is a sum over the points of a cubature that is exact to the third degree (Julier &
// Uhlmann 1997): all terms of first order in C but those of the curvature of m in the parameters, and bounded where C
// is large.
type Uncertainty struct {
	sigma  []float64 // K, corrected
	cov    [][]float64
	means  [][]dependence // K, of the experts' means
	gate   [][]dependence // K−1, of the gate's predictors
	levels []level        // of noise that the covariance has

	arrangements []arrangement // that predictions are over; nil: one
}

// dependence is on the parameter that stands at a row of the covariance.
type dependence struct{ at, feature int }

// level is a noise level: of one expert, or of all.
type level struct{ at, expert int }

const (
	ofIntercept = -1 - iota
	ofOffset
	ofScale
)

// UncertaintyOf is that of a model's parameters, and of its arrangements where they have weights; nil where the model
// has no covariance, or noise that is not normal, and none of them.
func UncertaintyOf(m *fitted.Model) *Uncertainty {
	if all := arrangementsOf(m); all != nil {
		return &Uncertainty{arrangements: all}
	}
	if m.Covariance == nil || m.Family != "" { // their variances add up for normal noise alone
		return nil
	}
	u := &Uncertainty{sigma: make([]float64, m.K), cov: m.Covariance.Matrix, means: make([][]dependence, m.K),
		gate: make([][]dependence, model.Gates(m.K))}
	corrected := m.Sigma
	if s := m.StandardErrors; s != nil && s.SigmaCorrected != nil {
		corrected = s.SigmaCorrected
	}
	for i := range u.sigma {
		u.sigma[i] = corrected[min(i, len(corrected)-1)]
	}
	for at, name := range m.Covariance.Parameters {
		u.place(m, at, name)
	}
	return u
}

// allOf stands for every expert.
const allOf = -1

// place notes what depends on the parameter at a row of the covariance, by its name of infer.Covariance.Names.
func (u *Uncertainty) place(m *fitted.Model, at int, name string) {
	whose, column, coefficient := strings.Cut(name, ":")
	feature := slices.Index(m.Features, column)
	if feature < 0 {
		feature = ofIntercept
	}
	for of, dst := range map[string][][]dependence{"expert": u.means, "gate": u.gate} {
		if i := numberOf(whose, of); coefficient && i >= 0 && i < len(dst) {
			dst[i] = append(dst[i], dependence{at, feature})
		}
	}
	if coefficient {
		return
	}
	if i := numberOf(whose, "sigma"); i >= allOf && i < m.K {
		u.levels = append(u.levels, level{at, i})
	}
	for of, feature := range map[string]int{"offset": ofOffset, "scale": ofScale} {
		for i, n := 0, numberOf(whose, of); i < m.K && n >= allOf; i++ {
			if n == allOf || n == i {
				u.means[i] = append(u.means[i], dependence{at, feature})
			}
		}
	}
}

// numberOf is i of a name such as sigma2, counted from 0; allOf of one without a number, and less of another name.
func numberOf(name, of string) int {
	number, ok := strings.CutPrefix(name, of)
	if ok && number == "" {
		return allOf
	}
	if i, err := strconv.Atoi(number); ok && err == nil && i > 0 {
		return i - 1
	}
	return allOf - 1
}

// hidden is how many numbers a row's gate and noise are functions of.
func (u *Uncertainty) hidden() int { return len(u.gate) + len(u.levels) }

// points is how many the cubature has.
func (u *Uncertainty) points() int { return 1 + 2*u.hidden() }

// around is how the means, the gate and the noise of a block's rows lie around their estimates: u = (η, log σ) is û +
// root·ζ with ζ of N(0, I), and E[m_i|u] is m_i + shift_i·ζ.
type around struct {
	logits    []float64 // K×N, η̂ of the gate
	deviation []float64 // K×N, √Var[m_i|u]
	root      []float64 // of every row a lower triangle, hidden²
	shift     []float64 // of every row K×hidden

	turned        [][]float64 // C·Jᵀ of u at a row
	scores, prior []float64   // of the experts at a point
}

func newAround(u *Uncertainty) *around {
	const n = model.BlockRows
	k, h := len(u.means), u.hidden()
	turned := make([][]float64, h)
	for i := range turned {
		turned[i] = make([]float64, len(u.cov))
	}
	return &around{
		logits: make([]float64, k*n), deviation: make([]float64, k*n), root: make([]float64, h*h*n),
		shift:  make([]float64, k*h*n),
		turned: turned, scores: make([]float64, k), prior: make([]float64, k),
	}
}

// at fills a with the rows of b, whose experts' predictors and means are z and mean as the [Predictor] has them.
func (u *Uncertainty) at(ctx context.Context, a *around, p *model.Params, act model.Activation, b *model.Block, z,
	mean []float64) error {
	n, k, h := b.N, len(u.means), u.hidden()
	p.ExactGateLogits(a.logits[:k*n], b)
	slope := a.deviation[:k*n] // s·g′, until a row is done
	if err := act.Deriv(ctx, slope, z); err != nil {
		return err
	}
	turned := a.turned
	for r := range n {
		derivative := func(i, feature int) float64 { // of the mean of expert i
			switch feature {
			case ofIntercept:
				return slope[i*n+r]
			case ofOffset:
				return 1
			case ofScale:
				if offset, scale := p.OutputOf(i); scale != 0 {
					return (mean[i*n+r] - offset) / scale
				}
				return 0
			}
			return slope[i*n+r] * b.X[feature*n+r]
		}
		for j, of := range u.gate {
			clear(turned[j])
			for _, d := range of {
				x := 1.0
				if d.feature >= 0 {
					x = b.X[d.feature*n+r]
				}
				floats.AddScaled(turned[j], x, u.cov[d.at])
			}
		}
		for l, s := range u.levels {
			// The covariance has σ.
			floats.ScaleTo(turned[len(u.gate)+l], 1/p.SigmaOf(max(s.expert, 0)), u.cov[s.at])
		}
		root := a.root[r*h*h : (r+1)*h*h]
		u.factor(root, turned, p, b, r)
		for i, of := range u.means {
			shift := a.shift[(r*k+i)*h : (r*k+i+1)*h]
			for j := range h { // root·shiftᵀ = Cov(u, m_i)
				c := 0.0
				for _, d := range of {
					c += turned[j][d.at] * derivative(i, d.feature)
				}
				for l := range j {
					c -= root[j*h+l] * shift[l]
				}
				if shift[j] = 0; root[j*h+j] > 0 {
					shift[j] = c / root[j*h+j]
				}
			}
			variance := 0.0
			for _, d := range of {
				for _, e := range of {
					variance += derivative(i, d.feature) * u.cov[d.at][e.at] * derivative(i, e.feature)
				}
			}
			for _, v := range shift {
				variance -= v * v
			}
			a.deviation[i*n+r] = math.Sqrt(max(0, variance))
		}
	}
	return nil
}

// roundingOfRoot is a share of a variance that is nothing but rounding.
const roundingOfRoot = 1e-12

// factor writes the Cholesky factor of the covariance of u at a row, given C·Jᵀ; what depends on the others has a row
// with 0 on the diagonal.
func (u *Uncertainty) factor(root []float64, turned [][]float64, p *model.Params, b *model.Block, r int) {
	h := u.hidden()
	clear(root)
	for i := range h {
		for j := range i + 1 {
			v := 0.0
			if i < len(u.gate) {
				for _, d := range u.gate[i] {
					x := 1.0
					if d.feature >= 0 {
						x = b.X[d.feature*b.N+r]
					}
					v += turned[j][d.at] * x
				}
			} else {
				s := u.levels[i-len(u.gate)]
				v = turned[j][s.at] / p.SigmaOf(max(s.expert, 0))
			}
			own := v
			for l := range j {
				v -= root[i*h+l] * root[j*h+l]
			}
			switch {
			case i == j:
				if v > roundingOfRoot*own {
					root[i*h+i] = math.Sqrt(v)
				}
			case root[j*h+j] > 0:
				root[i*h+j] = v / root[j*h+j]
			}
		}
	}
}

// distribution writes that of y at a row over the points of the cubature: 0, and √t up and down each coordinate of ζ
// with weight 1/2t, t = max(3, hidden), which for few coordinates has the fourth moments of the normal too.
func (u *Uncertainty) distribution(dst *mixture.Distribution, p *model.Params, gate mixture.Gate, pred *Prediction,
	row int) {
	n, k, h, a := pred.N, len(u.means), u.hidden(), pred.around
	t := max(3, float64(h))
	scores, prior, top := a.scores, a.prior, []float64{0}
	for point := range u.points() {
		weight, by, along := 1-float64(h)/t, 0.0, 0
		if point > 0 {
			weight, by, along = 1/(2*t), math.Sqrt(t), (point-1)/2
			if point%2 == 0 {
				by = -by
			}
		}
		off := func(i int) float64 { // of the i-th of u
			if by == 0 {
				return 0
			}
			return by * a.root[row*h*h+i*h+along]
		}
		for i := range k {
			if scores[i] = a.logits[i*n+row]; i < len(u.gate) {
				scores[i] += off(i)
			}
		}
		gate.Scores(scores, p, 1)
		model.SoftmaxShift(prior, top, scores, 1)
		for i := range k {
			sigma, mean, deviation := u.sigma[i], pred.Experts[i*n+row], a.deviation[i*n+row]
			for l, s := range u.levels {
				if s.expert == allOf || s.expert == i {
					sigma *= math.Exp(min(off(len(u.gate)+l), mostLogSigma))
				}
			}
			if by != 0 {
				mean += by * a.shift[(row*k+i)*h+along]
			}
			at := point*k + i
			dst.P[at], dst.Mean[at], dst.Sigma[at] = weight*prior[i], mean, math.Hypot(sigma, deviation)
		}
	}
}

// mostLogSigma bounds how far up a point of the cubature takes log σ.
const mostLogSigma = 20
