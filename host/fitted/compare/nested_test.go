package compare

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

// of is a model of two experts on x1 that see an intercept, changed by these.
func of(changes ...func(*fitted.Model)) *fitted.Model {
	m := &fitted.Model{K: 2, D: 2, Features: []string{"x1", "x2"}, Activation: stated.Activation{Name: "identity"},
		Regressors: [][]float64{{1, 0}, {2, 0}}, RegressorIntercepts: []float64{0, 1},
		Gating: [][]float64{{1, 0}}, GatingIntercepts: []float64{0}, Sigma: fitted.Sigma{1}}
	m.Fit.Method, m.Fit.Converged = "auto", true
	for _, change := range changes {
		change(m)
	}
	return m
}

// TestContains: one model contains another exactly where every law of the other is one of its own. Each line is a
// difference of two models, and which of the two has all laws of the other.
func TestContains(t *testing.T) {
	type change = func(*fitted.Model)
	none := func(*fitted.Model) {}
	x2 := func(m *fitted.Model) { m.Regressors = [][]float64{{1, 3}, {2, 4}} }
	gateX2 := func(m *fitted.Model) { m.Gating = [][]float64{{1, 3}} }
	constant := func(m *fitted.Model) { m.Gating = [][]float64{{0, 0}} }
	noIntercept := func(m *fitted.Model) { m.RegressorIntercepts = nil }
	noGateIntercept := func(m *fitted.Model) { m.GatingIntercepts = nil }
	tied := func(names ...string) change {
		return func(m *fitted.Model) { m.Shared = names }
	}
	sigma := func(values ...float64) change { return func(m *fitted.Model) { m.Sigma = values } }
	given := func(values ...float64) change {
		return func(m *fitted.Model) { m.Sigma, m.Fit.SigmaGiven = values, true }
	}
	floor := func(least float64, values ...float64) change {
		return func(m *fitted.Model) { m.Sigma, m.Fit.SigmaFloor = values, least }
	}
	own := func(family, name string, isGiven bool, values ...float64) change {
		return func(m *fitted.Model) {
			if m.Family = family; family != "student-t" {
				m.Sigma = nil
			}
			m.Own = fitted.Own{name: values}
			if isGiven {
				m.Fit.OwnGiven = []string{name}
			}
		}
	}
	dof := func(isGiven bool, values ...float64) change { return own("student-t", "dof", isGiven, values...) }
	scale := func(n int) change {
		return func(m *fitted.Model) {
			m.OutputScale = &fitted.OutputScale{Offset: make([]float64, n), Scale: make([]float64, n)}
		}
	}
	tree := func(shape string) change { return func(m *fitted.Model) { m.Hierarchy = shape } }
	leaves := func(names ...string) change {
		return func(m *fitted.Model) {
			m.Activation.Name = stated.Mixed
			for _, name := range names {
				m.Leaves = append(m.Leaves, stated.Activation{Name: name})
			}
		}
	}
	for _, c := range []struct {
		what       string
		a, b       change
		aInB, bInA bool
	}{
		{"the same", none, none, true, true},
		{"a feature more", none, x2, true, false},
		{"a feature more of the gate", none, gateX2, true, false},
		{"features of experts or of the gate", x2, gateX2, false, false},
		{"a constant gate", constant, none, true, false},
		{"no intercept", noIntercept, none, true, false},
		{"no intercept of the gate", noGateIntercept, none, true, false},
		{"a constant gate, and one without an intercept", constant, noGateIntercept, false, false},
		{"a coefficient that is shared", tied("x1"), none, true, false},
		{"different coefficients that are shared", tied("x1"), tied("(intercept)"), false, false},
		{"one shared coefficient of none", none, func(m *fitted.Model) { x2(m); tied("x2")(m) }, true, false},
		{"sigma of each", none, sigma(1, 2), true, false},
		{"sigma given", given(.3), none, true, false},
		{"sigma given, and of each", given(.3), sigma(1, 2), true, false},
		{"sigma given as of each", given(.3, .3), none, true, false},
		{"the same sigma given", given(.3), given(.3, .3), true, true},
		{"another sigma given", given(.3), given(.4), false, false},
		{"a floor below all", none, floor(.5, 1, 2), true, false},
		{"a floor above", sigma(.4), floor(.5, 1, 2), false, false},
		{"dof given", dof(true, 4), dof(false, 10), true, false},
		{"dof given, and of each", dof(true, 4), func(m *fitted.Model) { dof(false, 5, 6)(m); sigma(1, 2)(m) }, true, false},
		{"other dof given", dof(true, 4), dof(true, 10), false, false},
		{"the same dof given", dof(true, 4), dof(true, 4), true, true},
		{"theta of each", own("negative-binomial", "theta", false, 3), own("negative-binomial", "theta", false, 3, 4), true, false},
		{"shape of each", own("gamma", "shape", false, 3), own("gamma", "shape", false, 3, 4), true, false},
		{"the family", own("gamma", "shape", false, 3), own("negative-binomial", "theta", false, 3), false, false},
		{"normal noise, and dof given", none, dof(true, 4), false, false},
		{"an output scale", none, scale(1), true, false},
		{"an output scale of each", scale(1), scale(2), true, false},
		{"no output scale, and of each", none, scale(2), true, false},
		{"another tree", tree("2x1"), none, false, false},
		{"leaves in another order under one gate", leaves("relu", "tanh"), leaves("tanh", "relu"), true, true},
		{"leaves of other kinds", leaves("relu", "tanh"), leaves("relu", "relu"), false, false},
		{"a parameter of the activation",
			func(m *fitted.Model) { m.Activation.Params = map[string]float64{"slope": .1} }, none, false, false},
		{"the target's scale", func(m *fitted.Model) { m.TargetScale = "log" }, none, false, false},
		{"a zero expert", func(m *fitted.Model) { m.ZeroExpert = true }, none, false, false},
		{"groups", func(m *fitted.Model) { m.Groups = &fitted.Groups{Column: "id"} }, none, false, false},
		{"experts", func(m *fitted.Model) { m.K = 3 }, none, false, false},
		{"sigma in the one and a feature in the other", sigma(1, 2), x2, false, false},
		{"shape in the one and a feature in the other", own("gamma", "shape", false, 3, 4),
			func(m *fitted.Model) { own("gamma", "shape", false, 3)(m); x2(m) }, false, false},
	} {
		a, b := of(c.a), of(c.b)
		within := func(small, large *fitted.Model) bool {
			return apart(small, large) == nil && contains(large, small) == nil
		}
		if got := within(a, b); got != c.aInB {
			t.Errorf("%s: the first in the second: %v", c.what, got)
		}
		if got := within(b, a); got != c.bInA {
			t.Errorf("%s: the second in the first: %v", c.what, got)
		}
	}
}

