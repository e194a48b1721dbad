// Package scaling is what a fit takes of the target in the place of y itself: log y, √y or 1/y, and what that makes of
// normal distributions.
package scaling

import "math"

// Scale is a function h of the target, strictly monotone on y > 0, of which a model says h(y) = g(⟨a_z,x⟩) + noise.
// The zero value is y itself, for any y.
type Scale string

// The scales.
const (
	Log        Scale = "log"
	Sqrt       Scale = "sqrt"
	Reciprocal Scale = "reciprocal"
)

// Known says whether there is a scale of this name; "" is one.
func (s Scale) Known() bool { return s == "" || s == Log || s == Sqrt || s == Reciprocal }

// Holds says whether h(y) is a number and h has a slope there.
func (s Scale) Holds(y float64) bool {
	return s == "" || y > 0 && !math.IsInf(y, 1) && !math.IsInf(s.Of(y), 1)
}

// Of returns h(y).
func (s Scale) Of(y float64) float64 {
	switch s {
	case Log:
		return math.Log(y)
	case Sqrt:
		return math.Sqrt(y)
	case Reciprocal:
		return 1 / y
	}
	return y
}

// Back returns y with h(y) = v. Beyond the values of h, where normal noise may take v ≤ 0, it is the end of y > 0 that
// is near: 0 of the square root, +Inf of the reciprocal.
func (s Scale) Back(v float64) float64 {
	switch s {
	case Log:
		return math.Exp(v) // +Inf where y has no float64
	case Sqrt:
		return max(v, 0) * max(v, 0)
	case Reciprocal:
		if v <= 0 {
			return math.Inf(1)
		}
		return 1 / v
	}
	return v
}

// LogSlope returns log |h′(y)| at v = h(y), which the log of the density of h(y) has to be added for that of y:
// −v, −log 2v and 2 log v.
func (s Scale) LogSlope(v float64) float64 {
	switch s {
	case Log:
		return -v
	case Sqrt:
		return -math.Log(2 * v)
	case Reciprocal:
		return 2 * math.Log(v)
	}
	return 0
}

// Falls says whether h(y) falls as y rises.
func (s Scale) Falls() bool { return s == Reciprocal }

// Bounded says whether h(y) is above 0, which normal noise is not.
func (s Scale) Bounded() bool { return s == Sqrt || s == Reciprocal }

// HasMean says whether y has a mean where h(y) is normal.
func (s Scale) HasMean() bool { return s != Reciprocal }

// Mean returns the mean of y where h(y) is N(m, σ²): e^(m+σ²/2), and m² + σ² of the square root; NaN of the reciprocal,
// which has none.
func (s Scale) Mean(m, sigma float64) float64 {
	switch s {
	case Log:
		return math.Exp(m + sigma*sigma/2) // +Inf where it has no float64
	case Sqrt:
		return m*m + sigma*sigma
	case Reciprocal:
		return math.NaN()
	}
	return m
}

// Point is the mean of y, or where there is none the median 1/m of N(m, σ²); NaN where that is none either, m ≤ 0.
func (s Scale) Point(m, sigma float64) float64 {
	switch {
	case s.HasMean():
		return s.Mean(m, sigma)
	case m > 0:
		return 1 / m
	}
	return math.NaN()
}

// Title is h of a column, as formulas write it: log(wage).
func (s Scale) Title(column string) string {
	switch s {
	case Log, Sqrt:
		return string(s) + "(" + column + ")"
	case Reciprocal:
		return "1/" + column
	}
	return column
}
