package fitted

import (
	"context"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// Truth is the truth file: the parameters that a sample was drawn from.
type Truth struct {
	K          int         `json:"k"`
	D          int         `json:"d"`
	Sigma      float64     `json:"sigma"`
	Activation Activation  `json:"activation"`
	Regressors [][]float64 `json:"regressors"`
	Gating     [][]float64 `json:"gating"`
}

// NewTruth is the truth file of parameters without intercepts whose noise is
// the same for all experts.
func NewTruth(act Activation, p *model.Params) *Truth {
	return &Truth{
		K: p.K, D: p.D, Sigma: p.Sigma[0], Activation: act,
		Regressors: rows(p.Regressors, p.K, p.D), Gating: rows(p.Gating, p.Gates(), p.D),
	}
}

// ReadTruth reads and validates a truth file. Faults of its content are a
// *dataset.Error.
func ReadTruth(path string) (*Truth, error) {
	t := new(Truth)
	if err := readJSON(path, t); err != nil {
		return nil, err
	}
	err := firstError(
		checkSizes(t.K, t.D),
		t.Activation.Check(),
		checkMatrix("regressors", t.Regressors, t.K, t.D),
		checkMatrix("gating", t.Gating, model.Gates(t.K), t.D),
		checkSigma([]float64{t.Sigma}, 1),
	)
	if err != nil {
		return nil, &dataset.Error{File: path, Msg: err.Error()}
	}
	return t, nil
}

// Write writes the truth file, beside path and then renamed.
func (t *Truth) Write(ctx context.Context, path string) error {
	data, err := t.JSON()
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(ctx, path, data)
}

// JSON returns the truth file, laid out as [Model.JSON] does.
func (t *Truth) JSON() ([]byte, error) { return indent(t) }

// Params returns the true parameters.
func (t *Truth) Params() *model.Params {
	p := model.NewParams(t.K, t.D)
	fill(p.Regressors, t.Regressors)
	fill(p.Gating, t.Gating)
	p.Sigma[0] = t.Sigma
	return p
}
