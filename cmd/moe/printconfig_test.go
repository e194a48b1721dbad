package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// printedConfig is what moe fit --print-config prints of a command line.
func printedConfig(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	began := false
	root := newRoot(&began, "fit")
	root.SetOut(&out)
	root.SetArgs(append([]string{"fit"}, append(args, "--print-config", "--quiet")...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Errorf("%q: %v", args, err)
	}
	return out.String()
}

// TestPrintedFlags: every flag of moe fit but those on which the model does not depend is in what --print-config
// prints, so that the file fits the same.
func TestPrintedFlags(t *testing.T) {
	without := []string{"accept", "all", "config", "help", "max-memory", "output", "plugin-max-rss", "plugin-timeout",
		"print-config", "report", "resume", "sandbox", "strict", "threads", "verbose"}
	table := []string{"nowhere.csv"}
	linear := append(slices.Clip(table), "--activation", "identity", "--k", "2")
	beside := func(more ...string) []string { return append(slices.Clip(linear), more...) }
	of := map[string]struct {
		before []string
		given  []string
	}{
		"activation":       {append(slices.Clip(table), "--k", "2"), []string{"--activation", "relu"}},
		"param":            {append(slices.Clip(table), "--activation", "leakyrelu", "--k", "2"), []string{"--param", "slope=0.3"}},
		"k":                {beside(), []string{"--k", "3"}},
		"hierarchy":        {append(slices.Clip(table), "--activation", "identity", "--k", "4"), []string{"--hierarchy", "2x2"}},
		"leaves":           {append(slices.Clip(table), "--k", "2"), []string{"--leaves", "relu,tanh"}},
		"max-leaves":       {append(slices.Clip(table), "--activation", "identity", "--hierarchy", "auto"), []string{"--max-leaves", "3"}},
		"moments":          {[]string{"--activation", "identity", "--k", "2", "--moments", "one.moments"}, []string{"--moments", "all.moments"}},
		"choose":           {append(slices.Clip(table), "--activation", "identity", "--k", "1:3"), []string{"--choose", "icl"}},
		"dof":              {beside("--family", "student-t"), []string{"--dof", "4"}},
		"zero-expert":      {beside("--family", "poisson"), []string{"--zero-expert"}},
		"trials":           {beside("--family", "binomial"), []string{"--trials", "n"}},
		"offset":           {beside("--family", "poisson"), []string{"--offset", "log(n)"}},
		"gate-shared":      {beside("--targets", "y1,y2"), []string{"--gate-shared"}},
		"noise-covariance": {beside("--targets", "y1,y2", "--gate-shared"), []string{"--noise-covariance", "full"}},

		"no-group-posteriors": {beside("--group", "id"), []string{"--no-group-posteriors"}},

		"mu": {beside(), []string{"--mu", "0.5"}}, "radius": {beside("--method", "moments"), []string{"--radius", "3"}},
		"corrections": {beside("--method", "spectral"), []string{"--corrections", "2"}},
		"epochs":      {beside("--method", "l2"), []string{"--epochs", "2"}},
		"batch":       {beside("--method", "l2"), []string{"--batch", "9"}},
		"step-size":   {beside("--method", "l2"), []string{"--step-size", "0.1"}},
		"schedule":    {beside("--method", "l2"), []string{"--schedule", "inverse"}},
		"optimiser":   {beside("--method", "l2"), []string{"--optimiser", "adam"}},
		"lambda":      {beside("--method", "l4"), []string{"--lambda", "2"}},
		"penalty":     {beside("--method", "l4"), []string{"--penalty", "norm"}},
		"ridge":       {beside("--method", "l4"), []string{"--ridge", "0"}},
	}
	for flag, value := range map[string]string{
		"target": "y", "targets": "y1,y2", "features": "x1", "drop": "x1", "weights": "w", "group": "id", "cluster": "id",
		"formula": "y ~ x1", "gate-features": "x1", "shared": "x1", "categorical": "x1",
		"reference": "x1=a", "missing": "drop", "decimal": ",", "intercept": "true", "gate": "constant",
		"noise": "per-expert", "sigma": "0.1", "family": "student-t", "output-scale": "shared", "method": "em",
		"transform": "optimal", "inputs": "mixture", "robust": "true", "hac": "true", "arrangements": "true",
		"gate-penalty": "2", "expert-ridge": "2", "expert-lasso": "2", "start": "start.json", "truth": "truth.json",
		"seed": "3", "exact-activation": "true", "embed": "true", "starts": "3",
	} {
		c := of[flag]
		c.before, c.given = linear, []string{"--" + flag + "=" + value}
		of[flag] = c
	}
	newFitCmd().Flags().VisitAll(func(f *pflag.Flag) {
		c, known := of[f.Name]
		if known == slices.Contains(without, f.Name) {
			t.Errorf("--%s: say whether the model depends on it, and a value of it", f.Name)
		}
		if known && printedConfig(t, append(slices.Clip(c.before), c.given...)...) == printedConfig(t, c.before...) {
			t.Errorf("%q is not in what is printed beside %q", c.given, c.before)
		}
	})
}
