package spec

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/sdk"
)

// Config is how to fit, of the least number of experts where there is a range; a start, a truth and the leaves'
// activations are not in it, which are files and plugins. The description has been checked.
func (f *Fit) Config() (host.Config, error) {
	m, err := f.Method.build()
	if err != nil {
		return host.Config{}, err
	}
	gate, err := f.gate()
	if err != nil {
		return host.Config{}, err
	}
	noise, err := f.noise()
	if err != nil {
		return host.Config{}, err
	}
	shape, err := f.Shape()
	if err != nil {
		return host.Config{}, err
	}
	if shape.Depth() <= 1 { // one gate is what there is without
		shape.Branches = nil
	}
	from, _ := f.Numbers()
	return host.Config{
		K: from, Method: m, Intercepts: f.Intercepts, Gate: gate, Noise: noise, Output: f.OutputScale, Hierarchy: shape,
		Family: host.DensityName(f.Family), Dof: f.Dof, ZeroExpert: f.ZeroExpert, Transform: f.Transform,
		Inputs:       f.Inputs,
		Errors:       f.Errors,
		Arrangements: f.Arrangements, GatePenalty: f.GatePenalty, ExpertRidge: f.ExpertRidge,
		ExpertLasso: f.ExpertLasso,
		Choose:      f.Choose, Seed: f.seed(),
	}, nil
}

// Tables is how the tables are read: one for every target, the other targets no features of it.
func (f *Fit) Tables() ([]terms.Request, error) {
	r := terms.Request{Selection: f.selection(), Gate: f.GateFeatures, Shared: f.Shared, Categorical: f.Categorical,
		Reference: f.Reference}
	if f.Formula != "" {
		var err error
		if r.Formula, err = terms.Parse(f.Formula); err != nil {
			return nil, err
		}
	}
	r.Roles = f.roles()
	if f.Family == host.Lognormal {
		r.Scale = scaling.Log
	}
	if f.Targets == nil {
		return []terms.Request{r}, nil
	}
	var out []terms.Request
	for _, name := range f.Targets {
		one := r
		one.Selection.Target = name
		for _, other := range f.Targets {
			if other != name {
				one.Selection.Drop = append(slices.Clip(one.Selection.Drop), other)
				if f.GateShared {
					one.Beside = append(one.Beside, other)
				}
			}
		}
		out = append(out, one)
	}
	return out, nil
}

// Run makes the fit of what has been opened: act, nil where cfg has leaves; the targets' tables, one
// where there is one target, with starts and truths; the sums of f.Moments, nil where there are none. cfg
// is [Fit.Config] with what belongs to the run. The model is nil where there are several targets, which are
// then in the vector. Errors are those of [host.Fit] and its like.
func (f *Fit) Run(ctx context.Context, act sdk.Activation, targets []host.Target, sums *shard.Moments,
	cfg host.Config) (*fitted.Model, *fitted.Vector, error) {
	if f.Targets != nil {
		v, err := f.Alternative(act, targets, cfg).FitTargets(ctx)
		return nil, v, err
	}
	cfg.Start, cfg.Truth = targets[0].Start, targets[0].Truth
	m, err := f.one(ctx, act, targets[0], sums, cfg)
	if err == nil && f.NoGroupPosteriors && m.Groups != nil {
		m.Groups.Posteriors = nil
	}
	return m, nil, err
}

// Alternative is what is fitted of what has been opened, for comparisons: see [Fit.Run].
func (f *Fit) Alternative(act sdk.Activation, targets []host.Target, cfg host.Config) host.Alternative {
	a := host.Alternative{Activation: act, Config: cfg, Covariance: f.covariance()}
	if a.From, a.To = f.Numbers(); f.Targets != nil {
		a.Targets = targets
	} else {
		a.Source = targets[0].Source
	}
	return a
}

// covariance is the noise of targets under one gate; "" where there is none.
func (f *Fit) covariance() host.NoiseCovariance {
	if !f.GateShared {
		return ""
	}
	return cmp.Or(f.NoiseCovariance, host.Diagonal)
}

// one is the fit of one target.
func (f *Fit) one(ctx context.Context, act sdk.Activation, t host.Target, sums *shard.Moments,
	cfg host.Config) (*fitted.Model, error) {
	from, to := f.Numbers()
	switch {
	case f.Grows():
		return host.FitTree(ctx, act, t.Source, to, cfg)
	case sums != nil && f.KTo == 0:
		return host.FitSums(ctx, act, sums, f.Moments, cfg)
	case sums != nil && host.Takes(cfg.Method, host.OptSums):
		return nil, refuse("%s %s: the sums are made for one number of experts", Key("k"), f.numbers())
	case f.KTo == 0:
		return host.Fit(ctx, act, t.Source, cfg)
	}
	m, err := host.FitRange(ctx, act, t.Source, from, to, cfg)
	if err == nil && sums != nil {
		m.Fit.Prints = sums.Prints()
	}
	return m, err
}

