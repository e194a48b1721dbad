package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/pluginproc/plugintest"
	_ "github.com/gatedlearning/moe/internal/testheap"
)

func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){"moe": started})
}

// started is what the program moe is in tests: main with the faults, and without the
// parts of the kernel, that the environment asks for. What it prints does not depend
// on how long it takes.
func started() {
	lineEvery = time.Hour
	if os.Getenv(servesEnv) != "" {
		serve()
	}
	doWithout()
	faulty()
}

// tests runs what atExit has when all tests have ended.
type tests struct{ m *testing.M }

var atExit = []func(){plugintest.Clean}

func (t tests) Run() int {
	defer func() {
		for _, f := range atExit {
			f()
		}
	}()
	// A signal that is ignored here, as a shell's background jobs ignore some, would be
	// in the commands that the tests start: one that is caught is not.
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	return t.m.Run()
}

func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errNo, 1},
		{usagef("flag"), 64},
		{&dataset.SelectionError{Msg: "twice"}, 64},
		{&catalog.UnknownError{Name: "rellu"}, 64},
		{&catalog.ParamsError{Name: "relu"}, 64},
		{&dataset.Error{File: "data.csv"}, 65},
		{&catalog.LieError{Plugin: "p"}, 1},
		{&experiment.UnfitError{Name: "p"}, 1},
		{&catalog.FaultError{Plugin: "p"}, 69},
		{errors.New("nobody expected this"), 70},
		{&atomicfile.CreateError{Path: "out", Err: fs.ErrPermission}, 73},
		{&atomicfile.WriteError{Path: "out", Err: syscall.ENOSPC}, 74},
		{&fs.PathError{Op: "open", Path: "data.csv", Err: fs.ErrNotExist}, 74},
		{&catalog.UntrustedError{Path: "p"}, 77},
		{&signalError{sig: os.Interrupt}, 130},
		{&signalError{sig: syscall.SIGTERM}, 143},
	} {
		if got := exitCode(test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
		if test.err == nil {
			continue
		}
		if got := exitCode(fmt.Errorf("wrapped: %w", test.err)); got != test.want {
			t.Errorf("%v, wrapped: exit code %d, want %d", test.err, got, test.want)
		}
	}
}

func TestPanicsAreOneLine(t *testing.T) {
	for name, fn := range map[string]func() error{
		"panic":   func() error { panic("two\nlines, \x1b[31mred") },
		"runtime": func() error { return errors.New(strings.Split("", "x")[1]) },
	} {
		err := guard(fn)
		if exitCode(err) != exitSoftware || !strings.Contains(err.Error(), "main_test.go:") {
			t.Errorf("%s: error %v", name, err)
		}
		var line strings.Builder
		printError(&line, err)
		if strings.Count(line.String(), "\n") != 1 || strings.Contains(line.String(), "\x1b") || !strings.HasPrefix(line.String(), "moe: internal error: ") {
			t.Errorf("%s: %q", name, line.String())
		}
	}
	if err := guard(func() error { return context.Canceled }); err != context.Canceled {
		t.Errorf("error %v", err)
	}
}

func TestTimeLeft(t *testing.T) {
	for _, test := range []struct {
		elapsed     time.Duration
		done, total int64
		want        string
	}{
		{3 * time.Second, 0, 32, "3s"},
		{10 * time.Second, 4, 32, "10s, at most 1m10s left"},
		{90 * time.Second, 32, 32, "1m30s"},
	} {
		if got := timeLeft(test.elapsed, test.done, test.total); got != test.want {
			t.Errorf("after %v, %d of %d: %q, want %q", test.elapsed, test.done, test.total, got, test.want)
		}
	}
}
