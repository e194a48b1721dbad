package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/figures"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/sweep"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// sweepFlags are the flags of moe sweep.
type sweepFlags struct {
	activation  activationFlags
	grid        sweep.Grid
	k, n, sigma []string
	design      string
	threads     int
	out, plot   string
}

func newSweepCmd() *cobra.Command {
	f := new(sweepFlags)
	cmd := &cobra.Command{
		Use:   "sweep [NAME] --k K --n N -o FILE.csv",
		Short: "Fit samples over a grid of k, n and sigma, many times each",
		Long: `sweep draws a sample of a known mixture for every k, n, sigma and seed, fits it as
moe fit does, and writes a row of FILE.csv: e_reg and e_gating against the truth, the
log-likelihood of the fit and of the truth on the sample, the certificate's verdicts,
and the seconds on one thread. It prints the medians of each setting; --plot draws e_reg.

The file is written after every fit. The same command after an interruption does what
is not in it; with other settings it adds to what is there. Equal seeds give equal
rows, the seconds apart. A sample that no mixture can be fitted to, such as one of too few
rows, is a row whose status says why.`,
		Example: `  moe sweep --activation sigmoid --k 2:4 --n 1e3,1e4,1e5 --sigma 0.05,0.3 --seeds 20 -o sweep.csv --plot sweep.svg
  moe sweep --activation relu --k 3 --n 500,1000,2000 --d 8 --design random -o relu.csv`,
		Args: activationArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.activation.register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.k, "k", nil, "numbers of experts, such as 2:4 or 2,5 (required)")
	flags.StringSliceVar(&f.n, "n", nil, "numbers of rows, such as 1e3,1e4 (required)")
	flags.StringSliceVar(&f.sigma, "sigma", []string{"0.05"}, "standard deviations of the noise")
	flags.IntVar(&f.grid.D, "d", 10, "number of features")
	flags.IntVar(&f.grid.Seeds, "seeds", 10, "seeds for each setting, from --seed on")
	flags.StringVar(&f.design, "design", string(sample.Paper), "true parameters: "+strings.Join(sample.Designs(), ", "))
	flags.StringVar(&f.grid.InputsName, "inputs", "gaussian",
		"distribution of x: gaussian or symmetric-mixture:p=P[,norm=R]")
	flags.IntVar(&f.threads, "threads", 0, "fits side by side (default one per processor); the rows are the same")
	flags.StringVarP(&f.out, "output", "o", "", "the table's CSV `FILE`, added to where it is there (required)")
	flags.StringVar(&f.plot, "plot", "", "draw e_reg of every setting to this .svg or .png `FILE`")
	addSeed(cmd, &f.grid.First)
	for _, name := range []string{"k", "n", "output"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("design", cobra.FixedCompletions(sample.Designs(),
		cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (f *sweepFlags) run(cmd *cobra.Command) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	plugin, err := f.activation.open(ctx)
	if err != nil {
		return err
	}
	defer plugin.Close()
	f.grid.Activation, f.grid.Approximate = plugin.Activation, !plugin.InProcess()
	if err := f.grid.Check(); err != nil {
		return usagef("%w", err)
	}
	table, err := readSweep(f.out)
	if err != nil {
		return err
	}
	bar := newBar(cmd)
	fits, of := 0, len(f.grid.Settings())
	bar.show(stageSweep, 0, of)
	err = sweep.Run(ctx, &f.grid, table,
		sweep.Options{Threads: f.threads, Finished: func(t *sweep.Table, done, total int) error {
			bar.show(stageSweep, done, total)
			fits = done
			return f.write(ctx, t)
		}})
	bar.done()
	var signal *signalError
	if errors.As(context.Cause(ctx), &signal) {
		left := fmt.Sprintf("%d of %d fits are in %s, and the same command goes on with the others", fits, of, f.out)
		signal.left.Store(&left)
	}
	if err != nil {
		return err
	}
	if err := f.write(ctx, table); err != nil {
		return err
	}
	if err := f.draw(ctx, table); err != nil {
		return err
	}
	return f.print(cmd, table.Summaries(&f.grid))
}

// stageSweep is what the progress of a sweep is called.
const stageSweep host.Stage = "fits"

// readSweep reads the table of an earlier sweep, an empty one where there is none. A device or a pipe holds none: what
// is read from it may never end.
func readSweep(path string) (*sweep.Table, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
		return new(sweep.Table), nil
	}
	if err != nil {
		return nil, err
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return sweep.Read(file, path)
}

func (f *sweepFlags) write(ctx context.Context, t *sweep.Table) error {
	var out bytes.Buffer
	if err := t.Write(&out, &f.grid); err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, f.out, out.Bytes())
}

func (f *sweepFlags) draw(ctx context.Context, t *sweep.Table) error {
	if f.plot == "" {
		return nil
	}
	var out bytes.Buffer
	if err := (figures.Figure{Outcome: t.Outcome(&f.grid)}).Draw(&out, pictureFormat(f.plot)); err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, f.plot, out.Bytes())
}

// pictureFormat is that of a picture's file by its name.
func pictureFormat(path string) string {
	return strings.ToLower(strings.TrimPrefix(filepath.Ext(path), "."))
}

// check reads the lists, and looks at whether the outputs can be created.
func (f *sweepFlags) check(cmd *cobra.Command) (err error) {
	if f.grid.K, err = expertCounts(f.k); err != nil {
		return err
	}
	for _, text := range f.n {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || n < 1 || n != math.Trunc(n) || n > math.MaxInt32 {
			return usagef("--n %s: want a number of rows", text)
		}
		f.grid.N = append(f.grid.N, int(n))
	}
	for _, text := range f.sigma {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || !(v > 0) || math.IsInf(v, 0) {
			return usagef("--sigma %s: want a finite number above 0", text)
		}
		f.grid.Sigma = append(f.grid.Sigma, v)
	}
	if f.grid.Seeds < 1 {
		return usagef("--seeds %d: want at least 1", f.grid.Seeds)
	}
	if fits := float64(len(f.grid.K)) * float64(len(f.grid.N)) * float64(len(f.grid.Sigma)) * float64(
		f.grid.Seeds); fits > mostFits {
		return usagef("%.3g settings and seeds: want at most %d fits", fits, mostFits)
	}
	if cmd.Flags().Changed("threads") && f.threads < 1 {
		return usagef("--threads %d: want at least 1", f.threads)
	}
	f.grid.Design = sample.Design(f.design)
	if f.grid.Inputs, err = sample.ParseInputs(f.grid.InputsName); err != nil {
		return usagef("--inputs: %w", err)
	}
	if format := pictureFormat(f.plot); f.plot != "" && format != "svg" && format != "png" {
		return usagef("--plot %s: want a name that ends in .svg or .png", f.plot)
	}
	if err := distinct(f.out, f.plot); err != nil {
		return err
	}
	return creatable(f.out, f.plot)
}

// mostFits bounds a sweep: its list is made before the first fit.
const mostFits = 1_000_000

// expertCounts reads numbers of experts and ranges of them.
func expertCounts(list []string) (out []int, err error) {
	for _, text := range list {
		first, last, isRange := strings.Cut(text, ":")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || from < 1 || to < from {
			return nil, usagef("--k %s: want a number of experts, or a range such as 2:4", text)
		}
		if to-from >= mostFits-len(out) {
			return nil, usagef("--k %s: more than %d fits", text, mostFits)
		}
		for k := from; k <= to; k++ {
			out = append(out, k)
		}
	}
	return out, nil
}

// sweepJSON is the JSON of moe sweep.
type sweepJSON struct {
	Output   string          `json:"output"`
	Plot     string          `json:"plot"` // "" for none
	Settings []sweep.Summary `json:"settings"`
}

func (f *sweepFlags) print(cmd *cobra.Command, settings []sweep.Summary) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, sweepJSON{Output: f.out, Plot: f.plot, Settings: settings})
	}
	rows := [][]string{{"k", "sigma", "n", "fits", "e_reg", "e_gating", "truth reached", "optimum passed",
		"model passed", "s a fit"}}
	for _, s := range settings {
		row := []string{fmt.Sprint(s.K), fmt.Sprint(s.Sigma), fmt.Sprint(s.N), fmt.Sprint(s.Runs)}
		if s.Runs > 0 {
			row = append(row, fmt.Sprintf("%.3g", s.EReg), fmt.Sprintf("%.3g", s.EGating),
				fmt.Sprint(s.ReachedTruth), fmt.Sprint(s.OptimumPassed), fmt.Sprint(s.ModelPassed),
				fmt.Sprintf("%.3f", s.SecondsPerFit))
		} else {
			row = append(row, "-", "-", "-", "-", "-", "-")
		}
		rows = append(rows, row)
	}
	w := textOut(cmd)
	if _, err := fmt.Fprintf(w, "%s experts, d = %d, design %s; e_reg, e_gating and seconds are medians.\n",
		f.grid.Activation.Info().Name, f.grid.D, f.design); err != nil {
		return err
	}
	return report.Table(w, rows)
}
