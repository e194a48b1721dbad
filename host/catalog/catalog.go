// Package catalog opens activations by name: the built-ins, which run in the
// process, and trusted plugins, which run in processes of their own.
package catalog

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// SourceBuiltin is the source of activations that are part of the program.
const SourceBuiltin = "built-in"

// Plugin is an open activation. Close it when it is no longer needed.
type Plugin struct {
	// Activation also implements sdk.MomentsProvider and sdk.SystemProvider
	// where, and only where, the plugin does: hand it on as it is.
	Activation sdk.Activation

	source string
	close  func() error
}

// Source returns "built-in", or the path of the plugin's file.
func (p *Plugin) Source() string { return p.source }

// Close ends the plugin's process, if it has one. It may be called more than
// once.
func (p *Plugin) Close() error {
	if p.close == nil {
		return nil
	}
	return p.close()
}

// Builtins returns the families that are part of the program, by name.
func Builtins() []sdk.Family {
	return []sdk.Family{identity.Family, leakyrelu.Family, relu.Family, sigmoid.Family}
}

// Open opens the activation with the given name and parameters. Unknown names
// are an [*UnknownError], parameters that the activation does not take a
// [*ParamsError].
func Open(ctx context.Context, name string, params sdk.Params) (*Plugin, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	families := Builtins()
	i := slices.IndexFunc(families, func(f sdk.Family) bool { return f.Name == name })
	if i < 0 {
		return nil, unknown(name, families)
	}
	act, err := families[i].Activation(params)
	if err != nil {
		return nil, &ParamsError{Name: name, Err: err}
	}
	return &Plugin{Activation: act, source: SourceBuiltin}, nil
}

func unknown(name string, families []sdk.Family) error {
	known := make([]string, len(families))
	for i, f := range families {
		known[i] = f.Name
	}
	return &UnknownError{Name: name, Known: known}
}

// ParamsError reports parameters that an activation does not take.
type ParamsError struct {
	Name string
	Err  error
}

func (e *ParamsError) Error() string { return e.Err.Error() }
func (e *ParamsError) Unwrap() error { return e.Err }

// UnknownError reports a name that is neither a built-in nor a trusted plugin.
type UnknownError struct {
	Name  string
	Known []string // what there is, ascending
}

func (e *UnknownError) Error() string {
	msg := fmt.Sprintf("no activation %q", e.Name)
	if near := nearest(e.Name, e.Known); near != "" {
		msg += fmt.Sprintf("; did you mean %q?", near)
	}
	return msg + " (there are " + join(e.Known) + "; a plugin's file is named by its path, such as ./moe-plugin-NAME)"
}
