package vacancy

import "slices"

// mostSweeps are made at most over a range of k, down and up: each mends a k, or is the last.
const mostSweeps = 4

// UpAndDown has every k fitted: upwards, each from the one below, then downwards and upwards again as long as a k has a
// neighbour that beats it, from which, and the one on its other side, it is fitted anew.
func UpAndDown(from, to int, fit func(k int, beside []int) error, beats func(k, beside int) (bool, error)) error {
	type side struct{ k, beside int }
	version, seen := map[int]int{}, map[side]int{}
	do := func(k int, beside ...int) error {
		beside = slices.DeleteFunc(beside, func(o int) bool { return version[o] == 0 })
		for _, o := range beside {
			seen[side{k, o}] = version[o]
		}
		version[k]++
		return fit(k, beside)
	}
	for k := from; k <= to; k++ {
		if err := do(k, k-1); err != nil {
			return err
		}
	}
	for range mostSweeps {
		mended := false
		look := func(k, beside int) error {
			if seen[side{k, beside}] == version[beside] {
				return nil
			}
			seen[side{k, beside}] = version[beside]
			better, err := beats(k, beside)
			if err != nil || !better {
				return err
			}
			mended = true
			return do(k, k-1, k+1)
		}
		for k := to - 1; k >= from; k-- {
			if err := look(k, k+1); err != nil {
				return err
			}
		}
		for k := from + 1; k <= to; k++ {
			if err := look(k, k-1); err != nil {
				return err
			}
		}
		if !mended {
			break
		}
	}
	return nil
}
