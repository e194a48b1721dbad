package gauss

import "math"

// AbsMoment returns E|Z|^m for Z ~ N(0,1) and m ≥ 0,
//
//	E|Z|^m = (m−1)!!            m even
//	E|Z|^m = (m−1)!!·√(2/π)     m odd
//
// It panics if m is negative.
func AbsMoment(m int) float64 {
	if m < 0 {
		panic("gauss: negative order")
	}
	v := 1.0
	if m%2 == 1 {
		v = math.Sqrt(2 / math.Pi)
	}
	for j := m - 1; j > 1; j -= 2 {
		v *= float64(j)
	}
	return v
}
