// Package sdk is what the author of an activation sees: the nonlinearity g of
// a mixture of experts
//
//	y = Σ_i z_i·g(⟨a_i, x⟩) + σ·N(0,1)
//
// its Gaussian moments, and the linear system behind the output transforms
// Q4 and Q2. A bare function is enough: see [Func]. Everything else has a
// default that the package computes by quadrature of g.
package sdk

import "context"

// Activation is a nonlinearity g: ℝ → ℝ with its derivative.
//
// Eval writes g(z_i) to dst_i and Deriv writes g′(z_i); dst and z have equal
// length and may be the same slice. Both are pure: a value depends on its own
// z_i alone, never on the call, the batch or the position in it. At a kink
// Deriv may return either one-sided derivative. Both are safe for concurrent
// use.
//
// A type may also implement [MomentsProvider] and [SystemProvider] where it
// knows them better than quadrature does.
type Activation interface {
	Info() Info
	Eval(ctx context.Context, dst, z []float64) error
	Deriv(ctx context.Context, dst, z []float64) error
}

// Info describes an activation.
type Info struct {
	Name    string    // lower case letters, digits and dashes, a letter first; of an expression expr: and its text
	Version string    // of the implementation; "" if it has none
	Params  Params    // the parameters in force; nil if there are none
	Kinks   []float64 // where g or g′ is not smooth, ascending
}

// MomentsProvider is implemented by activations that know their Gaussian
// moments in closed form. Those of a plugin are compared with its g before a fit
// relies on them; a host that is given the value itself takes them as they are:
// hold them against g in a test, by package activationtest.
type MomentsProvider interface {
	Moments(ctx context.Context) (Moments, error)
}

// SystemProvider is implemented by activations that bring the linear system
// for (α, β, γ, δ) themselves.
type SystemProvider interface {
	System(ctx context.Context, sigma float64) (System, error)
}