// TestRegular: without a maximum of the likelihood within what parameters may be there is no χ² distribution.
func TestRegular(t *testing.T) {
	if err := regular(of(), of()); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*fitted.Model){
		"maximise":  func(m *fitted.Model) { m.Fit.Method = "l2" },
		"converged": func(m *fitted.Model) { m.Fit.Converged = false },
		"separates": func(m *fitted.Model) { m.Fit.Endless = []string{"gate1:x1"} },
		"floor":     func(m *fitted.Model) { m.Sigma, m.Fit.SigmaFloor = fitted.Sigma{.5, 1}, .5 },
	} {
		for _, err := range []error{regular(of(change), of()), regular(of(), of(change))} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want one that says %q", err, want)
			}
		}
	}
}

// TestOtherRoles: an offset is no weights, though the digest of their rows is the same; one column by two names is.
func TestOtherRoles(t *testing.T) {
	offset := func(column string) *fitted.Model {
		return &fitted.Model{Target: "y", Roles: map[string]string{"offset": column},
			Fit: fitted.Fit{RowsDigest: "rows", N: 3}}
	}
	weighted := &fitted.Model{Target: "y", Fit: fitted.Fit{RowsDigest: "rows", N: 3, Weight: 6, WeightColumn: "h"}}
	if got := otherRoles("a", offset("log(h)"), "b", weighted); got != "weights: none in a, h in b" &&
		got != "offset: log(h) in a, none in b" {
		t.Errorf("an offset and weights: %q", got)
	}
	if got := otherRoles("a", offset("log(h)"), "b", offset("exposure")); got != "" {
		t.Errorf("the same offset by two names: %q", got)
	}
	other := offset("h")
	other.Fit.RowsDigest = "others"
	if got := otherRoles("a", offset("log(h)"), "b", other); got != "offset: log(h) in a, h in b" {
		t.Errorf("other offsets: %q", got)
	}
}
