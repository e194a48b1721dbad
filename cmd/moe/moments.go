package main

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard"
)

// shardFlags say which part of a table is read, and how.
type shardFlags struct {
	place     string
	at        shard.Place
	selection dataset.Selection
	cells     cellFlags
	out       string
}

func (f *shardFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.place, "shard", "1/1", "part `I/N` of the data, counted from 1")
	f.cells.register(cmd, "leave them out")
	flags.StringVarP(&f.out, "output", "o", "", "write the part's sums to this `FILE` (required)")
	cobra.CheckErr(cmd.MarkFlagRequired("output"))
}

func (f *shardFlags) check(inputs ...string) (err error) {
	if f.at, err = shard.ParsePlace(f.place); err != nil {
		return usagef("--shard %s: %w", f.place, err)
	}
	if err := f.cells.check(dataset.Drop); err != nil {
		return err
	}
	if err := distinct(f.out, inputs...); err != nil {
		return err
	}
	return creatable(f.out)
}

// openAll opens files as one table, one behind the other.
func openAll(files []string, open func(path string) (dataset.Source, error)) (dataset.Source, error) {
	var parts []dataset.Source
	for _, path := range files {
		src, err := open(path)
		if err != nil {
			return nil, err
		}
		parts = append(parts, src)
	}
	return dataset.Concat(parts...)
}

// momentsFlags are the flags of moe moments.
type momentsFlags struct {
	shardFlags
	activation activationFlags
	given      string
	k          int
	sigma      string
	family     string
	dof        string
	transform  string
	sample     shard.Subsample
}

