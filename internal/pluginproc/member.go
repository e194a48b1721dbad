package pluginproc

import (
	"context"

	"github.com/gatedlearning/moe/internal/spotcheck"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// member is one activation of the session's family.
type member struct {
	*spotcheck.Asked
	s      *Session
	params sdk.Params
}

func newMember(s *Session, params sdk.Params) member {
	ask := func(ctx context.Context, method string, dst, z []float64) error {
		return s.call(ctx, method, func(c *wire.Client) error {
			of := wire.Member{Client: c, Params: params}
			if method == spotcheck.Deriv {
				return of.Deriv(ctx, dst, z)
			}
			return of.Eval(ctx, dst, z)
		})
	}
	fault := func(method, reason string, cause error) error {
		return &FaultError{Plugin: s.shown, Call: method, Reason: reason, Err: cause}
	}
	return member{spotcheck.NewAsked(s.family.Name, wire.Chunk, ask, fault), s, params}
}

// Moments asks the plugin for its moments.
func (m member) Moments(ctx context.Context) (out sdk.Moments, err error) {
	err = m.s.call(ctx, "Moments", func(c *wire.Client) (err error) {
		out, err = wire.Member{Client: c, Params: m.params}.Moments(ctx)
		return err
	})
	return out, err
}

// System asks the plugin for its linear system.
func (m member) System(ctx context.Context, sigma float64) (out sdk.System, err error) {
	err = m.s.call(ctx, "System", func(c *wire.Client) (err error) {
		out, err = wire.Member{Client: c, Params: m.params}.System(ctx, sigma)
		return err
	})
	return out, err
}
