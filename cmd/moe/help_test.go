package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelp: the help of every command has 100 lines at most and five examples at most, and shows every one of its flags once,
// in whatever group; a group names flags that there are.
func TestHelp(t *testing.T) {
	const lines, examples = 100, 5
	began, known := false, map[string]bool{}
	everyCommand(newRoot(&began, ""), func(cmd *cobra.Command) {
		if cmd.IsAdditionalHelpTopicCommand() {
			return
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if n := strings.Count(text, "\n"); n > lines {
			t.Errorf("%s --help has %d lines", cmd.CommandPath(), n)
		}
		if n := strings.Count(cmd.Example, "\n") + 1; n > examples {
			t.Errorf("%s --help has %d examples", cmd.CommandPath(), n)
		}
		if strings.Contains(text, "template:") || strings.Contains(text, "\n\n\n") {
			t.Errorf("%s --help:\n%s", cmd.CommandPath(), text)
		}
		for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
			name := strings.Fields(line[strings.Index(line, "--"):])[0]
			known[strings.TrimPrefix(name, "--")] = true
			n := 0
			for shown := range strings.Lines(text) {
				if fields := strings.Fields(shown); slices.Contains(fields[:min(2, len(fields))], name) && strings.HasPrefix(shown, "  ") && !strings.HasPrefix(shown, "  moe") {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s --help shows %s %d times", cmd.CommandPath(), name, n)
			}
		}
	})
	for _, g := range flagGroups {
		for _, name := range g.flags {
			if !known[name] {
				t.Errorf("the group %s has --%s, which no command has", g.title, name)
			}
		}
	}
}

// TestAlone: a command that is made without the others is called as the table says and says the same of itself, and a
// line that names none has them all.
func TestAlone(t *testing.T) {
	began := false
	help := func(root *cobra.Command, name string) string {
		cmd, _, err := root.Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		return cmd.Long + cmd.UsageString()
	}
	whole := newRoot(&began, "")
	for _, c := range constructors() {
		if got := c.build().Name(); got != c.name {
			t.Errorf("%s is called %s", c.name, got)
		}
		only := alone([]string{c.name, "--help"})
		if only == "" {
			continue
		}
		root := newRoot(&began, only)
		for _, other := range constructors() {
			if cmd, _, err := root.Find([]string{other.name}); (err == nil && cmd != root) != (other.name == only) {
				t.Errorf("alone, %s stands beside %s", only, other.name)
			}
		}
		if got, want := help(root, only), help(whole, only); got != want {
			t.Errorf("alone, %s says %q, want %q", only, got, want)
		}
	}
	for _, args := range [][]string{nil, {"help", "fit"}, {"--json", "fit"}, {"fitt"}, {"man", "pages"}, {"skill"}, {"__complete", "fit"}} {
		if only := alone(args); only != "" {
			t.Errorf("%q: %s alone", args, only)
		}
	}
}
