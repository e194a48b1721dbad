package predict

import (
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Own is what a prediction of h(y) says of y itself.
type Own struct {
	Point   []float64 // E[y|x], or the median where there is no mean
	Median  []float64 // NaN where more than half of the noise lies beyond all values of y
	Experts []float64 // K rows of N values: the mean of y under each expert, or its median; NaN where it has neither
	LogDens []float64 // log of the density of y given x; nil where the block had no targets
}

// OwnScale turns a prediction of h(y) into one of y; targets are the h(y) of the rows, nil for none. With p_i =
// P(z=i|x) the mean of y is Σ p_i·e^(m_i + σ_i²/2) of log y and Σ p_i·(m_i² + σ_i²) of √y, the parameters as they are;
// 1/y has none. A mean that is not finite is a *dataset.Error.
func (p *Predictor) OwnScale(pred *Prediction, s scaling.Scale, targets []float64) (*Own, error) {
	n, k := pred.N, p.params.K
	own := &Own{Point: make([]float64, n), Median: make([]float64, n), Experts: make([]float64, k*n)}
	p.pointsOf(own, pred, s)
	var at *mixture.Distribution
	for r := range n {
		at = p.plain(at, pred, r)
		if own.Median[r] = s.Back(at.Quantile(0.5)); math.IsInf(own.Median[r], 0) && s.Falls() {
			own.Median[r] = math.NaN()
		}
		if !s.HasMean() {
			own.Point[r] = own.Median[r]
		}
		if v := own.Point[r]; s.HasMean() && !numeric.Finite(v) {
			return nil, &dataset.Error{File: p.table,
				Msg: fmt.Sprintf("the prediction for row %d is %v: its values are too large", p.seen-n+r+1, v)}
		}
	}
	if pred.LogDens != nil {
		own.LogDens = make([]float64, n)
		for r, v := range targets {
			own.LogDens[r] = pred.LogDens[r] + s.LogSlope(v)
		}
	}
	return own, nil
}

// pointsOf fills in the means of y, of the experts and of all.
func (p *Predictor) pointsOf(own *Own, pred *Prediction, s scaling.Scale) {
	n, k := pred.N, p.params.K
	if pred.members == nil {
		for at, m := range pred.Experts {
			own.Experts[at] = s.Point(m, p.params.SigmaOf(at/n))
			own.Point[at%n] += pred.Gate[at] * own.Experts[at]
		}
		return
	}
	for _, m := range pred.members {
		of := &Own{Point: make([]float64, n), Experts: make([]float64, k*n)}
		m.Predictor.pointsOf(of, m.Prediction, s)
		for r, v := range of.Point {
			own.Point[r] += m.weight * v
		}
		for at, v := range of.Experts {
			share := m.weight
			if gate := pred.Gate[at]; gate > 0 {
				share *= m.Prediction.Gate[at] / gate
			}
			own.Experts[at] += share * v
		}
	}
}

// plain is the distribution of h(y) at a row with the parameters as they are, in the room of dst where there is one.
func (p *Predictor) plain(dst *mixture.Distribution, pred *Prediction, row int) *mixture.Distribution {
	members := pred.members
	if members == nil {
		members = []member{{1, p, pred}}
	}
	k := p.params.K
	if dst == nil {
		dst = roomFor(k * len(members))
	}
	for a, m := range members {
		for i := range k {
			at := a*k + i
			dst.P[at], dst.Mean[at] = m.weight*m.Prediction.Gate[i*pred.N+row], m.Prediction.Experts[i*pred.N+row]
			dst.Sigma[at] = m.Predictor.params.SigmaOf(i)
		}
	}
	return dst
}

// onScale turns the ends of intervals of h(y) into those of y; an upper one beyond all values of y is NaN.
func onScale(s scaling.Scale, lower, upper []float64) {
	for r := range lower {
		lower[r], upper[r] = s.Back(lower[r]), s.Back(upper[r])
		if s.Falls() {
			lower[r], upper[r] = upper[r], lower[r]
		}
		for _, end := range []*float64{&lower[r], &upper[r]} {
			if math.IsInf(*end, 0) {
				*end = math.NaN()
			}
		}
	}
}
