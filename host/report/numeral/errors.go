package numeral

import (
	"math"
	"strconv"
	"strings"
)

// Estimate is a number with its standard error, as in "0.0324 ± 0.0112".
func Estimate(v, se float64) string {
	value, plusMinus := ByError(v, se)
	return strings.TrimSpace(value + " " + plusMinus)
}

// ByError shows a number to the second digit of its standard error, or to the unit where that is larger, as in
// 16917 ± 319 and -0.00030 ± 0.00011. A standard error of 0 is that of a parameter that was held, and
// not shown; one that is NaN, of a parameter without a finite optimum, is a dash.
func ByError(v, se float64) (value, plusMinus string) {
	const mostDecimals, mostDigits, large = 8, 12, 1e6
	switch {
	case se == 0:
		return Fixed(v), ""
	case math.IsNaN(se) || math.IsInf(se, 0):
		return fourDigits(v), "–"
	}
	size := exponent(se, 1)
	if decimals := max(0, 1-size); decimals <= mostDecimals && math.Abs(v) < large && se < large {
		value = strconv.FormatFloat(v, 'f', decimals, 64)
		if strings.Trim(value, "-0.") == "" {
			value = strings.TrimPrefix(value, "-")
		}
		return value, "± " + strconv.FormatFloat(se, 'f', decimals, 64)
	}
	digits := min(max(1, exponent(v, mostDigits)-size+1), mostDigits)
	return strconv.FormatFloat(v, 'e', digits, 64), "± " + strconv.FormatFloat(se, 'e', 1, 64)
}

// fourDigits shows a number whose digits mean little, as a coefficient's on its way to infinity: four of them, or all
// before the point.
func fourDigits(v float64) string {
	size := exponent(v, 3)
	if size < 0 || size >= 6 {
		return Fixed(v)
	}
	return strconv.FormatFloat(v, 'f', max(0, 3-size), 64)
}

// exponent is the decimal exponent of a number that has been rounded to so many digits after the first.
func exponent(v float64, digits int) int {
	_, e, _ := strings.Cut(strconv.FormatFloat(v, 'e', digits, 64), "e")
	n, _ := strconv.Atoi(e)
	return n
}

// PlusMinus shows a standard error; nothing for a parameter that was held at 0, a dash
// for one without a finite optimum.
func PlusMinus(se float64) string {
	switch {
	case se == 0:
		return ""
	case math.IsNaN(se):
		return "–"
	}
	return "± " + TwoDigits(se)
}

// TwoDigits shows a standard error with two digits, and with all digits before
// the point where those are more.
func TwoDigits(v float64) string {
	if v >= 99.5 && v < 1e6 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
