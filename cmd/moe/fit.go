package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/terms"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/sdk"
)

// fitFlags are the flags of moe fit.
type fitFlags struct {
	data       string
	moments    string // the file of sums, "" for data
	targets    []string
	shared     sharedGateFlags
	sums       *shard.Moments
	input      *input
	selection  dataset.Selection
	cells      cellFlags
	formula    string
	terms      terms.Request
	references []string
	activation activationFlags
	tree       treeFlags
	config     host.Config
	method     methodFlags
	gate       string
	noise      string
	output     string
	k          string
	to         int // the largest k of a range, 0 for a single k
	start      string
	resume     bool
	memory     memorySize
	exact      bool
	intercept  bool
	robust     bool
	hac        bool
	strict     bool
	all        bool
	sigma      string
	truth      string
	out        string
	report     string
}

func newFitCmd() *cobra.Command {
	f := new(fitFlags)
	cmd := &cobra.Command{
		Use:   "fit DATA --activation NAME --k K",
		Short: "Fit a mixture of experts to a data set",
		Long: `fit learns the regressors a_i, the gate w_i and the noise level of a mixture of
k experts from the rows of DATA, a CSV, NPY or Parquet file, or - for standard
input. The target is the last column unless --target names one. A CSV file may have
semicolons or tabs between its fields and be compressed by gzip or zstd.

A column of words is a factor: a 0/1 column for every level but the reference, the
commonest or that of --reference COLUMN=LEVEL. --categorical makes factors of columns
of numbers too. Rows with missing cells are refused, or left out by --missing drop.

With --formula 'y ~ EXPERTS | GATE' the features are the terms of a formula as in R:
+ - * : ^ ( ) . and I(), log, exp, sqrt, poly(COLUMN, DEGREE), factor(COLUMN). Both
sides of the bar have an intercept unless they take it away by - 1; without a bar
the gate has the experts' terms. The model file keeps the terms, so that predict
needs the columns only.

Method auto estimates the regressors by moment tensors, screens that estimate and
other starts on part of the data until several agree on the best optimum, and
maximises the joint likelihood on all rows. Method moments is the moment
estimate with the gate fitted to it. Method spectral is the first of the papers' two:
regressors, signs and proportions from the decomposition of a cubic tensor, then the
gate by EM with the regressors held; it needs a g that is not even. Method em is joint EM from random starts,
with sigma fixed where --sigma gives it.

Methods l2 and l4 are the papers' own, by mini-batches, --epochs times over the
rows. Method l2 descends the mean squared error over regressors and gate from
random starts and keeps the least; it has local optima. Method l4 descends the
tensor loss L4 over regressors in the full space, then fits the gate by projected
gradient descent within --radius. Over the rows of a table L4 has no lower bound:
a descent that leaves for infinity ends with status "diverged" and exit code 1, and
the model is that of the point where it moved least. The default ridge and number
of epochs make that rare where the rows are many enough for L4 to tell anything;
method moments needs fewer of them and does not diverge. With --penalty norm L4 is that
of the papers' slides, which holds the rows' norms near 1 and is bounded for a large
--lambda.

The moment tensors are made of transforms of y. --transform polynomial takes the
papers'; optimal takes those of minimum variance for g, k and the noise level, which
is told from y where --sigma does not give it. They need several times fewer rows, and
Gaussian noise.

A plugin is evaluated by a native approximation that is built from its own
values, checked against it, and kept in the model file; --exact-activation takes
every value from the plugin instead.

The result of auto and em carries a certificate: whether the residuals show merged
experts, as those of most local optima do, and how many starts found nothing
better; and whether the model describes the data. It is evidence, not proof: a
better optimum can exist where both verdicts pass. An optimum in doubt is given
more starts, up to --starts.

With --hierarchy SHAPE the experts are the leaves of a tree of gates: 2x2 is a gate over
two gates over two experts each, 2x(1,2) one whose first branch is an expert. With
--leaves they have activations of their own, from left to right. A tree is fitted by
method auto, whose starts are then the best of a search under one gate and others,
arranged in the tree, or by method em.

With --hierarchy auto the tree is grown: from one expert, by making a leaf a gate of two as
long as that lowers BIC, then by making branches leaves again as long as that does, then
by joining a gate with the one above it. All
trees on the way are printed; --max-leaves bounds it.

With --targets every one of several targets gets a mixture of its own, with its gate and its
experts, over the same features: the fits side by side, one after the other, in one file of
format moe-model/v2, which predict and evaluate read. With --gate-shared beside it the
targets share one gate: a row's expert is that of all targets, each expert has a regressor for
every target, and the noise of a row's targets is independent, or with --noise-covariance full
correlated, the same for all experts unless --noise says otherwise. Such a fit starts from
random and clustered starts of all targets together, and has one certificate.

With --output-scale the experts' means are c + s*g(<a,x>), an offset and a scale of all
experts (shared) or of each (per-expert), fitted with the rest: a sigmoid, which goes
from 0 to 1, fits a target of any size. Where g(tz) = t*g(z) the scale's size is in the
regressors' norms, and s is 1 or -1; where g(-z) = const - g(z) it is above 0.

A fit lists the optima that it has seen within 6 units of log-likelihood of the best and
that share the rows out among the experts in another way: its intervals hold given its own.
With --arrangements each has a weight, and intervals and predictions are over all of them.

With --hac come second standard errors beside the first, which hold where rows follow each
other in time: the sandwich with the Bartlett kernel (Newey and West 1987), whose bandwidth is
told from the data (Andrews 1991), and how many of them a 95 % interval goes to either side.

With --k FROM:TO every number of experts in the range is fitted and compared by
log-likelihood, AIC, BIC and ICL (BIC plus twice the entropy of the posteriors),
less being better; the model of the least BIC is written.

With --moments FILE the data are the merged sums of moe moments. Methods moments and
spectral take their tensors from the sums of all rows, and the gate, the noise level
and the likelihood from the random subsample beside them; the other methods, and auto
by default, fit the subsample, auto from the moment estimate of all rows too. What auto finds
is where moe newton begins on all rows, with its near-best optima.

Rows that would take more than half of the memory that is free, or do not fit into
--max-memory, stay in their file and are read again by every pass: an NPY file in
place, others from a copy in the directory of temporary files (TMPDIR). The model is
the same to the byte. Methods l2 and l4 need all rows in memory.

An interrupted fit by method auto leaves FILE.checkpoint beside the output FILE,
from which the same command with --resume goes on, to the same bytes.

The exit code is 1 if the fit did not converge or its optimum stays suspect, and
with --strict if the model is suspect; the model is written all the same, and
says so.`,
		Example: `  moe fit data.csv --activation relu --k 2 -o model.json
  moe fit data.npy --activation leakyrelu --param slope=0.1 --k 5 --seed 7 --json
  moe fit tone.csv --activation identity --k 2 --intercept --noise per-expert --report tone.html
  moe fit data.csv --activation identity --k 2 --method l4 --batch 512 --lambda 20 --radius 5
  moe fit trial.csv --target dose --drop id,site --activation sigmoid --k 3 -o model.json
  moe fit trial.csv --formula 'dose ~ age * sex + log(weight) | age + site' --activation identity --k 2 -o model.json
  moe fit curve.csv --activation sigmoid --k 1 --intercept --output-scale shared -o curve.json
  moe fit data.csv --hierarchy 2x2 --leaves relu -o tree.json
  moe fit states.csv --hierarchy '2x(1,2)' --leaves identity,tanh,tanh -o unit.json
  moe fit data.csv --hierarchy auto --activation identity -o grown.json
  moe fit states.csv --targets next1,next2 --activation tanh --k 3 -o states.json
  moe fit states.csv --targets next1,next2 --gate-shared --noise-covariance full --activation tanh --k 3 -o states.json
  zcat trial.csv.gz | moe fit - --missing drop --activation identity --k 2 --intercept`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 1 && f.moments == "":
				f.data = args[0]
			case len(args) == 0 && f.moments != "":
				f.data = f.moments
			default:
				return usagef("want one of DATA and --moments FILE")
			}
			return f.run(cmd)
		},
	}
	f.registerModel(cmd)
	f.tree.registerGrowth(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.targets, "targets", nil, "several targets' column `NAMES`: each its gate and experts, in one model file")
	f.shared.register(cmd)
	flags.StringVar(&f.moments, "moments", "", "fit to the merged sums of moe moments in this `FILE`, in the place of DATA")
	flags.BoolVar(&f.robust, "robust", false, "standard errors by the sandwich, which does not rest on normal noise of equal variance")
	flags.BoolVar(&f.config.Arrangements, "arrangements", false, "weigh other optima near the best, and have intervals and predictions over them")
	flags.BoolVar(&f.hac, "hac", false, "standard errors beside the others that hold where rows follow each other in time")
	flags.BoolVar(&f.strict, "strict", false, "exit with 1 also if the certificate finds that the model does not describe the data")
	flags.StringVar(&f.start, "start", "", "take the parameters in this model or truth `FILE` as one of the starts")
	flags.BoolVar(&f.resume, "resume", false, "go on from the checkpoint that an interrupted fit left beside its output")
	flags.Var(&f.memory, "max-memory", "keep the process within this `SIZE`, such as 512MiB: rows that do not fit stay in their file (default half of what is free for the rows)")
	flags.StringVar(&f.truth, "truth", "", "compare the fit with the true parameters in this JSON `FILE`")
	flags.StringVar(&f.report, "report", "", "write a page about the fit to this HTML `FILE`")
	flags.StringVarP(&f.out, "output", "o", "", "write the model to this JSON `FILE`")
	flags.BoolVar(&f.all, "all", false, "print the coefficients of all features, however many")
	return cmd
}

