package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/tablefile"
)

// sampleFlags are the flags of moe sample.
type sampleFlags struct {
	activation activationFlags
	tree       treeFlags
	config     sample.Config
	design     string
	inputs     string
	targets    int
	family     string
	dispersion float64
	dof        float64
	correlated float64
	out, truth string
}

func newSampleCmd() *cobra.Command {
	f := new(sampleFlags)
	cmd := &cobra.Command{
		Use:   "sample [NAME] --k K --d D --n N -o FILE",
		Short: "Draw a data set from a mixture of experts",
		Long: `sample draws n rows from a mixture of k experts over d features and writes
the columns x1 ... xd, y as CSV, NPY or Parquet. The same seed gives the same
numbers in all formats.

Designs: paper has regressors a_i = e_i and gating vectors w_i = e_{k+i};
orthogonal-gating draws unit regressors, and unit gating vectors orthogonal to
all of them; random draws both without constraint; separated does so with regressors
at least 0.5 apart.
Inputs: gaussian is N(0, I); symmetric-mixture:p=P is P*N(m, I) + (1-P)*N(-m, I)
with a random unit vector m, times R where ,norm=R follows.

With --hierarchy the experts are the leaves of a tree of gates, and with --leaves they
have activations of their own. Row i of the gating belongs to the gate at which leaves
i and i+1 part. With --recurrent the rows are a trajectory: the last feature is the y of
the row before, 0 at first, so that y is the state of a noisy gated recurrence.

With --targets M every expert has M outputs, y1 ... yM, each with regressors of its own,
under one gate, and noise that is correlated between them by --correlation. The truth is
then a model file of format moe-model/v2, which moe fit --targets y1,...,yM --gate-shared
and moe evaluate compare with.`,
		Example: `  moe sample --activation relu --k 2 --d 10 --n 10000 --sigma 0.05 -o data.csv --truth truth.json
  moe sample --activation leakyrelu --param slope=0.1 --k 3 --d 12 --n 3000 --design random -o data.npy --seed 7
  moe sample --activation tanh --k 2 --d 4 --n 5000 --targets 2 --correlation 0.6 --design separated -o pairs.csv --truth truth.json
  moe sample --hierarchy '2x(1,2)' --leaves identity,tanh,tanh --d 6 --n 10000 --design separated -o tree.csv --truth truth.json`,
		Args: activationArg,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.activation.register(cmd)
	f.tree.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.config.K, "k", 0, "number of experts (required)")
	flags.IntVar(&f.config.D, "d", 0, "number of features (required)")
	flags.IntVar(&f.config.N, "n", 0, "number of rows (required)")
	flags.Float64Var(&f.config.Sigma, "sigma", 0.05, "standard deviation of the noise")
	flags.StringVar(&f.family, "family", "", "law of y given its mean: "+strings.Join(host.Families(), ", ")+
		"; without --activation g is its own, as in fit (default gaussian)")
	flags.Float64Var(&f.dispersion, "dispersion", 2, "theta of --family negative-binomial, shape of --family gamma")
	flags.Float64Var(&f.dof, "dof", 4, "degrees of freedom of --family student-t")
	flags.BoolVar(&f.config.Zero, "zero-expert", false,
		"beside the experts of counts one that is always 0: zero inflation")
	flags.IntVar(&f.config.Trials, "trials", 0,
		"trials of every row of --family binomial, which stand in a column before y")
	flags.StringVar(&f.design, "design", string(sample.Paper), "true parameters: "+strings.Join(sample.Designs(), ", "))
	flags.StringVar(&f.inputs, "inputs", "gaussian", "distribution of x: gaussian or symmetric-mixture:p=P[,norm=R]")
	flags.BoolVar(&f.config.Recurrent, "recurrent", false, "make the last feature of every row the y of the row before")
	flags.IntVar(&f.targets, "targets", 1, "number of targets, under one gate")
	flags.Float64Var(&f.correlated, "correlation", 0, "correlation of the noise of any two of the targets")
	flags.StringVarP(&f.out, "output", "o", "", "data `FILE`, .csv, .npy or .parquet (required)")
	flags.StringVar(&f.truth, "truth", "", "write the true parameters to this JSON `FILE`")
	addSeed(cmd, &f.config.Seed)
	for _, name := range []string{"k", "d", "n", "output"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
	relieved := cmd.PreRun
	cmd.PreRun = func(cmd *cobra.Command, args []string) {
		relieved(cmd, args)
		f.tree.relieve(cmd, "family", "activation")
	}
	return cmd
}

func (f *sampleFlags) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	if err := f.check(cmd); err != nil {
		return err
	}
	experts, err := f.tree.open(ctx, &f.activation)
	if err != nil {
		return err
	}
	defer experts.Close()
	act, own := experts.activation()
	f.config.Activation, f.config.Tree = act, f.tree.shape
	for _, g := range own {
		f.config.Leaves = append(f.config.Leaves, g)
	}
	if f.targets > 1 {
		return f.runTargets(cmd, experts)
	}
	sampler, err := sample.New(f.config)
	if err != nil {
		return usagef("%w", err)
	}
	named, leaves, err := experts.described(ctx)
	if err != nil {
		return err
	}
	truth := known.NewTruth(named, sampler.Truth, leaves...)
	var rows dataset.Source = sampler
	if f.family == host.Lognormal {
		rows = lognormal{sampler}
	}
	if f.config.Trials > 0 {
		rows = trialsBefore{sampler}
	}
	if err := writeBeside(ctx, f.truth, truth, f.out, rechecked{rows, experts.Recheck}); err != nil {
		return err
	}
	named, leaves = experts.named()
	return f.report(cmd, known.NewTruth(named, sampler.Truth, leaves...))
}

