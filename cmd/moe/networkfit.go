package main

import (
	"bytes"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// networkFitFlags are the flags of moe network init and fit.
type networkFitFlags struct {
	data       string
	selection  dataset.Selection
	activation activationFlags
	request    network.Request
	output     string
	exact      bool
	strict     bool
	truth      string
	out        string
	report     string
}

// moreStarts are made at most beside those asked for, while fewer than three agree.
const moreStarts = 12

const outputHelp = `The output weights v are what --output-weights says: a list of numbers, signs
(the default: |v_i| = 1, signs to be learned) or unit-rows (nothing is known of v,
and the rows w_i are unit vectors). Some convention is needed: for a phi with
phi(c*z) = c^p*phi(z) only v_i*|w_i|^p is identified.`

func newNetworkInitCmd() *cobra.Command {
	f := &networkFitFlags{request: network.Request{TensorsOnly: true}}
	cmd := &cobra.Command{
		Use:   "init DATA [NAME] --k K",
		Short: "Estimate a network by moment tensors",
		Long: `init estimates a network of k units from the moment tensors E[y*S_j(x)] of the
rows of DATA, for x ~ N(0, I): the span of the weights from the second (the third
where phi has none of the second), their directions from the rank-1 terms of the third
(the fourth where phi has none of the third, as relu), lengths and signs from what the
tensors say of each term.

` + outputHelp,
		Example: `  moe network init data.csv --activation relu --k 3 --truth truth.json -o start.json`,
		Args:    dataArg(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.data = args[0]
			return f.run(cmd)
		},
	}
	f.register(cmd)
	return cmd
}

func newNetworkFitCmd() *cobra.Command {
	f := new(networkFitFlags)
	cmd := &cobra.Command{
		Use:   "fit DATA [NAME] --k K",
		Short: "Fit a network with one hidden layer to a data set",
		Long: `fit learns a network of k units by least squares. It starts from the moment
tensors (see moe network init) and from random weights, goes down by gradient
descent with a step of the inverse of the largest curvature at the start, and then
by Levenberg-Marquardt to the end; the least loss on all rows wins. As long as fewer
than three starts end there, more are made, in which the signs of v are those that fit
random weights best.

The result carries a certificate: do the residuals show that units are missing or
merged? An optimum in doubt is reported with exit code 1, and with --strict a model
in doubt as well; the network is written all the same.

` + outputHelp,
		Example: `  moe network fit data.csv --activation relu --k 3 -o network.json
  moe network fit data.csv --activation leakyrelu --param slope=0.1 --k 2 --output-weights 1,-1 --truth truth.json
  moe network fit data.csv --activation relu --k 3 --report network.html
  moe network fit data.npy --activation sigmoid --k 4 --output-weights unit-rows --starts 20 --json`,
		Args: dataArg(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.data = args[0]
			return f.run(cmd)
		},
	}
	f.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.request.Starts, "starts", 4,
		"random starts beside the tensors'; where there are any, up to 12 more follow while fewer than three agree")
	flags.IntVar(&f.request.Descent, "descent", 200,
		"steps of gradient descent of each start, before Levenberg-Marquardt")
	flags.BoolVar(&f.request.NoTensors, "no-tensors", false, "random starts alone")
	flags.BoolVar(&f.strict, "strict", false,
		"exit with 1 also if the residuals show that the model does not describe the data")
	return cmd
}

