package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/sdk"
)

// modelActivation evaluates the activation of a model: by the approximation that
// the file carries, or else by the activation of that name.
type modelActivation struct {
	model.Activation
	source *namedActivation
}

// Close ends the activation's process, if one was started.
func (a *modelActivation) Close() { a.source.Close() }

// openModel returns the activation of the model read from path. Where the file
// carries an approximation nothing is opened before an argument is out of its
// range.
func openModel(cmd *cobra.Command, m *fitted.Model, path string, limits limitFlags) (*modelActivation, error) {
	source := &namedActivation{cmd: cmd, m: m, path: path, limits: limits}
	if m.Approximation == nil {
		if err := source.open(); err != nil {
			return nil, err
		}
		return &modelActivation{Activation: source.plugin.Activation, source: source}, nil
	}
	approximation, err := native.New(m.Approximation, source)
	if err != nil {
		return nil, &dataset.Error{File: path, Msg: "approximation: " + err.Error()}
	}
	return &modelActivation{Activation: approximation, source: source}, nil
}

// namedActivation is the activation that a model names, opened when it is first
// asked for a value. It is looked up among the built-ins and the trusted plugins:
// a file cannot start anything else.
type namedActivation struct {
	cmd    *cobra.Command
	m      *fitted.Model
	path   string
	limits limitFlags
	plugin *catalog.Plugin // nil until it is opened
}

// Close ends the activation's process, if one was started.
func (a *namedActivation) Close() {
	if a.plugin != nil {
		a.plugin.Close()
	}
}

func (a *namedActivation) open() error {
	name := a.m.Activation
	plugin, err := a.limits.within(catalog.Catalog{}).Open(a.cmd.Context(), name.Name, name.Params)
	if is[*catalog.UnknownError](err) || is[*catalog.ParamsError](err) {
		return &dataset.Error{File: a.path, Msg: err.Error()}
	}
	if err != nil {
		return err
	}
	a.plugin = plugin
	if v := plugin.Activation.Info().Version; v != name.Version {
		remark(a.cmd, "moe: %s was fitted with version %q of activation %s, this is version %q", a.path, name.Version, name.Name, v)
	}
	return nil
}

// Eval writes g(z_i) to dst_i for arguments out of the approximation's range.
func (a *namedActivation) Eval(ctx context.Context, dst, z []float64) error {
	act, err := a.beyond(ctx, z)
	if err != nil {
		return err
	}
	return act.Eval(ctx, dst, z)
}

// Deriv writes g′(z_i) to dst_i, as Eval does g(z_i).
func (a *namedActivation) Deriv(ctx context.Context, dst, z []float64) error {
	act, err := a.beyond(ctx, z)
	if err != nil {
		return err
	}
	return act.Deriv(ctx, dst, z)
}

// beyond returns the activation, opened and compared with the approximation that
// it continues.
func (a *namedActivation) beyond(ctx context.Context, z []float64) (sdk.Activation, error) {
	if a.plugin != nil {
		return a.plugin.Activation, nil
	}
	lo, hi := a.m.Approximation.Value.Range()
	name := a.m.Activation.Name
	outside := fmt.Sprintf("%s: an argument of %s is %.6g, and the file's approximation of it covers %.6g <= z < %.6g", a.path, name, z[0], lo, hi)
	if err := a.open(); err != nil {
		return nil, &exitError{unavailable(err), fmt.Errorf("%s; further out only the plugin itself can be asked, once it is trusted (moe plugin trust PATH): %w", outside, err)}
	}
	same, err := a.m.Approximation.Describes(ctx, a.plugin.Activation)
	if err != nil {
		return nil, err
	}
	if !same {
		return nil, &exitError{exitPlugin, fmt.Errorf("%s; the activation of that name here (%s) is another one: trust the plugin that the model was fitted with (moe plugin trust PATH)", outside, a.plugin.Source())}
	}
	return a.plugin.Activation, nil
}

// unavailable is the exit code where an activation that is needed cannot be
// opened: its own, but a name that nobody knows is no fault of the file.
func unavailable(err error) int {
	if code := exitCode(err); code != exitData {
		return code
	}
	return exitPlugin
}

// dropKnown takes the approximation out of a model whose activation this program
// has itself: exact lines, the same as those of the built-in of that name. A fit
// through such a plugin is then the same file as one with the built-in.
func dropKnown(ctx context.Context, m *fitted.Model) error {
	a := m.Approximation
	if a == nil || !a.Value.Exact() || !a.Derivative.Exact() {
		return nil
	}
	families := catalog.Builtins()
	i := slices.IndexFunc(families, func(f sdk.Family) bool {
		return f.Name == m.Activation.Name && f.Version == m.Activation.Version
	})
	if i < 0 {
		return nil
	}
	builtin, err := families[i].Activation(m.Activation.Params)
	if err != nil {
		return nil // the plugin's parameters are not the built-in's
	}
	own, err := native.Build(ctx, builtin)
	if err != nil {
		return err
	}
	if own.Coefficients().Equal(a) {
		m.Approximation = nil
	}
	return nil
}
