package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/gru"
	"github.com/gatedlearning/moe/host/gru/states"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/shown"
)

// gruLearnFlags are the flags of moe gru learn.
type gruLearnFlags struct {
	config states.Config
	format string
	truth  string
	layer  layerFlags // of the truth
	gates  string
	cells  cellFlags
	resume bool
	out    string
}

func newGRULearnCmd() *cobra.Command {
	f := new(gruLearnFlags)
	cmd := &cobra.Command{
		Use:   "learn STATES --hidden H -o LAYER",
		Short: "Learn a gated recurrent unit from its states",
		Long: `learn finds the weights of a layer of H gated recurrent units from its states. A row of
STATES, a CSV, NPY or Parquet file, is a step: the inputs x, the H states before, and the H
states after, in this order, whatever the columns' names. The gates are to be 0 or 1.

Every unit is fitted the tree 2x(1,2) with leaves identity, tanh and tanh, by moe fit's
search. The leaves are matched to the state carried over and to the candidates of a
closed and an open reset gate; the tree's weights are then held to what a unit can be,
and a test says whether it is one. A gate that never switches has nothing to learn, and is
written as a bias of +-1000. A gate that separates the rows has a direction, and no size.

The layer is an .npz archive with PyTorch's names (weight_ih_l0 and so on, gates in the
order r, z, n), or Keras's with --format keras, that moe gru and numpy read. With --truth
it is compared with the layer whose states they are.

The exit code is 1 if a unit did not converge, its optimum is suspect or not judged, or it
is none with gates of 0 and 1; the layer is written all the same.`,
		Example: `  moe gru record layer.npz --steps 100000 --sigma 0.01 -o states.npy
  moe gru learn states.npy --hidden 8 -o learned.npz --truth layer.npz
  moe gru learned.npz`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.config.Hidden, "hidden", 0, "number of hidden units (required)")
	flags.StringVar(&f.format, "format", string(gru.Torch), "names of the arrays that are written: torch, keras")
	flags.BoolVar(&f.config.HAC, "hac", false,
		"standard errors beside the others that hold where rows follow each other in time")
	flags.IntVar(&f.config.Starts, "starts", 0, "at most this many starts of a unit (default 32)")
	flags.StringVar(&f.truth, "truth", "", "compare with the layer in this `FILE`")
	registerGates(cmd, &f.gates)
	f.layer.register(cmd)
	f.cells.register(cmd, "leave them out")
	flags.BoolVar(&f.resume, "resume", false,
		"go on from the checkpoint that an interrupted run left beside its output")
	flags.IntVar(&f.config.Threads, "threads", 0, "threads to use (default one per processor); the result is the same")
	flags.StringVarP(&f.out, "output", "o", "", "write the layer to this .npz `FILE` (required)")
	addSeed(cmd, &f.config.Seed)
	for _, name := range []string{"hidden", "output"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
	return cmd
}

// check looks at the flags and the files.
func (f *gruLearnFlags) check(cmd *cobra.Command, path string) error {
	changed := cmd.Flags().Changed
	switch {
	case f.config.Hidden < 1:
		return usagef("--hidden %d: want at least 1", f.config.Hidden)
	case changed("starts") && f.config.Starts < 1:
		return usagef("--starts %d: want at least 1", f.config.Starts)
	case changed("threads") && f.config.Threads < 1:
		return usagef("--threads %d: want at least 1", f.config.Threads)
	case !slices.Contains(gru.Libraries(), gru.Library(f.format)):
		return usagef("--format %q: want %s or %s", f.format, gru.Torch, gru.Keras)
	case f.truth == "" && (changed("layer") || changed("form") || changed("gates")):
		return usagef("--layer, --form and --gates are of the layer of --truth, which is not given")
	}
	if err := f.cells.check(dataset.Drop); err != nil {
		return err
	}
	checkpoint := checkpointOf(f.out)
	for _, out := range []string{f.out, checkpoint} {
		if err := distinct(out, path, f.truth); err != nil {
			return err
		}
	}
	if !strings.EqualFold(filepath.Ext(f.out), ".npz") {
		return usagef("--output %s: the layer is an archive of numpy; give a name that ends in .npz", f.out)
	}
	if err := creatable(f.out); err != nil || f.resume {
		return err
	}
	if err := replaceable(checkpoint, states.CheckpointFormat); err != nil {
		return &atomicfile.CreateError{Path: checkpoint, Err: err}
	}
	return creatable(checkpoint)
}

func (f *gruLearnFlags) run(cmd *cobra.Command, path string) error {
	ctx := cmd.Context()
	if err := f.check(cmd, path); err != nil {
		return err
	}
	gates, err := gatesNamed(f.gates)
	if err != nil {
		return err
	}
	var truth *gru.Layer
	if f.truth != "" {
		if truth, err = f.layer.read(f.truth, ""); err != nil {
			return err
		}
	}
	in, err := openInput(ctx, cmd, path)
	if err != nil {
		return err
	}
	defer in.close()
	src, err := in.open(f.cells.on(dataset.Selection{}))
	if err != nil {
		return err
	}
	if columns := len(src.Schema().Columns()); truth != nil && (truth.Hidden() != f.config.Hidden ||
		truth.Inputs() != columns-2*f.config.Hidden) {
		return &gru.Error{File: f.truth, Err: fmt.Errorf("%d units over %d inputs: their states have %d columns with "+
			"--hidden %d, and %s has %d", truth.Hidden(), truth.Inputs(), truth.Inputs()+2*truth.Hidden(),
			truth.Hidden(), in.name(), columns)}
	}
	keeper := newKeeper[states.Checkpoint](f.out, states.CheckpointFormat)
	if f.config.Resume, err = keeper.read(f.resume); err != nil {
		return err
	}
	bar := newBar(cmd)
	f.config.Checkpoint = keeper.offer
	f.config.Progress = func(done, units int) { bar.show("units", done, units) }
	learned, err := states.Learn(ctx, src, f.config)
	bar.done()
	if err != nil {
		return keeper.keep(ctx, err)
	}
	out := f.described(learned)
	if truth != nil {
		if out.Truth, err = learned.Recovered(ctx, truth, gates, f.config.Seed); err != nil {
			return err
		}
	}
	file, err := atomicfile.Create(ctx, f.out)
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := gru.Write(file, learned.Layer, gru.Library(f.format)); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	keeper.drop()
	if wantsJSON(cmd) {
		err = printJSON(cmd, out)
	} else {
		err = f.print(textOut(cmd), learned, out)
	}
	if err == nil && slices.ContainsFunc(learned.Units, (*states.Unit).Doubtful) {
		return errNo
	}
	return err
}

// gruLearnJSON is the JSON of moe gru learn.
type gruLearnJSON struct {
	Output    string        `json:"output"`
	Library   string        `json:"format"` // torch or keras
	Inputs    int           `json:"inputs"`
	Hidden    int           `json:"hidden"`
	Steps     int           `json:"steps"`
	Sequences int           `json:"sequences"` // of rows that go on where the one before ended
	Condition float64       `json:"condition"` // of (x, h), columns of mean 0 and variance 1
	Units     []gruUnitJSON `json:"units"`
	Truth     *gru.Recovery `json:"truth"` // null where no truth was given
}

// gruUnitJSON is a unit of the layer.
type gruUnitJSON struct {
	Unit      int           `json:"unit"`   // from 1
	Keeps     float64       `json:"keeps"`  // share of the rows that keep their state
	Closed    float64       `json:"closed"` // of those with the candidate of a closed reset gate
	Open      float64       `json:"open"`   // of an open one
	Sigma     float64       `json:"sigma"`
	Update    gruGateJSON   `json:"update"`
	Reset     gruGateJSON   `json:"reset"`
	Candidate gru.Candidate `json:"candidate"`
	// of the candidate; null where there are none
	Errors *gru.Candidate `json:"standard_errors"`
	// the same for dependent rows, with --hac, and how many of them an interval of 95 % goes to either side
	HAC         *gru.Candidate `json:"hac"`
	HACCritical float64        `json:"hac_critical,omitempty"`
	ChiSquared  float64        `json:"chi_squared"` // of the test of whether it is a unit with gates of 0 and 1
	DF          int            `json:"df"`          // 0 where there was no test
	PValue      float64        `json:"p_value"`
	IsUnit      bool           `json:"is_unit"` // false where that test fails
	Converged   bool           `json:"converged"`
	Optimum     string         `json:"optimum"` // pass, suspect or not judged
	Model       string         `json:"model"`   // the same words
}

// gruGateJSON is a gate of a unit.
type gruGateJSON struct {
	Gate      string  `json:"gate"`      // "switches", "always 0" or "always 1"; "unknown" of a reset gate that never switches
	Separates bool    `json:"separates"` // the weights have a direction, and no finite size
	Row       gru.Row `json:"weights"`
}

func (f *gruLearnFlags) described(l *states.Learned) *gruLearnJSON {
	out := &gruLearnJSON{Output: f.out, Library: f.format, Inputs: l.Inputs(), Hidden: l.Hidden(), Steps: l.Steps,
		Sequences: l.Sequences, Condition: l.Condition}
	for j, u := range l.Units {
		row := gruUnitJSON{Unit: j + 1, Sigma: u.Fit.Sigma[0], Candidate: u.Candidate, Errors: u.Errors, HAC: u.HAC,
			ChiSquared: u.ChiSquared, DF: u.DF, PValue: u.PValue, IsUnit: u.IsUnit(), Converged: u.Fit.Fit.Converged,
			Update: gruGateJSON{Separates: u.UpdateSeparates, Row: u.Update},
			Reset:  gruGateJSON{Separates: u.ResetSeparates, Row: u.Reset}}
		if u.HAC != nil {
			row.HACCritical = u.Fit.HAC.CriticalValue
		}
		if c := u.Fit.Fit.Certificate; c != nil {
			row.Optimum, row.Model = c.Optimum, c.Model
		}
		for i, leaf := range u.Leaves {
			share := [...]*float64{gru.Keep: &row.Keeps, gru.Closed: &row.Closed, gru.Open: &row.Open}[leaf]
			*share = u.Fit.Proportions[i]
		}
		row.Update.Gate, row.Reset.Gate = u.States()
		out.Units = append(out.Units, row)
	}
	return out
}

func (f *gruLearnFlags) print(out io.Writer, l *states.Learned, all *gruLearnJSON) error {
	fmt.Fprintf(out, "%s of %s and %s in %s; condition of (x, h) %.3g\n\n", plural(all.Steps, "step"),
		plural(all.Inputs, "input"), plural(all.Hidden, "state"), plural(all.Sequences, "sequence"), all.Condition)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "unit\tkeeps\tclosed\topen\tupdate gate\treset gate\tsigma\tunit's p\toptimum\tmodel")
	for _, u := range all.Units {
		p := "-"
		if u.DF > 0 {
			p = fmt.Sprintf("%.2g", u.PValue)
		}
		fmt.Fprintf(w, "%d\t%.3f\t%.3f\t%.3f\t%s\t%s\t%.4g\t%s\t%s\t%s\n", u.Unit, u.Keeps, u.Closed, u.Open,
			u.Update.text(), u.Reset.text(), u.Sigma, p, judged(u), u.Model)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, line := range remarksOn(all) {
		fmt.Fprintln(out, line)
	}
	if t := all.Truth; t != nil {
		fmt.Fprintln(out, recoveryText(shown.Name(f.truth), t))
	}
	_, err := fmt.Fprintf(out, "%s: %s over %s, as %s names them\n", shown.Name(f.out),
		plural(all.Hidden, "gated recurrent unit"), plural(all.Inputs, "input"), libraryNames[gru.Library(f.format)])
	return err
}

var libraryNames = map[gru.Library]string{gru.Torch: "PyTorch", gru.Keras: "Keras"}

// judged is the verdict on a unit's optimum.
func judged(u gruUnitJSON) string {
	if !u.Converged {
		return "not converged"
	}
	return u.Optimum
}

// text is the gate in a column.
func (g gruGateJSON) text() string {
	if g.Gate == states.Switches && !g.Separates {
		return "soft"
	}
	return g.Gate
}

// remarksOn say what there was nothing to learn of, and which units are none.
func remarksOn(all *gruLearnJSON) (lines []string) {
	which := func(is func(gruUnitJSON) bool) string {
		var names []string
		for _, u := range all.Units {
			if is(u) {
				names = append(names, fmt.Sprint(u.Unit))
			}
		}
		if len(names) == 1 {
			return "Unit " + names[0]
		}
		return strings.Join(names, ", ")
	}
	for _, r := range []struct {
		is   func(gruUnitJSON) bool
		text string
	}{
		{func(u gruUnitJSON) bool { return u.Update.Gate == states.Always },
			"never leaves its state: there is nothing to learn of its weights"},
		{func(u gruUnitJSON) bool { return u.Update.Gate == states.Never },
			"never keeps its state: there is nothing to learn of its update gate"},
		{func(u gruUnitJSON) bool { return u.Update.Gate != states.Always && u.Reset.Gate == states.Unknown },
			"has one candidate: its reset gate never switches, and is written as open"},
		{func(u gruUnitJSON) bool { return !u.IsUnit },
			"is no unit with gates of 0 and 1: soft gates, other noise, or states that are not all"},
	} {
		switch names := which(r.is); {
		case names == "":
		case strings.HasPrefix(names, "Unit"):
			lines = append(lines, names+" "+r.text+".")
		default:
			lines = append(lines, "Units "+names+": each "+r.text+".")
		}
	}
	return lines
}

// recoveryText compares with a layer.
func recoveryText(name string, t *gru.Recovery) string {
	gate := func(what string, g gru.GateRecovery) string {
		if g.Gates == 0 {
			return fmt.Sprintf("  %s gates: none switches", what)
		}
		return fmt.Sprintf("  %s gates: %d of %d decisions on new states differ (%.2g %%), directions by up to %.2g "+
			"degrees", what, g.Differ, g.Decisions, 100*float64(g.Differ)/float64(g.Decisions), g.Angle)
	}
	free := fmt.Sprintf("  free run of %d steps: largest difference %.2g", t.Free.Steps, t.Free.Largest)
	if t.Free.Parted > 0 {
		free += fmt.Sprintf(", apart by more than %g at step %d first and at %s", gru.Apart, t.Free.Parted,
			plural(t.Free.Apart, "step"))
	}
	return strings.Join([]string{
		fmt.Sprintf("Against %s: the candidate's W is off by %s of its norm, U by %s.", name, relative(t.W),
			relative(t.U)),
		gate("update", t.Update), gate("reset", t.Reset), free}, "\n")
}

// relative is an error relative to a norm.
func relative(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2g", v)
}
