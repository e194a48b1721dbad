package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/crossvalidation"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/host/spec"
	"github.com/gatedlearning/moe/internal/shown"
)

// crossValidation is the JSON of moe crossvalidate.
type crossValidation struct {
	Folds      int                       `json:"folds"`
	Seed       uint64                    `json:"seed"`
	Candidates []crossvalidation.HeldOut `json:"candidates"`
	Best       int                       `json:"best"` // k of the highest held-out log-likelihood, predictive if there is one

	joint bool // the targets have one gate
}

func newCrossvalidateCmd() *cobra.Command {
	f, folds := new(fitFlags), 0
	cmd := &cobra.Command{
		Use:   "crossvalidate DATA [NAME]",
		Short: "Compare numbers of experts on rows that the fits have not seen",
		Long: `crossvalidate parts the rows of DATA at random, fits every number of experts
without each part in turn, and measures it on the part that was left out: the
log-likelihood of all rows, with its standard error, the predictive one, which has the
uncertainty of the fits' parameters in it and says which number is best, and the root
mean squared error of the mean prediction. Of several --targets the log-likelihoods are of all
targets of a row together, and there is no predictive one with --gate-shared. Columns, formulas
and methods are those of moe fit. Levels of factors and polynomials are those of all rows.

The exit code is 1 if a fit of the best number of experts did not converge.`,
		Example: `  moe crossvalidate data.csv --activation identity --k 1:6 --intercept
  moe crossvalidate trial.csv --formula 'dose ~ age * sex | age' --activation identity --k 1:4 --folds 5 --json
  moe crossvalidate pairs.csv --targets y1,y2 --gate-shared --noise-covariance full --activation tanh --k 1:3`,
		Args: dataArg(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.crossValidate(cmd, args[:1], folds)
		},
	}
	f.registerModel(cmd)
	cmd.Flags().IntVar(&folds, "folds", 10,
		"number of parts; unsaid, as many as there are rows, or groups, where these are fewer")
	return cmd
}

func (f *fitFlags) crossValidate(cmd *cobra.Command, args []string, folds int) error {
	if folds < 2 {
		return usagef("--folds %d: want at least 2", folds)
	}
	if !cmd.Flags().Changed("folds") {
		folds = 0
	}
	s := &spec.Fit{}
	if _, err := f.write(cmd, s, args); err != nil {
		return err
	}
	f.complete(cmd, s)
	one := *s
	if s.Targets != nil {
		one.KTo = 0 // of a range every number is tried as by itself
	}
	if err := check(cmd, &one); err != nil {
		return err
	}
	if err := f.checkThreads(cmd); err != nil {
		return err
	}
	if s.Leaves != nil {
		return usagef("--leaves %s: crossvalidate takes one activation for all experts", f.tree.leaves)
	}
	if s.Grows() {
		return usagef("--hierarchy %s: crossvalidate takes a tree that is given, such as 2x2; 'moe fit "+
			"--hierarchy %[1]s' finds one", s.Hierarchy)
	}
	j, err := f.open(cmd, s)
	if err != nil {
		return err
	}
	defer j.close()
	bar := newBar(cmd)
	j.config.Progress = bar.show
	act, _ := j.experts.activation()
	_, to := s.Numbers()
	found, err := s.Alternative(act, j.targets, j.config).CrossValidate(cmd.Context(), folds)
	bar.done()
	if err != nil {
		return err
	}
	best := found[0]
	for _, h := range found {
		if h.Judged() > best.Judged() {
			best = h
		}
	}
	out := crossValidation{Folds: best.Folds, Seed: j.config.Seed, Candidates: found, Best: best.K, joint: s.GateShared}
	f.remarkUnsaid(cmd)
	if most := found[len(found)-1].K; most < to {
		remark(cmd, "moe: k from %d on was not looked at: without a part the rows do not determine so many experts",
			most+1)
	}
	if err := out.print(cmd); err != nil {
		return err
	}
	if best.Converged < best.Folds {
		return errNo
	}
	return nil
}

func (c crossValidation) print(cmd *cobra.Command) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, c)
	}
	w := textOut(cmd)
	head := []string{"Experts", "held-out log-likelihood", "±", "predictive", "±"}
	for _, of := range c.Candidates[0].Targets {
		head = append(head, "rmse of "+shown.Name(of.Target))
	}
	if len(head) == 5 {
		head = append(head, "rmse")
	}
	table := [][]string{append(head, "fits converged", "")}
	known := slices.ContainsFunc(c.Candidates, func(h crossvalidation.HeldOut) bool { return h.Predictive != nil })
	for _, h := range c.Candidates {
		remark := ""
		if h.K == c.Best {
			remark = "best"
		}
		predictive, by := "–", "–"
		if h.Predictive != nil {
			predictive, by = numeral.Likelihood(*h.Predictive), fmt.Sprintf("%.2g", *h.PredictiveStandardError)
		}
		row := []string{fmt.Sprint(h.K), numeral.Likelihood(h.LogLikelihood),
			fmt.Sprintf("%.2g", h.StandardError), predictive, by}
		for _, of := range h.Targets {
			row = append(row, fmt.Sprintf("%.4g", of.RMSE))
		}
		if h.Targets == nil {
			row = append(row, fmt.Sprintf("%.4g", h.RMSE))
		}
		table = append(table, append(row, fmt.Sprintf("%d of %d", h.Converged, c.Folds), remark))
	}
	if !known {
		for i, row := range table {
			table[i] = slices.Delete(row, 3, 5)
		}
	}
	_, err := fmt.Fprintf(w, "Cross-validation by %d parts (seed %d).\n", c.Folds, c.Seed)
	if err == nil && c.joint {
		_, err = fmt.Fprintln(w, "Log-likelihoods are of the targets' joint density, at the parameters of each fit.")
	}
	certain := slices.MaxFunc(c.Candidates, func(a, b crossvalidation.HeldOut) int { return a.Certain - b.Certain })
	if err == nil && certain.Certain > 0 {
		_, err = fmt.Fprintf(w, "But %s.\n", crossvalidation.Certain(certain.Certain, c.Folds))
	}
	if unseen := c.Candidates[0].Unseen; err == nil && unseen != nil {
		_, err = fmt.Fprintf(w, "But %s.\n", shown.Line(crossvalidation.Unseen(unseen)))
	}
	if err != nil {
		return err
	}
	return report.Table(w, table)
}
