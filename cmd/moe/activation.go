package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/sdk"
)

// activationFlags are the flags of a command that names an activation.
type activationFlags struct {
	name   string
	params []string
	limits limitFlags
}

// limitFlags are the flags of a command that may start a plugin.
type limitFlags struct {
	timeout time.Duration
	maxRSS  int64 // MiB
	sandbox string
	cmd     *cobra.Command // that has them
}

// register adds --plugin-timeout and --plugin-max-rss to cmd.
func (f *limitFlags) register(cmd *cobra.Command) {
	f.cmd = cmd
	cmd.Flags().DurationVar(&f.timeout, "plugin-timeout", catalog.DefaultCallTimeout,
		"the longest that a call of a plugin may take, of at most 65536 values")
	cmd.Flags().Int64Var(&f.maxRSS, "plugin-max-rss", catalog.DefaultMaxRSS>>20,
		"the memory that a plugin's processes may use together, in `MiB`")
	cmd.Flags().StringVar(&f.sandbox, "sandbox", string(catalog.SandboxDefault),
		"what confines a plugin's process: `default`, as far as the kernel can; strict, wholly or it does not start; "+
			"or off")
}

// check refuses limits that are none.
func (f *limitFlags) check() error {
	if f.timeout <= 0 {
		return usagef("--plugin-timeout %v: want more than 0", f.timeout)
	}
	if f.maxRSS <= 0 || f.maxRSS > math.MaxInt64>>20 {
		return usagef("--plugin-max-rss %d: want a number of MiB above 0", f.maxRSS)
	}
	if _, err := catalog.ParseSandbox(f.sandbox); err != nil {
		return usagef("--sandbox: %w", err)
	}
	return nil
}

// open opens an activation of c within the limits. Where it is built in and a trusted plugin has its name, the user is
// told so.
func (f *limitFlags) open(ctx context.Context, c catalog.Catalog, name string, params sdk.Params) (*catalog.Plugin,
	error) {
	p, err := f.within(c).Open(ctx, name, params)
	if err == nil && p.Beside() != "" {
		fmt.Fprintf(f.cmd.ErrOrStderr(), "moe: %s is the built-in one; the trusted plugin of that name is named by "+
			"its path, %s\n", name, shown.Name(p.Beside()))
	}
	return p, err
}

// within returns c with the limits in force. A plugin that may take long for a
// call may take as long to start.
func (f *limitFlags) within(c catalog.Catalog) catalog.Catalog {
	c.StartTimeout = max(catalog.DefaultStartTimeout, f.timeout)
	c.CallTimeout, c.MaxRSS, c.Sandbox = f.timeout, f.maxRSS<<20, catalog.Sandbox(f.sandbox)
	return c
}

// register adds --activation and what goes with it to cmd, which needs one; it may stand among the arguments instead.
func (f *activationFlags) register(cmd *cobra.Command) {
	f.registerOptional(cmd, "the nonlinearity `NAME`: a built-in, an expression such as 'expr: z*tanh(softplus(z))', "+
		"a curve such as table:curve.csv, or a trusted plugin's name or path (required)")
	cobra.CheckErr(cmd.MarkFlagRequired("activation"))
}

// registerOptional is register for a command that can do without one.
func (f *activationFlags) registerOptional(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.name, "activation", "", usage)
	f.registerParams(cmd)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("activation", completeActivation))
}

// registerNamed is register for a command whose argument NAME is the activation, and may stand in the flag instead.
func (f *activationFlags) registerNamed(cmd *cobra.Command) {
	f.registerOptional(cmd, "the activation `NAME`, in the place of the argument")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && !cmd.Flags().Changed("activation") {
			return errors.New("want a name")
		}
		return activationArg(cmd, args)
	}
	cmd.ValidArgsFunction = completeActivation
}

// activationArg takes an argument, if there is one, for --activation.
func activationArg(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(args) > 1:
		return errors.New("want one name")
	case cmd.Flags().Changed("activation"):
		return usagef("%s and --activation %v: want one of them", args[0], cmd.Flags().Lookup("activation").Value)
	}
	return cmd.Flags().Set("activation", args[0])
}

// dataArg takes DATA, and behind it an activation for --activation, if there is one.
func dataArg(inner cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return inner(cmd, args)
		}
		return activationArg(cmd, args[1:])
	}
}

// registerParams adds --param and the limits, for a command that names its
// activation by an argument.
func (f *activationFlags) registerParams(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.params, "param", nil, "a parameter of the activation as `key=value`; may be repeated")
	f.limits.register(cmd)
}

// open opens the activation that the flags name.
func (f *activationFlags) open(ctx context.Context) (*catalog.Plugin, error) {
	return f.openFrom(ctx, catalog.Catalog{})
}

// openFrom opens the activation that the flags name from c. Where one is opened to be judged, and may be any function,
// an expression that is not finite is a no; elsewhere it is no request.
func (f *activationFlags) openFrom(ctx context.Context, c catalog.Catalog) (*catalog.Plugin, error) {
	params, err := parseParams(f.params)
	if err != nil {
		return nil, err
	}
	if err := f.limits.check(); err != nil {
		return nil, err
	}
	p, err := f.limits.open(ctx, c, f.name, params)
	if c.Unchecked && is[*expression.NotFiniteError](err) {
		err = &exitError{exitNo, err}
	}
	return p, err
}

// rechecked are rows that a plugin has a part in. At their end it is asked whether
// it still is the function that it was.
type rechecked struct {
	dataset.Source
	recheck func(context.Context) error
}

func (r rechecked) Read(ctx context.Context, fn func(*model.Block) error) error {
	if err := r.Source.Read(ctx, fn); err != nil {
		return err
	}
	return r.recheck(ctx)
}

func parseParams(given []string) (sdk.Params, error) {
	params := make(sdk.Params, len(given))
	for _, text := range given {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usagef("--param %s: want key=value", text)
		}
		if _, twice := params[key]; twice {
			return nil, usagef("--param %s: %s is given twice", text, key)
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, usagef("--param %s: %q is not a number", text, value)
		}
		params[key] = v
	}
	return params, nil
}
