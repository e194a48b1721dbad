package host

import (
	"cmp"

	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
)

// Penalty says whether a fit comes with a penalised model beside it: [NoPenalty], [AutoPenalty] or a number.
type Penalty = result.Penalty

// What a [Penalty] may be beside a number.
const (
	NoPenalty   = result.NoPenalty
	AutoPenalty = result.AutoPenalty
)

// checkPenalties refuses what they cannot be beside.
func checkPenalties(c Config) error {
	_, constant := c.Gate.(Constant)
	switch {
	case c.GatePenalty.Asked() && constant:
		return problem.Refuse("gate penalty %s: a constant gate has no coefficients", c.GatePenalty)
	case (c.GatePenalty.Asked() || onExperts(c).Asked()) && c.Arrangements:
		return problem.Refuse("a penalty on the gate or the experts: predictions are by it, or over the arrangements")
	case c.ExpertRidge.Asked() && c.ExpertLasso.Asked():
		return problem.Refuse("the experts have a ridge or a lasso, not both")
	case onExperts(c).Asked() && (c.Tied != nil || c.Output != ""):
		return problem.Refuse("a %s on the experts does not know shared coefficients, nor means c + s·g",
			result.PenaltyName(c.ExpertLasso.Asked()))
	}
	return cmp.Or(c.GatePenalty.Check(), c.ExpertRidge.Check(), c.ExpertLasso.Check())
}

// onExperts is the penalty on them.
func onExperts(c Config) Penalty {
	if c.ExpertLasso.Asked() {
		return c.ExpertLasso
	}
	return c.ExpertRidge
}

// penalties are those that c asks for, which have been checked.
func penalties(c Config) result.Penalties {
	_, constant := c.Gate.(Constant)
	return result.Penalties{
		Gate: c.GatePenalty.Value(),
		// a part of the rows has passes to follow, and arrangements are a model for new rows
		Separating: c.GatePenalty == "" && !constant && !c.beside && !c.Arrangements,
		Experts:    onExperts(c).Value(), Lasso: c.ExpertLasso.Asked(),
		Begins: func() { c.show(StagePenalty, 0, 0) },
	}
}