func newMomentsCmd() *cobra.Command {
	f := new(momentsFlags)
	cmd := &cobra.Command{
		Use:   "moments DATA... --shard I/N -o FILE",
		Short: "Sum the moments of one part of a data set",
		Long: `moments reads part I of N of DATA and writes the sums that the moment tensors are
made of. moe merge puts those of all parts together, moe fit --moments estimates the
regressors from them: to the byte what fit --method moments with the same --transform
makes of all rows, whatever N is and wherever the parts were computed.

DATA is all of the data for every part: one file, or several that are read one
behind the other. A part is a range of its rows. NPY files are read from there on;
of others what stands before is read too.

There are two rounds. The first needs no activation: the second moments with the
powers of the target, and a random subsample of the rows. The second, --given the
merged first, sums the third and fourth moments in the span of the regressors that
--activation and --k imply. With --transform optimal the second round sums the second
moments of that transform, which needs the noise level that the first tells, and a
third, --given the merged second, the others in their span.`,
		Example: `  moe moments data.npy --shard 1/2 -o first-1.moments
  moe merge first-*.moments -o first.moments
  moe moments data.npy --given first.moments --activation relu --k 3 --shard 1/2 -o second-1.moments
  moe merge second-*.moments -o all.moments
  moe fit --moments all.moments --activation relu --k 3 -o start.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.selection.Target, "target", "", "the target's column `NAME` (default the last column)")
	flags.StringSliceVar(&f.selection.Features, "features", nil,
		"the features' column `NAMES` (default all but the target)")
	flags.StringSliceVar(&f.selection.Drop, "drop", nil, "column `NAMES` to leave out")
	flags.StringVar(&f.selection.Roles[model.Weights], "weights", "",
		"column `NAME` of observation weights: a row of weight w counts as w rows")
	flags.StringVar(&f.given, "given", "", "make the second round, given this merged `FILE` of the first")
	flags.StringVar(&f.activation.name, "activation", "",
		"second round: the nonlinearity `NAME`: a built-in, 'expr: TEXT', a trusted plugin's name or path")
	f.activation.registerParams(cmd)
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("activation", completeActivation))
	flags.IntVar(&f.k, "k", 0, "second round: number of experts")
	flags.StringVar(&f.sigma, "sigma", "auto", "second round: noise level where it is known, or auto to estimate it")
	flags.StringVar(&f.family, "family", fitted.Normal, "second round: the target's law `F`, as of moe fit")
	flags.StringVar(&f.dof, "dof", "auto", "second round: degrees of freedom of --family student-t, or auto")
	flags.StringVar(&f.transform, "transform", string(host.Polynomial),
		"second and third round: `NAME` of the transform: polynomial, or optimal, which takes a third round "+
			"(default of other families)")
	flags.IntVar(&f.sample.Rows, "subsample", 1<<16, "first round: about as many rows are taken for the subsample")
	addSeed(cmd, &f.sample.Seed)
	return cmd
}

// second are the flags of the second round, first those of the first.
var (
	momentsSecond = []string{"activation", "param", "k", "sigma", "family", "dof", "transform"}
	momentsFirst  = []string{"subsample", "seed"}
)

func (f *momentsFlags) check(cmd *cobra.Command, data []string) error {
	if err := f.shardFlags.check(append(data, f.given)...); err != nil {
		return err
	}
	if err := f.selection.Check(); err != nil {
		return err
	}
	others, round := momentsSecond, "second round: it needs --given"
	if f.given != "" {
		others, round = momentsFirst, "first round, which made the file of --given"
	}
	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return usagef("--%s is for the %s", name, round)
		}
	}
	switch {
	case f.given != "" && (f.activation.name == "" || f.k < 1):
		return usagef("--given needs --activation NAME and --k K, at least 1: the span of T2 depends on them")
	case f.dof != "auto" && f.family != host.StudentT:
		return usagef("--dof %s: only the family %s has degrees of freedom", f.dof, host.StudentT)
	case f.transform != string(host.Polynomial) && f.transform != string(host.Optimal):
		return usagef("--transform %s: want polynomial or optimal", f.transform)
	case f.family == host.Lognormal:
		return usagef("--family lognormal: the sums are of the target, and the family is of its logarithm")
	case !slices.Contains(host.Families(), f.family):
		return usagef("--family %s: there is no such family; there are %s", f.family,
			strings.Join(host.Families(), ", "))
	case f.sample.Rows < 1:
		return usagef("--subsample %d: want at least 1", f.sample.Rows)
	}
	return nil
}

func (f *momentsFlags) run(cmd *cobra.Command, data []string) error {
	if err := f.check(cmd, data); err != nil {
		return err
	}
	ctx := cmd.Context()
	src, err := openAll(data, func(path string) (dataset.Source, error) {
		return dataset.Open(path, f.cells.on(f.selection))
	})
	if err != nil {
		return err
	}
	m, err := f.sum(cmd, src)
	if err != nil {
		return err
	}
	if err := m.Write(ctx, f.out); err != nil {
		return err
	}
	return f.print(cmd, m)
}

func (f *momentsFlags) sum(cmd *cobra.Command, src dataset.Source) (*shard.Moments, error) {
	ctx := cmd.Context()
	t, err := shard.Open(ctx, src)
	if err != nil {
		return nil, err
	}
	if f.given == "" {
		return shard.Sum(ctx, src, t, f.at, f.sample)
	}
	sigma, err := parseSigma(f.sigma)
	if err != nil {
		return nil, err
	}
	dof, err := parseDof(f.dof)
	if err != nil {
		return nil, err
	}
	asked := shard.Asked{K: f.k, Sigma: sigma, Family: host.DensityName(f.family), Dof: dof}
	if asked.Family == "" || cmd.Flags().Changed("transform") {
		asked.Transform = host.Transform(f.transform)
	}
	first, err := shard.ReadMoments(f.given)
	if err != nil {
		return nil, err
	}
	plugin, err := f.activation.open(ctx)
	if err != nil {
		return nil, err
	}
	defer plugin.Close()
	return shard.SumSpan(ctx, src, t, f.at, f.given, first, plugin.Activation, asked)
}

// print says what was summed.
func (f *momentsFlags) print(cmd *cobra.Command, m *shard.Moments) error {
	from, to := m.Place.Blocks(m.Table.Blocks())
	if wantsJSON(cmd) {
		return printJSON(cmd, momentsJSON(f.out, m))
	}
	return say(cmd, "%s: round %d, part %d of %d, %d of %d blocks of 256 rows", f.out, m.Round(), m.Place.I, m.Place.N,
		to-from, m.Table.Blocks())
}

// momentsReport is what the commands print of a file of sums with --json.
type momentsReport struct {
	File   string `json:"file"`
	Format string `json:"format"`
	Round  int    `json:"round"`
	Part   int    `json:"part"`  // 0 for the whole
	Parts  int    `json:"parts"` // 0 for the whole
	Rows   int    `json:"rows"`  // of the table
}

func momentsJSON(file string, m *shard.Moments) momentsReport {
	return momentsReport{file, shard.MomentsFormat, m.Round(), m.Place.I, m.Place.N, m.Table.Rows}
}

// parseSigma reads --sigma; 0 is auto.
func parseSigma(text string) (float64, error) {
	if text == "auto" {
		return 0, nil
	}
	sigma, err := strconv.ParseFloat(text, 64)
	if err != nil || !(sigma > 0) || math.IsInf(sigma, 0) {
		return 0, usagef("--sigma %s: want a finite number above 0, or auto", text)
	}
	return sigma, nil
}
