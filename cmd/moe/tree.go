package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk"
)

// treeFlags are the flags of a command that names a tree of experts.
type treeFlags struct {
	hierarchy string
	leaves    string

	most   int             // leaves of a tree that grows
	shape  model.Hierarchy // the zero value is one gate
	parsed []leafName      // nil where all experts have --activation
}

// leafName is an activation as --leaves names it.
type leafName struct {
	name   string
	params sdk.Params
}

func (f *treeFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.hierarchy, "hierarchy", "",
		"tree of gates over the experts, such as `SHAPE` 2x2 or 2x(1,2), instead of --k")
	flags.StringVar(&f.leaves, "leaves", "",
		"the experts' own activations `NAMES` from left to right, such as identity,relu, leakyrelu(slope=0.1),tanh "+
			"or \"'expr: max(z, 0)',tanh\", or one for all, instead of --activation")
	cmd.PreRun = func(cmd *cobra.Command, _ []string) {
		f.relieve(cmd, "hierarchy", "k")
		f.relieve(cmd, "leaves", "activation")
	}
}

// relieve makes a required flag optional where another is given in its place.
func (f *treeFlags) relieve(cmd *cobra.Command, given, required string) {
	if cmd.Flags().Changed(given) {
		delete(cmd.Flags().Lookup(required).Annotations, cobra.BashCompOneRequiredFlag)
	}
}

// registerGrowth adds the flags of a tree that grows.
func (f *treeFlags) registerGrowth(cmd *cobra.Command) {
	cmd.Flags().Lookup("hierarchy").Usage = "tree of gates over the experts, such as `SHAPE` 2x2 or 2x(1,2), instead " +
		"of --k; auto grows one"
	cmd.Flags().IntVar(&f.most, "max-leaves", host.DefaultMaxLeaves, "most leaves of a tree that grows")
}

// parse reads the flags. It returns the number of experts that they name, k where they
// name none; one name of --leaves for all goes to act.
func (f *treeFlags) parse(cmd *cobra.Command, k int, act *activationFlags) (int, error) {
	if cmd.Flags().Changed("hierarchy") {
		shape, err := model.ParseHierarchy(f.hierarchy)
		if err != nil {
			return k, usagef("--%w", err)
		}
		if cmd.Flags().Changed("k") && k != shape.Leaves() {
			return k, usagef("--k %d: the hierarchy %s has %d leaves", k, shape, shape.Leaves())
		}
		if k = shape.Leaves(); shape.Depth() > 1 { // one gate is what there is without
			f.shape = shape
		}
	}
	if !cmd.Flags().Changed("leaves") {
		return k, nil
	}
	if cmd.Flags().Changed("activation") {
		return k, usagef("--leaves %s: give it or --activation", f.leaves)
	}
	names, err := parseLeaves(f.leaves)
	if err != nil {
		return k, err
	}
	if len(names) == 1 {
		act.name = names[0].name
		for key, v := range names[0].params {
			act.params = append(act.params, fmt.Sprintf("%s=%v", key, v))
		}
		return k, nil
	}
	if len(act.params) > 0 {
		return k, usagef("--param %s: parameters of leaves stand with their names, as in leakyrelu(slope=0.1)",
			act.params[0])
	}
	if len(names) != k {
		what := fmt.Sprintf("%d experts", k)
		if f.hierarchy != "" {
			what = fmt.Sprintf("%d leaves of %s", k, f.hierarchy)
		}
		return k, usagef("--leaves %s: %d names for the %s", f.leaves, len(names), what)
	}
	f.parsed = names
	return k, nil
}

// parseLeaves reads NAME,NAME(key=value,key=value),…; a name in quotes, as expressions are, is
// what stands between them.
func parseLeaves(text string) (out []leafName, err error) {
	rest := text
	for {
		at := len(text) - len(rest) + 1
		var leaf leafName
		if leaf.name, rest, err = cutName(rest); err != nil {
			return nil, usagef("--leaves %q: character %d: %w", text, at, err)
		}
		if strings.HasPrefix(rest, "(") {
			params, after, ok := strings.Cut(rest[1:], ")")
			if !ok {
				return nil, usagef("--leaves %q: character %d: want ) after the parameters", text, len(text)+1)
			}
			if leaf.params, err = parseParams(strings.Split(strings.ReplaceAll(params, " ", ""), ",")); err != nil {
				return nil, usagef("--leaves %q: leaf %d: %w", text, len(out)+1, err)
			}
			rest = after
		}
		out = append(out, leaf)
		if rest == "" {
			return out, nil
		}
		if rest[0] != ',' {
			return nil, usagef("--leaves %q: character %d: want a comma", text, len(text)-len(rest)+1)
		}
		rest = rest[1:]
	}
}

