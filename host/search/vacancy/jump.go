package vacancy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// jumpable is an expert that may jump along a direction of the design, s = x_c − pivot, the others as they are: with
// z = ⟨a,x⟩ + δ·s and ρ = ⟨w,x⟩ − L(x) + γ·s what it has of the log-likelihood is, as of a joiner of its [vacancy],
//
//	Σ_rows log(1 + exp(t)) − log(1 + exp(ρ)),  t = ρ + log f(y; g(z), ψ) − log p(y|x),
//
// a function of two numbers. Rows of which s is 0 do not change: where the feature is a level of a factor, all others.
// In δ it has many maxima: which rows of a level an expert of few rows goes through was decided where it began, and no
// step of EM leads from one to another.
type jumpable struct {
	along         jump
	gated         bool // γ is free
	s, z, rho, y  []float64
	law           mixture.Density
	derived       mixture.Terms
	own           []float64 // ψ
	through       []float64 // z at which the mean is y, or nearest to it; nil of normal noise
	density       []float64 // log p(y|x), of normal noise − log of f's norming constant
	weight        []float64
	inv           float64   // 1/σ of normal noise
	at, mean, log []float64 // z, g(z) and log(1 + exp) of the last value
	res, std      []float64 // y − g(z), also over σ, of normal noise
	room, slope   []float64
	post, prior   []float64 // t and ρ as probabilities
}

// jump is a change of the coefficients of a feature.
type jump struct {
	column       int     // of the vacancy
	pivot        float64 // where z stays
	delta, gamma float64
	gain         float64
}

const (
	// jumpVotes places along a direction are tried. From each EM goes on while jumpPatience steps as good as the last
	// would lead above where the expert is.
	jumpVotes, jumpPatience = 16, 10
	// longestJump is the longest step of one, of features in their units.
	longestJump = 1e6
	// mostJumps are made one after the other.
	mostJumps = 12
)

// leap takes best to where jumps of its experts lead, and says whether that is anywhere.
func leap(ctx context.Context, t *search.Task, rows *partition.Table, best *search.Candidate) (gained bool, err error) {
	p := t.Problem
	for range mostJumps {
		q, err := jumped(ctx, p, rows, best.Params)
		if q == nil || err != nil {
			return gained, err
		}
		c, err := t.ClimbFrom(ctx, p.Shape.Free(), starts.KindSpare, q)
		if c == nil || err != nil || c.Failed() || c.Run.Status != optim.Converged || !c.Beats(best, p.Count()) {
			return gained, err
		}
		*best, gained = *c, true
	}
	return gained, nil
}

// jumped is q after the jump of one expert that gains most; nil where none gains.
func jumped(ctx context.Context, p *problem.Problem, rows *partition.Table,
	q *model.Params) (to *model.Params, err error) {
	most := joinGain
	for i := range q.K {
		v, err := newVacancy(ctx, p, rows, leaveOut(q, i))
		if err != nil {
			return nil, err
		}
		j := v.occupant(q, i)
		found, err := v.jump(ctx, j)
		if err != nil {
			return nil, err
		}
		if found.gain > most {
			v.move(j, found)
			to, most = v.with(j), found.gain
		}
	}
	return to, nil
}

// occupant is expert i of q as one that joins the others, which are those of the vacancy.
func (v *vacancy) occupant(q *model.Params, i int) *joiner {
	last := q.K - 1 // of the others, whose logit is 0
	if i == last {
		last--
	}
	j := &joiner{a: make([]float64, len(v.experts)), w: make([]float64, len(v.gate)), own: q.OwnOf(nil, i)}
	for c, col := range v.experts {
		if col < q.D {
			j.a[c] = q.Regressor(i)[col]
		} else {
			j.a[c] = q.RegressorIntercepts[i]
		}
	}
	logit := func(e, col int) float64 {
		switch {
		case e == q.K-1:
			return 0
		case col < q.D:
			return q.Gate(e)[col]
		}
		return q.GatingIntercepts[e]
	}
	for c, col := range v.gate {
		j.w[c] = logit(i, col) - logit(last, col)
	}
	return j
}

// move adds a jump to the coefficients of j.
func (v *vacancy) move(j *joiner, by jump) {
	add := func(to []float64, columns []int, step float64) {
		for c, col := range columns {
			switch col {
			case by.column:
				to[c] += step
			case v.mixture.D:
				to[c] -= step * by.pivot
			}
		}
	}
	add(j.a, v.experts, by.delta)
	add(j.w, v.gate, by.gamma)
}

