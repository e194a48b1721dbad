package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// byL2 descends ℓ2 over regressors and gating together from random unit rows
// (002 §3.1, the papers' baseline). Of several starts the one with the least ℓ2
// of all rows is kept, those that diverged behind the others; σ is then the
// likelihood's, with regressors and gating held.
func (f *fit) byL2(ctx context.Context) (*fitted.Model, error) {
	all := f.randomStarts()
	epoch := f.epochs(len(all))
	err := f.side(ctx, all, 0, func(ctx context.Context, c *climber, rng *rand.Rand) error {
		if err := f.descendL2(ctx, c, rng, epoch); err != nil {
			return err
		}
		return f.noiseAlone(ctx, c)
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, byLoss)
	best := all[0]
	if best.failed() {
		return nil, f.noneFinite()
	}
	for _, c := range all {
		turned, _ := metric.Ereg(c.params, best.params)
		c.agrees = !c.shrunk && c.run.Status == optim.Converged && turned <= settledAngle
	}
	f.record(MethodL2, best.run.Iterations, f.descent.Epochs*(f.data.N/f.descent.Batch), *best.loss)
	f.noteL2(all)
	f.noteNoCertificate()
	return f.model(ctx, best, all)
}

// byLoss orders the climbers of method l2 by ℓ2, those that diverged behind the
// others and those without a finite likelihood last.
func byLoss(a, b *climber) int {
	rank := func(c *climber) int {
		switch {
		case c.failed():
			return 2
		case c.run.Status == optim.Diverged:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(*a.loss, *b.loss))
}

// descendL2 takes one start down ℓ2. A run that diverges ends at the best point
// on its record.
func (f *fit) descendL2(ctx context.Context, c *climber, rng *rand.Rand, epoch func()) error {
	k, d := f.cfg.K, f.data.D
	l := newUnitL2(k, d, f.act, f.scale)
	x0 := unitRows(rng, 2*k-1, d)
	if c.kind == KindOwn {
		x0 = l.theta(f.ownStart())
	}
	t, err := f.descend(ctx, l, f.data, x0, rng, 0, epoch)
	if err != nil {
		return err
	}
	whole := &loss.Whole{Loss: l, Rows: f.data}
	if c.early, err = t.unsettled(ctx, whole, l.params); err != nil {
		return err
	}
	ends := [][]float64{t.X}
	if t.Status == optim.Diverged {
		ends = t.points
	}
	least := math.Inf(1)
	for _, x := range ends {
		v, err := whole.Value(ctx, x)
		if err != nil {
			return err
		}
		if v < least {
			t.X, least = x, v
		}
	}
	least *= f.scale * f.scale
	c.run, c.rows, c.loss = t.Result, f.data.N, &least
	c.params = f.adopt(l.params(t.X))
	return nil
}

// noiseAlone sets σ, where it is not given, by the likelihood with regressors
// and gating held, and the climber's likelihood.
func (f *fit) noiseAlone(ctx context.Context, c *climber) error {
	for i := range c.params.Sigma {
		c.params.Sigma[i] = f.spread()
	}
	if f.cfg.Sigma > 0 {
		f.fixSigma(c.params)
	}
	l := loss.NewLikelihood(f.data, f.act, c.params, loss.Free{Sigma: f.cfg.Sigma == 0}, 1)
	theta := l.Theta(c.params)
	if f.cfg.Sigma == 0 {
		run, err := refine(ctx, l, theta, nil)
		if err != nil {
			return err
		}
		theta = run.X
		c.params = l.Params(theta)
	}
	var err error
	if c.run.Value, err = l.Value(ctx, theta); err != nil {
		return err
	}
	return f.judge(ctx, l, c)
}

// noteL2 says what the starts were like where that should be known.
func (f *fit) noteL2(all []*climber) {
	best := all[0]
	if n := count(all, func(c *climber) bool { return c.run.Status == optim.Diverged }); n > 0 {
		f.note(fmt.Sprintf("l2 diverged from %d of %d starts; of such a start the best point on record is kept: try a smaller step size", n, len(all)))
	}
	f.noteEarly(best.early)
	if n := count(all, func(c *climber) bool { return c.agrees }); n == 1 && len(all) > 1 && f.cfg.K > 1 {
		f.note("no other start found the same regressors: l2 has local optima, and more starts may find a better one")
	}
}

// noteEarly says that a descent ended too early, if it did.
func (f *fit) noteEarly(why string) {
	if why != "" {
		f.note("the descent ended too early: its second half " + why + "; try more epochs, or larger batches")
	}
}

// unitL2 is ℓ2 in units of scale: of regressors A/scale, divided by scale². Where
// g is homogeneous it is the ℓ2 of a target divided by scale, so that one step
// size suits targets in any unit.
type unitL2 struct {
	*loss.L2
	scale      float64
	regressors int // numbers in A
	raw        []float64
}

func newUnitL2(k, d int, act model.Activation, scale float64) *unitL2 {
	l := loss.NewL2(k, d, act)
	return &unitL2{L2: l, scale: scale, regressors: k * d, raw: make([]float64, l.Dim())}
}

// params reads θ; σ is left 0.
func (l *unitL2) params(theta []float64) *model.Params {
	p := l.Params(theta, 0)
	floats.Scale(l.scale, p.Regressors)
	return p
}

// theta is the inverse of params.
func (l *unitL2) theta(p *model.Params) []float64 {
	theta := slices.Concat(p.Regressors, p.Gating)
	floats.Scale(1/l.scale, theta[:l.regressors])
	return theta
}

// GradOn implements loss.OnData.
func (l *unitL2) GradOn(ctx context.Context, dst, theta []float64, data model.Rows) (float64, error) {
	copy(l.raw, theta)
	floats.Scale(l.scale, l.raw[:l.regressors])
	v, err := l.L2.GradOn(ctx, dst, l.raw, data)
	floats.Scale(1/l.scale, dst[:l.regressors])
	floats.Scale(1/(l.scale*l.scale), dst[l.regressors:])
	return v / (l.scale * l.scale), err
}
