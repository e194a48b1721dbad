package report

import (
	"fmt"

	"github.com/gatedlearning/moe/host/fitted"
)

// penalised says in one line of which model the coefficients are, where the file has another beside the maximum; ""
// where it has one.
func penalised(m *fitted.Model) string {
	s := m.Penalised
	if s == nil {
		return ""
	}
	by := "given"
	switch {
	case s.Folds > 0:
		by = fmt.Sprintf("chosen by %d folds of the rows", s.Folds)
	case len(s.Path) > 0 && s.Path[len(s.Path)-1].HeldOut != nil:
		by = "chosen by the information"
	}
	return fmt.Sprintf("Gate: penalised, lambda %.3g, %s; log-likelihood %s, %s below the maximum. Coefficients, "+
		"intervals and predictions are by it; log-likelihood, BIC and AIC above are of the maximum.", s.Lambda, by,
		Likelihood(s.LogLikelihood), Likelihood(m.Fit.LogLikelihood-s.LogLikelihood))
}

// penaltyPath is the table of the ridges that were compared; nil where there were none.
func penaltyPath(m *fitted.Model) [][]string {
	if m.Penalised == nil {
		return nil
	}
	table := [][]string{{"Penalised gate", "log-likelihood", "held out"}}
	for _, p := range m.Penalised.Path {
		name, held := fmt.Sprintf("lambda %.3g", p.Lambda), "–"
		if p.Lambda == m.Penalised.Lambda {
			name += " (taken)"
		}
		if p.HeldOut != nil {
			held = Likelihood(*p.HeldOut)
		}
		table = append(table, []string{name, Likelihood(p.LogLikelihood), held})
	}
	return table
}