// jump returns the jump of j that gains most.
func (v *vacancy) jump(ctx context.Context, j *joiner) (best jump, err error) {
	z, rho := v.stands(j)
	for _, along := range v.directions() {
		found, err := v.jumpable(j, z, rho, along).highest(ctx, v.problem.G)
		if err != nil {
			return best, err
		}
		if found.gain > best.gain {
			best = found
		}
	}
	return best, nil
}

// directions are those in which an expert jumps: each of its coefficients alone, and where there are intercepts about
// the median, of a feature of two values about both.
func (v *vacancy) directions() (out []jump) {
	d := v.mixture.D
	turns := slices.Contains(v.experts, d)
	for _, col := range v.experts {
		if !turns || col == d {
			out = append(out, jump{column: col})
			continue
		}
		x := slices.Sorted(slices.Values(v.x[col]))
		n := len(x)
		least, most := x[0], x[n-1]
		if i, _ := slices.BinarySearch(x, most); x[max(i-1, 0)] == least {
			out = append(out, jump{column: col, pivot: least}, jump{column: col, pivot: most})
			continue
		}
		out = append(out, jump{column: col, pivot: x[n/2]})
	}
	return out
}

// stands returns z and ρ of j, of all rows.
func (v *vacancy) stands(j *joiner) (z, rho []float64) {
	all := span{0, len(v.y)}
	z, rho = make([]float64, all.to), make([]float64, all.to)
	v.predictors(z, j, all)
	v.logits(rho, j, all)
	return z, rho
}

// jumpable readies the rows that change along a direction, for j with these z and ρ.
func (v *vacancy) jumpable(j *joiner, z, rho []float64, along jump) *jumpable {
	o := &jumpable{along: along, own: j.own}
	o.gated = slices.Contains(v.gate, along.column) && (along.pivot == 0 || slices.Contains(v.gate, v.mixture.D))
	norm := 0.0
	if v.normal() {
		o.inv, norm = 1/j.own[0], math.Log(j.own[0])
	}
	var trials []float64
	for t, y := range v.y {
		s := v.x[along.column][t] - along.pivot
		if s == 0 {
			continue
		}
		w := 1.0
		if v.weight != nil {
			w = v.weight[t]
		}
		o.s, o.z, o.rho, o.y = append(o.s, s), append(o.z, z[t]), append(o.rho, rho[t]), append(o.y, y)
		o.density, o.weight = append(o.density, v.density[t]+norm), append(o.weight, w)
		if v.trials != nil {
			trials, y = append(trials, v.trials[t]), y/v.trials[t]
		}
		if !v.normal() {
			o.through = append(o.through, v.problem.Link.Nearest(y))
		}
	}
	n := len(o.s)
	if o.law = mixture.OfTrials(v.problem.Shape.Density(), trials); !v.normal() {
		o.derived = mixture.TermsOf(n, len(o.own))
	}
	c := numeric.Columns(9, n)
	o.at, o.mean, o.log, o.room, o.slope = c[0], c[1], c[2], c[3], c[4]
	o.post, o.prior, o.res, o.std = c[5], c[6], c[7], c[8]
	return o
}

// logistic makes odds probabilities, and returns Σ log(1 + exp(odds)).
func (o *jumpable) logistic(odds []float64) float64 {
	kernel.Logistic(odds, o.log, odds)
	return kernel.Dot(o.weight, o.log)
}

// gates is Σ log(1 + exp(ρ)) at γ.
func (o *jumpable) gates(gamma float64) float64 {
	floats.AddScaledTo(o.prior, o.rho, gamma, o.s)
	return o.logistic(o.prior)
}

// fits is Σ log(1 + exp(t)) at δ and γ.
func (o *jumpable) fits(ctx context.Context, g model.Activation, delta, gamma float64) (float64, error) {
	floats.AddScaledTo(o.at, o.z, delta, o.s)
	if err := g.Eval(ctx, o.mean, o.at); err != nil {
		return 0, err
	}
	floats.AddScaledTo(o.room, o.rho, gamma, o.s)
	floats.Sub(o.room, o.density)
	o.exponents()
	return o.logistic(o.post), nil
}

// exponents adds the logarithm of the density at the means to what is in room, to post.
func (o *jumpable) exponents() {
	if !mixture.Normal(o.law) {
		o.law.LogDensity(o.post, o.room, o.y, o.mean, o.own)
		return
	}
	kernel.Sub(o.res, o.y, o.mean)
	kernel.Gaussian(o.post, o.std, o.room, o.res, o.inv, 0)
}

