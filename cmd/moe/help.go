package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups are the groups in which help shows the flags of a command that has many. What is in none
// of them stands in the last.
var flagGroups = []struct {
	title string
	flags []string
}{
	{"Data", []string{"target", "targets", "features", "drop", "weights", "offset", "trials", "group", "cluster",
		"formula", "gate-features", "categorical", "reference", "missing", "decimal", "moments", "max-memory"}},
	{"Model", []string{"activation", "param", "k", "choose", "hierarchy", "leaves", "max-leaves", "intercept",
		"shared", "gate", "gate-shared", "gate-penalty", "expert-ridge", "expert-lasso", "family", "dof", "zero-expert",
		"dispersion", "noise", "noise-covariance", "sigma", "output-scale"}},
	{"Search", []string{"method", "starts", "start", "seed", "threads", "resume", "transform", "inputs", "mu",
		"radius", "corrections", "epochs", "batch", "step-size", "schedule", "optimiser", "lambda", "penalty", "ridge",
		"folds"}},
	{"Plugins", []string{"plugin-timeout", "plugin-max-rss", "sandbox", "exact-activation"}},
	{"Output", nil},
}

// manyFlags is the number of flags from which on they stand in groups.
const manyFlags = 20

// flagHelp is what help says of a command's own flags.
func flagHelp(cmd *cobra.Command) string {
	own := cmd.LocalFlags()
	n := 0
	own.VisitAll(func(*pflag.Flag) { n++ })
	if n < manyFlags {
		return "\nFlags:\n" + strings.TrimRight(own.FlagUsages(), " \n")
	}
	sets := make([]*pflag.FlagSet, len(flagGroups))
	for i := range sets {
		sets[i] = pflag.NewFlagSet("", pflag.ContinueOnError)
	}
	own.VisitAll(func(f *pflag.Flag) {
		i := slices.IndexFunc(flagGroups[:len(flagGroups)-1], func(g struct {
			title string
			flags []string
		}) bool {
			return slices.Contains(g.flags, f.Name)
		})
		if i < 0 {
			i = len(sets) - 1
		}
		sets[i].AddFlag(f)
	})
	var out strings.Builder
	for i, set := range sets {
		if set.HasFlags() {
			fmt.Fprintf(&out, "\n%s:\n%s\n", flagGroups[i].title, strings.TrimRight(set.FlagUsages(), " \n"))
		}
	}
	return strings.TrimRight(out.String(), "\n")
}

// usageTemplate is cobra's, with the flags in groups.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if or .IsAvailableCommand (eq .Name "help")}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}
{{flagHelp .}}{{end}}{{if .HasAvailableInheritedFlags}}

Global Flags:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasHelpSubCommands}}

Topics:{{range .Commands}}{{if .IsAdditionalHelpTopicCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableSubCommands}}

{{.CommandPath}} [command] --help says more of a command{{if .HasHelpSubCommands}}, {{.CommandPath}} help TOPIC of a topic{{end}}.{{end}}
`

// useHelp gives root, and all commands below it, this help.
func useHelp(root *cobra.Command) {
	cobra.AddTemplateFunc("flagHelp", flagHelp)
	root.SetUsageTemplate(usageTemplate)
	root.AddCommand(topics()...)
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND or TOPIC]",
		Short: "Say what a command does, or what there is to know of a topic",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) == 0 {
				return of.Help()
			}
			if of == nil {
				of = cmd.Root()
			}
			if len(rest) == 0 {
				rest = args
			}
			return noSuchCommand(of, rest[:1])
		},
	})
}

// watchHelp has help written at once, and returns where the error of writing it will stand.
func watchHelp(root *cobra.Command) *error {
	failed, inner := new(error), root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		var text bytes.Buffer
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		inner(cmd, args)
		cmd.SetOut(out)
		_, *failed = out.Write(text.Bytes())
	})
	return failed
}

// topics are what is to be read of more than one flag: moe help methods.
func topics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "methods", Short: "How a fit is found: the methods, the certificate, what is compared",
			Long: methodsTopic},
		{Use: "formulas", Short: "How columns become features: factors, formulas, missing cells", Long: formulasTopic},
		{Use: "trees", Short: "Experts under a tree of gates", Long: treesTopic},
		{Use: "targets", Short: "Several targets, and targets beyond the reach of g", Long: targetsTopic},
		{Use: "exit-codes", Short: "What the exit codes say", Long: exitCodesTopic},
	}
}

const methodsTopic = `Method auto estimates the regressors by moment tensors, screens that estimate and
other starts on part of the data until several agree on the best optimum, and
maximises the joint likelihood on all rows. Method moments is the moment
estimate with the gate fitted to it. Method spectral is the first of the papers' two:
regressors, signs and proportions from the decomposition of a cubic tensor, then the
gate by EM with the regressors held; it needs a g that is not even. Method em is joint EM
from random starts, with sigma fixed where --sigma gives it.

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
Gaussian noise. For features in clusters there is --inputs mixture: the tensors are then
made of powers of y and the score of a mixture of Gaussians that is estimated from the
features. With auto that is done where they are not N(0, I) and two Gaussians or more
are found. Of method spectral --corrections then takes the bias of the gate off.

