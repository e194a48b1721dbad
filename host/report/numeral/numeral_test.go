package numeral_test

import (
	"testing"

	"github.com/gatedlearning/moe/host/report/numeral"
)

// TestLikelihood: two decimals, and no more digits than a number has.
func TestLikelihood(t *testing.T) {
	for v, want := range map[float64]string{
		-1469.7949: "-1469.79", 0: "0.00", 999999999999999: "999999999999999.00",
		-1e15: "-1000000000000000", -1.2345e300: "-1.2345e+300", 1.7976931348623157e308: "1.7976931348623157e+308",
	} {
		if got := numeral.Likelihood(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
