package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/benchmark"
	"github.com/gatedlearning/moe/host/experiment"
	"github.com/gatedlearning/moe/host/figures"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// scaling is the one FIGURE that measures time. It is of this machine, made when it is
// asked for by name, and kept nowhere but in its files.
const scaling = "scaling"

// scalingJSON is what moe reproduce scaling --json prints.
type scalingJSON struct {
	benchmark.Growth
	Threads   int      `json:"threads"`
	Directory string   `json:"directory"`
	Files     []string `json:"files"`
}

// grow measures and draws how time and memory grow.
func (f *reproduceFlags) grow(cmd *cobra.Command) error {
	switch {
	case len(f.ids) > 1 || f.list || f.activation.name != "":
		return usagef("%s measures time: ask for it alone", scaling)
	case cmd.Flags().Changed("threads") && f.threads < 1:
		return usagef("--threads %d: want at least 1", f.threads)
	}
	if f.dir == "" {
		f.dir = "results-" + scaling
	}
	if err := os.MkdirAll(f.dir, 0o777); err != nil {
		return &atomicfile.CreateError{Path: f.dir, Err: err}
	}
	act, err := openIdentity(cmd)
	if err != nil {
		return err
	}
	axes := benchmark.Axes(f.quick)
	bar, made, total := newBar(cmd), 0, 0
	for _, sizes := range axes {
		total += len(sizes)
	}
	bar.show(host.Stage("fits"), 0, total)
	g, err := benchmark.Grow(cmd.Context(), act, axes, f.threads, func(benchmark.Fit) {
		made++
		bar.show(host.Stage("fits"), made, total)
	})
	bar.done()
	if err != nil {
		return err
	}
	files := []output{{scaling + ".csv", func(w io.Writer) error { return growthCSV(w, g) }}}
	for _, axis := range benchmark.AxisNames() {
		for _, format := range []string{"svg", "png"} {
			files = append(files, output{scaling + "-" + axis + "." + format, func(w io.Writer) error {
				return figures.Figure{Outcome: growthPicture(g, axis)}.Draw(w, format)
			}})
		}
	}
	out := scalingJSON{Growth: *g, Threads: f.threads, Directory: f.dir}
	for _, file := range files {
		if err := f.write(cmd, file); err != nil {
			return err
		}
		out.Files = append(out.Files, file.name)
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, out)
	}
	if err := printGrowth(textOut(cmd), g); err != nil {
		return err
	}
	remark(cmd, "moe: wrote %s and pictures beside it", filepath.Join(f.dir, scaling+".csv"))
	return nil
}

func printGrowth(w io.Writer, g *benchmark.Growth) error {
	var b bytes.Buffer
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "n\td\tk\tCPU s\twall s\tMiB\tstarts\titerations\tconverged\t")
	for i, fit := range g.Fits {
		if i > 0 && fit.Axis != g.Fits[i-1].Axis {
			fmt.Fprintln(t, "\t\t\t\t\t\t\t\t\t")
		}
		converged := "yes"
		if !fit.Converged {
			converged = "no"
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%.2f\t%.2f\t%.0f\t%d\t%d\t%s\t\n", fit.N, fit.D, fit.K, fit.CPUSeconds, fit.Seconds,
			fit.Bytes/(1<<20), fit.Starts, fit.Iterations, converged)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	for _, e := range g.Exponents {
		fmt.Fprintf(&b, "CPU time grows as %s^%.2f, memory as %s^%.2f (the larger half of the fits)\n", e.Axis, e.Time,
			e.Axis, e.Memory)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func growthCSV(w io.Writer, g *benchmark.Growth) error {
	c := csv.NewWriter(w)
	c.Write([]string{"axis", "n", "d", "k", "cpu_seconds", "seconds", "bytes", "starts", "iterations", "converged"})
	for _, f := range g.Fits {
		c.Write([]string{
			f.Axis, strconv.Itoa(f.N), strconv.Itoa(f.D), strconv.Itoa(f.K), fmt.Sprintf("%.4g", f.CPUSeconds),
			fmt.Sprintf("%.4g", f.Seconds),
			fmt.Sprintf("%.0f", f.Bytes), strconv.Itoa(f.Starts), strconv.Itoa(f.Iterations),
			strconv.FormatBool(f.Converged),
		})
	}
	c.Flush()
	return c.Error()
}

// growthPicture is time and memory along an axis.
func growthPicture(g *benchmark.Growth, axis string) *experiment.Outcome {
	seconds, bytes := experiment.Curve{Series: "CPU seconds"}, experiment.Curve{Series: "memory, GiB"}
	for _, f := range g.Fits {
		if f.Axis == axis {
			x := float64(map[string]int{"n": f.N, "d": f.D, "k": f.K}[axis])
			seconds.X, seconds.Y = append(seconds.X, x), append(seconds.Y, f.CPUSeconds)
			bytes.X, bytes.Y = append(bytes.X, x), append(bytes.Y, f.Bytes/(1<<30))
		}
	}
	at := slices.IndexFunc(g.Exponents, func(e benchmark.Exponent) bool { return e.Axis == axis })
	seconds.Series += fmt.Sprintf(" (exponent %.2f)", g.Exponents[at].Time)
	bytes.Series += fmt.Sprintf(" (exponent %.2f)", g.Exponents[at].Memory)
	label := map[string]string{"n": "rows n", "d": "features d", "k": "experts k"}[axis]
	return &experiment.Outcome{
		Figure: &experiment.Figure{
			ID: scaling + "-" + axis, Title: "A fit by method auto against its " + label,
			X: experiment.Axis{Label: label, Log: true}, Y: experiment.Axis{Label: "CPU seconds, GiB", Log: true},
		},
		Curves: []experiment.Curve{seconds, bytes},
	}
}
