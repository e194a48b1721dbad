package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatedlearning/moe/internal/atomicfile"
)

// manJSON is the JSON of moe man.
type manJSON struct {
	Directory string `json:"directory"`
	Pages     int    `json:"pages"`
}

func newManCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write a manual page of every command",
		Long: `man makes a new DIRECTORY with a manual page of every command, moe.1, moe-fit.1 and
so on: what --help prints, for man and for packages. For completion in a shell see
moe completion --help.`,
		Example: "  moe man pages && man ./pages/moe-fit.1\n  moe completion bash > /etc/bash_completion.d/moe",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pages := manPages(cmd.Root())
			if err := atomicfile.WriteTree(args[0], pages); err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, manJSON{Directory: args[0], Pages: len(pages)})
			}
			return say(cmd, "%s: %d pages", args[0], len(pages))
		},
	}
}

// manPages returns the manual pages of a command and those below it.
func manPages(cmd *cobra.Command) []atomicfile.TreeFile {
	out := []atomicfile.TreeFile{{Name: manName(cmd) + ".1", Data: []byte(manPage(cmd)), Mode: 0o644}}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, manPages(sub)...)
		}
	}
	return out
}

// manName is the name of a command's page.
func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage writes a command's page in the language of man. It bears no date: a build writes the same pages whenever
// it is asked to.
func manPage(cmd *cobra.Command) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".nh\n.TH \"%s\" \"1\" \"\" \"moe %s\" \"moe\"\n", strings.ToUpper(manName(cmd)), ownVersion())
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fP\n", roff(cmd.UseLine()))
	long := cmd.Long
	if long == "" {
		long = cmd.Short
	}
	b.WriteString(".SH DESCRIPTION\n" + manText(long))
	for _, set := range []struct {
		title string
		flags *pflag.FlagSet
	}{{"OPTIONS", cmd.NonInheritedFlags()}, {"OPTIONS OF EVERY COMMAND", cmd.InheritedFlags()}} {
		if set.flags.HasAvailableFlags() {
			b.WriteString(".SH " + set.title + "\n")
			set.flags.VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
		}
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + manText(cmd.Example))
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, manName(sub))
		}
	}
	for i, name := range also {
		also[i] = "\\fB" + roff(name) + "\\fP(1)"
	}
	if len(also) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(also, ",\n") + "\n")
	}
	return b.String()
}

// manFlag is a flag with its default, where that is not nothing.
func manFlag(f *pflag.Flag) string {
	if f.Hidden || f.Deprecated != "" {
		return ""
	}
	name, usage := pflag.UnquoteUsage(f)
	flag := "\\fB" + roff("--"+f.Name) + "\\fP"
	if f.Shorthand != "" {
		flag = "\\fB" + roff("-"+f.Shorthand) + "\\fP, " + flag
	}
	if name != "" {
		flag += " \\fI" + roff(name) + "\\fP"
	}
	switch f.DefValue {
	case "", "0", "0s", "[]", "false":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	return ".TP\n" + flag + "\n" + roff(usage) + "\n"
}

// manText is text of paragraphs, and of lines that are indented and stay as they are.
func manText(text string) string {
	var b strings.Builder
	verbatim := false
	for line := range strings.SplitSeq(text, "\n") {
		if indented := strings.HasPrefix(line, "  "); line != "" && indented != verbatim {
			verbatim = indented
			b.WriteString(map[bool]string{true: ".EX\n", false: ".EE\n"}[verbatim])
		}
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if verbatim {
		b.WriteString(".EE\n")
	}
	return b.String()
}

// roff writes text so that man shows it as it is: no line of it is a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