// registerModel adds the flags that say what is fitted, and how.
func (f *fitFlags) registerModel(cmd *cobra.Command) {
	f.activation.register(cmd)
	f.tree.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.k, "k", "", "number of experts, or a range such as 1:6 (required)")
	flags.StringVar(&f.selection.Target, "target", "", "the target's column `NAME` (default the last column)")
	flags.StringSliceVar(&f.selection.Features, "features", nil, "the features' column `NAMES` (default all but the target)")
	flags.StringSliceVar(&f.selection.Drop, "drop", nil, "column `NAMES` to leave out")
	flags.StringVar(&f.selection.Weights, "weights", "", "column `NAME` of observation weights: a row of weight w counts as w rows")
	flags.StringVar(&f.sigma, "sigma", "auto", "noise level where it is known, or auto to estimate it")
	f.method.register(cmd)
	flags.BoolVar(&f.intercept, "intercept", false, "give experts and gate an intercept")
	flags.StringVar(&f.gate, "gate", host.Softmax{}.Name(), "gate: "+strings.Join(namesOf(host.Gates()), ", "))
	flags.StringVar(&f.formula, "formula", "", "target, experts' terms and, after a bar, the gate's: 'y ~ x1 + sex | x1'")
	flags.StringSliceVar(&f.terms.Categorical, "categorical", nil, "column `NAMES` that are factors whatever stands in them")
	flags.StringArrayVar(&f.references, "reference", nil, "reference level of a factor, `COLUMN=LEVEL` (default the commonest)")
	f.cells.register(cmd, "leave them out")
	flags.StringSliceVar(&f.terms.Gate, "gate-features", nil, "column `NAMES` that the gate sees (default those of the experts)")
	flags.StringVar(&f.noise, "noise", host.Shared{}.Name(), "noise level: "+strings.Join(namesOf(host.Noises()), ", "))
	flags.StringVar(&f.output, "output-scale", "", "fit y = c + s*g instead of y = g, with c and s: "+strings.Join(namesOf(host.OutputScales()), ", "))
	flags.BoolVar(&f.exact, "exact-activation", false, "take every value from the plugin, not from a native approximation of it")
	flags.IntVar(&f.config.Threads, "threads", 0, "threads to use (default one per processor); the result is the same")
	addSeed(cmd, &f.config.Seed)
	cobra.CheckErr(cmd.MarkFlagRequired("k"))
	completions(cmd)
}

