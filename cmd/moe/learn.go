package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/shown"
)

// learnFlags are the flags of moe learn-activation.
type learnFlags struct {
	config learn.Config
	target string
	drop   []string
	// columns whose values are levels, beside those that hold words
	categorical []string
	cells       cellFlags
	out         string
	report      string
	model       string
}

func newLearnCmd() *cobra.Command {
	f := new(learnFlags)
	cmd := &cobra.Command{
		Use:   "learn-activation DATA",
		Short: "Learn the activation with the experts, as a curve",
		Long: `learn-activation estimates the nonlinearity g that all experts share together with
their regressors, gate and noise. g is a natural cubic spline, and its 6 to 12 knots
are those of the least BIC. With --monotone g rises, and is a quadratic spline. It is
written as a table that --activation table:FILE takes, with intervals of 95 %.

A g and regressors are one of many that give the same means. Here the first regressor
has norm 1, or all with --unit-norm, experts being in the order of their proportions;
with --intercept the experts' intercepts are 0 on the average over the rows; and g rises on
the average over the rows. Where it does not, or is even, the first regressor's largest
coefficient is above 0.

Built-ins and some expressions are fitted in the place of the spline, and compared by BIC:
a + s·g(beta·z + shift), with a, s and beta fitted too, and the shift where k is 1, with
--intercept, or where BIC prefers that. p is the smaller of two tests of whether g deviates
from them by a spline, score and likelihood ratio. --json has both, and each as an expression.`,
		Example: `  moe learn-activation data.csv --k 2 -o g.csv --model model.json --report g.html
  moe fit data.csv --activation table:g.csv --k 2 -o model.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.config.K, "k", 1, "number of experts")
	flags.BoolVar(&f.config.UnitNorm, "unit-norm", false, "all regressors have norm 1, not the first alone")
	flags.BoolVar(&f.config.Intercepts, "intercept", false, "experts and gate have intercepts")
	flags.BoolVar(&f.config.Monotone, "monotone", false, "g rises")
	flags.IntVar(&f.config.Knots, "knots", 0, "number of knots of the spline, 6 to 12; 0: by BIC")
	flags.Uint64Var(&f.config.Seed, "seed", 1, "seed of random starts")
	flags.StringVar(&f.target, "target", "", "the target's `COLUMN`; the last where none is named")
	flags.StringSliceVar(&f.drop, "drop", nil, "`COLUMNS` to leave out")
	flags.StringVarP(&f.out, "output", "o", "", "write the curve to this CSV `FILE` (required)")
	flags.StringVar(&f.model, "model", "", "fit the experts with the curve from where it was learned, and write the "+
		"model to this `FILE`")
	flags.StringVar(&f.report, "report", "", "write a page with the curve, its intervals and the functions beside it "+
		"to this HTML `FILE`")
	flags.StringSliceVar(&f.categorical, "categorical", nil, "column `NAMES` that are factors whatever stands "+
		"in them")
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
	if err := cmp.Or(distinct(f.out, path, f.model, f.report), distinct(f.model, path, f.report),
		distinct(f.report, path)); err != nil {
		return err
	}
	if err := creatable(f.out, f.model, f.report); err != nil {
		return err
	}
	ctx := cmd.Context()
	in, err := openInput(ctx, cmd, path)
	if err != nil {
		return err
	}
	defer in.close()
	data, err := terms.Open(ctx, in.open, terms.Request{Categorical: f.categorical,
		Selection: f.cells.on(dataset.Selection{Target: f.target, Drop: f.drop})})
	if err != nil {
		return err
	}
	l, err := learn.Learn(ctx, data.Source, f.config)
	if err != nil {
		return err
	}
	var m *fitted.Model
	if f.model != "" {
		if m, err = f.fit(ctx, l, data); err != nil {
			return err
		}
	}
	if err := f.write(cmd, l, m, data.Source.Schema()); err != nil {
		return err
	}
	return printLearned(cmd, f.out, l, data.Source.Schema().Features, f.config.Monotone)
}

// fit is the fit with the curve. It begins where the curve was learned, beside the starts of every fit: those know
// nothing of where a curve's arguments are.
func (f *learnFlags) fit(ctx context.Context, l *learn.Learned, data *terms.Table) (*fitted.Model, error) {
	cfg := host.Config{K: f.config.K, Seed: f.config.Seed, Start: l.Params}
	if f.config.Intercepts {
		cfg.Intercepts = host.BothIntercepts
	}
	return host.Fit(ctx, l.Table, data.Source, cfg.For(data))
}

// write writes the curve and, where they are asked for, the model and the page: all or none.
func (f *learnFlags) write(cmd *cobra.Command, l *learn.Learned, m *fitted.Model, schema dataset.Schema) error {
	var files []*atomicfile.File
	defer func() {
		for _, file := range files {
			file.Discard()
		}
	}()
	for _, out := range []struct {
		path  string
		write func(io.Writer) error
	}{
		{f.out, l.WriteCSV},
		{f.model, func(w io.Writer) error {
			data, err := m.JSON()
			if err != nil {
				return err
			}
			_, err = w.Write(data)
			return err
		}},
		{f.report, func(w io.Writer) error {
			return page.Learned(w, l, schema.Features, schema.Target, settings(cmd))
		}},
	} {
		if out.path == "" {
			continue
		}
		file, err := atomicfile.Create(cmd.Context(), out.path)
		if err != nil {
			return err
		}
		files = append(files, file)
		if err := out.write(file); err != nil {
			return err
		}
	}
	return atomicfile.CommitAll(files...)
}

// learnedJSON is the JSON of moe learn-activation.
type learnedJSON struct {
	Output      string     `json:"output"`
	Activation  string     `json:"activation"` // the curve's name in files
	K           int        `json:"k"`
	N           int        `json:"n"`
	Features    []string   `json:"features"`
	Dependent   []string   `json:"dependent"` // features that those before them tell; their coefficients are 0
	Monotone    bool       `json:"monotone"`
	Knots       int        `json:"knots"`
	Middle      [2]float64 `json:"middle"` // where the middle 95 % of arguments are
	Even        bool       `json:"even"`   // every expert's sign is free
	Center      *float64   `json:"center"` // where g is even about; null where it is not
	Proportions []float64  `json:"proportions"`
	weightsJSON            // the estimates
	// of the estimates, with the curve estimated too; null where there are none
	Errors        *weightsJSON  `json:"standard_errors"`
	Unjudged      string        `json:"unjudged"` // why there are no standard errors; empty where there are
	LogLikelihood float64       `json:"log_likelihood"`
	BIC           float64       `json:"bic"`
	Curve         []learn.Point `json:"curve"`  // from the first knot to the last
	Bias          *learn.Bias   `json:"bias"`   // null where there are no standard errors
	Named         []learn.Named `json:"named"`  // the least BIC first
	Starts        []learn.Start `json:"starts"` // the highest first
}

// weightsJSON are a mixture's parameters beside the curve, or their standard errors.
type weightsJSON struct {
	Regressors          [][]float64 `json:"regressors"`
	RegressorIntercepts []float64   `json:"regressor_intercepts"` // k, or null
	Gating              [][]float64 `json:"gating"`               // k - 1 rows
	GatingIntercepts    []float64   `json:"gating_intercepts"`    // k - 1, or null
	Sigma               float64     `json:"sigma"`
}

func weightsOf(p *model.Params) weightsJSON {
	w := weightsJSON{Regressors: [][]float64{}, RegressorIntercepts: p.RegressorIntercepts, Gating: [][]float64{},
		GatingIntercepts: p.GatingIntercepts, Sigma: p.Sigma[0]}
	for i := range p.K {
		w.Regressors = append(w.Regressors, p.Regressors[i*p.D:(i+1)*p.D])
	}
	for i := range p.K - 1 {
		w.Gating = append(w.Gating, p.Gating[i*p.D:(i+1)*p.D])
	}
	return w
}

func printLearned(cmd *cobra.Command, out string, l *learn.Learned, features []string, monotone bool) error {
	p := l.Params
	if wantsJSON(cmd) {
		j := learnedJSON{Output: out, Activation: l.Table.Info().Name, K: p.K, N: l.N, Features: features,
			Dependent: []string{}, Monotone: monotone,
			Knots: l.Knots, Middle: l.Middle, Even: l.Even, Center: l.Center, Proportions: l.Proportions,
			weightsJSON: weightsOf(p), Unjudged: l.Unjudged,
			LogLikelihood: l.LogLikelihood, BIC: l.BIC, Curve: l.Curve, Bias: l.Bias, Named: l.Named, Starts: l.Starts}
		for _, i := range l.Dependent {
			j.Dependent = append(j.Dependent, features[i])
		}
		if l.StandardErrors != nil {
			w := weightsOf(l.StandardErrors)
			j.Errors = &w
		}
		return printJSON(cmd, j)
	}
	lines := []string{fmt.Sprintf("%s: %d knots, %s, sigma %.4g, log-likelihood %.2f on %d rows (BIC %.2f); "+
		"95 %% of arguments are from %.4g to %.4g",
		out, l.Knots, plural(p.K, "expert"), p.Sigma[0], l.LogLikelihood, l.N, l.BIC, l.Middle[0], l.Middle[1])}
	if l.Even {
		lines = append(lines, fmt.Sprintf("g is even about %.2g as far as it is known: the sign of every regressor "+
			"is free", *l.Center))
	}
	for _, j := range l.Dependent {
		lines = append(lines, fmt.Sprintf("%s follows from the features before it in every row: its coefficients "+
			"are held at 0; --drop %[1]s leaves it out", shown.Name(features[j])))
	}
	lines = append(lines, bands(l))
	for _, n := range l.Named {
		verdict := "worse than the curve"
		if n.BIC < l.BIC {
			verdict = "preferred to the curve"
		}
		if !n.Converged {
			verdict += "; not converged"
		}
		lines = append(lines, fmt.Sprintf("  %-45s p %-6s BIC %+.1f, %s", n.String(), pValue(n.LeastP()), n.BIC-l.BIC,
			verdict))
	}
	_, err := fmt.Fprintln(textOut(cmd), strings.Join(lines, "\n"))
	return err
}

// bands says how well the curve is known.
func bands(l *learn.Learned) string {
	if l.StandardErrors == nil {
		return "no standard errors: " + l.Unjudged
	}
	widest := 0.0
	for _, p := range l.Curve {
		if p.Z >= l.Middle[0] && p.Z <= l.Middle[1] {
			widest = max(widest, (*p.Upper-*p.Lower)/2)
		}
	}
	text := fmt.Sprintf("intervals of 95 %% are there up to ±%.2g", widest)
	if b := l.Bias; b != nil {
		with := ""
		if b.SE != nil {
			with = fmt.Sprintf(", with a standard error of %.1g,", *b.SE)
		}
		text += fmt.Sprintf(", and hold no bias of the spline: one of %d knots differs by up to %.2g%s at z = %.3g",
			b.Knots, math.Abs(b.Difference), with, b.Z)
		if b.SE == nil {
			text += " (its standard error cannot be given: the finer spline is no less certain there)"
		}
	}
	return text
}

// pValue is a p in the width of a column; - where nothing was tested.
func pValue(p *float64) string {
	switch {
	case p == nil:
		return "-"
	case *p < .001:
		return "<.001"
	}
	return strings.TrimPrefix(fmt.Sprintf("%.3f", *p), "0")
}
