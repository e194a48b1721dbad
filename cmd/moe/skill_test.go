package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/docs/schema"
)

// TestSkill: the page of moe skill names commands, flags, keys of JSON and exit codes that there are, and all
// commands. What it shows of them is run by TestSessions.
func TestSkill(t *testing.T) {
	began := false
	root := newRoot(&began, "")
	names, err := schemaNames()
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := writeSkill(&page, root, names); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	flags := map[string]bool{}
	everyCommand(root, func(cmd *cobra.Command) {
		if cmd.IsAvailableCommand() && cmd.RunE != nil && !cmd.HasSubCommands() && !strings.Contains(text, "`"+cmd.CommandPath()) {
			t.Errorf("the page does not name %s", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Flags().FlagUsages() + cmd.InheritedFlags().FlagUsages()) {
			flags[strings.Fields(line[strings.Index(line, "--"):])[0]] = true
		}
	})
	for _, flag := range regexp.MustCompile(`--[a-z][a-z-]*`).FindAllString(text, -1) {
		if !flags[flag] && flag != "--help" {
			t.Errorf("the page names %s, which no command has", flag)
		}
	}
	for _, m := range regexp.MustCompile("(?m)(?:^\\$ |`)moe ([a-z-]+)").FindAllStringSubmatch(text, -1) {
		if cmd, _, err := root.Find(m[1:]); m[1] != "help" && (err != nil || cmd == root) {
			t.Errorf("the page names moe %s, which there is not", m[1])
		}
	}
	for _, name := range names {
		if !strings.Contains(text, name) {
			t.Errorf("the page does not name the schema %s", name)
		}
	}
	data, err := schema.Files.ReadFile("fit.json")
	if err != nil {
		t.Fatal(err)
	}
	var fit map[string]any
	if err := json.Unmarshal(data, &fit); err != nil {
		t.Fatal(err)
	}
	_, keys, _ := strings.Cut(text, "## What to read of a fit")
	keys, _, _ = strings.Cut(keys, "\n## ")
	found := regexp.MustCompile("`([a-z_]+(?:\\.[a-z_]+)*)`").FindAllStringSubmatch(keys, -1)
	if len(found) < 10 {
		t.Errorf("%d keys on the page", len(found))
	}
	for _, m := range found {
		if !slices.Contains([]string{"pass", "suspect", "null"}, m[1]) && !hasKey(fit, fit, strings.Split(m[1], ".")) {
			t.Errorf("the page names the key %s, which fit.json does not have", m[1])
		}
	}
	if hasKey(fit, fit, []string{"fit", "certificate", "nothing"}) || hasKey(fit, fit, []string{"nothing"}) {
		t.Error("a key that is not there is found")
	}
}

// hasKey says whether a JSON Schema has properties of these names one in the other.
func hasKey(root, at map[string]any, keys []string) bool {
	if len(keys) == 0 {
		return true
	}
	for _, kind := range []string{"anyOf", "allOf", "oneOf"} {
		for _, each := range objects(at[kind]) {
			if hasKey(root, each, keys) {
				return true
			}
		}
	}
	if ref, ok := at["$ref"].(string); ok {
		defs := root["$defs"].(map[string]any)
		return hasKey(root, defs[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), keys)
	}
	properties, _ := at["properties"].(map[string]any)
	next, ok := properties[keys[0]].(map[string]any)
	return ok && hasKey(root, next, keys[1:])
}

func objects(v any) (out []map[string]any) {
	all, _ := v.([]any)
	for _, each := range all {
		out = append(out, each.(map[string]any))
	}
	return out
}

// TestExitCodesOfThePage: the list of exit codes, of moe help exit-codes and of the page, has those that the
// program ends with.
func TestExitCodesOfThePage(t *testing.T) {
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^- `([0-9, ]+)`: .").FindAllStringSubmatch(exitTable(), -1) {
		listed = append(listed, m[1])
	}
	want := []string{"0", "1", "64", "65", "69", "70", "73", "74", "77", "129, 130, 143"}
	if !slices.Equal(listed, want) {
		t.Errorf("codes %q, want %q", listed, want)
	}
}
