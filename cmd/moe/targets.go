package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/internal/shown"
)

// outputsEvaluation is the JSON of moe evaluate of a model of several targets.
type outputsEvaluation struct {
	Outputs []outputEvaluation `json:"outputs"`
	// the sum of the targets', or that of their joint density under one gate
	LogLikelihood *float64 `json:"log_likelihood,omitempty"`

	joint bool // whether it is that
}

type outputEvaluation struct {
	Target string `json:"target"`
	evaluation
}

// judgeOutputs opens a model of several targets and what it is to be measured on, and
// measures it target by target.
func judgeOutputs(cmd *cobra.Command, file *jsonfile.File, data dataFlags, truthPath string,
	limits limitFlags) (measured, error) {
	ctx := cmd.Context()
	v, err := fitted.VectorOf(file)
	if err != nil {
		return nil, err
	}
	remarkUnread(cmd, file.Path, v.Unknown)
	out := new(outputsEvaluation)
	var targets []string
	for _, o := range v.Outputs {
		targets = append(targets, o.Target)
		out.Outputs = append(out.Outputs, outputEvaluation{Target: o.Target})
	}
	if truthPath != "" {
		truths, err := known.ReadReferences(truthPath, v.Features, targets)
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
	act, err := openModel(cmd, v.Model(0), file.Path, limits)
	if err != nil {
		return nil, err
	}
	defer act.Close()
	in, err := openInput(ctx, cmd, data.path)
	if err != nil {
		return nil, err
	}
	defer in.close()
	if fit := v.Fits()[0]; fit != nil {
		data.remarkWeights(cmd, in, mixtureFile{Model: v.Model(0)}, fit.WeightColumn)
	}
	sum := 0.0
	var tables []dataset.Source
	for j := range v.Outputs {
		if v.Outputs[j].Sigma == nil {
			return nil, &dataset.Error{File: file.Path,
				Msg: fmt.Sprintf("its target %q has no sigma: predict writes its mean, and there is no density to "+
					"measure", v.Outputs[j].Target)}
		}
		m := mixtureFile{Model: v.Model(j)}
		src, err := data.table.openFrom(in, m, false)
		if err != nil {
			return nil, err
		}
		if out.Outputs[j].Evaluation, err = predict.EvaluateModel(ctx, m.Model, act, src); err != nil {
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
