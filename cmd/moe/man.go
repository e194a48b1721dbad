package main

import (
	"bytes"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

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
			pages, err := manPages(cmd.Root())
			if err != nil {
				return err
			}
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
func manPages(cmd *cobra.Command) ([]atomicfile.TreeFile, error) {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	cmd.DisableAutoGenTag = true
	var page bytes.Buffer
	header := &doc.GenManHeader{Title: strings.ToUpper(name), Section: "1", Source: "moe " + ownVersion(),
		Manual: "moe", Date: new(time.Time)}
	if err := doc.GenMan(cmd, header, &page); err != nil {
		return nil, err
	}
	// They bear no date: a build writes the same pages whenever it is asked to.
	text := bytes.Replace(page.Bytes(), []byte(`"Jan 0001"`), []byte(`""`), 1)
	out := []atomicfile.TreeFile{{Name: name + ".1", Data: text, Mode: 0o644}}
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		pages, err := manPages(sub)
		if err != nil {
			return nil, err
		}
		out = append(out, pages...)
	}
	return out, nil
}
