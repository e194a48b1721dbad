package separation

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// hardGate is the rows of a gate that separates, each in the cell of the group of experts
// whose logit is the largest. The logits can be moved; the experts, and the gate within a
// group, stay as they are.
type hardGate struct {
	from    *model.Params
	groups  []int       // of the experts
	names   []int       // of the groups, in the order of all that follows
	columns []int       // that the gate sees
	x       [][]float64 // their values at the rows, and ones where the gate has intercepts
	logit   [][]float64 // of each group at the rows
	value   [][]float64 // log-likelihood of each row, up to a constant, were it in the cell of each group
	moved   [][]float64 // what has been added to the coefficients of x in each group's logit

	slope    []float64  // of the logit at the rows along a line
	up, down []crossing // of t = 0 on
}

// crossing is where along a line a row changes its cell, and what the log-likelihood then
// gains.
type crossing struct{ at, gain float64 }

// newHardGate is a gate that separates these groups.
func newHardGate(ctx context.Context, p *problem.Problem, q *model.Params, groups []int) (*hardGate, error) {
	n := p.N()
	s := &hardGate{from: q, groups: groups, columns: p.Shape.GateFeatures(), slope: make([]float64, n)}
	for i, g := range groups {
		if g == i {
			s.names = append(s.names, g)
		}
	}
	s.x = make([][]float64, len(s.columns))
	s.logit, s.value = make([][]float64, len(s.names)), make([][]float64, len(s.names))
	v := newGroupValues(q)
	err := model.InOrder(ctx, p.Rows, func(b *model.Block) error {
		if err := v.take(ctx, p.G, b); err != nil {
			return err
		}
		for i, j := range s.columns {
			s.x[i] = append(s.x[i], b.Col(j)...)
		}
		for i, g := range s.names {
			s.logit[i] = append(s.logit[i], v.logits[g*b.N:(g+1)*b.N]...)
			s.value[i] = append(s.value[i], v.of(b, membersOf(groups, g), g)...)
		}
		return nil
	})
	if q.GatingIntercepts != nil {
		ones := make([]float64, n)
		floats.AddConst(1, ones)
		s.x = append(s.x, ones)
	}
	for range s.names {
		s.moved = append(s.moved, make([]float64, len(s.x)))
	}
	return s, err
}

// groupValues are the log-likelihoods of a block's rows in the cells of groups.
type groupValues struct {
	q              *model.Params
	density        mixture.Density
	psi            []float64
	logits, res    []float64 // K rows; res has residuals of normal noise, means of any other density
	prior, post    []float64 // of the experts of a group
	std, norm, sum []float64
}

func newGroupValues(q *model.Params) *groupValues {
	room := func(rows int) []float64 { return make([]float64, rows*model.BlockRows) }
	return &groupValues{q, mixture.DensityOf(q.Family), nil, room(q.K), room(q.K), room(q.K), room(q.K), room(1),
		room(1), room(1)}
}

// take takes a block.
func (v *groupValues) take(ctx context.Context, g model.Activation, b *model.Block) error {
	v.q.GateLogits(v.logits, b)
	if !mixture.Normal(v.density) {
		v.q.Predictors(v.res, b)
		return g.Eval(ctx, v.res[:v.q.K*b.N], v.res[:v.q.K*b.N])
	}
	_, err := v.q.Residuals(ctx, v.q.Output(g), v.res, b)
	return err
}

// of returns log Σ_i P(z=i|x, group)·f_i(y) over the experts of a group, up to a constant,
// times the weights of the rows, until the next call.
func (v *groupValues) of(b *model.Block, members []int, name int) []float64 {
	n, kn := b.N, len(members)*b.N
	for m, i := range members {
		at, to := m*n, (m+1)*n
		floats.SubTo(v.prior[at:to], v.logits[i*n:(i+1)*n], v.logits[name*n:(name+1)*n])
	}
	model.SoftmaxShift(v.post[:kn], v.norm[:n], v.prior[:kn], n)
	for m, i := range members {
		at, to := m*n, (m+1)*n
		if res := v.res[i*n : (i+1)*n]; mixture.Normal(v.density) {
			mixture.Gaussian{}.Exponents(v.post[at:to], v.std[:n], v.prior[at:to], res, v.q.SigmaOf(i), 0)
		} else {
			v.psi = v.q.OwnOf(v.psi[:0], i)
			mixture.OfTrials(v.density, b.Role[model.Trials]).LogDensity(v.post[at:to], v.prior[at:to], b.Y, res, v.psi)
		}
	}
	model.Softmax(v.post[:kn], v.sum[:n], v.post[:kn], n)
	floats.Sub(v.sum[:n], v.norm[:n])
	if b.Role[model.Weights] != nil {
		floats.Mul(v.sum[:n], b.Role[model.Weights])
	}
	return v.sum[:n]
}

// along returns the ends of the interval of t, of those whose ends are finite, in which the
// log-likelihood is the largest after t·v has been added to the coefficients of group
// g, the one around 0 if it is among them, and how much larger it is there than at 0. A row comes over to g, or goes
// away to the next, at one t.
func (s *hardGate) along(g int, v []float64) (lo, hi, gain float64) {
	clear(s.slope)
	for j, a := range v {
		floats.AddScaled(s.slope, a, s.x[j])
	}
	s.up, s.down = s.up[:0], s.down[:0]
	own, value := s.logit[g], s.value[g]
	for r, slope := range s.slope {
		if slope == 0 {
			continue
		}
		next, top := 0, math.Inf(-1)
		for h, logit := range s.logit {
			if h != g && logit[r] > top {
				next, top = h, logit[r]
			}
		}
		at, change := (top-own[r])/slope, value[r]-s.value[next][r]
		if top < own[r] {
			change = -change
		}
		if at > 0 {
			s.up = append(s.up, crossing{at, change})
		} else {
			s.down = append(s.down, crossing{-at, change})
		}
	}
	from, to, rise := highest(s.up)
	below, above, fall := highest(s.down)
	switch {
	case rise == 0 && fall == 0:
		return -above, to, 0
	case rise >= fall:
		return from, to, rise
	}
	return -above, -below, fall
}

