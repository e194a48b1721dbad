package partition

import (
	"cmp"
	"slices"
)

// fewest are so few that they are sorted at once.
const fewest = 32

// Least returns where the m least of the values are, in their order; of equal ones the first come first.
func Least(values []float64, m int) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	compare := func(a, b int) int { return cmp.Or(cmp.Compare(values[a], values[b]), cmp.Compare(a, b)) }
	m = min(m, len(order))
	from, to := 0, len(order)
	// Hoare's selection: what is before from is among the m least, what is from to on is not.
	for to-from > fewest && from < m && m < to {
		part := order[from:to]
		three := []int{part[0], part[len(part)/2], part[len(part)-1]}
		slices.SortFunc(three, compare)
		pivot, i, j := three[1], 0, len(part)-1
		for i <= j {
			for compare(part[i], pivot) < 0 {
				i++
			}
			for compare(part[j], pivot) > 0 {
				j--
			}
			if i <= j {
				part[i], part[j] = part[j], part[i]
				i++
				j--
			}
		}
		switch { // part[:j+1] ≤ pivot ≤ part[i:]
		case m <= from+j+1:
			to = from + j + 1
		case m >= from+i:
			from += i
		default:
			to = m
		}
	}
	slices.SortFunc(order[:to], compare)
	return order[:m]
}
