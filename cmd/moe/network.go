package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/sample"
)

func newNetworkCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "network",
		Short: "Learn networks with one hidden layer",
		Long: `network is about networks with one hidden layer of k units over d features,

    y = v_1*phi(<w_1, x>) + ... + v_k*phi(<w_k, x>) + sigma*N(0,1),   x ~ N(0, I)

for any nonlinearity phi: a built-in or a plugin, as everywhere. Networks are
written to files of the format moe-network/v1, which predict and evaluate read as
they read models.`,
		Args: noSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNetworkSampleCmd(), newNetworkCheckCmd(), newNetworkInitCmd(), newNetworkFitCmd())
	return cmd
}

// networkSampleFlags are the flags of moe network sample.
type networkSampleFlags struct {
	activation activationFlags
	config     sample.NetworkConfig
	output     string
	out, truth string
}

func newNetworkSampleCmd() *cobra.Command {
	f := new(networkSampleFlags)
	cmd := &cobra.Command{
		Use:   "sample [NAME] --k K --d D --n N -o FILE",
		Short: "Draw a data set from a network with one hidden layer",
		Long: `sample draws n rows with x ~ N(0, I) from a network of k units over d features
and writes the columns x1 ... xd, y as CSV, NPY or Parquet. The weights W are
random with the given condition number, and rows of mean squared norm 1; the output
weights v are random signs unless --output-weights gives them. The same seed gives
the same numbers in all formats.`,
		Example: `  moe network sample --activation relu --k 3 --d 10 --n 20000 --sigma 0.1 --condition 2 -o data.csv --truth truth.json
  moe network sample --activation sigmoid --k 2 --d 5 --n 3000 --output-weights 1,-2 -o data.npy`,
		Args: activationArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.activation.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.config.K, "k", 0, "number of units (required)")
	flags.IntVar(&f.config.D, "d", 0, "number of features (required)")
	flags.IntVar(&f.config.N, "n", 0, "number of rows (required)")
	flags.Float64Var(&f.config.Sigma, "sigma", 0, "standard deviation of the noise")
	flags.Float64Var(&f.config.Condition, "condition", 1, "condition number of W, 1 to 1e15")
	flags.StringVar(&f.output, "output-weights", "", "v as `V1,V2,...` (default random signs)")
	flags.StringVarP(&f.out, "output", "o", "", "data `FILE`, .csv, .npy or .parquet (required)")
	flags.StringVar(&f.truth, "truth", "", "write the true network to this JSON `FILE`")
	addSeed(cmd, &f.config.Seed)
	for _, name := range []string{"k", "d", "n", "output"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
	return cmd
}

func (f *networkSampleFlags) run(cmd *cobra.Command) (err error) {
	ctx := cmd.Context()
	if f.config.Output, err = parseNumbers("output-weights", f.output); err != nil {
		return err
	}
	if !(f.config.Sigma >= 0) || math.IsInf(f.config.Sigma, 0) {
		return usagef("--sigma %v: want a finite number, 0 or above", f.config.Sigma)
	}
	if err := checkSampled(f.out, f.truth); err != nil {
		return err
	}
	plugin, err := f.activation.open(ctx)
	if err != nil {
		return err
	}
	defer plugin.Close()
	f.config.Activation = plugin.Activation
	sampler, err := sample.NewNetwork(f.config)
	if err != nil {
		return usagef("%w", err)
	}
	named, err := stated.Describe(ctx, plugin.Activation)
	if err != nil {
		return err
	}
	truth := networkfile.New(named, sampler.Truth, sampler.Schema())
	if err := writeBeside(ctx, f.truth, truth, f.out, rechecked{sampler, plugin.Recheck}); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, networkSampleJSON{
			Output: f.out, Truth: f.truth, Activation: stated.Of(plugin.Activation.Info()), K: f.config.K,
			D: f.config.D, N: f.config.N,
			Sigma: f.config.Sigma, Condition: f.config.Condition, OutputWeights: sampler.Truth.Output,
			Seed: f.config.Seed,
		})
	}
	return say(cmd, "%s: %d rows of x1 to x%d and y, from a network of %d %s units with sigma %v (condition %v, v = "+
		"%s, seed %d)",
		f.out, f.config.N, f.config.D, f.config.K, truth.Activation.Name, f.config.Sigma, f.config.Condition,
		numberList(sampler.Truth.Output), f.config.Seed)
}

// networkSampleJSON is the JSON of moe network sample.
type networkSampleJSON struct {
	Output        string            `json:"output"`
	Truth         string            `json:"truth"` // "" for none
	Activation    stated.Activation `json:"activation"`
	K             int               `json:"k"`
	D             int               `json:"d"`
	N             int               `json:"n"`
	Sigma         float64           `json:"sigma"`
	Condition     float64           `json:"condition"` // of the weights
	OutputWeights []float64         `json:"output_weights"`
	Seed          uint64            `json:"seed"`
}

// parseNumbers reads the comma-separated numbers of a flag; nil where it is "".
func parseNumbers(flag, text string) ([]float64, error) {
	if text == "" {
		return nil, nil
	}
	var out []float64
	for _, t := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(t), 64)
		if err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, usagef("--%s %s: %q is not a finite number", flag, text, t)
		}
		out = append(out, v)
	}
	return out, nil
}

func numberList(v []float64) string {
	parts := make([]string, len(v))
	for i, x := range v {
		parts[i] = fmt.Sprintf("%.4g", x)
	}
	return strings.Join(parts, ", ")
}
