package descent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/minibatch"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// Optimiser is how ℓ2 is descended: [SGD] or [Adam].
type Optimiser interface {
	// Name is what files and flags call it.
	Name() string
	minimiser() (minimise minimiser, step float64)
}

// SGD is plain gradient steps.
type SGD struct{}

// Adam is gradient steps scaled by running moments of the gradient, see
// [optim.Adam].
type Adam struct{}

// Name returns "sgd".
func (SGD) Name() string { return "sgd" }

// Name returns "adam".
func (Adam) Name() string { return "adam" }

func (SGD) minimiser() (minimiser, float64)  { return optim.SGD, 0.3 }
func (Adam) minimiser() (minimiser, float64) { return optim.Adam, 0.01 }

// Optimisers lists the optimisers of ℓ2.
func Optimisers() []Optimiser { return []Optimiser{SGD{}, Adam{}} }

// L2 is the settings of a descent of ℓ2.
type L2 struct {
	MiniBatches
	Optimiser Optimiser // nil is SGD
}

const (
	l2Batch = 128
	l2Steps = 10_000
)

// Check refuses what no data could be fitted with.
func (l L2) Check() error { return l.check() }

// Fit descends ℓ2 over regressors and gating together from random unit rows
// (002 §3.1, the papers' baseline), or from the user's start for a candidate of
// that kind. The one with the least ℓ2 of all rows comes first, those that
// diverged behind the others; σ is then the likelihood's, with regressors and
// gating held.
func (l L2) Fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, all []*search.Candidate, own *model.Params,
	show Progress) (*Record, []string, error) {
	if l.Optimiser == nil {
		l.Optimiser = SGD{}
	}
	minimise, step := l.Optimiser.minimiser()
	how, err := l.over(p.N(), l2Batch, step, l2Steps)
	if err != nil {
		return nil, nil, err
	}
	l.MiniBatches = how
	epoch := show.epochs(len(all) * l.Epochs)
	early := make([]string, len(all))
	at := func(c *search.Candidate) int { return slices.Index(all, c) }
	err = search.Draw(ctx, p, all, stream.Start, 0,
		func(ctx context.Context, c *search.Candidate, rng *rand.Rand) error {
			why, err := l.descend(ctx, p, e, c, minimise, own, rng, epoch)
			if err != nil {
				return err
			}
			early[at(c)] = why
			return noiseAlone(ctx, p, c)
		})
	if err != nil {
		return nil, nil, err
	}
	firstToLast := slices.Clone(all)
	slices.SortStableFunc(all, byLoss)
	best := all[0]
	if best.Failed() {
		return nil, nil, search.NoneFinite(p)
	}
	for _, c := range all {
		turned, _ := metric.Ereg(c.Params, best.Params)
		c.Agrees = !c.Degenerate && c.Run.Status == optim.Converged && turned <= sameAngle
	}
	record := &Record{
		Loss: "l2", Optimiser: l.Optimiser.Name(), MiniBatches: how,
		Steps: how.Epochs * (p.N() / how.Batch), Made: best.Run.Iterations, Value: *best.Loss,
	}
	return record, l2Notes(all, p.Shape.K, early[slices.Index(firstToLast, best)]), nil
}