func (f *fitFlags) run(cmd *cobra.Command) error {
	began := time.Now()
	if err := f.check(cmd); err != nil {
		return err
	}
	f.memory.apply(&f.config)
	if f.targets != nil {
		return f.runTargets(cmd, began)
	}
	ctx := cmd.Context()
	experts, err := f.tree.open(ctx, &f.activation)
	if err != nil {
		return err
	}
	defer experts.Close()
	table, err := f.open(cmd)
	if err != nil {
		return err
	}
	defer f.input.close()
	src := table.Source
	if err := f.readTruth(cmd, src.Schema().Features, experts); err != nil {
		return err
	}
	if err := f.readStart(cmd, src.Schema().Features, experts); err != nil {
		return err
	}
	keeper := newKeeper(f.out)
	if f.config.Resume, err = keeper.read(f.resume); err != nil {
		return err
	}
	bar := newBar(cmd)
	act := f.configure(keeper, bar, experts)
	m, err := f.fit(ctx, act, src)
	bar.done()
	if err != nil {
		return keeper.keep(ctx, err)
	}
	if m.Approximation, err = unknown(ctx, m.Activation, m.Approximation); err != nil {
		return err
	}
	if f.out != "" {
		if err := m.Write(ctx, f.out); err != nil {
			return err
		}
		keeper.drop()
	}
	if f.report != "" {
		if err := writeReport(cmd, f.report, experts.evaluator(), pageOf{m, src}); err != nil {
			return err
		}
	}
	if err := f.print(cmd, m, time.Since(began)); err != nil {
		return err
	}
	if !m.Fit.Converged || f.doubts(m.Fit.Certificate) {
		return errNo
	}
	return nil
}

