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
	all, err := in.open(dataset.Selection{Decimal: f.table.point, Target: m.Target, Optional: true})
	if err != nil {
		return err
	}
	column := m.Groups.Column
	if slices.Contains(all.Schema().Columns(), column) {
		f.table.roles[model.Groups] = column
		f.extras.Groups = &predict.Groups{Posteriors: m.Groups.Posteriors}
	} else {
		remark(cmd, "moe: %s has no column %q of groups: each row is taken for one of a new group", in.name(), column)
	}
	src, err := f.table.openFrom(in, m, true)
	if err != nil {
		return err
	}
	if f.extras.Interval > 0 {
		remarkCertain(cmd, modelPath, m.Model)
	}
	f.remarkScale(cmd, m.Model)
	if err := f.write(cmd, rechecked{m.predictions(act, src, f.extras), act.Recheck}); err != nil {
		return err
	}
	if g := f.extras.Groups; g != nil && g.New > 0 {
		remark(cmd, "moe: %s of column %q not in %s: the gate's probabilities stand for what is known of them, with "+
			"their own rows that have %s", plural(g.New, "group"), column, modelPath, m.Target)
	}
	return nil
}

// refuseGroups refuses what a model of rows in groups is not for.
func refuseGroups(m anyModel, path, what string) error {
	if mixture, ok := m.(mixtureFile); ok && mixture.Groups != nil {
		return usagef("%s is of rows in groups (column %q), which %s does not know", path, mixture.Groups.Column, what)
	}
	return nil
}
