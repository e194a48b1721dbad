// Package compare sets two fits of the same rows beside each other, and tests the smaller where the other contains it.
package compare

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
)

// Comparison sets two fits of the same rows beside each other.
type Comparison struct {
	Rows     int         `json:"rows"`
	A        Compared    `json:"a"`
	B        Compared    `json:"b"`
	Nested   *NestedTest `json:"nested"`             // null where neither contains the other
	Untested string      `json:"untested,omitempty"` // why there is no test

	// Matched are the experts that stand beside each other, from 1, 0 for one that has no other.
	Matched [][2]int `json:"matched"`

	// GateReference are the experts, beside each other, that both gates are relative to; null where the gates do not
	// compare.
	GateReference *[2]int `json:"gate_reference"`

	// Gates are the gates relative to those, in the order of Matched; absent where they do not compare.
	Gates []ComparedGates `json:"gates,omitempty"`
}

// ComparedGates are the gates of two experts beside each other; null for one that there is not.
type ComparedGates struct {
	A *ComparedGate `json:"a"`
	B *ComparedGate `json:"b"`
}

// ComparedGate is the gate of an expert relative to another, by the features of its model.
type ComparedGate struct {
	Coefficients   map[string]float64 `json:"coefficients"` // of the features that the gate sees
	Intercept      *float64           `json:"intercept"`    // null where the gate has none
	Errors         map[string]float64 `json:"standard_errors,omitempty"`
	InterceptError *float64           `json:"intercept_standard_error,omitempty"`
}

// Compared is a fit as a comparison has it.
type Compared struct {
	Model         string  `json:"model"` // its file
	Experts       string  `json:"experts"`
	LogLikelihood float64 `json:"log_likelihood"`
	Parameters    int     `json:"parameters"` // degrees of freedom
	BIC           float64 `json:"bic"`
	AIC           float64 `json:"aic"`
}

// NestedTest is the likelihood-ratio test of the smaller of two models, of which the other has it as a special case:
// 2(ℓ − ℓ₀) is χ² with DF degrees of freedom where the smaller is right.
type NestedTest struct {
	Smaller   string  `json:"smaller"` // a or b
	Statistic float64 `json:"statistic"`
	DF        int     `json:"df"`
	PValue    float64 `json:"p_value"`
}

// Fits sets fits of the same rows beside each other, those of files that are named so. An error says why they
// cannot be compared: other rows, or a file that does not say which rows it is of.
func Fits(nameA string, a *fitted.Model, nameB string, b *fitted.Model) (*Comparison, error) {
	switch {
	case a.Fit.RowsDigest == "" || b.Fit.RowsDigest == "":
		without := nameA
		if a.Fit.RowsDigest != "" {
			without = nameB
		}
		return nil, fmt.Errorf("%s does not say which rows it is of: fit it again", without)
	case ofParts(a) != ofParts(b):
		parts, whole := nameA, nameB
		if ofParts(b) {
			parts, whole = nameB, nameA
		}
		return nil, fmt.Errorf("%s is of passes over parts, and %s of a fit in one: whether their rows are the same "+
			"is not known", parts, whole)
	case a.Fit.RowsDigest != b.Fit.RowsDigest && ofParts(a):
		return nil, fmt.Errorf("the passes read different columns or rows: %d rows with the target %s, and %d with "+
			"%s; likelihoods compare on the same ones", a.Fit.N, a.Target, b.Fit.N, b.Target)
	case a.Fit.RowsDigest != b.Fit.RowsDigest:
		return nil, fmt.Errorf("the fits are of different rows: %d with the target %s, and %d with %s; likelihoods "+
			"compare on the same targets and weights in the same order", a.Fit.N, a.Target, b.Fit.N, b.Target)
	}
	c := &Comparison{Rows: a.Fit.N, A: compared(nameA, a), B: compared(nameB, b), Matched: matched(a, b)}
	c.GateReference = gateReference(a, b, c.Matched)
	if ref := c.GateReference; ref != nil {
		gatesA, gatesB := comparedGates(a, ref[0]-1), comparedGates(b, ref[1]-1)
		for _, pair := range c.Matched {
			var beside ComparedGates
			if pair[0] > 0 {
				beside.A = &gatesA[pair[0]-1]
			}
			if pair[1] > 0 {
				beside.B = &gatesB[pair[1]-1]
			}
			c.Gates = append(c.Gates, beside)
		}
	}
	none := apart(a, b)
	switch {
	case none != nil:
	case c.A.Parameters < c.B.Parameters:
		c.Nested, none = nested("a", a, b, c.A, c.B)
	case c.B.Parameters < c.A.Parameters:
		c.Nested, none = nested("b", b, a, c.B, c.A)
	default:
		none = errors.New("they have as many parameters")
	}
	if none != nil {
		c.Untested = none.Error()
	}
	return c, nil
}

