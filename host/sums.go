package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/sdk"
)

// FitSums fits to a table that is known by the sums of rounds over its shards, which the file of
// that name holds. Methods [Moments] and [Spectral] take their tensors from the sums of all rounds:
// these, and so the regressors with their signs, are those that [Fit] with the transforms that the sums
// are made for, [Polynomial] or [Optimal], makes of all rows, to the byte; the gate, the noise level and the likelihood
// are those of the random subsample in the file. Other methods fit that subsample; [Auto] from the estimate by
// the moments of all rows too, where the sums are made for the same model. Its near-best optima, which
// may be the best on all rows, are in the model for passes over those. Errors: [*RequestError], *dataset.Error where
// the sums are made for something else, those of act and of ctx.
func FitSums(ctx context.Context, act sdk.Activation, sums *shard.Moments, file string,
	cfg Config) (*fitted.Model, error) {
	cfg, err := cfg.Checked()
	if err := cmp.Or(err, cfg.untied("a fit to sums of parts"), sums.Whole(file)); err != nil {
		return nil, err
	}
	if Takes(cfg.Method, OptSums) {
		return fitTensors(ctx, act, sums, file, cfg)
	}
	all, taken := sums.Rows()
	cfg.beside = taken < all
	if Takes(cfg.Method, OptTransform) && Takes(cfg.Method, OptStart) && cfg.Start == nil && cfg.beside {
		if cfg.Start, err = startOf(ctx, act, sums, file, cfg); err != nil {
			return nil, err
		}
	}
	m, err := Fit(ctx, act, sums.SampleSource(file), cfg)
	if err == nil {
		m.Fit.Prints = sums.Prints()
		if cfg.beside {
			m.Baselines = nil // of a part of the rows
		}
	}
	return m, err
}

// startOf is the estimate by the moments of all rows, nil where there is none for what cfg asks.
func startOf(ctx context.Context, act sdk.Activation, sums *shard.Moments, file string,
	cfg Config) (*model.Params, error) {
	if act == nil || !sums.Complete() {
		return nil, nil
	}
	if cfg.Method = (Moments{}); !cfg.normal() {
		cfg.Method = Spectral{}
	}
	cfg.Truth, cfg.beside, cfg.Errors, cfg.Arrangements, cfg.Inputs = nil, false, nil, false, ""
	cfg, err := cfg.Checked()
	var m *fitted.Model
	if err == nil {
		m, err = fitTensors(ctx, act, sums, file, cfg)
	}
	var none *RequestError
	var other *dataset.Error
	switch {
	case errors.As(err, &none) || errors.As(err, &other):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return m.Params(), nil
}

// fitTensors fits by a method that takes its tensors from the sums.
func fitTensors(ctx context.Context, act sdk.Activation, sums *shard.Moments, file string,
	cfg Config) (*fitted.Model, error) {
	if m, ok := cfg.Method.(Spectral); ok && m.Corrections > 0 {
		return nil, problem.Refuse("%s takes rows, and sums are made already", OptCorrections)
	}
	if !cfg.Inputs.Gaussian() {
		return nil, problem.Refuse("%s %s takes rows, and sums are made already", OptInputs, cfg.Inputs)
	}
	p, e, err := sums.Evidence(ctx, file, act, cfg.request(), cfg.Transform)
	if err != nil {
		return nil, err
	}
	all, taken := sums.Rows()
	if taken < all {
		p.Notes = append(p.Notes, fmt.Sprintf("the regressors are those of all %d rows; the gate, the noise level "+
			"and the likelihood those of a random subsample of %d", all, taken))
	}
	m, err := fit(ctx, p, e, run{Config: cfg})
	if err == nil && taken < all {
		m.Fit.Prints, m.Baselines = sums.Prints(), nil // those are of a part of the rows
	}
	return m, err
}
