package recheck

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// known is a number by its digits.
func known(t *testing.T, digits string) *big.Float {
	t.Helper()
	v, _, err := big.ParseFloat(digits, 10, 240, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// within says whether two numbers agree to 2^−bits of the second.
func within(got, want *big.Float, bits int) bool {
	diff := new(big.Float).Sub(got, want)
	return diff.Sign() == 0 || diff.MantExp(nil) <= want.MantExp(nil)-bits
}

// TestSeries holds exp, log and π to the digits that tables have, to 124 bits.
func TestSeries(t *testing.T) {
	for _, c := range []struct {
		name, digits string
		got          *big.Float
	}{
		{"log 2", "0.693147180559945309417232121458176568075500134360255254120680", logOf(number(2))},
		{"log 10", "2.302585092994045684017991454684364207601101488628772976033328", logOf(number(10))},
		{"1/e", "0.367879441171442321595523770161460867445811131031767834507837", expOf(number(-1))},
		{"π", "3.14159265358979323846264338327950288419716939937510582097494", pi()},
	} {
		if want := known(t, c.digits); !within(c.got, want, 124) {
			t.Errorf("%s = %.60g, want %.60g", c.name, c.got, want)
		}
	}
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
