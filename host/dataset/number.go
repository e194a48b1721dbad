package dataset

import (
	"math"
	"math/bits"
	"strconv"
	"unsafe"
)

// number reads the decimal number at the start of b, correctly rounded, and
// returns it with the number of bytes it takes, 0 where there is none. The
// grammar is
//
//	[+-] (digits [. digits] | . digits) [(e|E) [+-] digits]
//
// so that what strconv.ParseFloat accepts beyond it (hexadecimal, underscores,
// Inf and NaN) is no number. A value too large for a float64 is ±Inf.
func number(b []byte) (float64, int) { return numberWith(b, '.') }

// numberWith is [number] for decimals that are written with the given point.
func numberWith(b []byte, point byte) (float64, int) {
	i, negative := 0, false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		i = 1
	}
	first := i
	var m uint64
	for i < len(b) && b[i]-'0' <= 9 {
		m = m*10 + uint64(b[i]-'0')
		i++
	}
	digits, places := i-first, 0
	if i < len(b) && b[i] == point {
		i++
		start := i
		for i < len(b) && b[i]-'0' <= 9 {
			m = m*10 + uint64(b[i]-'0')
			i++
		}
		places = i - start
		digits += places
	}
	if digits == 0 {
		return 0, 0
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		n := exponent(b[i:])
		if n == 0 {
			return 0, 0
		}
		i += n
		return parseFloat(b[:i], point), i
	}
	// A mantissa of 19 digits fits in 64 bits, as does 10^19.
	if digits > 19 {
		return parseFloat(b[:i], point), i
	}
	v := quotient(m, places)
	if negative {
		v = -v
	}
	return v, i
}

// exponent returns the length of an exponent at the start of b, 0 where it has
// no digits.
func exponent(b []byte) int {
	i := 1
	if i < len(b) && (b[i] == '-' || b[i] == '+') {
		i++
	}
	first := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == first {
		return 0
	}
	return i
}

// quotient returns m/10^places rounded to nearest, ties to even, for
// places ≤ 19. Numerator and denominator are scaled to 64 bits; their quotient
// then has 63 or 64 bits, more than the 53 and the rounding bit, and a
// remainder that is not 0 only breaks ties: it is kept in the lowest bit.
func quotient(m uint64, places int) float64 {
	if places == 0 || m == 0 {
		return float64(m)
	}
	p := pow10[places]
	mShift, pShift := bits.LeadingZeros64(m), bits.LeadingZeros64(p)
	m <<= mShift
	q, r := bits.Div64(m>>1, m<<63, p<<pShift) // m·2^63 / p
	if r != 0 {
		q |= 1
	}
	scale := pShift - mShift - 63 // at least −126: the result is a normal number
	return float64(q) * math.Float64frombits(uint64(1023+scale)<<52)
}

var pow10 = [20]uint64{
	1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9,
	1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19,
}

// parseFloat is strconv's, which returns ±Inf where a value is too large.
func parseFloat(b []byte, point byte) float64 {
	if point == ',' {
		b = decimalCommas(b)
	}
	v, _ := strconv.ParseFloat(unsafe.String(unsafe.SliceData(b), len(b)), 64)
	return v
}
