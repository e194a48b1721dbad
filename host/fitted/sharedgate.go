package fitted

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted/check"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/model"
)

// NoiseCovariance says whether the noise of a row's targets may be correlated.
type NoiseCovariance string

// The kinds of noise of several targets.
const (
	Diagonal NoiseCovariance = "diagonal"
	Full     NoiseCovariance = "full"
)

// SharedGate is what the outputs of a [Vector] have together where they share a gate, which
// stands with every one of them: the row's expert is then that of all targets, whose noise
// may be correlated. The levels of the noise are the outputs' Sigma.
type SharedGate struct {
	// Family is the density of the targets by its name in host/mixture/joint; absent for normal noise. The outputs'
	// Sigma are then its scales, and Own what it has besides: of each one value, or one for each expert.
	Family    string `json:"family,omitempty"`
	Own       Own    `json:"own,omitempty"`
	OwnErrors Own    `json:"own_standard_errors,omitempty"`
	// where standard errors for dependent rows were asked for
	OwnHACErrors Own `json:"own_hac_standard_errors,omitempty"`

	Noise NoiseCovariance `json:"noise_covariance,omitempty"` // of normal noise
	// Correlations of normal noise of the M outputs, M×M: one matrix of all experts, or K.
	Correlations [][][]float64 `json:"correlations,omitempty"`
	// where the noise is full and there are any
	CorrelationErrors [][][]float64 `json:"correlation_standard_errors,omitempty"`
	// where the noise is full and standard errors for dependent rows were asked for
	CorrelationHACErrors [][][]float64 `json:"correlation_hac_standard_errors,omitempty"`

	Proportions []float64   `json:"proportions,omitempty"` // K means of P(z=i|x) over the rows
	Fit         *Fit        `json:"fit,omitempty"`         // of all outputs together; absent where they were not fitted
	Covariance  *Covariance `json:"covariance,omitempty"`
}

// NewSharedGate returns the model of parameters with one gate, without what a fit adds.
func NewSharedGate(p *model.VectorParams, features, targets []string, leaves []stated.Activation) *Vector {
	v := &Vector{
		Format: FormatV2, Hierarchy: p.OfGate().Hierarchy().String(), Leaves: leaves, D: p.D, K: p.K,
		Features:   features,
		SharedGate: &SharedGate{Noise: Diagonal},
	}
	if p.Noise[0].Lower != nil {
		v.SharedGate.Noise = Full
	}
	if v.SharedGate.Family = p.Family; p.Family != "" {
		v.SharedGate.Noise, v.SharedGate.Own = "", OwnOfSeveral(p, func(level int) []float64 {
			return p.Noise[level].Own
		})
	}
	for _, n := range p.Noise {
		if p.Family == "" {
			v.SharedGate.Correlations = append(v.SharedGate.Correlations, correlationsOf(n.Covariance()))
		}
	}
	for c, target := range targets {
		q := p.Coordinate(c)
		o := NewOutput(target, q)
		o.Sigma = q.Sigma
		v.Outputs = append(v.Outputs, o)
	}
	return v
}

// OwnOfSeveral names what the noise of a family has beside the scales, or numbers of the same shape.
func OwnOfSeveral(p *model.VectorParams, at func(level int) []float64) Own {
	own := Own{}
	for l, q := range joint.Of(p.Family).Own(p.M) {
		for level := range p.Noise {
			own[q.Name] = append(own[q.Name], at(level)[l])
		}
	}
	return own
}

func correlationsOf(cov *mat.SymDense) [][]float64 {
	m := cov.SymmetricDim()
	out := make([][]float64, m)
	for c := range out {
		out[c] = make([]float64, m)
		for b := range out[c] {
			if out[c][b] = cov.At(c, b) / math.Sqrt(cov.At(c, c)*cov.At(b, b)); b == c {
				out[c][b] = 1
			}
		}
	}
	return out
}

// VectorParams returns a copy of the parameters of outputs that share a gate. It panics
// where they do not.
func (v *Vector) VectorParams() *model.VectorParams {
	if v.SharedGate == nil {
		panic("fitted: outputs with gates of their own")
	}
	coordinates := make([]*model.Params, len(v.Outputs))
	for c := range coordinates {
		coordinates[c] = v.Params(c)
	}
	noise, err := v.noise()
	if err != nil {
		panic("fitted: " + err.Error())
	}
	p := model.JoinCoordinates(coordinates, noise)
	p.Family = v.SharedGate.Family
	return p
}

// noise returns the noise of outputs that share a gate.
func (v *Vector) noise() (out []model.VectorNoise, err error) {
	m := len(v.Outputs)
	if v.SharedGate.Family != "" {
		for s := range v.Outputs[0].Sigma {
			n := model.VectorNoise{Own: []float64{}}
			for _, o := range v.Outputs {
				n.Scale = append(n.Scale, o.Sigma[s])
			}
			for _, q := range joint.Of(v.SharedGate.Family).Own(m) {
				n.Own = append(n.Own, v.SharedGate.Own[q.Name][s])
			}
			out = append(out, n)
		}
		return out, nil
	}
	for s, rho := range v.SharedGate.Correlations {
		cov := mat.NewSymDense(m, nil)
		for c := range m {
			for b := range c + 1 {
				cov.SetSym(c, b, rho[c][b]*v.Outputs[c].Sigma[s]*v.Outputs[b].Sigma[s])
			}
		}
		n, ok := model.VectorNoiseOf(cov, v.SharedGate.Noise == Full)
		if !ok {
			return nil, fmt.Errorf("shared_gate.correlations[%d] is not positive definite", s)
		}
		out = append(out, n)
	}
	return out, nil
}

