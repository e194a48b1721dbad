package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/sdk"
)

// Target is one of several targets of a fit: a table of the features that all share, with
// this one as its target.
type Target struct {
	Source dataset.Source
	Start  *model.Params // as of [Config]; nil for none
	Truth  *model.Params
}

// FitTargets fits every target a mixture of its own, with its gate and its experts, over the
// features that they share (002 Eq. 4): what [Fit] makes of one after the other. What cfg
// has of a start, a truth and a design is not looked at; the targets have their own.
// Errors are those of [Fit], with the target's name.
func FitTargets(ctx context.Context, act sdk.Activation, targets []Target, cfg Config) (*fitted.Vector, error) {
	if err := checkTargets(targets, cfg); err != nil {
		return nil, err
	}
	digests, err := digestsOf(ctx, act, targets, cfg)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, t := range targets {
		names = append(names, t.Source.Schema().Target)
	}
	done, err := cfg.Resume.Of(names, targets[0].Source.Schema().Features, digests)
	if err != nil {
		return nil, err
	}
	fit := Fit
	if x := cfg.compared; x != nil && cfg.Choose == ByHeldOut { // of a range
		fit = func(ctx context.Context, act sdk.Activation, src dataset.Source, cfg Config) (*fitted.Model, error) {
			return FitRange(ctx, act, src, x.From, x.To, cfg)
		}
	}
	for j := len(done); j < len(targets); j++ {
		t := targets[j]
		one := forTarget(cfg, t)
		one.Checkpoint, one.GatePenalty = checkpointAfter(cfg, done), NoPenalty
		m, err := fit(ctx, act, t.Source, one)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", t.Source.Schema().Target, err)
		}
		done = append(done[:j:j], checkpoint.Target{Data: digests[j], Model: m})
		cfg.Resume = nil
	}
	fits := make([]*fitted.Model, len(done))
	for j := range done {
		fits[j] = done[j].Model
	}
	return fitted.NewVector(fits), nil
}

// checkTargets refuses what a fit of several targets has no use for.
func checkTargets(targets []Target, cfg Config) error {
	if len(targets) == 0 || slices.ContainsFunc(targets, func(t Target) bool { return t.Source == nil }) {
		return problem.Refuse("there are no targets, or one has no data")
	}
	if err := cfg.onlyNormal("a fit of several targets"); err != nil {
		return err
	}
	if cfg.Output != "" {
		return problem.Refuse("output scale %s is for one target", cfg.Output)
	}
	first := targets[0].Source.Schema()
	for _, t := range targets {
		s := t.Source.Schema()
		if err := ofItself("each of several targets", s); err != nil {
			return err
		}
		if !slices.Equal(s.Features, first.Features) {
			return problem.Refuse("the features for %s are others than those for %s, whose rows are not the same "+
				"where cells are missing; name the references of factors", s.Target, first.Target)
		}
	}
	return nil
}

// forTarget is the configuration for one of several targets.
func forTarget(c Config, t Target) Config {
	c.Start, c.Truth = t.Start, t.Truth
	name := t.Source.Schema().Target
	if show := c.Progress; show != nil {
		c.Progress = func(stage Stage, done, total int) {
			show(Stage(fmt.Sprintf("%s, %s", name, stage)), done, total)
		}
	}
	return c
}

// checkpointAfter is c.Checkpoint for the target after those that are done.
func checkpointAfter(c Config, done []checkpoint.Target) func(save func() (*Checkpoint, error)) {
	if c.Checkpoint == nil {
		return nil
	}
	return func(save func() (*Checkpoint, error)) {
		c.Checkpoint(func() (*Checkpoint, error) {
			at, err := save()
			if at != nil {
				at.Targets = done
			}
			return at, err
		})
	}
}

// digestsOf reads the data of all targets before any is fitted: what is wrong with the last
// is said before the first has taken its time. It returns the SHA-256 of each, as fitted.
func digestsOf(ctx context.Context, act sdk.Activation, targets []Target, cfg Config) ([]string, error) {
	digests := make([]string, len(targets))
	for j, t := range targets {
		_, p, err := load(ctx, act, t.Source, forTarget(cfg, t))
		if err != nil {
			return nil, err
		}
		digests[j], err = checkpoint.Hash(p.Rows, p.Threads)
		p.Close()
		if err != nil {
			return nil, err
		}
	}
	return digests, nil
}
