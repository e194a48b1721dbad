package compare

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// A model is nested in another exactly where every law of the target that it has is one of the other's. [apart] and
// [contains] say that of all that models differ by. [regular] says whether 2(ℓ − ℓ₀) has a χ² distribution then.

// apart says why neither of two models can contain the other, whatever their parameters; nil where one may.
func apart(a, b *fitted.Model) error {
	kinds := errors.New("the experts are of different kinds, so that neither model contains the other: compare BIC")
	switch {
	case a.K != b.K:
		return errors.New("the numbers of experts differ, and at the smaller the larger has no one set of " +
			"parameters: compare BIC")
	case !sameExperts(a, b):
		return kinds
	case a.Family != b.Family:
		return cmp.Or(limit(a, b), limit(b, a), kinds)
	case a.ZeroExpert != b.ZeroExpert:
		return errors.New("one has a zero expert, whose probability is 0 in the other, at the end of what it " +
			"may be: compare BIC")
	case a.TargetScale != b.TargetScale:
		return fmt.Errorf("one is of %s and the other of %s, so that neither model contains the other: compare BIC",
			a.ScaledTarget(), b.ScaledTarget())
	case groupsColumn(a) != groupsColumn(b):
		return errors.New("the rows have one expert a group in one of the fits and not so in the other: compare AIC: " +
			"the n of BIC is that of the groups in one and of the rows in the other")
	case a.Hierarchy != b.Hierarchy:
		return errors.New("the gates are different trees, so that neither model contains the other: compare BIC")
	}
	return nil
}

// sameExperts says whether the experts have the same functions; under one gate their order is free.
func sameExperts(a, b *fitted.Model) bool {
	if !a.Activation.Same(b.Activation) || len(a.Leaves) != len(b.Leaves) {
		return false
	}
	of, other := a.Leaves, b.Leaves
	if a.Hierarchy == "" && b.Hierarchy == "" {
		byName := func(x, y stated.Activation) int { return cmp.Compare(x.String(), y.String()) }
		of, other = slices.SortedFunc(slices.Values(of), byName), slices.SortedFunc(slices.Values(other), byName)
	}
	return slices.EqualFunc(of, other, stated.Activation.Same)
}

// limit says why there is no test of one family within another of which it is the limit: its parameter is there at the
// end of what it may be, where 2(ℓ − ℓ₀) has no χ² distribution (Self and Liang 1987); nil of other families, and where
// that parameter was given.
func limit(a, b *fitted.Model) error {
	for _, of := range []struct{ limit, family, own, parameter string }{
		{"poisson", "negative-binomial", "theta", "theta"}, {"", "student-t", "dof", "degrees of freedom"},
	} {
		if a.Family == of.limit && b.Family == of.family && !slices.Contains(b.Fit.OwnGiven, of.own) {
			return fmt.Errorf("%s is the limit of %s for infinite %s, at the end of what there may be, where the "+
				"statistic has no χ² distribution: compare BIC", cmp.Or(of.limit, fitted.Normal), of.family,
				of.parameter)
		}
	}
	return nil
}

// contains says of two models that are not [apart] why large has not every law of small; nil where it has.
func contains(large, small *fitted.Model) error {
	seen := func(of func(*fitted.Model) [][]float64) bool {
		for j, name := range small.Features {
			other := slices.Index(large.Features, name)
			if sees(of(small), j) && (other < 0 || !sees(of(large), other)) {
				return false
			}
		}
		return true
	}
	intercepts := func(of func(*fitted.Model) []float64) bool { return len(of(small)) == 0 || len(of(large)) > 0 }
	switch {
	case slices.ContainsFunc(large.Shared, func(name string) bool { return !sharesOrLacks(small, name) }):
		return errors.New("the model of more parameters has shared coefficients that the other has not: compare BIC")
	case !seen(func(m *fitted.Model) [][]float64 { return m.Regressors }),
		!seen(func(m *fitted.Model) [][]float64 { return m.Gating }),
		!intercepts(func(m *fitted.Model) []float64 { return m.RegressorIntercepts }),
		!intercepts(func(m *fitted.Model) []float64 { return m.GatingIntercepts }):
		return errors.New("each model has features that the other has not: compare BIC")
	case scales(small) > scales(large):
		return errors.New("the model of more parameters has not the other's output scales: compare BIC")
	}
	of := noiseOf(large)
	own := noiseOf(small)
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if err := of[name].contains(own[name], name); err != nil {
			return err
		}
	}
	return nil
}

