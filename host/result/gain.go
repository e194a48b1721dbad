package result

import (
	"context"
	"errors"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer/gain"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// mostGain is the largest bound, in log-likelihood, that says something.
const mostGain = 5

// gainBound bounds what other mixtures than q gain, identity experts under a constant gate; nil where that has no
// bound, or none that says something.
func gainBound(ctx context.Context, p *problem.Problem, q *model.Params) (*fitted.GainBound, error) {
	if !p.Shape.ConstantGate || p.Activation == nil || p.Activation.Info().Name != "identity" {
		return nil, nil
	}
	g, err := gain.BoundOf(ctx, p.Given, q, p.Shape.Estimated(), gain.Budget)
	if none := (*gain.NoBoundError)(nil); errors.As(err, &none) {
		return nil, nil
	}
	if err != nil || !(g.Upper < mostGain) {
		return nil, err
	}
	return &fitted.GainBound{Upper: g.Upper, Found: g.Lower, Experts: g.Experts}, nil
}
