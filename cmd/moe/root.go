package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gatedlearning/moe/internal/shown"
	"github.com/gatedlearning/moe/internal/suggest"
)

// constructor makes a command of the root's.
type constructor struct {
	name  string
	build func() *cobra.Command
}

// constructors are those of all commands, in no order.
func constructors() []constructor {
	return []constructor{
		{"validate-activation", newValidateCmd},
		{"sample", newSampleCmd},
		{"data", newDataCmd},
		{"explore", newExploreCmd},
		{"fit", newFitCmd},
		{"crossvalidate", newCrossvalidateCmd},
		{"learn-activation", newLearnCmd},
		{"moments", newMomentsCmd},
		{"newton", newNewtonCmd},
		{"merge", newMergeCmd},
		{"predict", newPredictCmd},
		{"evaluate", newEvaluateCmd},
		{"explain", newExplainCmd},
		{"export", newExportCmd},
		{"compare", newCompareCmd},
		{"network", newNetworkCmd},
		{"diverse", newDiverseCmd},
		{"reproduce", newReproduceCmd},
		{"sweep", newSweepCmd},
		{"bench", newBenchCmd},
		{"gru", newGRUCmd},
		{"plugin", newPluginCmd},
		{"man", newManCmd},
		{"skill", newSkillCmd},
		{"version", newVersionCmd},
	}
}

// alone is the command that a command line names first and that needs no other beside it, or "": making all of them
// takes longer than many do.
func alone(args []string) string {
	for _, c := range constructors() {
		if len(args) > 0 && c.name == args[0] && c.name != "man" && c.name != "skill" {
			return c.name
		}
	}
	return ""
}

// newRoot builds the command tree, or as much of it as one command needs. began is set when a subcommand's own code
// starts to run: until then an error is one of usage.
func newRoot(began *bool, only string) *cobra.Command {
	root := &cobra.Command{
		Use:   "moe",
		Short: "Learn mixtures of experts, with guarantees, for any nonlinearity",
		Long: `moe learns the parameters of mixtures of experts

    y = g(<a_z, x>) + sigma*N(0,1),   P(z = i | x) = softmax_i(<w_1, x>, ..., <w_k-1, x>, 0)

for any nonlinearity g: identity, relu, leakyrelu, sigmoid, tanh, exp, softplus and
probit are built in, others come as plugins.

Exit codes: 0 the answer is yes, 1 the answer is no, 64 usage, 65 bad data or
model file, 69 plugin failed, 70 a defect of moe, 73 output cannot be created,
74 input/output error, 77 plugin not trusted, 129, 130 and 143 ended by a signal.`,
		Example: `  moe sample --activation relu --k 2 --d 10 --n 10000 --sigma 0.05 -o data.csv --truth truth.json
  moe fit data.csv --activation relu --k 2 -o model.json
  moe predict model.json data.csv -o predictions.csv
  moe evaluate model.json data.csv --truth truth.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if isSet(cmd, "version") {
				return nil
			}
			return noSuchCommand(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if isSet(cmd, "version") {
				return say(cmd, "%s", versionLine())
			}
			return cmd.Help()
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.PersistentFlags().Bool("json", false, "print one JSON object on stdout and nothing else there")
	root.PersistentFlags().Bool("quiet", false, "no progress and no remarks on stderr; errors are still said")
	root.Flags().BoolP("version", "v", false, "version for moe")
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		hint := ""
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && len(unknown.GetSpecifiedName()) > 1 {
			hint = nearestFlag(cmd, unknown.GetSpecifiedName())
		}
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			if want := wanted[invalid.GetFlag().Value.Type()]; want != "" {
				return usagef("--%s %s: want %s", invalid.GetFlag().Name, shown.Line(invalid.GetValue()), want)
			}
		}
		return usagef("%w%s; %s --help lists the flags", err, hint, cmd.CommandPath())
	})
	for _, c := range constructors() {
		if only == "" || c.name == only {
			root.AddCommand(c.build())
		}
	}
	useHelp(root)
	everyCommand(root, func(cmd *cobra.Command) {
		cmd.SuggestionsMinimumDistance = 2
		markBegin(cmd, began)
		countArguments(cmd)
	})
	return root
}

// wanted is what a flag of a type takes.
var wanted = map[string]string{
	"int": "a whole number", "int64": "a whole number", "uint64": "a whole number, 0 or above", "float64": "a number",
	"bool": "true or false", "duration": "a duration, such as 30s",
}

// everyCommand calls fn with cmd and all commands below it.
func everyCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	fn(cmd)
	for _, sub := range cmd.Commands() {
		everyCommand(sub, fn)
	}
}

// nearestFlag asks whether a flag was meant that the command has; "" if none is near.
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := suggest.Nearest(name, names); near != "" {
		return "; did you mean --" + near + "?"
	}
	return ""
}

// noSuchCommand checks the arguments of a command that has others below it: what is left
// over there is the name of one that does not exist.
func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("unknown command %q: did you mean %s?", args[0], strings.Join(near, " or "))
	}
	return usagef("unknown command %q: %s --help lists the commands", args[0], cmd.CommandPath())
}

// countArguments has a command that takes arguments say which, where their number is wrong.
func countArguments(cmd *cobra.Command) {
	if inner := cmd.Args; inner != nil && !cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := inner(cmd, args); err == nil || is[*exitError](err) {
				return err
			}
			given := "nothing"
			if len(args) > 0 {
				given = strings.Join(args, " ")
			}
			return usagef("%s takes %s; given: %s; moe %[1]s --help says more", strings.TrimPrefix(cmd.CommandPath(),
				"moe "), operands(cmd), given)
		}
	}
}

// operands are what a command's usage names before its flags, such as "MODEL and DATA".
func operands(cmd *cobra.Command) string {
	var names, perhaps []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "-") {
			break
		}
		if optional := strings.Trim(word, "[]"); optional != word {
			perhaps = append(perhaps, optional)
		} else {
			names = append(names, word)
		}
	}
	switch all, more := strings.Join(names, " and "), strings.Join(perhaps, " and "); {
	case all+more == "":
		return "no arguments but flags"
	case all == "":
		return "no more than " + more
	case more == "":
		return all
	default:
		return all + " and perhaps " + more
	}
}

// markBegin wraps a command's code so that it sets began first.
func markBegin(cmd *cobra.Command, began *bool) {
	if inner := cmd.RunE; inner != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return inner(cmd, args)
		}
	}
}

// wantsJSON reports whether the caller asked for JSON on stdout.
func wantsJSON(cmd *cobra.Command) bool { return isSet(cmd, "json") }

// isQuiet reports whether the caller asked for silence on stderr.
func isQuiet(cmd *cobra.Command) bool { return isSet(cmd, "quiet") }

func isSet(cmd *cobra.Command, name string) bool {
	on, err := cmd.Flags().GetBool(name)
	return err == nil && on
}

// printJSON writes v to stdout as one indented JSON object.
func printJSON(cmd *cobra.Command, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(append(shown.JSON(data), '\n'))
	return err
}

// remark writes a line to stderr unless --quiet is set. Names among the arguments
// cannot steer the terminal.
func remark(cmd *cobra.Command, format string, args ...any) {
	if !isQuiet(cmd) {
		fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", shown.Names(args)...)
	}
}

// say writes a line of a command's answer to stdout. Names among the arguments
// cannot steer the terminal.
func say(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.OutOrStdout(), format+"\n", shown.Names(args)...)
	return err
}

// textOut is stdout for an answer of many lines, in which nothing can steer the
// terminal.
func textOut(cmd *cobra.Command) io.Writer { return shown.Writer(cmd.OutOrStdout()) }
