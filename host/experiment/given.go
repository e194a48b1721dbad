package experiment

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// Given is an activation that figures are to be made for.
type Given struct {
	Activation sdk.Activation
	Name       string // how it is shown, with its parameters
	// ID tells activations of one name apart, by parameters and values. It is a part of
	// the stored runs' keys.
	ID string
}

// UnfitError is an activation for which the figures cannot be made.
type UnfitError struct{ Name, Why string }

// Error says which and why.
func (e *UnfitError) Error() string {
	return fmt.Sprintf("no figures for activation %s: %s", e.Name, e.Why)
}

// mostRows is the largest data set of a figure for an activation that is given:
// about what 60 estimates can be made of in minutes.
const mostRows = 3000000

// For returns the figures that can be made for any activation, 002-T2,
// efficiency-2 and efficiency-3, for that one alone. One of which no estimate
// says the regressors is an [*UnfitError]: an invalid or an even one, and one of
// which it takes too many rows.
func For(ctx context.Context, given Given, quick bool) ([]*Figure, error) {
	z := size{quick}
	with := func(k int) setting {
		s := paper(given.Activation.Info().Name, k)
		s.given = &given
		return s
	}
	c := sampled{setting: with(2)}
	v, err := solver.Validate(ctx, given.Activation, c.sigma)
	if err != nil {
		return nil, err
	}
	switch {
	case !v.Verdict.Valid:
		return nil, &UnfitError{given.Name, "it is not valid: " + strings.Join(v.Verdict.Reasons, "; ")}
	case !v.Verdict.SignsIdentifiable && !v.Verdict.Even:
		return nil, &UnfitError{given.Name, "its moments do not tell the regressors' signs"}
	case !v.Verdict.SignsIdentifiable:
		return nil, &UnfitError{given.Name,
			"it is even, so that the regressors' signs, and with them their errors, cannot be told"}
	case v.Noise == nil:
		return nil, &UnfitError{given.Name, "the variance of its transforms is not finite"}
	}
	c.sizes(z, v.Noise.Samples(solver.Design{K: c.k, D: c.d, Mu: moment.UnitMu}, predictionTarget))
	if c.largest() > mostRows {
		return nil, &UnfitError{given.Name,
			fmt.Sprintf("002-T2 would take %d rows, and goes up to %d: its transforms are too noisy (moe "+
				"validate-activation)", c.largest(), mostRows)}
	}
	figures := []*Figure{samples(z, []sampled{c}), efficiency(z, []setting{with(2)}), efficiency(z, []setting{with(3)})}
	for _, f := range figures {
		f.Title += ": " + given.Name
	}
	z.finish(figures)
	return figures, nil
}

// sizes sets the sizes of the data sets by the rows after which E_reg is predicted to
// be 0.01: from there on, as for the built-ins.
func (c *sampled) sizes(z size, rows float64) {
	start := 10000
	for i := 0; float64(start) < rows && start <= mostRows; i++ { // 3e4, 1e5, 3e5, …
		if i%2 == 0 {
			start *= 3
		} else {
			start = start / 3 * 10
		}
	}
	c.heavy = start > 10000 // as with ReLU
	c.ns = []int{start, 3 * start, 10 * start}
	switch {
	case z.quick && c.heavy:
		c.ns = []int{start / 10 * 3, 3 * start}
	case z.quick:
		c.ns = []int{10000, 40000, 160000}
	case !c.heavy:
		c.ns = append(c.ns, 300000)
	}
}