// ofParts says whether a model is of passes over parts.
func ofParts(m *fitted.Model) bool { return strings.HasPrefix(m.Fit.RowsDigest, progress.OfParts) }

func compared(name string, m *fitted.Model) Compared {
	experts := fmt.Sprintf("%d %s", m.K, m.Activation)
	if m.Hierarchy != "" {
		experts += " in the tree " + m.Hierarchy
	}
	if m.ZeroExpert {
		experts += " and a zero expert"
	}
	return Compared{
		Model: name, Experts: experts, LogLikelihood: m.Fit.LogLikelihood,
		Parameters: m.Fit.Parameters(), BIC: m.Fit.BIC, AIC: m.Fit.AIC,
	}
}

// apart says why neither of two models can contain the other, whatever their parameters; nil where one may.
func apart(a, b *fitted.Model) error {
	switch {
	case a.K != b.K:
		return errors.New("the numbers of experts differ, and at the smaller the larger has no one set of " +
			"parameters: compare BIC")
	case a.Activation.Same(b.Activation) && a.Leaves == nil && b.Leaves == nil && limit(a.Family, b.Family) != nil:
		return limit(a.Family, b.Family)
	case !a.Activation.Same(b.Activation) || a.Leaves != nil || b.Leaves != nil || a.Family != b.Family:
		return errors.New("the experts are of different kinds, so that neither model contains the other: compare BIC")
	case a.ZeroExpert != b.ZeroExpert:
		return errors.New("one has a zero expert, whose probability is 0 in the other, at the end of what it " +
			"may be: compare BIC")
	case a.TargetScale != b.TargetScale:
		return fmt.Errorf("one is of %s and the other of %s, so that neither model contains the other: compare BIC",
			a.ScaledTarget(), b.ScaledTarget())
	case groupsColumn(a) != groupsColumn(b):
		return errors.New("the rows have one expert a group in one of the fits and not so in the other: compare AIC: " +
			"the n of BIC is that of the groups in one and of the rows in the other")
	}
	return nil
}

// limit says why there is no test of one family within another of which it is the limit: its parameter is there at the
// end of what it may be, where 2(ℓ − ℓ₀) has no χ² distribution (Self and Liang 1987); nil of other families.
func limit(a, b string) error {
	for _, of := range []struct{ limit, family, parameter string }{
		{"poisson", "negative-binomial", "theta"}, {"", "student-t", "degrees of freedom"},
	} {
		if a == of.limit && b == of.family || b == of.limit && a == of.family {
			return fmt.Errorf("%s is the limit of %s for infinite %s, at the end of what there may be, where the "+
				"statistic has no χ² distribution: compare BIC", cmp.Or(of.limit, fitted.Normal), of.family,
				of.parameter)
		}
	}
	return nil
}

