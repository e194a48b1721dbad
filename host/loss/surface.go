package loss

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/shrinkage"
	"github.com/gatedlearning/moe/host/model"
)

// surface is what the likelihood of one target and that of several have in common, of parameters P.
type surface[P interface{ Clone() P }] struct {
	*passes
	n       float64 // rows, or the sum of their weights
	penalty shrinkage.Penalty
	held    gateCurvature // of the gate's M-step, with the ridge
	reuse   bool          // of held
	pooled  *pooledCurvature
	score   []float64 // room for that of the gate

	pass   summed[P]
	in     func(p P) func(q Parameter) *float64 // where parameters stand in p
	base   P
	cur    P                          // where the last pass was
	here   func(q Parameter) *float64 // in cur
	unread error                      // of rows that could not be read
}

// summed are the passes over the rows.
type summed[P any] interface {
	// sum returns the sums over all rows of what is wanted at p, valid until the next.
	sum(ctx context.Context, p P, want quantity) (*sums, error)
	// ready has what blocks are seen under at p made, and returns the parameters of the gate, or all of one target.
	ready(ctx context.Context, p P) (*model.Params, error)
	// writeScore writes the score, times factor, to dst, of sums at p, of a noise level at its floor as any other.
	writeScore(dst []float64, factor float64, of *sums, p P)
}

func newSurface[P interface{ Clone() P }](s *passes, pass summed[P], in func(p P) func(q Parameter) *float64, base P,
	weight float64, unread error) surface[P] {
	cur := base.Clone()
	return surface[P]{passes: s, n: weight, penalty: s.newPenalty(), pass: pass, in: in, base: base.Clone(),
		cur: cur, here: in(cur), unread: unread}
}

// Rows returns the number of rows of the data, or the sum of their weights.
func (l *surface[P]) Rows() float64 { return l.n }

// N returns the number of rows, whatever they weigh.
func (l *surface[P]) N() int {
	n, _ := l.rows.Dims()
	return n
}

// Dim returns the number of free parameters.
func (l *surface[P]) Dim() int { return len(l.parameters) }

// Parameters lists the free parameters in the order of θ. Of M targets Index is i·M+c of a coefficient of a_ic, and Own
// of those of a noise l of log s_l for l < M, then the u_cb by rows.
func (l *surface[P]) Parameters() []Parameter { return slices.Clone(l.parameters) }

// Params returns the parameters at θ.
func (l *surface[P]) Params(theta []float64) P {
	p := l.base.Clone()
	l.unpack(l.in(p), theta)
	return p
}

// Theta returns the free parameters of p.
func (l *surface[P]) Theta(p P) []float64 {
	theta := make([]float64, l.Dim())
	l.pack(theta, l.in(p))
	return theta
}

// In returns where parameters stand in p.
func (l *surface[P]) In(p P) func(q Parameter) *float64 { return l.in(p) }

// Ties are the places in θ of every coefficient that is the same in all experts.
func (l *surface[P]) Ties() [][]int { return l.ties }

// Project scales the gates of θ that are beyond their bound back to it, in place: the
// likelihood is the same there.
func (l *surface[P]) Project(theta []float64) { l.bound.Project(theta) }

// MostDense is the most values of the sums of a Hessian, kept once per chunk of the
// data, with which it is worth its cost: 16 MB each.
const MostDense = 2 << 20

// pairs are those of the rows of coefficients, each of which a Hessian has a Gram matrix of.
func (l *surface[P]) pairs() int {
	rows := l.means + l.k - 1
	return rows * (rows + 1) / 2
}

// Dense says whether a Hessian is worth its cost, see [MostDense].
func (l *surface[P]) Dense() bool {
	return l.mix.Curved() && l.pairs()*l.width*(l.width+1)/2 <= MostDense
}

// StepsPerHessian returns about how many EM steps cost as much as one Hessian, by the Gram matrices of both: those of
// the experts' M-step are of pairs of targets.
func (l *surface[P]) StepsPerHessian() float64 {
	return float64(l.pairs()) / float64(l.k*max(1, len(l.joined)))
}

// under returns the sums of what is wanted at p, at those at θ, where l.cur then is.
func (l *surface[P]) under(ctx context.Context, p P, want quantity) (*sums, error) {
	if l.unread != nil {
		return nil, l.unread
	}
	return l.pass.sum(ctx, p, want)
}

func (l *surface[P]) at(ctx context.Context, theta []float64, want quantity) (*sums, error) {
	l.unpack(l.here, theta)
	return l.under(ctx, l.cur, want)
}

// LogLikelihood returns the log-likelihood of the data at p, summed over rows.
func (l *surface[P]) LogLikelihood(ctx context.Context, p P) (float64, error) {
	s, err := l.under(ctx, p, 0)
	if err != nil {
		return math.NaN(), err
	}
	return s.loglik, nil
}

