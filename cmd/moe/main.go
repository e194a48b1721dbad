// Command moe learns mixtures of experts whose nonlinearity is a plugin.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	_ "github.com/gatedlearning/moe/host/dataset/npz"     // tables in archives of numpy
	_ "github.com/gatedlearning/moe/host/dataset/parquet" // tables in Parquet files
	"github.com/gatedlearning/moe/internal/shown"
)

func main() {
	keepFiles()
	os.Exit(run(os.Args[1:]))
}

// run executes one command line and returns its exit code.
func run(args []string) int {
	ctx, stop := withSignals(context.Background(), os.Stderr)
	err := execute(ctx, args)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	stop()
	printError(os.Stderr, err)
	return exitCode(err)
}

// execute runs the command line. An error that comes before a command's own
// code runs is cobra's, about flags or arguments, where it is not one of writing what cobra prints.
func execute(ctx context.Context, args []string) error {
	began := false
	root := newRoot(&began, alone(args))
	root.SetArgs(args)
	completionOf(root)
	unsaid := watchHelp(root)
	err := guard(func() error { return root.ExecuteContext(ctx) })
	if err == nil {
		err = *unsaid
	}
	if err != nil && !began && !is[*exitError](err) && !is[*fs.PathError](err) {
		return &exitError{exitUsage, err}
	}
	return err
}

// guard runs fn with a panic turned into an error.
func guard(fn func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &exitError{exitSoftware, fmt.Errorf("internal error: %v, at %s; please report it", p,
				panicPlace(debug.Stack()))}
		}
	}()
	return fn()
}

// printError writes an error as one line. What a file or a plugin put into it
// cannot steer the terminal.
func printError(w io.Writer, err error) {
	if err == nil || err.Error() == "" {
		return
	}
	fmt.Fprintln(w, "moe: "+shown.Line(message(err)))
}

// panicPlace returns the file and line of the code that panicked: in a stack
// the frame after the runtime's panic.
func panicPlace(stack []byte) string {
	_, after, ok := strings.Cut(string(stack), "\npanic(")
	if !ok {
		return "an unknown place"
	}
	lines := strings.Split(after, "\n")
	for _, line := range lines[2:] {
		if strings.HasPrefix(line, "\t") && !strings.Contains(line, "/runtime/") {
			place, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			return place
		}
	}
	return "an unknown place"
}

// grace is how long a command may take to end after a signal. The contract is
// five seconds; what does not watch its context is cut off before.
const grace = 4 * time.Second

// caught are the signals that end a command. One that is ignored at the start, as
// by nohup, stays ignored; a plea to end is never.
func caught() []os.Signal {
	list := []os.Signal{syscall.SIGTERM}
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			list = append(list, s)
		}
	}
	return list
}

// withSignals returns a context that SIGINT, SIGTERM and SIGHUP end with a
// *[signalError] as its cause. A second signal, or the end of grace, ends the
// process, unless stop was called first: only one of the two says why it ends.
// Temporary files are gone by then, for they watch the same context.
func withSignals(parent context.Context, stderr io.Writer) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var last sync.Mutex // held for good by who has the last word
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, caught()...)
	finished := make(chan struct{})
	go func() {
		var cause error
		select {
		case s := <-signals:
			cause = &signalError{sig: s}
			cancel(cause)
		case <-finished:
			return
		}
		select {
		case <-signals:
		case <-time.After(grace):
		case <-finished:
			return
		}
		last.Lock()
		printError(stderr, cause)
		os.Exit(exitCode(cause))
	}()
	return ctx, func() {
		last.Lock()
		signal.Stop(signals)
		close(finished)
		cancel(errors.New("finished"))
	}
}
