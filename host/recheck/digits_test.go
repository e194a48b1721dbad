package recheck

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// within says whether two numbers agree to 2^−bits of the second.
func within(got, want *big.Float, bits int) bool {
	diff := new(big.Float).Sub(got, want)
	return diff.Sign() == 0 || diff.MantExp(nil) <= want.MantExp(nil)-bits
}

// TestSeriesEverywhere: log and exp are those of math to its rounding, and each other's
// inverses to 116 bits: a log of 120 has 7 of the 128 before the point.
func TestSeriesEverywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		x := math.Exp(1400 * (rng.Float64() - 0.5))
		l := logOf(number(x))
		if got, _ := l.Float64(); math.Abs(got-math.Log(x)) > 2e-16*max(1e-3, math.Abs(got)) {
			t.Fatalf("log %g = %g, want %g", x, got, math.Log(x))
		}
		v := -120 * rng.Float64()
		e := expOf(number(v))
		if got, _ := e.Float64(); math.Abs(got-math.Exp(v)) > 3e-16*got {
			t.Fatalf("exp %g = %g, want %g", v, got, math.Exp(v))
		}
		if back := logOf(e); !within(back, number(v), 116) {
			t.Fatalf("log exp %g = %.40g", v, back)
		}
	}
	if one := logOf(number(1)); expOf(zero()).Cmp(number(1)) != 0 || one.Sign() != 0 && one.MantExp(nil) > -120 {
		t.Errorf("exp 0 is not 1, or log 1 is %g", one)
	}
	if expOf(new(big.Float).SetMantExp(number(-1), 1<<20)).Sign() != 0 {
		t.Error("exp of a huge negative number is not 0")
	}
}
