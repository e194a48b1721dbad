package learn_test

import (
	"flag"
	"math"
	"testing"
)

var samples = flag.Uint64("samples", 0, "samples of each case of TestSize")

// TestSize counts how often what is true is rejected at .05, and how often a band has the true g at a point:
//
//	go test ./host/learn -run TestSize -samples 60 -v -timeout 0
//
// Of 60 samples of a test of size .05 more than 8 reject with probability .004, and of 60 bands of 95 % fewer than 51
// hold with that.
func TestSize(t *testing.T) {
	if *samples == 0 {
		t.Skip("a study: -samples")
	}
	for _, c := range []struct{ text, name string }{
		{"expr: sigmoid(z)", "sigmoid"}, {"expr: softplus(z)", "expr: softplus(z)"}, {"expr: max(z, 0)", "relu"}, {"expr: z", "identity"},
	} {
		for k := 1; k <= 3; k++ {
			rejected, judged, held, bands := 0, 0, 0, 0
			for seed := uint64(1); seed <= *samples; seed++ {
				l := try(t, c.text, k, 2000, .1, seed)
				for _, n := range l.Named {
					if n.Name == c.name && n.P != nil {
						judged++
						if *n.P < .05 {
							rejected++
						}
					}
				}
				if l.StandardErrors == nil {
					continue
				}
				p := l.Curve[30]
				z := []float64{p.Z}
				if err := l.act.Eval(t.Context(), z, z); err != nil {
					t.Fatal(err)
				}
				bands++
				if math.Abs(z[0]-p.G) <= 1.96**p.SE {
					held++
				}
			}
			t.Logf("%s, k = %d: rejected in %d of %d; the band in the middle holds in %d of %d", c.name, k, rejected, judged, held, bands)
		}
	}
}
