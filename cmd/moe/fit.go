package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/checkpoint"
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
	accept  []string
	all     bool
	verbose bool
	unsaid  *spec.Fit // of whose experts nothing was said; nil: something was
	out     string
	report  string
}

func newFitCmd() *cobra.Command {
	f := new(fitFlags)
	cmd := &cobra.Command{
		Use:   "fit DATA [NAME]",
		Short: "Fit a mixture of experts to a data set",
		Long: `fit learns regressors a_i, gate w_i and noise of k experts from the rows of DATA, a CSV, NPY, NPZ or Parquet file,
or - for standard input, and says how well and whether to trust it. The exit code is 1, and the model written, if it did
not converge, its optimum is suspect or not judged, with --strict the model. See moe help methods, formulas, trees.`,
		Example: `  moe fit data.csv --activation relu --k 2 -o model.json --report fit.html
  moe fit trial.csv --formula 'dose ~ age * sex + log(weight) | age + site' --k 1:4 -o model.json
  zcat trial.csv.gz | moe fit - --missing drop --k 1:3 --intercept --noise shared,per-expert --choose heldout --json`,
		Args: dataArg(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd, args[:min(1, len(args))])
		},
	}
	f.registerModel(cmd)
	f.tree.registerGrowth(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.flag.Moments, "moments", "",
		"fit to the merged sums of moe moments in this `FILE`, in the place of DATA")
	flags.BoolVar(&f.robust, "robust", false,
		"standard errors by the sandwich, which does not rest on normal noise of equal variance")
	flags.StringVar(&f.cluster, "cluster", "",
		"column `NAME` of ids: standard errors that hold where rows of one id depend on each other")
	flags.BoolVar(&f.flag.Arrangements, "arrangements", false,
		"weigh other optima near the best, and have intervals and predictions over them")
	flags.StringVar(&f.gatePenalty, "gate-penalty", "",
		"ridge on the gate of the model for new rows: none, auto, chosen by the rows, or a `VALUE` "+
			"(default auto where a gate separates rows, else none)")
	flags.StringVar(&f.expertRidge, "expert-ridge", "",
		"ridge on the experts of the model for new rows: none, auto or a `VALUE` (default none)")
	flags.StringVar(&f.expertLasso, "expert-lasso", "",
		"lasso on the experts, under which slopes are 0, likewise: none, auto or a `VALUE` (default none)")
	flags.StringVar(&f.choose, "choose", string(host.ByBICc),
		"how a range of --k is chosen from: bicc, BIC corrected for few rows, bic, icl, set, the least k the data "+
			"leave, or heldout: crossvalidation, which takes several values of --family, --noise, --noise-covariance, "+
			"--hierarchy and the penalties too")
	flags.BoolVar(&f.hac, "hac", false,
		"standard errors beside the others that hold where rows follow each other in time")
	flags.BoolVar(&f.strict, "strict", false,
		"exit with 1 also if the certificate finds that the model does not describe the data")
	flags.StringSliceVar(&f.accept, "accept", nil,
		"exit with 0 though the answer is one of these `ANSWERS`: suspect, not-judged, not-converged, or any")
	flags.StringVar(&f.flag.Start, "start", "",
		"take the parameters in this model or truth `FILE` as one of the starts")
	flags.BoolVar(&f.resume, "resume", false,
		"go on from the checkpoint that an interrupted fit left beside its output")
	flags.Var(&f.memory, "max-memory",
		"keep the process within this `SIZE`, such as 512MiB: rows that do not fit stay in their file (default half "+
			"of what is free for the rows)")
	flags.StringVar(&f.flag.Truth, "truth", "", "compare the fit with the true parameters in this JSON `FILE`")
	flags.StringVar(&f.report, "report", "", "write a page about the fit to this HTML `FILE`")
	flags.StringVarP(&f.out, "output", "o", "", "write the model to this JSON `FILE`")
	flags.BoolVar(&f.flag.Embed, "embed", false,
		"put the activation's WebAssembly module, of at most 256 KiB, into the model file")
	flags.BoolVar(&f.flag.NoGroupPosteriors, "no-group-posteriors", false,
		"with --group, leave what is known of each group out of the model file")
	flags.BoolVar(&f.all, "all", false, "print the coefficients of all features, however many")
	flags.BoolVar(&f.verbose, "verbose", false,
		"print all that there is to say of the fit, as moe explain does of its file")
	flags.StringVar(&f.config, "config", "",
		"take what no flag says from this JSON `FILE`, or from standard input for -")
	flags.BoolVar(&f.print, "print-config", false, "print what would be fitted as a file for --config, and fit nothing")
	return cmd
}

