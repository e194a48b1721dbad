// Package advice says which flags of a fit allow for what the tests of its certificate suggest.
package advice

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/terms"
)

// Add says in the certificate of the model which flags of a fit allow for what the tests of c suggest first: nothing
// where they pass.
func Add(m *fitted.Model, c *infer.Certificate) {
	if c != nil && len(c.Causes) > 0 {
		m.Fit.Certificate.Try = flagsFor(m, c.Causes[0])
	}
}

func flagsFor(m *fitted.Model, why infer.Cause) string {
	switch why.Test {
	case "":
		if m.Hierarchy != "" {
			return "--hierarchy auto"
		}
		return fmt.Sprintf("--k %d", m.K+1)
	case "residuals":
		if m.K > 1 && len(m.Sigma) == 1 {
			return "--noise per-expert"
		}
		return robust(m)
	case "spread":
		return robust(m)
	case "dependence":
		if m.Groups != nil {
			return robust(m)
		}
		if m.HAC != nil {
			return ""
		}
		return "--hac"
	case "correlation":
		return "--noise-covariance full"
	case "nonlinearity":
		return "another --activation"
	case "gate", "gate features":
		if !slices.ContainsFunc(m.Gating,
			func(w []float64) bool { return slices.ContainsFunc(w, func(v float64) bool { return v != 0 }) }) {
			return gate(m)
		}
		if m.Groups != nil && slices.ContainsFunc(why.Features, func(j int) bool { return !sees(m, j) }) {
			return "" // what varies within a group is not for the gate
		}
		return formula(m, why.Features, true)
	case "interactions":
		return formula(m, why.Features, false)
	}
	return ""
}

// robust is what makes standard errors hold; nothing where they do.
func robust(m *fitted.Model) string {
	if m.StandardErrors != nil && m.StandardErrors.Kind == string(infer.Robust) {
		return ""
	}
	return "--robust"
}

// gate is what gives features to a gate that has none. Of rows in groups it sees those that are constant within groups,
// where nobody has named others: nothing where that has been so.
func gate(m *fitted.Model) string {
	byFormula := m.Design != nil && m.Design.Formula != ""
	if !byFormula && m.Groups == nil {
		return "--gate softmax"
	}
	if !byFormula {
		return ""
	}
	experts, _, groups, named := bars(m)
	switch left, _, _ := strings.Cut(m.Design.Formula, "~"); {
	case m.Groups != nil && !named:
		return ""
	case groups != "":
		return quoted(strings.TrimSpace(left)+" ~ "+experts) + " --group " + argument(m.Groups.Column)
	case m.Groups != nil || special(experts):
		return quoted(strings.TrimSpace(left) + " ~ " + experts)
	default:
		return quoted(strings.TrimSpace(left) + " ~ " + experts + " | " + experts)
	}
}

// sees says whether the gate sees a feature.
func sees(m *fitted.Model, j int) bool {
	return slices.ContainsFunc(m.Gating, func(w []float64) bool { return w[j] != 0 })
}

// special says whether experts' terms of a formula have what a gate's have not.
func special(experts string) bool {
	return strings.Contains(experts, "offset(") || strings.Contains(experts, "shared(")
}

// quoted is a formula as a flag, which a shell takes as it is.
func quoted(formula string) string { return "--formula " + inQuotes(formula) }

// argument is a word as a shell takes it.
func argument(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool {
		return r != '_' && r != '.' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return inQuotes(word)
	}
	return word
}

// inQuotes is text that a shell changes nothing in.
func inQuotes(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// formula is one with the product of two features, or the square of one named twice, among the terms of the gate or
// of the experts; without features, with all products.
func formula(m *fitted.Model, features []int, gate bool) string {
	experts, gates, groups := sides(m)
	side := &experts
	if gate {
		side = &gates
	}
	switch {
	case features != nil:
		*side += " + " + product(m, features[0], features[1])
	case strings.Contains(*side, "+"):
		*side = "(" + *side + ")^2"
	default:
		*side += "^2"
	}
	target, roles := term(m.Target), dataset.RolesOf(m.Roles)
	if trials := roles[model.Trials]; trials != roles.Raw()[model.Trials] {
		target = trials
	}
	if offset := roles[model.Offsets]; offset != "" && !strings.Contains(experts, "offset(") {
		experts += " + offset(" + offset + ")"
	}
	if groups != "" {
		gates += " | " + groups
	}
	return quoted(fmt.Sprintf("%s ~ %s | %s", target, experts, gates))
}

// mostNamed is how many columns a formula names; it has a point for more.
const mostNamed = 8

// bars are the parts of the right side of the model's formula: the terms of the experts, those of the gate, and the
// column of the groups; named says that there are terms of the gate.
func bars(m *fitted.Model) (experts, gate, groups string, named bool) {
	_, right, _ := strings.Cut(m.Design.Formula, "~")
	experts, gate, named = strings.Cut(right, "|")
	gate, groups, _ = strings.Cut(gate, "|")
	return strings.TrimSpace(experts), strings.TrimSpace(gate), strings.TrimSpace(groups), named
}

// sides are the terms of the experts and of the gate of the model's formula, or of one that it could have, and the
// column of the groups where the formula has it.
func sides(m *fitted.Model) (experts, gate, groups string) {
	if m.Design != nil && m.Design.Formula != "" {
		experts, gate, groups, named := bars(m)
		switch {
		case !named && (m.Groups != nil || special(experts)):
			gate = gateTerms(m)
		case !named:
			gate = experts
		}
		return experts, gate, groups
	}
	columns := m.Features
	if m.Design != nil {
		columns = m.Design.Columns
	}
	if len(columns) > mostNamed {
		return ".", ".", ""
	}
	seen := func(of [][]float64) string {
		var out []string
		for j, name := range columns {
			if m.Design != nil || slices.ContainsFunc(of, func(a []float64) bool { return a[j] != 0 }) {
				out = append(out, term(name))
			}
		}
		if out == nil {
			return "1"
		}
		return strings.Join(out, " + ")
	}
	return seen(m.Regressors), seen(m.Gating), ""
}

// gateTerms are those of the features that the gate sees.
func gateTerms(m *fitted.Model) string {
	var out []string
	for j := range m.Features {
		if t := termOf(m, j); sees(m, j) && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	if out == nil {
		return "1"
	}
	return strings.Join(out, " + ")
}

// product is the term of a formula that is the product of two features.
func product(m *fitted.Model, a, b int) string {
	first, second := termOf(m, a), termOf(m, b)
	if a != b {
		return first + ":" + second
	}
	return "I(" + first + "^2)"
}

// termOf is a feature as formulas name it.
func termOf(m *fitted.Model, j int) string {
	if m.Design == nil {
		return term(m.Features[j])
	}
	var parts []string
	for _, v := range m.Design.Terms[j].Product {
		parts = append(parts, valueTerm(v))
	}
	return strings.Join(parts, ":")
}

func valueTerm(v terms.Value) string {
	switch {
	case v.Polynomial != nil:
		return v.Polynomial.Expression
	case v.Expression != "":
		return v.Expression
	case v.Factor != "":
		return term(v.Factor)
	}
	return term(v.Column)
}

var plainName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[\pL.][\pL\pN._]*(\(.*\))?$`)
})

// term is a column's name in a formula.
func term(name string) string {
	if plainName().MatchString(name) {
		return name
	}
	return "`" + name + "`"
}
