package catalog

import (
	"context"
	"errors"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/spotcheck"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// comparedMember is a plugin's activation whose claims are compared with its g
// before anybody relies on them; g′ also at some of the points at which it is
// asked for. What is not so is a [*LieError].
type comparedMember struct {
	sdk.Activation // as the plugin offers it
	claims         *claims.Claims
	plugin         string            // in errors
	derivatives    *spotcheck.Sample // of what Deriv has given
}

// Of g′'s first 64 batches comparedFirst values each are compared with differences of
// g, of every later one comparedLater, at four evaluations a value.
const (
	comparedFirst = 16
	comparedLater = 1
)

// compared returns act with its claims compared.
func compared(act sdk.Activation, plugin string) sdk.Activation {
	var caps wire.Capabilities
	_, caps.Moments = act.(sdk.MomentsProvider)
	_, caps.System = act.(sdk.SystemProvider)
	sample := &spotcheck.Sample{First: comparedFirst, Later: comparedLater}
	return wire.Expose(act.Info(), caps, &comparedMember{act, claims.Of(act), plugin, sample})
}

// Deriv writes g′(z_i) to dst_i where g′ is that of the plugin's g.
func (m *comparedMember) Deriv(ctx context.Context, dst, z []float64) error {
	if err := m.claims.Derivative(ctx); err != nil {
		return m.lie(err)
	}
	at, batch := m.derivatives.Draw(len(z))
	rows := make([]spotcheck.Row, len(at))
	for j, i := range at {
		rows[j] = spotcheck.Row{At: i, Z: z[i]} // dst may be z
	}
	if err := m.Activation.Deriv(ctx, dst, z); err != nil {
		return err
	}
	for j, i := range at {
		rows[j].Value = dst[i]
	}
	return m.differences(ctx, m.derivatives.Keep(batch, rows))
}

// differences compares what Deriv has given with differences of g.
func (m *comparedMember) differences(ctx context.Context, rows []spotcheck.Row) error {
	if len(rows) == 0 {
		return nil
	}
	z, deriv := make([]float64, len(rows)), make([]float64, len(rows))
	for i, r := range rows {
		z[i], deriv[i] = r.Z, r.Value
	}
	err := m.claims.Rows(ctx, z, deriv)
	if err == nil {
		return nil
	}
	// A value that is another when it is asked again is the fault behind it.
	if again := claims.Recheck(ctx, m.Activation); again != nil {
		return again
	}
	return m.lie(err)
}

// Recheck asks for values that the plugin gave before, and compares those of g′ that
// have not been compared.
func (m *comparedMember) Recheck(ctx context.Context) error {
	if err := m.differences(ctx, m.derivatives.Rest()); err != nil {
		return err
	}
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
