package vacancy

import (
	"fmt"
	"slices"
	"testing"
)

// TestUpAndDown: the way over a range of k, by what begins where. Scores are what a fit comes to alone, and what it comes to from a
// neighbour of a given score.
func TestUpAndDown(t *testing.T) {
	for name, c := range map[string]struct {
		from, to int
		alone    map[int]int
		led      func(k, beside, score int) int // the score to which a neighbour of this score leads k
		want     []string                       // fits in turn
		ends     map[int]int
	}{
		"one k":         {3, 3, map[int]int{3: 7}, nil, []string{"3[]"}, map[int]int{3: 7}},
		"no help":       {1, 3, map[int]int{1: 1, 2: 2, 3: 3}, nil, []string{"1[]", "2[1]", "3[2]"}, map[int]int{1: 1, 2: 2, 3: 3}},
		"from below":    {1, 3, map[int]int{1: 5, 2: 2, 3: 3}, func(k, beside, score int) int { return score * min(1, max(0, k-beside)) }, []string{"1[]", "2[1]", "3[2]"}, map[int]int{1: 5, 2: 5, 3: 5}},
		"from above":    {1, 3, map[int]int{1: 1, 2: 2, 3: 9}, func(k, beside, score int) int { return (score - 3) * min(1, max(0, beside-k)) }, []string{"1[]", "2[1]", "3[2]", "2[1 3]", "1[2]"}, map[int]int{1: 3, 2: 6, 3: 9}},
		"down and up":   {1, 4, map[int]int{1: 1, 2: 2, 3: 9, 4: 4}, func(k, beside, score int) int { return map[[2]int]int{{2, 3}: 8, {3, 2}: score + 2}[[2]int{k, beside}] }, []string{"1[]", "2[1]", "3[2]", "4[3]", "2[1 3]", "3[2 4]"}, map[int]int{1: 1, 2: 8, 3: 10, 4: 4}},
		"never at rest": {1, 2, map[int]int{1: 1, 2: 2}, func(_, _, score int) int { return score + 1 }, []string{"1[]", "2[1]", "1[2]", "2[1]", "1[2]", "2[1]", "1[2]", "2[1]", "1[2]", "2[1]"}, map[int]int{1: 9, 2: 10}},
	} {
		score, fits := map[int]int{}, []string(nil)
		led := func(k, beside int) int {
			if c.led == nil {
				return 0
			}
			return c.led(k, beside, score[beside])
		}
		err := UpAndDown(c.from, c.to, func(k int, beside []int) error {
			fits = append(fits, fmt.Sprint(k, beside))
			best := max(score[k], c.alone[k])
			for _, o := range beside {
				best = max(best, led(k, o))
			}
			score[k] = best
			return nil
		}, func(k, beside int) (bool, error) { return led(k, beside) > score[k], nil })
		if err != nil || fmt.Sprint(score) != fmt.Sprint(c.ends) {
			t.Errorf("%s: ends %v, want %v, error %v", name, score, c.ends, err)
		}
		if want := spaced(c.want); !slices.Equal(fits, want) {
			t.Errorf("%s: fits %q, want %q", name, fits, want)
		}
	}
}

// spaced puts a blank before each bracket, as fmt does.
func spaced(all []string) (out []string) {
	for _, s := range all {
		out = append(out, s[:1]+" "+s[1:])
	}
	return out
}
