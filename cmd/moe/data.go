package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/examples"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// dataJSON is the JSON of moe data: all tables, or the one that was named.
type dataJSON struct {
	Tables []tableJSON `json:"tables"`
}

type tableJSON struct {
	Name    string   `json:"name"`
	Rows    int      `json:"rows"`
	Columns []string `json:"columns"` // the last is the target
	About   string   `json:"about"`
	Source  string   `json:"source"`
	Licence string   `json:"licence"`
	Output  string   `json:"output,omitempty"` // the file that it was written to
}

func newDataCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "data [NAME]",
		Short: "List small tables to try things on, or write one of them",
		Long: `data lists the small public tables that moe has in itself, with their sources and
licences. With the NAME of one it writes that as CSV, to standard output or to FILE.`,
		Example: `  moe data
  moe data tone > tone.csv
  moe data iris -o iris.csv && moe explore iris.csv
  moe data --json`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, t := range examples.Tables() {
				names = append(names, t.Name)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if out != "" {
					return usagef("-o %s: name the table that is to be written", out)
				}
				return listTables(cmd)
			}
			return writeExample(cmd, args[0], out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the table to this CSV `FILE`")
	return cmd
}

func tableOf(t examples.Table) tableJSON {
	head, _, _ := bytes.Cut(t.CSV, []byte("\n"))
	return tableJSON{
		Name: t.Name, Rows: bytes.Count(t.CSV, []byte("\n")) - 1, Columns: strings.Split(string(head), ","),
		About: t.About, Source: t.Source, Licence: t.Licence,
	}
}

func listTables(cmd *cobra.Command) error {
	var all dataJSON
	rows := [][]string{{"Table", "rows", "columns"}}
	var about strings.Builder
	for _, t := range examples.Tables() {
		one := tableOf(t)
		all.Tables = append(all.Tables, one)
		rows = append(rows, []string{t.Name, fmt.Sprint(one.Rows), fmt.Sprint(len(one.Columns))})
		fmt.Fprintf(&about, "\n%s: %s.\n  %s; %s.\n", t.Name, t.About, t.Source, t.Licence)
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, all)
	}
	if err := report.Table(textOut(cmd), rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(textOut(cmd), "%s\nmoe data NAME writes one of them.\n", about.String())
	return err
}

func writeExample(cmd *cobra.Command, name, out string) error {
	var names []string
	for _, t := range examples.Tables() {
		if names = append(names, t.Name); t.Name != name {
			continue
		}
		if out == "" {
			if wantsJSON(cmd) {
				return printJSON(cmd, dataJSON{[]tableJSON{tableOf(t)}})
			}
			_, err := cmd.OutOrStdout().Write(t.CSV)
			return err
		}
		switch strings.ToLower(filepath.Ext(out)) {
		case ".npy", ".npz", ".parquet":
			return usagef("-o %s: the table is written as CSV: want a name that ends in .csv", out)
		}
		if err := creatable(out); err != nil {
			return err
		}
		if err := atomicfile.WriteFile(cmd.Context(), out, t.CSV); err != nil {
			return err
		}
		one := tableOf(t)
		if one.Output = out; wantsJSON(cmd) {
			return printJSON(cmd, dataJSON{[]tableJSON{one}})
		}
		return say(cmd, "%s: %d rows of %s", out, one.Rows, strings.Join(one.Columns, ", "))
	}
	return usagef("no table %q; there are %s", name, strings.Join(names, ", "))
}
