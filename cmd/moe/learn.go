package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// learnFlags are the flags of moe learn-activation.
type learnFlags struct {
	config learn.Config
	target string
	drop   []string
	cells  cellFlags
	out    string
}

func newLearnCmd() *cobra.Command {
	f := new(learnFlags)
	cmd := &cobra.Command{
		Use:   "learn-activation DATA",
		Short: "Learn the activation with the experts, as a curve",
		Long: `learn-activation estimates the nonlinearity g that all experts share together with
their regressors, gate and noise. g is a natural cubic spline, and its 6 to 12 knots
are those of the least BIC. It is written as a table that --activation table:FILE
takes.

A g and regressors are one of many that give the same means. Here the first regressor
has norm 1, or all with --unit-norm; with --intercept the experts' intercepts are 0 on
the average over the rows; and g rises on the average over the rows.

Built-ins and some expressions are fitted in the place of the spline, and compared by BIC:
a + s·g(beta·z), with a, s and beta fitted too.`,
		Example: `  moe learn-activation data.csv --k 2 -o g.csv
  moe fit data.csv --activation table:g.csv --k 2 -o model.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.config.K, "k", 1, "number of experts")
	flags.BoolVar(&f.config.UnitNorm, "unit-norm", false, "all regressors have norm 1, not the first alone")
	flags.BoolVar(&f.config.Intercepts, "intercept", false, "experts and gate have intercepts")
	flags.IntVar(&f.config.Knots, "knots", 0, "number of knots of the spline, 6 to 12; 0: by BIC")
	flags.Uint64Var(&f.config.Seed, "seed", 1, "seed of random starts")
	flags.StringVar(&f.target, "target", "", "the target's `COLUMN`; the last where none is named")
	flags.StringSliceVar(&f.drop, "drop", nil, "`COLUMNS` to leave out")
	flags.StringVarP(&f.out, "output", "o", "", "write the curve to this CSV `FILE` (required)")
	f.cells.register(cmd, "leave them out")
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
	return cmd
}

func (f *learnFlags) run(cmd *cobra.Command, path string) error {
	if f.config.K < 1 || f.config.K > 20 {
		return usagef("--k %d: want 1 to 20", f.config.K)
	}
	if m := f.config.Knots; m != 0 && (m < learn.MinKnots || m > learn.MaxKnots) {
		return usagef("--knots %d: want %d to %d, or 0", m, learn.MinKnots, learn.MaxKnots)
	}
	if err := f.cells.check(dataset.Drop); err != nil {
		return err
	}
	if err := distinct(f.out, path); err != nil {
		return err
	}
	if err := creatable(f.out); err != nil {
		return err
	}
	ctx := cmd.Context()
	in, err := openInput(ctx, cmd, path)
	if err != nil {
		return err
	}
	defer in.close()
	src, err := in.open(f.cells.on(dataset.Selection{Target: f.target, Drop: f.drop}))
	if err != nil {
		return err
	}
	l, err := learn.Learn(ctx, src, f.config)
	if err != nil {
		return err
	}
	file, err := atomicfile.Create(ctx, f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := l.Table.WriteCSV(file); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	return printLearned(cmd, f.out, l, src.Schema().Features)
}

// learnedJSON is the JSON of moe learn-activation.
type learnedJSON struct {
	Output        string        `json:"output"`
	Activation    string        `json:"activation"` // the curve's name in files
	K             int           `json:"k"`
	N             int           `json:"n"`
	Features      []string      `json:"features"`
	Knots         int           `json:"knots"`
	Middle        [2]float64    `json:"middle"` // where the middle 95 % of arguments are
	Even          bool          `json:"even"`   // every expert's sign is free
	Regressors    [][]float64   `json:"regressors"`
	Sigma         float64       `json:"sigma"`
	LogLikelihood float64       `json:"log_likelihood"`
	BIC           float64       `json:"bic"`
	Named         []learn.Named `json:"named"` // the least BIC first
}

func printLearned(cmd *cobra.Command, out string, l *learn.Learned, features []string) error {
	p := l.Params
	if wantsJSON(cmd) {
		j := learnedJSON{Output: out, Activation: l.Table.Info().Name, K: p.K, N: l.N, Features: features,
			Knots:  l.Knots,
			Middle: l.Middle, Even: l.Even, Sigma: p.Sigma[0], LogLikelihood: l.LogLikelihood, BIC: l.BIC,
			Named: l.Named}
		for i := range p.K {
			j.Regressors = append(j.Regressors, p.Regressors[i*p.D:(i+1)*p.D])
		}
		return printJSON(cmd, j)
	}
	if err := say(cmd, "%s: %d knots, %d experts, sigma %.4g, log-likelihood %.2f on %d rows (BIC %.2f); "+
		"95 %% of arguments are from %.4g to %.4g",
		out, l.Knots, p.K, p.Sigma[0], l.LogLikelihood, l.N, l.BIC, l.Middle[0], l.Middle[1]); err != nil {
		return err
	}
	if l.Even {
		if err := say(cmd, "g is even as far as it is known: the sign of every regressor is free"); err != nil {
			return err
		}
	}
	for _, n := range l.Named {
		verdict := "worse than the curve"
		if n.BIC < l.BIC {
			verdict = "preferred to the curve"
		}
		beta := ""
		if n.Beta != 1 {
			beta = fmt.Sprintf("beta %.3g", n.Beta)
		}
		if err := say(cmd, "  %-22s %-12s BIC %+.1f, %s", n.Name, beta, n.BIC-l.BIC, verdict); err != nil {
			return err
		}
	}
	return nil
}