// register adds what init and fit have in common.
func (f *networkFitFlags) register(cmd *cobra.Command) {
	f.activation.register(cmd)
	flags := cmd.Flags()
	flags.IntVar(&f.request.K, "k", 0, "number of units (required)")
	flags.StringVar(&f.output, "output-weights", network.Signs.String(), "v: `V1,V2,...`, signs or unit-rows")
	flags.StringVar(&f.selection.Target, "target", "", "the target's column `NAME` (default the last column)")
	flags.StringSliceVar(&f.selection.Features, "features", nil,
		"the features' column `NAMES` (default all but the target)")
	flags.StringSliceVar(&f.selection.Drop, "drop", nil, "column `NAMES` to leave out")
	flags.StringVar(&f.selection.Roles[model.Weights], "weights", "",
		"column `NAME` of observation weights: a row of weight w counts as w rows")
	flags.BoolVar(&f.exact, "exact-activation", false,
		"take every value from the plugin, not from a native approximation of it")
	flags.StringVar(&f.truth, "truth", "", "compare with the true network in this JSON `FILE`")
	flags.StringVarP(&f.out, "output", "o", "", "write the network to this JSON `FILE`")
	flags.StringVar(&f.report, "report", "", "write a page about the network to this HTML `FILE`")
	flags.IntVar(&f.request.Threads, "threads", 0, "threads to use (default one per processor); the result is the same")
	addSeed(cmd, &f.request.Seed)
	cobra.CheckErr(cmd.MarkFlagRequired("k"))
}

func (f *networkFitFlags) run(cmd *cobra.Command) error {
	began, ctx := time.Now(), cmd.Context()
	if err := f.check(cmd); err != nil {
		return err
	}
	plugin, err := f.activation.open(ctx)
	if err != nil {
		return err
	}
	defer plugin.Close()
	src, err := dataset.Open(f.data, f.selection)
	if err != nil {
		return err
	}
	named, err := stated.Describe(ctx, plugin.Activation)
	if err != nil {
		return err
	}
	truth, err := f.readTruth(cmd, named, plugin, len(src.Schema().Features))
	if err != nil {
		return err
	}
	f.request.Approximate = !plugin.InProcess() && !f.exact
	r, err := network.Fit(ctx, src, plugin.Activation, f.request)
	if err != nil {
		return err
	}
	if err := plugin.Recheck(ctx); err != nil {
		return err
	}
	file, err := f.file(r, named, truth)
	if err != nil {
		return err
	}
	if f.out != "" {
		if err := file.Write(ctx, f.out); err != nil {
			return err
		}
	}
	if f.report != "" {
		if err := f.writeReport(cmd, file, r, src); err != nil {
			return err
		}
	}
	if err := f.print(cmd, file, time.Since(began)); err != nil {
		return err
	}
	if c := r.Certificate; !r.Converged() || c != nil && (c.Optimum != infer.Pass || f.strict &&
		c.Model != infer.Pass) {
		return errNo
	}
	return nil
}

// check looks at the flags and at whether the output can be created.
func (f *networkFitFlags) check(cmd *cobra.Command) (err error) {
	switch f.output {
	case network.Signs.String():
		f.request.Output = network.Signs
	case network.UnitRows.String():
		f.request.Output = network.UnitRows
	default:
		f.request.Output = network.Given
		if f.request.V, err = parseNumbers("output-weights", f.output); err != nil {
			return usagef("%w; want numbers, signs or unit-rows", err)
		}
	}
	if f.request.Starts > 0 {
		f.request.More = moreStarts
	}
	switch {
	case f.data == "-":
		return usagef("a fit needs more than one pass over the data, which standard input cannot give: name a file")
	case f.request.Starts < 0:
		return usagef("--starts %d: want 0 or more", f.request.Starts)
	case f.request.Descent < 0:
		return usagef("--descent %d: want 0 or more", f.request.Descent)
	case cmd.Flags().Changed("threads") && f.request.Threads < 1:
		return usagef("--threads %d: want at least 1", f.request.Threads)
	}
	if err := f.selection.Check(); err != nil {
		return err
	}
	if err := distinct(f.out, f.data, f.truth, f.report); err != nil {
		return err
	}
	if err := distinct(f.report, f.data, f.truth); err != nil {
		return err
	}
	return creatable(f.out, f.report)
}

