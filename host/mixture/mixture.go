// Package mixture is the density of y given x under a mixture of K experts,
//
//	p(y|x) = Σ_i P(z=i|x)·f(y; m_i(x), σ_i),   m_i(x) = g(⟨a_i,x⟩ + b_i),
//
// its posterior P(z|x,y), and the derivatives of log p(y|x), a block of rows at a
// time. A [Gate] is P(z|x), a [Density] is f; the nonlinearity is the caller's, who
// brings the means. Values of a block are K rows of N values: expert i's are
// v[i*N:(i+1)*N].
package mixture

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Mixture is a gate and a density. The zero value is the gate whose shape the
// parameters have, 002 Eq. 1 where that is flat, and the density that they name.
type Mixture struct {
	Gate    Gate    // nil is GateOf(p.Tree) of the parameters p
	Density Density // nil is DensityOf(p.Family)
}

// Of returns m with the density of the parameters p in place.
func (m Mixture) Of(p *model.Params) Mixture {
	if m.Density == nil {
		m.Density = DensityOf(p.Family)
	}
	return m
}

// Curved says whether the mixture has the second derivatives that EM, Newton
// steps and standard errors need. One that has not is fitted by gradient.
func (m Mixture) Curved() bool {
	_, gate := m.Gate.(CurvedGate)
	return gate || m.Gate == nil
}

// Prior writes P(z=i|x) for the rows of a block, a row of b.N values for each of [model.Params.Classes].
func (m Mixture) Prior(dst []float64, p *model.Params, b *model.Block) {
	dst = dst[:p.Classes()*b.N]
	gate := m.Gate
	if gate == nil {
		gate = GateOf(p.Tree)
	}
	p.GateLogits(dst, b)
	gate.Scores(dst, p, b.N)
	model.Softmax(dst, nil, dst, b.N)
}

// Posterior is what a mixture says of a block of rows. [Posterior.Given] fills in
// what depends on x, then [Posterior.Observe] or [Posterior.Predict] what depends
// on y. The memory is reused from block to block. It is not safe for concurrent
// use.
type Posterior struct {
	Gate    Gate    // after Given
	Density Density // likewise, with the block's trials
	K, N    int     // experts, beside which the gate may have the class of [model.Params].Zero
	P       *model.Params
	Exact   bool // P(z|x) to all digits, whatever the size of the logits' terms and however small it is

	// A row for each of the classes: the experts, and behind them that of Zero.
	Scores   []float64 // s_i(x): P(z|x) is their softmax; the largest of a row is 0
	Prior    []float64 // P(z=i|x)
	LogPrior []float64 // log Σ_i exp s_i, N values from 0 to log K

	Post []float64 // P(z=i|x,y), a row for each of the classes
	// log Σ_i exp(s_i + log f_i), N values; up to ½ log 2π after Observe, less LogPrior after Predict
	LogJoint []float64
	Std      []float64 // e_i = (y − m_i)/σ_i, after Observe
	res      []float64 // y − m_i, likewise

	// Speaks has a 1 for the rows that speak for their groups to the gate and a 0 for others, after Share; nil where
	// each row has its own expert.
	Speaks []float64

	second                              // after Differentiate
	general                 general     // of densities other than Gaussian
	psi                     [][]float64 // of the experts
	scores, prior, logPrior []float64
	post, logJoint, std     []float64
	residuals               []float64 // nil until ObserveMeans has made some
	none                    []float64 // zeros; nil until Densities has needed them
	others                  []float64 // room; nil until Without has needed it
	which                   []int     // likewise
	even                    [2]int    // rows and values of Prior, where the gate was 0; else 0

	given, named bool            // Gate and Density were, whatever the parameters'
	tried        bool            // Density has the trials of the block
	shape        model.Hierarchy // of Gate, where it was not
	family       string          // of Density, likewise
}

// NewPosterior returns room for blocks of rows under mixtures of k experts.
func NewPosterior(m Mixture, k int) *Posterior {
	const n = model.BlockRows
	classes := func() []float64 { return make([]float64, (k+1)*n) }
	return &Posterior{
		Gate: m.Gate, Density: m.Density, K: k, given: m.Gate != nil, named: m.Density != nil,
		scores: classes(), prior: classes(), logPrior: make([]float64, n),
		post: classes(), logJoint: make([]float64, n), std: make([]float64, k*n), psi: make([][]float64, k),
	}
}

