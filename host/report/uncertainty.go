package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/report/numeral"
	"github.com/gatedlearning/moe/internal/shown"
)

// Intercepts are tables of those of experts and gate, where there are any.
func Intercepts(m *fitted.Model) (out [][][]string) {
	s := shownErrors(m)
	if m.RegressorIntercepts != nil {
		out = append(out, [][]string{
			beside("Intercepts", numbers(m.K), blanks(m.K, s)), withErrors("experts", m.RegressorIntercepts,
				s.RegressorIntercepts),
		})
	}
	if m.GatingIntercepts != nil && m.Classes() > 1 {
		out = append(out, [][]string{
			beside("Intercepts of the "+strings.ToLower(gateTitle(m)[:1])+gateTitle(m)[1:], branchLabels(m),
				blanks(len(m.Gating), s)), withErrors("gate", m.GatingIntercepts, s.GatingIntercepts),
		})
	}
	return out
}

// maxErrors is the number of experts up to which a table has room for a column
// of standard errors beside every expert's.
const maxErrors = 6

// uncertainty is the line on the standard errors.
func uncertainty(m *fitted.Model, s *fitted.StandardErrors) string {
	line := errorsBy(s) + SharedNoise(m, s)
	if m.K > maxErrors {
		line += " Those of the coefficients are in the model file."
	}
	return line
}

// errorsBy says of what kind standard errors are.
func errorsBy(s *fitted.StandardErrors) string {
	by, sides := "the observed information", "1.96"
	switch {
	case s.Kind == "robust":
		by = "the sandwich (robust)"
	case s.Clusters != nil:
		by = fmt.Sprintf("the sandwich of %d clusters (column %s)", s.Clusters.Count, s.Clusters.Column)
		sides = fmt.Sprintf("%.3g", s.Clusters.CriticalValue)
	case s.Kind == fitted.KindPenalised:
		by = "the penalised information, approximate"
	}
	return fmt.Sprintf("Standard errors (±) by %s; a 95 %% interval is %s of them to either side.", by, sides)
}

// Dependence is the line on the standard errors for rows that follow each other.
func Dependence(m *fitted.Model) string {
	line := dependence(m.HAC)
	if shared := sharedOwn(m, m.HAC.StandardErrors); shared != "" {
		line += " " + shared + "."
	}
	return line
}

// dependence is [Dependence] without the noise.
func dependence(h *fitted.HAC) string {
	line := fmt.Sprintf("Standard errors with dependence of rows: the sandwich by the Bartlett kernel, bandwidth %s "+
		"(Newey and West 1987, Andrews 1991)", numeral.Plural(h.Bandwidth, "row"))
	if c := h.CriticalValue; c > 0 {
		line += fmt.Sprintf("; a 95 %% interval is %.3g of them to either side", c)
	}
	return line + "."
}

// DependentErrors are the tables of the coefficients with the standard errors for rows that
// follow each other; none where there is no room for errors.
func DependentErrors(m *fitted.Model, most int) (tables [][][]string) {
	if m.K > maxErrors {
		return nil
	}
	with := *m
	with.StandardErrors = m.HAC.StandardErrors
	tables = append(tables, Experts(&with, most))
	if m.Classes() > 1 {
		tables = append(tables, Gates(&with, most))
	}
	return tables
}

// SharedNoise is the sentence on the shared noise level: the likelihood's maximum,
// then the corrected estimate with its interval, which need not hold the maximum.
func SharedNoise(m *fitted.Model, s *fitted.StandardErrors) string {
	line := sharedOwn(m, s)
	if line == "" {
		return ""
	}
	if len(s.SigmaCorrected) == 1 {
		line += "; corrected for degrees of freedom " + numeral.Significant(s.SigmaCorrected[0])
	}
	if len(s.SigmaInterval) == 1 {
		line += fmt.Sprintf(", %s to %s", numeral.Significant(s.SigmaInterval[0][0]),
			numeral.Significant(s.SigmaInterval[0][1]))
	}
	return " " + line + "."
}

