// Package compare sets two fits of the same rows beside each other, and tests the smaller where the other contains it.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/metric"
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
	case otherRoles(nameA, a, nameB, b) != "":
		return nil, fmt.Errorf("the fits differ in %s; likelihoods compare where targets, weights, trials and offset "+
			"are the same", otherRoles(nameA, a, nameB, b))
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
