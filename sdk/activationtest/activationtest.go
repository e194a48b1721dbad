// Package activationtest is the conformance kit: one call in a plugin's test
// checks every promise that [sdk.Activation] and [sdk.Family] make, on the
// activation itself and again through real gRPC, as a host will see it.
//
//	func TestConformance(t *testing.T) {
//		activationtest.Run(t, smoothrelu)
//	}
//
// It does not tell whether the guarantees hold for the activation: that is the
// verdict of moe validate-activation.
package activationtest

import (
	"fmt"
	"testing"

	"github.com/gatedlearning/moe/internal/conform"
	"github.com/gatedlearning/moe/internal/wire"
	"github.com/gatedlearning/moe/sdk"
)

// Run checks act. Each check is a subtest, once as "direct" and once as "grpc";
// "wire" checks that both give the same bits. What is checked: the description;
// finite values that do not depend on the call, the batch, the order, the
// place, other values or calls at the same time; dst and z being one slice;
// unequal lengths; NaN and ±Inf; g′ against differences of g; jumps of g and g′
// that are not declared as kinks; moments and systems against quadrature of g.
func Run(t *testing.T, act sdk.Activation) {
	t.Helper()
	run(t, "direct", conform.Activation(t.Context(), act))
	client, stop, err := wire.Loopback(sdk.Single(act))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	served, err := client.Activation(t.Context(), nil)
	if err != nil {
		t.Fatalf("through gRPC: %v", err)
	}
	run(t, "grpc", conform.Activation(t.Context(), served))
	run(t, "", []conform.Finding{conform.OverWire(t.Context(), act)})
}

// RunFamily checks f, directly and through gRPC: its description, defaults,
// ranges and refusals, and that its members do not disturb each other. It then
// runs [Run] on the default member and on those at the ends of each parameter's
// range, or one either side of the default where there is no range.
func RunFamily(t *testing.T, f sdk.Family) {
	t.Helper()
	run(t, "direct", conform.Family(t.Context(), f, f.Activation))
	client, stop, err := wire.Loopback(f)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	served, err := client.Describe(t.Context())
	if err != nil {
		t.Fatalf("through gRPC: %v", err)
	}
	run(t, "grpc", conform.Family(t.Context(), served, served.New))
	for _, params := range conform.Members(f) {
		t.Run(fmt.Sprintf("member/%v", map[string]float64(params)), func(t *testing.T) {
			act, err := f.Activation(params)
			if err != nil {
				t.Fatal(err)
			}
			Run(t, act)
		})
	}
}

// run reports findings as subtests.
func run(t *testing.T, where string, findings []conform.Finding) {
	t.Helper()
	for _, f := range findings {
		t.Run(where+"/"+f.Check, func(t *testing.T) {
			if f.Absent {
				t.Skip("the activation brings none")
			}
			if !f.OK() {
				t.Errorf("%s: %v", f.Means, f.Err)
			}
		})
	}
}
