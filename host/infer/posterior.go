package infer

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// Prior is a normal distribution of the parameters θ of a likelihood, of precision Λ, which may be singular:
//
//	log π(θ) = −½·(θ − μ)ᵀΛ(θ − μ) + constant
type Prior struct {
	Mean      []float64
	Precision *mat.SymDense
}

// priorScale is the standard deviation of coefficients under [WeakPrior].
const priorScale = 2.5

// WeakPrior is a prior of a mixture of k experts that says no more than what sizes coefficients have where features
// have variance 1 (Gelman, Jakulin, Pittau & Su 2008; the scales are those of rstanarm):
//
//	regressors and their intercepts   N(0, (2.5·s)²), s the size of the experts' predictors
//	the gate's coefficients           w_i of N(0, 2.5²) for all k, of which w_i − w_k are free: the same however
//	                                  experts are numbered
//	log σ, or log σ_i                 N(logSigma, 1)
//
// Of c and s in means c + s·g it says nothing.
func WeakPrior(parameters []loss.Parameter, k int, s, logSigma float64) *Prior {
	n := len(parameters)
	p := &Prior{make([]float64, n), mat.NewSymDense(n, nil)}
	for i, a := range parameters {
		switch a.Part {
		case model.Expert:
			p.Precision.SetSym(i, i, 1/(priorScale*s*priorScale*s))
		case model.Noise:
			p.Mean[i] = logSigma
			p.Precision.SetSym(i, i, 1)
		case model.Gate:
			for j, b := range parameters[:i+1] {
				if b.Part != model.Gate || a.Feature != b.Feature {
					continue
				}
				v := -1 / float64(k)
				if i == j {
					v++
				}
				p.Precision.SetSym(i, j, v/(priorScale*priorScale))
			}
		}
	}
	return p
}

// Log returns log π(θ) without its constant, and adds its gradient to grad where that is not nil.
func (p *Prior) Log(grad, theta []float64) float64 {
	n := len(theta)
	off := mat.NewVecDense(n, floats.SubTo(make([]float64, n), theta, p.Mean))
	turned := mat.NewVecDense(n, nil)
	turned.MulVec(p.Precision, off)
	if grad != nil {
		floats.Sub(grad, turned.RawVector().Data)
	}
	return -mat.Dot(off, turned) / 2
}

// LogDensity is that of a distribution of θ but for a constant; it writes its gradient to grad where that is not nil.
type LogDensity func(grad, theta []float64) (float64, error)

// Mode is a maximum of a density: where, the logarithm of the density there, and minus its second derivatives.
type Mode struct {
	Theta []float64
	Log   float64
	Bend  *mat.SymDense
}

// Positive says whether minus the second derivatives are positive definite, as [Sample] needs them.
func (m *Mode) Positive() bool { return new(mat.Cholesky).Factorize(m.Bend) }

// Posterior is what [Sample] has drawn.
type Posterior struct {
	Draws  [][]float64 // in the order of the chain
	Shares []float64   // of the modes, which add up to 1: how likely the draws are each mode's, under the proposal
}

const (
	warmUp      = 100 // steps before draws are kept, while the step size is found
	kept        = 1000
	jumps       = 2   // proposals from around all modes to a step
	trajectory  = 1.5 // the length of one, in standard deviations: a quarter of a turn, near π/2
	firstStep   = 0.4 // of a trajectory
	mostSteps   = 12
	usualAccept = 0.8 // to which the step size is brought
	freedom     = 8   // of the t distributions
	evenShare   = 0.2 // of the proposals go to all modes alike, the rest by their weights
)

// Sample draws from a density that has these modes by a Markov chain: in turn trajectories of Hamiltonian dynamics
// with the precision at one of the modes for a mass matrix (Neal 2011), and proposals that do not depend on where the
// chain is, from t distributions around all modes: these take it from one to another, the trajectories to where no t
// distribution is near the density. Nothing of a mode that is not named need be found. It panics if there is none, or
// one that is not [Mode.Positive].
func Sample(log LogDensity, modes []Mode, rng *rand.Rand) (*Posterior, error) {
	around := newProposal(modes)
	c := chain{log: log, rng: rng, around: around, step: firstStep}
	if err := c.begin(around.best()); err != nil {
		return nil, err
	}
	out := &Posterior{Shares: make([]float64, len(modes))}
	of := make([]float64, len(modes))
	for i := range warmUp + kept {
		accepted, err := c.glide()
		if err != nil {
			return nil, err
		}
		if i < warmUp {
			c.step *= math.Exp((accepted - usualAccept) / math.Sqrt(float64(i+1)))
			c.step = min(max(c.step, trajectory/mostSteps), trajectory)
		}
		for range jumps {
			if err := c.jump(); err != nil {
				return nil, err
			}
		}
		if i >= warmUp {
			out.Draws = append(out.Draws, append([]float64(nil), c.at...))
			total := around.log(of, c.at)
			for m, v := range of {
				out.Shares[m] += math.Exp(v - total)
			}
		}
	}
	floats.Scale(1/floats.Sum(out.Shares), out.Shares)
	return out, nil
}

