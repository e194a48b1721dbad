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
	sdk.Activation        // as the plugin offers it
	plugin         string // in errors

	mu         sync.Mutex
	quadrature *sdk.Moments // nil until it is needed
	derivative bool         // g′ has been compared
}

// compared returns act with its claims compared.
func compared(act sdk.Activation, plugin string) sdk.Activation {
	var caps wire.Capabilities
	_, caps.Moments = act.(sdk.MomentsProvider)
	_, caps.System = act.(sdk.SystemProvider)
	return wire.Expose(act.Info(), caps, &claims{Activation: act, plugin: plugin})
}

// Deriv writes g′(z_i) to dst_i where g′ is that of the plugin's g.
func (c *claims) Deriv(ctx context.Context, dst, z []float64) error {
	if err := c.compareDerivative(ctx); err != nil {
		return err
	}
	return c.Activation.Deriv(ctx, dst, z)
}

func (c *claims) compareDerivative(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derivative {
		return nil
	}
	err := conform.Derivative(ctx, c.Activation)
	if fault := (*FaultError)(nil); errors.As(err, &fault) || ctx.Err() != nil {
		return err
	}
	if err != nil {
		return &LieError{c.plugin, "Deriv", err.Error()}
	}
	c.derivative = true
	return nil
}

// Moments returns the plugin's own moments where they are those of its g.
func (c *claims) Moments(ctx context.Context) (sdk.Moments, error) {
	own, err := c.Activation.(sdk.MomentsProvider).Moments(ctx)
	if err != nil {
		return sdk.Moments{}, err
	}
	m, err := c.measure(ctx)
	if err != nil {
		return sdk.Moments{}, err
	}
	if reason, check := solver.CompareMoments(own, m); !check.Holds {
		return sdk.Moments{}, &LieError{c.plugin, "Moments", reason}
	}
	return own, nil
}

// System returns the plugin's own system where it is that of its g.
func (c *claims) System(ctx context.Context, sigma float64) (sdk.System, error) {
	own, err := c.Activation.(sdk.SystemProvider).System(ctx, sigma)
	if err != nil {
		return sdk.System{}, err
	}
	m, err := c.measure(ctx)
	if err != nil {
		return sdk.System{}, err
	}
	if reason, check := solver.CompareSystem(own, m); !check.Holds {
		return sdk.System{}, &LieError{c.plugin, "System", reason}
	}
	return own, nil
}

// measure returns the quadrature of the plugin's g.
func (c *claims) measure(ctx context.Context) (sdk.Moments, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.quadrature == nil {
		m, err := sdk.Quadrature(ctx, c.Activation)
		if err != nil {
			return sdk.Moments{}, err
		}
		c.quadrature = &m
	}
	return *c.quadrature, nil
}