// configure puts into the configuration what a run of the command has, and returns the
// activation of all experts, nil where they have their own.
func (f *fitFlags) configure(keeper *keeper, bar *bar, e *experts) (act sdk.Activation) {
	f.config.Checkpoint, f.config.Progress, f.config.Reading = keeper.offer, bar.show, bar.passes.reading
	f.config.Approximate = e.one != nil && !e.one.InProcess() && !f.exact
	f.config.Hierarchy = f.tree.shape
	act, f.config.Leaves = e.activation()
	return act
}

func (f *fitFlags) fit(ctx context.Context, act sdk.Activation, src dataset.Source) (*fitted.Model, error) {
	if f.tree.grows {
		return host.FitTree(ctx, act, src, f.tree.most, f.config)
	}
	if f.sums != nil && f.to == 0 {
		return host.FitSums(ctx, act, f.sums, f.moments, f.config)
	}
	if f.sums != nil && host.Takes(f.config.Method, host.OptSums) {
		return nil, usagef("--k %s: the sums are made for one number of experts", f.k)
	}
	if f.to > 0 {
		m, err := host.FitRange(ctx, act, src, f.config.K, f.to, f.config)
		if err == nil && f.sums != nil {
			m.Fit.Prints = f.sums.Prints()
		}
		return m, err
	}
	return host.Fit(ctx, act, src, f.config)
}

// doubts says whether a certificate is a reason to exit with 1.
func (f *fitFlags) doubts(c *fitted.Certificate) bool {
	return c != nil && (c.Optimum != infer.Pass || f.strict && c.Model == infer.Suspect)
}

// ofData are the flags that say how data are read, which sums have been told.
var ofData = []string{"target", "features", "drop", "weights", "formula", "categorical", "reference", "missing", "decimal"}

// checkMoments reads what goes with --moments.
func (f *fitFlags) checkMoments(cmd *cobra.Command) error {
	if f.moments == "" {
		return nil
	}
	for _, name := range ofData {
		if cmd.Flags().Changed(name) {
			return usagef("--%s has no effect beside --moments: the sums have been made", name)
		}
	}
	if f.config.Arrangements {
		return usagef("--arrangements has no effect beside --moments: the likelihood is that of a random subsample")
	}
	if f.hac {
		return usagef("--hac has no effect beside --moments: the likelihood is that of a random subsample, whose rows do not follow each other")
	}
	return nil
}

