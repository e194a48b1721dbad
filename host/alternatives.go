package host

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/crossvalidation"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/sdk"
)

// CrossValidate fits every number of experts from from to to without each of folds
// parts of the rows in turn, and measures it on the part that was left out, by the density at the fit's parameters and
// by the predictive one, which has their uncertainty in it. The parts are random, as equal as can be, and those of
// every k the same; a group of rows is in one. Without a part each k begins from its neighbours too, as those of
// [FitRange] do. cfg.Truth and checkpoints are not looked at. Errors are those of [FitRange].
func CrossValidate(ctx context.Context, act sdk.Activation, src dataset.Source, from, to, folds int,
	cfg Config) ([]crossvalidation.HeldOut, error) {
	return Alternative{Activation: act, Source: src, From: from, To: to, Config: cfg}.CrossValidate(ctx, folds)
}

// CrossValidate is [CrossValidate] of an alternative, of several targets too, which have the same rows: by the product
// of their densities where each has a gate of its own, by their joint density, at the parameters, under one.
func (a Alternative) CrossValidate(ctx context.Context, folds int) ([]crossvalidation.HeldOut, error) {
	if a.From < 1 || a.To < a.From {
		return nil, problem.Refuse("k from %d to %d, want 1 or more, the smaller first", a.From, a.To)
	}
	return crossvalidation.Of(ctx, a.tried(), parting(a.Config, folds))
}

// FitTargets fits several targets, of a range of k by [ByHeldOut] what [Compare] chooses: one k for all of them, by the
// density of all targets of a row, whose table is in Fit.Descriptions. Where each has a gate of its own the fits are
// those of [FitRange], and Fit.Selection has what the rows that were left out say of this target.
func (a Alternative) FitTargets(ctx context.Context) (*fitted.Vector, error) {
	switch {
	case a.Config.compared != nil: // by which k is known
	case a.Config.Choose == ByHeldOut:
		found, err := Compare(ctx, []Alternative{a})
		if err != nil {
			return nil, err
		}
		a.Config = a.Config.ChosenBy(found)
	case a.From != a.To:
		return nil, problem.Refuse("of several targets k of a range is chosen by %s", ByHeldOut)
	}
	if a.Covariance != "" {
		return FitSharedGate(ctx, a.Activation, a.Targets, a.Covariance, a.Config)
	}
	return FitTargets(ctx, a.Activation, a.Targets, a.Config)
}

// everyK fits every number of experts to a table, each from its neighbours too as [FitRange] does.
func everyK(ctx context.Context, act sdk.Activation, rows dataset.Source, from, to int,
	cfg Config) (criterion.Fits, error) {
	s, err := openRange(ctx, act, rows, from, to, cfg)
	if err != nil {
		return nil, err
	}
	defer s.close(ctx)
	fits, err := s.ladder(ctx, from, to)
	if err != nil {
		return nil, err
	}
	for k, f := range fits {
		if err := result.Penalise(ctx, s.p.With(k), f.Model, s.cfg.written()); err != nil {
			return nil, err
		}
	}
	return fits, nil
}

// everyOfEach fits every number of experts to each of several targets by itself.
func everyOfEach(ctx context.Context, act sdk.Activation, targets []Target, from, to int,
	cfg Config) (criterion.Fits, error) {
	all, models := criterion.Fits{}, map[int][]*fitted.Model{}
	cfg.GatePenalty = NoPenalty
	for _, t := range targets {
		fits, err := everyK(ctx, act, t.Source, from, to, forTarget(cfg, t))
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Source.Schema().Target, err)
		}
		for k, f := range fits {
			models[k] = append(models[k], f.Model)
			all[k] = criterion.Fit{Vector: fitted.NewVector(models[k]), Parameters: all[k].Parameters + f.Parameters,
				Certain: all[k].Certain || f.Certain}
		}
	}
	return all, nil
}

