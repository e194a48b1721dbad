package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/internal/tablefile"
)

func newPredictCmd() *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict MODEL DATA",
		Short: "Predict y and the experts' probabilities",
		Long: `predict writes one row for every row of DATA, which may be - for standard
input: mean (the expected y), p1 ... pk (the probability of each expert given x)
and, where DATA has the model's target, posterior1 ... posteriork (the
probability of each expert given x and y), each with p_zero or posterior_zero of a
zero expert. Columns are found by their names; they
are those that the fit read, whatever features it made of them. Where a row has no
target its posteriors are empty, and with --missing drop all predictions of a row
with another missing cell.
With --experts come mean1 ... meank (the expected y under each expert), of counts with
--probabilities 0:5 the probabilities p_0 ... p_5 that y is 0 ... 5, with
--interval LEVEL lower and upper: y lies between them with that probability,
given the model. They are exact quantiles of the mixture, in which the experts' means
vary by the covariance that the model file has of their coefficients; where it has none
that they are estimates is not in them, and standard error says so.
Of a model of several targets the means are written, a column for each by its name, and
with --interval lower_NAME and upper_NAME for each: each target's own interval, whatever
the others are. Where they share a gate p1 ... pk come after the means, and posterior1 ...
posteriork, given x and all targets, where DATA has them all.
Of a network's file only mean is written, with --experts unit1 ... unitk (what each
unit adds to it), and the interval is that of its normal noise.
A plugin that the model was fitted with is not needed where the model file
carries its approximation.`,
		Example: `  moe predict model.json data.csv -o predictions.csv
  moe predict model.json data.csv --interval 0.9 --experts -o predictions.csv
  moe predict model.json - < data.csv | head`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0], args[1]) },
	}
	f.limits.register(cmd)
	f.table.register(cmd, "leave their predictions empty")
	f.gate.register(cmd)
	cmd.Flags().StringVarP(&f.out, "output", "o", "",
		"write to this `FILE`, .csv, .npy or .parquet, instead of standard output")
	cmd.Flags().BoolVar(&f.extras.Experts, "experts", false, "add the mean of y under each expert")
	cmd.Flags().StringVar(&f.probabilities, "probabilities", "",
		"of counts and successes, add the probability of every whole number of a `RANGE` such as 0:5")
	cmd.Flags().Float64Var(&f.extras.Interval, "interval", 0,
		"add the prediction interval of this `LEVEL`, between 0 and 1")
	return cmd
}

// predictFlags are the flags of moe predict.
type predictFlags struct {
	out           string
	probabilities string
	extras        predict.Extras
	limits        limitFlags
	table         modelTableFlags
	gate          gateFlag
}

func (f *predictFlags) run(cmd *cobra.Command, modelPath, dataPath string) error {
	out := f.out
	if err := f.limits.check(); err != nil {
		return err
	}
	if err := f.gate.check(); err != nil {
		return err
	}
	if err := f.table.check(dataset.Keep); err != nil {
		return err
	}
	if level := f.extras.Interval; cmd.Flags().Changed("interval") && !(level > 0 && level < 1) {
		return usagef("--interval %v: want a probability between 0 and 1, such as 0.9", level)
	}
	if cmd.Flags().Changed("probabilities") {
		var err error
		if f.extras.Values, err = wholeNumbers(f.probabilities); err != nil {
			return err
		}
	}
	if out != "" {
		if _, err := tablefile.ExtensionOf(out); err != nil {
			return usagef("%w", err)
		}
		if err := distinct(out, modelPath, dataPath); err != nil {
			return err
		}
		if err := creatable(out); err != nil {
			return err
		}
	}
	file, head, err := jsonfile.OpenHead(modelPath)
	if err != nil {
		return err
	}
	if head.Several {
		if f.extras.Values != nil {
			return noProbabilities(modelPath, "has several targets, of normal noise,")
		}
		if err := f.gate.only(modelPath); err != nil {
			return err
		}
		return f.outputs(cmd, file, dataPath)
	}
	m, err := readAs(cmd, file, head)
	if err == nil {
		m, err = f.gate.of(cmd, modelPath, m)
	}
	if err != nil {
		return err
	}
	if f.extras.Values != nil {
		if of, ok := m.(mixtureFile); !ok || !host.Discrete(of.Family) {
			return noProbabilities(modelPath, "is of a target that need not be a whole number,")
		}
	}
	act, err := openModel(cmd, m.named(), modelPath, f.limits)
	if err != nil {
		return err
	}
	defer act.Close()
	if mixture, ok := m.(mixtureFile); ok && mixture.Groups != nil {
		return f.grouped(cmd, mixture, act, modelPath, dataPath)
	}
	in, err := openStream(cmd.Context(), cmd, dataPath)
	if err != nil {
		return err
	}
	defer in.close()
	src, err := f.table.openFrom(in, m, true)
	if err != nil {
		return err
	}
	if mixture, ok := m.(mixtureFile); ok {
		if f.extras.Interval > 0 {
			remarkCertain(cmd, modelPath, mixture.forRows())
		}
		f.remarkScale(cmd, mixture.Model)
	}
	return f.writeCut(cmd, modelPath, m, src, act)
}

