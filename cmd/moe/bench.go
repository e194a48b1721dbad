package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/benchmark"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/sdk"
)

func newBenchCmd() *cobra.Command {
	s := benchmark.Default
	var quick bool
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how fast this machine fits",
		Long: `bench measures the stages of a fit on this machine, in less than a minute: rows a
second of each, by its fastest pass over a table of 400,000 rows, 10 features and 3
identity experts, and the share of the limit. The limit is what the machine could do
if a stage were nothing but reading the rows, at the speed of a loop that copies, or
nothing but multiply-adds, at the speed of dot products of what is in the cache,
whichever takes longer; exp, log and the rest count nothing.

Beside them stand the committed figures, those of docs/studies/performance.md, which are of
one thread: --threads 1 compares like with like. It says how many times as long as there
each stage takes a thread here, the machine's own number, which is the median of the stages',
and which stages are slow: those that take more than twice the machine's number.`,
		Example: `  moe bench --threads 1
  moe bench --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("threads") && s.Threads < 1 {
				return usagef("--threads %d: want at least 1", s.Threads)
			}
			if quick {
				s.N, s.Least = 20_000, 20*time.Millisecond
			}
			return bench(cmd, s)
		},
	}
	cmd.Flags().IntVar(&s.Threads, "threads", 0, "threads to use (default one per processor)")
	cmd.Flags().BoolVar(&quick, "quick", false,
		"20,000 rows and a few passes: a second or two, and no figures to rely on")
	return cmd
}

func bench(cmd *cobra.Command, s benchmark.Settings) error {
	act, err := openIdentity(cmd)
	if err != nil {
		return err
	}
	bar := newBar(cmd)
	out, err := benchmark.Run(cmd.Context(), act, s,
		func(stage string, done, total int) { bar.show(host.Stage(stage), done, total) })
	bar.done()
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, out)
	}
	return printStages(textOut(cmd), out)
}

// openIdentity opens the activation that machines are measured with.
func openIdentity(cmd *cobra.Command) (sdk.Activation, error) {
	p, err := catalog.Open(cmd.Context(), "identity", nil)
	if err != nil {
		return nil, err
	}
	return p.Activation, nil
}

func printStages(w io.Writer, s *benchmark.Stages) error {
	fmt.Fprintf(w, "%d rows, %d features, %d identity experts, threads: %d\n", s.N, s.D, s.K, s.Threads)
	fmt.Fprintf(w, "memory %.1f GB/s (a loop that copies), %.1f billion multiply-adds a second (dot products in "+
		"cache)\n\n", s.BytesPerSecond/1e9, s.MultiplyAdds/1e9)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "stage\tmillion rows/s\tshare of limit\tcommitted, one thread\ttimes as long")
	for _, st := range s.Stages {
		times := "-"
		if st.Times > 0 {
			times = fmt.Sprintf("%.2f", st.Times)
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.0f %% of %s\t%.2f\t%s\n", st.Name, st.RowsPerSecond/1e6, 100*st.Share, st.Limit,
			st.Committed/1e6, times)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\n"+comparison(s))
	return err
}

// comparison says how this machine stands beside that of the committed figures.
func comparison(s *benchmark.Stages) string {
	if s.Times == 0 {
		return "The committed figures are of another table, and nothing is compared with them."
	}
	text := fmt.Sprintf("A stage takes a thread %.2f times as long as for the committed figures (median). ", s.Times)
	slow := s.Slow()
	if len(slow) == 0 {
		return text + fmt.Sprintf("None takes %d times that: none is slow beside the others.", benchmark.SlowFactor)
	}
	names := make([]string, len(slow))
	for i, st := range slow {
		names[i] = fmt.Sprintf("%s (%.1f)", st.Name, st.Times/s.Times)
	}
	return text + fmt.Sprintf("Slow beside the others, more than %d times that: %s.", benchmark.SlowFactor,
		strings.Join(names, ", "))
}
