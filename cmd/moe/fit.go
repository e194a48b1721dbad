package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/spec"
	"github.com/gatedlearning/moe/internal/atomicfile"
	"github.com/gatedlearning/moe/internal/shown"
)

// fitFlags are the flags of moe fit: what is fitted, and how the command runs.
type fitFlags struct {
	described
	config  string // a file that describes the fit
	print   bool   // describe it, and do no more
	resume  bool
	memory  memorySize
	threads int
	strict  bool
	all     bool
	out     string
	report  string
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

With --config FILE the fit is what a JSON file says, but for what flags say beside it;
--print-config prints such a file. It has all that the model depends on: fit with it makes
the same bytes of model.

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
  moe fit data.csv --activation relu --k 1:4 --print-config > fit.json
  moe fit --config fit.json --seed 2 -o model.json
  zcat trial.csv.gz | moe fit - --missing drop --activation identity --k 2 --intercept`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args)
		},
	}
	f.registerModel(cmd)
	f.tree.registerGrowth(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.flag.Targets, "targets", nil, "several targets' column `NAMES`: each its gate and experts, in one model file")
	flags.BoolVar(&f.flag.GateShared, "gate-shared", false, "give the --targets one gate, under which every expert has a regressor for each of them")
	flags.StringVar(&f.covariance, "noise-covariance", string(host.Diagonal), "with --gate-shared, noise of the targets: diagonal, full")
	flags.StringVar(&f.flag.Moments, "moments", "", "fit to the merged sums of moe moments in this `FILE`, in the place of DATA")
	flags.BoolVar(&f.robust, "robust", false, "standard errors by the sandwich, which does not rest on normal noise of equal variance")
	flags.BoolVar(&f.flag.Arrangements, "arrangements", false, "weigh other optima near the best, and have intervals and predictions over them")
	flags.BoolVar(&f.hac, "hac", false, "standard errors beside the others that hold where rows follow each other in time")
	flags.BoolVar(&f.strict, "strict", false, "exit with 1 also if the certificate finds that the model does not describe the data")
	flags.StringVar(&f.flag.Start, "start", "", "take the parameters in this model or truth `FILE` as one of the starts")
	flags.BoolVar(&f.resume, "resume", false, "go on from the checkpoint that an interrupted fit left beside its output")
	flags.Var(&f.memory, "max-memory", "keep the process within this `SIZE`, such as 512MiB: rows that do not fit stay in their file (default half of what is free for the rows)")
	flags.StringVar(&f.flag.Truth, "truth", "", "compare the fit with the true parameters in this JSON `FILE`")
	flags.StringVar(&f.report, "report", "", "write a page about the fit to this HTML `FILE`")
	flags.StringVarP(&f.out, "output", "o", "", "write the model to this JSON `FILE`")
	flags.BoolVar(&f.all, "all", false, "print the coefficients of all features, however many")
	flags.StringVar(&f.config, "config", "", "take what no flag says from this JSON `FILE`, or from standard input for -")
	flags.BoolVar(&f.print, "print-config", false, "print what would be fitted as a file for --config, and fit nothing")
	inner := cmd.PreRun
	cmd.PreRun = func(cmd *cobra.Command, args []string) {
		inner(cmd, args)
		f.tree.relieve(cmd, "config", "k")
		f.tree.relieve(cmd, "config", "activation")
	}
	return cmd
}

// registerModel adds the flags that say what is fitted, and how.
func (f *fitFlags) registerModel(cmd *cobra.Command) {
	f.activation.register(cmd)
	f.tree.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.k, "k", "", "number of experts, or a range such as 1:6 (required)")
	flags.StringVar(&f.flag.Target, "target", "", "the target's column `NAME` (default the last column)")
	flags.StringSliceVar(&f.flag.Features, "features", nil, "the features' column `NAMES` (default all but the target)")
	flags.StringSliceVar(&f.flag.Drop, "drop", nil, "column `NAMES` to leave out")
	flags.StringVar(&f.weights, "weights", "", "column `NAME` of observation weights: a row of weight w counts as w rows")
	flags.StringVar(&f.sigma, "sigma", "auto", "noise level where it is known, or auto to estimate it")
	f.method.register(cmd)
	flags.BoolVar(&f.intercept, "intercept", false, "give experts and gate an intercept")
	flags.StringVar(&f.gate, "gate", host.Softmax{}.Name(), "gate: "+strings.Join(namesOf(host.Gates()), ", "))
	flags.StringVar(&f.flag.Formula, "formula", "", "target, experts' terms and, after a bar, the gate's: 'y ~ x1 + sex | x1'")
	flags.StringSliceVar(&f.flag.Categorical, "categorical", nil, "column `NAMES` that are factors whatever stands in them")
	flags.StringArrayVar(&f.references, "reference", nil, "reference level of a factor, `COLUMN=LEVEL` (default the commonest)")
	f.cells.register(cmd, "leave them out")
	flags.StringSliceVar(&f.flag.GateFeatures, "gate-features", nil, "column `NAMES` that the gate sees (default those of the experts)")
	flags.StringVar(&f.noise, "noise", host.Shared{}.Name(), "noise level: "+strings.Join(namesOf(host.Noises()), ", "))
	flags.StringVar(&f.output, "output-scale", "", "fit y = c + s*g instead of y = g, with c and s: "+strings.Join(namesOf(host.OutputScales()), ", "))
	flags.BoolVar(&f.flag.ExactActivation, "exact-activation", false, "take every value from the plugin, not from a native approximation of it")
	flags.IntVar(&f.threads, "threads", 0, "threads to use (default one per processor); the result is the same")
	addSeed(cmd, &f.seed)
	cobra.CheckErr(cmd.MarkFlagRequired("k"))
	completions(cmd)
}

// run makes the fit.
func (f *fitFlags) run(cmd *cobra.Command, args []string) error {
	began := time.Now()
	s, from, err := f.description(cmd, args)
	if err != nil {
		return err
	}
	if f.print {
		return printConfig(cmd, s)
	}
	j, err := f.open(cmd, s)
	if err != nil {
		return err
	}
	defer j.close()
	keeper := newKeeper(f.out)
	if j.config.Resume, err = keeper.read(f.resume); err != nil {
		return err
	}
	bar := newBar(cmd)
	j.config.Checkpoint, j.config.Progress, j.config.Reading = keeper.offer, bar.show, bar.passes.reading
	made, err := j.fit(cmd.Context())
	bar.done()
	if err != nil {
		return keeper.keep(cmd.Context(), worded(cmd, err))
	}
	if f.out != "" {
		if err := made.file.Write(cmd.Context(), f.out); err != nil {
			return err
		}
		keeper.drop()
	}
	if f.report != "" {
		if err := j.report(cmd, f.report, made, from); err != nil {
			return err
		}
	}
	if err := f.show(cmd, made, time.Since(began)); err != nil {
		return err
	}
	for _, fit := range made.fits() {
		if !fit.Converged || f.doubts(fit.Certificate) {
			return errNo
		}
	}
	return nil
}

// description is what is fitted, checked, and the text of the file that says it as far as the flags do
// not; nil where there is none.
func (f *fitFlags) description(cmd *cobra.Command, args []string) (s *spec.Fit, from []byte, err error) {
	s = new(spec.Fit)
	if cmd.Flags().Changed("config") {
		if s, from, err = readConfig(cmd, f.config); err != nil {
			return nil, nil, err
		}
	}
	instead, err := f.write(cmd, s, args)
	if err != nil {
		return nil, nil, err
	}
	if s.Data == "" && s.Moments == "" {
		return nil, nil, usagef("want one of DATA and --moments FILE")
	}
	if f.config == "-" && s.Data == "-" {
		return nil, nil, usagef("--config -: DATA is standard input too")
	}
	if err := check(cmd, s); err != nil {
		return nil, nil, err
	}
	if err := f.check(cmd, s); err != nil {
		return nil, nil, err
	}
	if from != nil && len(instead) > 0 {
		remark(cmd, "moe: %s instead of what --config says", strings.Join(instead, ", "))
	}
	return s, from, nil
}

// check looks at how the command runs, and at whether its outputs can be created, before
// anything is started.
func (f *fitFlags) check(cmd *cobra.Command, s *spec.Fit) error {
	if f.resume && f.out == "" {
		return usagef("--resume needs -o FILE: the checkpoint stands beside it")
	}
	cfg, err := s.Config()
	if err != nil {
		return err
	}
	if f.strict {
		if err := host.Admit(cfg.Method, host.OptStrict); err != nil {
			return err
		}
	}
	if err := f.checkThreads(cmd); err != nil {
		return err
	}
	return f.checkOutputs(s, host.Takes(cfg.Method, host.OptCheckpoints))
}

func (f *fitFlags) checkThreads(cmd *cobra.Command) error {
	if cmd.Flags().Changed("threads") && f.threads < 1 {
		return usagef("--threads %d: want at least 1", f.threads)
	}
	return nil
}

// checkOutputs looks at the files that the fit writes, the checkpoint among them where it keeps one.
func (f *fitFlags) checkOutputs(s *spec.Fit, keeps bool) error {
	checkpoint := ""
	if keeps {
		checkpoint = checkpointOf(f.out)
	}
	inputs := []string{s.Data, s.Moments, s.Truth, s.Start, f.config}
	if err := distinct(f.out, append(inputs, f.report)...); err != nil {
		return err
	}
	if err := distinct(f.report, inputs...); err != nil {
		return err
	}
	if err := distinct(checkpoint, append(inputs, f.report)...); err != nil {
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

// doubts says whether a certificate is a reason to exit with 1.
func (f *fitFlags) doubts(c *fitted.Certificate) bool {
	return c != nil && (c.Optimum != infer.Pass || f.strict && c.Model == infer.Suspect)
}

// made is what a fit has come to: a model of one target, or of several.
type made struct {
	file interface {
		Write(context.Context, string) error
		JSON() ([]byte, error)
	}
	model  *fitted.Model
	vector *fitted.Vector
}

// fits are those of all targets, one where they share a gate.
func (m *made) fits() []*fitted.Fit {
	switch {
	case m.model != nil:
		return []*fitted.Fit{&m.model.Fit}
	case m.vector.SharedGate != nil:
		return []*fitted.Fit{m.vector.SharedGate.Fit}
	}
	var out []*fitted.Fit
	for j := range m.vector.Outputs {
		out = append(out, m.vector.Outputs[j].Fit)
	}
	return out
}

// show prints what was fitted.
func (f *fitFlags) show(cmd *cobra.Command, m *made, took time.Duration) error {
	if wantsJSON(cmd) {
		data, err := m.file.JSON()
		if err != nil {
			return err
		}
		return printWithSeconds(cmd, data, took)
	}
	var err error
	if m.model != nil {
		err = report.Text(textOut(cmd), m.model, f.all)
	} else {
		err = report.Outputs(textOut(cmd), m.vector, f.all)
	}
	if err == nil && f.out != "" {
		remark(cmd, "moe: wrote %s after %.2f s", f.out, took.Seconds())
	}
	return err
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