// check looks at the flags and at whether the output can be created, before
// anything is started.
func (f *fitFlags) check(cmd *cobra.Command) error {
	if err := f.checkMoments(cmd); err != nil {
		return err
	}
	if err := f.parseK(cmd); err != nil {
		return err
	}
	if err := f.parseTerms(cmd); err != nil {
		return err
	}
	if f.resume && f.out == "" {
		return usagef("--resume needs -o FILE: the checkpoint stands beside it")
	}
	if err := f.parseNoise(); err != nil {
		return err
	}
	if cmd.Flags().Changed("threads") && f.config.Threads < 1 {
		return usagef("--threads %d: want at least 1", f.config.Threads)
	}
	if err := f.method.check(cmd); err != nil {
		return err
	}
	f.config.Intercepts = host.InterceptsOf(f.intercept, f.intercept)
	if f.robust {
		f.config.Errors = append(f.config.Errors, host.Robust)
	}
	if f.hac {
		f.config.Errors = append(f.config.Errors, host.Dependent)
	}
	var err error
	if f.config.Method, err = f.method.method(cmd); err != nil {
		return err
	}
	if t := f.method.transform; t != "" {
		if f.config.Transform, err = named("transform", host.Transforms(), t); err != nil {
			return err
		}
	}
	if err := f.parseGate(); err != nil {
		return err
	}
	if err := f.checkTargets(cmd); err != nil {
		return err
	}
	if err := f.selection.Check(); err != nil {
		return err
	}
	return f.checkOutputs()
}

// checkOutputs looks at the files that the fit writes, the checkpoint among them.
func (f *fitFlags) checkOutputs() error {
	checkpoint := checkpointOf(f.out)
	if !host.Takes(f.config.Method, host.OptCheckpoints) {
		checkpoint = ""
	}
	if err := distinct(f.out, f.data, f.truth, f.start, f.report); err != nil {
		return err
	}
	if err := distinct(f.report, f.data, f.truth, f.start); err != nil {
		return err
	}
	if err := distinct(checkpoint, f.data, f.truth, f.start, f.report); err != nil {
		return fmt.Errorf("%w; an interrupted fit keeps its checkpoint there", err)
	}
	if err := creatable(f.out, f.report); err != nil {
		return err
	}
	if checkpoint == "" || f.resume { // what is to be resumed is looked at when it is read
		return nil
	}
	if err := replaceable(checkpoint); err != nil {
		return &atomicfile.CreateError{Path: checkpoint, Err: err}
	}
	return creatable(checkpoint)
}

// parseNoise reads --noise, --sigma and --output-scale.
func (f *fitFlags) parseNoise() error {
	sigma, err := parseSigma(f.sigma)
	if err != nil {
		return err
	}
	if f.output != "" {
		if f.config.Output, err = named("output-scale", host.OutputScales(), f.output); err != nil {
			return err
		}
	}
	noise, err := named("noise", host.Noises(), f.noise)
	switch noise.(type) {
	case host.Shared:
		f.config.Noise = host.Shared{Sigma: sigma}
	case host.PerExpert:
		f.config.Noise = host.PerExpert{Sigma: sigma}
	}
	return err
}

// parseGate reads --gate and --gate-features.
func (f *fitFlags) parseGate() (err error) {
	if f.config.Gate, err = named("gate", host.Gates(), f.gate); err != nil || f.terms.Gate == nil {
		return err
	}
	if _, ok := f.config.Gate.(host.Constant); ok {
		return usagef("a constant gate has no features")
	}
	return nil
}

// parseTerms reads the flags that say how columns become features.
func (f *fitFlags) parseTerms(cmd *cobra.Command) (err error) {
	if err := f.cells.check(dataset.Drop); err != nil {
		return err
	}
	if f.terms.Reference, err = references(f.references); err != nil || !cmd.Flags().Changed("formula") {
		return err
	}
	if f.terms.Formula, err = terms.Parse(f.formula); err != nil {
		return err
	}
	for _, name := range []string{"intercept", "features", "gate-features", "gate"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s has no effect beside --formula, which says it: y ~ experts | gate, each with an intercept unless - 1", name)
		}
	}
	if t := f.selection.Target; t != "" && t != f.terms.Formula.Target {
		return usagef("--target %s: the target of --formula is %s", t, f.terms.Formula.Target)
	}
	return nil
}