// chain is where a Markov chain is.
type chain struct {
	log      LogDensity
	rng      *rand.Rand
	around   *proposal
	step     float64
	at, grad []float64
	value    float64
}

func (c *chain) begin(theta []float64) (err error) {
	c.at, c.grad = append([]float64(nil), theta...), make([]float64, len(theta))
	c.value, err = c.log(c.grad, c.at)
	return err
}

// glide goes along a trajectory, and returns the probability with which its end was accepted.
func (c *chain) glide() (float64, error) {
	m := c.around.pick(c.rng)
	n := len(c.at)
	momentum, velocity := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		momentum.SetVec(i, c.rng.NormFloat64())
	}
	energy := mat.Dot(momentum, momentum) / 2
	momentum.MulVec(c.around.upper[m].T(), momentum)
	step := c.step * (0.8 + 0.4*c.rng.Float64())
	theta, grad := append([]float64(nil), c.at...), append([]float64(nil), c.grad...)
	value := c.value
	for range max(1, int(math.Round(trajectory/step))) {
		floats.AddScaled(momentum.RawVector().Data, step/2, grad)
		if err := c.around.chol[m].SolveVecTo(velocity, momentum); err != nil {
			return 0, nil
		}
		floats.AddScaled(theta, step, velocity.RawVector().Data)
		var err error
		if value, err = c.log(grad, theta); err != nil {
			return 0, err
		}
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return 0, nil
		}
		floats.AddScaled(momentum.RawVector().Data, step/2, grad)
	}
	if err := c.around.chol[m].SolveVecTo(velocity, momentum); err != nil {
		return 0, nil
	}
	accept := math.Exp(min(0, value-c.value+energy-mat.Dot(momentum, velocity)/2))
	if c.rng.Float64() < accept { // never of NaN
		c.at, c.grad, c.value = theta, grad, value
		return accept, nil
	}
	if math.IsNaN(accept) {
		accept = 0
	}
	return accept, nil
}

// jump proposes a place around any of the modes.
func (c *chain) jump() error {
	theta := c.around.draw(c.rng)
	value, err := c.log(nil, theta)
	if err != nil {
		return err
	}
	of := make([]float64, len(c.around.modes))
	gain := value - c.around.log(of, theta) - (c.value - c.around.log(of, c.at))
	if !(math.Log(c.rng.Float64()) < gain) {
		return nil
	}
	return c.begin(theta)
}

// proposal is a mixture of t distributions, one around every mode.
type proposal struct {
	modes []Mode
	chol  []mat.Cholesky
	upper []*mat.TriDense
	share []float64
	logs  []float64 // of share and of the root of det Bend
}

func newProposal(modes []Mode) *proposal {
	k := len(modes)
	q := &proposal{modes: modes, chol: make([]mat.Cholesky, k), upper: make([]*mat.TriDense, k),
		logs: make([]float64, k)}
	roots := make([]float64, k)
	for i, m := range modes {
		if !q.chol[i].Factorize(m.Bend) {
			panic("infer: minus the second derivatives at a mode are not positive definite")
		}
		q.upper[i] = mat.NewTriDense(len(m.Theta), mat.Upper, nil)
		q.chol[i].UTo(q.upper[i])
		roots[i] = q.chol[i].LogDet() / 2
		q.logs[i] = m.Log - roots[i]
	}
	q.share = weights(q.logs)
	for i := range q.share {
		q.share[i] = (1-evenShare)*q.share[i] + evenShare/float64(k)
		q.logs[i] = math.Log(q.share[i]) + roots[i]
	}
	return q
}

// best is the mode of the largest share.
func (q *proposal) best() []float64 { return q.modes[floats.MaxIdx(q.share)].Theta }

// pick draws a mode.
func (q *proposal) pick(rng *rand.Rand) int {
	u, at := rng.Float64(), 0
	for at < len(q.share)-1 && u >= q.share[at] {
		u -= q.share[at]
		at++
	}
	return at
}

