// Package networkfile is the file of a network with one hidden layer: of a fit, or of what a sample was drawn from.
package networkfile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/jsonfile"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Format is the version of the network's file that this package writes
// and reads.
const Format = "moe-network/v1"

// Network is a network with one hidden layer of K units over D features,
// y = Σ_i v_i·φ(⟨w_i, x⟩) + σ·N(0,1). Its JSON is the network's file: of a fit, or
// of what a sample was drawn from.
type Network struct {
	Format     string            `json:"format"`
	Activation stated.Activation `json:"activation"`
	D          int               `json:"d"`
	K          int               `json:"k"`
	Features   []string          `json:"features"` // D names
	Target     string            `json:"target"`

	Weights       [][]float64 `json:"weights"`        // K rows w_i of D
	OutputWeights []float64   `json:"output_weights"` // K: v_i, none of them 0
	Sigma         float64     `json:"sigma"`          // of the noise; the residuals' rms for a fit

	Fit *NetworkFit `json:"fit"` // null for the truth of a sample

	// Approximation is φ as the fit evaluated it, where the activation ran in
	// another process.
	Approximation *native.Coefficients `json:"approximation,omitempty"`

	Unknown []string `json:"-"` // as of [fitted.Model]
}

// NetworkFit says how a network was found.
type NetworkFit struct {
	Method     string         `json:"method"` // init or fit
	Output     string         `json:"output"` // given, signs or unit-rows: what was known of v
	Seed       uint64         `json:"seed"`
	N          int            `json:"n"`
	Weight     float64        `json:"weight,omitempty"` // sum of the observations' weights, where there are any
	Loss       float64        `json:"loss"`             // mean of (y − f(x))²/2
	Converged  bool           `json:"converged"`
	Status     string         `json:"status"`
	Iterations int            `json:"iterations"`
	Starts     []NetworkStart `json:"starts"`

	Tensors     *TensorEstimate     `json:"tensors"`     // null where there was no tensor initialisation
	Certificate *fitted.Certificate `json:"certificate"` // null where there is none: see the notes
	Notes       []string            `json:"notes"`

	Truth *NetworkRecovery `json:"truth,omitempty"` // where the true weights were given
}

// NetworkStart is one start of a fit: tensors, random, or signs, random with signs of v that fit.
type NetworkStart struct {
	Kind        string  `json:"kind"`
	LossAtStart float64 `json:"loss_at_start"`
	Descent     int     `json:"descent"` // steps of gradient descent
	StepSize    float64 `json:"step_size"`
	Rate        float64 `json:"rate"` // by which a step of the last of them multiplied the loss's distance to its end
	LossDescent float64 `json:"loss_after_descent"`
	Loss        float64 `json:"loss"` // where the start ended
	Iterations  int     `json:"iterations"`
	Status      string  `json:"status"`
	Agrees      bool    `json:"agrees"` // with the best start
}

// TensorEstimate is what the moment tensors gave.
type TensorEstimate struct {
	Orders []int `json:"orders"` // of the tensors: subspace, decomposition
	// |those| of the subspace's matrix, descending, the first K+1 of them
	Eigenvalues   []float64   `json:"eigenvalues"`
	Residual      float64     `json:"residual"` // of the rank-1 terms, relative to the tensor
	Weights       [][]float64 `json:"weights"`
	OutputWeights []float64   `json:"output_weights"`
}

// NetworkRecovery is the distance to known weights.
type NetworkRecovery struct {
	RelativeError float64 `json:"relative_error"` // of the weights, see metric.NetworkError
	OutputError   float64 `json:"output_error"`   // of the output weights
	EReg          float64 `json:"e_reg"`          // of the directions, as for mixtures
}

// New is the file of a network without a fit.
func New(act stated.Activation, n *model.Network, schema dataset.Schema) *Network {
	n = n.Clone()
	return &Network{
		Format: Format, Activation: act, D: n.D, K: n.K, Features: schema.Features, Target: schema.Target,
		Weights: slices.Collect(slices.Chunk(n.Weights, n.D)), OutputWeights: n.Output, Sigma: n.Sigma,
	}
}

