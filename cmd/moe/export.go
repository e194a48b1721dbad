package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/export"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// exportFlags are the flags of moe export.
type exportFlags struct {
	export.Request
	to, out string
}

// exportJSON is the JSON of moe export.
type exportJSON struct {
	Output   string   `json:"output"`
	Language string   `json:"language"` // onnx, sql, go or python
	Bytes    int      `json:"bytes"`
	Columns  []string `json:"columns"` // that are read, without the target
	Target   string   `json:"target"`
}

func newExportCmd() *cobra.Command {
	f := new(exportFlags)
	cmd := &cobra.Command{
		Use:   "export MODEL --to LANGUAGE",
		Short: "Write a model in another language, in which it predicts by itself",
		Long: `export writes what a model says of rows in another language: the mean of y, the gate's
probabilities p1 ... pk, and the posterior given y. What is written is

  onnx    an ONNX graph in float64: an input for every column and for y, by their names;
          outputs mean, gate and posterior
  sql     a SELECT that DuckDB, PostgreSQL and SQLite take: columns mean, p1 ... pk,
          posterior1 ... posteriork, after those that --keep names
  go      a package with functions of a row: Mean, Gate, Posterior and Quantile
  python  a module with functions of columns, in numpy: predict and quantile

Quantiles are of normal noise and take the parameters as they are; those of moe predict
--interval vary by the covariance that the model file has. Factors, formulas, hierarchies,
families of noise and scales of the target travel with the model. A missing value, or a
word that the model does not know, leaves all predictions of its row missing. What cannot
travel is named, and nothing is written.`,
		Example: `  moe export model.json --to sql --table visits --keep id -o model.sql
  moe export model.json --to onnx -o model.onnx
  moe export model.json --to python -o tone.py`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "the `LANGUAGE`: onnx, sql, go or python")
	flags.StringVarP(&f.out, "output", "o", "", "write to this `FILE` instead of standard output")
	flags.BoolVar(&f.NoTarget, "no-target", false, "of onnx and sql: leave out the posterior, and do not read y")
	flags.StringVar(&f.Table, "table", "", "of sql: the `TABLE` that is read (default data)")
	flags.StringSliceVar(&f.Keep, "keep", nil, "of sql: `COLUMNS` of the table that stand before the predictions")
	return cmd
}

func (f *exportFlags) run(cmd *cobra.Command, path string) error {
	f.Language = export.Language(f.to)
	if f.to == "" {
		return usagef("--to: want onnx, sql, go or python")
	}
	if err := f.Validate(); err != nil {
		return usagef("--to %s: %w", f.to, err)
	}
	switch binary := f.Language == export.ONNX; {
	case f.out == "" && wantsJSON(cmd):
		return usagef("--json: give -o FILE too, for the export itself goes to standard output")
	case f.out == "" && binary && onTerminal(cmd.OutOrStdout()):
		return usagef("--to onnx: a graph is no text; give -o FILE, such as -o model.onnx")
	}
	if err := distinct(f.out, path); err != nil {
		return err
	}
	if err := creatable(f.out); err != nil {
		return err
	}
	file, head, err := jsonfile.OpenHead(path)
	switch {
	case err != nil:
		return err
	case head.Format == networkfile.Format:
		return noExport(path, "a network")
	case head.Several:
		return noExport(path, "a model of several targets")
	}
	m, err := fitted.Of(file)
	if err != nil {
		return err
	}
	remarkUnread(cmd, path, m.Unknown)
	var text bytes.Buffer
	if err := export.Write(cmd.Context(), &text, m, f.Request); err != nil {
		if is[*export.UnsupportedError](err) {
			return &exitError{exitData, fmt.Errorf("%s: %w", path, err)}
		}
		return err
	}
	if f.out == "" {
		_, err := cmd.OutOrStdout().Write(text.Bytes())
		return err
	}
	if err := atomicfile.WriteFile(cmd.Context(), f.out, text.Bytes()); err != nil {
		return err
	}
	columns := m.Features
	if m.Design != nil {
		columns = m.Design.Columns
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, exportJSON{f.out, f.to, text.Len(), columns, m.Target})
	}
	return say(cmd, "%s: %s, %s of %s", f.out, f.to, plural(text.Len(), "byte"), plural(len(columns), "column"))
}

// noExport is the error of a file that is no mixture of one target.
func noExport(path, what string) error {
	return &exitError{exitData, fmt.Errorf("%s: it cannot be exported: it is %s, and mixtures of one target can be",
		path, what)}
}