func (q *proposal) draw(rng *rand.Rand) []float64 {
	m := q.pick(rng)
	n := len(q.modes[m].Theta)
	out := mat.NewVecDense(n, nil)
	for i := range n {
		out.SetVec(i, rng.NormFloat64())
	}
	square := 0.0
	for range freedom {
		v := rng.NormFloat64()
		square += v * v
	}
	out.SolveVec(q.upper[m], out) // an error says no more than that it is ill-conditioned
	theta := append([]float64(nil), q.modes[m].Theta...)
	floats.AddScaled(theta, math.Sqrt(freedom/square), out.RawVector().Data)
	return theta
}

// log writes the logarithms of share times density of θ around every mode to dst, without a constant of all, and
// returns that of their sum.
func (q *proposal) log(dst, theta []float64) float64 {
	n := float64(len(theta))
	off := mat.NewVecDense(len(theta), nil)
	for i, m := range q.modes {
		floats.SubTo(off.RawVector().Data, theta, m.Theta)
		dst[i] = q.logs[i] - (freedom+n)/2*math.Log1p(mat.Inner(off, m.Bend, off)/freedom)
	}
	return floats.LogSumExp(dst)
}

// SampleInterval returns the quantiles at (1 ∓ level)/2 of draws, which it puts in order.
func SampleInterval(draws []float64, level float64) (lower, upper float64) {
	slices.Sort(draws)
	tail := (1 - level) / 2
	return stat.Quantile(tail, stat.LinInterp, draws, nil), stat.Quantile(1-tail, stat.LinInterp, draws, nil)
}

// Penalised is the mean negative logarithm of likelihood times prior, −(log L(θ) + log π(θ))/n: an objective to be
// minimised.
type Penalised struct {
	Likelihood *loss.Likelihood
	Prior      *Prior
}

// Dim returns the number of free parameters.
func (o Penalised) Dim() int { return o.Likelihood.Dim() }

func (o Penalised) rows() float64 { return o.Likelihood.Rows() }

// Value returns it at θ.
func (o Penalised) Value(ctx context.Context, theta []float64) (float64, error) {
	v, err := o.Likelihood.Value(ctx, theta)
	return v - o.Prior.Log(nil, theta)/o.rows(), err
}

// Grad writes the gradient to dst and returns the value.
func (o Penalised) Grad(ctx context.Context, dst, theta []float64) (float64, error) {
	v, err := o.Likelihood.Grad(ctx, dst, theta)
	return v + o.addPrior(dst, theta), err
}

// Hessian writes the second derivatives to h, those of the likelihood as [loss.Likelihood.Hessian] has them, and the
// gradient to grad.
func (o Penalised) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	v, err := o.Likelihood.Hessian(ctx, h, grad, theta)
	for i := range theta {
		for j := i; j < len(theta); j++ {
			h.SetSym(i, j, h.At(i, j)+o.Prior.Precision.At(i, j)/o.rows())
		}
	}
	return v + o.addPrior(grad, theta), err
}

// addPrior adds the prior's part of the gradient, and returns that of the value.
func (o Penalised) addPrior(grad, theta []float64) float64 {
	score := make([]float64, len(theta))
	log := o.Prior.Log(score, theta)
	floats.AddScaled(grad, -1/o.rows(), score)
	return -log / o.rows()
}

// Log is the logarithm of likelihood times prior.
func (o Penalised) Log(ctx context.Context) LogDensity {
	return func(grad, theta []float64) (float64, error) {
		if grad == nil {
			v, err := o.Value(ctx, theta)
			return -o.rows() * v, err
		}
		v, err := o.Grad(ctx, grad, theta)
		floats.Scale(-o.rows(), grad)
		return -o.rows() * v, err
	}
}

// ModeAt is what [Sample] has to know of a maximum at θ.
func (o Penalised) ModeAt(ctx context.Context, theta []float64) (Mode, error) {
	h := mat.NewSymDense(o.Dim(), nil)
	v, err := o.Hessian(ctx, h, make([]float64, o.Dim()), theta)
	h.ScaleSym(o.rows(), h)
	return Mode{theta, -o.rows() * v, h}, err
}

// weights returns e^l_i/Σ_j e^l_j; −Inf is no weight. They are nil where all are that.
func weights(l []float64) []float64 {
	total := floats.LogSumExp(l)
	if math.IsInf(total, -1) {
		return nil
	}
	out := make([]float64, len(l))
	for i, v := range l {
		out[i] = math.Exp(v - total)
	}
	return out
}
