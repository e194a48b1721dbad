package solver

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// Law is the distribution of g(Z), from which the transforms of minimum variance of
// an activation are made at any noise level and number of experts. It asks nothing
// more of the activation.
type Law struct {
	law *gauss.Law
	// Mean and SD are those of g(Z) given |Z| ≤ 4; SD is 0 where it is only rounding.
	Mean, SD float64
}

// NewLaw takes the law from the values of g. Errors are those of act, and of values
// that are not finite.
func NewLaw(ctx context.Context, act sdk.Activation) (*Law, error) {
	info := act.Info()
	law, err := gauss.NewLaw(ctx, act.Eval, info.Kinks)
	if err != nil {
		return nil, fmt.Errorf("transforms of activation %q: %w", info.Name, err)
	}
	return &Law{law, law.Mean, law.SD}, nil
}

// Optimal makes the transforms of minimum variance at noise level sigma ≥ 0 for k
// experts.
func (l *Law) Optimal(sigma float64, k int) *Optimal {
	return optimalOf(l.law, sigma, k, orthonormal(k))
}

const (
	levelQuantiles = 192 // of y, that its likelihood is taken over
	levelGrid      = 8   // noise levels to begin with
	levelTol       = 0.1 // of log σ, which moves the variance of a transform by next to nothing
)

// NoiseLevel returns the noise level that the values of y alone imply, as
// independent draws of g(Z) + σN: the largest σ whose log-likelihood is within ½ of
// the highest, the upper end of a 68 % interval, since transforms of minimum
// variance made for a σ that is too small lose more than those for one too large.
// w are the weights of the values, nil for equal ones, and effective is the number of
// draws that they are worth. The level is between the floor of the transforms and the standard deviation of y.
//
// In the mixture every y is such a draw where the gate is orthogonal to the
// regressors. Where g is flat somewhere y tells σ well; for g = z it tells no more
// than its mean square does.
func (l *Law) NoiseLevel(y, w []float64, effective float64) float64 {
	least := floor * l.SD
	if !(l.SD > 0) || len(y) == 0 {
		return least
	}
	q := Quantiles(y, w)
	most := max(2*least, deviation(q))
	at := make([]float64, len(q))
	mean := func(logSigma float64) float64 {
		l.law.Density(math.Exp(logSigma)).Values(at, q)
		var s float64
		for _, v := range at {
			s += math.Log(max(v, 1e-300))
		}
		return s / float64(len(q))
	}
	step := math.Log(most/least) / (levelGrid - 1)
	best, top := math.Inf(-1), 0.0
	for i := range levelGrid {
		x := math.Log(least) + float64(i)*step
		if v := mean(x); v > best {
			best, top = v, x
		}
	}
	for h := step / 2; h > levelTol/2; h /= 2 {
		for _, x := range []float64{top - h, top + h} {
			if x < math.Log(least) || x > math.Log(most) {
				continue
			}
			if v := mean(x); v > best {
				best, top = v, x
			}
		}
	}
	within := func(x float64) bool { return effective*(best-mean(x)) <= 0.5 }
	lo, hi := top, math.Log(most)
	if within(hi) {
		return most
	}
	for hi-lo > levelTol {
		if mid := (lo + hi) / 2; within(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Exp(lo)
}

const (
	// mostApart is the distance of Kolmogorov and Smirnov, times the root of the number
	// of draws, that a law may have: draws of it are farther in 7 of 10,000.
	mostApart = 2
	apartGrid = 24 // noise levels at which the distance is looked at
)

// Fits says whether the values of y may be independent draws of g(Z) + σN for some σ:
// whether at the best of the noise levels their distribution is within the distance of
// Kolmogorov and Smirnov that draws have. w and effective are those of [Law.NoiseLevel].
func (l *Law) Fits(y, w []float64, effective float64) bool {
	if !(l.SD > 0) || len(y) == 0 {
		return false
	}
	q := Quantiles(y, w)
	apart := func(logSigma float64) (d float64) {
		law := l.law.Density(math.Exp(logSigma))
		for i, v := range q {
			d = max(d, math.Abs(law.CDF(v)-(float64(i)+0.5)/levelQuantiles))
		}
		return d
	}
	least := math.Log(floor * l.SD)
	most := max(math.Log(2)+least, math.Log(deviation(q)))
	best, at := math.Inf(1), 0.0
	step := (most - least) / (apartGrid - 1)
	for i := range apartGrid {
		x := least + float64(i)*step
		if d := apart(x); d < best {
			best, at = d, x
		}
	}
	for h := step / 2; h > levelTol/32; h /= 2 {
		for _, x := range []float64{at - h, at + h} {
			if d := apart(x); d < best {
				best, at = d, x
			}
		}
	}
	// A quantile's own place is known to half of one value.
	return best <= mostApart/math.Sqrt(effective)+0.5/float64(len(y))
}

// Quantiles returns 192 values of y, evenly spaced in weight, in ascending order; w is nil for equal weights.
func Quantiles(y, w []float64) []float64 {
	if w == nil {
		sorted := slices.Clone(y)
		slices.Sort(sorted)
		return evenly(sorted)
	}
	order := make([]int, len(y))
	total := 0.0
	for i := range order {
		order[i] = i
		total += w[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(y[a], y[b]) })
	out := make([]float64, 0, levelQuantiles)
	sum, at := w[order[0]], 0
	for q := range levelQuantiles {
		for want := (float64(q) + 0.5) / levelQuantiles * total; sum < want && at < len(y)-1; {
			at++
			sum += w[order[at]]
		}
		out = append(out, y[order[at]])
	}
	return out
}

// evenly is quantiles of values in ascending order and of equal weight.
func evenly(sorted []float64) []float64 {
	out := make([]float64, levelQuantiles)
	for q := range out {
		place := math.Ceil((float64(q)+0.5)/levelQuantiles*float64(len(sorted))) - 1
		out[q] = sorted[max(0, int(place))]
	}
	return out
}

func deviation(v []float64) float64 {
	var mean, s float64
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		s += (x - mean) * (x - mean) / float64(len(v))
	}
	return math.Sqrt(s)
}