// marginal gives m, output j as a model of its own, the density that a family has for it alone.
func (s *SharedGate) marginal(m *Model, v *Vector, j int) {
	levels := len(m.Sigma)
	other := func(o Output) bool { return len(o.Sigma) != levels }
	if s.Family == "" || slices.ContainsFunc(v.Outputs, other) || s.checkFamily(len(v.Outputs), levels) != nil {
		return
	}
	noise, _ := v.noise() // which is none of covariances
	var p model.Params
	joint.SetMarginal(&p, s.Family, noise, j)
	m.Family = p.Family
	m.Sigma, m.Own = noiseOf(&p)
}

// checkFamily refuses one that is not known here, and own parameters that are not its, of m targets.
func (s *SharedGate) checkFamily(m, levels int) error {
	if !joint.Known(s.Family) {
		return fmt.Errorf("shared_gate.family is %q, which is not known here; there are %s", s.Family,
			cmp.Or(strings.Join(joint.Families(), ", "), "none"))
	}
	own := joint.Of(s.Family).Own(m)
	switch {
	case s.Noise != "" || s.Correlations != nil:
		return fmt.Errorf("shared_gate has noise_covariance or correlations beside the family %s", s.Family)
	case len(s.Own) != len(own):
		return fmt.Errorf("shared_gate.own has %d parameters, want %d of the family %s", len(s.Own), len(own), s.Family)
	}
	for _, q := range own {
		if err := check.Vector("shared_gate.own."+q.Name, s.Own[q.Name], levels); err != nil {
			return err
		}
		for _, v := range s.Own[q.Name] {
			if !(v >= q.Least && v <= q.Most) {
				return fmt.Errorf("shared_gate.own.%s = %v, want a number from %v to %v", q.Name, v, q.Least, q.Most)
			}
		}
		for _, se := range []Own{s.OwnErrors, s.OwnHACErrors} {
			if len(se[q.Name]) != levels && se != nil {
				return fmt.Errorf("shared_gate has %d standard errors of %s, want %d", len(se[q.Name]), q.Name, levels)
			}
		}
	}
	return nil
}

// validate reports the first thing that does not go with the outputs of v.
func (s *SharedGate) validate(v *Vector) error {
	if s == nil {
		return nil
	}
	m, first := len(v.Outputs), &v.Outputs[0]
	if s.Family != "" {
		if err := s.checkFamily(m, len(first.Sigma)); err != nil {
			return err
		}
	}
	switch {
	case s.Family != "":
	case s.Noise != Diagonal && s.Noise != Full:
		return fmt.Errorf("shared_gate.noise_covariance = %q, want %s or %s", s.Noise, Diagonal, Full)
	case len(s.Correlations) != len(first.Sigma):
		return fmt.Errorf("shared_gate.correlations has %d matrices, the outputs %d levels of noise",
			len(s.Correlations), len(first.Sigma))
	}
	for j := range v.Outputs {
		o := &v.Outputs[j]
		switch {
		case len(o.Sigma) == 0 || len(o.Sigma) != len(first.Sigma):
			return fmt.Errorf("outputs[%d].sigma has %d levels, want those of outputs[0], which shares its gate", j,
				len(o.Sigma))
		case !slices.EqualFunc(o.Gating, first.Gating, slices.Equal) || !slices.Equal(o.GatingIntercepts,
			first.GatingIntercepts):
			return fmt.Errorf("outputs[%d].gating is not that of outputs[0], which shares it", j)
		case (o.StandardErrors == nil) != (first.StandardErrors == nil) || (o.HAC == nil) != (first.HAC == nil):
			return fmt.Errorf("of outputs[%d] and outputs[0] one has standard errors and the other none", j)
		case o.StandardErrors != nil && o.StandardErrors.Sigma == nil,
			o.HAC != nil && o.HAC.StandardErrors.Sigma == nil:
			return fmt.Errorf("outputs[%d] has standard errors without sigma", j)
		case (o.RegressorIntercepts == nil) != (first.RegressorIntercepts == nil):
			return fmt.Errorf("outputs[%d] has intercepts where outputs[0] has none, or none where it has", j)
		case o.Fit != nil || o.Proportions != nil || o.OutputScale != nil:
			return fmt.Errorf("outputs[%d] has a fit, proportions or an output scale of its own beside a shared gate",
				j)
		}
	}
	for i, rho := range s.Correlations {
		name := fmt.Sprintf("shared_gate.correlations[%d]", i)
		if err := check.Matrix(name, rho, m, m); err != nil {
			return err
		}
		for c := range m {
			for b := range c + 1 {
				if v := rho[c][b]; v != rho[b][c] || b == c && v != 1 || b < c && s.Noise == Diagonal && v != 0 {
					return fmt.Errorf("%s is not a matrix of correlations of %s noise", name, s.Noise)
				}
			}
		}
	}
	for _, of := range []struct {
		name   string
		errors [][][]float64
	}{{"correlation_standard_errors", s.CorrelationErrors},
		{"correlation_hac_standard_errors", s.CorrelationHACErrors}} {
		for i, se := range of.errors {
			if err := check.Matrix(fmt.Sprintf("shared_gate.%s[%d]", of.name, i), se, m, m); err != nil {
				return err
			}
		}
	}
	if _, err := v.noise(); err != nil {
		return err
	}
	if s.Fit != nil {
		if err := s.Fit.validate(v.K, v.K, v.D); err != nil {
			return fmt.Errorf("shared_gate.%w", err)
		}
	}
	return cmp.Or(check.Optional("shared_gate.proportions", s.Proportions, v.K), s.Covariance.validate())
}
