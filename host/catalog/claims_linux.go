package catalog

import (
	"context"
	"errors"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// comparedMember is a plugin's activation whose claims are compared with its g
// before anybody relies on them. What is not so is a [*LieError].
type comparedMember struct {
	sdk.Activation // as the plugin offers it
	claims         *claims.Claims
	plugin         string // in errors
}

// compared returns act with its claims compared.
func compared(act sdk.Activation, plugin string) sdk.Activation {
	var caps wire.Capabilities
	_, caps.Moments = act.(sdk.MomentsProvider)
	_, caps.System = act.(sdk.SystemProvider)
	return wire.Expose(act.Info(), caps, &comparedMember{act, claims.Of(act), plugin})
}

// Deriv writes g′(z_i) to dst_i where g′ is that of the plugin's g.
func (m *comparedMember) Deriv(ctx context.Context, dst, z []float64) error {
	if err := m.claims.Derivative(ctx); err != nil {
		return m.lie(err)
	}
	return m.Activation.Deriv(ctx, dst, z)
}

// Recheck asks for values that the plugin gave first.
func (m *comparedMember) Recheck(ctx context.Context) error {
	return claims.Recheck(ctx, m.Activation)
}

// Moments returns the plugin's own moments where they are those of its g.
func (m *comparedMember) Moments(ctx context.Context) (sdk.Moments, error) {
	own, err := m.claims.Moments(ctx)
	return own, m.lie(err)
}

// System returns the plugin's own system where it is that of its g.
func (m *comparedMember) System(ctx context.Context, sigma float64) (sdk.System, error) {
	own, err := m.claims.System(ctx, sigma)
	return own, m.lie(err)
}

// lie names the plugin in the error of a claim.
func (m *comparedMember) lie(err error) error {
	if claim := (*claims.Error)(nil); errors.As(err, &claim) {
		return &LieError{m.plugin, claim.Call, claim.Reason}
	}
	return err
}