// scales orders the kinds of output, each of which the next contains: means g, with one c + s·g, with one of each
// expert, which is no more where there is one expert.
func scales(m *fitted.Model) int {
	if m.OutputScale == nil {
		return 0
	}
	return len(m.OutputScale.Offset)
}

// noise is a parameter of the family's own: one of all experts, or one of each.
type noise struct {
	values []float64
	given  bool
	floor  float64 // of what is estimated; 0 where that is next to nothing
}

// noiseOf are those parameters by their names.
func noiseOf(m *fitted.Model) map[string]noise {
	out := map[string]noise{}
	if len(m.Sigma) > 0 {
		out[mixture.Sigma] = noise{m.Sigma, m.Fit.SigmaGiven, m.Fit.SigmaFloor}
	}
	for name, values := range m.Own {
		out[name] = noise{values: values, given: slices.Contains(m.Fit.OwnGiven, name)}
	}
	return out
}

// levels are how many values there may be: a given one of all experts is one.
func (n noise) levels() int {
	if v := n.values; n.given && !slices.ContainsFunc(v, func(u float64) bool { return u != v[0] }) {
		return 1
	}
	return len(n.values)
}

// contains says why n has not every value of small; nil where it has. A floor counts where small is below it: elsewhere
// it is as if there were none.
func (n noise) contains(small noise, name string) error {
	switch {
	case n.given && !(small.given && small.levels() == n.levels() && small.values[0] == n.values[0]):
		return fmt.Errorf("%s was given in the model of more parameters, and is not the same in the other: "+
			"neither contains the other: compare BIC", name)
	case small.levels() > n.levels():
		return fmt.Errorf("%s is one of all experts in the model of more parameters, and one of each in the other: "+
			"neither contains the other: compare BIC", name)
	case n.floor > 0 && n.floor > slices.Min(small.values):
		return fmt.Errorf("%s is below the floor of the model of more parameters in the other: compare BIC", name)
	}
	return nil
}

// regular says why the statistic of nested models has no χ² distribution; nil where it has.
func regular(small, large *fitted.Model) error {
	for _, m := range []*fitted.Model{small, large} {
		switch f := m.Fit; {
		case slices.Contains([]string{"moments", "spectral", "l2", "l4"}, f.Method):
			return fmt.Errorf("method %s does not maximise the likelihood, of which the test is: compare BIC", f.Method)
		case !f.Converged:
			return errors.New("one of the fits has not converged")
		case len(f.Separation)+len(f.Endless) > 0:
			return errors.New("a gate separates rows, and the statistic has no χ² distribution: compare BIC")
		case f.SigmaFloor > 0 && len(m.Sigma) > 0 && slices.Min(m.Sigma) <= f.SigmaFloor:
			return errors.New("a sigma stands at its floor, where the statistic has no χ² distribution: compare BIC")
		}
	}
	return nil
}

// nested tests the smaller of two models that are not [apart] within the larger, or says why it cannot.
func nested(which string, small, large *fitted.Model, s, l Compared) (*NestedTest, error) {
	if err := cmp.Or(contains(large, small), regular(small, large)); err != nil {
		return nil, err
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

// otherRoles says what a model has beside target and features, as an offset, of which the other has none, or another
// column; "" of nothing. The digest of rows is of the target and these together.
func otherRoles(nameA string, a *fitted.Model, nameB string, b *fitted.Model) string {
	of, other := roles(a), roles(b)
	for _, role := range dataset.RoleNames() {
		if u, v := of[role], other[role]; u != v && (u == "" || v == "" || a.Fit.RowsDigest != b.Fit.RowsDigest) {
			return fmt.Sprintf("%s: %s in %s, %s in %s", role, cmp.Or(u, "none"), nameA, cmp.Or(v, "none"), nameB)
		}
	}
	return ""
}

// roles are the columns beside target and features by what they are, the weights among them.
func roles(m *fitted.Model) map[string]string {
	out := maps.Clone(m.Roles)
	if out == nil {
		out = map[string]string{}
	}
	if m.Fit.Weight != 0 {
		out[dataset.RoleNames()[model.Weights]] = cmp.Or(m.Fit.WeightColumn, "a column")
	}
	return out
}
