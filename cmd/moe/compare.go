package main

import (
	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/compare"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/report"
)

func newCompareCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "compare MODEL OTHER",
		Short: "Set two fits of the same rows beside each other",
		Long: `compare sets two models' files beside each other: log-likelihood, degrees of freedom,
BIC and AIC, and the coefficients of the experts that are nearest to each other, with their gates
relative to a pair of them. The fits must
be of the same rows: the same targets and weights in the same order, of which a file has a
digest. Fits by passes over parts compare with each other, where all columns are the same.
Where one model contains the other it tests the smaller by the likelihood ratio.`,
		Example: `  moe compare two.json three.json
  moe compare small.json large.json --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var models []*fitted.Model
			for _, path := range args {
				file, head, err := jsonfile.OpenHead(path)
				if err != nil {
					return err
				}
				if head.Several || head.Format == networkfile.Format {
					return &dataset.Error{File: path,
						Msg: "compare takes models of one target, no networks and no several targets"}
				}
				m, err := fitted.Of(file)
				if err != nil {
					return err
				}
				remarkUnread(cmd, path, m.Unknown)
				models = append(models, m)
			}
			c, err := compare.Fits(args[0], models[0], args[1], models[1])
			if err != nil {
				return &exitError{exitData, err}
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, c)
			}
			return report.Comparison(textOut(cmd), c, models[0], models[1])
		},
	}
}
