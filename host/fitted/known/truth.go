// Package known is parameters that are known before a fit: the truth that a sample was drawn from, and those that the
// file of another fit has.
package known

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

// TruthFormat is the version of truth files of trees, of experts with several
// activations and of noise that is not normal; those of flat mixtures of one name none.
const TruthFormat = "moe-truth/v2"

// Truth is the truth file: the parameters that a sample was drawn from. Hierarchy and
// Leaves are those of [fitted.Model].
type Truth struct {
	Format string  `json:"format,omitempty"` // TruthFormat, or ""
	K      int     `json:"k"`
	D      int     `json:"d"`
	Sigma  float64 `json:"sigma"`
	// the density of y, "" for normal noise; Sigma is its scale, 0 where it has none, and Own its other parameters
	Family string     `json:"family,omitempty"`
	Own    fitted.Own `json:"own,omitempty"` // of the family, beside sigma
	// beside the K experts of counts there is one that is always 0
	ZeroExpert bool                `json:"zero_expert,omitempty"`
	Activation stated.Activation   `json:"activation"`
	Hierarchy  string              `json:"hierarchy,omitempty"`
	Leaves     []stated.Activation `json:"leaves,omitempty"`
	Regressors [][]float64         `json:"regressors"`
	Gating     [][]float64         `json:"gating"`

	Unknown []string `json:"-"` // members of the file that nobody reads
}

// NewTruth is the truth file of parameters without intercepts whose noise is
// the same for all experts, whose own activations are leaves where they have several.
func NewTruth(act stated.Activation, p *model.Params, leaves ...stated.Activation) *Truth {
	var m fitted.Model
	m.SetParams(p)
	t := &Truth{
		K: m.K, D: m.D, Family: m.Family, Own: m.Own, ZeroExpert: m.ZeroExpert, Activation: act,
		Hierarchy: m.Hierarchy, Regressors: m.Regressors, Gating: m.Gating,
	}
	if len(m.Sigma) > 0 {
		t.Sigma = m.Sigma[0]
	}
	if len(leaves) > 0 {
		t.Activation, t.Leaves = stated.Activation{Name: stated.Mixed, Params: map[string]float64{}}, leaves
	}
	t.Format = t.formatOf()
	return t
}

func (t *Truth) formatOf() string {
	if t.Hierarchy != "" || t.Leaves != nil || t.Family != "" {
		return TruthFormat
	}
	return ""
}

// checkFormat refuses another format than that of what t has.
func (t *Truth) checkFormat() error {
	if t.Format != t.formatOf() {
		return fmt.Errorf("format is %q, want %q for a truth file with or without a hierarchy, leaves or a family",
			t.Format, t.formatOf())
	}
	return nil
}

// ReadTruth reads and validates a truth file. Faults of its content are a
// *dataset.Error.
func ReadTruth(path string) (*Truth, error) { return jsonfile.Read(path, truthOf) }

// truthOf is [ReadTruth] of a file that is open.
func truthOf(f *jsonfile.File) (*Truth, error) {
	t := new(Truth)
	var err error
	if t.Unknown, err = f.Sized(t, func() (k, d int) { return t.K, t.D }); err != nil {
		return nil, err
	}
	err = cmp.Or(
		t.checkFormat(),
		check.Sizes(t.K, t.D),
		fitted.CheckTree(t.Hierarchy, t.Activation, t.Leaves, t.K),
		t.Activation.Check(),
		check.Matrix("regressors", t.Regressors, t.K, t.D),
		fitted.CheckFamily(t.Family, t.sigma(), t.Own, 1),
		fitted.CheckZero(t.ZeroExpert, t.Family, t.Hierarchy),
		check.Matrix("gating", t.Gating, model.Gates(model.Classes(t.K, t.ZeroExpert)), t.D),
	)
	if err != nil {
		return nil, &dataset.Error{File: f.Path, Msg: err.Error()}
	}
	return t, nil
}

// Write writes the truth file, beside path and then renamed.
func (t *Truth) Write(ctx context.Context, path string) error {
	return jsonfile.Write(ctx, path, t)
}

// JSON returns the truth file, laid out as [fitted.Model.JSON] does.
func (t *Truth) JSON() ([]byte, error) { return jsonfile.Indent(t) }

// Params returns the true parameters.
func (t *Truth) Params() *model.Params {
	m := fitted.Model{
		K: t.K, D: t.D, Family: t.Family, ZeroExpert: t.ZeroExpert, Hierarchy: t.Hierarchy,
		Regressors: t.Regressors, Gating: t.Gating, Sigma: t.sigma(), Own: t.Own,
	}
	return m.Params()
}

// sigma is the noise as parameters have it: none where it is 0 and the density has none.
func (t *Truth) sigma() []float64 {
	if t.Sigma == 0 && t.Family != "" {
		return nil
	}
	return []float64{t.Sigma}
}
