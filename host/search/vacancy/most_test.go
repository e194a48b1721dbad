package vacancy

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/search"
)

// TestMostJoiners: who asks for more starts gets more joiners, and by default, or below, there are as many as there
// have been.
func TestMostJoiners(t *testing.T) {
	for starts, want := range map[int]int{1: mostJoiners, search.DefaultStarts: mostJoiners, 10 * search.DefaultStarts: 10 * mostJoiners,
		math.MaxInt32: mostTimes * mostJoiners} {
		if got := mostOf(starts); got != want {
			t.Errorf("%d starts: %d joiners, want %d", starts, got, want)
		}
	}
}
