package main

import (
	"errors"
	"fmt"
)

// Exit codes: the answer, then those of sysexits.h.
const (
	exitYes       = 0
	exitNo        = 1  // activation invalid, fit not converged
	exitUsage     = 64 // flags and arguments
	exitData      = 65 // a data or model file
	exitPlugin    = 69 // a plugin failed or is not there
	exitSoftware  = 70 // a defect of ours
	exitCreate    = 73 // an output cannot be created
	exitIO        = 74 // reading or writing failed
	exitUntrusted = 77 // a plugin that is not trusted
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
