package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/sdk"
)

// gruFlags are the flags of moe gru.
type gruFlags struct {
	layer layerFlags
	steps int
	seed  uint64
	out   string
}

// layerFlags say which layer of a file is read.
type layerFlags struct{ name, form string }

func (f *layerFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "layer", "",
		"`NAME` of the layer's input weights, where the file has several layers")
	cmd.Flags().StringVar(&f.form, "form", "",
		"reset-after or reset-before, where the file does not say (a Keras layer without bias)")
}

// selection checks the flags.
func (f *layerFlags) selection() (gru.Selection, error) {
	sel := gru.Selection{Layer: f.name}
	if f.form == "" {
		return sel, nil
	}
	for _, form := range []gru.Form{gru.ResetAfter, gru.ResetBefore} {
		if f.form == form.String() {
			sel.Form = &form
			return sel, nil
		}
	}
	return sel, usagef("--form %q: want %s or %s", f.form, gru.ResetAfter, gru.ResetBefore)
}

// read reads the layer of a file, after a look at where the output goes; "" for none.
func (f *layerFlags) read(path, out string) (*gru.Layer, error) {
	sel, err := f.selection()
	if err != nil {
		return nil, err
	}
	if out != "" {
		if err := distinct(out, path); err != nil {
			return nil, err
		}
		if err := creatable(out); err != nil {
			return nil, err
		}
	}
	return gru.Read(path, sel)
}

// checkSteps looks at the length of a sequence.
func checkSteps(n int) error {
	const most = 1e8
	if n < 1 || n > most {
		return usagef("--steps %d: want between 1 and %d", n, int(most))
	}
	return nil
}