// writeCut is write of a model's predictions, and says how many intervals are cut.
func (f *predictFlags) writeCut(cmd *cobra.Command, modelPath string, m anyModel, src dataset.Source,
	act *modelActivation) error {
	f.extras.Cut = new(int)
	if err := f.write(cmd, rechecked{m.predictions(act, src, f.extras), act.Recheck}); err != nil {
		return err
	}
	if n := *f.extras.Cut; n > 0 {
		remark(cmd, "moe: the intervals of %s are cut at e^20 times the mean: so far from the rows of %s nothing is "+
			"known", plural(n, "row"), modelPath)
	}
	return nil
}

// mostProbabilities is how many columns of probabilities there are at most.
const mostProbabilities = 1000

// wholeNumbers are those of a range, 0:5 or one alone.
func wholeNumbers(of string) (out []float64, err error) {
	first, last, several := strings.Cut(of, ":")
	from, err := strconv.Atoi(first)
	to := from
	if err == nil && several {
		to, err = strconv.Atoi(last)
	}
	if err != nil || from < 0 || to < from || to-from >= mostProbabilities {
		return nil, usagef("--probabilities %s: want a whole number or a range such as 0:5, of at most %d numbers "+
			"from 0", of, mostProbabilities)
	}
	for v := from; v <= to; v++ {
		out = append(out, float64(v))
	}
	return out, nil
}

// noProbabilities refuses probabilities of single values where there are none.
func noProbabilities(path, why string) error {
	return usagef("--probabilities: %s %s and no single value has a probability", path, why)
}

// remarkCertain says that intervals take the parameters of a model as they are, where its file says no more.
func remarkCertain(cmd *cobra.Command, path string, m *fitted.Model) {
	if m.Covariance == nil {
		remark(cmd, "moe: the intervals take the parameters of %s as they are: it has no covariance of them", path)
	}
}

// remarkScale says what a model of a scale of the target cannot say of the target.
func (f *predictFlags) remarkScale(cmd *cobra.Command, m *fitted.Model) {
	if !m.TargetScale.HasMean() {
		remark(cmd, "moe: %s has no mean where %s is normal: the medians stand in its place", m.Target,
			m.ScaledTarget())
		if f.extras.Interval > 0 {
			remark(cmd, "moe: an empty end of an interval is beyond all values of %s, where the noise of %s is below 0",
				m.Target, m.ScaledTarget())
		}
	}
}

// outputs predicts the targets of a model of several.
func (f *predictFlags) outputs(cmd *cobra.Command, file *jsonfile.File, dataPath string) error {
	v, err := fitted.VectorOf(file)
	if err != nil {
		return err
	}
	remarkUnread(cmd, file.Path, v.Unknown)
	if f.extras.Experts {
		return usagef("--experts: %s has %d targets, of which predict writes means and intervals", file.Path,
			len(v.Outputs))
	}
	for _, o := range v.Outputs {
		if f.extras.Interval > 0 && o.Sigma == nil {
			return usagef("--interval: target %q of %s has no sigma, and its mean is all there is", o.Target, file.Path)
		}
	}
	first := mixtureFile{Model: v.Model(0)}
	act, err := openModel(cmd, first.named(), file.Path, f.limits)
	if err != nil {
		return err
	}
	defer act.Close()
	if v.SharedGate != nil {
		return f.joint(cmd, v, act, dataPath)
	}
	if f.extras.Interval > 0 {
		remarkCertain(cmd, file.Path, first.Model)
	}
	in, err := openStream(cmd.Context(), cmd, dataPath)
	if err != nil {
		return err
	}
	defer in.close()
	src, err := f.table.openFrom(in, first, true)
	if err != nil {
		return err
	}
	predictions, err := predict.Outputs(v, act, src, f.extras.Interval)
	if err != nil {
		return err
	}
	return f.write(cmd, rechecked{predictions, act.Recheck})
}

