package main

import (
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatedlearning/moe/docs/schema"
)

// skillPage is the page that moe skill prints, as a template. Its console blocks are run with those of
// the other pages, and what drifts stands in no more than one place: lists come from the command tree,
// and exit codes from moe help exit-codes.
//
//go:embed skill.md
var skillPage string

// skillJSON is the JSON of moe skill.
type skillJSON struct {
	Page    string   `json:"page"`    // in Markdown
	Schemas []string `json:"schemas"` // what --schema takes
}

func newSkillCmd() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "skill",
		Short: "Print a page for scripts and programs that call moe",
		Long: `skill prints one page in Markdown for what calls moe and is no person: scripts, pipelines,
programs, language models. It has the rules of flags, output and exit codes, the keys of
the JSON that decide, recipes for a shell under set -e, and all commands.

With --schema NAME it prints the JSON Schema of an output or a file instead.`,
		Example: "  moe skill > moe-skill.md\n  moe skill --schema fit > fit.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			names, err := schemaNames()
			if err != nil {
				return err
			}
			if name != "" {
				if !slices.Contains(names, name) {
					return usagef("--schema %s: want one of %s", name, strings.Join(names, ", "))
				}
				data, err := schema.Files.ReadFile(name + ".json")
				if err != nil {
					return err
				}
				_, err = cmd.OutOrStdout().Write(data)
				return err
			}
			if wantsJSON(cmd) {
				var page strings.Builder
				if err := writeSkill(&page, cmd.Root(), names); err != nil {
					return err
				}
				return printJSON(cmd, skillJSON{Page: page.String(), Schemas: names})
			}
			return writeSkill(cmd.OutOrStdout(), cmd.Root(), names)
		},
	}
	cmd.Flags().StringVar(&name, "schema", "", "print the JSON Schema of this `NAME`")
	return cmd
}

// schemaNames are the names of the schemas.
func schemaNames() ([]string, error) {
	files, err := fs.Glob(schema.Files, "*.json")
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".json")
	}
	return files, err
}

// writeSkill writes the page of the commands below root.
func writeSkill(w io.Writer, root *cobra.Command, schemas []string) error {
	page, err := template.New("skill").Parse(skillPage)
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{"Commands": commandList(root), "ExitCodes": exitTable(),
		"Schemas": strings.Join(schemas, ", ")})
}

// commandList is a line for every command that does something, with the flags that it cannot do without
// and the names of the others.
func commandList(root *cobra.Command) string {
	var out strings.Builder
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && !sub.HasSubCommands() {
				fmt.Fprintf(&out, "- `moe %s`: %s.%s\n", strings.TrimPrefix(sub.CommandPath(), "moe ")+
					strings.TrimPrefix(sub.Use, sub.Name()), sub.Short, flagList(sub))
			}
			if sub.Name() != "completion" { // of shells, for people
				walk(sub)
			}
		}
	}
	walk(root)
	return strings.TrimRight(out.String(), "\n")
}

// flagList names a command's own flags, "" where it has none.
func flagList(cmd *cobra.Command) string {
	var names []string
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			names = append(names, "`--"+f.Name+"`")
		}
	})
	if len(names) == 0 {
		return ""
	}
	return " Flags: " + strings.Join(names, " ") + "."
}

// exitTable is what moe help exit-codes says of the codes, as a list.
func exitTable() string {
	codes, _, _ := strings.Cut(exitCodesTopic, "\n\n")
	var out strings.Builder
	for line := range strings.Lines(codes) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "       ") {
			fmt.Fprintf(&out, " %s", strings.TrimSpace(line))
			continue
		}
		code, says, _ := strings.Cut(strings.TrimSpace(line), "   ")
		fmt.Fprintf(&out, "\n- `%s`: %s", strings.TrimSpace(code), strings.TrimSpace(says))
	}
	return strings.TrimPrefix(out.String(), "\n")
}