A plugin is evaluated by a native approximation that is built from its own
values, checked against it, and kept in the model file; --exact-activation takes
every value from the plugin instead.

The result of auto and em carries a certificate: whether the residuals show merged
experts, as those of most local optima do, and how many starts found nothing
better; and whether the model describes the data. It is evidence, not proof: a
better optimum can exist where both verdicts pass. An optimum in doubt is given
more starts, up to --starts. moe explain MODEL shows the tests and the starts.

A fit lists the optima that it has seen within 6 units of log-likelihood of the best and
that share the rows out among the experts in another way: its intervals hold given its own.
With --arrangements each has a weight, and intervals and predictions are over all of them.

With --hac come second standard errors beside the first, which hold where rows follow each
other in time: the sandwich with the Bartlett kernel (Newey and West 1987), whose bandwidth is
told from the data (Andrews 1991), and how many of them a 95 % interval goes to either side.

With --group COLUMN, or y ~ experts | gate | COLUMN, all rows of one id have one expert: likelihood,
BIC's n, posteriors, standard errors and the parts of crossvalidate go by groups. The gate sees what is
constant in a group. The certificate's tests are of sums over groups.

With --shared x1,site, or y ~ x2 + shared(x1 + site), the coefficients of these columns are the same in all
experts; (intercept), in a formula shared(1), is theirs. moe compare tests such a fit within the one without.

With --cluster COLUMN standard errors hold where rows of one id depend on each other, as those of
one clinic: the sandwich of the clusters' scores with the factor G/(G-1) for G clusters, whose
intervals take a t law with G-1 degrees of freedom. Experts are those of rows all the same.

With --k FROM:TO every number of experts in the range is fitted, as far as the rows allow, and
compared by log-likelihood, AIC, BIC and ICL (BIC plus twice the entropy of the posteriors),
less being better. BIC corrected for few rows chooses the model that is written, or what --choose says:
by n/(n-p-2) times the penalty for p parameters and n rows (McQuarrie 1999), where noise is estimated.

With --moments FILE the data are the merged sums of moe moments. Methods moments and
spectral take their tensors from the sums of all rows, and the gate, the noise level
and the likelihood from the random subsample beside them; the other methods, and auto
by default, fit the subsample, auto from the moment estimate of all rows too. What auto finds
is where moe newton begins on all rows, with its near-best optima.

Rows that would take more than half of the memory that is free, or do not fit into
--max-memory, stay in their file and are read again by every pass: an NPY file in
place, others from a copy in the directory of temporary files (TMPDIR). The model is
the same to the byte. Methods l2 and l4 need all rows in memory.

A fit by method auto that Ctrl-C, SIGTERM or SIGHUP ends leaves FILE.checkpoint beside
the output FILE once its first starts are made; SIGKILL leaves none. From it the same
command with --resume goes on, to the same bytes. The survey of a small table comes
before them.`

const formulasTopic = `The target is the last column unless --target names one. A CSV file may have
semicolons or tabs between its fields and be compressed by gzip or zstd.

