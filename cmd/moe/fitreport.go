package main

import (
	"bytes"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// writeReport writes the page of a fit.
func writeReport(cmd *cobra.Command, path string, m *fitted.Model, act model.Activation, src dataset.Source) error {
	ctx := cmd.Context()
	d, err := report.Diagnose(ctx, m, act, src)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	if err := report.Page(&page, m, d, settings(cmd)); err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, page.Bytes())
}

// settings lists every flag of the command with its value, and the versions.
func settings(cmd *cobra.Command) []report.Setting {
	out := []report.Setting{
		{Name: "command", Value: cmd.CommandPath()},
		{Name: "data", Value: cmd.Flags().Arg(0)},
		{Name: "moe", Value: ownVersion()},
		{Name: "go", Value: runtime.Version()},
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			out = append(out, report.Setting{Name: "--" + f.Name, Value: f.Value.String(), Default: !f.Changed})
		}
	})
	return out
}
