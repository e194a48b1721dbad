package digits

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

// TestSeries holds exp, log and π to the digits that tables have, to all but 4 bits of
// 64, 128 and 190: the tables have 60 digits, 199 bits.
func TestSeries(t *testing.T) {
	for _, prec := range []uint{64, 128, 190} {
		number := func(v float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(v) }
		for _, c := range []struct {
			name, digits string
			got          *big.Float
		}{
			{"log 2", "0.693147180559945309417232121458176568075500134360255254120680", Log(number(2))},
			{"log 10", "2.302585092994045684017991454684364207601101488628772976033328", Log(number(10))},
			{"1/e", "0.367879441171442321595523770161460867445811131031767834507837", Exp(number(-1))},
			{"e", "2.71828182845904523536028747135266249775724709369995957496697", Exp(number(1))},
			{"π", "3.14159265358979323846264338327950288419716939937510582097494", Pi(prec)},
		} {
			if want := known(t, c.digits); c.got.Prec() != prec || !within(c.got, want, int(prec)-4) {
				t.Errorf("%s = %.60g to %d bits, want %.60g to %d", c.name, c.got, c.got.Prec(), want, prec)
			}
		}
	}
}

// TestInverses: log exp x is x, of any size, to all bits but those of x before the point and 8.
func TestInverses(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		v := math.Exp(20*rng.Float64()-13) * float64(1-2*rng.IntN(2)) // to 1000
		x := new(big.Float).SetPrec(256).SetFloat64(v)
		lost := 8 + 2*max(0, -x.MantExp(nil)) // exp x is 1 + x: of a small x its first digits are zeros
		if back := Log(Exp(x)); !within(back, x, 256-lost) {
			t.Fatalf("log exp %g = %.60g", v, back)
		}
		if e, _ := Exp(x).Float64(); math.Abs(v) < 700 && math.Abs(e-math.Exp(v)) > 3e-16*e {
			t.Fatalf("exp %g = %g, want %g", v, e, math.Exp(v))
		}
	}
}
