// Package numeral writes numbers for people: with the digits that their errors leave, as shares, in sentences.
package numeral

import (
	"fmt"
	"math"
	"strconv"
)

// Percent is a share with one decimal, a dash for one that there is not.
func Percent(share float64) string {
	if math.IsNaN(share) {
		return "–"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
}

// Likelihood is a log-likelihood, or a criterion made of one, with two decimals, or with the 17
// digits that a float64 has where these would be more.
func Likelihood(v float64) string {
	if math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', 17, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Plural is "1 row" or "2 rows".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Hundredths is a number with two decimals.
func Hundredths(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// Significant is a number with four significant digits.
func Significant(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// Fixed shows a coefficient with four places, or in scientific notation where
// that would not fit a column.
func Fixed(v float64) string {
	if v >= 1e6 || v <= -1e6 {
		return strconv.FormatFloat(v, 'e', 3, 64)
	}
	s := strconv.FormatFloat(v, 'f', 4, 64)
	if s == "-0.0000" {
		return "0.0000"
	}
	return s
}
