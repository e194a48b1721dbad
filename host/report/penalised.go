package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/report/numeral"
)

// penalised says in one line of which model the coefficients are, where the file has another beside the maximum; ""
// where it has one.
func penalised(m *fitted.Model) string {
	s := m.Penalised
	if s == nil {
		return ""
	}
	gate, experts := strength(s.Lambda, s.Folds, s.Path), strength(s.ExpertLambda, s.ExpertFolds, s.ExpertPath)
	if experts != "" && s.ExpertPenalty == fitted.Lasso {
		experts = "by a lasso, " + experts
	}
	what := "Gate: penalised, " + gate
	switch {
	case gate == "":
		what = "Experts: penalised, " + experts
	case experts != "":
		what += "; experts: penalised, " + experts
	}
	return fmt.Sprintf("%s; log-likelihood %s, %s below the maximum.%s Coefficients, intervals and predictions are by "+
		"it; log-likelihood, BIC and AIC above are of the maximum.", what, numeral.Likelihood(s.LogLikelihood),
		numeral.Likelihood(m.Fit.LogLikelihood-s.LogLikelihood), without(s))
}

// without says what experts a lasso has left without what; "" where there is none, or none is without anything.
func without(s *fitted.Penalised) string {
	const most = 8 // names
	var of []string
	for i, names := range s.Without {
		if more := len(names) - most; more > 1 {
			names = append(slices.Clone(names[:most]), fmt.Sprintf("%d more", more))
		}
		if len(names) > 0 {
			of = append(of, fmt.Sprintf("%d without %s", i+1, shownNames(names)))
		}
	}
	if of == nil {
		return ""
	}
	return " The lasso leaves expert " + strings.Join(of, ", expert ") + "."
}

// strength says how strong a penalty is, what chose it, and whether it has not converged; "" where there is none.
func strength(lambda float64, folds int, path []fitted.PenalisedPoint) string {
	by := "given"
	switch {
	case lambda == 0:
		return ""
	case folds > 0:
		by = fmt.Sprintf("chosen by %d folds of the rows", folds)
	case len(path) > 0 && path[len(path)-1].HeldOut != nil:
		by = "chosen by the information"
	}
	if slices.ContainsFunc(path, func(p fitted.PenalisedPoint) bool { return p.Lambda == lambda && !p.Converged }) {
		by += ", not converged"
	}
	return fmt.Sprintf("lambda %.3g, %s", lambda, by)
}

// penaltyPath is the table of the penalties that were compared; nil where there were none.
func penaltyPath(m *fitted.Model) [][]string {
	if m.Penalised == nil {
		return nil
	}
	var table [][]string
	add := func(title string, path []fitted.PenalisedPoint, taken float64) {
		if len(path) == 0 {
			return
		}
		table = append(table, []string{title, "log-likelihood", "held out"})
		for _, p := range path {
			name, held := fmt.Sprintf("lambda %.3g", p.Lambda), "–"
			if p.Lambda == taken {
				name += " (taken)"
			}
			if !p.Converged {
				name += " (not converged)"
			}
			if p.HeldOut != nil {
				held = numeral.Likelihood(*p.HeldOut)
			}
			table = append(table, []string{name, numeral.Likelihood(p.LogLikelihood), held})
		}
	}
	add("Penalised gate", m.Penalised.Path, m.Penalised.Lambda)
	experts := "Penalised experts"
	if m.Penalised.ExpertPenalty == fitted.Lasso {
		experts = "Experts by a lasso"
	}
	add(experts, m.Penalised.ExpertPath, m.Penalised.ExpertLambda)
	return table
}

// PenalisedPart is what the penalties of s are on: the gate, the experts, or both.
func PenalisedPart(s *fitted.Penalised) string {
	switch {
	case s.ExpertLambda == 0:
		return "gate"
	case s.Lambda == 0:
		return "experts"
	}
	return "gate and experts"
}

// gatePenalised says whether the gate for new rows has a ridge.
func gatePenalised(m *fitted.Model) bool { return m.Penalised != nil && m.Penalised.Lambda > 0 }
