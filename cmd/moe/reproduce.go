package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/host/figures"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/sdk"
)

// reproduceFlags are the flags of moe reproduce.
type reproduceFlags struct {
	ids     []string
	quick   bool
	list    bool
	dir     string
	seed    uint64
	threads int

	activation activationFlags // the figures are for this one, where it is named
}

func newReproduceCmd() *cobra.Command {
	f := new(reproduceFlags)
	cmd := &cobra.Command{
		Use:   "reproduce [FIGURE...]",
		Short: "Make the papers' figures and tables, and say what holds",
		Long:  reproduceLong,
		Example: `  moe reproduce --quick
  moe reproduce 002-2a 002-2b -o figures
  moe reproduce --list
  moe reproduce --activation ./moe-plugin-smoothrelu --quick
  moe reproduce --seed 2 --threads 1`,
		ValidArgsFunction: figureIDs,
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.ids = args
			if slices.Contains(args, scaling) {
				return f.grow(cmd)
			}
			chosen, plugin, err := f.figures(cmd)
			if err != nil {
				return err
			}
			defer plugin.Close()
			if f.list {
				return printFigures(cmd, chosen)
			}
			return f.run(cmd, chosen, plugin)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.quick, "quick", false, "fewer and shorter runs: all in some three minutes on two processors")
	flags.BoolVar(&f.list, "list", false, "list the figures with what their sources say, and make none")
	flags.StringVarP(&f.dir, "output", "o", "",
		"write into this directory `DIR` (default results, or results-quick with --quick)")
	flags.IntVar(&f.threads, "threads", 0, "runs side by side (default one per processor); the results are the same")
	addSeed(cmd, &f.seed)
	f.activation.registerOptional(cmd,
		"make 002-T2, efficiency-2 and efficiency-3 for the nonlinearity `NAME`: a built-in, 'expr: TEXT', a trusted "+
			"plugin's name or path")
	return cmd
}

const reproduceLong = `reproduce runs the papers' experiments, and some that question them, and says of
each what the paper says, what was measured, and whether they agree. All of them
are made where no FIGURE is named; --list names them.

Into the directory DIR go, for each figure, FIGURE.csv with every run, FIGURE.svg
and FIGURE.png, and for those asked for together index.html, one page that needs
no network, and results.md. The full set takes less than an hour on two
processors, --quick some three minutes, with fewer and shorter runs.

--activation NAME makes 002-T2, efficiency-2 and efficiency-3 for that activation
alone, a plugin's among them: how many rows the papers' estimate of its regressors
takes, and how far the likelihood's is from the Cramér–Rao bound. n starts where
moe validate-activation predicts an E_reg of 0.01. An activation that is not valid,
or even, or takes more than 3,000,000 rows, is refused with exit code 1.

Finished runs are kept in DIR/.runs: the same command after an interruption goes
on where it stopped. The same seed gives the same files, to the byte.

scaling, which is made by its name alone, is how time and memory of a fit grow with
the rows (1e4 to 1e8), features (10 to 500) and experts (2 to 16), on this machine: a
table, scaling.csv, and three pictures in results-scaling, in some five minutes. The
largest table takes 9 GB of memory, or of TMPDIR where less than twice that is free; with
--quick all are small. It measures time, so that it is kept nowhere else and no two
runs are the same.

The exit code is 0 when everything was made, whether or not the papers are right.`

// listedJSON is what moe reproduce --list --json prints.
type listedJSON struct {
	Figures []listedFigure `json:"figures"`
}

// listedFigure is a figure of it.
type listedFigure struct {
	ID     string `json:"id"`
	Title  string `json:"title"`
	Source string `json:"source"`
	Claim  string `json:"claim"`
	Own    bool   `json:"own"`            // the claim is not of a paper
	Same   string `json:"same,omitempty"` // the figure of another source that shows the same runs for the same claim
}