// sharedOwn says what the own parameters of the density are, with their errors where they have some; "" where every
// expert has its own, or none is estimated.
func sharedOwn(m *fitted.Model, s *fitted.StandardErrors) string {
	var words []string
	estimated := false
	for _, own := range noises(m, s) {
		if len(own.values) > 1 {
			return ""
		}
		word := own.name + " " + numeral.Significant(own.values[0])
		if len(own.errors) == 1 && own.errors[0] > 0 {
			word += " ± " + numeral.TwoDigits(own.errors[0])
		}
		estimated = estimated || len(own.errors) == 1
		words = append(words, word)
	}
	if !estimated {
		return ""
	}
	line := strings.Join(words, ", ")
	return strings.ToUpper(line[:1]) + line[1:]
}

// noise is an own parameter of the density: one value for all experts or one for each, with their standard errors.
type noise struct {
	name           string
	values, errors []float64
}

// noises are those of a model, of which there may be none; s is not nil.
func noises(m *fitted.Model, s *fitted.StandardErrors) (all []noise) {
	if len(m.Sigma) > 0 {
		all = append(all, noise{mixture.Sigma, m.Sigma, s.Sigma})
	}
	for _, name := range m.Own.Names(m.Family) {
		all = append(all, noise{name, m.Own[name], s.Own[name]})
	}
	return all
}

// noiseWords name the family and its own parameters, those that experts have for themselves without values.
func noiseWords(m *fitted.Model) (words []string) {
	if m.Family != "" {
		words = append(words, "family "+shown.Name(m.Family))
	}
	for _, role := range slices.Sorted(maps.Keys(m.Roles)) {
		words = append(words, role+" "+shown.Name(m.Roles[role]))
	}
	for _, own := range noises(m, &fitted.StandardErrors{}) {
		if len(own.values) == 1 {
			words = append(words, own.name+" "+numeral.Significant(own.values[0]))
		} else {
			words = append(words, own.name+" per expert")
		}
	}
	return words
}

// shownErrors returns the standard errors that the tables show, none where there
// are none or no room.
func shownErrors(m *fitted.Model) *fitted.StandardErrors {
	if m.K > maxErrors {
		return &fitted.StandardErrors{}
	}
	return KnownErrors(m)
}

// KnownErrors returns the standard errors of a model, none where there are none.
func KnownErrors(m *fitted.Model) *fitted.StandardErrors {
	if m.StandardErrors == nil {
		return &fitted.StandardErrors{}
	}
	return m.StandardErrors
}

// beside is a row of a table: its name, then cells, each with the one of errors
// beside it if there are any.
func beside(name string, cells, errors []string) []string {
	row := []string{name}
	for i, cell := range cells {
		row = append(row, cell)
		if len(errors) > 0 {
			row = append(row, errors[i])
		}
	}
	return row
}

// withErrors is a row of a table: its name, then numbers, each with its standard error beside it where there are any.
func withErrors(name string, values, errors []float64) []string {
	row := []string{name}
	for i, v := range values {
		if len(errors) == 0 {
			row = append(row, numeral.Fixed(v))
		} else {
			value, se := numeral.ByError(v, errors[i])
			row = append(row, value, se)
		}
	}
	return row
}

// blanks are n empty cells where there are standard errors.
func blanks(n int, s *fitted.StandardErrors) []string {
	if s.Regressors == nil {
		return nil
	}
	return make([]string, n)
}

// noiseErrors are the cells of the errors of k noise levels, or of another own parameter, blank where they were given.
func noiseErrors(k int, errors fitted.Sigma, s *fitted.StandardErrors) []string {
	if errors == nil {
		return blanks(k, s)
	}
	return each(errors, numeral.PlusMinus)
}

// column returns column j of a matrix given by its rows.
func column(matrix [][]float64, j int) []float64 {
	out := make([]float64, len(matrix))
	for i, row := range matrix {
		out[i] = row[j]
	}
	return out
}
