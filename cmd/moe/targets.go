package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/shown"
)

// beside are the flags that have no effect beside --targets, and why.
var beside = []struct{ flag, why string }{
	{"target", "they are the targets"},
	{"formula", "a formula has one target"},
	{"moments", "the sums are made for one target"},
	{"output-scale", "an offset and a scale are of one target"},
}

// sharedGateFlags are the flags of several targets under one gate.
type sharedGateFlags struct {
	on    bool
	noise string
}

func (f *sharedGateFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "gate-shared", false, "give the --targets one gate, under which every expert has a regressor for each of them")
	cmd.Flags().StringVar(&f.noise, "noise-covariance", string(host.Diagonal), "with --gate-shared, noise of the targets: diagonal, full")
}

// check looks at the flags and what stands beside them.
func (f *sharedGateFlags) check(cmd *cobra.Command, targets []string) error {
	switch {
	case !f.on && cmd.Flags().Changed("noise-covariance"):
		return usagef("--noise-covariance has no effect without --gate-shared: targets with gates of their own have noise of their own")
	case !f.on:
		return nil
	case targets == nil:
		return usagef("--gate-shared has no effect without --targets, which share the gate")
	case f.noise != string(host.Diagonal) && f.noise != string(host.Full):
		return usagef("--noise-covariance %s: want %s or %s", f.noise, host.Diagonal, host.Full)
	}
	for _, name := range []string{"hac", "arrangements", "sigma", "mu", "transform"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s has no effect beside --gate-shared", name)
		}
	}
	fitting := host.Taking(host.OptSharedGate)
	if flag := cmd.Flags().Lookup("method"); flag != nil && !slices.Contains(fitting, flag.Value.String()) {
		return usagef("--method %s: targets under one gate are fitted by method %s", flag.Value, strings.Join(fitting, ", "))
	}
	return nil
}

// checkTargets looks at --targets and what stands beside it.
func (f *fitFlags) checkTargets(cmd *cobra.Command) error {
	if err := f.shared.check(cmd, f.targets); err != nil {
		return err
	}
	if f.targets == nil {
		return nil
	}
	for _, b := range beside {
		if cmd.Flags().Changed(b.flag) {
			return usagef("--%s has no effect beside --targets: %s", b.flag, b.why)
		}
	}
	if f.to > 0 {
		return usagef("--k %s: several targets have one number of experts", f.k)
	}
	if len(f.targets) == 0 {
		return usagef("--targets: want the names of columns")
	}
	for i, name := range f.targets {
		switch {
		case name == "":
			return usagef("--targets %s: name %d is empty", strings.Join(f.targets, ","), i+1)
		case slices.Contains(f.targets[:i], name):
			return usagef("--targets: column %q is named twice", name)
		case slices.Contains(f.selection.Features, name), slices.Contains(f.terms.Gate, name):
			return usagef("--targets: column %q is both a feature and a target", name)
		case slices.Contains(f.selection.Drop, name):
			return usagef("--targets: column %q is both a target and dropped", name)
		case name == f.selection.Weights:
			return usagef("--targets: column %q is both a target and the weights", name)
		}
	}
	return nil
}

// selectionOf is the selection for target j of several: the others are no features.
func (f *fitFlags) selectionOf(j int) dataset.Selection {
	sel := f.selection
	sel.Target = f.targets[j]
	for i, name := range f.targets {
		if i != j {
			sel.Drop = append(slices.Clip(sel.Drop), name)
		}
	}
	return sel
}

// openTargets opens the table for every target.
func (f *fitFlags) openTargets(ctx context.Context) (tables []*terms.Table, err error) {
	for j := range f.targets {
		r := f.terms
		r.Selection = f.cells.on(f.selectionOf(j))
		table, err := terms.Open(ctx, f.input.open, r)
		if err != nil {
			return nil, err
		}
		tables = append(tables, table)
	}
	return tables, nil
}

// startsAndTruths reads the parameters of --start and --truth for every target.
func (f *fitFlags) startsAndTruths(cmd *cobra.Command, targets []host.Target, e *experts) error {
	features := targets[0].Source.Schema().Features
	if f.truth != "" {
		truths, err := fitted.ReadReferences(f.truth, features, f.targets)
		if err != nil {
			return err
		}
		for j, truth := range truths {
			remarkUnread(cmd, f.truth, truth.Unknown)
			if targets[j].Truth, err = f.admitTruth(cmd, truth, e); err != nil {
				return err
			}
		}
	}
	if f.start == "" {
		return nil
	}
	starts, err := fitted.ReadReferences(f.start, features, f.targets)
	if err != nil {
		return err
	}
	for j, start := range starts {
		remarkUnread(cmd, f.start, start.Unknown)
		if targets[j].Start, err = f.admitStart(cmd, start, e); err != nil {
			return err
		}
	}
	return nil
}