// registerModel adds the flags that say what is fitted, and how.
func (f *fitFlags) registerModel(cmd *cobra.Command) {
	f.activation.registerOptional(cmd,
		"the nonlinearity `NAME`: a built-in, an expression such as 'expr: z*tanh(softplus(z))', or a trusted "+
			"plugin's name or path (default the family's own: identity, exp of counts and gamma, sigmoid of binomial)")
	f.tree.register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.k, "k", "",
		"number of experts, or a range such as 1:6 (default 1:4 with --intercept, where nothing is said of the "+
			"experts)")
	flags.StringVar(&f.flag.Target, "target", "", "the target's column `NAME` (default the last column)")
	flags.StringSliceVar(&f.flag.Targets, "targets", nil,
		"several targets' column `NAMES`: each its gate and experts, in one model file")
	flags.BoolVar(&f.flag.GateShared, "gate-shared", false,
		"give the --targets one gate, under which every expert has a regressor for each of them")
	flags.StringVar(&f.covariance, "noise-covariance", string(host.Diagonal),
		"with --gate-shared, noise of the targets: diagonal, full")
	flags.StringSliceVar(&f.flag.Features, "features", nil, "the features' column `NAMES` (default all but the target)")
	flags.StringSliceVar(&f.flag.Drop, "drop", nil, "column `NAMES` to leave out")
	flags.StringVar(&f.weights, "weights", "",
		"column `NAME` of observation weights: a row of weight w counts as w rows")
	flags.StringVar(&f.offset, "offset", "",
		"column `NAME` that is added to the predictor of every expert, or log(NAME) for its logarithm")
	flags.StringVar(&f.trials, "trials", "",
		"column `NAME` of trials, of which the target of --family binomial is the successes")
	flags.StringVar(&f.flag.Family, "family", "",
		"law of the target given its mean: "+strings.Join(host.Families(), ", ")+" (default gaussian)")
	flags.StringVar(&f.dof, "dof", "auto", "degrees of freedom of --family student-t, or auto to estimate them")
	flags.BoolVar(&f.flag.ZeroExpert, "zero-expert", false,
		"beside the --k experts of counts have one that is always 0: zero inflation")
	flags.StringVar(&f.group, "group", "",
		"column `NAME` of ids: all rows of one id have one expert, and the gate sees what is constant in a group")
	flags.StringVar(&f.sigma, "sigma", "auto", "noise level where it is known, or auto to estimate it")
	f.method.register(cmd)
	flags.BoolVar(&f.intercept, "intercept", false, "give experts and gate an intercept")
	flags.StringVar(&f.gate, "gate", host.Softmax{}.Name(), "gate: "+strings.Join(namesOf(host.Gates()), ", "))
	flags.StringVar(&f.flag.Formula, "formula", "",
		"target, experts' terms and, after a bar, the gate's: 'y ~ x1 + sex | x1'")
	flags.StringSliceVar(&f.flag.Categorical, "categorical", nil,
		"column `NAMES` that are factors whatever stands in them")
	flags.StringArrayVar(&f.references, "reference", nil,
		"reference level of a factor, `COLUMN=LEVEL` (default the commonest)")
	f.cells.register(cmd, "leave them out")
	flags.StringSliceVar(&f.flag.Shared, "shared", nil,
		"column `NAMES` of one coefficient for all experts, (intercept) for theirs")
	flags.StringSliceVar(&f.flag.GateFeatures, "gate-features", nil,
		"column `NAMES` that the gate sees (default those of the experts)")
	flags.StringVar(&f.noise, "noise", host.Shared{}.Name(), "noise level: "+strings.Join(namesOf(host.Noises()), ", ")+
		", per-expert:FLOOR, where none is less than FLOOR")
	flags.StringVar(&f.output, "output-scale", "", "fit y = c + s*g instead of y = g, with c and s: "+
		strings.Join(namesOf(host.OutputScales()), ", "))
	flags.BoolVar(&f.flag.ExactActivation, "exact-activation", false,
		"take every value from the plugin, not from a native approximation of it")
	flags.IntVar(&f.threads, "threads", 0, "threads to use (default one per processor); the result is the same")
	addSeed(cmd, &f.seed)
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
		f.remarkUnsaid(cmd)
		return printConfig(cmd, s)
	}
	j, err := f.open(cmd, s)
	if err != nil {
		return err
	}
	defer j.close()
	keeper := newKeeper[host.Checkpoint](f.out, checkpoint.Format)
	if j.config.Resume, err = keeper.read(f.resume); err != nil {
		return err
	}
	bar := newBar(cmd)
	j.config.Checkpoint, j.config.Progress, j.config.Reading = keeper.offer, bar.show, bar.passes.reading
	var made *made
	if j, err = j.choose(cmd); err == nil {
		made, err = j.fit(cmd.Context())
	}
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
		for _, answer := range f.doubts(fit) {
			if !slices.Contains(f.accept, answer) && !slices.Contains(f.accept, acceptAny) {
				return errNo
			}
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
	f.complete(cmd, s)
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

// complete gives a description what it does not say.
func (f *fitFlags) complete(cmd *cobra.Command, s *spec.Fit) {
	said := cmd.Flags().Changed("intercept") // --intercept=false leaves the description as it is
	if s.WithDefaults(said) {
		f.unsaid = s
	}
}

// remarkUnsaid says what was fitted where nothing was said of the experts.
func (f *fitFlags) remarkUnsaid(cmd *cobra.Command) {
	if f.unsaid != nil {
		remark(cmd, "moe: nothing is said of the experts: the fit is that of %s", spec.Unsaid(f.unsaid.Family))
	}
}

// check looks at how the command runs, and at whether its outputs can be created, before
// anything is started.
func (f *fitFlags) check(cmd *cobra.Command, s *spec.Fit) error {
	if f.resume && f.out == "" {
		return usagef("--resume needs -o FILE: the checkpoint stands beside it")
	}
	cfg, err := s.First().Config()
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
	if err := f.checkAccept(); err != nil {
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
	kept := ""
	if keeps {
		kept = checkpointOf(f.out)
	}
	inputs := []string{s.Data, s.Moments, s.Truth, s.Start, f.config}
	if err := distinct(f.out, append(inputs, f.report)...); err != nil {
		return err
	}
	if err := distinct(f.report, inputs...); err != nil {
		return err
	}
	if err := distinct(kept, append(inputs, f.report)...); err != nil {
		return fmt.Errorf("%w; an interrupted fit keeps its checkpoint there", err)
	}
	if err := creatable(f.out, f.report); err != nil {
		return err
	}
	if kept == "" || f.resume { // what is to be resumed is looked at when it is read
		return nil
	}
	if err := replaceable(kept, checkpoint.Format); err != nil {
		return &atomicfile.CreateError{Path: kept, Err: err}
	}
	return creatable(kept)
}

// The answers of a fit for which it exits with 1, unless they are accepted.
const (
	acceptSuspect      = "suspect"
	acceptNotJudged    = "not-judged"
	acceptNotConverged = "not-converged"
	acceptAny          = "any" // of them
)

// doubts are the answers for which a fit exits with 1.
func (f *fitFlags) doubts(fit *fitted.Fit) (answers []string) {
	if !fit.Converged {
		answers = append(answers, acceptNotConverged)
	}
	c := fit.Certificate
	if c == nil {
		return answers
	}
	if c.Optimum == infer.Suspect || f.strict && c.Model == infer.Suspect {
		answers = append(answers, acceptSuspect)
	}
	if c.Optimum != infer.Pass && c.Optimum != infer.Suspect {
		answers = append(answers, acceptNotJudged)
	}
	return answers
}

// checkAccept refuses answers that there are not.
func (f *fitFlags) checkAccept() error {
	all := []string{acceptSuspect, acceptNotJudged, acceptNotConverged, acceptAny}
	for _, answer := range f.accept {
		if !slices.Contains(all, answer) {
			return usagef("--accept %s: want one or more of %s", answer, strings.Join(all, ", "))
		}
	}
	return nil
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
	if m.model != nil {
		return []*fitted.Fit{&m.model.Fit}
	}
	return m.vector.Fits()
}

// show prints what was fitted.
func (f *fitFlags) show(cmd *cobra.Command, m *made, took time.Duration) error {
	f.remarkUnsaid(cmd)
	if wantsJSON(cmd) {
		data, err := m.file.JSON()
		if err != nil {
			return err
		}
		return printWithSeconds(cmd, data, took)
	}
	var err error
	switch out := textOut(cmd); {
	case m.model != nil && f.verbose:
		err = report.Text(out, m.model, f.all)
	case m.model != nil:
		err = report.Screen(out, m.model, f.out, f.all)
	case f.verbose:
		err = report.Outputs(out, m.vector, f.all)
	default:
		err = report.OutputsScreen(out, m.vector, f.out, f.all)
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
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s,\n  \"seconds\": %s\n}\n",
		strings.TrimRight(strings.TrimSuffix(body, "}"), " \n"), seconds)
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
