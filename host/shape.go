package host

import (
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
)

// shape is what the parameters of a fit look like: which features the experts
// and the gate see, whether there are intercepts, how many noise levels.
type shape struct {
	experts, gate []int // features, ascending; nil for all
	intercept     bool
	perExpert     bool
}

// resolve finds the features that the configuration names.
func (f *fit) resolve() (err error) {
	f.shape = shape{intercept: f.cfg.Intercept, perExpert: f.cfg.Noise == NoisePerExpert}
	if f.shape.experts, err = f.columns(f.cfg.ExpertFeatures, "an expert"); err != nil {
		return err
	}
	f.shape.gate, err = f.columns(f.cfg.GateFeatures, "the gate")
	if f.cfg.Gate == GateConstant {
		f.shape.gate = []int{}
	}
	return err
}

func (f *fit) columns(names []string, whose string) ([]int, error) {
	if names == nil {
		return nil, nil
	}
	out := []int{}
	for _, name := range names {
		j := slices.Index(f.schema.Features, name)
		if j < 0 {
			return nil, &RequestError{fmt.Sprintf("feature %q of %s is not among the columns read", name, whose)}
		}
		out = append(out, j)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// blank returns zero parameters of the fit's shape with noise level sigma.
func (f *fit) blank(sigma float64) *model.Params {
	p := model.NewParams(f.cfg.K, f.data.D)
	if f.shape.intercept {
		p.RegressorIntercepts = make([]float64, p.K)
	}
	// A constant gate is its intercepts.
	if f.shape.intercept || f.cfg.Gate == GateConstant {
		p.GatingIntercepts = make([]float64, p.K-1)
	}
	if f.shape.perExpert {
		p.Sigma = make([]float64, p.K)
	}
	for i := range p.Sigma {
		p.Sigma[i] = sigma
	}
	return p
}

// free says which parameters vary.
func (f *fit) free() loss.Free {
	return loss.Free{Regressors: true, Gating: true, Sigma: true, ExpertColumns: f.shape.experts, GateColumns: f.shape.gate}
}

// adopt copies what the fit's shape has of p.
func (f *fit) adopt(p *model.Params) *model.Params {
	q := f.blank(p.Sigma[0])
	if len(p.Sigma) == len(q.Sigma) {
		copy(q.Sigma, p.Sigma)
	}
	copy(q.Regressors, p.Regressors)
	copy(q.Gating, p.Gating)
	if p.RegressorIntercepts != nil && q.RegressorIntercepts != nil {
		copy(q.RegressorIntercepts, p.RegressorIntercepts)
	}
	if p.GatingIntercepts != nil && q.GatingIntercepts != nil {
		copy(q.GatingIntercepts, p.GatingIntercepts)
	}
	mask(q.Regressors, q.D, f.shape.experts)
	mask(q.Gating, q.D, f.shape.gate)
	return q
}

// mask sets the coefficients of the features not named to 0.
func mask(rows []float64, d int, named []int) {
	if named == nil {
		return
	}
	for i := range rows {
		if !slices.Contains(named, i%d) {
			rows[i] = 0
		}
	}
}

// standard holds what was taken off the features and what they were divided by.
// Where experts and gate have no intercept the mean stays.
type standard struct{ mean, sd []float64 }

// standardise brings the features of f.data, which the fit owns, to unit
// variance and, where intercepts can take it up, mean 0.
func (f *fit) standardise() {
	cov := f.second.Covariance()
	s := &standard{mean: make([]float64, f.data.D), sd: make([]float64, f.data.D)}
	if f.shape.intercept {
		s.mean = f.second.Mean()
	}
	mean := f.second.Mean()
	for j := range s.sd {
		// Where the mean stays, the rms is the column's size: a year, 2000 ± 5,
		// divided by its sd would be 400 ± 1.
		s.sd[j] = math.Hypot(math.Sqrt(max(cov.At(j, j), 0)), mean[j]-s.mean[j])
		if !(s.sd[j] > 0) {
			s.sd[j] = 1
		}
	}
	for i := range f.data.Blocks {
		b := &f.data.Blocks[i]
		for j := range f.data.D {
			col := b.Col(j)
			floats.AddConst(-s.mean[j], col)
			floats.Scale(1/s.sd[j], col)
		}
	}
	f.units = s
}

// into converts parameters from the user's units to those of the fit, and
// outOf back.
func (s *standard) into(p *model.Params) *model.Params {
	return s.convert(p, func(coef *float64, j int) (shift float64) {
		shift = *coef * s.mean[j]
		*coef *= s.sd[j]
		return shift
	})
}

func (s *standard) outOf(p *model.Params) *model.Params {
	return s.convert(p, func(coef *float64, j int) (shift float64) {
		*coef /= s.sd[j]
		return -*coef * s.mean[j]
	})
}

func (s *standard) convert(p *model.Params, fn func(coef *float64, j int) float64) *model.Params {
	if s == nil {
		return p
	}
	p = p.Clone()
	each := func(rows, intercepts []float64) {
		for i := range rows {
			shift := fn(&rows[i], i%p.D)
			if intercepts != nil {
				intercepts[i/p.D] += shift
			}
		}
	}
	each(p.Regressors, p.RegressorIntercepts)
	each(p.Gating, p.GatingIntercepts)
	return p
}
