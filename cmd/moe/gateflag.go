package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report"
)

// gateFlag says by which of a file's models rows are predicted.
type gateFlag struct{ name string }

func (f *gateFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "gate", "",
		"of a fit whose gate separates rows: penalised, or maximum, of the likelihood (default penalised where the "+
			"file has it)")
}

// check refuses what is no name of a model.
func (f *gateFlag) check() error {
	if which := fitted.Which(f.name); f.name != "" && !slices.Contains(fitted.Whiches(), which) {
		return usagef("--gate %s: want %s", f.name, strings.ReplaceAll(strings.Trim(fmt.Sprint(fitted.Whiches()), "[]"),
			" ", " or "))
	}
	return nil
}

// of is the model of a file with the one by which its rows are predicted, which it names where there are two.
func (f *gateFlag) of(cmd *cobra.Command, path string, m anyModel) (anyModel, error) {
	mixture, ok := m.(mixtureFile)
	if !ok {
		return m, f.only(path)
	}
	mixture.by = fitted.Which(f.name)
	if _, err := mixture.Of(mixture.by); err != nil {
		fault := &dataset.Error{File: path, Msg: fmt.Sprintf("--gate %s: %v", f.name, err)}
		if mixture.by == fitted.ByPenalty {
			fault.Msg += "; see moe fit --gate-penalty"
		}
		return nil, fault
	}
	switch s := mixture.Penalised; {
	case s == nil || f.name != "":
	case s.Lambda > 0 && s.ExpertLambda == 0 && len(mixture.Fit.Separation) > 0:
		remark(cmd, "moe: the gate of %s separates rows: they are predicted by the penalised one (lambda %.3g), with "+
			"--gate maximum by that of the likelihood", path, s.Lambda)
	default:
		remark(cmd, "moe: rows are predicted by the penalised %s of %s, with --gate maximum by those of the likelihood",
			report.PenalisedPart(s), path)
	}
	return mixture, nil
}

// only refuses a choice where a file has one model.
func (f *gateFlag) only(path string) error {
	if f.name != "" {
		return &dataset.Error{File: path, Msg: fmt.Sprintf("--gate %s: the file has one model", f.name)}
	}
	return nil
}
