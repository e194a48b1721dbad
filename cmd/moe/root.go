package main

import (
	"github.com/spf13/cobra"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "moe",
		Short:         "Learn mixtures of experts, with guarantees, for any nonlinearity",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	return root
}

func exitCode(err error) int { return exitSoftware }