func newGRUCmd() *cobra.Command {
	f := new(gruFlags)
	cmd := &cobra.Command{
		Use:   "gru LAYER",
		Short: "Say what mixture of experts a gated recurrent unit is",
		Long: `gru reads a layer of gated recurrent units as PyTorch or Keras name and shape its
weights, from a .safetensors file or an .npz archive of numpy, and takes every
hidden unit apart into a tree of experts 2x(1,2) over the inputs x1 ... and the
states h1 ... before: the state carried over, and the candidate state without and
with the recurrence. It goes through a sequence of random inputs with the layer and
with the trees, and says how far apart their next states are: with gates of 0 and
1, and with soft ones as they are and sharpened. With -o it writes the trees as a
model, with which predict computes the next states. Backwards, from states to a layer,
goes moe gru learn.`,
		Example: `  moe gru layer.safetensors
  moe gru encoder.npz --layer gru.weight_ih_l1 -o trees.json
  moe predict trees.json states.csv`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("%d arguments, want one LAYER, or learn or record: moe gru --help", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.AddCommand(newGRULearnCmd(), newGRURecordCmd())
	flags := cmd.Flags()
	f.layer.register(cmd)
	flags.IntVar(&f.steps, "steps", 1000, "length of the sequence")
	flags.StringVarP(&f.out, "output", "o", "", "write the trees to this model `FILE`")
	addSeed(cmd, &f.seed)
	return cmd
}

func (f *gruFlags) run(cmd *cobra.Command, path string) error {
	if err := checkSteps(f.steps); err != nil {
		return err
	}
	layer, err := f.layer.read(path, f.out)
	if err != nil {
		return err
	}
	gaps, err := f.gaps(cmd.Context(), layer)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(gaps, func(g gap) bool { return math.IsNaN(g.Max) }) {
		return &gru.Error{File: path, Err: errors.New("the weights are too large: predictors of the sequence overflow")}
	}
	if f.out != "" {
		if err := treesOf(layer).Write(cmd.Context(), f.out); err != nil {
			return err
		}
	}
	return f.print(cmd, layer, gaps)
}

// gap is one comparison of the layer with its trees.
type gap struct {
	Gates     string  `json:"gates"` // binary or soft
	Sharpness float64 `json:"sharpness"`
	RMS       float64 `json:"rms"`
	Max       float64 `json:"max"`
	StateRMS  float64 `json:"state_rms"`
}

func (f *gruFlags) gaps(ctx context.Context, layer *gru.Layer) (out []gap, err error) {
	add := func(name string, gates gru.Gates, sharpness float64) {
		g := layer.Compare(f.steps, gates, sharpness, f.seed)
		out = append(out, gap{name, sharpness, g.RMS, g.Max, g.State})
	}
	add("binary", gru.Binary, 1)
	for _, sharpness := range []float64{1, 4, 16, 64} {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		add("soft", gru.Soft, sharpness)
	}
	return out, nil
}

// leafNames are the activations of the leaves of a unit's tree.
var leafNames = []string{"identity", "tanh", "tanh"}

// treesOf returns the layer's trees as a model: features x1 … xI, h1 … hH, targets
// next1 … nextH.
func treesOf(layer *gru.Layer) *fitted.Vector {
	v := &fitted.Vector{Format: fitted.FormatV2, Hierarchy: gru.Shape.String(), K: gru.Shape.Leaves(),
		D: layer.Inputs() + layer.Hidden()}
	for _, name := range leafNames {
		families := catalog.Builtins()
		family := families[slices.IndexFunc(families, func(f sdk.Family) bool { return f.Name == name })]
		v.Leaves = append(v.Leaves, stated.Activation{Name: name, Params: map[string]float64{},
			Version: family.Version})
	}
	for i := range layer.Inputs() {
		v.Features = append(v.Features, fmt.Sprintf("x%d", i+1))
	}
	for j := range layer.Hidden() {
		v.Features = append(v.Features, fmt.Sprintf("h%d", j+1))
		v.Outputs = append(v.Outputs, fitted.NewOutput(fmt.Sprintf("next%d", j+1), layer.Unit(j)))
	}
	return v
}

// gruJSON is the JSON of moe gru.
type gruJSON struct {
	Layer     string   `json:"layer"`
	Form      string   `json:"form"`
	Inputs    int      `json:"inputs"`
	Hidden    int      `json:"hidden"`
	Hierarchy string   `json:"hierarchy"`
	Leaves    []string `json:"leaves"`
	Steps     int      `json:"steps"`
	Gaps      []gap    `json:"gaps"`
	Output    string   `json:"output"` // "" for none
}

func (f *gruFlags) print(cmd *cobra.Command, layer *gru.Layer, gaps []gap) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, gruJSON{
			Layer: layer.Name, Form: layer.Form.String(), Inputs: layer.Inputs(), Hidden: layer.Hidden(),
			Hierarchy: gru.Shape.String(), Leaves: leafNames, Steps: f.steps, Gaps: gaps, Output: f.out,
		})
	}
	out := textOut(cmd)
	fmt.Fprintf(out, "%s: %d gated recurrent units over %d inputs, %s.\nEach is the tree %s with leaves %s over %d "+
		"features.\n",
		shown.Name(layer.Name), layer.Hidden(), layer.Inputs(), layer.Form, gru.Shape, strings.Join(leafNames, ", "),
		layer.Inputs()+layer.Hidden())
	fmt.Fprintf(out, "\nnext states of the trees against the layer's, %d steps from N(0, I)\n", f.steps)
	if err := printGaps(out, gaps); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n%s\n", verdictOnGaps(layer, gaps))
	if f.out != "" {
		fmt.Fprintf(out, "%s: %d trees\n", shown.Name(f.out), layer.Hidden())
	}
	return nil
}

func printGaps(out io.Writer, gaps []gap) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "  gates\trms difference\tlargest\trms of the states")
	for _, g := range gaps {
		name := g.Gates
		if g.Sharpness != 1 {
			name += fmt.Sprintf(", %g times as sharp", g.Sharpness)
		}
		fmt.Fprintf(w, "  %s\t%.3g\t%.3g\t%.3g\n", name, g.RMS, g.Max, g.StateRMS)
	}
	return w.Flush()
}

// exactGap is what rounding may make of two equal next states, which are at most
// about 1 in size.
const exactGap = 1e-12

func verdictOnGaps(layer *gru.Layer, gaps []gap) string {
	switch binary := gaps[0]; {
	case binary.Max <= exactGap:
		return "With gates of 0 and 1 the trees are the layer. With soft gates the outer level still is;\nthe inner " +
			"one mixes two candidate states where the layer mixes their arguments."
	case layer.Form == gru.ResetBefore:
		return "The layer's reset gates act before the recurrence, so that a unit's candidate depends on\nthe gates " +
			"of all: no tree over (x, h) is the same, unless the recurrent weights are diagonal."
	default:
		return "The trees differ from the layer by more than rounding: its states are too large."
	}
}
