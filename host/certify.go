package host

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
)

// certified is a certificate, or the note that says why there is none.
type certified struct {
	certificate *infer.Certificate
	notes       []string
}

// wanted is how many starts the certificate asks for.
func (c certified) wanted() int {
	if c.certificate == nil || c.certificate.Optimum == infer.Pass {
		return 0
	}
	return infer.StartsWanted
}

// exactNoise is the noise level, relative to the target's rms, below which
// residuals are rounding, and say nothing.
const exactNoise = 1e-6

// certify judges the optimum best, one of all.
func certify(ctx context.Context, p *problem.Problem, best *search.Candidate, all []*search.Candidate) (certified, error) {
	evidence := infer.Evidence{
		Starts:   search.Count(all, func(c *search.Candidate) bool { return !c.Degenerate && !c.Failed() }),
		Agreeing: search.Count(all, func(c *search.Candidate) bool { return c.Agrees }),
	}
	for i := range best.Params.K {
		if best.Params.SigmaOf(i) < exactNoise*p.RMS() {
			c := infer.Judge(nil, evidence)
			c.Reason = "the fit is exact to rounding"
			return certified{certificate: c}, nil
		}
	}
	// The tests look at the gates against the last expert's: the order is that of
	// the result, whatever it was in the run.
	_, order, err := byProportion(ctx, p, p.Rows, best.Params)
	if err != nil {
		return certified{}, err
	}
	tests, err := infer.Tests(ctx, p.Rows, p.G, metric.Relabel(best.Params, order), p.Shape.Estimated(), p.Seed, p.Threads)
	if many := (*infer.TooManyError)(nil); errors.As(err, &many) {
		return certified{notes: []string{"no certificate: " + many.Error()}}, nil
	}
	if err != nil {
		return certified{}, err
	}
	return certified{certificate: infer.Judge(tests, evidence)}, nil
}

// byProportion returns the experts' proportions and the permutation that puts
// the largest first: expert i becomes expert order[i].
func byProportion(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params) (proportions []float64, order []int, err error) {
	proportions, err = loss.NewLikelihood(rows, p.G, q, p.Shape.Free(), p.Threads).Proportions(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	index := make([]int, q.K)
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(proportions[b], proportions[a]) })
	order = make([]int, q.K)
	for rank, i := range index {
		order[i] = rank
	}
	return proportions, order, nil
}