// readTruth reads the network of --truth, nil where there is none.
func (f *networkFitFlags) readTruth(cmd *cobra.Command, named stated.Activation, plugin *catalog.Plugin,
	d int) (*model.Network, error) {
	if f.truth == "" {
		return nil, nil
	}
	truth, err := readTrueNetwork(cmd, f.truth, named, f.request.K, d)
	if err != nil {
		return nil, err
	}
	remarkUnverified(cmd, f.truth, truth.Activation, plugin)
	return truth.Model(), nil
}

// file puts the result into the form of its file, with its distance to the truth,
// unless that is nil.
func (f *networkFitFlags) file(r *network.Result, act stated.Activation,
	truth *model.Network) (*networkfile.Network, error) {
	if err := networkfile.CheckUnits(r.Network); err != nil {
		return nil, &dataset.Error{File: r.Schema.Name, Msg: "no network of these output weights is found: " +
			err.Error()}
	}
	out := networkfile.New(act, r.Network, r.Schema)
	out.Approximation = r.Native.Native
	fit := &networkfile.NetworkFit{
		Method: "fit", Output: f.request.Output.String(), Seed: f.request.Seed, N: r.N, Loss: r.Loss,
		Converged: r.Converged(), Status: optim.Converged.String(), Starts: []networkfile.NetworkStart{},
		Certificate: fitted.NewCertificate(r.Certificate), Notes: append([]string{}, r.Notes...),
	}
	if f.selection.Roles[model.Weights] != "" {
		fit.Weight = r.Weight
	}
	if f.request.TensorsOnly {
		fit.Method = "init"
	}
	for _, s := range r.Starts {
		start := networkfile.NetworkStart{
			Kind: s.Kind, LossAtStart: s.AtStart, StepSize: s.StepSize, Rate: s.Rate, LossDescent: s.AfterDescent,
			Loss: s.Result.Value, Iterations: s.Result.Iterations, Status: s.Result.Status.String(), Agrees: s.Agrees,
		}
		if s.Descended != nil {
			start.Descent = s.Descended.Iterations
		}
		fit.Starts = append(fit.Starts, start)
	}
	if len(r.Starts) > 0 {
		best := r.Starts[r.Best].Result
		fit.Status, fit.Iterations = best.Status.String(), best.Iterations
	}
	if t := r.Tensors; t != nil {
		estimate := networkfile.New(act, t.Network, r.Schema)
		fit.Tensors = &networkfile.TensorEstimate{
			Orders: []int{t.Subspace, t.Terms}, Eigenvalues: t.Eigenvalues[:min(len(t.Eigenvalues), t.Network.K+1)],
			Residual: t.Residual,
			Weights:  estimate.Weights, OutputWeights: estimate.OutputWeights,
		}
	}
	out.Fit = fit
	if truth == nil {
		return out, nil
	}
	e := metric.Units(r.Network, truth, r.Odd)
	fit.Truth = &networkfile.NetworkRecovery{RelativeError: e.Weights, OutputError: e.Output, EReg: e.Directions}
	return out, nil
}

// writeReport writes the page of the network.
func (f *networkFitFlags) writeReport(cmd *cobra.Command, file *networkfile.Network, r *network.Result,
	src dataset.Source) error {
	d, err := diagnosis.OfNetwork(cmd.Context(), file, r.Native, src)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := page.Network(&out, file, d, settings(cmd)); err != nil {
		return err
	}
	return atomicfile.WriteFile(cmd.Context(), f.report, out.Bytes())
}

func (f *networkFitFlags) print(cmd *cobra.Command, file *networkfile.Network, took time.Duration) error {
	data, err := file.JSON()
	if err != nil {
		return err
	}
	if wantsJSON(cmd) {
		return printWithSeconds(cmd, data, took)
	}
	if err := report.Network(textOut(cmd), file); err != nil {
		return err
	}
	if f.out != "" {
		remark(cmd, "moe: wrote %s after %.2f s", f.out, took.Seconds())
	}
	return nil
}