// gate is the gate by its name.
func (f *Fit) gate() (host.Gate, error) {
	return named("gate", host.Gates(), cmp.Or(f.Gate, host.Softmax{}.Name()))
}

func (f *Fit) noise() (host.Noise, error) {
	if kind, floor, given := strings.Cut(f.Noise, ":"); given && kind == (host.PerExpert{}).Name() {
		least, err := strconv.ParseFloat(floor, 64)
		if err != nil || !(least > 0) || math.IsInf(least, 0) || f.Sigma != 0 || f.GateShared {
			return nil, refuse("%s %s: want a number above 0 behind the colon, and neither %s nor %s beside it",
				Key("noise"), f.Noise, Key("sigma"), Key("gate-shared"))
		}
		return host.PerExpert{Least: least}, nil
	}
	noise, err := named("noise", host.Noises(), cmp.Or(f.Noise, host.Shared{}.Name()))
	switch noise.(type) {
	case host.Shared:
		noise = host.Shared{Sigma: f.Sigma}
	case host.PerExpert:
		noise = host.PerExpert{Sigma: f.Sigma}
	}
	return noise, err
}

func (f *Fit) seed() uint64 {
	if f.Seed == nil {
		return 1
	}
	return *f.Seed
}

func (m Method) name() string { return cmp.Or(m.Name, host.Auto{}.Name()) }

// asked are the settings that m has.
func (m Method) asked() (out []host.Option) {
	for _, s := range []struct {
		option host.Option
		is     bool
	}{
		{host.OptMu, m.Mu != 0}, {host.OptStarts, m.Starts != 0}, {host.OptRadius, m.Radius != 0},
		{host.OptCorrections, m.Corrections != 0}, {host.OptOptimiser, m.Optimiser != ""},
		{host.OptBatch, m.Batch != 0}, {host.OptStepSize, m.StepSize != 0}, {host.OptSchedule, m.Schedule != ""},
		{host.OptEpochs, m.Epochs != 0},
		{host.OptLambda, m.Lambda != 0}, {host.OptPenalty, m.Penalty != ""}, {host.OptRidge, m.Ridge != nil},
	} {
		if s.is {
			out = append(out, s.option)
		}
	}
	return out
}

// build makes the method. A setting that it has no use for is an error.
func (m Method) build() (host.Method, error) {
	plain, err := named("method", host.Methods(), m.name())
	if err != nil {
		return nil, err
	}
	for _, o := range m.asked() {
		if err := host.Admit(plain, o); err != nil {
			return nil, err
		}
	}
	batches := host.MiniBatches{Batch: m.Batch, StepSize: m.StepSize, Epochs: m.Epochs}
	if m.Schedule != "" {
		if batches.Schedule, err = named("schedule", optim.Schedules(), m.Schedule); err != nil {
			return nil, err
		}
	}
	var optimiser descent.Optimiser
	if m.Optimiser != "" {
		if optimiser, err = named("optimiser", descent.Optimisers(), m.Optimiser); err != nil {
			return nil, err
		}
	}
	if m.Penalty != "" {
		if _, err = named("penalty", descent.Penalties(), string(m.Penalty)); err != nil {
			return nil, err
		}
	}
	for _, method := range []host.Method{
		host.Auto{Mu: m.Mu, Starts: m.Starts},
		host.Moments{Mu: m.Mu, Radius: m.Radius},
		host.Spectral{Radius: m.Radius, Corrections: m.Corrections},
		host.EM{Starts: m.Starts},
		host.L2{MiniBatches: batches, Optimiser: optimiser, Starts: m.Starts},
		host.L4{MiniBatches: batches, Penalty: m.Penalty, Mu: m.Mu, Lambda: m.Lambda, Ridge: m.Ridge, Radius: m.Radius},
	} {
		if method.Name() == m.name() {
			return method, nil
		}
	}
	panic("spec: method " + m.name() + " is not made of settings")
}

// named returns the setting of this name.
func named[T interface{ Name() string }](key Key, all []T, name string) (T, error) {
	for _, v := range all {
		if v.Name() == name {
			return v, nil
		}
	}
	var none T
	return none, unknown(key, all, name)
}

// unknown is the error of a name that there is not.
func unknown[T interface{ Name() string }](key Key, all []T, name string) error {
	var names []string
	for _, v := range all {
		names = append(names, v.Name())
	}
	if key == "noise" {
		names = append(names, (host.PerExpert{}).Name()+":FLOOR")
	}
	return refuse("unknown %s %q; there are %s", string(key), name, strings.Join(names, ", "))
}
