package catalog

import (
	"context"
	"errors"
	"sync"

	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// claims is a plugin's activation whose moments and systems are compared with
// quadrature of its own g, and whose g′ with differences of it, before anybody
// gets them. What disagrees is a [*LieError].
type claims struct {
	member
	info sdk.Info

	mu         sync.Mutex
	quadrature *sdk.Moments // nil until it is needed
	derivative bool         // g′ has been compared
}

// Info describes the activation, of which quadrature is then taken.
func (c *claims) Info() sdk.Info { return c.info }

// Deriv writes g′(z_i) to dst_i where g′ is that of the plugin's g.
func (c *claims) Deriv(ctx context.Context, dst, z []float64) error {
	if err := c.compareDerivative(ctx); err != nil {
		return err
	}
	return c.member.Deriv(ctx, dst, z)
}

func (c *claims) compareDerivative(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derivative {
		return nil
	}
	err := conform.Derivative(ctx, wire.Expose(c.info, wire.Capabilities{}, c.member))
	if fault := (*FaultError)(nil); errors.As(err, &fault) || ctx.Err() != nil {
		return err
	}
	if err != nil {
		return &LieError{c.s.shown, "Deriv", err.Error()}
	}
	c.derivative = true
	return nil
}

// Moments returns the plugin's own moments where they are those of its g.
func (c *claims) Moments(ctx context.Context) (sdk.Moments, error) {
	own, err := c.member.Moments(ctx)
	if err != nil {
		return sdk.Moments{}, err
	}
	m, err := c.measure(ctx)
	if err != nil {
		return sdk.Moments{}, err
	}
	if reason, check := solver.CompareMoments(own, m); !check.Holds {
		return sdk.Moments{}, &LieError{c.s.shown, "Moments", reason}
	}
	return own, nil
}

// System returns the plugin's own system where it is that of its g.
func (c *claims) System(ctx context.Context, sigma float64) (sdk.System, error) {
	own, err := c.member.System(ctx, sigma)
	if err != nil {
		return sdk.System{}, err
	}
	m, err := c.measure(ctx)
	if err != nil {
		return sdk.System{}, err
	}
	if reason, check := solver.CompareSystem(own, m); !check.Holds {
		return sdk.System{}, &LieError{c.s.shown, "System", reason}
	}
	return own, nil
}

// measure returns the quadrature of the plugin's g.
func (c *claims) measure(ctx context.Context) (sdk.Moments, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quadrature == nil {
		m, err := sdk.Quadrature(ctx, c)
		if err != nil {
			return sdk.Moments{}, err
		}
		c.quadrature = &m
	}
	return *c.quadrature, nil
}
