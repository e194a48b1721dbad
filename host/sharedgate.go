package host

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/steps"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// NoiseCovariance says whether the noise of a row's targets may be correlated.
type NoiseCovariance = fitted.NoiseCovariance

// The kinds of noise of several targets.
const (
	Diagonal = fitted.Diagonal
	Full     = fitted.Full
)

// FitSharedGate fits several targets, which share their features, a mixture under one gate
// (002 Eq. 4 with the gate shared): every expert has regressors for every target,
//
//	y | z=i, x ~ N((g(⟨a_i1,x⟩), …, g(⟨a_iM,x⟩)), Σ)
//
// with Σ diagonal or full, of all experts or of each as cfg.Noise has it, or what of [joint] cfg.Family names. Where
// the targets have starts or truths all have, with one gate. The method is [Auto]. Errors are those of [Fit].
func FitSharedGate(ctx context.Context, act sdk.Activation, targets []Target, noise NoiseCovariance,
	cfg Config) (*fitted.Vector, error) {
	f, err := underOneGate(ctx, act, targets, noise, cfg)
	if x := cfg.compared; x != nil && err == nil {
		fit := f.Vector.SharedGate.Fit
		x.Tell(fit)
		criterion.WarnOfEdge(fit, x.K, x.From, x.To)
	}
	return f.Vector, err
}

// underOneGate is [FitSharedGate] with the number of parameters.
func underOneGate(ctx context.Context, act sdk.Activation, targets []Target, noise NoiseCovariance,
	cfg Config) (f criterion.Fit, err error) {
	s, err := newSharedGate(targets, noise, cfg)
	if err != nil {
		return f, err
	}
	defer s.close()
	if f.Vector, err = s.fit(ctx, act); err == nil {
		f.Parameters = s.task.Parameters()
	}
	return f, err
}

// newSharedGate is a fit that has not begun; it is to be closed.
func newSharedGate(targets []Target, noise NoiseCovariance, cfg Config) (*sharedGate, error) {
	if len(targets) == 0 || slices.ContainsFunc(targets, func(t Target) bool { return t.Source == nil }) {
		return nil, problem.Refuse("there are no targets, or one has no data")
	}
	if err := cmp.Or(checkSharedGate(cfg, noise), cfg.untied("a gate of several targets")); err != nil {
		return nil, err
	}
	s := &sharedGate{targets: targets, noise: noise}
	if !cfg.normal() { // every target alone begins with normal noise
		s.family, cfg.Family = cfg.Family, ""
	}
	var err error
	s.cfg, err = cfg.Checked()
	return s, err
}

