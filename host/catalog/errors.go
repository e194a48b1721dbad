package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gatedlearning/moe/internal/pluginproc"
	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/internal/suggest"
)

// UnknownError reports a name that is neither a built-in nor a trusted plugin.
type UnknownError struct {
	Name  string
	Known []string // what there is, ascending
}

// elsewhere says of names in use what stands for them here.
var elsewhere = map[string]string{
	"linear":   "it is called identity",
	"none":     "it is called identity",
	"logistic": "it is called sigmoid",
	"Phi":      "it is called probit",
	"swish": "it is the expression 'expr: z*sigmoid(z)', and an example of a plugin in Python: moe plugin trust " +
		"examples/plugins/moe-plugin-swish",
	"gelu": "it is the expression 'expr: z*Phi(z)'",
	"mish": "it is the expression 'expr: z*tanh(softplus(z))'",
	"elu":  "it is the expression 'expr: where(z < 0, expm1(z), z)'",
	"silu": "it is the expression 'expr: z*sigmoid(z)', and swish, an example of a plugin in Python: moe plugin " +
		"trust examples/plugins/moe-plugin-swish",
}

func (e *UnknownError) Error() string {
	msg := fmt.Sprintf("no activation %q", e.Name)
	if strings.ContainsAny(e.Name, "()+*^ ") {
		return msg + ": an expression begins with expr:, as in 'expr: max(z, 0)'"
	}
	if other := elsewhere[e.Name]; other != "" {
		return msg + ": " + other
	}
	if near := suggest.Nearest(e.Name, e.Known); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg + " (there are " + shown.List(e.Known) + "; a plugin's file is named by its path, such as " +
		"./moe-plugin-NAME)"
}

// ParamsError reports parameters that an activation does not take.
type ParamsError struct {
	Name string // of the activation, as the caller named it
	Err  error
}

func (e *ParamsError) Error() string { return e.Err.Error() }
func (e *ParamsError) Unwrap() error { return e.Err }

// ofParams is the error of an activation that could not be made: that of its parameters, unless the plugin or the end
// of ctx is to blame.
func ofParams(ctx context.Context, shown string, err error) error {
	if fault := (*FaultError)(nil); errors.As(err, &fault) || ctx.Err() != nil {
		return err
	}
	return &ParamsError{Name: shown, Err: err}
}

// UntrustedError refuses a file. Where the reason is not in the file itself but in
// what it does, it has been run to find that out, and the reason says so; else
// nothing of it has run.
type UntrustedError struct {
	Path   string
	Reason string
}

func (e *UntrustedError) Error() string {
	return fmt.Sprintf("plugin %s: %s", e.Path, e.Reason)
}

// FaultError is a failure of a plugin: it could not be started, it crashed, it
// hung, or it answered with what no activation may answer. It has the path of
// the plugin's file, the call that failed, the reason, the last that the plugin
// wrote to stderr, and what to do.
type FaultError = pluginproc.FaultError

// LieError reports that what a plugin says about its activation's derivative,
// moments or linear system is not what its g gives.
type LieError struct {
	Plugin string // the path of its file
	Call   string // "Deriv", "Moments" or "System"
	Reason string // the entry that disagrees, with both values
}

func (e *LieError) Error() string {
	return fmt.Sprintf("plugin %s: %s: %s; the fault is the plugin's: moe plugin verify %s says more", e.Plugin, e.Call,
		e.Reason, e.Plugin)
}

// AmbiguousError reports a name that several trusted plugins with different files have.
type AmbiguousError struct {
	Name  string
	Paths []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("several trusted plugins are called %q, %s: name one by its path where one can be named, or "+
		"take the trust in the others back: moe plugin untrust PATH", e.Name, shown.List(e.Paths))
}
