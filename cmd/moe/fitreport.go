package main

import (
	"bytes"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// pageOf is a fit on a page, with the rows that it is of.
type pageOf struct {
	m   *fitted.Model
	src dataset.Source
}

// writeReport writes the page of a fit, or of the fits of several targets.
func writeReport(cmd *cobra.Command, path string, settings []page.Setting, act model.Activation,
	fits ...pageOf) error {
	ctx := cmd.Context()
	var on []page.Fitted
	for _, f := range fits {
		m := f.m.ForNewRows()
		d, err := diagnosis.Of(ctx, m, act, f.src)
		if err != nil {
			return err
		}
		on = append(on, page.Fitted{Model: m, Diagnosis: d})
	}
	var out bytes.Buffer
	if err := page.Fits(&out, settings, on...); err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, out.Bytes())
}

// writeSharedReport writes the page of a fit of several targets under one gate.
func writeSharedReport(cmd *cobra.Command, path string, settings []page.Setting, act model.Activation,
	v *fitted.Vector, tables []dataset.Source) error {
	targets, err := diagnosis.OfSharedGate(cmd.Context(), v, act, tables)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := page.SharedGate(&out, settings, v, targets); err != nil {
		return err
	}
	return atomicfile.WriteFile(cmd.Context(), path, out.Bytes())
}

// settings lists every flag of the command with its value, and the versions.
func settings(cmd *cobra.Command) []page.Setting {
	out := []page.Setting{
		{Name: "command", Value: cmd.CommandPath()},
		{Name: "data", Value: cmd.Flags().Arg(0)},
		{Name: "moe", Value: ownVersion()},
		{Name: "go", Value: runtime.Version()},
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "print-config" && (f.Name != "config" || f.Changed) {
			out = append(out, page.Setting{Name: "--" + f.Name, Value: f.Value.String(), Default: !f.Changed})
		}
	})
	return out
}

// settingsOver are the settings over those in a file with this text, whose values are no flag's
// default; nil for none.
func settingsOver(cmd *cobra.Command, file []byte) []page.Setting {
	all := settings(cmd)
	if file == nil {
		return all
	}
	given := slices.DeleteFunc(all, func(s page.Setting) bool { return s.Default })
	return append(given, page.Setting{Name: "config", Value: strings.Join(strings.Fields(string(file)), " ")})
}
