package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/known"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
)

// evaluation is the JSON of moe evaluate: what was asked for.
type evaluation struct {
	*predict.Evaluation
	Gate fitted.Which `json:"gate,omitempty"` // which of a file's models was measured; absent where it has one
	*fitted.Recovery
}

func newEvaluateCmd() *cobra.Command {
	var truth string
	var data dataFlags
	var gate gateFlag
	var limits limitFlags
	cmd := &cobra.Command{
		Use:   "evaluate MODEL [DATA]",
		Short: "Measure a fitted model on data and against known parameters",
		Long: `evaluate measures a model on DATA and, with --truth, against the true
parameters. On data: log-likelihood summed over the rows, and predictive that of the law that prediction
intervals are of, with the uncertainty of the parameters in it; root mean squared error
and R2 of the mean prediction, beside them those of the mean and of a linear regression that
were fitted to the rows of the fit and are in its file, the share of rows inside the prediction intervals
of 50, 80, 90 and 95 %, and a histogram of F(y|x), which is level where the model
is right; with --weights a row of weight w counts as w rows. Of a model of rows in groups the
log-likelihood is that of whole groups which the model has not seen, and all else of each row by itself. Against the truth: e_reg = 1 - max over permutations of the smallest
cosine between an estimated and a true regressor, and e_gating likewise for the
gate, under a tree over the permutations that leave it as it is; of a network's file, whose truth is a network's file too, the relative
errors of W and v after its units have been matched, and e_reg of their directions. A
model of several targets is measured target by target, against the truth in the file of
another such model.`,
		Example: `  moe evaluate model.json data.csv
  moe evaluate model.json data.csv --weights w
  moe evaluate model.json --truth truth.json --json`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				data.path = args[1]
			}
			return evaluate(cmd, args[0], data, truth, gate, limits)
		},
	}
	limits.register(cmd)
	gate.register(cmd)
	data.table.register(cmd, "leave them out")
	cmd.Flags().StringVar(&data.table.roles[model.Weights], "weights", "",
		"column `NAME` of DATA with observation weights")
	cmd.Flags().StringVar(&truth, "truth", "", "compare with the true parameters in this JSON `FILE`")
	return cmd
}

// dataFlags name a table, "" for none, and say how it is read.
type dataFlags struct {
	path  string
	table modelTableFlags
}

func evaluate(cmd *cobra.Command, modelPath string, data dataFlags, truthPath string, gate gateFlag,
	limits limitFlags) error {
	if err := limits.check(); err != nil {
		return err
	}
	if err := gate.check(); err != nil {
		return err
	}
	if err := data.table.check(dataset.Drop); err != nil {
		return err
	}
	if data.path == "" && truthPath == "" {
		return usagef("nothing to evaluate against: give DATA, --truth FILE or both")
	}
	if weights := data.table.roles[model.Weights]; data.path == "" && weights != "" {
		return usagef("--weights %s: they are a column of DATA, which is missing", weights)
	}
	file, head, err := jsonfile.OpenHead(modelPath)
	if err != nil {
		return err
	}
	var result measured
	if !head.Several {
		result, err = judgeOne(cmd, file, head, data, truthPath, gate, limits)
	} else if err = gate.only(modelPath); err == nil {
		result, err = judgeOutputs(cmd, file, data, truthPath, limits)
	}
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printJSON(cmd, result)
	}
	return result.print(cmd)
}

// judgeOne opens a model and what it is to be measured on, and measures it.
func judgeOne(cmd *cobra.Command, file *jsonfile.File, head jsonfile.Head, data dataFlags, truthPath string,
	gate gateFlag, limits limitFlags) (measured, error) {
	m, err := readAs(cmd, file, head)
	if err == nil {
		m, err = gate.of(cmd, file.Path, m)
	}
	if err != nil {
		return nil, err
	}
	mixture, ok := m.(mixtureFile)
	if data.path == "" && ok { // what is compared does not depend on the activation
		return m.judge(cmd, nil, nil, truthPath)
	}
	act, err := openModel(cmd, m.named(), file.Path, limits)
	if err != nil {
		return nil, err
	}
	defer act.Close()
	if data.path == "" {
		return m.judge(cmd, act, nil, truthPath)
	}
	grouped := ok && mixture.Groups != nil
	open := openStream
	if grouped {
		open = openInput
	}
	in, err := open(cmd.Context(), cmd, data.path)
	if err != nil {
		return nil, err
	}
	defer in.close()
	var src dataset.Source
	if grouped {
		src, err = data.table.openGrouped(cmd, in, mixture, false)
	} else {
		src, err = data.table.openFrom(in, m, false)
	}
	if err != nil {
		return nil, err
	}
	if ok {
		data.remarkWeights(cmd, in, mixture, mixture.Fit.WeightColumn)
	}
	result, err := m.judge(cmd, act, src, truthPath)
	if err != nil {
		return nil, err
	}
	return result, act.Recheck(cmd.Context())
}

// remarkWeights says that rows count once each, where the model was fitted to rows with weights in a column that a file
// has too.
func (d dataFlags) remarkWeights(cmd *cobra.Command, in *input, m mixtureFile, column string) {
	if info, err := os.Stat(d.path); column == "" || d.table.roles[model.Weights] != "" || err != nil ||
		!info.Mode().IsRegular() {
		return
	}
	if found, err := d.table.has(in, m, column, true); found && err == nil {
		remark(cmd, "moe: the fit had weights, and here each row counts once: --weights %s has them count", column)
	}
}

