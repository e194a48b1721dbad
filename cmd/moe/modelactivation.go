package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/table"
)

// modelActivation is the activation of a model: the approximation that the file
// carries, or else, and beyond its range, the activation of that name. It is looked
// up among the built-ins and the trusted plugins: a file cannot start anything else.
type modelActivation struct {
	model.Activation
	cmd    *cobra.Command
	path   string
	limits limitFlags
	plugin *catalog.Plugin // the last that was opened; nil before
	curves []*reached
	opened []*catalog.Plugin
}

// openModel returns the activation of the model read from path. Where the file
// carries an approximation nothing is opened before an argument is out of its
// range.
func openModel(cmd *cobra.Command, m *fitted.Model, path string, limits limitFlags) (*modelActivation, error) {
	a := &modelActivation{cmd: cmd, path: path, limits: limits}
	var err error
	if a.Activation, err = predict.ActivationOf(cmd.Context(), m, path, a.resolve); err != nil {
		return nil, err
	}
	if leaves, ok := a.Activation.(model.PerExpert); ok {
		for i, g := range leaves {
			leaves[i] = a.watch(g)
		}
	} else {
		a.Activation = a.watch(a.Activation)
	}
	return a, nil
}

// watch returns g, and where it is a table one that knows how far out it was asked for values.
func (a *modelActivation) watch(g model.Activation) model.Activation {
	t, ok := g.(*table.Table)
	if !ok {
		return g
	}
	r := &reached{Table: t}
	r.lo, r.hi = t.Range()
	a.curves = append(a.curves, r)
	return r
}

// reached is a table with the least and the largest argument of Eval, or the ends of its range where
// those are within it.
type reached struct {
	*table.Table
	mu     sync.Mutex
	lo, hi float64
}

func (r *reached) Eval(ctx context.Context, dst, z []float64) error {
	r.mu.Lock()
	for _, v := range z {
		r.lo, r.hi = min(r.lo, v), max(r.hi, v)
	}
	r.mu.Unlock()
	return r.Table.Eval(ctx, dst, z)
}

// Close ends the activation's process, if one was started.
func (a *modelActivation) Close() {
	for _, p := range a.opened {
		p.Close()
	}
}

// Recheck asks a plugin that was started whether it still is the function that it
// was, and says of a table whether it was asked for values beyond its points.
func (a *modelActivation) Recheck(ctx context.Context) error {
	for _, r := range a.curves {
		if lo, hi := r.Range(); r.lo < lo || r.hi > hi {
			remark(a.cmd, "moe: arguments of %s reach from %.4g to %.4g, and its points from %.4g to %.4g: beyond "+
				"them g is taken for a line",
				r.Info().Name, r.lo, r.hi, lo, hi)
		}
	}
	for _, p := range a.opened {
		if err := p.Recheck(ctx); err != nil {
			return err
		}
	}
	return nil
}

// resolve opens the activation of that name.
func (a *modelActivation) resolve(ctx context.Context, named stated.Activation) (model.Activation, error) {
	from := a.limits.within(catalog.Catalog{})
	plugin, err := openNamed(ctx, from, named, a.path)
	if err != nil {
		return nil, err
	}
	a.plugin, a.opened = plugin, append(a.opened, plugin)
	if v := plugin.Activation.Info().Version; v != named.Version {
		remark(a.cmd, "moe: %s was fitted with version %q of activation %s, this is version %q", a.path, named.Version,
			named.Name, v)
	}
	remarkUnverified(a.cmd, a.path, named, plugin)
	return plugin.Activation, nil
}

// openNamed opens the activation that the file at path names, or has in it. That there is none is a fault of the file.
func openNamed(ctx context.Context, from catalog.Catalog, named stated.Activation,
	path string) (*catalog.Plugin, error) {
	switch {
	case named.Module != nil:
		return from.OpenModule(ctx, named.Module.Code, path, named.Params)
	case named.Table != nil:
		t, err := named.Table.Open()
		if err != nil {
			return nil, &dataset.Error{File: path, Msg: err.Error()}
		}
		return catalog.OfTable(t), nil
	}
	var same func(context.Context, sdk.Activation) error // tells plugins of one name apart
	if named.Values != nil {
		same = func(ctx context.Context, act sdk.Activation) error { return named.Verify(ctx, path, act) }
	}
	p, err := from.OpenSame(ctx, named.Name, named.Params, same)
	switch {
	case is[*catalog.UnknownError](err):
		err = &dataset.Error{File: path,
			Msg: fmt.Sprintf("no activation %q is known here: moe plugin trust PATH makes the "+
				"plugin or the .wasm module of that name known, moe fit --embed puts a module into the model's file",
				named.Name)}
	case is[*catalog.ParamsError](err), is[*expression.NotFiniteError](err):
		err = &dataset.Error{File: path, Msg: err.Error()}
	}
	return p, err
}

// remarkUnverified says of a file without values that nothing tells whether a plugin
// is the function that the file is about. Of built-ins the name tells.
func remarkUnverified(cmd *cobra.Command, path string, named stated.Activation, plugin *catalog.Plugin) {
	if named.Values == nil && !plugin.InProcess() {
		remark(cmd, "moe: %s has no values of its activation %s: whether %s is the same function cannot be told", path,
			named.String(), plugin.Source())
	}
}

// Eval writes g(z_i) to dst_i.
func (a *modelActivation) Eval(ctx context.Context, dst, z []float64) error {
	return a.explain(a.Activation.Eval(ctx, dst, z))
}

// Deriv writes g′(z_i) to dst_i.
func (a *modelActivation) Deriv(ctx context.Context, dst, z []float64) error {
	return a.explain(a.Activation.Deriv(ctx, dst, z))
}

// explain says what to do where an argument lies outside the file's approximation.
func (a *modelActivation) explain(err error) error {
	beyond := (*predict.BeyondError)(nil)
	if !errors.As(err, &beyond) {
		return err
	}
	if is[*dataset.Error](beyond.Err) && a.plugin != nil { // another function
		return &exitError{exitData, beyond}
	}
	if beyond.Err != nil {
		return &exitError{unavailable(beyond.Err),
			fmt.Errorf("%s; further out only the activation itself can be asked: %w", beyond.Outside(), beyond.Err)}
	}
	return &exitError{exitData, fmt.Errorf("%s; the activation of that name here (%s) is another one: trust the "+
		"plugin that the model was fitted with (moe plugin trust PATH)", beyond.Outside(), a.plugin.Source())}
}

// unavailable is the exit code where an activation that is needed cannot be
// opened: its own, but a name that nobody knows is no fault of the file.
func unavailable(err error) int {
	if code := exitCode(err); code != exitData {
		return code
	}
	return exitPlugin
}

// unknown is the approximation a of an activation, or nil where this program has the
// activation itself: exact lines, the same as those of the built-in of that name. A fit
// through such a plugin is then the same file as one with the built-in.
func unknown(ctx context.Context, named stated.Activation, a *native.Coefficients) (*native.Coefficients, error) {
	if a == nil || !a.Value.Exact() || !a.Derivative.Exact() {
		return a, nil
	}
	families := catalog.Builtins()
	i := slices.IndexFunc(families, func(f sdk.Family) bool {
		return f.Name == named.Name && f.Version == named.Version
	})
	if i < 0 {
		return a, nil
	}
	builtin, err := families[i].Activation(named.Params)
	if err != nil {
		return a, nil // the plugin's parameters are not the built-in's
	}
	own, err := native.Build(ctx, builtin)
	if err != nil {
		return nil, err
	}
	if own.Coefficients().Equal(a) {
		return nil, nil
	}
	return a, nil
}
