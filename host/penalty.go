package host

import (
	"cmp"
	"math"
	"strconv"

	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
)

// Penalty says whether the model of a fit comes with that of a ridge on the gate, or a ridge or a lasso on the experts,
// beside it, by which new rows are predicted (fitted.Penalised): [NoPenalty] is without, [AutoPenalty] with one that
// the rows choose; else it is the penalty itself, a number above 0. "" is on the gate AutoPenalty where a gate
// separates rows, and NoPenalty elsewhere.
type Penalty string

// What a [Penalty] may be beside a number.
const (
	NoPenalty   Penalty = "none"
	AutoPenalty Penalty = "auto"
)

// value is the penalty, 0 where the rows choose it.
func (g Penalty) value() (float64, error) {
	if g == "" || g == NoPenalty || g == AutoPenalty {
		return 0, nil
	}
	v, err := strconv.ParseFloat(string(g), 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		return 0, problem.Refuse("penalty %s: want none, auto or a number above 0", g)
	}
	return v, nil
}

// Check refuses what is neither a number above 0 nor one of the words.
func (g Penalty) Check() error {
	_, err := g.value()
	return err
}

// Asked says whether there is to be one whatever the rows say.
func (g Penalty) Asked() bool { return g != "" && g != NoPenalty }

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
	asked := func(p Penalty) *float64 {
		if !p.Asked() {
			return nil
		}
		v, err := p.value()
		if err != nil {
			panic("host: " + err.Error())
		}
		return &v
	}
	_, constant := c.Gate.(Constant)
	return result.Penalties{
		Gate: asked(c.GatePenalty),
		// a part of the rows has passes to follow, and arrangements are a model for new rows
		Separating: c.GatePenalty == "" && !constant && !c.beside && !c.Arrangements,
		Experts:    asked(onExperts(c)), Lasso: c.ExpertLasso.Asked(),
		Begins: func() { c.show(StagePenalty, 0, 0) },
	}
}