A column of words is a factor: a 0/1 column for every level but the reference, the
commonest or that of --reference COLUMN=LEVEL. --categorical makes factors of columns
of numbers too. Rows with missing cells are refused, or left out by --missing drop.

With --formula 'y ~ EXPERTS | GATE' the features are the terms of a formula as in R:
+ - * : ^ ( ) . and I(), log, exp, sqrt, poly(COLUMN, DEGREE), factor(COLUMN). Both
sides of the bar have an intercept unless they take it away by - 1; without a bar
the gate has the experts' terms. The model file keeps the terms, so that predict
needs the columns only.

The left side is the target's column, or log(y), sqrt(y) or 1/y of it, for y above 0. The
mixture is then of that; likelihoods, BIC, predictions and intervals are of y. With
--family binomial it may be cbind(SUCCESSES, FAILURES), as --trials says it. Among the
experts' terms offset(COLUMN) or offset(log(COLUMN)) is added with no coefficient, as
--offset adds it.

  moe fit trial.csv --formula 'dose ~ age * sex + log(weight) | age + site' --k 2
  moe fit trial.csv --categorical ward --reference sex=F --missing drop --k 2 --intercept`

const treesTopic = `With --hierarchy SHAPE the experts are the leaves of a tree of gates: 2x2 is a gate over
two gates over two experts each, 2x(1,2) one whose first branch is an expert. With
--leaves they have activations of their own, from left to right. A tree is fitted by
method auto, whose starts are then the best of a search under one gate and others,
arranged in the tree, or by method em.

With --hierarchy auto the tree is grown: from one expert, by making a leaf a gate of two as
long as that lowers BIC, then by making branches leaves again as long as that does, then
by joining a gate with the one above it. moe explain MODEL --starts, and --verbose, show all
trees on the way; --max-leaves bounds it.

  moe fit data.csv --hierarchy 2x2 --leaves relu -o tree.json
  moe fit states.csv --hierarchy '2x(1,2)' --leaves identity,tanh,tanh -o unit.json
  moe fit data.csv --hierarchy auto --activation identity -o grown.json`

const targetsTopic = `With --targets every one of several targets gets a mixture of its own, with its gate and its
experts, over the same features: the fits side by side, one after the other, in one file of
format moe-model/v2, which predict and evaluate read. With --gate-shared beside it the
targets share one gate: a row's expert is that of all targets, each expert has a regressor for
every target, and the noise of a row's targets is independent, or with --noise-covariance full
correlated, the same for all experts unless --noise says otherwise. Such a fit starts from
random and clustered starts of all targets together, and has one certificate. Of a range of
--k, by --choose heldout, one number is taken for all targets.

With --output-scale the experts' means are c + s*g(<a,x>), an offset and a scale of all
experts (shared) or of each (per-expert), fitted with the rest: a sigmoid, which goes
from 0 to 1, fits a target of any size. Where g(tz) = t*g(z) the scale's size is in the
regressors' norms, and s is 1 or -1; where g(-z) = const - g(z) it is above 0.

  moe fit states.csv --targets next1,next2 --activation tanh --k 3 -o states.json
  moe fit states.csv --targets next1,next2 --gate-shared --noise-covariance full --activation tanh --k 3
  moe fit curve.csv --activation sigmoid --k 1 --intercept --output-scale shared -o curve.json`

const exitCodesTopic = `  0    the answer is yes
  1    the answer is no: an activation that is not valid, a fit that has not converged or whose
       optimum is suspect or not judged, a plugin that says what is not so. What was asked for has
       been written all the same, and the output says why
  64   how the command was called: flags, arguments, an expression that is no activation, more than
       the machine or the rows can do
  65   the content of a data or model file
  69   a plugin failed or is not there
  70   a defect of moe; please report it
  73   an output cannot be created
  74   reading or writing failed
  77   a plugin that is not trusted
  129, 130, 143   ended by a signal; outputs are as they were before

moe fit exits with 0 for answers that are accepted, and prints the same:

  moe fit data.csv -o model.json --accept suspect,not-judged
  moe fit data.csv -o model.json --accept any`
