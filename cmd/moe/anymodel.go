package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/network/networkfile"
	"github.com/gatedlearning/moe/host/predict"
)

// anyModel is a mixture or a network, read from a file.
type anyModel interface {
	// named is a model of the same activation, which [openModel] opens.
	named() *fitted.Model
	// selection names the columns that the model reads, features makes its features of
	// them; unseen says whether levels that the fit has not seen are the reference.
	selection(unseen bool) dataset.Selection
	features(src dataset.Source, unseen bool) dataset.Source
	predictions(act model.Activation, src dataset.Source, extras predict.Extras) dataset.Source
	// judge measures the model on data, where src is not nil, and
	// against the truth, where there is a file of it.
	judge(cmd *cobra.Command, act model.Activation, src dataset.Source, truthPath string) (measured, error)
}

// measured is what moe evaluate has to say, which is also its JSON.
type measured interface {
	print(cmd *cobra.Command) error
}

// readAs reads a model's or a network's file, whose head is known.
func readAs(cmd *cobra.Command, file *jsonfile.File, head jsonfile.Head) (anyModel, error) {
	if head.Format == networkfile.Format {
		n, err := networkfile.Of(file)
		if err == nil {
			remarkUnread(cmd, file.Path, n.Unknown)
		}
		return networkFile{n}, err
	}
	m, err := fitted.Of(file)
	if err == nil {
		remarkUnread(cmd, file.Path, m.Unknown)
	}
	return mixtureFile{Model: m}, err
}

// remarkUnread names the members of a file that nobody reads, where there are any.
func remarkUnread(cmd *cobra.Command, path string, unknown []string) {
	const most = 6
	names := strings.Join(unknown[:min(len(unknown), most)], ", ")
	if n := len(unknown) - most; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	if len(unknown) > 0 {
		remark(cmd, "moe: %s has members that this version does not know, and passes over: %s", path, names)
	}
}

// mixtureFile is a mixture, and which of its file's models predicts rows.
type mixtureFile struct {
	*fitted.Model
	by fitted.Which
}

// forRows is the model by which rows are predicted; that there is one has been checked.
func (m mixtureFile) forRows() *fitted.Model {
	used, err := m.Of(m.by)
	if err != nil {
		panic(err)
	}
	return used
}

// predictsBy is the name of that model; "" where the file has one alone.
func (m mixtureFile) predictsBy() fitted.Which {
	if m.Penalised == nil {
		return ""
	}
	return cmp.Or(m.by, fitted.ByPenalty)
}

func (m mixtureFile) named() *fitted.Model { return m.Model }

func (m mixtureFile) selection(unseen bool) dataset.Selection {
	return predict.Selection(m.Model, unseen)
}

func (m mixtureFile) features(src dataset.Source, unseen bool) dataset.Source {
	return predict.Features(m.Model, src, unseen)
}

func (m mixtureFile) predictions(act model.Activation, src dataset.Source, extras predict.Extras) dataset.Source {
	extras.Uncertainty = predict.UncertaintyOf(m.forRows())
	return predict.Predictions(m.forRows().Params(), act, src, extras)
}

func (m mixtureFile) judge(cmd *cobra.Command, act model.Activation, src dataset.Source,
	truthPath string) (measured, error) {
	out := new(evaluation)
	var err error
	if truthPath != "" {
		if out.Recovery, err = compareWithTruth(cmd, m.Model, truthPath); err != nil {
			return nil, err
		}
	}
	if src != nil {
		out.Gate = m.predictsBy()
		out.Evaluation, err = predict.EvaluateModel(cmd.Context(), m.forRows(), act, src)
	}
	return out, err
}

type networkFile struct{ *networkfile.Network }

func (n networkFile) named() *fitted.Model {
	return &fitted.Model{Activation: n.Activation, Approximation: n.Approximation}
}

func (n networkFile) selection(bool) dataset.Selection {
	return dataset.Selection{Features: n.Features, Target: n.Target}
}

func (n networkFile) features(src dataset.Source, _ bool) dataset.Source { return src }

func (n networkFile) predictions(act model.Activation, src dataset.Source, extras predict.Extras) dataset.Source {
	return predict.NetworkPredictions(n.Model(), act, src, extras)
}

// networkEvaluation is the JSON of moe evaluate of a network.
type networkEvaluation struct {
	*predict.NetworkEvaluation
	*networkfile.NetworkRecovery
}

func (n networkFile) judge(cmd *cobra.Command, act model.Activation, src dataset.Source,
	truthPath string) (measured, error) {
	out := new(networkEvaluation)
	var err error
	if truthPath != "" {
		if out.NetworkRecovery, err = recovery(cmd, n.Network, act, truthPath); err != nil {
			return nil, err
		}
	}
	if src != nil {
		out.NetworkEvaluation, err = predict.EvaluateNetwork(cmd.Context(), n.Model(), act, src)
	}
	return out, err
}

// recovery measures a network of an activation against the one in a file.
func recovery(cmd *cobra.Command, n *networkfile.Network, act model.Activation,
	truthPath string) (*networkfile.NetworkRecovery, error) {
	truth, err := readTrueNetwork(cmd, truthPath, n.Activation, n.K, n.D)
	if err != nil {
		return nil, err
	}
	odd, err := network.Odd(cmd.Context(), act)
	if err != nil {
		return nil, err
	}
	e := metric.Units(n.Model(), truth.Model(), odd)
	return &networkfile.NetworkRecovery{RelativeError: e.Weights, OutputError: e.Output, EReg: e.Directions}, nil
}

// readTrueNetwork reads the truth of a network of the activation and size, and says what of its file nobody reads.
func readTrueNetwork(cmd *cobra.Command, path string, act stated.Activation, k, d int) (*networkfile.Network, error) {
	truth, err := networkfile.Read(path)
	switch {
	case err != nil:
		return nil, err
	case truth.K != k || truth.D != d:
		return nil, &dataset.Error{File: path,
			Msg: fmt.Sprintf("the network has k = %d, d = %d, the truth k = %d, d = %d", k, d, truth.K, truth.D)}
	case !truth.Activation.Same(act):
		return nil, &dataset.Error{File: path,
			Msg: fmt.Sprintf("its activation is %s, that of the network is %s: their weights do not compare",
				truth.Activation, act)}
	}
	remarkUnread(cmd, path, truth.Unknown)
	return truth, truth.Activation.Agree(path, act)
}

func (e *networkEvaluation) print(cmd *cobra.Command) error {
	w := textOut(cmd)
	if r := e.NetworkEvaluation; r != nil {
		if _, err := fmt.Fprintf(w, "rows            %s\n", weighedRows(r.N, r.Weight)); err != nil {
			return err
		}
		if r.LogLikelihood != nil {
			fmt.Fprintf(w, "log-likelihood  %.6g\n", *r.LogLikelihood)
		}
		fmt.Fprintf(w, "rmse            %.6g\nr2              %s\n", r.RMSE, shownR2(r.R2))
		if r.Calibration != nil {
			if err := printCalibration(w, r.Calibration, r.PITHistogram); err != nil {
				return err
			}
		}
	}
	if r := e.NetworkRecovery; r != nil {
		if _, err := fmt.Fprintf(w, "relative error  %.3g\noutput error    %.3g\ne_reg           %.3g\n",
			r.RelativeError, r.OutputError, r.EReg); err != nil {
			return err
		}
	}
	return nil
}