// figures are those asked for: of the papers, or of the activation that is named,
// which is open then. Where there is none the plugin is one that does nothing.
func (f *reproduceFlags) figures(cmd *cobra.Command) ([]*experiment.Figure, *catalog.Plugin, error) {
	all, plugin := experiment.Figures(f.quick), new(catalog.Plugin)
	if cmd.Flags().Changed("activation") {
		var err error
		if all, plugin, err = f.given(cmd.Context()); err != nil {
			return nil, nil, err
		}
	} else if len(f.activation.params) > 0 {
		return nil, nil, usagef("--param goes with --activation")
	}
	figures, err := experiment.Among(all, f.ids)
	if err != nil {
		plugin.Close()
		return nil, nil, usagef("%w", err)
	}
	return figures, plugin, nil
}

// given opens the activation that is named, and returns its figures.
func (f *reproduceFlags) given(ctx context.Context) ([]*experiment.Figure, *catalog.Plugin, error) {
	plugin, err := f.activation.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	figures, err := figuresFor(ctx, plugin.Activation, f.quick)
	if err != nil {
		plugin.Close()
		return nil, nil, err
	}
	return figures, plugin, nil
}

// figuresFor returns the figures of an activation, whose runs are kept under its name,
// parameters and values.
func figuresFor(ctx context.Context, act sdk.Activation, quick bool) ([]*experiment.Figure, error) {
	a, err := stated.Describe(ctx, act)
	if err != nil {
		return nil, err
	}
	values, err := json.Marshal(a.Values)
	if err != nil {
		return nil, err
	}
	return experiment.For(ctx, experiment.Given{Activation: act, Name: a.String(), ID: fmt.Sprintf("%s %x", a,
		sha256.Sum256(values))}, quick)
}

// printFigures lists the figures.
func printFigures(cmd *cobra.Command, chosen []*experiment.Figure) error {
	if wantsJSON(cmd) {
		list := make([]listedFigure, 0, len(chosen))
		for _, g := range chosen {
			list = append(list, listedFigure{g.ID, g.Title, g.Source, g.Claim, g.Own, g.Same})
		}
		return printJSON(cmd, listedJSON{list})
	}
	out := textOut(cmd)
	for _, g := range chosen {
		if _, err := fmt.Fprintf(out, "%-13s %s (%s)\n              %s\n", g.ID, g.Title, g.Source,
			g.Claim); err != nil {
			return err
		}
	}
	return nil
}