// runTargets is run for several targets under one gate.
func (f *sampleFlags) runTargets(cmd *cobra.Command, e *experts) error {
	ctx := cmd.Context()
	sampler, err := sample.NewVector(f.config, f.targets, f.correlated)
	if err != nil {
		return usagef("%w", err)
	}
	named, leaves, err := e.described(ctx)
	if err != nil {
		return err
	}
	if leaves == nil {
		leaves = slices.Repeat([]stated.Activation{named}, f.config.K)
	}
	truth := fitted.NewSharedGate(sampler.Truth, sampler.Schema().Features[:f.config.D], sampler.Targets(), leaves)
	if err := writeBeside(ctx, f.truth, truth, f.out, rechecked{sampler, e.Recheck}); err != nil {
		return err
	}
	if wantsJSON(cmd) {
		named, leaves = e.named()
		out := f.described(known.NewTruth(named, sampler.Truth.Coordinate(0), leaves...))
		out.Targets, out.Correlation = f.targets, &f.correlated
		return printJSON(cmd, out)
	}
	return say(cmd, "%s: %d rows of x1 to x%d and y1 to y%d, from %d experts under one gate with sigma %v, "+
		"correlation %v (design %s, inputs %s, seed %d)",
		f.out, f.config.N, f.config.D, f.targets, f.config.K, f.config.Sigma, f.correlated, f.design, f.inputs,
		f.config.Seed)
}

// check looks at the flags and at whether the outputs can be created, before
// anything is started.
func (f *sampleFlags) check(cmd *cobra.Command) (err error) {
	if f.config.K, err = f.tree.parse(cmd, f.config.K, &f.activation); err != nil {
		return err
	}
	f.config.Design = sample.Design(f.design)
	if f.config.Inputs, err = sample.ParseInputs(f.inputs); err != nil {
		return usagef("--inputs: %w", err)
	}
	if err := f.checkFamily(cmd); err != nil {
		return err
	}
	if f.activation.name == "" && f.tree.parsed == nil {
		f.activation.name = host.ActivationOf(f.family)
	}
	switch {
	case f.targets < 1:
		return usagef("--targets %d: want at least 1", f.targets)
	case f.targets == 1 && cmd.Flags().Changed("correlation"):
		return usagef("--correlation has no effect on one target")
	case f.targets > 1 && f.config.Recurrent:
		return usagef("--recurrent has no effect beside --targets: a recurrent sample has one target")
	}
	return checkSampled(f.out, f.truth)
}

