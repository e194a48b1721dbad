// Package claims compares what an activation says of its g with g itself: g′
// with differences of g, moments and linear systems of its own with quadrature.
// It is for a host that is about to rely on them. The conformance kit, package
// conform, asks for more.
package claims

import (
	"context"
	"fmt"
	"sync"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// Error reports a claim that is not so.
type Error struct {
	Activation string // its name
	Call       string // the method that makes the claim: "Eval", "Deriv", "Moments" or "System"
	Reason     string // where it is not so, with both values
}

func (e *Error) Error() string {
	return fmt.Sprintf("activation %q: %s; package sdk/activationtest says more in a Go test", e.Activation, e.Reason)
}

// Check compares all that act claims: g′ at some hundred points, at a cost of
// five evaluations each; moments and systems only where it has its own, with
// quadrature, which takes some thousand evaluations. A claim that is not so is an
// [*Error]; other errors are those of act. g is judged as it is: any smooth
// function and any with kinks passes.
func Check(ctx context.Context, act sdk.Activation) error {
	c := Of(act)
	if err := c.Derivative(ctx); err != nil {
		return err
	}
	if _, ok := act.(sdk.MomentsProvider); ok {
		if _, err := c.Moments(ctx); err != nil {
			return err
		}
	}
	if _, ok := act.(sdk.SystemProvider); ok {
		for _, sigma := range NoiseLevels() {
			if _, err := c.System(ctx, sigma); err != nil {
				return err
			}
		}
	}
	return nil
}

// NoiseLevels are the σ at which systems are compared where none is asked for: a
// misplaced σ² shows where σ is not small.
func NoiseLevels() []float64 { return []float64{0, 0.05, 0.5} }

// Claims are those of one activation, each compared before it is handed on. They
// are safe for concurrent use, and take quadrature of g at most once.
type Claims struct {
	act sdk.Activation

	mu         sync.Mutex
	quadrature *sdk.Moments // nil until it is needed
	derivative bool         // g′ has been compared
	scale      float64      // the largest |g′| where it was
}

// Of returns the claims of act.
func Of(act sdk.Activation) *Claims { return &Claims{act: act} }

func (c *Claims) errorf(call, format string, args ...any) error {
	return &Error{Activation: c.act.Info().Name, Call: call, Reason: fmt.Sprintf(format, args...)}
}

// Derivative compares g′, the first time that it is called.
func (c *Claims) Derivative(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derivative {
		return nil
	}
	scale, err := c.derivativeAt(ctx, quantiles(derivativePoints))
	if err != nil {
		return err
	}
	c.derivative, c.scale = true, scale
	return nil
}

// Moments returns the moments of an sdk.MomentsProvider where they are those of
// its g.
func (c *Claims) Moments(ctx context.Context) (sdk.Moments, error) {
	own, err := c.act.(sdk.MomentsProvider).Moments(ctx)
	if err != nil {
		return sdk.Moments{}, err
	}
	m, err := c.measure(ctx)
	if err != nil {
		return sdk.Moments{}, err
	}
	if reason, check := solver.CompareMoments(own, m); !check.Holds {
		return sdk.Moments{}, c.errorf("Moments", "%s", reason)
	}
	return own, nil
}

// System returns the system of an sdk.SystemProvider at noise level sigma where it
// is that of its g.
func (c *Claims) System(ctx context.Context, sigma float64) (sdk.System, error) {
	own, err := c.act.(sdk.SystemProvider).System(ctx, sigma)
	if err != nil {
		return sdk.System{}, err
	}
	if own.Sigma != sigma {
		return sdk.System{}, c.errorf("System", "asked for the system at σ = %v, it answers for %v", sigma, own.Sigma)
	}
	m, err := c.measure(ctx)
	if err != nil {
		return sdk.System{}, err
	}
	if reason, check := solver.CompareSystem(own, m); !check.Holds {
		return sdk.System{}, c.errorf("System", "%s", reason)
	}
	return own, nil
}

// measure returns the quadrature of g.
func (c *Claims) measure(ctx context.Context) (sdk.Moments, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quadrature == nil {
		m, err := sdk.Quadrature(ctx, c.act)
		if err != nil {
			return sdk.Moments{}, err
		}
		c.quadrature = &m
	}
	return *c.quadrature, nil
}