// parseK reads --k, a number or a range FROM:TO.
func (f *fitFlags) parseK(cmd *cobra.Command) error {
	if err := f.tree.parseGrowth(cmd); err != nil {
		return err
	}
	if !cmd.Flags().Changed("k") {
		return f.parseTree(cmd)
	}
	from, to, isRange := strings.Cut(f.k, ":")
	var err error
	if f.config.K, err = strconv.Atoi(from); err == nil && isRange {
		f.to, err = strconv.Atoi(to)
	}
	switch {
	case err != nil:
		return usagef("--k %s: want a number of experts, or a range such as 1:6", f.k)
	case f.config.K < 1:
		return usagef("--k %s: want at least 1", f.k)
	case isRange && f.to < f.config.K:
		return usagef("--k %s: want the smaller number first", f.k)
	case isRange && (cmd.Flags().Changed("hierarchy") || strings.Contains(f.tree.leaves, ",")):
		return usagef("--k %s: a hierarchy, and leaves of their own, have one number of experts", f.k)
	}
	return f.parseTree(cmd)
}

// parseTree reads --hierarchy and --leaves.
func (f *fitFlags) parseTree(cmd *cobra.Command) (err error) {
	f.config.K, err = f.tree.parse(cmd, f.config.K, &f.activation)
	switch {
	case f.tree.grows:
		f.k = fmt.Sprintf("%d:%d", f.config.K, f.tree.most)
	case f.k == "":
		f.k = strconv.Itoa(f.config.K)
	}
	return err
}

// open opens the input, which is to be closed, and makes the features of experts and
// gate, which the settings then have.
func (f *fitFlags) open(cmd *cobra.Command) (table *terms.Table, err error) {
	if f.input, err = openInput(cmd.Context(), cmd, f.data); err != nil {
		return nil, err
	}
	if table, err = f.table(cmd.Context()); err != nil {
		f.input.close()
		return nil, err
	}
	f.config = f.config.For(table)
	return table, nil
}

// table reads the data as features, or the subsample beside the sums of moments.
func (f *fitFlags) table(ctx context.Context) (*terms.Table, error) {
	if f.moments != "" {
		var err error
		if f.sums, err = shard.ReadMoments(f.moments); err != nil {
			return nil, err
		}
		return &terms.Table{Source: f.sums.SampleSource(f.moments)}, nil
	}
	r := f.terms
	r.Selection = f.cells.on(f.selection)
	return terms.Open(ctx, f.input.open, r)
}

// readTruth reads the parameters of --truth, of the activation that is fitted.
// Those of a model are matched to the data's columns by name.
func (f *fitFlags) readTruth(cmd *cobra.Command, features []string, e *experts) error {
	if f.truth == "" {
		return nil
	}
	truth, err := fitted.ReadReference(f.truth, features)
	if err != nil {
		return err
	}
	remarkUnread(cmd, f.truth, truth.Unknown)
	f.config.Truth, err = f.admitTruth(cmd, truth, e)
	return err
}

// admitTruth returns the parameters of --truth, which are those of what is fitted.
func (f *fitFlags) admitTruth(cmd *cobra.Command, truth *fitted.Reference, e *experts) (*model.Params, error) {
	act, leaves := e.named()
	if err := sameActivation(f.truth, truth, act, leaves); err != nil {
		return nil, err
	}
	if err := e.verify(cmd, f.truth, truth); err != nil {
		return nil, err
	}
	return truth.Params, f.sameShape(f.truth, truth.Params)
}

// sameShape refuses parameters of another number of experts, or of another tree, than
// that of the fit.
func (f *fitFlags) sameShape(path string, p *model.Params) error {
	if !f.covers(p.K) {
		return &dataset.Error{File: path, Msg: fmt.Sprintf("k = %d, the fit has k = %s", p.K, f.k)}
	}
	return f.sameTree(path, p)
}