func (s *sharedGate) fit(ctx context.Context, act sdk.Activation) (*fitted.Vector, error) {
	if err := s.load(ctx, act); err != nil {
		return nil, err
	}
	asked, err := s.resume(ctx)
	if err != nil {
		return nil, err
	}
	defer asked.leave(ctx)
	if own := s.task.Own; own != nil {
		for j, p := range s.problems {
			if err := possible(ctx, p, own.Coordinate(j)); err != nil {
				return nil, fmt.Errorf("target %s: %w", p.Schema.Target, err)
			}
		}
	}
	found, err := search.Vector(ctx, s.task)
	if err != nil {
		return nil, err
	}
	v, err := result.SharedGate(ctx, s.task, s.given, found, s.truths, s.cfg.written())
	if err != nil {
		return nil, err
	}
	for _, g := range s.problems[0].Activations() {
		if err := claims.Recheck(ctx, g); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// resume readies the search to go on from a checkpoint, if there is one, and to write the next.
func (s *sharedGate) resume(ctx context.Context) (request, error) {
	p := s.problems[0]
	asked, err := s.cfg.requested(ctx, p)
	if err != nil {
		return asked, err
	}
	asked.data = sync.OnceValues(func() (string, error) { return checkpoint.Hash(s.task.Rows, p.Threads) })
	asked.more = map[string]any{"target": s.task.Targets(), "noise covariance": cmp.Or(s.family, string(s.noise)),
		"start": s.task.Own}
	asked.parameters = s.task.Parameters()
	r, err := s.cfg.started(ctx, p, asked)
	if s.task.Resume = r.resume; r.checkpoint != nil {
		s.task.Checkpoint = func(at search.State) { r.checkpoint(p, at) }
	}
	return asked, err
}

// checkSharedGate refuses what a fit under one gate has no use for.
func checkSharedGate(c Config, noise NoiseCovariance) error {
	switch {
	case noise != Diagonal && noise != Full:
		return problem.Refuse("noise covariance = %q; there are %s, %s", noise, Diagonal, Full)
	case c.Method != nil && !Takes(c.Method, OptSharedGate):
		return problem.Refuse("method %s: targets under one gate are fitted by method %s", c.Method.Name(),
			strings.Join(Taking(OptSharedGate), ", "))
	case c.Output != "":
		return problem.Refuse("output scale %s is for one target", c.Output)
	case !c.normal() && !joint.Known(c.Family):
		return problem.Refuse("family %s is not one of several targets under one gate; there are %s", c.Family,
			strings.Join(append(joint.Families(), fitted.Normal), ", "))
	case !c.normal() && noise == Full:
		return problem.Refuse("noise covariance = %q is of normal noise, not of the family %s", noise, c.Family)
	case c.Arrangements:
		return problem.Refuse("arrangements are those of targets with gates of their own")
	}
	switch c.Noise {
	case nil, Shared{}, PerExpert{}:
		return nil
	}
	return problem.Refuse("sigma is estimated, and has no floor, where targets share a gate")
}

// sharedGate is a fit of several targets under one gate.
type sharedGate struct {
	cfg      Config
	targets  []Target
	noise    NoiseCovariance
	family   string // "" for normal noise
	problems []*problem.Problem
	given    model.Rows // with the weights as they were given
	truths   []*model.Params
	task     *search.VectorTask
}

func (s *sharedGate) close() {
	for _, p := range s.problems {
		p.Close()
	}
}

// load reads the targets' tables side by side.
func (s *sharedGate) load(ctx context.Context, act sdk.Activation) error {
	task := &search.VectorTask{Full: s.noise == Full, Family: s.family, Survey: steps.Several(),
		Steps: steps.OfSeveral(), Untested: s.cfg.unjudged}
	var rows, given []model.Rows
	var begun []*model.Params
	for _, t := range s.targets {
		if err := ofItself("each of several targets", t.Source.Schema()); err != nil {
			return err
		}
		cfg := forTarget(s.cfg, t)
		if s.cfg.compared != nil {
			cfg = cfg.of(cfg.K)
		}
		cfg, p, err := load(ctx, act, t.Source, cfg)
		if err != nil {
			return err
		}
		s.problems = append(s.problems, p)
		if err := sameRows(s.problems[0], p); err != nil {
			return err
		}
		evidence, err := moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial})
		if err != nil {
			return err
		}
		task.Evidence = append(task.Evidence, evidence)
		task.Starts = cfg.Method.(Auto).starts()
		rows, given, s.truths = append(rows, p.Rows), append(given, p.Given), append(s.truths, cfg.Truth)
		if cfg.Start != nil {
			begun = append(begun, cfg.Start)
		}
	}
	task.Problems, task.Rows, s.given = s.problems, model.Beside(rows), model.Beside(given)
	if err := task.Begin(begun); err != nil {
		return err
	}
	task.Screening, task.Refining = s.cfg.shows(StageScreening), s.cfg.shows(StageRefining)
	s.task = task
	if n, q := s.problems[0].Weights.Rows, task.Parameters(); q >= n*len(s.targets) {
		return &dataset.Error{File: s.problems[0].Schema.Name,
			Msg: fmt.Sprintf("%d rows cannot determine the %d parameters of k = %d experts with %d targets; use more "+
				"rows, fewer features or a smaller k", n, q, s.problems[0].Shape.K, len(s.targets))}
	}
	return nil
}

// sameRows refuses a table that has not the features and rows of the first.
func sameRows(first, p *problem.Problem) error {
	if first == p {
		return nil
	}
	other := problem.Refuse("the rows with all cells are others for target %s than for %s: leave out those without a "+
		"target beforehand, and name the references of factors", p.Schema.Target, first.Schema.Target)
	if !slices.Equal(p.Schema.Features, first.Schema.Features) {
		return other
	}
	if same, err := model.SameFeatures(first.Rows, p.Rows); same || err != nil {
		return err
	}
	return other
}
