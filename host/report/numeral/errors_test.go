package numeral

import (
	"math"
	"testing"
)

// TestByError: a number has the digits that its standard error leaves it.
func TestByError(t *testing.T) {
	for _, c := range []struct {
		v, se float64
		want  string
	}{
		{16917.3, 318.7, "16917 ± 319"},
		{-0.0003, 0.000112, "-0.00030 ± 0.00011"},
		{1.00164, 0.00149, "1.0016 ± 0.0015"},
		{-0.00004, 0.012, "0.000 ± 0.012"},
		{0.5, 0.0996, "0.50 ± 0.10"},
		{2, 99.6, "2 ± 100"},
		{12, 9.96, "12 ± 10"},
		{2.5e9, 1.3e7, "2.500e+09 ± 1.3e+07"},
		{3.17e-10, 1.1e-11, "3.17e-10 ± 1.1e-11"},
		{0.25, 0, "0.2500"},
		{8426.123, math.NaN(), "8426 –"},
		{-41895.978, math.NaN(), "-41896 –"},
		{8.42612, math.NaN(), "8.426 –"},
		{-0.00004, math.NaN(), "0.0000 –"},
	} {
		if got := Estimate(c.v, c.se); got != c.want {
			t.Errorf("%v with a standard error of %v: %s, want %s", c.v, c.se, got, c.want)
		}
	}
}
