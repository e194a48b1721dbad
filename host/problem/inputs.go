package problem

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
)

// Inputs says how far x is from the N(0, I) that the moment estimate assumes.
type Inputs struct {
	Far    string        // the statistic that shows it; "" for standard inputs
	Centre []float64     // nil for standard inputs
	Whiten *mat.SymDense // Cov(x)^{−1/2}; nil for standard inputs
}

// InputsOf compares the sample moments of x with those of N(0, I). Each
// bound is a difference that starts to matter plus five standard errors of the
// statistic under N(0, I), so that a false alarm is rarer than 1e−5.
func InputsOf(s *tensor.Second) (*Inputs, error) {
	n, d := s.Effective(), float64(s.D)
	mean, cov := s.Mean(), s.Covariance()
	var eig mat.EigenSym
	if !eig.Factorize(cov, true) {
		return nil, fmt.Errorf("the eigenvalues of the features' covariance cannot be computed")
	}
	values := eig.Values(nil)
	lo, hi := values[0], values[len(values)-1]
	edge := math.Sqrt(d/n)*2 + d/n + 5*math.Sqrt(2/n)
	norm := floats.Norm(mean, 2)
	in := &Inputs{}
	switch {
	case norm > 0.1+(math.Sqrt(d)+5)/math.Sqrt(n):
		in.Far = fmt.Sprintf("the features' mean has norm %.3g, not 0", norm)
	case hi-1 > 0.1+edge || 1-lo > 0.1+edge:
		in.Far = fmt.Sprintf("the features' covariance has eigenvalues from %.3g to %.3g, not 1", lo, hi)
	default:
		in.Far = tails(s)
	}
	if in.Far == "" {
		return in, nil
	}
	if lo < 1e-12*hi {
		return in, nil // no whitening: the moment tensors cannot help
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	in.Centre, in.Whiten = mean, mat.NewSymDense(s.D, nil)
	for i, v := range values {
		in.Whiten.SymRankOne(in.Whiten, 1/math.Sqrt(v), vectors.ColView(i))
	}
	return in, nil
}

// tails looks at the third and fourth moment of each feature.
func tails(s *tensor.Second) string {
	n, weight := s.Effective(), s.Y[0]
	at := 0
	for j := range s.D {
		variance := s.XX[0][at] / weight
		at += s.D - j
		skew := s.Cubes[j] / weight / math.Pow(variance, 1.5)
		excess := s.Fours[j]/weight/(variance*variance) - 3
		if math.Abs(skew) > 0.2+5*math.Sqrt(15/n) {
			return fmt.Sprintf("feature %d has a standardised third moment of %.3g, not 0", j+1, skew)
		}
		if math.Abs(excess) > 0.3+5*math.Sqrt(96/n) {
			return fmt.Sprintf("feature %d has a standardised fourth moment of %.3g, not 3", j+1, excess+3)
		}
	}
	return ""
}

// Standard says whether the moment estimate's assumption on x holds.
func (in *Inputs) Standard() bool { return in.Far == "" }

// Note says what shows that x is not N(0, I), "" if nothing does.
func (in *Inputs) Note() string {
	if in.Standard() {
		return ""
	}
	return "the inputs are not N(0, I): " + in.Far + "; the moment tensors carry no guarantee here and give starts only"
}

// varies refuses an activation that is constant under N(0,1), up to rounding:
// nothing that it returns depends on a regressor.
func varies(act sdk.Activation, m sdk.Moments) error {
	if v := m.Value; v[2][0]-v[1][0]*v[1][0] <= 0x1p-48*v[2][0] {
		return Refuse("activation %s is constant: no regressor can be learned from it", act.Info().Name)
	}
	return nil
}
