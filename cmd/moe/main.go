// Command moe learns mixtures of experts whose nonlinearity is a plugin.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run(os.Args[1:])) }

// run executes one command line and returns its exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitYes
	}
	if msg := err.Error(); msg != "" {
		fmt.Fprintln(os.Stderr, "moe: "+msg)
	}
	return exitCode(err)
}
