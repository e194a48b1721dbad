package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
)

// completions makes a shell complete the values of those of a command's flags that
// are names.
func completions(cmd *cobra.Command) {
	for name, values := range map[string][]string{
		"method": namesOf(host.Methods()), "gate": namesOf(host.Gates()), "noise": namesOf(host.Noises()),
		"missing": {"refuse", "drop"}, "decimal": {".", ","}, "output-scale": namesOf(host.OutputScales()),
		"family": host.Families(),
	} {
		cobra.CheckErr(cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values,
			cobra.ShellCompDirectiveNoFileComp)))
	}
}

// completionOf gives root the command that prints scripts of completion, which refuses a shell that it does not know.
func completionOf(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.SuggestionsMinimumDistance = 2
			cmd.Args = noSuchCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// completeActivation completes the names of the built-ins and of the trusted plugins;
// what has a slash is a file. A trust store that cannot be read trusts none.
func completeActivation(_ *cobra.Command, _ []string, start string) ([]string, cobra.ShellCompDirective) {
	if strings.Contains(start, "/") {
		return nil, cobra.ShellCompDirectiveDefault
	}
	var names []string
	for _, b := range catalog.Builtins() {
		names = append(names, b.Name)
	}
	trusted, _ := catalog.Catalog{}.Trusted()
	for _, r := range trusted {
		names = append(names, r.Name)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" || !strings.HasPrefix(name, start) })
	return names, cobra.ShellCompDirectiveNoFileComp
}
