package native

import (
	"context"
	"errors"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/sdk"
)

// Evaluator is g as the iterations evaluate it.
type Evaluator struct {
	model.Activation
	Native *Coefficients // of the approximation; nil where it is the activation itself
	Note   string        // why there is no approximation though one was asked for
	Breaks []float64     // the kinks of g, ascending
}

// Kinks are those of g, and of its approximation.
func (e Evaluator) Kinks() []float64 { return e.Breaks }

// EvaluatorOf returns the activation itself, or a native approximation of it where
// that was asked for and is good enough.
func EvaluatorOf(ctx context.Context, act sdk.Activation, approximate bool) (Evaluator, error) {
	kinks := act.Info().Kinks
	if !approximate {
		return Evaluator{Activation: act, Breaks: kinks}, nil
	}
	fn, err := Build(ctx, act)
	if rough := (*RoughError)(nil); errors.As(err, &rough) {
		return Evaluator{Activation: act, Breaks: kinks, Note: rough.Error() + "; every value was asked of it"}, nil
	}
	if err != nil {
		return Evaluator{}, err
	}
	return Evaluator{Activation: fn, Breaks: kinks, Native: fn.Coefficients()}, nil
}
