package shown

import (
	"fmt"
	"math"
	"strings"
)

// Number writes a coefficient to so many digits, with a proper minus sign; what is only
// rounding, below 1e−11, is 0.
func Number(v float64, digits int) string {
	if math.Abs(v) < 1e-11 {
		v = 0
	}
	return strings.Replace(fmt.Sprintf("%.*g", digits, v), "-", "−", 1)
}