// cutName returns the name at the beginning of text and what follows it.
func cutName(text string) (name, rest string, err error) {
	text = strings.TrimLeft(text, " ")
	for _, quote := range []string{"'", `"`} {
		if inner, ok := strings.CutPrefix(text, quote); ok {
			name, rest, ok = strings.Cut(inner, quote)
			if !ok {
				return "", "", fmt.Errorf("want another %s behind the name", quote)
			}
			return name, strings.TrimLeft(rest, " "), nil
		}
	}
	if expression.Is(text) {
		return "", "", fmt.Errorf("want an expression among leaves in quotes of its own, as in \"'expr: max(z, " +
			"0)',tanh\"")
	}
	end := strings.IndexAny(text, ",(")
	if end < 0 {
		end = len(text)
	}
	if name = strings.TrimSpace(text[:end]); name == "" {
		return "", "", errors.New("want the name of an activation")
	}
	return name, text[end:], nil
}

// experts are the activations of a command's experts: one of all, or leaves.
type experts struct {
	one    *catalog.Plugin   // nil where there are leaves
	leaves []*catalog.Plugin // of the experts; those of the same name are the same
}

// open opens what the flags name.
func (f *treeFlags) open(ctx context.Context, act *activationFlags) (*experts, error) {
	if f.parsed == nil {
		one, err := act.open(ctx)
		return &experts{one: one}, err
	}
	if err := act.limits.check(); err != nil {
		return nil, err
	}
	out := &experts{leaves: make([]*catalog.Plugin, len(f.parsed))}
	opened := map[string]*catalog.Plugin{}
	for i, leaf := range f.parsed {
		name := fmt.Sprint(leaf)
		if opened[name] == nil {
			plugin, err := act.limits.open(ctx, catalog.Catalog{}, leaf.name, leaf.params)
			if err != nil {
				out.Close()
				return nil, fmt.Errorf("--leaves: leaf %d: %w", i+1, err)
			}
			opened[name] = plugin
		}
		out.leaves[i] = opened[name]
	}
	return out, nil
}

// each calls fn once for every activation.
func (e *experts) each(fn func(*catalog.Plugin) error) error {
	if e.one != nil {
		return fn(e.one)
	}
	done := map[*catalog.Plugin]bool{}
	for _, p := range e.leaves {
		if p == nil || done[p] {
			continue
		}
		done[p] = true
		if err := fn(p); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the plugins' processes.
func (e *experts) Close() { _ = e.each(func(p *catalog.Plugin) error { p.Close(); return nil }) }

// Recheck asks plugins whether they still are the functions that they were.
func (e *experts) Recheck(ctx context.Context) error {
	return e.each(func(p *catalog.Plugin) error { return p.Recheck(ctx) })
}

// named is how files name the activation of all, [stated.Mixed] where there are leaves,
// and the leaves.
func (e *experts) named() (act stated.Activation, leaves []stated.Activation) {
	if e.one != nil {
		return stated.Of(e.one.Activation.Info()), nil
	}
	for _, p := range e.leaves {
		leaves = append(leaves, stated.Of(p.Activation.Info()))
	}
	return stated.Activation{Name: stated.Mixed, Params: map[string]float64{}}, leaves
}

// described is [experts.named] with the activations' values.
func (e *experts) described(ctx context.Context) (act stated.Activation, leaves []stated.Activation, err error) {
	if e.one != nil {
		act, err = stated.Describe(ctx, e.one.Activation)
		return act, nil, err
	}
	act, leaves = e.named()
	values := map[*catalog.Plugin]stated.Activation{}
	err = e.each(func(p *catalog.Plugin) error {
		values[p], err = stated.Describe(ctx, p.Activation)
		return err
	})
	for i, p := range e.leaves {
		leaves[i] = values[p]
	}
	return act, leaves, err
}

// activation is that of all experts, nil where there are leaves; own are the leaves'.
func (e *experts) activation() (act sdk.Activation, own []sdk.Activation) {
	if e.one != nil {
		return e.one.Activation, nil
	}
	for _, p := range e.leaves {
		own = append(own, p.Activation)
	}
	return nil, own
}

// modules returns the WebAssembly modules among the activations as files have them, by name.
func (e *experts) modules() (map[string]*stated.Module, error) {
	out := map[string]*stated.Module{}
	err := e.each(func(p *catalog.Plugin) error {
		if p.Module() == nil {
			return nil
		}
		m, err := stated.NewModule(p.Module())
		if err != nil {
			return usagef("--embed: %s: %w", p.Source(), err)
		}
		out[p.Family.Name] = m
		return nil
	})
	if err == nil && len(out) == 0 {
		return nil, usagef("--embed: no activation of this fit is a WebAssembly module, and nothing else goes into a " +
			"model's file")
	}
	return out, err
}

// evaluator evaluates the activation of all experts, or the leaves'.
func (e *experts) evaluator() model.Activation {
	if e.one != nil {
		return e.one.Activation
	}
	var out model.PerExpert
	for _, p := range e.leaves {
		out = append(out, p.Activation)
	}
	return out
}

// verify compares the activations with the values of them in a file.
func (e *experts) verify(cmd *cobra.Command, path string, r *known.Reference) error {
	check := func(named stated.Activation, p *catalog.Plugin) error {
		if err := named.Verify(cmd.Context(), path, p.Activation); err != nil {
			return err
		}
		remarkUnverified(cmd, path, named, p)
		return nil
	}
	if e.one != nil {
		return check(r.Activation, e.one)
	}
	for i, p := range e.leaves {
		if err := check(r.Leaves[i], p); err != nil {
			return err
		}
	}
	return nil
}
