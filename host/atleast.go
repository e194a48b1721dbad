package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/host/atleast"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/vacancy"
	"github.com/gatedlearning/moe/sdk"
)

// boundStarts are those of a fit to a half: so few that there is no survey.
const boundStarts = 3

// atLeast is the bound of [atleast.Bound] for the number of experts, of at most to; nil, with the reason, where there
// is none; without one by methods that do not look for the maximum.
func (s *series) atLeast(ctx context.Context, act sdk.Activation, to int) (bound *fitted.AtLeast, why string,
	err error) {
	bound, why, err = s.bounded(ctx, act, to)
	var data *dataset.Error
	var request *RequestError
	switch { // of a half: all rows could be fitted
	case errors.As(err, &data):
		return nil, "of a half of the rows " + data.Msg, nil
	case errors.As(err, &request):
		return nil, "of a half of the rows " + request.Msg, nil
	}
	return bound, why, err
}

// bounded is [series.atLeast], or what is wrong with a half.
func (s *series) bounded(ctx context.Context, act sdk.Activation, to int) (bound *fitted.AtLeast, why string,
	err error) {
	if _, auto := s.cfg.Method.(Auto); !auto || to < 2 {
		return nil, "", nil
	}
	cfg := s.cfg
	cfg.Truth, cfg.Start, cfg.Checkpoint, cfg.Resume = nil, nil, nil, nil
	cfg.Method, cfg.unjudged = Auto{Starts: boundStarts}, true
	half, why, err := atleast.Halves(ctx, s.p.Given, s.p.Schema, cfg.Seed)
	if why != "" || err != nil {
		return nil, why, err
	}
	var fits [2]*rise
	for h, rows := range half {
		if fits[h], err = openRise(ctx, act, rows, &to, cfg.showing(fmt.Sprintf("half %d", h+1))); err != nil {
			return nil, "", err
		}
		defer fits[h].close(ctx)
	}
	if to < 2 {
		return nil, "the rows of a half do not determine two experts", nil
	}
	bound, err = atleast.Bound(ctx, act, half, to, func(h, k int) (*fitted.Model, error) { return fits[h].fit(ctx, k) })
	return bound, "", err
}

// rise fits one expert, two, and so on, to a half.
type rise struct {
	*series
	fits []criterion.Fit
}

// openRise opens a half for up to to experts, or, with to then less, as many as its rows determine.
func openRise(ctx context.Context, act sdk.Activation, rows dataset.Loaded, to *int, cfg Config) (*rise, error) {
	s, most, _, err := openAsFar(ctx, act, rows, 1, *to, cfg)
	*to = most
	return &rise{series: s}, err
}

// fit is the fit of k experts, from that of one less too.
func (r *rise) fit(ctx context.Context, k int) (*fitted.Model, error) {
	for len(r.fits) < k {
		k, from := len(r.fits)+1, []search.Neighbour(nil)
		p := r.p.With(k)
		if k > 1 && vacancy.NeighboursHelp(r.p) {
			if n, ok := r.neighbour(r.fits[k-2]); ok {
				from = append(from, n)
			}
		}
		if err := r.series.fit(ctx, p, r.cfg.of(k), from, fitted.Candidate{}); err != nil {
			return nil, err
		}
		c, m := r.asked.chosen.Selection[k-1], r.asked.chosen.Models[k-1]
		if err := result.Penalise(ctx, p, m, r.cfg.written()); err != nil {
			return nil, err
		}
		r.fits = append(r.fits, criterion.Of(p, c, m))
	}
	return r.fits[k-1].Model, nil
}