// leastStep is the least length of an interval between crossings, as a part of where it is.
const leastStep = 1e-9

// highest returns the interval between crossings after which the gains add up to the
// most, and that sum; the one from 0 to the first where none adds anything. It takes them in their order
// for as long as those that are left might gain more than what it has.
func highest(c []crossing) (lo, hi, gain float64) {
	hope := 0.0 // what those that are left may gain
	for _, e := range c {
		hope += max(e.gain, 0)
	}
	for i := range slices.Backward(c) {
		sift(c, i)
	}
	sum, last := 0.0, 0.0
	for first := true; len(c) > 0 && (first || sum+hope > gain); first = false {
		e := c[0]
		switch {
		case first:
			hi = e.at
		case sum > gain && e.at > last*(1+leastStep):
			lo, hi, gain = last, e.at, sum
		}
		sum += e.gain
		hope -= max(e.gain, 0)
		last = e.at
		c[0] = c[len(c)-1]
		c = c[:len(c)-1]
		sift(c, 0)
	}
	return lo, hi, gain
}

// sift makes c, of which what is below entry i is a heap already, one from there on, the nearest
// crossing on top.
func sift(c []crossing, i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(c); child++ {
			if c[child].at < c[least].at {
				least = child
			}
		}
		if least == i {
			return
		}
		c[i], c[least] = c[least], c[i]
		i = least
	}
}

// move adds t·v to the coefficients of group g, after [hardGate.along] with the same v.
func (s *hardGate) move(g int, v []float64, t float64) {
	floats.AddScaled(s.logit[g], t, s.slope)
	floats.AddScaled(s.moved[g], t, v)
}

// exchangeTries lines for every group of experts that gain nothing, one after the other, end a round.
const exchangeTries = 500

// Exchange looks for a better arrangement of the rows in the cells of a gate that separates these groups. There the
// likelihood is a step function of the gate, which has no gradient to follow; but along a line it has n steps at most,
// and can be maximised by looking at them all. So one group's gate after the other moves along lines of random
// directions. It returns q with the gate that it comes to, so steep that every row has one group for certain; nil where
// that gains next to nothing, or a row is too near to a boundary.
func Exchange(ctx context.Context, p *problem.Problem, q *model.Params, groups *Groups,
	rng *rand.Rand) (*model.Params, error) {
	s, err := newHardGate(ctx, p, q, groups.of[0])
	if err != nil || s.improve(rng) <= slack {
		return nil, err
	}
	return s.hard(), nil
}

// improve moves the gates of random groups along lines of random directions until
// exchangeTries for each have gained nothing, and returns what was gained. It goes to a random place of the best
// interval, so that the next line begins elsewhere even where nothing is gained, but to none near
// its ends, where some row is near a boundary.
func (s *hardGate) improve(rng *rand.Rand) (gained float64) {
	v := make([]float64, len(s.x))
	for idle := 0; idle < exchangeTries*len(s.names); idle++ {
		g := rng.IntN(len(s.names))
		for j := range v {
			v[j] = rng.NormFloat64()
		}
		lo, hi, gain := s.along(g, v)
		if lo == hi {
			continue
		}
		s.move(g, v, inside(rng, lo, hi))
		if gain > slack/1000 { // more than rounding
			gained += gain
			idle = -1
		}
	}
	return gained
}

// inside is a random place of the middle half of an interval.
func inside(rng *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*(1+2*rng.Float64())/4 }

// hardGap is by how much the logit of a row's cell is to be above the next, and leastGap the
// least part of the largest logit that it may be to begin with: with larger ones sums are rounded.
const hardGap, leastGap = 30, 1e-8

// params are those from which the cells were made with the logits as they have been moved.
func (s *hardGate) params() *model.Params {
	q := s.from.Clone()
	for m, g := range s.names {
		w, v := make([]float64, q.D), 0.0
		for j, a := range s.moved[m] {
			if j < len(s.columns) {
				w[s.columns[j]] = a
			} else {
				v = a
			}
		}
		for _, i := range membersOf(s.groups, g) {
			q.Tilt(i, w, v, 1)
		}
	}
	return q
}

// hard are params with a gate so steep that every row has one group for certain; nil where
// a row is too near to a boundary for that.
func (s *hardGate) hard() *model.Params {
	gap, largest := s.gap()
	if gap < leastGap*largest {
		return nil
	}
	return steepen(s.params(), UnderOne(s.groups), max(1, hardGap/gap))
}

// gap returns by how much at least the logit of a row's cell is above the next, and the
// largest of all.
func (s *hardGate) gap() (gap, largest float64) {
	gap = math.Inf(1)
	for r := range s.slope {
		first, second := math.Inf(-1), math.Inf(-1)
		for _, logit := range s.logit {
			v := logit[r]
			first, second = max(first, v), max(second, min(first, v))
			largest = max(largest, math.Abs(v))
		}
		gap = min(gap, first-second)
	}
	return gap, largest
}