// figureIDs completes the names of figures.
func figureIDs(*cobra.Command, []string, string) (ids []string, _ cobra.ShellCompDirective) {
	for _, f := range experiment.Figures(false) {
		ids = append(ids, f.ID+"\t"+f.Title)
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}

func (f *reproduceFlags) run(cmd *cobra.Command, chosen []*experiment.Figure, plugin *catalog.Plugin) error {
	began := time.Now()
	if cmd.Flags().Changed("threads") && f.threads < 1 {
		return usagef("--threads %d: want at least 1", f.threads)
	}
	if f.dir == "" {
		f.dir = "results"
		if f.quick {
			f.dir += "-quick"
		}
	}
	store := filepath.Join(f.dir, ".runs")
	if err := os.MkdirAll(store, 0o777); err != nil {
		return &atomicfile.CreateError{Path: f.dir, Err: err}
	}
	if err := creatable(filepath.Join(f.dir, "index.html")); err != nil {
		return err
	}
	bars := newFigureBars(cmd, len(chosen))
	results := figures.Results{Seed: f.seed, Quick: f.quick,
		Activation: strings.Join(append([]string{f.activation.name}, f.activation.params...), " --param ")}
	_, err := experiment.Run(cmd.Context(), chosen, experiment.Options{
		Seed: f.seed, Threads: f.threads, Store: store, Progress: bars.show,
		Finished: func(o *experiment.Outcome) error {
			if err := recheck(cmd.Context(), plugin); err != nil {
				return err
			}
			figure := figures.Figure{Outcome: o}
			results.Figures = append(results.Figures, figure)
			bars.finished(figure)
			return f.writeFigure(cmd, figure)
		},
	})
	bars.done()
	if err != nil {
		return f.interrupted(cmd, err, len(results.Figures))
	}
	for _, out := range []output{{"results.md", results.Markdown}, {"index.html", results.Page}} {
		if err := f.write(cmd, out); err != nil {
			return err
		}
	}
	return f.print(cmd, results, time.Since(began))
}

// recheck asks a plugin, if there is one, whether it still is the function that
// the figures are of.
func recheck(ctx context.Context, plugin *catalog.Plugin) error {
	if plugin.Activation == nil {
		return nil
	}
	return plugin.Recheck(ctx)
}

// interrupted says of an error that a signal caused what there is already.
func (f *reproduceFlags) interrupted(cmd *cobra.Command, err error, finished int) error {
	var signal *signalError
	if errors.As(context.Cause(cmd.Context()), &signal) {
		left := fmt.Sprintf("%d figures are finished in %s, and the same command goes on where this one stopped",
			finished, f.dir)
		signal.left.Store(&left)
	}
	return err
}

// output is a file in the directory with what writes it.
type output struct {
	name  string
	write func(io.Writer) error
}

// files are those of a figure.
func (f *reproduceFlags) files(figure figures.Figure) []output {
	picture := func(format string) func(io.Writer) error {
		return func(w io.Writer) error { return figure.Draw(w, format) }
	}
	out := []output{{figure.ID + ".csv", figure.CSV}, {figure.ID + ".svg", picture("svg")},
		{figure.ID + ".png", picture("png")}}
	if figure.HasTable() {
		out = append(out, output{figure.ID + "-table.csv", figure.TableCSV})
	}
	return out
}

func (f *reproduceFlags) writeFigure(cmd *cobra.Command, figure figures.Figure) error {
	for _, out := range f.files(figure) {
		if err := f.write(cmd, out); err != nil {
			return err
		}
	}
	return nil
}

func (f *reproduceFlags) write(cmd *cobra.Command, out output) error {
	file, err := atomicfile.Create(cmd.Context(), filepath.Join(f.dir, out.name))
	if err != nil {
		return err
	}
	defer file.Discard()
	if err := out.write(file); err != nil {
		return err
	}
	return file.Commit()
}

// reproduceJSON is what moe reproduce --json prints.
type reproduceJSON struct {
	Seed      uint64       `json:"seed"`
	Quick     bool         `json:"quick"`
	Directory string       `json:"directory"`
	Page      string       `json:"page"`
	Figures   []figureJSON `json:"figures"`
	Seconds   float64      `json:"seconds"`
}

type figureJSON struct {
	ID       string   `json:"id"`
	Title    string   `json:"title"`
	Source   string   `json:"source"`
	Claim    string   `json:"claim"`
	Settings string   `json:"settings"`
	Measured string   `json:"measured"`
	Agrees   bool     `json:"agrees"`
	Because  string   `json:"because"`
	Runs     int      `json:"runs"`
	Files    []string `json:"files"`
}

func (f *reproduceFlags) print(cmd *cobra.Command, results figures.Results, took time.Duration) error {
	page := filepath.Join(f.dir, "index.html")
	if !wantsJSON(cmd) {
		if err := results.Text(textOut(cmd)); err != nil {
			return err
		}
		remark(cmd, "moe: wrote %s and results.md beside it after %.2f s", page, took.Seconds())
		return nil
	}
	out := reproduceJSON{Seed: f.seed, Quick: f.quick, Directory: f.dir, Page: page,
		Seconds: took.Round(time.Millisecond).Seconds()}
	for _, figure := range results.Figures {
		v := figure.Verdict
		item := figureJSON{
			ID: figure.ID, Title: figure.Title, Source: figure.Source, Claim: figure.Claim, Settings: figure.Settings,
			Measured: v.Measured, Agrees: v.Agrees, Because: v.Because,
		}
		for _, c := range figure.Curves {
			if !c.Reference {
				item.Runs++
			}
		}
		for _, file := range f.files(figure) {
			item.Files = append(item.Files, file.name)
		}
		out.Figures = append(out.Figures, item)
	}
	return printJSON(cmd, out)
}
