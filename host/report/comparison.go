package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/compare"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// ratioLevel is the p from which on a likelihood ratio is no evidence against the smaller of two models.
const ratioLevel = 0.05

// Comparison writes two fits of the same rows beside each other: what they come to, the test of the smaller where there
// is one, and a table of every pair of experts.
func Comparison(w io.Writer, c *compare.Comparison, a, b *fitted.Model) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "Two fits of the same %s, target %s.\n", numeral.Plural(c.Rows, "row"), shown.Name(a.Target))
	table := [][]string{{"Model", "experts", "log-likelihood", "parameters", "BIC", "AIC"}}
	for _, m := range []compare.Compared{c.A, c.B} {
		table = append(table, []string{shown.Name(m.Model), m.Experts, numeral.Likelihood(m.LogLikelihood),
			fmt.Sprint(m.Parameters), numeral.Likelihood(m.BIC), numeral.Likelihood(m.AIC)})
	}
	writeTable(out, table)
	less, by := c.A.Model, c.B.BIC-c.A.BIC
	if by < 0 {
		less, by = c.B.Model, -by
	}
	fmt.Fprintln(out)
	if numeral.Likelihood(by) == numeral.Likelihood(0) {
		fmt.Fprintln(out, "They have the same BIC.")
	} else {
		fmt.Fprintf(out, "%s has less BIC, by %s.\n", shown.Name(less), numeral.Likelihood(by))
	}
	if t := c.Nested; t != nil {
		smaller := map[string]string{"a": c.A.Model, "b": c.B.Model}[t.Smaller]
		says := "speaks against it with"
		if !(t.PValue < ratioLevel) {
			says = fmt.Sprintf("does not speak against it at level %g:", ratioLevel)
		}
		fmt.Fprintf(out, "The other contains %s: the likelihood ratio %s p = %.2g (chi-squared %.1f, %s of freedom).\n",
			shown.Name(smaller), says, t.PValue, t.Statistic, numeral.Plural(t.DF, "degree"))
	} else {
		fmt.Fprintf(out, "No test: %s.\n", shown.Line(c.Untested))
	}
	if a.TargetScale != b.TargetScale {
		fmt.Fprintf(out, "%s is of %s, %s of %s: their coefficients are on different scales, their likelihoods on "+
			"one.\n",
			shown.Name(c.A.Model), shown.Name(a.ScaledTarget()), shown.Name(c.B.Model), shown.Name(b.ScaledTarget()))
	}
	if ref := c.GateReference; ref != nil {
		fmt.Fprintf(out, "Gates are relative to expert %d of %s and expert %d of %s.\n", ref[0], shown.Name(c.A.Model),
			ref[1], shown.Name(c.B.Model))
	}
	for at, pair := range c.Matched {
		var gates compare.ComparedGates
		if c.Gates != nil && pair != *c.GateReference {
			gates = c.Gates[at]
		}
		writeTable(out, besideEachOther(c, a, b, pair[0]-1, pair[1]-1, gates))
	}
	return out.Flush()
}

// besideEachOther is the table of an expert of a and one of b, either −1 for none.
func besideEachOther(c *compare.Comparison, a, b *fitted.Model, i, l int, gates compare.ComparedGates) [][]string {
	title := func(name string, i int) string {
		if i < 0 {
			return ""
		}
		return fmt.Sprintf("%s, expert %d", shown.Name(name), i+1)
	}
	table := [][]string{{"", title(c.A.Model, i), "", title(c.B.Model, l), ""}}
	add := func(name, va, ea, vb, eb string) {
		if va != "" || vb != "" {
			table = append(table, []string{name, va, ea, vb, eb})
		}
	}
	share := func(m *fitted.Model, i int) string {
		if i < 0 {
			return ""
		}
		return numeral.Significant(m.Proportions[i])
	}
	add("proportion", share(a, i), "", share(b, l), "")
	names := slices.Clone(a.Features)
	for _, name := range b.Features {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		va, ea := coefficientOf(a, i, name)
		vb, eb := coefficientOf(b, l, name)
		add(shown.Name(name), va, ea, vb, eb)
	}
	intercept := func(m *fitted.Model, i int) (string, string) {
		if i < 0 || m.RegressorIntercepts == nil {
			return "", ""
		}
		return oneOf(m.RegressorIntercepts[i], KnownErrors(m).RegressorIntercepts, i)
	}
	va, ea := intercept(a, i)
	vb, eb := intercept(b, l)
	add("intercept", va, ea, vb, eb)
	for _, name := range names {
		va, ea := gateOf(gates.A, name)
		vb, eb := gateOf(gates.B, name)
		add("gate "+shown.Name(name), va, ea, vb, eb)
	}
	va, ea = gateInterceptOf(gates.A)
	vb, eb = gateInterceptOf(gates.B)
	add("gate intercept", va, ea, vb, eb)
	return table
}

// gateOf is the coefficient of a feature in a gate with its standard error, "" for none.
func gateOf(g *compare.ComparedGate, name string) (value, se string) {
	if g == nil {
		return "", ""
	}
	v, seen := g.Coefficients[name]
	switch e, known := g.Errors[name]; {
	case !seen:
		return "", ""
	case known:
		return numeral.ByError(v, e)
	}
	return numeral.Fixed(v), ""
}

func gateInterceptOf(g *compare.ComparedGate) (value, se string) {
	switch {
	case g == nil || g.Intercept == nil:
		return "", ""
	case g.InterceptError == nil:
		return numeral.Fixed(*g.Intercept), ""
	}
	return numeral.ByError(*g.Intercept, *g.InterceptError)
}

// coefficientOf is that of a feature in expert i with its standard error, "" for none.
func coefficientOf(m *fitted.Model, i int, name string) (value, se string) {
	j := slices.Index(m.Features, name)
	if i < 0 || j < 0 {
		return "", ""
	}
	var errors []float64
	if known := KnownErrors(m).Regressors; known != nil {
		errors = known[i]
	}
	return oneOf(m.Regressors[i][j], errors, j)
}

func oneOf(v float64, errors []float64, j int) (value, se string) {
	if errors == nil {
		return numeral.Fixed(v), ""
	}
	return numeral.ByError(v, errors[j])
}