// Read reads and validates a network's file. Faults of its content are a
// *dataset.Error.
func Read(path string) (*Network, error) { return jsonfile.Read(path, Of) }

// Of is [Read] of a file that is open.
func Of(f *jsonfile.File) (*Network, error) {
	n := new(Network)
	var err error
	if n.Unknown, err = f.Sized(n, func() (k, d int) { return n.K, n.D }); err != nil {
		return nil, err
	}
	if err := n.Validate(); err != nil {
		return nil, &dataset.Error{File: f.Path, Msg: err.Error()}
	}
	return n, nil
}

// Model returns the network's parameters.
func (n *Network) Model() *model.Network {
	out := model.NewNetwork(n.K, n.D)
	copy(out.Weights, slices.Concat(n.Weights...))
	copy(out.Output, n.OutputWeights)
	out.Sigma = n.Sigma
	return out
}

// Write validates the network and writes its file, beside path and then renamed.
func (n *Network) Write(ctx context.Context, path string) error {
	return jsonfile.Write(ctx, path, n)
}

// JSON returns the network's file, laid out as that of a model.
func (n *Network) JSON() ([]byte, error) {
	if err := n.Validate(); err != nil {
		return nil, fmt.Errorf("a network that cannot be written: %w", err)
	}
	c := *n
	if c.Activation.Params == nil {
		c.Activation.Params = map[string]float64{}
	}
	return jsonfile.Indent(&c)
}

// Validate reports the first thing that is wrong with the network: a format that
// is not [Format], sizes that do not fit k and d, numbers that are not
// finite, zeros among the output weights, or weights that are linearly dependent.
func (n *Network) Validate() error {
	if n.Format != Format {
		return fmt.Errorf("format is %q, want %q", n.Format, Format)
	}
	if err := n.Activation.Check(); err != nil {
		return err
	}
	if err := check.Sizes(n.K, n.D); err != nil {
		return err
	}
	if err := cmp.Or(
		check.Names(n.Features, n.Target, n.D),
		check.Matrix("weights", n.Weights, n.K, n.D),
		check.Vector("output_weights", n.OutputWeights, n.K),
		check.Vector("sigma", []float64{n.Sigma}, 1),
	); err != nil {
		return err
	}
	if err := CheckUnits(n.Model()); err != nil {
		return err
	}
	if n.Sigma < 0 {
		return fmt.Errorf("sigma = %v, want at least 0", n.Sigma)
	}
	if n.Approximation != nil {
		if err := n.Approximation.Validate(); err != nil {
			return fmt.Errorf("approximation: %w", err)
		}
	}
	return nil
}

// independent is the condition number of W from which on its rows count as
// linearly dependent.
const independent = 1e10

// CheckUnits says what keeps units from being identified: more of them than
// features, an output weight of 0, or weights that are linearly dependent.
func CheckUnits(n *model.Network) error {
	if n.K > n.D {
		return fmt.Errorf("k = %d units over d = %d features: their weights cannot be linearly independent; want k "+
			"of at most d", n.K, n.D)
	}
	for i, v := range n.Output {
		if v == 0 {
			return fmt.Errorf("output weight %d is 0: a unit that does not enter y cannot be learned", i+1)
		}
	}
	if !numeric.Finite(n.Weights...) {
		return fmt.Errorf("weights that are not finite")
	}
	var svd mat.SVD
	if !svd.Factorize(mat.NewDense(n.K, n.D, n.Weights), mat.SVDNone) {
		return fmt.Errorf("the singular values of the weights cannot be computed")
	}
	s := svd.Values(nil)
	if !(s[n.K-1]*independent > s[0]) {
		return fmt.Errorf("the weights of the %d units are linearly dependent (singular values from %.3g to %.3g): "+
			"what each contributes is not identified", n.K, s[0], s[n.K-1])
	}
	return nil
}
