package main

import (
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/spec"
)

// methodFlags are the method of a fit and the flags of its settings.
type methodFlags struct {
	name      string
	set       spec.Method
	ridge     float64
	held      string // --penalty
	transform string
	inputs    string
}

func (f *methodFlags) penalty() descent.Penalty { return descent.Penalty(f.held) }

func (f *methodFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.name, "method", host.Auto{}.Name(), "method: "+strings.Join(namesOf(host.Methods()), ", "))
	flags.Float64Var(&f.set.Mu, "mu", 0,
		"weight of the fourth powers in the tensor loss L4 (default: its rows held orthonormal, where it does not "+
			"matter; for method l4 1, or 0.01 with penalty moment)")
	flags.IntVar(&f.set.Starts, "starts", 0, "at most this many starts (default 32, or 8 for methods em and l2)")
	flags.IntVar(&f.set.Epochs, "epochs", 0,
		of(host.OptEpochs)+"passes over the rows (default as many as give 10000 mini-batches for l2, 4000 for l4)")
	flags.IntVar(&f.set.Batch, "batch", 0,
		of(host.OptBatch)+"rows in a mini-batch (default 128 for l2, 1024 for l4, at most all rows)")
	flags.Float64Var(&f.set.StepSize, "step-size", 0, of(host.OptStepSize)+
		"size of the first step (default 0.3 for l2, 0.01 for l2 by adam, 0.001 for l4, 0.02 for l4 with penalty norm)")
	flags.StringVar(&f.set.Schedule, "schedule", "", of(host.OptSchedule)+"schedule of the step size: "+
		strings.Join(namesOf(optim.Schedules()), ", ")+" (default cosine)")
	flags.StringVar(&f.transform, "transform", "", of(host.OptTransform)+
		"transforms of y that the moment tensors are made of: "+strings.Join(namesOf(host.Transforms()), ", ")+
		" (default the one with the smaller predicted error)")
	flags.StringVar(&f.inputs, "inputs", "", of(host.OptInputs)+"what the moment tensors take the features for: "+
		strings.Join(namesOf(host.AllInputs()), ", ")+" (default gaussian)")
	flags.StringVar(&f.set.Optimiser, "optimiser", "", of(host.OptOptimiser)+"optimiser: "+
		strings.Join(namesOf(descent.Optimisers()), ", ")+" (default sgd)")
	flags.Float64Var(&f.set.Lambda, "lambda", 0,
		of(host.OptLambda)+"weight of the penalty in L4 (default 10, or 5 with penalty norm)")
	flags.StringVar(&f.held, "penalty", "", of(host.OptPenalty)+"what L4 holds the rows' size by: "+
		strings.Join(namesOf(descent.Penalties()), ", ")+" (default moment)")
	flags.Float64Var(&f.ridge, "ridge", 0,
		of(host.OptRidge)+"weight of half the squared norm of A in L4; 0 is none (default 2, or 0 with penalty norm)")
	flags.Float64Var(&f.set.Radius, "radius", 0,
		of(host.OptRadius)+"largest norm of a gating vector, in units of the features' rms where they are not "+
			"standard (default none, or 10 for method l4)")
	flags.IntVar(&f.set.Corrections, "corrections", 0, of(host.OptCorrections)+
		"rounds to correct for the gate (default none)")
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
	}{{"starts", f.set.Starts}, {"batch", f.set.Batch}, {"epochs", f.set.Epochs},
		{"corrections", f.set.Corrections}} {
		if changed(n.name) && n.value < 1 {
			return usagef("--%s %d: want at least 1", n.name, n.value)
		}
	}
	for _, n := range []struct {
		name  string
		value float64
	}{{"mu", f.set.Mu}, {"radius", f.set.Radius}, {"step-size", f.set.StepSize}, {"lambda", f.set.Lambda}} {
		if changed(n.name) && (!(n.value > 0) || math.IsInf(n.value, 0)) {
			return usagef("--%s %v: want a finite number above 0", n.name, n.value)
		}
	}
	return nil
}

// namesOf lists the names of settings.
func namesOf[T interface{ Name() string }](all []T) []string {
	names := make([]string, len(all))
	for i, v := range all {
		names[i] = v.Name()
	}
	return names
}
