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
// over that. Given u = (η, log σ) the means are normal still, with variances as σ², and y under expert i is
// N(E[m_i|u], σ_i(u)²·(1 + Var[m_i|u]/σ_i²)); the mean over u is a sum over the points of a cubature that is exact to
// the third degree (Julier & Uhlmann 1997): all terms of first order in C but those of the curvature of m in the
// parameters, and bounded where C is large. For one linear expert it is Student's t of n − q degrees of freedom.
//
// Of other densities the predictors z, of which the means are g(z), stand in the place of the means, and all own
// parameters in that of σ, each by its logarithm or its reciprocal ([mixture.OwnParameter].Reciprocal), the first
// corrected as σ is (infer.Dispersion). Given u they are normal too, and the law of y under expert i is the mean of
// that of mean g(z_i) over a rule for z_i ([spread.ruleOf]).
type Uncertainty struct {
	density mixture.Density
	own     [][]float64 // K, of the experts: ψ, corrected
	most    [][]float64 // likewise, of the maximum, to which the covariance belongs; nil where that is no other
	cov     [][]float64
	means   [][]dependence // K, of the experts' means, or predictors
	gate    [][]dependence // of the gate's predictors, one less than it has classes
	levels  []level        // of noise that the covariance has

	arrangements []arrangement // that predictions are over; nil: one
}

// dependence is on the parameter that stands at a row of the covariance.
type dependence struct{ at, feature int }

// level is an own parameter, as σ: of one expert, or of all, and which.
type level struct {
	at, expert, own int
	bounds          mixture.OwnParameter
	by              float64 // dψ/du, u = log ψ or 1/ψ
	variance        float64 // of log σ of normal noise; 0 of other ψ
}

// moved is ψ with u moved by so much. Of normal noise (σ̂/σ)² is a χ² over its degrees of freedom ν, Var log σ = 1/2ν,
// and its cube root is all but normal, with mean 1 − 2/9ν (Wilson & Hilferty 1931).
func (l level) moved(psi, by float64) float64 {
	switch {
	case l.bounds.Reciprocal:
		psi = 1 / max(1/psi+by, 1/l.bounds.Most)
	case l.variance > 0:
		psi *= math.Pow(max(1-4*l.variance/9-2*by/3, leastRoot), -1.5)
	default:
		psi *= math.Exp(min(by, mostLogSigma))
	}
	return min(max(psi, l.bounds.Least), l.bounds.Most)
}

// of says whether it is one of expert i.
func (l level) of(i int) bool { return l.expert == allOf || l.expert == i }

const (
	ofIntercept = -1 - iota
	ofOffset
	ofScale
)

// UncertaintyOf is that of a model's parameters, and of its arrangements where they have weights; nil where the model
// has no covariance, and none of them.
func UncertaintyOf(m *fitted.Model) *Uncertainty {
	if all := arrangementsOf(m); all != nil {
		return &Uncertainty{arrangements: all}
	}
	if m.Covariance == nil {
		return nil
	}
	p := m.Params()
	u := &Uncertainty{density: mixture.DensityOf(m.Family), cov: m.Covariance.Matrix,
		means: make([][]dependence, m.K), gate: make([][]dependence, model.Gates(m.Classes()))}
	corrected := p
	if s := m.StandardErrors; s != nil && len(s.SigmaCorrected)+len(s.DispersionCorrected) > 0 {
		corrected = p.Clone()
		corrected.Sigma = slices.Concat(s.SigmaCorrected, s.DispersionCorrected) // there is one of them
	}
	for i := range m.K {
		u.own = append(u.own, corrected.OwnOf(nil, i))
		if corrected != p {
			u.most = append(u.most, p.OwnOf(nil, i))
		}
	}
	for at, name := range m.Covariance.Parameters {
		u.place(m, p, at, name)
	}
	if u.normal() {
		u.correct()
	}
	return u
}

// correct takes the covariance from σ of the maximum to σ as it is corrected: the variances of an expert's coefficients
// are as σ², and that of log σ is as 1 over the degrees of freedom.
func (u *Uncertainty) correct() {
	by, cov := make([]float64, len(u.cov)), u.cov
	floats.AddConst(1, by)
	for i, most := range u.most {
		ratio := u.own[i][0] / most[0]
		for _, d := range u.means[i] {
			by[d.at] = max(by[d.at], ratio)
		}
		for _, l := range u.levels {
			if l.of(i) {
				by[l.at] = ratio
			}
		}
	}
	u.cov = make([][]float64, len(cov))
	for a, row := range cov {
		u.cov[a] = floats.ScaleTo(make([]float64, len(row)), by[a], row)
		floats.Mul(u.cov[a], by)
	}
	for l, s := range u.levels {
		u.levels[l].variance = u.cov[s.at][s.at] / (s.by * s.by)
	}
}

// normal says whether the means are normal at x, and not the predictors.
func (u *Uncertainty) normal() bool { return mixture.Normal(u.density) }

// allOf stands for every expert.
const allOf = -1