// runTargets is run for several targets.
func (f *fitFlags) runTargets(cmd *cobra.Command, began time.Time) error {
	ctx := cmd.Context()
	experts, err := f.tree.open(ctx, &f.activation)
	if err != nil {
		return err
	}
	defer experts.Close()
	if f.input, err = openInput(ctx, cmd, f.data); err != nil {
		return err
	}
	defer f.input.close()
	tables, err := f.openTargets(ctx)
	if err != nil {
		return err
	}
	f.config = f.config.For(tables[0])
	targets := make([]host.Target, len(tables))
	for j, table := range tables {
		targets[j].Source = table.Source
	}
	if err := f.startsAndTruths(cmd, targets, experts); err != nil {
		return err
	}
	keeper := newKeeper(f.out)
	if f.config.Resume, err = keeper.read(f.resume); err != nil {
		return err
	}
	bar := newBar(cmd)
	act := f.configure(keeper, bar, experts)
	var v *fitted.Vector
	if f.shared.on {
		v, err = host.FitSharedGate(ctx, act, targets, host.NoiseCovariance(f.shared.noise), f.config)
	} else {
		v, err = host.FitTargets(ctx, act, targets, f.config)
	}
	bar.done()
	if err != nil {
		return keeper.keep(ctx, err)
	}
	if v.Approximation, err = unknown(ctx, v.Leaves[0], v.Approximation); err != nil {
		return err
	}
	if f.out != "" {
		if err := v.Write(ctx, f.out); err != nil {
			return err
		}
		keeper.drop()
	}
	if f.report != "" {
		if err := f.reportTargets(cmd, v, targets, experts.evaluator()); err != nil {
			return err
		}
	}
	if err := f.printTargets(cmd, v, time.Since(began)); err != nil {
		return err
	}
	if v.SharedGate != nil {
		if fit := v.SharedGate.Fit; !fit.Converged || f.doubts(fit.Certificate) {
			return errNo
		}
		return nil
	}
	for j := range v.Outputs {
		if fit := v.Outputs[j].Fit; !fit.Converged || f.doubts(fit.Certificate) {
			return errNo
		}
	}
	return nil
}

// reportTargets writes the page of the fits.
func (f *fitFlags) reportTargets(cmd *cobra.Command, v *fitted.Vector, targets []host.Target, act model.Activation) error {
	if v.SharedGate != nil {
		var tables []dataset.Source
		for _, t := range targets {
			tables = append(tables, t.Source)
		}
		return writeSharedReport(cmd, f.report, act, v, tables)
	}
	var pages []pageOf
	for j, t := range targets {
		pages = append(pages, pageOf{v.Model(j), t.Source})
	}
	return writeReport(cmd, f.report, act, pages...)
}

func (f *fitFlags) printTargets(cmd *cobra.Command, v *fitted.Vector, took time.Duration) error {
	if wantsJSON(cmd) {
		data, err := v.JSON()
		if err != nil {
			return err
		}
		return printWithSeconds(cmd, data, took)
	}
	if err := report.Outputs(textOut(cmd), v, f.all); err != nil {
		return err
	}
	f.remarkWritten(cmd, took)
	return nil
}

// outputsEvaluation is the JSON of moe evaluate of a model of several targets.
type outputsEvaluation struct {
	Outputs       []outputEvaluation `json:"outputs"`
	LogLikelihood *float64           `json:"log_likelihood,omitempty"` // the sum of the targets', or that of their joint density under one gate

	joint bool // whether it is that
}

type outputEvaluation struct {
	Target string `json:"target"`
	evaluation
}

// judgeOutputs opens a model of several targets and what it is to be measured on, and
// measures it target by target.
func judgeOutputs(cmd *cobra.Command, modelPath string, data dataFlags, truthPath string, limits limitFlags) (measured, error) {
	ctx := cmd.Context()
	v, err := fitted.ReadVector(modelPath)
	if err != nil {
		return nil, err
	}
	remarkUnread(cmd, modelPath, v.Unknown)
	out := new(outputsEvaluation)
	var targets []string
	for _, o := range v.Outputs {
		targets = append(targets, o.Target)
		out.Outputs = append(out.Outputs, outputEvaluation{Target: o.Target})
	}
	if truthPath != "" {
		truths, err := fitted.ReadReferences(truthPath, v.Features, targets)
		if err != nil {
			return nil, err
		}
		for j, truth := range truths {
			remarkUnread(cmd, truthPath, truth.Unknown)
			if out.Outputs[j].Recovery, err = compareWith(v.Model(j), truthPath, truth); err != nil {
				return nil, err
			}
		}
	}
	if data.path == "" {
		return out, nil
	}
	act, err := openModel(cmd, v.Model(0), modelPath, limits)
	if err != nil {
		return nil, err
	}
	defer act.Close()
	in, err := openInput(ctx, cmd, data.path)
	if err != nil {
		return nil, err
	}
	defer in.close()
	sum := 0.0
	var tables []dataset.Source
	for j := range v.Outputs {
		if v.Outputs[j].Sigma == nil {
			return nil, &dataset.Error{File: modelPath, Msg: fmt.Sprintf("its target %q has no sigma: predict writes its mean, and there is no density to measure", v.Outputs[j].Target)}
		}
		m := mixtureFile{v.Model(j)}
		src, err := data.table.openFrom(in, m, false)
		if err != nil {
			return nil, err
		}
		if out.Outputs[j].Evaluation, err = predict.EvaluateWith(ctx, m.Params(), predict.UncertaintyOf(m.Model), act, src); err != nil {
			return nil, err
		}
		sum += out.Outputs[j].LogLikelihood
		tables = append(tables, src)
	}
	if v.SharedGate != nil {
		if sum, err = predict.JointLogLikelihood(ctx, v, act, tables); err != nil {
			return nil, err
		}
	}
	out.LogLikelihood, out.joint = &sum, v.SharedGate != nil
	return out, act.Recheck(ctx)
}

func (e *outputsEvaluation) print(cmd *cobra.Command) error {
	w := textOut(cmd)
	for i := range e.Outputs {
		o := &e.Outputs[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "target          %s\n", shown.Name(o.Target))
		if err := o.evaluation.print(cmd); err != nil {
			return err
		}
	}
	if e.LogLikelihood != nil {
		of := "all targets"
		if e.joint {
			of += ", by their joint density"
		}
		_, err := fmt.Fprintf(w, "\nlog-likelihood  %.6g of %s\n", *e.LogLikelihood, of)
		return err
	}
	return nil
}