// Given takes the rows of a block under the parameters p.
func (r *Posterior) Given(p *model.Params, b *model.Block) {
	r.under(p, b)
	n, classes := b.N, p.Classes()*b.N
	r.Scores, r.Prior, r.LogPrior = r.scores[:classes], r.prior[:classes], r.logPrior[:n]
	r.Post, r.LogJoint, r.Std = r.post[:classes], r.logJoint[:n], r.std[:r.K*n]
	even := [2]int{}
	if _, flat := r.Gate.(Flat); flat && p.Even() {
		even = [2]int{n, classes}
	}
	if even[0] > 0 && even == r.even {
		return // as they were of the last block
	}
	r.even = even
	if r.Exact {
		p.ExactGateLogits(r.Scores, b)
	} else {
		p.GateLogits(r.Scores, b)
	}
	r.Gate.Scores(r.Scores, p, n)
	model.SoftmaxShift(r.Prior, r.LogPrior, r.Scores, n)
	if !r.Exact {
		return
	}
	for at, p := range r.Prior {
		if p == 0 { // beside 1 alone: a mean of e⁵⁰ counts with it
			r.Prior[at] = math.Exp(r.Scores[at] - r.LogPrior[at%n])
		}
	}
}

// Observed is what [Posterior.Observe] has come to in a block.
type Observed struct{ Prior, Post, Std []float64 }

// CopyObserved copies it to dst, for Recall.
func (r *Posterior) CopyObserved(dst *Observed) {
	dst.Prior, dst.Post, dst.Std = append(dst.Prior[:0], r.Prior...), append(dst.Post[:0], r.Post...),
		append(dst.Std[:0], r.Std...)
}

// Recall takes a block that has been observed under p before, with the density [Gaussian], so far as second
// derivatives need it: for Differentiate and Times.
func (r *Posterior) Recall(p *model.Params, b *model.Block, o Observed) {
	r.under(p, b)
	r.Prior, r.Post, r.Std = o.Prior, o.Post, o.Std
}

// under takes gate and density for a block.
func (r *Posterior) under(p *model.Params, b *model.Block) {
	r.P, r.N, r.Speaks = p, b.N, nil
	if !r.given && (r.Gate == nil || !p.Tree.Equal(r.shape)) {
		r.Gate, r.shape = GateOf(p.Tree), p.Tree
	}
	if !r.named && (r.Density == nil || p.Family != r.family) {
		r.Density, r.family, r.general, r.second = DensityOf(p.Family), p.Family, general{}, second{}
	}
	if trials := b.Role[model.Trials]; trials != nil || r.tried {
		r.Density, r.tried = OfTrials(DensityOf(p.Family), trials), trials != nil
	}
	for i := range r.psi {
		r.psi[i] = p.OwnOf(r.psi[i][:0], i)
	}
}

// Observe takes the residuals y − m_i(x), K rows of N values, where the density is [Gaussian]. The densities are
// those of y in units of exp(logUnit), without their constant. It panics for any other: see ObserveMeans.
func (r *Posterior) Observe(res []float64, logUnit float64) {
	normal, ok := r.Density.(Gaussian)
	if !ok {
		panic("mixture: residuals of the density " + r.Density.Name())
	}
	n := r.N
	r.res = res
	for i := range r.K {
		at, to := i*n, (i+1)*n
		normal.Exponents(r.Post[at:to], r.Std[at:to], r.Scores[at:to], res[at:to], r.P.SigmaOf(i), logUnit)
	}
	r.Infer(func(i, t int) float64 { return r.Std[i*n+t] })
}

// Infer makes LogJoint and Post of the exponents s_i + log f_i, which stand in the place of
// Post. Where the densities of all experts are below the smallest number LogJoint is −Inf, and
// a row is that of the expert with the least |e_i|, the limit of the posterior; where several
// have it they share the row as the gate says. e is asked for such rows alone.
func (r *Posterior) Infer(e func(i, t int) float64) {
	n := r.N
	model.Softmax(r.Post, r.LogJoint, r.Post, n)
	if !math.IsNaN(kernel.Sum(r.LogJoint)) {
		return
	}
	for t, v := range r.LogJoint {
		if math.IsNaN(v) {
			r.inferFar(t, e)
		}
	}
}

