package fitted

import (
	"cmp"
	"context"
	"fmt"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/atomicfile"
)

// TruthFormat is the version of truth files of trees, of experts with several
// activations and of noise that is not normal; those of flat mixtures of one name none.
const TruthFormat = "moe-truth/v2"

// Truth is the truth file: the parameters that a sample was drawn from. Hierarchy and
// Leaves are those of [Model].
type Truth struct {
	Format string  `json:"format,omitempty"` // TruthFormat, or ""
	K      int     `json:"k"`
	D      int     `json:"d"`
	Sigma  float64 `json:"sigma"`
	// the density of y, as of [Model], whose own parameter of this name Sigma is; 0 where it has none
	Family     string              `json:"family,omitempty"`
	Own        Own                 `json:"own,omitempty"`         // as of [Model]
	ZeroExpert bool                `json:"zero_expert,omitempty"` // as of [Model]
	Activation stated.Activation   `json:"activation"`
	Hierarchy  string              `json:"hierarchy,omitempty"`
	Leaves     []stated.Activation `json:"leaves,omitempty"`
	Regressors [][]float64         `json:"regressors"`
	Gating     [][]float64         `json:"gating"`

	Unknown []string `json:"-"` // as of [Model]
}

// NewTruth is the truth file of parameters without intercepts whose noise is
// the same for all experts, whose own activations are leaves where they have several.
func NewTruth(act stated.Activation, p *model.Params, leaves ...stated.Activation) *Truth {
	sigma, own := noiseOf(p)
	t := &Truth{
		K: p.K, D: p.D, Family: p.Family, Own: own, ZeroExpert: p.Zero, Activation: act,
		Regressors: rows(p.Regressors, p.K, p.D), Gating: rows(p.Gating, p.Gates(), p.D),
	}
	if len(sigma) > 0 {
		t.Sigma = sigma[0]
	}
	if p.Tree.Depth() > 1 {
		t.Hierarchy = p.Tree.String()
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
func ReadTruth(path string) (*Truth, error) {
	t := new(Truth)
	var err error
	if t.Unknown, err = jsonfile.ReadSized(path, t, func() (k, d int) { return t.K, t.D }); err != nil {
		return nil, err
	}
	err = cmp.Or(
		t.checkFormat(),
		check.Sizes(t.K, t.D),
		checkTree(t.Hierarchy, t.Activation, t.Leaves, t.K),
		t.Activation.Check(),
		check.Matrix("regressors", t.Regressors, t.K, t.D),
		checkFamily(t.Family, t.sigma(), t.Own, 1),
		checkZero(t.ZeroExpert, t.Family, t.Hierarchy),
		check.Matrix("gating", t.Gating, model.Gates(model.Classes(t.K, t.ZeroExpert)), t.D),
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
func (t *Truth) JSON() ([]byte, error) { return jsonfile.Indent(t) }

// Params returns the true parameters.
func (t *Truth) Params() *model.Params {
	p := model.NewParams(t.K, t.D)
	if t.ZeroExpert {
		p.AddZero()
	}
	fill(p.Regressors, t.Regressors)
	fill(p.Gating, t.Gating)
	p.Tree, p.Family = shapeOf(t.Hierarchy), t.Family
	t.Own.into(p, t.sigma())
	return p
}

// sigma is the noise as parameters have it: none where it is 0 and the density has none.
func (t *Truth) sigma() []float64 {
	if t.Sigma == 0 && t.Family != "" {
		return nil
	}
	return []float64{t.Sigma}
}