// joint predicts the targets of a model under whose one gate they are, with the experts'
// probabilities given all targets where DATA has them.
func (f *predictFlags) joint(cmd *cobra.Command, v *fitted.Vector, act *modelActivation, dataPath string) error {
	in, err := openInput(cmd.Context(), cmd, dataPath)
	if err != nil {
		return err
	}
	defer in.close()
	var tables []dataset.Source
	for j := range v.Outputs {
		src, err := f.table.openFrom(in, mixtureFile{Model: v.Model(j)}, true)
		if err != nil {
			return err
		}
		tables = append(tables, src)
	}
	var predictions dataset.Source
	if slices.ContainsFunc(tables, func(src dataset.Source) bool { return src.Schema().Target == "" }) {
		predictions, err = predict.Outputs(v, act, tables[0], f.extras.Interval)
	} else {
		predictions, err = predict.JointOutputs(v, act, tables, f.extras.Interval)
	}
	if err != nil {
		return err
	}
	return f.write(cmd, rechecked{predictions, act.Recheck})
}

// write writes predictions to where they were asked for.
func (f *predictFlags) write(cmd *cobra.Command, table dataset.Source) error {
	ctx, out, predictions := cmd.Context(), f.out, &counted{Source: table}
	switch {
	case out != "":
		if err := dataset.Write(ctx, out, predictions); err != nil {
			return err
		}
		return reportPredictions(cmd, out, predictions)
	case wantsJSON(cmd):
		return predictionsJSON(ctx, cmd.OutOrStdout(), predictions)
	}
	to := cmd.OutOrStdout()
	if onTerminal(to) { // names of targets are the model's
		to = textOut(cmd)
	}
	return dataset.WriteCSV(ctx, to, predictions)
}

// counted counts the rows of a source's pass.
type counted struct {
	dataset.Source
	rows int
}

func (c *counted) Read(ctx context.Context, fn func(*model.Block) error) error {
	return c.Source.Read(ctx, func(b *model.Block) error {
		c.rows += b.N
		return fn(b)
	})
}

// writtenJSON is the JSON of moe predict where -o names a file.
type writtenJSON struct {
	Output  string   `json:"output"`
	Rows    int      `json:"rows"`
	Columns []string `json:"columns"`
}

func reportPredictions(cmd *cobra.Command, out string, p *counted) error {
	columns := p.Schema().Features
	if wantsJSON(cmd) {
		return printJSON(cmd, writtenJSON{Output: out, Rows: p.rows, Columns: columns})
	}
	span := plural(len(columns), "column") + ", " + columns[0]
	if len(columns) > 1 {
		span += " to " + columns[len(columns)-1]
	}
	return say(cmd, "%s: %s of %s", out, plural(p.rows, "row"), span)
}

// predictionsJSON streams {"columns": […], "rows": [[…], …]}.
func predictionsJSON(ctx context.Context, out io.Writer, p dataset.Source) error {
	w := bufio.NewWriter(out)
	columns, err := json.Marshal(p.Schema().Features)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "{\"columns\":%s,\"rows\":[", columns)
	separator := "\n"
	err = p.Read(ctx, func(b *model.Block) error {
		row := make([]*float64, len(b.X)/b.N)
		for i := range b.N {
			for j := range row {
				row[j] = orNull(b.X[j*b.N+i])
			}
			text, err := json.Marshal(row)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%s%s", separator, text); err != nil {
				return err
			}
			separator = ",\n"
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprint(w, "\n]}\n")
	return w.Flush()
}

// orNull is a number as JSON has it: null for a prediction that is empty.
func orNull(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}