// nested tests the smaller of two models within the larger, or says why it cannot.
func nested(which string, small, large *fitted.Model, s, l Compared) (*NestedTest, error) {
	switch {
	case slices.ContainsFunc(large.Shared, func(name string) bool { return !sharesOrLacks(small, name) }):
		return nil, errors.New("the model of more parameters has shared coefficients that the other has not: " +
			"compare BIC")
	case small.Hierarchy != large.Hierarchy || (small.OutputScale == nil) != (large.OutputScale == nil) ||
		small.Fit.SigmaGiven || large.Fit.SigmaGiven || len(small.Sigma) > len(large.Sigma):
		return nil, errors.New("neither model contains the other: compare BIC")
	case !small.Fit.Converged || !large.Fit.Converged:
		return nil, errors.New("one of the fits has not converged")
	case len(small.Fit.Separation)+len(large.Fit.Separation)+len(small.Fit.Endless)+len(large.Fit.Endless) > 0:
		return nil, errors.New("a gate separates rows, and the statistic has no χ² distribution: compare BIC")
	}
	within := func(a, b [][]float64, interceptA, interceptB []float64) bool {
		for j, name := range small.Features {
			if !sees(a, j) {
				continue
			}
			if other := slices.Index(large.Features, name); other < 0 || !sees(b, other) {
				return false
			}
		}
		return interceptA == nil || interceptB != nil
	}
	if !within(small.Regressors, large.Regressors, small.RegressorIntercepts, large.RegressorIntercepts) ||
		!within(small.Gating, large.Gating, small.GatingIntercepts, large.GatingIntercepts) {
		return nil, errors.New("each model has features that the other has not: compare BIC")
	}
	t := &NestedTest{Smaller: which, Statistic: 2 * (l.LogLikelihood - s.LogLikelihood),
		DF: l.Parameters - s.Parameters}
	if t.Statistic < 0 {
		return nil, fmt.Errorf("%s contains %s and has less likelihood: a better optimum of it exists; try --starts",
			l.Model, s.Model)
	}
	t.PValue = distuv.ChiSquared{K: float64(t.DF)}.Survival(t.Statistic)
	return t, nil
}

// sharesOrLacks says whether the experts of m have one coefficient of a feature, or none.
func sharesOrLacks(m *fitted.Model, name string) bool {
	switch j := slices.Index(m.Features, name); {
	case slices.Contains(m.Shared, name):
		return true
	case name == model.InterceptName:
		return m.RegressorIntercepts == nil
	default:
		return j < 0 || !sees(m.Regressors, j)
	}
}

// groupsColumn is that of the ids of the groups; "" where each row has its own expert.
func groupsColumn(m *fitted.Model) string {
	if m.Groups == nil {
		return ""
	}
	return m.Groups.Column
}

// sees says whether a matrix has a coefficient of feature j.
func sees(matrix [][]float64, j int) bool {
	return slices.ContainsFunc(matrix, func(row []float64) bool { return row[j] != 0 })
}

// matched pairs the experts whose coefficients of the features that both models have are nearest, each in units of
// its largest, by the least sum of squared distances.
func matched(a, b *fitted.Model) (pairs [][2]int) {
	type shared struct{ a, b int }
	var features []shared
	for j, name := range a.Features {
		if other := slices.Index(b.Features, name); other >= 0 {
			features = append(features, shared{j, other})
		}
	}
	k := max(a.K, b.K)
	cost := make([]float64, k*k) // one that has no other costs nothing, whichever it is
	for i := range a.K {
		for l := range b.K {
			for _, f := range features {
				size := 0.0
				for _, row := range a.Regressors {
					size = max(size, math.Abs(row[f.a]))
				}
				for _, row := range b.Regressors {
					size = max(size, math.Abs(row[f.b]))
				}
				if size > 0 {
					away := (a.Regressors[i][f.a] - b.Regressors[l][f.b]) / size
					cost[i*k+l] += away * away
				}
			}
			if a.RegressorIntercepts != nil && b.RegressorIntercepts != nil {
				size := 0.0
				for _, v := range slices.Concat(a.RegressorIntercepts, b.RegressorIntercepts) {
					size = max(size, math.Abs(v))
				}
				if away := a.RegressorIntercepts[i] - b.RegressorIntercepts[l]; size > 0 {
					cost[i*k+l] += away / size * away / size
				}
			}
		}
	}
	place := func(i, k int) int {
		if i >= k {
			return 0
		}
		return i + 1
	}
	for i, l := range metric.Assign(k, cost) {
		pairs = append(pairs, [2]int{place(i, a.K), place(l, b.K)})
	}
	return pairs
}