// checkFamily gives the sample its law, and refuses parameters that this does not have.
func (f *sampleFlags) checkFamily(cmd *cobra.Command) error {
	if f.family != "" && !slices.Contains(host.Families(), f.family) {
		return usagef("--family %s: there is no such family; there are %s", f.family,
			strings.Join(host.Families(), ", "))
	}
	f.config.Family = host.DensityName(f.family)
	if cmd.Flags().Changed("trials") && (f.config.Trials < 1 || f.family != host.Binomial) {
		return usagef("--trials %d: want at least 1, of --family binomial", f.config.Trials)
	}
	if f.config.Zero && !host.Counts(f.family) {
		return usagef("--zero-expert: only counts have an expert that is always 0: --family negative-binomial or " +
			"poisson")
	}
	if f.config.Family != "" && f.targets > 1 {
		return usagef("--family %s: several targets are normal", f.family)
	}
	takes := map[string]*float64{}
	for _, own := range mixture.DensityOf(f.config.Family).Own() {
		switch own.Name {
		case mixture.Sigma:
			takes["sigma"] = &f.config.Sigma
		case "dof":
			takes["dof"], f.config.Own = &f.dof, []float64{f.dof}
		default:
			takes["dispersion"] = &f.dispersion
		}
	}
	for _, name := range []string{"sigma", "dispersion", "dof"} {
		v := takes[name]
		if v == nil && cmd.Flags().Changed(name) {
			return usagef("--%s has no effect on --family %s", name, cmp.Or(f.family, fitted.Normal))
		}
		if v != nil && (!(*v > 0) || math.IsInf(*v, 0)) {
			return usagef("--%s %v: want a finite number above 0", name, *v)
		}
	}
	switch {
	case takes["dispersion"] != nil:
		f.config.Sigma = f.dispersion
	case takes["sigma"] == nil:
		f.config.Sigma = 0
	}
	return nil
}

// law is what the sample says of its noise.
func (f *sampleFlags) law() string {
	var words []string
	if f.family != "" && f.family != fitted.Normal {
		words = append(words, "family "+f.family)
	}
	if f.config.Zero {
		words = append(words, "a zero expert")
	}
	if f.config.Trials > 0 {
		words = append(words, fmt.Sprintf("trials %d", f.config.Trials))
	}
	for q, own := range mixture.DensityOf(f.config.Family).Own() {
		words = append(words, fmt.Sprintf("%s %v", own.Name, append([]float64{f.config.Sigma}, f.config.Own...)[q]))
	}
	return strings.Join(words, ", ")
}

// lognormal are rows whose targets are the exponentials of those drawn.
type lognormal struct{ dataset.Source }

func (l lognormal) Read(ctx context.Context, fn func(*model.Block) error) error {
	return l.Source.Read(ctx, func(b *model.Block) error {
		out := *b
		out.Y = make([]float64, b.N)
		for t, v := range b.Y {
			out.Y[t] = math.Exp(v)
		}
		return fn(&out)
	})
}

// trialsBefore are rows whose trials are a column before the target, which stays the last.
type trialsBefore struct{ dataset.Source }

func (s trialsBefore) Schema() dataset.Schema {
	schema := s.Source.Schema()
	schema.Features = append(slices.Clone(schema.Features), schema.Roles[model.Trials])
	schema.Roles[model.Trials] = ""
	return schema
}

