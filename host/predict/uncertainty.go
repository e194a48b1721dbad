package predict

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
)

// Uncertainty is that of the parameters of a model, as prediction intervals take it: to first order
// the mean of expert i at x has the variance
//
//	v_i(x) = J_i·C_i·J_iᵀ,   J_i = ∂m_i/∂(a_i, b_i, c, s) = (s·g′(z_i)·x, s·g′(z_i), 1, g(z_i))
//
// with C_i the covariance of its parameters, and y under expert i is N(m_i, σ_i² + v_i) with σ_i
// corrected for degrees of freedom (infer.NoiseCorrected). That of the gate is not in it: it
// moves probabilities by amounts that have mean 0 to first order.
type Uncertainty struct {
	sigma   []float64 // K, corrected
	experts []spread

	arrangements []arrangement // that predictions are over; nil: one
}

// spread is the covariance of an expert's parameters.
type spread struct {
	features []int // what each parameter belongs to: a feature, or one of those below
	cov      *mat.SymDense
}

const (
	ofIntercept = -1 - iota
	ofOffset
	ofScale
)

// UncertaintyOf is that of a model's parameters, and of its arrangements where they have weights; nil where the model
// has no covariance, or noise that is not normal, and none of them.
func UncertaintyOf(m *fitted.Model) *Uncertainty {
	if all := arrangementsOf(m); all != nil {
		return &Uncertainty{arrangements: all}
	}
	if m.Covariance == nil || m.Family != "" { // their variances add up for normal noise alone
		return nil
	}
	u := &Uncertainty{sigma: make([]float64, m.K), experts: make([]spread, m.K)}
	corrected := m.Sigma
	if s := m.StandardErrors; s != nil && s.SigmaCorrected != nil {
		corrected = s.SigmaCorrected
	}
	for i := range u.sigma {
		u.sigma[i] = corrected[min(i, len(corrected)-1)]
		u.experts[i] = spreadOf(m, i)
	}
	return u
}

// spreadOf is the covariance of what the names of a model's covariance say are the
// parameters of expert i.
func spreadOf(m *fitted.Model, i int) (out spread) {
	var rows []int
	for at, name := range m.Covariance.Parameters {
		if f, ok := parameterOf(m, i, name); ok {
			rows, out.features = append(rows, at), append(out.features, f)
		}
	}
	if len(rows) == 0 {
		return out
	}
	out.cov = mat.NewSymDense(len(rows), nil)
	for a, from := range rows {
		for b := a; b < len(rows); b++ {
			out.cov.SetSym(a, b, m.Covariance.Matrix[from][rows[b]])
		}
	}
	return out
}

// parameterOf says which of the parameters of expert i a name of infer.Covariance.Names is.
func parameterOf(m *fitted.Model, i int, name string) (feature int, ok bool) {
	number := strconv.Itoa(i + 1)
	switch name {
	case "offset", "offset" + number:
		return ofOffset, m.OutputScale != nil
	case "scale", "scale" + number:
		return ofScale, m.OutputScale != nil
	}
	name, ok = strings.CutPrefix(name, "expert"+number+":")
	if !ok {
		return 0, false
	}
	if feature = slices.Index(m.Features, name); feature >= 0 {
		return feature, true
	}
	return ofIntercept, name == "(intercept)"
}

// deviations writes √(σ_i² + v_i) of the rows of b to dst, K rows of N values, with the experts' predictors z_i and means
// as the [Predictor] has them; dst may not be z.
func (u *Uncertainty) deviations(ctx context.Context, dst []float64, p *model.Params, act model.Activation, b *model.Block, z, mean []float64) error {
	if err := act.Deriv(ctx, dst, z); err != nil { // s·g′
		return err
	}
	for i, s := range u.experts {
		offset, scale := p.OutputOf(i)
		j := mat.NewVecDense(max(len(s.features), 1), nil)
		for r := range b.N {
			at, variance := i*b.N+r, 0.0
			for n, f := range s.features {
				switch f {
				case ofIntercept:
					j.SetVec(n, dst[at])
				case ofOffset:
					j.SetVec(n, 1)
				case ofScale:
					if j.SetVec(n, 0); scale != 0 {
						j.SetVec(n, (mean[at]-offset)/scale)
					}
				default:
					j.SetVec(n, dst[at]*b.X[f*b.N+r])
				}
			}
			if s.cov != nil {
				variance = max(0, mat.Inner(j, s.cov, j))
			}
			dst[at] = math.Sqrt(u.sigma[i]*u.sigma[i] + variance)
		}
	}
	return nil
}
