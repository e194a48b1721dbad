package search

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/kink"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// levels is by how much the rows grow from one refinement to the next.
const levels = 16

// refine carries the best candidates from the part to all rows, level by level,
// and returns the best of all rows of everything that it has seen. The candidates themselves stay on the
// part, where more may join them; what became of them is in refined.
func (t *Task) refine(ctx context.Context, all []*Candidate) (best *Candidate, err error) {
	for _, c := range all {
		c.refined = nil // what a search of fewer starts left
	}
	n := t.Problem.N()
	rows, _ := t.Part.Dims()
	var field []*Candidate
	for _, c := range contenders(all, t.Problem.CountOf(rows)) {
		refined := *c
		c.refined, refined.Whole = &refined, nil
		field = append(field, &refined)
	}
	for rows < n {
		if rows = levels * rows; 4*rows > n { // the rest would not save what this costs
			break
		}
		part := model.Part(t.rows(), rows)
		rows, _ = part.Dims()
		for _, c := range field {
			if err := t.climbOn(ctx, c, part); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(field, Compare)
		field = contenders(field, t.Problem.CountOf(rows))
	}
	for _, c := range all {
		c.Contended = slices.Contains(field, c.refined)
	}
	going := removals{Task: t}
	for i, c := range field {
		if t.Refining != nil {
			t.Refining(i, len(field))
		}
		if c.Rows == n && c.Ridge == 0 && c.Run.Status == optim.Converged {
			continue
		}
		if err := going.remove(ctx, c, t.Problem.Shape.Free()); err != nil {
			return nil, err
		}
	}
	best = slices.MinFunc(field, Compare)
	if best, err = t.overlooked(ctx, all, best); err != nil {
		return nil, err
	}
	if best, err = Make(ctx, t, t.Steps.Refined, best, atRefinement); err != nil {
		return nil, err
	}
	if best, err = Make(ctx, t, t.Steps.Last, best, atRefinement); err != nil {
		return nil, err
	}
	if sigma := t.Problem.Shape.Sigma; sigma > 0 {
		best.Params = t.Problem.Shape.WithNoise(best.Params, sigma)
		if err := t.RemoveRidge(ctx, best, t.Problem.Shape.Estimated()); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// OtherStarts takes the best of what was found otherwise.
func OtherStarts() Step {
	return Step{"other starts", nil,
		func(_ context.Context, t *Task, best *Candidate, _ Occasion) (*Candidate, error) {
			for _, c := range t.Others {
				refined := *c
				c.refined = &refined
				best = better(best, c.refined)
			}
			return best, nil
		}}
}

// Rise takes candidates from their parameters to maxima on the part, and the best of distinct ones, at most so many,
// on to all rows. It returns these.
func (t *Task) Rise(ctx context.Context, all []*Candidate, most int) ([]*Candidate, error) {
	err := Each(ctx, t.Problem, all, func(ctx context.Context, c *Candidate) error {
		return t.begin(ctx, c, nil, math.Inf(1))
	})
	if err != nil {
		return nil, err
	}
	on := BestOf(all, math.Inf(1))
	err = Each(ctx, t.Problem, all, func(ctx context.Context, c *Candidate) error {
		return t.complete(ctx, c, on, 1)
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, Compare)
	risen := slices.DeleteFunc(Distinct(all, most, t.sameOnPart()),
		func(c *Candidate) bool { return c.Failed() || c.Run.Value > all[0].Run.Value+ContenderGap })
	free := t.Problem.Shape.Free()
	return risen, Each(ctx, t.Problem, risen,
		func(ctx context.Context, c *Candidate) error { return t.carry(ctx, c, free) })
}

// overlooked looks at the candidates that were not refined where they stand, on all
// rows, and refines those that are better there than the best.
func (t *Task) overlooked(ctx context.Context, all []*Candidate, best *Candidate) (*Candidate, error) {
	l := t.onAll(best)
	for _, c := range all {
		if c.refined != nil || c.Degenerate || c.Failed() {
			continue
		}
		if c.Whole == nil {
			v, err := l.Value(ctx, l.Where(c))
			if err != nil {
				return nil, err
			}
			c.Whole = &v
		}
		if !(*c.Whole < best.Run.Value) {
			continue
		}
		refined := *c
		c.refined, refined.Whole = &refined, nil
		if err := t.RemoveRidge(ctx, &refined, t.Problem.Shape.Free()); err != nil {
			return nil, err
		}
		best = better(best, c.refined)
	}
	return best, nil
}

// concur marks the candidates that have met the best of all rows, and no others: those that have become it, or as
// good, and of those that were not taken to all rows the ones that have ended on the part where one of these did,
// in value and in the likelihood of all rows.
func (t *Task) concur(ctx context.Context, all []*Candidate, best *Candidate) error {
	n := t.Problem.N()
	var there, open []*Candidate
	for _, c := range all {
		r := c.refined
		whole := r != nil && r.Rows == n
		c.Agrees = whole && r.Run.Value <= best.Run.Value+SameOptimum(t.Problem.Count()) && !r.Degenerate &&
			r.Run.Status == optim.Converged
		switch {
		case c.Agrees:
			there = append(there, c)
		case !whole && !c.Degenerate && c.Run.Status == optim.Converged:
			open = append(open, c)
		}
	}
	for _, c := range open {
		for _, o := range there {
			if c.Agrees || !(math.Abs(c.Run.Value-o.Run.Value) <= t.sameOnPart()) {
				continue
			}
			a, err := t.whole(ctx, c)
			if err != nil {
				return err
			}
			b, err := t.whole(ctx, o)
			if err != nil {
				return err
			}
			c.Agrees = math.Abs(a-b) <= t.sameOnPart()
		}
	}
	for _, c := range all {
		if c.refined != nil {
			c.refined.Agrees = c.Agrees
		}
	}
	return nil
}

// whole is the mean negative log-likelihood of all rows where a candidate stands on the part; 0 where the part is all
// of them and the value says as much.
func (t *Task) whole(ctx context.Context, c *Candidate) (float64, error) {
	if part, _ := t.Part.Dims(); part == t.Problem.N() {
		return 0, nil
	}
	if c.Whole == nil {
		l := t.onAll(c)
		v, err := l.Value(ctx, l.Where(c))
		if err != nil {
			return 0, err
		}
		c.Whole = &v
	}
	return *c.Whole, nil
}

// climbOn takes a candidate to a maximum on these rows, with the ridge of the
// screening: it costs the less of each row, the more rows there are.
func (t *Task) climbOn(ctx context.Context, c *Candidate, rows model.Rows) error {
	n, _ := rows.Dims()
	l := t.on(rows, c, t.Problem.Shape.Free(), t.Problem.Threads)
	l.PenaliseGate(starts.ScreenRidge)
	return c.climb(ctx, l, n)
}

// mostContenders and ContenderGap bound who goes on to more rows.
const (
	mostContenders = 3
	// ContenderGap is below which in mean log-likelihood another may be the best on more rows: sampling noise in the
	// difference of two over 2,000 rows is of that order.
	ContenderGap = 0.02
)

// contenders returns those that could be the best on more rows than these:
// distinct optima within a gap of the best, and all that have been contenders before, of
// which one may have been the best.
func contenders(sorted []*Candidate, rows float64) []*Candidate {
	var out, again []*Candidate
	for _, c := range sorted {
		switch {
		case len(out) == 0, len(out) < mostContenders && c.Run.Value <= out[0].Run.Value+ContenderGap &&
			c.Run.Value > out[len(out)-1].Run.Value+SameOptimum(rows):
			out = append(out, c)
		case c.Contended:
			again = append(again, c)
		}
	}
	return append(out, again...)
}

// attempts end after so many in a row that have gained nothing.
type attempts struct{ most, idle int }

// more says whether there is another, and counts it.
func (a *attempts) more() bool {
	a.idle++
	return a.idle <= a.most
}

// first says whether the one that goes on is the first, or the first after a gain.
func (a *attempts) first() bool { return a.idle == 1 }

// gained says that it has gained something.
func (a *attempts) gained() { a.idle = 0 }

// restarts without a gain end the search for the top of a likelihood with kinks;
// it is left out where the data have more than restartRows rows: there the
// maxima next to each other differ by less than anybody could see.
const (
	restarts    = 6
	restartRows = 100_000
)

// Kinked says whether maxima lie next to each other and matter.
func Kinked(p *problem.Problem) bool { return len(p.Kinks()) > 0 && p.N() <= restartRows }

// Perturbation looks for the highest of the maxima that lie next to each other where
// g, and with it the likelihood, has kinks: steps of about one standard error
// from the best, refined again (iterated local search, Lourenço, Martin & Stützle 2003).
func Perturbation() Step {
	applies := func(t *Task, _ *Candidate) bool { return Kinked(t.Problem) }
	return inPlace("perturbation", applies,
		func(ctx context.Context, t *Task, c *Candidate, when Occasion) error { return t.perturb(ctx, c, when) })
}

func (t *Task) perturb(ctx context.Context, c *Candidate, when Occasion) error {
	p := t.Problem
	n := p.Count()
	free := p.Shape.Free()
	free.Gating = c.Groups == nil // a gate that separates has no standard error
	l := t.on(t.rows(), c, free, p.Threads)
	if !l.Dense() || c.Ridge > 0 {
		return nil
	}
	x := l.Where(c)
	rng := stream.New(p.Seed, stream.Perturbation, int(when))
	h, grad := mat.NewSymDense(l.Dim(), nil), make([]float64, l.Dim())
	var chol mat.Cholesky
	var lower mat.TriDense
	for try := (attempts{most: restarts}); try.more(); {
		if try.first() {
			if _, err := l.Hessian(ctx, h, grad, x); err != nil {
				return err
			}
			h.ScaleSym(n, h)
			if !chol.Factorize(h) {
				return nil
			}
			chol.LTo(&lower)
		}
		step := errorStep(&lower, rng)
		if step == nil {
			return nil
		}
		run, err := climb.Climb(ctx, l, floats.AddTo(step, step, x), nil)
		if err != nil {
			return err
		}
		if climb.Superior(run.Value, c.Run.Value, n) {
			try.gained()
		}
		if run.Value < c.Run.Value {
			run.After(c.Run)
			x = run.X
			if err := c.Take(ctx, l, run); err != nil {
				return err
			}
		}
	}
	return nil
}

// ExactNewton is Newton's method with the exact Hessian, and with the kinks of the likelihood.
func ExactNewton() Step {
	return inPlace("exact Newton", nil,
		func(ctx context.Context, t *Task, c *Candidate, _ Occasion) error { return t.exactNewton(ctx, c) })
}

// exactNewton takes the best to its maximum where the likelihood is smooth and the climb
// gave up before: its Hessian has no terms in g″, and where they matter its steps are
// soon too small to be worth their cost. A best that is there already stays as it is, to the byte;
// one whose run has settled is: with the terms in g″ a step is longer by the factor by which
// steps without them would go on to shrink, and those that settle shrink fast. Where g has kinks the maximum may be at
// some of the likelihood, which steps without them leap over.
func (t *Task) exactNewton(ctx context.Context, c *Candidate) error {
	p := t.Problem
	kinks := p.Kinks()
	if c.Groups != nil || c.Ridge > 0 || c.Degenerate || c.Failed() || c.Rows != p.N() ||
		len(kinks) == 0 && c.Run.Settled || len(kinks) > 0 && p.Leaves != nil {
		return nil
	}
	l := t.onAll(c)
	if !l.Dense() {
		return nil
	}
	var run *optim.Result
	var err error
	if len(kinks) == 0 {
		run, err = optim.Polish(ctx, l.exact(), l.Where(c), optim.Settings{})
	} else if k := l.kinked(c, kinks); k != nil {
		run, err = optim.PolishKinks(ctx, k, l.Where(c), optim.Settings{Worth: kink.OtherSide / p.Weights.Total})
	} else {
		return nil
	}
	if err != nil || run.Status != optim.Converged || run.Iterations == 0 {
		return err
	}
	run.Iterations += c.Run.Iterations
	run.Trace = slices.Concat(c.Run.Trace, run.Trace[1:])
	return c.Take(ctx, l, run)
}

// errorStep draws a step from N(0, (LLᵀ)⁻¹), nil if L is singular: of about one
// standard error where LLᵀ is the information.
func errorStep(lower *mat.TriDense, rng *rand.Rand) []float64 {
	n, _ := lower.Dims()
	step, noise := mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	for i := range n {
		noise.SetVec(i, rng.NormFloat64())
	}
	if step.SolveVec(lower.T(), noise) != nil {
		return nil
	}
	return step.RawVector().Data
}