// inferFar is Infer of row t, whose densities are all 0.
func (r *Posterior) inferFar(t int, e func(i, t int) float64) {
	least, share, nearest := math.Inf(1), 0.0, 0.0
	for i := range r.K {
		d := math.Abs(e(i, t))
		switch {
		case math.IsNaN(d): // a mean that is no number
			return
		case d < least:
			least, share, nearest = d, 0, 0
		}
		if d == least {
			share += r.Prior[i*r.N+t]
			nearest++
		}
	}
	r.LogJoint[t] = math.Inf(-1)
	if r.P.Zero {
		r.Post[r.K*r.N+t] = 0
	}
	for i := range r.K {
		at := i*r.N + t
		switch {
		case math.Abs(e(i, t)) != least:
			r.Post[at] = 0
		case share > 0:
			r.Post[at] = r.Prior[at] / share
		default: // the gate gives them nothing
			r.Post[at] = 1 / nearest
		}
	}
}

// LogLikelihood returns Σ_rows log p(y|x) after Observe with logUnit 0 or ObserveMeans, each term
// times the row's weight unless weight is nil. It is −Inf where that is below the smallest
// number, or a row of some weight has a density that is.
func (r *Posterior) LogLikelihood(weight []float64) float64 {
	sum, rows := kernel.Sum, float64(r.N)
	if weight != nil {
		sum = func(v []float64) float64 { return kernel.Dot(v, weight) }
		rows = kernel.Sum(weight)
	}
	joint := sum(r.LogJoint)
	if math.IsNaN(joint) && weight != nil { // 0·−Inf
		joint = 0
		for t, w := range weight {
			if w > 0 {
				joint += w * r.LogJoint[t]
			}
		}
	}
	if !Normal(r.Density) {
		return joint - sum(r.LogPrior)
	}
	return joint - sum(r.LogPrior) - logNorm*rows
}

// Predict takes targets y and the means m_i(x), K rows of N values. It is Observe with y to
// all digits where residuals are in units that make squares of them too large or too small.
// LogJoint is then log p(y|x).
func (r *Posterior) Predict(y, mean []float64) {
	n := r.N
	for i := range r.K {
		at, to := i*n, (i+1)*n
		r.Density.LogDensity(r.Post[at:to], r.Scores[at:to], y, mean[at:to], r.psi[i])
	}
	r.zero(y)
	r.Infer(func(i, t int) float64 { return (y[t] - mean[i*n+t]) / r.P.SigmaOf(i) })
	floats.Sub(r.LogJoint, r.LogPrior)
}

// zero writes the exponents of the class of [model.Params].Zero, of targets y, to its row of Post, if there is one.
func (r *Posterior) zero(y []float64) {
	if !r.P.Zero {
		return
	}
	dst, scores := r.of(r.Post, r.K), r.of(r.Scores, r.K)
	for t, v := range y {
		dst[t] = scores[t] + LogAtZero(v)
	}
}

// LogAtZero is log f(y) of what is always 0: 0 at 0, −Inf elsewhere.
func LogAtZero(y float64) float64 {
	if y == 0 {
		return 0
	}
	return math.Inf(-1)
}

// of returns expert i's row of values of the block.
func (r *Posterior) of(v []float64, i int) []float64 { return v[i*r.N : (i+1)*r.N] }

// PostOf returns P(z=i|x,y) of the N rows.
func (r *Posterior) PostOf(i int) []float64 { return r.of(r.Post, i) }

// PriorOf returns P(z=i|x) of the N rows.
func (r *Posterior) PriorOf(i int) []float64 { return r.of(r.Prior, i) }

// StdOf returns e_i of the N rows.
func (r *Posterior) StdOf(i int) []float64 { return r.of(r.Std, i) }

// Errors writes e_i to dst, N values: of densities other than [Gaussian] the score, of mean 0 and variance 1 under
// expert i. See Standardised.
func (r *Posterior) Errors(dst []float64, i int) {
	if Normal(r.Density) {
		copy(dst, r.StdOf(i))
		return
	}
	t := r.terms(i)
	for at, u := range t.Score {
		dst[at] = u / math.Sqrt(t.Expected[at])
	}
}

// Joint writes s_i + log f_i to dst, K rows of N values, of [Gaussian] up to ½ log 2π.
func (r *Posterior) Joint(dst []float64) {
	for i := range r.K {
		to, scores := r.of(dst, i), r.of(r.Scores, i)
		if !Normal(r.Density) {
			r.Density.LogDensity(to, scores, r.general.y, r.of(r.general.mean, i), r.psi[i])
			continue
		}
		log := math.Log(r.P.SigmaOf(i))
		for t, e := range r.StdOf(i) {
			to[t] = scores[t] - log - e*e/2
		}
	}
}

