package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/gru/states"
	"github.com/gatedlearning/moe/internal/tablefile"
)

// gruRecordFlags are the flags of moe gru record.
type gruRecordFlags struct {
	layer     layerFlags
	recording gru.Recording
	gates     string
	out       string
}

func newGRURecordCmd() *cobra.Command {
	f := new(gruRecordFlags)
	cmd := &cobra.Command{
		Use:   "record LAYER --steps N -o FILE",
		Short: "Record the states of a gated recurrent unit",
		Long: `record goes through inputs drawn from N(0, I) with a layer, from the state 0, and
writes a row for every step: the inputs x1 ..., the states before h1 ..., and the
states after next1 .... With --sigma every state after gets noise, with which the
layer goes on. The table is what moe gru learn reads.`,
		Example: `  moe gru record layer.npz --steps 100000 --sigma 0.01 -o states.npy`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.layer.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.recording.Steps, "steps", 0, "number of steps (required)")
	flags.Float64Var(&f.recording.Sigma, "sigma", 0, "standard deviation of the noise of the states")
	registerGates(cmd, &f.gates)
	flags.StringVarP(&f.out, "output", "o", "", "data `FILE`, .csv, .npy or .parquet (required)")
	addSeed(cmd, &f.recording.Seed)
	for _, name := range []string{"steps", "output"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
	return cmd
}

// registerGates adds --gates to a command that runs a layer.
func registerGates(cmd *cobra.Command, gates *string) {
	cmd.Flags().StringVar(gates, "gates", gru.Soft.String(), "the layer's gates: soft, as they are, or binary, 0 or 1")
}

// gatesNamed are the gates of that name.
func gatesNamed(name string) (gru.Gates, error) {
	for _, g := range []gru.Gates{gru.Soft, gru.Binary} {
		if name == g.String() {
			return g, nil
		}
	}
	return 0, usagef("--gates %q: want %s or %s", name, gru.Soft, gru.Binary)
}

func (f *gruRecordFlags) run(cmd *cobra.Command, path string) error {
	if err := checkSteps(f.recording.Steps); err != nil {
		return err
	}
	if !(f.recording.Sigma >= 0) || math.IsInf(f.recording.Sigma, 0) {
		return usagef("--sigma %v: want a finite number, 0 or above", f.recording.Sigma)
	}
	var err error
	if f.recording.Gates, err = gatesNamed(f.gates); err != nil {
		return err
	}
	if _, err := tablefile.ExtensionOf(f.out); err != nil {
		return usagef("%w", err)
	}
	layer, err := f.layer.read(path, f.out)
	if err != nil {
		return err
	}
	src := states.Record(layer, f.recording)
	if err := dataset.Write(cmd.Context(), f.out, src); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, gruRecordJSON{Output: f.out, Layer: layer.Name, Inputs: layer.Inputs(),
			Hidden: layer.Hidden(), Steps: f.recording.Steps, Sigma: f.recording.Sigma,
			Gates: f.recording.Gates.String(), Seed: f.recording.Seed})
	}
	i, h := layer.Inputs(), layer.Hidden()
	return say(cmd, "%s: %s of %s, %s and %s, with sigma %v (gates %s, seed %d)", f.out,
		plural(f.recording.Steps, "step"), columnsOf("x", i), columnsOf("h", h), columnsOf("next", h),
		f.recording.Sigma, f.recording.Gates, f.recording.Seed)
}

// columnsOf names n columns.
func columnsOf(name string, n int) string {
	if n == 1 {
		return name + "1"
	}
	return fmt.Sprintf("%s1 to %s%d", name, name, n)
}

// gruRecordJSON is the JSON of moe gru record.
type gruRecordJSON struct {
	Output string  `json:"output"`
	Layer  string  `json:"layer"`
	Inputs int     `json:"inputs"`
	Hidden int     `json:"hidden"`
	Steps  int     `json:"steps"`
	Sigma  float64 `json:"sigma"`
	Gates  string  `json:"gates"` // soft or binary
	Seed   uint64  `json:"seed"`
}
