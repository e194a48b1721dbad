package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/optim"
)

// methodFlags are the method of a fit and the flags of its settings.
type methodFlags struct {
	name                                string
	starts, batch, epochs               int
	mu, radius, stepSize, lambda, ridge float64
	schedule, optimiser, transform      string
	penalty                             string
}

func (f *methodFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "method", host.Auto{}.Name(), "method: "+strings.Join(namesOf(host.Methods()), ", "))
	flags.Float64Var(&f.mu, "mu", 0, "weight of the fourth powers in the tensor loss L4 (default: its rows held orthonormal, where it does not matter; for method l4 1, or 0.01 with penalty moment)")
	flags.IntVar(&f.starts, "starts", 0, "at most this many starts (default 32, or 8 for methods em and l2)")
	flags.IntVar(&f.epochs, "epochs", 0, of(host.OptEpochs)+"passes over the rows (default as many as give 10000 mini-batches for l2, 4000 for l4)")
	flags.IntVar(&f.batch, "batch", 0, of(host.OptBatch)+"rows in a mini-batch (default 128 for l2, 1024 for l4, at most all rows)")
	flags.Float64Var(&f.stepSize, "step-size", 0, of(host.OptStepSize)+"size of the first step (default 0.3 for l2, 0.01 for l2 by adam, 0.001 for l4, 0.02 for l4 with penalty norm)")
	flags.StringVar(&f.schedule, "schedule", "", of(host.OptSchedule)+"schedule of the step size: "+strings.Join(namesOf(optim.Schedules()), ", ")+" (default cosine)")
	flags.StringVar(&f.transform, "transform", "", of(host.OptTransform)+"transforms of y that the moment tensors are made of: "+strings.Join(namesOf(host.Transforms()), ", ")+" (default the one with the smaller predicted error)")
	flags.StringVar(&f.optimiser, "optimiser", "", of(host.OptOptimiser)+"optimiser: "+strings.Join(namesOf(descent.Optimisers()), ", ")+" (default sgd)")
	flags.Float64Var(&f.lambda, "lambda", 0, of(host.OptLambda)+"weight of the penalty in L4 (default 10, or 5 with penalty norm)")
	flags.StringVar(&f.penalty, "penalty", "", of(host.OptPenalty)+"what L4 holds the rows' size by: "+strings.Join(namesOf(descent.Penalties()), ", ")+" (default moment)")
	flags.Float64Var(&f.ridge, "ridge", 0, of(host.OptRidge)+"weight of half the squared norm of A in L4; 0 is none (default 2, or 0 with penalty norm)")
	flags.Float64Var(&f.radius, "radius", 0, of(host.OptRadius)+"largest norm of a gating vector, in units of the features' rms where they are not standard (default none, or 10 for method l4)")
}

// of says in a flag's help which methods have a use for it.
func of(o host.Option) string {
	names := host.Taking(o)
	if len(names) == 1 {
		return "method " + names[0] + ": "
	}
	return "methods " + strings.Join(names, ", ") + ": "
}

// check looks at the values that were given, before anything is started.
func (f *methodFlags) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	for _, n := range []struct {
		name  string
		value int
	}{{"starts", f.starts}, {"batch", f.batch}, {"epochs", f.epochs}} {
		if changed(n.name) && n.value < 1 {
			return usagef("--%s %d: want at least 1", n.name, n.value)
		}
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"mu", f.mu}, {"radius", f.radius}, {"step-size", f.stepSize}, {"lambda", f.lambda}} {
		if changed(n.name) && (!(n.value > 0) || math.IsInf(n.value, 0)) {
			return usagef("--%s %v: want a finite number above 0", n.name, n.value)
		}
	}
	return nil
}

// method returns the method with the settings that were given. A setting that it
// has no use for is an error.
func (f *methodFlags) method(cmd *cobra.Command) (host.Method, error) {
	m, err := named("method", host.Methods(), f.name)
	if err != nil {
		return nil, err
	}
	for _, o := range host.Options() {
		flag := cmd.Flags().Lookup(string(o))
		if flag == nil || !flag.Changed || flag.Value.String() == "false" || o == host.OptHierarchy || o == host.OptLeaves { // one gate is no tree, and one leaf the activation of all
			continue
		}
		if err := host.Admit(m, o); err != nil {
			return nil, err
		}
	}
	batches := host.MiniBatches{Batch: f.batch, StepSize: f.stepSize, Epochs: f.epochs}
	if f.schedule != "" {
		if batches.Schedule, err = named("schedule", optim.Schedules(), f.schedule); err != nil {
			return nil, err
		}
	}
	switch m.(type) {
	case host.Auto:
		return host.Auto{Mu: f.mu, Starts: f.starts}, nil
	case host.Moments:
		return host.Moments{Mu: f.mu, Radius: f.radius}, nil
	case host.Spectral:
		return host.Spectral{Radius: f.radius}, nil
	case host.EM:
		return host.EM{Starts: f.starts}, nil
	case host.L2:
		l2 := host.L2{MiniBatches: batches, Starts: f.starts}
		if f.optimiser != "" {
			l2.Optimiser, err = named("optimiser", descent.Optimisers(), f.optimiser)
		}
		return l2, err
	case host.L4:
		l4 := host.L4{MiniBatches: batches, Mu: f.mu, Lambda: f.lambda, Radius: f.radius}
		if f.penalty != "" {
			if l4.Penalty, err = named("penalty", descent.Penalties(), f.penalty); err != nil {
				return nil, err
			}
		}
		if cmd.Flags().Changed("ridge") {
			l4.Ridge = &f.ridge
		}
		return l4, nil
	}
	return nil, fmt.Errorf("method %s has no flags", f.name)
}

// namesOf lists the names of settings.
func namesOf[T interface{ Name() string }](all []T) []string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.Name()
	}
	return names
}

// named returns the setting of this name.
func named[T interface{ Name() string }](what string, all []T, name string) (T, error) {
	for _, v := range all {
		if v.Name() == name {
			return v, nil
		}
	}
	var none T
	return none, usagef("unknown %s %q; there are %v", what, name, namesOf(all))
}