// place notes what depends on the parameter at a row of the covariance, by its name of infer.Covariance.Names.
func (u *Uncertainty) place(m *fitted.Model, p *model.Params, at int, name string) {
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
	for q, own := range u.density.Own() {
		if i := numberOf(whose, own.Name); i >= allOf && i < m.K {
			// The covariance has ψ.
			psi := p.OwnOf(nil, max(i, 0))[q]
			if own.Reciprocal {
				psi *= -psi
			}
			u.levels = append(u.levels, level{at: at, expert: i, own: q, bounds: own, by: psi})
		}
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
// root·ζ with ζ of N(0, I), and E[m_i|u] is m_i + shift_i·ζ, or likewise of predictors.
type around struct {
	logits    []float64 // η̂ of the gate, a row of N for each of its classes
	deviation []float64 // K×N, √Var[m_i|u]
	root      []float64 // of every row a lower triangle, hidden²
	shift     []float64 // of every row K×hidden

	turned        [][]float64 // C·Jᵀ of u at a row
	scores, prior []float64   // of the classes at a point
	spread        spread      // of means around their predictors
}

func newAround(u *Uncertainty) *around {
	const n = model.BlockRows
	k, classes, h := len(u.means), len(u.gate)+1, u.hidden()
	turned := make([][]float64, h)
	for i := range turned {
		turned[i] = make([]float64, len(u.cov))
	}
	return &around{
		logits: make([]float64, classes*n), deviation: make([]float64, k*n), root: make([]float64, h*h*n),
		shift:  make([]float64, k*h*n),
		turned: turned, scores: make([]float64, classes), prior: make([]float64, classes),
	}
}

// at fills a with the rows of b, whose experts' predictors and means are z and mean as the [Predictor] has them.
func (u *Uncertainty) at(ctx context.Context, a *around, p *model.Params, act model.Activation, b *model.Block, z,
	mean []float64) error {
	n, k, h := b.N, len(u.means), u.hidden()
	p.ExactGateLogits(a.logits[:(len(u.gate)+1)*n], b)
	slope := a.deviation[:k*n] // s·g′, or 1 of predictors, until a row is done
	if !u.normal() {
		for at := range slope {
			slope[at] = 1
		}
	} else if err := act.Deriv(ctx, slope, z); err != nil {
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
			floats.ScaleTo(turned[len(u.gate)+l], 1/s.by, u.cov[s.at])
		}
		root := a.root[r*h*h : (r+1)*h*h]
		u.factor(root, turned, b, r)
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
	if u.normal() {
		return nil
	}
	u.widen(a.deviation, mean, n)
	return a.spread.over(ctx, u, a, act, b, z, mean)
}

// widen takes the deviations of predictors, K rows of n as their means, from ψ of the maximum to ψ as it is corrected:
// their variance is as 1/E[−∂²log f/∂m²].
func (u *Uncertainty) widen(deviation, mean []float64, n int) {
	terms, y := mixture.TermsOf(n, len(u.density.Own())), make([]float64, n)
	expected := func(i int, psi []float64) []float64 {
		u.density.Derive(terms, y, mean[i*n:(i+1)*n], psi)
		return slices.Clone(terms.Expected)
	}
	for i, most := range u.most {
		now := expected(i, u.own[i])
		for r, before := range expected(i, most) {
			if ratio := before / now[r]; ratio > 0 && !math.IsInf(ratio, 0) {
				deviation[i*n+r] *= math.Sqrt(ratio)
			}
		}
	}
}

// roundingOfRoot is a share of a variance that is nothing but rounding.
const roundingOfRoot = 1e-12

// factor writes the Cholesky factor of the covariance of u at a row, given C·Jᵀ; what depends on the others has a row
// with 0 on the diagonal.
func (u *Uncertainty) factor(root []float64, turned [][]float64, b *model.Block, r int) {
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
				v = turned[j][s.at] / s.by
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

// point is one of the cubature: 0, or √t up or down a coordinate of ζ, with its weight.
type point struct {
	weight, by float64
	along      int
}

// point is the one of this number: 0 and √t up and down each coordinate of ζ with weight 1/2t, t = max(3, hidden),
// which for few coordinates has the fourth moments of the normal too.
func (u *Uncertainty) point(number int) point {
	h := float64(u.hidden())
	t := max(3, h)
	if number == 0 {
		return point{weight: 1 - h/t}
	}
	p := point{1 / (2 * t), math.Sqrt(t), (number - 1) / 2}
	if number%2 == 0 {
		p.by = -p.by
	}
	return p
}

// distribution writes that of y at a row over the points of the cubature.
func (u *Uncertainty) distribution(dst *mixture.Distribution, p *model.Params, gate mixture.Gate, pred *Prediction,
	row int) {
	n, k, h, a := pred.N, len(u.means), u.hidden(), pred.around
	scores, prior, top := a.scores, a.prior, []float64{0}
	if !u.normal() {
		dst.Reset()
		a.spread.beyond = 0
	}
	psi := make([]float64, 0, 2)
	for number := range u.points() {
		point := u.point(number)
		off := func(i int) float64 { // of the i-th of u
			if point.by == 0 {
				return 0
			}
			return point.by * a.root[row*h*h+i*h+point.along]
		}
		for i := range scores {
			if scores[i] = a.logits[i*n+row]; i < len(u.gate) {
				scores[i] += off(i)
			}
		}
		gate.Scores(scores, p, 1)
		model.SoftmaxShift(prior, top, scores, 1)
		for i := range k {
			psi = append(psi[:0], u.own[i]...)
			for l, s := range u.levels {
				if s.of(i) {
					psi[s.own] = s.moved(psi[s.own], off(len(u.gate)+l))
				}
			}
			if !u.normal() {
				a.spread.add(dst, point.weight*prior[i], row, number, i, psi)
				continue
			}
			mean, deviation := pred.Experts[i*n+row], a.deviation[i*n+row]
			if point.by != 0 {
				mean += point.by * a.shift[(row*k+i)*h+point.along]
			}
			at, sigma := number*k+i, u.own[i][0]
			dst.P[at], dst.Mean[at] = point.weight*prior[i], mean
			dst.Sigma[at] = psi[0] / sigma * math.Hypot(sigma, deviation)
		}
	}
}

// mostLogSigma bounds how far up a point of the cubature takes log ψ, and leastRoot how far down the cube root of
// (σ̂/σ)²: √3 standard deviations below its middle that of one degree of freedom is 0.14.
const mostLogSigma, leastRoot = 20, 0.14