// sameTree refuses parameters of another tree than that of the fit.
func (f *fitFlags) sameTree(path string, p *model.Params) error {
	if f.tree.grows || p.Tree.Equal(f.tree.shape) {
		return nil
	}
	of := p.Clone()
	of.Tree = f.tree.shape
	return &dataset.Error{File: path, Msg: fmt.Sprintf("its experts are the tree %s, those of the fit %s", p.Hierarchy(), of.Hierarchy())}
}

// sameActivation refuses parameters of another activation, and those of another function
// under the name of this one, as far as there are values of both.
func sameActivation(path string, truth *fitted.Reference, act fitted.Activation, leaves []fitted.Activation) error {
	if truth.Same(act, leaves) {
		return truth.Agree(path, act, leaves)
	}
	return &dataset.Error{File: path, Msg: fmt.Sprintf("its activation is %s, that of the model is %s: their parameters do not compare", report.Activations(truth.Activation, truth.Leaves), report.Activations(act, leaves))}
}

// covers says whether k is, or is among, those fitted.
func (f *fitFlags) covers(k int) bool {
	return k >= f.config.K && k <= max(f.to, f.config.K) || f.tree.grows && k <= f.tree.most
}

// readStart reads the parameters of --start. Those of a model are matched to the
// data's columns by name. A start may be of an activation of another name, but not
// of another function under this one.
func (f *fitFlags) readStart(cmd *cobra.Command, features []string, e *experts) error {
	if f.start == "" {
		return nil
	}
	start, err := fitted.ReadReference(f.start, features)
	if err != nil {
		return err
	}
	remarkUnread(cmd, f.start, start.Unknown)
	f.config.Start, err = f.admitStart(cmd, start, e)
	return err
}

// admitStart returns the parameters of --start, which are of the shape that is fitted.
func (f *fitFlags) admitStart(cmd *cobra.Command, start *fitted.Reference, e *experts) (*model.Params, error) {
	if err := f.sameShape(f.start, start.Params); err != nil {
		return nil, err
	}
	if len(start.Params.Sigma) == 0 {
		return nil, &dataset.Error{File: f.start, Msg: "its target has no sigma: its mean is all there is, and no fit can start there"}
	}
	act, leaves := e.named()
	if !start.Same(act, leaves) {
		remark(cmd, "moe: %s is of activation %s, the fit of %s", f.start, report.Activations(start.Activation, start.Leaves), report.Activations(act, leaves))
	} else if err := e.verify(cmd, f.start, start); err != nil {
		return nil, err
	}
	return start.Params, nil
}

func (f *fitFlags) print(cmd *cobra.Command, m *fitted.Model, took time.Duration) error {
	if !wantsJSON(cmd) {
		if err := report.Text(textOut(cmd), m, f.all); err != nil {
			return err
		}
		f.remarkWritten(cmd, took)
		return nil
	}
	data, err := m.JSON()
	if err != nil {
		return err
	}
	return printWithSeconds(cmd, data, took)
}

// remarkWritten says where the model is.
func (f *fitFlags) remarkWritten(cmd *cobra.Command, took time.Duration) {
	if f.out != "" {
		remark(cmd, "moe: wrote %s after %.2f s", f.out, took.Seconds())
	}
}

// printWithSeconds prints the model file's object with the key seconds added.
func printWithSeconds(cmd *cobra.Command, object []byte, took time.Duration) error {
	body := strings.TrimSpace(string(shown.JSON(object)))
	seconds, err := json.Marshal(math.Round(took.Seconds()*1e4) / 1e4)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s,\n  \"seconds\": %s\n}\n", strings.TrimRight(strings.TrimSuffix(body, "}"), " \n"), seconds)
	return err
}

// onTerminal says whether what is written to w goes to a device such as a terminal.
func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// interactive says whether stderr is a terminal on which a bar can move.
func interactive() bool { return movesOn(os.Stderr, os.Getenv("TERM")) }

// movesOn says whether f is a terminal of a size, of a kind (TERM) that moves its cursor.
func movesOn(f *os.File, term string) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && term != "dumb" && hasSize(f)
}
