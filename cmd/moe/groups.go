package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
)

// grouped predicts by a model of rows in groups.
func (f *predictFlags) grouped(cmd *cobra.Command, m mixtureFile, act *modelActivation, modelPath,
	dataPath string) error {
	in, err := openInput(cmd.Context(), cmd, dataPath)
	if err != nil {
		return err
	}
	defer in.close()
	src, err := f.table.openGrouped(cmd, in, m, true)
	if err != nil {
		return err
	}
	if f.table.roles[model.Groups] != "" {
		f.extras.Groups = &predict.Groups{Posteriors: m.Groups.Posteriors}
	}
	if f.extras.Interval > 0 {
		remarkCertain(cmd, modelPath, m.Model)
	}
	f.remarkScale(cmd, m.Model)
	if err := f.writeCut(cmd, modelPath, m, src, act); err != nil {
		return err
	}
	if g := f.extras.Groups; g != nil && g.New > 0 {
		remark(cmd, "moe: %s of column %q not in %s: the gate's probabilities stand for what is known of them, with "+
			"their own rows that have %s", plural(g.New, "group"), m.Groups.Column, modelPath, m.Target)
	}
	return nil
}

// openGrouped is openFrom for a model of rows in groups, with the column of their ids where the table has it.
func (t *modelTableFlags) openGrouped(cmd *cobra.Command, in *input, m mixtureFile,
	optional bool) (dataset.Source, error) {
	column := m.Groups.Column
	found, err := t.has(in, m, column, optional)
	if err != nil {
		return nil, err
	}
	if found {
		t.roles[model.Groups] = column
	} else {
		remark(cmd, "moe: %s has no column %q of groups: each row is taken for one of a new group", in.name(), column)
	}
	return t.openFrom(in, m, optional)
}

// has says whether the table has a column of this name.
func (t *modelTableFlags) has(in *input, m mixtureFile, column string, optional bool) (bool, error) {
	all, err := in.open(dataset.Selection{Decimal: t.point, Target: m.Target, Optional: optional})
	return err == nil && slices.Contains(all.Schema().Columns(), column), err
}
