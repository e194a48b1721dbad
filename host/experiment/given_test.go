package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/sdk"
)

func givenOf(name string, g, dg func(float64) float64, kinks ...float64) Given {
	return Given{Activation: sdk.Func{Name: name, G: g, DG: dg, Kinks: kinks}, Name: name, ID: name}
}

// TestUnfit: an activation of which no estimate finds the regressors is refused,
// with the reason; one that is harder than a built-in gets more rows.
func TestUnfit(t *testing.T) {
	sign := func(z float64) float64 { return math.Copysign(1, z) }
	for _, c := range []struct {
		given Given
		want  string
	}{
		{givenOf("abs", math.Abs, sign, 0), "it is even"},
		{givenOf("sign", sign, func(float64) float64 { return 0 }, 0), "it is not valid"},
		{givenOf("flat", func(z float64) float64 { return math.Exp(-z * z / 2) }, func(z float64) float64 { return -z * math.Exp(-z*z/2) }), "it is even"},
		{givenOf("faint", func(z float64) float64 { return math.Max(z, 0) / 100 }, func(z float64) float64 { return (1 + sign(z)) / 200 }, 0), "too noisy"},
	} {
		_, err := For(t.Context(), c.given, true)
		unfit := (*UnfitError)(nil)
		if !errors.As(err, &unfit) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want one line with %q", c.given.Name, err, c.want)
		}
	}
	for g, want := range map[string][]int{"identity": {10000, 30000, 100000, 300000}, "sigmoid": {10000, 30000, 100000, 300000}, "relu": {100000, 300000, 1000000}} {
		act, err := paper(g, 2).activation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		figures, err := For(t.Context(), Given{Activation: act, Name: g, ID: g}, false)
		if err != nil {
			t.Fatal(err)
		}
		// Those that sampledBuiltins chooses by hand.
		if last := figures[0].units[0].key; len(figures) != 3 || !strings.Contains(last, fmt.Sprintf(" n %07d ", want[len(want)-1])) {
			t.Errorf("%s: %d figures, the largest data set %s, want %v", g, len(figures), last, want)
		}
	}
}

// TestGivenKeys: an activation's ID is a part of its runs' keys, and a built-in's
// keys are what they were before there were others: stored runs are found again.
func TestGivenKeys(t *testing.T) {
	const plain = "{g:relu slope:0 k:2 d:10 sigma:0.05 design:paper inputs:{Mixture:false P:0 Norm:0} oblique:false}"
	s := paper("relu", 2)
	if got := fmt.Sprintf("%+v", s); got != plain {
		t.Errorf("key %s, want %s", got, plain)
	}
	s.given = &Given{ID: "relu of mine"}
	if got := fmt.Sprintf("%+v", s); got != plain+" relu of mine" {
		t.Errorf("key %s", got)
	}
}

// TestGivenIsTheBuiltIn: the figures of an activation that is given are of it, and
// not of the built-in of the same name.
func TestGivenIsTheBuiltIn(t *testing.T) {
	s := paper("relu", 2)
	s.given = &Given{Activation: sdk.Func{Name: "relu", G: func(z float64) float64 { return 2 * z }, DG: func(float64) float64 { return 2 }}, ID: "twice"}
	st, err := s.open(context.Background(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := st.moments.Hermite(1, 0); math.Abs(got) > 1e-12 {
		t.Errorf("E[g(Z)] = %g, want 0 of 2z", got)
	}
}
