package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/sdk"
)

// activationFlags are the flags of a command that names an activation.
type activationFlags struct {
	name   string
	params []string
}

// register adds --activation and --param to cmd.
func (f *activationFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "activation", "", "the nonlinearity `NAME`: a built-in, a trusted plugin's name or path (required)")
	f.registerParams(cmd)
	cobra.CheckErr(cmd.MarkFlagRequired("activation"))
}

// registerParams adds --param alone, for a command that names its activation
// by an argument.
func (f *activationFlags) registerParams(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.params, "param", nil, "a parameter of the activation as `key=value`; may be repeated")
}

// open opens the activation that the flags name.
func (f *activationFlags) open(ctx context.Context) (*catalog.Plugin, error) {
	params, err := parseParams(f.params)
	if err != nil {
		return nil, err
	}
	return catalog.Open(ctx, f.name, params)
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