// Without writes to dst, K rows of N values, what log p(y|x) loses without an expert, the others staying as they are:
// log(1 − p_i) − log(1 − r_i). There must be no class of [model.Params].Zero.
func (r *Posterior) Without(dst []float64) {
	kn := r.K * r.N
	if r.others == nil {
		r.others, r.which = make([]float64, (3*r.K+4)*model.BlockRows), make([]int, model.BlockRows)
	}
	joint, of, room := r.others[:kn], r.others[kn:2*kn], r.others[2*kn:]
	r.Joint(joint)
	logOthers(dst, r.Scores, r.K, r.N, room, r.which)
	logOthers(of, joint, r.K, r.N, room, r.which)
	floats.Sub(dst[:kn], of)
}

// Weigh writes r_i·∂log f_i/∂m_i to dst, N values, in units of 1/[Unit]: r_i·(y − m_i) of [Gaussian].
func (r *Posterior) Weigh(dst []float64, i int) {
	kernel.Mul(dst, r.PostOf(i), r.ScoreOf(i))
}

// ScoreOf returns ∂log f_i/∂m_i of the N rows, in units of 1/[Unit]: y − m_i of [Gaussian].
func (r *Posterior) ScoreOf(i int) []float64 {
	if Normal(r.Density) {
		return r.of(r.res, i)
	}
	return r.terms(i).Score
}

// Complete writes r_i·E[−∂²log f_i/∂z_i²] to dst, N values, in units of 1/[Unit]: what the M-step of expert i's
// regressors weighs rows by, r_i·g′² of [Gaussian]. slope is g′.
func (r *Posterior) Complete(dst []float64, i int, slope []float64) {
	kernel.MulSquare(dst, r.PostOf(i), slope)
	if !Normal(r.Density) {
		kernel.Mul(dst, dst, r.terms(i).Expected)
	}
}

// ResidualOf returns y − m_i of the N rows; of densities other than [Gaussian] the working residual
// u/E[−∂²log f_i/∂m_i²], which is y − m_i where y's law is of an exponential family.
func (r *Posterior) ResidualOf(i int) []float64 {
	if Normal(r.Density) {
		return r.of(r.res, i)
	}
	r.terms(i)
	return r.of(r.general.working, i)
}

// MeanScore writes ∂log p(y|x)/∂m_i to dst, N values, times ScaleOf(i): r_i·e_i of [Gaussian].
func (r *Posterior) MeanScore(dst []float64, i int) {
	if Normal(r.Density) {
		kernel.Mul(dst, r.PostOf(i), r.StdOf(i))
		return
	}
	r.Weigh(dst, i)
}

// Standardised writes r_i·e_i to dst, N values, with e_i = ∂log f_i/∂m_i times SpreadOf: of mean 0 and variance 1 under
// expert i at any x.
func (r *Posterior) Standardised(dst []float64, i int) {
	r.MeanScore(dst, i)
	if !Normal(r.Density) {
		for t, expected := range r.terms(i).Expected {
			dst[t] /= math.Sqrt(expected)
		}
	}
}

// Spread writes 1/√E[(∂log f_i/∂m_i)²] to dst, N values: σ_i of [Gaussian], and about the standard deviation of y of
// others.
func (r *Posterior) Spread(dst []float64, i int) {
	if Normal(r.Density) {
		for t := range dst {
			dst[t] = r.P.SigmaOf(i)
		}
		return
	}
	for t, expected := range r.terms(i).Expected {
		dst[t] = 1 / math.Sqrt(expected)
	}
}

// Convexity writes ∂²f_i/∂m² over f_i·E[(∂log f_i/∂m)²] to dst, N values: e² − 1 of [Gaussian].
func (r *Posterior) Convexity(dst []float64, i int) {
	if Normal(r.Density) {
		for t, e := range r.StdOf(i) {
			dst[t] = e*e - 1
		}
		return
	}
	of := r.terms(i)
	for t, u := range of.Score[:len(dst)] {
		dst[t] = (u*u - of.Information[t]) / of.Expected[t]
	}
}

// Telling writes how much of a row there is to tell expert i's mean by to dst, N values: r_i, of shares r_i times
// 4n·m(1−m), at most 1, which is nothing where the expert is certain.
func (r *Posterior) Telling(dst []float64, i int, mean []float64) {
	copy(dst, r.PostOf(i))
	of, ok := r.Density.(Binomial)
	for t, m := range mean {
		if !ok {
			break
		}
		dst[t] *= min(1, of.trialsOf(t)*(4*m*(1-m)))
	}
}

// ScaleOf returns σ_i of [Gaussian], 1 of any other density.
func (r *Posterior) ScaleOf(i int) float64 {
	if Normal(r.Density) {
		return r.P.SigmaOf(i)
	}
	return 1
}