// highest climbs from the places for which rows vote to what gains most.
func (o *jumpable) highest(ctx context.Context, g model.Activation) (best jump, err error) {
	here, err := o.fits(ctx, g, 0, 0)
	if err != nil {
		return best, err
	}
	places, err := o.places(ctx, g)
	if err != nil {
		return best, err
	}
	here -= o.gates(0)
	for _, delta := range places {
		found, err := o.climb(ctx, g, delta, here)
		if err != nil {
			return best, err
		}
		if found.gain > best.gain {
			best = found
		}
	}
	return best, nil
}

// vote is a step that leads through a row, and what that row would gain by it.
type vote struct{ delta, gain float64 }

// places are those for which rows vote, after fits at 0.
func (o *jumpable) places(ctx context.Context, g model.Activation) ([]float64, error) {
	now := slices.Clone(o.log)
	steps, err := o.steps(ctx, g)
	if err != nil {
		return nil, err
	}
	o.logistic(o.post)
	votes := make([]vote, 0, len(o.s))
	for t, step := range steps {
		if !math.IsNaN(step) {
			votes = append(votes, vote{step, o.weight[t] * (o.log[t] - now[t])})
		}
	}
	return quantiles(votes), nil
}

// steps are those that lead through the rows, NaN for none: of normal noise as a tangent of g has it. What post
// has is then as if the expert led through all of them.
func (o *jumpable) steps(ctx context.Context, g model.Activation) (steps []float64, err error) {
	steps = make([]float64, len(o.s))
	floats.SubTo(o.room, o.rho, o.density)
	if !mixture.Normal(o.law) {
		for t, s := range o.s {
			steps[t] = (o.through[t] - o.z[t]) / s
		}
		if err := g.Eval(ctx, o.mean, o.through); err != nil {
			return nil, err
		}
		o.exponents()
		return steps, nil
	}
	copy(o.post, o.room)
	if err := g.Deriv(ctx, o.slope, o.at); err != nil {
		return nil, err
	}
	for t, s := range o.s {
		if steps[t] = math.NaN(); o.slope[t] != 0 {
			steps[t] = o.res[t] / (o.slope[t] * s)
		}
	}
	return steps, nil
}

// quantiles are places that have equal parts of what all votes would gain between them, in order.
func quantiles(votes []vote) (places []float64) {
	slices.SortStableFunc(votes, func(a, b vote) int { return cmp.Compare(a.delta, b.delta) })
	total, sum := 0.0, 0.0
	for _, a := range votes {
		total += a.gain
	}
	part := func() float64 { return math.Floor(sum/total*jumpVotes + 0.5) }
	for _, a := range votes {
		before := part()
		if sum += a.gain; part() > before {
			places = append(places, a.delta)
		}
	}
	return places
}

// climb goes from δ to a maximum in δ and γ by EM, each a Newton step. It ends where so many steps as good as the last
// would not lead above where the expert is, which has this value.
func (o *jumpable) climb(ctx context.Context, g model.Activation, delta, here float64) (to jump, err error) {
	normal, gamma := mixture.Normal(o.law), 0.0
	to = o.along
	for to.gain = math.Inf(-1); ; {
		gain, err := o.fits(ctx, g, delta, gamma)
		if err != nil {
			return to, err
		}
		gain -= o.gates(gamma) + here
		more := gain - to.gain
		if more > 0 {
			to.delta, to.gamma, to.gain = delta, gamma, gain
		}
		if !(more >= joinGain) || gain+jumpPatience*more < 0 {
			return to, nil
		}
		if err := g.Deriv(ctx, o.slope, o.at); err != nil {
			return to, err
		}
		if !normal {
			o.law.Derive(o.derived, o.y, o.mean, o.own)
		}
		var h, score, hGate, scoreGate float64
		for t, s := range o.s {
			p, r, w := o.prior[t], o.post[t], o.weight[t]
			b := o.slope[t] * s
			if normal {
				h += w * r * b * b
				score += w * r * b * o.res[t]
			} else if r > 0 {
				h += w * r * b * b * o.derived.Expected[t]
				score += w * r * b * o.derived.Score[t]
			}
			hGate += w * p * (1 - p) * s * s
			scoreGate += w * (r - p) * s
		}
		if step := score / h; math.Abs(step) < longestJump { // where g is flat there is none
			delta += step
		}
		if o.gated {
			gamma += scoreGate / (hGate + joinGateRidge)
		}
	}
}
