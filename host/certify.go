package host

import (
	"context"
	"errors"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
)

// search races starts on the part until several agree on the best, carries
// that to all rows, and asks the certificate: an optimum that is in doubt sends
// the race on, up to the budget.
func (f *fit) search(ctx context.Context, part *model.Data) (best *climber, all []*climber, err error) {
	all, least, raced, err := f.resumedRace()
	if err != nil {
		return nil, nil, err
	}
	for ; ; least, raced = max(infer.StartsWanted, len(all)+1), false {
		if !raced {
			if all, err = f.race(ctx, part, all, least); err != nil {
				return nil, nil, err
			}
		}
		if best, err = f.finish(ctx, all, part); err != nil {
			return nil, nil, err
		}
		if err = f.certify(ctx, best, all); err != nil {
			return nil, nil, err
		}
		if f.certificate == nil || f.certificate.Optimum == infer.Pass || len(all) >= f.cfg.Starts {
			break
		}
	}
	for _, c := range all {
		if c.lifted != nil {
			*c = *c.lifted
		}
	}
	return best, all, nil
}

// exactNoise is the noise level, relative to the target's spread, below which
// residuals are rounding, and say nothing.
const exactNoise = 1e-6

// certify sets the certificate of the optimum best, one of all.
func (f *fit) certify(ctx context.Context, best *climber, all []*climber) error {
	f.certificate = nil
	evidence := infer.Evidence{
		Starts:   count(all, func(c *climber) bool { return !c.shrunk && !c.failed() }),
		Agreeing: count(all, func(c *climber) bool { return c.agrees }),
	}
	for i := range best.params.K {
		if best.params.SigmaOf(i) < exactNoise*f.spread() {
			f.certificate = infer.Judge(nil, evidence)
			f.certificate.Reason = "the fit is exact to rounding"
			return nil
		}
	}
	free := f.free()
	free.Sigma = f.cfg.Sigma == 0
	// The tests look at the gates against the last expert's: the order is that of
	// the result, whatever it was in the run.
	_, order, err := f.byProportion(ctx, best.params)
	if err != nil {
		return err
	}
	tests, err := infer.Tests(ctx, f.data, f.act, metric.Relabel(best.params, order), free, f.cfg.Seed, f.cfg.Threads)
	if many := (*infer.TooManyError)(nil); errors.As(err, &many) {
		f.note("no certificate: " + many.Error())
		return nil
	}
	if err != nil {
		return err
	}
	f.certificate = infer.Judge(tests, evidence)
	return nil
}