// byLoss orders candidates by ℓ2, those that diverged behind the others and
// those without a finite likelihood last.
func byLoss(a, b *search.Candidate) int {
	rank := func(c *search.Candidate) int {
		switch {
		case c.Failed():
			return 2
		case c.Run.Status == optim.Diverged:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(*a.Loss, *b.Loss))
}

// descend takes one start down ℓ2, and says why it ended too early if it did. A
// run that diverges ends at the best point on its record.
func (l L2) descend(ctx context.Context, p *problem.Problem, e *moment.Evidence, c *search.Candidate,
	minimise minimiser, own *model.Params, rng *rand.Rand, epoch func()) (early string, err error) {
	k, d := p.Shape.K, p.Shape.D
	loss2 := newUnitL2(k, d, p.G, e.Norm)
	x0 := model.RandomDirections(rng, 2*k-1, d)
	if c.Kind == starts.KindOwn {
		q, err := starts.Own(p, own).Draw(ctx, rng)
		if err != nil {
			return "", err
		}
		x0 = loss2.theta(q)
	}
	gate := loss.Log(p.Rows, p.G, model.NewParams(k, d), 1)
	project := func(x []float64) { gate.Project(x[k*d:]) } // to logits that are not rounded more than those of any fit
	project(x0)
	t, err := descend(ctx, l.MiniBatches, minimise, loss2, p.Rows, x0, rng, 0, project, epoch)
	if err != nil {
		return "", err
	}
	whole := &minibatch.Whole{Loss: loss2, Rows: p.Rows}
	if early, err = t.endedEarly(ctx, whole, loss2.params); err != nil {
		return "", err
	}
	ends := [][]float64{t.X}
	if t.Status == optim.Diverged {
		ends = t.points
	}
	least := math.Inf(1)
	for _, x := range ends {
		v, err := whole.Value(ctx, x)
		if err != nil {
			return "", err
		}
		if v < least {
			t.X, least = x, v
		}
	}
	least *= e.Norm * e.Norm
	c.Run, c.Rows, c.Loss = t.Result, p.N(), &least
	c.Params = p.Shape.Adopt(loss2.params(t.X))
	return early, nil
}

// noiseAlone sets σ, where it is not given, by the likelihood with regressors
// and gating held, and the candidate's likelihood.
func noiseAlone(ctx context.Context, p *problem.Problem, c *search.Candidate) error {
	c.Params = p.Shape.WithNoise(c.Params, p.RMS())
	estimated := p.Shape.Sigma == 0
	l := loss.NewLikelihood(p.Rows, p.G, c.Params, loss.Free{Sigma: estimated}, 1)
	theta := l.Theta(c.Params)
	if estimated {
		run, err := climb.Climb(ctx, l, theta, nil)
		if err != nil {
			return err
		}
		theta = run.X
		c.Params = l.Params(theta)
	}
	var err error
	if c.Run.Value, err = l.Value(ctx, theta); err != nil {
		return err
	}
	c.Degenerate, err = l.Degenerate(ctx, c.Params)
	return err
}

// l2Notes says what the starts were like where that should be known.
func l2Notes(all []*search.Candidate, k int, early string) (notes []string) {
	if n := search.Count(all, func(c *search.Candidate) bool { return c.Run.Status == optim.Diverged }); n > 0 {
		notes = append(notes, fmt.Sprintf("l2 diverged from %d of %d starts; of such a start the best point on "+
			"record is kept: try a smaller step size", n, len(all)))
	}
	if early != "" {
		notes = append(notes, endedEarly(early))
	}
	if n := search.Count(all, func(c *search.Candidate) bool { return c.Agrees }); n == 1 && len(all) > 1 && k > 1 {
		notes = append(notes, "no other start found the same regressors: l2 has local optima, and more starts may "+
			"find a better one")
	}
	return notes
}

// unitL2 is ℓ2 in units of norm: of regressors A/norm, divided by norm². Where
// g is homogeneous it is the ℓ2 of a target divided by norm, so that one step
// size suits targets in any unit.
type unitL2 struct {
	*minibatch.L2
	norm       float64
	regressors int // numbers in A
	raw        []float64
}

func newUnitL2(k, d int, act model.Activation, norm float64) *unitL2 {
	l := minibatch.NewL2(k, d, act)
	return &unitL2{L2: l, norm: norm, regressors: k * d, raw: make([]float64, l.Dim())}
}

// params reads θ; σ is left 0.
func (l *unitL2) params(theta []float64) *model.Params {
	p := l.Params(theta, 0)
	floats.Scale(l.norm, p.Regressors)
	return p
}

// theta is the inverse of params.
func (l *unitL2) theta(p *model.Params) []float64 {
	theta := slices.Concat(p.Regressors, p.Gating)
	floats.Scale(1/l.norm, theta[:l.regressors])
	return theta
}

// GradOn implements minibatch.Loss.
func (l *unitL2) GradOn(ctx context.Context, dst, theta []float64, rows model.Rows) (float64, error) {
	copy(l.raw, theta)
	floats.Scale(l.norm, l.raw[:l.regressors])
	v, err := l.L2.GradOn(ctx, dst, l.raw, rows)
	floats.Scale(1/l.norm, dst[:l.regressors])
	floats.Scale(1/(l.norm*l.norm), dst[l.regressors:])
	return v / (l.norm * l.norm), err
}
