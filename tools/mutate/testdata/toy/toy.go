// Package toy has a mutant of every fate.
package toy

func Six() int { const six = 2 * 3; return six }

func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func Count(n int) (c int) {
	for i := 0; i < n; i++ {
		c++
	}
	return c
}

func Join(a, b string) string { return a + b }

func Less(x, y float64) float64 { return -x*2 + 1/(y+1) }

func Unused(n int) int { return n % 2 }