// GateScore writes ∂log p(y|x)/∂η_j to dst, N values, with η_j = ⟨w_j,x⟩ + v_j the
// gate's linear predictor j: r_j − p_j for a flat gate.
func (r *Posterior) GateScore(dst []float64, j int) {
	r.Gate.Slope(dst, j, r)
	r.speak(dst)
}

// NoiseScore writes ∂log p(y|x)/∂log ψ_mq to dst, N values, m a level of noise. Σ_i r_i·(e_i² − 1) of [Gaussian].
func (r *Posterior) NoiseScore(dst []float64, m, q int) {
	clear(dst)
	for i := range r.K {
		if len(r.P.Sigma) > 1 && i != m {
			continue
		}
		post := r.PostOf(i)
		if Normal(r.Density) {
			for t, e := range r.StdOf(i) {
				dst[t] += post[t] * (e*e - 1)
			}
			continue
		}
		for t, score := range r.terms(i).OwnScore[q] {
			dst[t] += post[t] * score
		}
	}
}

// Densities takes residuals, as [Posterior.Observe], or targets and means where the density is none of normal noise, as
// [Posterior.ObserveMeans], and writes log f_i to dst, K rows of N values, of [Gaussian] up to ½ log 2π. The posterior
// is then to be given by Share.
func (r *Posterior) Densities(dst, y, res []float64) {
	n := r.N
	if r.none == nil {
		r.none = make([]float64, len(r.logJoint))
	}
	none := r.none[:n]
	if normal, ok := r.Density.(Gaussian); ok {
		r.res = res
		for i := range r.K {
			normal.Exponents(dst[i*n:(i+1)*n], r.of(r.Std, i), none, r.of(res, i), r.P.SigmaOf(i), 0)
		}
		return
	}
	r.general.y, r.general.mean, r.general.derived = y, res, false
	for i := range r.K {
		r.Density.LogDensity(dst[i*n:(i+1)*n], none, y, r.of(res, i), r.psi[i])
	}
}

// Share gives the rows the posteriors of their groups, K values from at[t] of posts on, and says by a 1 which of them
// speak for their groups to the gate, the others having a 0.
func (r *Posterior) Share(posts []float64, at []int, speaks []float64) {
	r.Speaks = speaks
	for i := range r.K {
		post := r.PostOf(i)
		for t, from := range at {
			post[t] = posts[from+i]
		}
	}
}

// LogConstant is what log f lacks after Densities.
func (r *Posterior) LogConstant() float64 {
	if Normal(r.Density) {
		return -logNorm
	}
	return 0
}

// speak takes terms of the gate off the rows that do not speak for their groups.
func (r *Posterior) speak(dst []float64) {
	if r.Speaks != nil {
		kernel.Mul(dst, dst, r.Speaks)
	}
}

// EachPosterior calls fn with every block of rows and the posteriors of its experts under q,
// after change, if there is one, has been at the gate's scores log P(z|x).
func EachPosterior(ctx context.Context, g model.Activation, rows model.Rows, q *model.Params,
	change func(*Posterior), fn func(*model.Block, *Posterior)) error {
	at := NewPosteriors(g, q)
	return model.InOrder(ctx, rows, func(b *model.Block) error {
		post, err := at.Of(ctx, b, change)
		if err == nil {
			fn(b, post)
		}
		return err
	})
}

// Posteriors are those of the experts of parameters, of a block after the other.
type Posteriors struct {
	q     *model.Params
	means model.Activation
	post  *Posterior
	room  []float64
}

// NewPosteriors are those of the experts of q.
func NewPosteriors(g model.Activation, q *model.Params) *Posteriors {
	return &Posteriors{q, q.Output(g), NewPosterior(Mixture{}, q.K), make([]float64, q.K*model.BlockRows)}
}

// Of returns those of a block, after change, if there is one, has been at the gate's scores; valid until the next.
func (s *Posteriors) Of(ctx context.Context, b *model.Block, change func(*Posterior)) (*Posterior, error) {
	mean := s.room[:s.q.K*b.N]
	s.q.Predictors(mean, b)
	if err := s.means.Eval(ctx, mean, mean); err != nil {
		return nil, err
	}
	s.post.Given(s.q, b)
	if change != nil {
		change(s.post)
		s.post.even = [2]int{} // the scores are not what Given has made of them
	}
	s.post.ObserveMeans(b.Y, mean)
	return s.post, nil
}
