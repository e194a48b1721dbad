package predict

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// arrangement is one of the optima that predictions are over, with its weight.
type arrangement struct {
	weight      float64
	params      *model.Params
	uncertainty *Uncertainty
}

// arrangementsOf are those of a model that have a weight, its own first; nil where none were weighed or none
// but its own has any.
func arrangementsOf(m *fitted.Model) (out []arrangement) {
	s := m.Arrangements
	if s == nil || s.Weight == nil {
		return nil
	}
	if *s.Weight > 0 {
		own := *m
		own.Arrangements = nil
		out = append(out, arrangement{*s.Weight, m.Params(), UncertaintyOf(&own)})
	}
	others := false
	for i := range s.Others {
		if a := &s.Others[i]; a.Weight != nil && *a.Weight > 0 {
			other := a.Of(m)
			out, others = append(out, arrangement{*a.Weight, other.Params(), UncertaintyOf(other)}), true
		}
	}
	if !others {
		return nil
	}
	return out
}

// member is the prediction of a block under one arrangement.
type member struct {
	weight float64
	*Predictor
	*Prediction
}

// over predicts a block under every arrangement, and averages: with weights w_a, gates p_a and means m_a
//
//	P(z=i|x) = Σ_a w_a·p_ai,   E[y|x] = Σ_a w_a·Σ_i p_ai·m_ai,   mean of y under i: Σ_a w_a·p_ai·m_ai / P(z=i|x)
//
// the density is Σ_a w_a·f_a(y|x), and posteriors are those given that.
func (p *Predictor) over(ctx context.Context, b *model.Block) (*Prediction, error) {
	n, k := b.N, p.params.K
	out := &Prediction{N: n, Mean: make([]float64, n), Gate: make([]float64, k*n), Experts: make([]float64, k*n)}
	for i := range p.members {
		m := &p.members[i]
		var err error
		if m.Prediction, err = m.Predictor.Predict(ctx, b); err != nil {
			return nil, err
		}
		floats.AddScaled(out.Mean, m.weight, m.Prediction.Mean)
		floats.AddScaled(out.Gate, m.weight, m.Prediction.Gate)
	}
	for at, gate := range out.Gate {
		for _, m := range p.members {
			share := m.weight
			if gate > 0 {
				share *= m.Prediction.Gate[at] / gate
			}
			out.Experts[at] += share * m.Prediction.Experts[at]
		}
	}
	if b.Y != nil {
		p.posteriors(out)
	}
	out.members = p.members
	return out, nil
}

// posteriors fills in densities and posteriors from those of the members.
func (p *Predictor) posteriors(out *Prediction) {
	n, k := out.N, p.params.K
	out.LogDens, out.Posterior = make([]float64, n), make([]float64, k*n)
	logs := make([]float64, len(p.members))
	for r := range n {
		for a, m := range p.members {
			logs[a] = math.Log(m.weight) + m.Prediction.LogDens[r]
		}
		out.LogDens[r] = floats.LogSumExp(logs)
		for a, m := range p.members {
			share := math.Exp(logs[a] - out.LogDens[r])
			for i := range k {
				out.Posterior[i*n+r] += share * m.Prediction.Posterior[i*n+r]
			}
		}
	}
}

// distributionOver is the predicted distribution of a row over the arrangements, valid until the next call.
func (p *Predictor) distributionOver(pred *Prediction, row int) *mixture.Distribution {
	at := 0
	for _, m := range pred.members {
		own := m.Predictor.distribution(m.Prediction, row)
		for i := range own.P {
			p.row.P[at], p.row.Mean[at], p.row.Sigma[at] = m.weight*own.P[i], own.Mean[i], own.Sigma[i]
			at++
		}
	}
	return p.row
}

// spreadOver gives the predictor arrangements to predict over.
func (p *Predictor) spreadOver(all []arrangement) {
	p.members = nil
	components := 0
	for _, a := range all {
		member := member{weight: a.weight, Predictor: NewPredictor(a.params, p.raw, p.table).With(a.uncertainty)}
		p.members, components = append(p.members, member), components+len(member.Predictor.row.P)
	}
	p.row = roomFor(components)
}
