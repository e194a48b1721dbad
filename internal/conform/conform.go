// Package conform checks that an activation keeps the promises of
// sdk.Activation and sdk.Family: what every other package takes for granted. It
// is the core of sdk/activationtest and of moe plugin verify.
package conform

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/internal/setting"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// Finding is the outcome of one check.
type Finding struct {
	Check  string // a short name, such as "derivative"
	Means  string // what is checked, in a sentence
	Absent bool   // the activation does not have what would be checked
	Err    error  // what is wrong and where; nil if the check passed
	// Warning is what the author should know though nothing is wrong; nil if there
	// is nothing.
	Warning error
}

// errAbsent is what a check returns where there is nothing to check.
var errAbsent = errors.New("it brings none")

// warning is what a check returns that found nothing wrong and something to know.
type warning struct{ setting.Text }

func (w warning) Error() string { return w.String() }

func newFinding(check, means string, err error) Finding {
	if w, ok := err.(warning); ok {
		return Finding{Check: check, Means: means, Warning: w}
	}
	if err == errAbsent {
		return Finding{Check: check, Means: means, Absent: true}
	}
	return Finding{Check: check, Means: means, Err: err}
}

// OK reports whether nothing wrong was found.
func (f Finding) OK() bool { return f.Err == nil }

type check struct {
	name, means string
	run         func(context.Context, sdk.Activation) error
}

// checksOf returns the checks of an activation with the claims c. They are run in
// this order; later ones assume what earlier ones check.
func checksOf(c *claims.Claims) []check {
	of := func(run func(context.Context, sdk.Activation, *claims.Claims) error) func(context.Context,
		sdk.Activation) error {
		return func(ctx context.Context, act sdk.Activation) error { return run(ctx, act, c) }
	}
	return []check{
		{"info", "the description is well-formed and does not change", checkInfo},
		{"values", "g and g′ are finite and the same each time", checkValues},
		{"lengths", "an empty batch is no error, and unequal lengths are one", checkLengths},
		{"batches", "a value does not depend on its place or on the batch", checkBatches},
		{"in-place", "dst may be z, and z is left alone where it is not", checkInPlace},
		{"non-finite", "NaN and ±Inf harm no other value", checkNonFinite},
		{"concurrency", "calls at the same time give the same values", checkConcurrency},
		{"far", "g and g′ are finite far out, up to |z| = 1e6", checkFar},
		{"derivative", "g′ agrees with differences of g", of(checkDerivative)},
		{"kinks", "g and g′ are smooth but at the declared kinks, and g′ there is one-sided", checkKinks},
		{"moments", "moments of its own agree with quadrature of g", of(checkMoments)},
		{"system", "a system of its own agrees with quadrature of g", of(checkSystem)},
	}
}

// Activation runs every check on act. It stops early when ctx ends: the checks
// that are missing then have the context's error.
func Activation(ctx context.Context, act sdk.Activation) []Finding {
	checks := checksOf(claims.Of(act))
	findings := make([]Finding, len(checks))
	for i, c := range checks {
		findings[i] = newFinding(c.name, c.means, guard(ctx, func() error { return c.run(ctx, act) }))
	}
	return findings
}

// guard turns a panic into an error.
func guard(ctx context.Context, run func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	return run()
}

// Failed returns the findings that are not OK.
func Failed(findings []Finding) []Finding {
	var failed []Finding
	for _, f := range findings {
		if !f.OK() {
			failed = append(failed, f)
		}
	}
	return failed
}

// OverWire checks that act is the same activation when it is served through
// gRPC: description, optional interfaces, and the bits of all that it computes.
func OverWire(ctx context.Context, act sdk.Activation) Finding {
	err := guard(ctx, func() error {
		client, stop, err := wire.Loopback(sdk.Single(act))
		if err != nil {
			return err
		}
		defer stop()
		served, err := client.Activation(ctx, nil)
		if err != nil {
			return err
		}
		return same(ctx, act, served)
	})
	return newFinding("wire", "it is the same through gRPC", err)
}
