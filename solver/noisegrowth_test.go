package solver

import (
	"errors"
	"testing"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// TestNoiseInfinite: V4 has E[g⁸·He4²], which for exp(z²/a) is finite only where 8/a < 1/2.
func TestNoiseInfinite(t *testing.T) {
	for text, finite := range map[string]bool{
		"z": true, "max(z,0)": true, "tanh(z)": true, "exp(z)": true, "exp(2*z)": true, "exp(z^2/20)": true, "cosh(z)": true, "z^3+z": true,
		"exp(z^2/10)": false, "exp(z^2/15)": false, "z*exp(z^2/12)": false, "exp(z^2/16)": false,
		"exp(z^2/15.9)*z/(1+z^4)": false, "exp(z^2/17)*z/(1+z^4)": true,
	} {
		act, err := expression.Parse("expr: "+text, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = NoiseOf(t.Context(), act, Transform{C4: 1, C2: 1, Sigma: 0.05})
		if errors.Is(err, gauss.ErrGrowth) == finite || finite && err != nil {
			t.Errorf("%s: %v, V4 finite: %t", text, err, finite)
		}
	}
}
