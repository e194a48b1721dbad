package host

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

const (
	// raceRows is the least number of rows on which starts race; more where the
	// model has many parameters.
	raceRows         = 2000
	raceRowsPerParam = 20
	// waveSize starts run before anyone looks at the result: a constant, so that
	// the search is the same at any number of threads.
	waveSize = 4
	// agreeing starts at the best optimum end the search.
	agreeing = 3
	// sameOptimum is a difference in total log-likelihood below which two
	// optima count as one: no test could tell them apart.
	sameOptimum = 0.5
	// moveRounds bounds the moves that are made from one start's optimum.
	moveRounds = 20
)

// climber is one start and where it got to.
type climber struct {
	kind string

	run    *optim.Result
	params *model.Params
	rows   int      // on which it ran
	agrees bool     // with the best on its optimum
	shrunk bool     // an expert shrank onto a few rows: never the best
	loglik float64  // on all rows
	loss   *float64 // of all rows, where a method minimises another than the likelihood
	early  string   // why a descent ended too early; "" for others
	lifted *climber // what became of it on more rows, see finish
}

// race runs starts on part of the data, wave by wave, after those of all that
// have run, until at least so many have run and enough of them agree on the best
// optimum, or the budget ends. It returns them best first.
//
// Starts that end above the best optimum of their wave are not thrown away:
// split-and-merge moves carry them on, and where they then reach the best
// optimum they count as agreeing.
func (f *fit) race(ctx context.Context, part *model.Data, all []*climber, least int) ([]*climber, error) {
	tolerance := sameOptimum / float64(part.N)
	for len(all) < f.cfg.Starts {
		best := math.Inf(1)
		if len(all) > 0 {
			best = all[0].run.Value
		}
		wave := f.wave(len(all))
		var mu sync.Mutex // of done
		done := len(all)
		f.progress(StageRace, done, f.cfg.Starts)
		err := f.side(ctx, wave, len(all), func(ctx context.Context, c *climber, rng *rand.Rand) error {
			return f.climb(ctx, part, c, rng, best)
		})
		if err != nil {
			return nil, err
		}
		best = bestOf(wave, best)
		err = f.side(ctx, wave, len(all), func(ctx context.Context, c *climber, _ *rand.Rand) error {
			err := f.complete(ctx, part, c, best)
			mu.Lock()
			defer mu.Unlock()
			done++
			f.progress(StageRace, done, f.cfg.Starts)
			return err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, wave...)
		if f.settled(all, tolerance) && len(all) >= least {
			break
		}
		best = all[0].run.Value
		err = f.side(ctx, wave, len(all), func(ctx context.Context, c *climber, _ *rand.Rand) error {
			return f.carryOn(ctx, part, c, best, tolerance)
		})
		if err != nil {
			return nil, err
		}
		if f.settled(all, tolerance) && len(all) >= least {
			break
		}
		f.checkpoint(all, least, false)
	}
	if all[0].failed() {
		return nil, f.noneFinite()
	}
	f.checkpoint(all, least, true)
	return all, nil
}

// byValue orders climbers by their value, those with a shrunk expert behind the
// others and those that failed last.
func byValue(a, b *climber) int {
	rank := func(c *climber) int {
		switch {
		case c.failed():
			return 2
		case c.shrunk:
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.run.Value, b.run.Value))
}

// failed says whether the start led nowhere: to no finite likelihood.
func (c *climber) failed() bool { return math.IsNaN(c.run.Value) || math.IsInf(c.run.Value, 0) }

// noneFinite is the error where all starts failed.
func (f *fit) noneFinite() error {
	return &dataset.Error{File: f.schema.Name, Msg: "no start reached a finite likelihood: the values are too large for it; rescale target or features"}
}

// settled sorts the climbers, best first, and says whether enough of them
// agree on the best.
func (f *fit) settled(all []*climber, tolerance float64) bool {
	slices.SortStableFunc(all, byValue)
	need := agreeing
	if f.cfg.K == 1 {
		need = 2
	}
	n := 0
	for _, c := range all {
		c.agrees = !c.shrunk && c.run.Status == optim.Converged && c.run.Value <= all[0].run.Value+tolerance
		if c.agrees {
			n++
		}
	}
	return n >= need
}

// wave returns the next starts, of which from have been made: the user's own
// and the moment estimate first, then starts of the kinds in turn.
func (f *fit) wave(from int) []*climber {
	first, kinds := []string{}, []string{KindRandom}
	if f.cfg.Start != nil {
		first = append(first, KindOwn)
	}
	if f.estimate != nil {
		first = append(first, KindMoments)
	}
	general := f.shape.intercept || !f.inputs.standard()
	switch spanned := f.span != nil && f.cfg.K > 1; {
	case spanned && general:
		kinds = []string{KindKMeans, KindSpan, KindRandom}
	case spanned:
		kinds = []string{KindSpan, KindSpan, KindRandom}
	case general:
		kinds = []string{KindKMeans, KindRandom}
	}
	size := waveSize
	if f.cfg.K == 1 {
		size = 2
	}
	var out []*climber
	for i := from; i < min(from+size, f.cfg.Starts); i++ {
		if i < len(first) {
			out = append(out, &climber{kind: first[i]})
		} else {
			out = append(out, &climber{kind: kinds[(i-len(first))%len(kinds)]})
		}
	}
	return out
}

// startOf returns where a start of this kind begins.
func (f *fit) startOf(ctx context.Context, kind string, part *model.Data, rng *rand.Rand) (*model.Params, error) {
	switch kind {
	case KindOwn:
		return f.ownStart(), nil
	case KindMoments:
		return f.momentStart(ctx)
	case KindSpan:
		return f.spanStart(ctx, rng)
	case KindKMeans:
		return f.kmeansStart(rng, part), nil
	}
	return f.randomStart(rng), nil
}

// side runs fn for every climber, side by side on the fit's threads, each with
// random numbers of its own.
func (f *fit) side(ctx context.Context, wave []*climber, stream int, fn func(context.Context, *climber, *rand.Rand) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, len(wave))
	slots := make(chan struct{}, model.Workers(f.cfg.Threads))
	var wg sync.WaitGroup
	for i, c := range wave {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			rng := rand.New(rand.NewPCG(f.cfg.Seed, uint64(stream+i)))
			if errs[i] = fn(ctx, c, rng); errs[i] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return firstCause(errs)
}

// firstCause returns the first error that is not another's cancellation, or the
// first if all are.
func firstCause(errs []error) error {
	var first error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if !errors.Is(err, context.Canceled) {
			return err
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// climb takes one start up to where EM crawls on the part. A run that cannot
// catch up with the best is stopped early.
func (f *fit) climb(ctx context.Context, part *model.Data, c *climber, rng *rand.Rand, best float64) error {
	p, err := f.startOf(ctx, c.kind, part, rng)
	if err != nil {
		return err
	}
	l := loss.NewLikelihood(part, f.act, p, f.free(), 1)
	if c.run, err = approach(ctx, l, l.Theta(p), hopeless(asGood(best, part))); err != nil {
		return err
	}
	c.params, c.rows = l.Params(c.run.X), part.N
	return f.judge(ctx, l, c)
}

// asGood is the value from which on a run on the part agrees with the best.
func asGood(best float64, part *model.Data) float64 { return best + sameOptimum/float64(part.N) }

// bestOf returns the least of best and of where the wave stands.
func bestOf(wave []*climber, best float64) float64 {
	for _, c := range wave {
		if !c.shrunk && !c.failed() {
			best = min(best, c.run.Value)
		}
	}
	return best
}

// complete takes a climber on to a local optimum, unless it cannot catch up with
// the best.
func (f *fit) complete(ctx context.Context, part *model.Data, c *climber, best float64) error {
	if c.failed() || c.run.Status == optim.Stopped || c.run.Status == optim.Converged {
		return nil
	}
	best = asGood(best, part)
	if n := len(c.run.Trace); n > 1 && behind(c.run.Value, best, c.run.Trace[n-2]-c.run.Value) {
		c.run.Status = optim.Stopped
		return nil
	}
	l := loss.NewLikelihood(part, f.act, c.params, f.free(), 1)
	run, err := sharpen(ctx, l, c.run, hopeless(best))
	if err != nil {
		return err
	}
	c.run, c.params = run, l.Params(run.X)
	return f.judge(ctx, l, c)
}

// judge sets aside a climber with an expert that shrank onto a few rows.
func (f *fit) judge(ctx context.Context, l *loss.Likelihood, c *climber) (err error) {
	c.shrunk, err = l.Degenerate(ctx, c.params)
	return err
}

// carryOn tries moves from where a climber ended, until it reaches the best or
// no move gains.
func (f *fit) carryOn(ctx context.Context, part *model.Data, c *climber, best, tolerance float64) error {
	if c.shrunk || c.failed() {
		return nil
	}
	l := loss.NewLikelihood(part, f.act, c.params, f.free(), 1)
	for range moveRounds {
		better, err := improve(ctx, l, c.run)
		if err != nil {
			return err
		}
		if better == nil {
			// Where no clear gain is left, small ones may show at the optimum.
			was := c.run.Status
			if err := f.complete(ctx, part, c, best); err != nil || was == c.run.Status || c.run.Status != optim.Converged {
				return err
			}
			continue
		}
		better.Trace = slices.Concat(c.run.Trace, better.Trace)
		c.run, c.params = better, l.Params(better.X)
		if err := f.judge(ctx, l, c); err != nil {
			return err
		}
		if math.Abs(c.run.Value-best) <= clearGain {
			if err := f.complete(ctx, part, c, best); err != nil {
				return err
			}
		}
		if math.Abs(c.run.Value-best) <= tolerance {
			return nil
		}
	}
	return f.complete(ctx, part, c, best)
}

// finish carries the best climbers from the part to all rows, level by level,
// and returns the best of them there. The climbers themselves stay on the part,
// where more may join them; what became of them is in lifted.
func (f *fit) finish(ctx context.Context, all []*climber, part *model.Data) (*climber, error) {
	for _, c := range all {
		c.lifted = nil // what a run of fewer starts left
	}
	field := contenders(all, part.N)
	for i, c := range field {
		lifted := *c
		c.lifted = &lifted
		field[i] = &lifted
	}
	for rows := part.N; rows < f.data.N; {
		rows *= 16
		data := partOf(f.data, rows)
		if rows = data.N; rows == f.data.N {
			break
		}
		for _, c := range field {
			if err := f.lift(ctx, c, data, f.free()); err != nil {
				return nil, err
			}
		}
		slices.SortStableFunc(field, byValue)
		field = contenders(field, rows)
	}
	for i, c := range field {
		f.progress(StageFinish, i, len(field))
		if c.rows == f.data.N && c.run.Status == optim.Converged {
			continue // raced on all rows
		}
		if err := f.lift(ctx, c, f.data, f.free()); err != nil {
			return nil, err
		}
	}
	best := slices.MinFunc(field, byValue)
	if err := f.settle(ctx, best); err != nil {
		return nil, err
	}
	if f.cfg.Sigma > 0 {
		f.fixSigma(best.params)
		free := f.free()
		free.Sigma = false
		if err := f.lift(ctx, best, f.data, free); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// shakes without a gain end the search for the top of a likelihood with kinks;
// it is left out where the data have more than shakeRows rows: there the
// maxima next to each other differ by less than anybody could see.
const (
	shakes    = 6
	shakeRows = 100_000
)

// settle looks for the highest of the maxima that lie next to each other where
// g, and with it the likelihood, has kinks: steps of about one standard error
// from the best, refined again.
func (f *fit) settle(ctx context.Context, c *climber) error {
	if len(f.sdk.Info().Kinks) == 0 || f.data.N > shakeRows {
		return nil
	}
	l := loss.NewLikelihood(f.data, f.act, c.params, f.free(), f.cfg.Threads)
	rng := rand.New(rand.NewPCG(f.cfg.Seed, 1<<32))
	h, grad := mat.NewSymDense(l.Dim(), nil), make([]float64, l.Dim())
	var chol mat.Cholesky
	var lower mat.TriDense
	step, noise := mat.NewVecDense(l.Dim(), nil), mat.NewVecDense(l.Dim(), nil)
	for failures := 0; failures < shakes; failures++ {
		if failures == 0 {
			if _, err := l.Hessian(ctx, h, grad, c.run.X); err != nil {
				return err
			}
			h.ScaleSym(float64(f.data.N), h)
			if !chol.Factorize(h) {
				return nil
			}
			chol.LTo(&lower)
		}
		for i := range l.Dim() {
			noise.SetVec(i, rng.NormFloat64())
		}
		if step.SolveVec(lower.T(), noise) != nil {
			return nil
		}
		theta := floats.AddTo(make([]float64, l.Dim()), c.run.X, step.RawVector().Data)
		run, err := refine(ctx, l, theta, nil)
		if err != nil {
			return err
		}
		if gain := c.run.Value - run.Value; gain > 0 {
			run.Iterations += c.run.Iterations
			run.Trace = slices.Concat(c.run.Trace, run.Trace)
			c.run, c.params = run, l.Params(run.X)
			if gain > slack/float64(f.data.N) {
				failures = -1
			}
		}
	}
	return nil
}

// contenders returns those that could be the best on more rows: distinct optima
// within 0.02 per row of the best, three at most. Sampling noise in the
// difference of two mean log-likelihoods over 2,000 rows is of that order.
func contenders(sorted []*climber, rows int) []*climber {
	var out []*climber
	for _, c := range sorted {
		if len(out) == 3 || len(out) > 0 && c.run.Value > out[0].run.Value+0.02 {
			break
		}
		if len(out) == 0 || c.run.Value > out[len(out)-1].run.Value+sameOptimum/float64(rows) {
			out = append(out, c)
		}
	}
	return out
}

// lift refines a climber on data.
func (f *fit) lift(ctx context.Context, c *climber, data *model.Data, free loss.Free) error {
	l := loss.NewLikelihood(data, f.act, c.params, free, f.cfg.Threads)
	run, err := refine(ctx, l, l.Theta(c.params), nil)
	if err != nil {
		return err
	}
	run.Iterations += c.run.Iterations
	if c.rows == data.N {
		run.Trace = slices.Concat(c.run.Trace, run.Trace)
	}
	c.run, c.params, c.rows = run, l.Params(run.X), data.N
	return f.judge(ctx, l, c)
}
