package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/host/spec"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/memory"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/table"
)

// Exit codes: the answer, then those of sysexits.h, then 128 + the signal.
const (
	exitYes       = 0
	exitNo        = 1  // activation invalid, fit not converged, a plugin that lies
	exitUsage     = 64 // flags and arguments
	exitData      = 65 // a data or model file
	exitPlugin    = 69 // a plugin failed or is not there
	exitSoftware  = 70 // a defect of ours
	exitCreate    = 73 // an output cannot be created
	exitIO        = 74 // reading or writing failed
	exitUntrusted = 77 // a plugin that is not trusted
	exitSignal    = 128
)

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errNo is the answer no: the command has printed why.
var errNo = &exitError{exitNo, errors.New("")}

// usagef is an error in how the command was called.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// signalError is the cause of a context that a signal ended.
type signalError struct {
	sig os.Signal
	// left, if not nil, says what the command left behind for the user.
	left atomic.Pointer[string]
}

func (e *signalError) Error() string {
	left := e.left.Load()
	if left == nil {
		return fmt.Sprintf("ended by %v; outputs are as they were before", e.sig)
	}
	return fmt.Sprintf("ended by %v; %s", e.sig, *left)
}

// exitCode returns the exit code of an error by its type: the first that
// matches of those below; an error that no one has classified is a defect.
func exitCode(err error) int {
	var (
		known  *exitError
		signal *signalError
	)
	switch {
	case err == nil:
		return exitYes
	case errors.As(err, &signal):
		if n, ok := signal.sig.(syscall.Signal); ok {
			return exitSignal + int(n)
		}
		return exitSignal
	case errors.As(err, &known):
		return known.code
	case is[*host.RequestError](err), is[*spec.Error](err), is[*dataset.SelectionError](err), is[*terms.Error](err),
		is[*catalog.UnknownError](err), is[*catalog.ParamsError](err), is[*catalog.AmbiguousError](err),
		is[*expression.NotFiniteError](err),
		is[*memory.Error](err): // more was asked for than the machine holds
		return exitUsage
	case is[*dataset.Error](err), is[*gru.Error](err), is[*table.Error](err), is[*learn.Error](err):
		return exitData
	case is[*catalog.LieError](err), is[*experiment.UnfitError](err),
		errors.Is(err, gauss.ErrGrowth): // g has not the moments that it is asked for
		return exitNo
	case is[*catalog.UntrustedError](err):
		return exitUntrusted
	case is[*catalog.FaultError](err):
		return exitPlugin
	case is[*atomicfile.CreateError](err):
		return exitCreate
	case is[*atomicfile.WriteError](err), is[*fs.PathError](err), is[syscall.Errno](err):
		return exitIO
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return exitIO
	}
	return exitSoftware
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}
