package wire

import (
	"context"

	"github.com/gatedlearning/moe/sdk"
)

// Capabilities are the optional interfaces that an activation implements.
type Capabilities struct {
	Moments bool // sdk.MomentsProvider
	System  bool // sdk.SystemProvider
}

// Backend has every method that an activation on the other side may have.
type Backend interface {
	Eval(ctx context.Context, dst, z []float64) error
	Deriv(ctx context.Context, dst, z []float64) error
	Moments(ctx context.Context) (sdk.Moments, error)
	System(ctx context.Context, sigma float64) (sdk.System, error)
}

// Expose returns b as an activation that implements the optional interfaces in
// caps and no others.
func Expose(info sdk.Info, caps Capabilities, b Backend) sdk.Activation {
	a := activation{info, b}
	m, s := moments{b}, system{b}
	switch caps {
	case Capabilities{Moments: true, System: true}:
		return struct {
			activation
			moments
			system
		}{a, m, s}
	case Capabilities{Moments: true}:
		return struct {
			activation
			moments
		}{a, m}
	case Capabilities{System: true}:
		return struct {
			activation
			system
		}{a, s}
	}
	return a
}

type activation struct {
	info sdk.Info
	b    Backend
}

func (a activation) Info() sdk.Info { return a.info }

// Recheck asks b whether its values are still those that it gave first, where b
// can tell; see claims.Recheck.
func (a activation) Recheck(ctx context.Context) error {
	if r, ok := a.b.(interface{ Recheck(context.Context) error }); ok {
		return r.Recheck(ctx)
	}
	return nil
}

func (a activation) Eval(ctx context.Context, dst, z []float64) error { return a.b.Eval(ctx, dst, z) }

func (a activation) Deriv(ctx context.Context, dst, z []float64) error { return a.b.Deriv(ctx, dst, z) }

type moments struct{ b Backend }

func (m moments) Moments(ctx context.Context) (sdk.Moments, error) { return m.b.Moments(ctx) }

type system struct{ b Backend }

func (s system) System(ctx context.Context, sigma float64) (sdk.System, error) {
	return s.b.System(ctx, sigma)
}