// compareWithTruth measures a model against the parameters of a truth file, or of another
// model with the same features.
func compareWithTruth(cmd *cobra.Command, m *fitted.Model, truthPath string) (*fitted.Recovery, error) {
	truth, err := known.ReadReference(truthPath, m.Features)
	if err != nil {
		return nil, err
	}
	remarkUnread(cmd, truthPath, truth.Unknown)
	return compareWith(m, truthPath, truth)
}

// compareWith is compareWithTruth with parameters that have been read.
func compareWith(m *fitted.Model, truthPath string, truth *known.Reference) (*fitted.Recovery, error) {
	if err := sameActivation(truthPath, truth, m.Activation, m.Leaves); err != nil {
		return nil, err
	}
	r, err := known.Compare(m.Params(), truth.Params, m.Leaves...)
	if err != nil {
		return nil, &dataset.Error{File: truthPath, Msg: err.Error()}
	}
	return &r, nil
}

func (e *evaluation) print(cmd *cobra.Command) error {
	w := textOut(cmd)
	if e.Gate != "" {
		fmt.Fprintf(w, "gate            %s\n", e.Gate)
	}
	if r := e.Evaluation; r != nil {
		of, point := "", ""
		predictive := ""
		if v := r.Predictive; v != nil {
			predictive = fmt.Sprintf("predictive      %.6g, with the uncertainty of the parameters\n", *v)
		}
		if v := r.LogLikelihoodTransformed; v != nil {
			of = fmt.Sprintf(" (of the %s of the target: %.6g)", scaleWords[string(r.TargetScale)], *v)
		}
		if r.Point != "" {
			point = " (of the medians: there is no mean)"
			if r.WithoutMedian > 0 {
				point = fmt.Sprintf(" (of the medians: there is no mean, and %d rows have no median)", r.WithoutMedian)
			}
		}
		rows := weighedRows(r.N, r.Weight) + leftOut(r.Dropped) + inGroups(r.Groups)
		if _, err := fmt.Fprintf(w, "rows            %s\nlog-likelihood  %.6g%s\n%srmse            %.6g%s\n"+
			"r2              %s\n", rows, r.LogLikelihood, of, predictive, r.RMSE, point, shownR2(r.R2)); err != nil {
			return err
		}
		if err := printBaselines(w, r.Baselines); err != nil {
			return err
		}
		if err := printCalibration(w, r.Calibration, r.PITHistogram); err != nil {
			return err
		}
	}
	if r := e.Recovery; r != nil {
		if _, err := fmt.Fprintf(w, "e_reg           %.3g\ne_gating        %.3g\n", r.EReg, r.EGating); err != nil {
			return err
		}
	}
	return nil
}

// shownR2 is R2, or why there is none.
func shownR2(r2 *float64) string {
	if r2 == nil {
		return "not defined: the targets are equal"
	}
	return fmt.Sprintf("%.6g", *r2)
}

// scaleWords name scales of the target.
var scaleWords = map[string]string{"log": "log", "sqrt": "square root", "reciprocal": "reciprocal"}

// weighedRows is the number of rows, with their weight where they have any.
func weighedRows(n int, weight float64) string {
	if weight > 0 {
		return fmt.Sprintf("%d of total weight %.6g", n, weight)
	}
	return fmt.Sprint(n)
}

// inGroups says how many groups rows are in; "" where they are in none.
func inGroups(n int) string {
	if n == 0 {
		return ""
	}
	return " in " + plural(n, "group")
}

// printBaselines prints what simpler models, of the rows of the fit, make of the rows.
func printBaselines(w io.Writer, b *predict.Baselines) error {
	if b == nil {
		_, err := fmt.Fprintln(w, "the mean        not in the model's file, nor a regression: fit again to have them "+
			"beside the model")
		return err
	}
	line := func(name string, of predict.Baseline) error {
		likelihood := ""
		if of.LogLikelihood != nil {
			likelihood = fmt.Sprintf("log-likelihood %.6g, ", *of.LogLikelihood)
		}
		_, err := fmt.Fprintf(w, "%-15s %srmse %.6g, of the fit's rows\n", name, likelihood, of.RMSE)
		return err
	}
	if err := line("the mean", b.Mean); err != nil || b.Linear == nil {
		return err
	}
	return line("a regression", *b.Linear)
}

// printCalibration prints a line for the intervals and one for the histogram.
func printCalibration(w io.Writer, coverage []predict.Coverage, pit []float64) error {
	intervals, histogram := make([]string, len(coverage)), make([]string, len(pit))
	for i, c := range coverage {
		intervals[i] = fmt.Sprintf("%g%%: %.4f", 100*c.Level, c.Coverage)
	}
	for i, n := range pit {
		histogram[i] = fmt.Sprintf("%.6g", n)
	}
	_, err := fmt.Fprintf(w, "intervals       %s\nrows by F(y|x)  %s\n", strings.Join(intervals, ", "),
		strings.Join(histogram, " "))
	return err
}