func (s trialsBefore) Read(ctx context.Context, fn func(*model.Block) error) error {
	return s.Source.Read(ctx, func(b *model.Block) error {
		return fn(&model.Block{N: b.N, X: slices.Concat(b.X, b.Role[model.Trials]), Y: b.Y})
	})
}

// checkSampled looks at whether data and their truth, "" for none, can be created.
func checkSampled(dataPath, truthPath string) error {
	if _, err := tablefile.ExtensionOf(dataPath); err != nil {
		return usagef("%w", err)
	}
	if err := distinct(dataPath, truthPath); err != nil {
		return err
	}
	return creatable(dataPath, truthPath)
}

// writeBeside writes data and their truth, both or neither: a truth beside data that
// it does not belong to would be believed. A truthPath of "" is none.
func writeBeside(ctx context.Context, truthPath string, truth interface{ JSON() ([]byte, error) }, dataPath string,
	data dataset.Source) error {
	if truthPath == "" {
		return dataset.Write(ctx, dataPath, data)
	}
	text, err := truth.JSON()
	if err != nil {
		return err
	}
	beside, err := atomicfile.Create(ctx, truthPath)
	if err != nil {
		return err
	}
	defer beside.Discard()
	if _, err := beside.Write(text); err != nil {
		return err
	}
	table, err := atomicfile.Create(ctx, dataPath)
	if err != nil {
		return err
	}
	defer table.Discard()
	if err := dataset.WriteTo(ctx, table, dataPath, data); err != nil {
		return err
	}
	return atomicfile.CommitAll(table, beside)
}

// sampleJSON is the JSON of moe sample.
type sampleJSON struct {
	Output     string              `json:"output"`
	Truth      string              `json:"truth"` // "" for none
	Activation stated.Activation   `json:"activation"`
	Hierarchy  string              `json:"hierarchy,omitempty"`
	Leaves     []stated.Activation `json:"leaves,omitempty"`
	K          int                 `json:"k"`
	D          int                 `json:"d"`
	N          int                 `json:"n"`
	Sigma      float64             `json:"sigma"` // 0 where the family has none
	Family     string              `json:"family,omitempty"`
	Own        fitted.Own          `json:"own,omitempty"`    // of the family, beside sigma
	Trials     int                 `json:"trials,omitempty"` // of every row
	Design     string              `json:"design"`
	Inputs     string              `json:"inputs"`
	Seed       uint64              `json:"seed"`

	Targets     int      `json:"targets,omitempty"` // where there are several
	Correlation *float64 `json:"correlation,omitempty"`
}

// described is the JSON of a sample from this truth.
func (f *sampleFlags) described(truth *known.Truth) sampleJSON {
	return sampleJSON{
		Output: f.out, Truth: f.truth, Activation: truth.Activation, Hierarchy: truth.Hierarchy, Leaves: truth.Leaves,
		K: f.config.K, D: f.config.D, N: f.config.N, Sigma: truth.Sigma, Family: f.family, Own: truth.Own,
		Trials: f.config.Trials, Design: f.design, Inputs: f.inputs, Seed: f.config.Seed,
	}
}

func (f *sampleFlags) report(cmd *cobra.Command, truth *known.Truth) error {
	if wantsJSON(cmd) {
		return printJSON(cmd, f.described(truth))
	}
	of, under := truth.Activation.Name, ""
	if truth.Leaves != nil {
		of = report.Activations(truth.Activation, truth.Leaves)
	}
	if truth.Hierarchy != "" {
		under = " under the tree " + truth.Hierarchy
	}
	columns := fmt.Sprintf("x1 to x%d", f.config.D)
	if f.config.Trials > 0 {
		columns += ", trials"
	}
	return say(cmd,
		"%s: %d rows of %s and y, from %d %s experts%s with %s (design %s, inputs %s, seed %d)",
		f.out, f.config.N, columns, f.config.K, of, under, f.law(), f.design, f.inputs, f.config.Seed)
}