// Degenerate says whether p is no admissible maximum: with noise per expert the
// likelihood has no bound as an expert shrinks onto rows that it fits exactly, and
// near that it has maxima that say nothing about the data. Admissible is where the posterior
// probabilities of every expert add up to more rows than it has coefficients for a target and targets, and
// its σ is at least 0.002 of the target's standard deviation, or what [Free].LeastSigma says. With shared
// noise the likelihood is bounded, as long as σ stays off its floor, and every maximum is admissible.
func (l *surface[P]) Degenerate(ctx context.Context, p P) (bool, error) {
	if l.levels <= 1 {
		return false, nil
	}
	s, err := l.under(ctx, p, ofGradient)
	if err != nil {
		return false, err
	}
	in := l.in(p)
	for i, mass := range s.mass() {
		if mass < float64(l.da+l.m+1) {
			return true, nil
		}
		for c := range l.m {
			q := Parameter{Part: model.Noise, Index: i, Own: c}
			if l.free.LeastSigma == 0 && math.Log(*in(q)) < l.ends[c].least+math.Ln2 {
				return true, nil
			}
		}
	}
	return false, nil
}

// Shared returns Σ p_i·p_j of the gate's probabilities over the data at p, k×k, k its classes, of which
// the entries above the diagonal are used. Under a tree they are, for leaves that part at a
// node, those among the rows that are the node's by their posterior.
func (l *surface[P]) Shared(ctx context.Context, p P) ([]float64, error) {
	s, err := l.under(ctx, p, ofShared)
	if err != nil {
		return nil, err
	}
	return slices.Clone(s.shared.prior), nil
}

// GateInformation writes to h what information the rows would have of the gate's rows of θ at p, one after the other,
// if the expert of every row were known: under one gate Σ_rows (diag q − qqᵀ) ⊗ xxᵀ, q its probabilities.
func (l *surface[P]) GateInformation(ctx context.Context, h *mat.SymDense, p P) error {
	s, err := l.under(ctx, p, ofGates)
	if err != nil {
		return err
	}
	s.gates.hessian(h)
	return nil
}

// Value returns L(θ), with the ridge on the gate if there is one, as do Grad, Hessian
// and EMStep.
func (l *surface[P]) Value(ctx context.Context, theta []float64) (float64, error) {
	s, err := l.at(ctx, theta, 0)
	if err != nil {
		return math.NaN(), err
	}
	return l.objective(s.loglik, theta), nil
}

// Grad writes ∇L(θ) to dst and returns L(θ).
func (l *surface[P]) Grad(ctx context.Context, dst, theta []float64) (float64, error) {
	s, err := l.at(ctx, theta, ofGradient)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(dst, s, theta)
	l.ties.Project(dst)
	return l.objective(s.loglik, theta), nil
}

// gradient writes ∇L at θ, whose sums are given, to dst, before ties.
func (l *surface[P]) gradient(dst []float64, s *sums, theta []float64) {
	l.pass.writeScore(dst, -1/l.n, s, l.cur)
	l.bound.Gradient(dst, theta)
	l.penalty.Gradient(dst, theta, 1/l.n)
	l.holdGradient(dst, theta)
}

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ). Terms in
// g″ are left out: at the true parameters their mean is 0, and where g is
// piecewise linear they are 0.
func (l *surface[P]) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.hessian(ctx, h, grad, theta, ofGradient|ofInformation)
}

// Exact is a likelihood whose Hessian has the terms in g″ too, as the observed information
// has ([Likelihood.Information]): where the data say little of a parameter, Newton's method
// without them nears its maximum slowly, or not at all.
type Exact[P interface{ Clone() P }] struct{ *surface[P] }

// Exact returns l with its exact Hessian, for a g with these kinks.
func (l *surface[P]) Exact(kinks []float64) Exact[P] {
	l.kinks = kinks
	return Exact[P]{l}
}

// Hessian writes ∇²L(θ) to h and ∇L(θ) to grad and returns L(θ).
func (l Exact[P]) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.hessian(ctx, h, grad, theta, ofGradient|ofInformation|withBend)
}

func (l *surface[P]) hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64,
	want quantity) (float64, error) {
	s, err := l.at(ctx, theta, want)
	if err != nil {
		return math.NaN(), err
	}
	l.gradient(grad, s, theta)
	s.information.write(h, 1/l.n)
	l.missing(h, 1/l.n)
	l.bound.Hessian(h)
	l.penalty.Hessian(h, theta, 1/l.n)
	l.holdHessian(h, grad, theta)
	l.ties.Project(grad)
	l.ties.Hessian(h)
	return l.objective(s.loglik, theta), nil
}

// expectation returns the sums behind an EM step from θ, and sees to l.held, but where the gate is stepped otherwise.
func (l *surface[P]) expectation(ctx context.Context, theta []float64, otherwise bool) (*sums, error) {
	experts := ofGradient | ofExperts
	if l.pooled != nil {
		experts = ofGradient | ofMoments
	}
	gate := l.gating(theta)
	if len(gate) == 0 || otherwise || l.reuse && l.held.near(gate, l.n) {
		return l.at(ctx, theta, experts)
	}
	s, err := l.at(ctx, theta, experts|ofGates)
	if err == nil {
		l.held.take(gate, func(h *mat.SymDense) {
			s.gates.hessian(h)
			l.penalty.GateHessian(h, 1, l.atGate)
		})
	}
	return s, err
}