// everyUnderOneGate fits every number of experts to several targets, the largest first, for which the rows may be few.
func everyUnderOneGate(ctx context.Context, act sdk.Activation, targets []Target, noise NoiseCovariance, from, to int,
	cfg Config) (criterion.Fits, error) {
	all := criterion.Fits{}
	for k := to; k >= from; k-- {
		var err error
		if all[k], err = underOneGate(ctx, act, targets, noise, cfg.of(k)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Alternative is one of several descriptions of a model of the same rows: From to To experts of Config, whose K is not
// looked at.
type Alternative struct {
	Activation sdk.Activation
	Source     dataset.Source
	// Targets are several, in the place of Source: each with a gate of its own, as by [FitTargets], where Covariance is
	// "", else under one with noise of this kind, as by [FitSharedGate]. Starts and truths of theirs are not looked at.
	Targets    []Target
	Covariance NoiseCovariance
	From, To   int
	Config     Config
	// Settings are what tells it from the others, by their names: the table of all has them.
	Settings map[string]string
	// Refused says why it is none that can be fitted; nil of one that is tried.
	Refused error
}

// Compare fits every number of experts of all alternatives without each of ten parts of the rows, as [CrossValidate]
// does, and chooses by the log-likelihood of the rows that were left out, by the predictive density: of those within
// one standard error of the highest it takes the one of the fewest parameters, and among these of the highest.
// After 1, 2, 3, 5 and 7 parts, a share s of all, one of more parameters than the best is left where it is 2.25 − 2.5·s
// standard errors below it, and s units for each parameter more. The standard error is that of the difference,
//
//	√(n/(n−1) · (Σ w_r·d_r² − (Σ w_r·d_r)²/Σ w_r)),  d_r = log p(y_r|x_r) − log q(y_r|x_r)
//
// over the n rows, or groups, for densities p and q that were fitted without the row's part. The parts are the same for
// all, by the seed of the first, and several fits are made at a time, by the threads of the first.
// An alternative that does not fit the rows, or those without some part, is not chosen, and Fit.Descriptions says why;
// where there is no other, its error is returned. Of a range those ks are compared for which the rows without a part
// are enough. Families of whole numbers and of others are refused beside each other, whose probabilities and densities
// do not compare. Experts have one activation. The fit of the chosen one to all rows is by [Config.ChosenBy].
func Compare(ctx context.Context, all []Alternative) (*crossvalidation.Comparison, error) {
	var tried []crossvalidation.Alternative
	var by crossvalidation.Parting
	var families []string
	for _, a := range all {
		tried = append(tried, a.tried())
		switch {
		case a.Refused != nil:
			continue
		case a.From < 1 || a.To < a.From:
			return nil, problem.Refuse("k from %d to %d, want 1 or more, the smaller first", a.From, a.To)
		case a.Config.Leaves != nil:
			return nil, problem.Refuse("descriptions are compared of experts of one activation, not of leaves of " +
				"several")
		}
		if len(families) == 0 {
			by = parting(a.Config, 0)
		}
		families = append(families, a.Config.Family)
	}
	if len(families) == 0 {
		return nil, problem.Refuse("there is nothing to compare")
	}
	if err := crossvalidation.Comparable(families); err != nil {
		return nil, err
	}
	return crossvalidation.Compare(ctx, tried, by)
}

// parting is how rows are parted into so many folds, 0 for the default, and fits are made of them.
func parting(c Config, folds int) crossvalidation.Parting {
	return crossvalidation.Parting{Folds: folds, Seed: c.Seed, Threads: c.Threads, Progress: c.shows(StageHeldOut)}
}

// tried is an alternative with its fits.
func (a Alternative) tried() crossvalidation.Alternative {
	tables := []dataset.Source{a.Source}
	for j, t := range a.Targets { // in its place
		tables = append(tables[:j], t.Source)
	}
	return crossvalidation.Alternative{
		Activation: a.Activation, Sources: tables, Intercept: a.Config.Intercepts == BothIntercepts,
		From: a.From, To: a.To, Settings: a.Settings, Refused: a.Refused, Admit: a.admit,
		Several: len(a.Targets) > 1 || a.Covariance != "",
		Fit: func(ctx context.Context, rows []dataset.Loaded, from, to, threads int) (criterion.Fits, error) {
			cfg := a.Config
			cfg.Threads, cfg.Truth, cfg.unjudged = threads, nil, true
			cfg.Checkpoint, cfg.Resume, cfg.Progress = nil, nil, nil
			if left := rows[0].Schema().Features; len(left) < len(tables[0].Schema().Features) {
				cfg = cfg.only(left)
			}
			switch {
			case a.Targets == nil:
				return everyK(ctx, a.Activation, rows[0], from, to, cfg)
			case a.Covariance == "":
				return everyOfEach(ctx, a.Activation, asTargets(rows), from, to, cfg)
			}
			return everyUnderOneGate(ctx, a.Activation, asTargets(rows), a.Covariance, from, to, cfg)
		},
	}
}

// asTargets are the targets of tables, without starts.
func asTargets(rows []dataset.Loaded) (targets []Target) {
	for _, table := range rows {
		targets = append(targets, Target{Source: table})
	}
	return targets
}

// admit says what is wrong with all rows.
func (a Alternative) admit(ctx context.Context, rows []dataset.Loaded) error {
	cfg := a.Config.of(a.From)
	if a.Covariance != "" {
		s, err := newSharedGate(asTargets(rows), a.Covariance, cfg)
		if err != nil {
			return err
		}
		defer s.close()
		return s.load(ctx, a.Activation)
	}
	if err := checkTargets(a.Targets, cfg); a.Targets != nil && err != nil {
		return err
	}
	var first *problem.Problem
	for _, table := range rows {
		_, p, err := load(ctx, a.Activation, table, cfg)
		if err != nil {
			return err
		}
		defer p.Close()
		first = cmp.Or(first, p)
		if err := sameRows(first, p); err != nil {
			return err
		}
	}
	return nil
}
