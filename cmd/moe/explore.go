package main

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/explore"
	"github.com/gatedlearning/moe/internal/shown"
)

// exploreJSON is the JSON of moe explore.
type exploreJSON struct {
	File string `json:"file"`
	*explore.Table
	Fit string `json:"fit"` // the command of a first fit; "" where there is nothing to fit
}

func newExploreCmd() *cobra.Command {
	cells := new(cellFlags)
	cmd := &cobra.Command{
		Use:   "explore DATA",
		Short: "Say what stands in a table, and how a first fit of it is begun",
		Long: `explore reads a table and says of each column what its cells are: numbers with
their range, mean, standard deviation and skewness, words, dates; how many are
missing, how many values there are and how many rows have the commonest; and what
to know before a fit: a constant, row numbers, few values, many rows at one value,
counts, a long tail. It ends with the columns that may be a target and the command
of a first fit, with what has to be left out or taken as a factor.`,
		Example: `  moe explore data.csv
  moe explore data.csv --decimal , --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return exploreTable(cmd, args[0], cells) },
	}
	cmd.Flags().StringVar(&cells.decimal, "decimal", ".", "between a number's digits in a CSV file: a point or a comma")
	return cmd
}

func exploreTable(cmd *cobra.Command, path string, cells *cellFlags) error {
	cells.missing = "drop" // counted
	if err := cells.check(dataset.Keep); err != nil {
		return err
	}
	in, err := openInput(cmd.Context(), cmd, path)
	if err != nil {
		return err
	}
	defer in.close()
	t, err := explore.Of(cmd.Context(),
		func(sel dataset.Selection) (dataset.Source, error) { return in.open(cells.on(sel)) })
	if err != nil {
		return err
	}
	first := firstFit(path, t, cells.decimal)
	if wantsJSON(cmd) {
		return printJSON(cmd, exploreJSON{path, t, first})
	}
	return printTable(cmd, path, t, first)
}

// firstFit is the command of a first fit, "" where there is no target or no feature.
func firstFit(path string, t *explore.Table, decimal string) string {
	if len(t.Targets) == 0 {
		return ""
	}
	target := t.Targets[0]
	drop, categorical, missing := t.Fit(target)
	if len(drop)+1 >= len(t.Columns) {
		return ""
	}
	words := []string{"moe", "fit", path}
	if target != t.Columns[len(t.Columns)-1].Name {
		words = append(words, "--target", target)
	}
	for _, list := range []struct {
		flag  string
		names []string
	}{{"--drop", drop}, {"--categorical", categorical}} {
		if len(list.names) > 0 {
			words = append(words, list.flag, columnList(list.names))
		}
	}
	if missing {
		words = append(words, "--missing", "drop")
	}
	if decimal != "." {
		words = append(words, "--decimal", decimal)
	}
	words = append(words, "--activation", "identity", "--k", "1:4", "--intercept")
	for i, w := range words {
		words[i] = quoted(w)
	}
	return strings.Join(words, " ")
}

// columnList is a list of names as a flag takes it.
func columnList(names []string) string {
	var out strings.Builder
	w := csv.NewWriter(&out)
	w.Write(names)
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n")
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	plain := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+-", r)
	}
	if word != "" && !strings.ContainsFunc(word, plain) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func printTable(cmd *cobra.Command, path string, t *explore.Table, first string) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s: %s, %s\n\ncolumn\tvalues\tmean\tsd\tskew\tdifferent\tmissing\tnotes\n", shown.Name(path),
		plural(t.Rows, "row"), plural(len(t.Columns), "column"))
	for _, c := range t.Columns {
		distinct := "many"
		if c.Distinct != nil {
			distinct = fmt.Sprint(*c.Distinct)
		}
		values, mean, sd, skew := string(c.Kind), "", "", ""
		if s := c.Numbers; s != nil {
			values = fmt.Sprintf("%.6g to %.6g", s.Min, s.Max)
			mean, sd, skew = number(s.Mean, 4), number(s.SD, 4), number(s.Skew, 2)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", shown.Name(c.Name), values, mean, sd, skew, distinct,
			c.Missing, strings.Join(remarks(&c, t.Rows), "; "))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	out := textOut(cmd)
	for line := range strings.Lines(text.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	for _, note := range t.Notes {
		fmt.Fprintf(out, "\n%s\n", shown.Line(note))
	}
	if first == "" {
		_, err := fmt.Fprintln(out, "\nThere is nothing to fit: a target needs more than two numbers, and another "+
			"column beside it.")
		return err
	}
	fmt.Fprintf(out, "\nA target may be %s. A first fit:\n\n", names(t.Targets))
	_, err := fmt.Fprintf(out, "  %s\n", shown.Line(first))
	i := slices.IndexFunc(t.Columns, func(c explore.Column) bool { return c.Name == t.Targets[0] })
	if err == nil && i >= 0 && t.Columns[i].Has(explore.Skewed) {
		_, err = fmt.Fprintf(out, "\nOr of its logarithm: --formula 'log(%s) ~ .' in the place of --target and "+
			"--intercept.\n", shown.Name(t.Targets[0]))
	}
	return err
}

// names joins names as a sentence has them.
func names(list []string) string {
	var out []string
	for _, name := range list {
		out = append(out, shown.Name(name))
	}
	if len(out) == 1 {
		return out[0]
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}

func number(v *float64, digits int) string {
	if v == nil {
		return "-"
	}
	return shown.Number(*v, digits)
}

// remarks are the notes on a column, with their numbers and what to do.
func remarks(c *explore.Column, rows int) (out []string) {
	for _, n := range c.Notes {
		text := string(n)
		switch n {
		case explore.FewValues:
			text += ": as a target experts may sit on them"
		case explore.Massed:
			text = fmt.Sprintf("%.1f %% are %s: as a target an expert may sit on it",
				100*float64(c.Common.Rows)/float64(rows-c.Missing), c.Common.Value)
		case explore.Counts:
			text += ": counts?"
		case explore.Skewed:
			text += ": its logarithm?"
		case explore.Levels:
			text += ": left out"
		case explore.Constant, explore.RowNumber:
			text += ": left out"
		}
		out = append(out, text)
	}
	switch c.Kind {
	case explore.Mixed:
		if c.Has(explore.Marked) {
			return []string{fmt.Sprintf("does %s stand for a missing value? write NA, or use it by --categorical; "+
				"left out", shown.Line(c.Common.Value))}
		}
		out = append(out, fmt.Sprintf("a factor by --categorical (%s is a word)", shown.Line(c.Common.Value)))
	case explore.Spelled:
		out = append(out, fmt.Sprintf("%s: write plain decimals (1460, 0.12), or --decimal ,",
			shown.Line(c.Common.Value)))
	case explore.Dates:
		out = append(out, "write days since a start to use it")
	}
	return out
}
