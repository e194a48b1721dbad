package climb

import "testing"

// TestHardenable: up to which rows times parameters gates are hardened by EM, and for how many steps: exactly those sizes and no more.
func TestHardenable(t *testing.T) {
	const work = 1e9
	for size, want := range map[int]bool{mostHardened: true, mostHardened + 1: false} {
		if got := Hardenable(size); got != want {
			t.Errorf("%d rows times parameters: hardened %v", size, got)
		}
	}
	if mostHardened != work/leastHardening {
		t.Errorf("%d rows times parameters are not %d steps for the work", mostHardened, leastHardening)
	}
	for size, want := range map[int]int{10: MostSteps, work / MostSteps: MostSteps, work / 1000: 1000, 1e6 + 1: 999, mostHardened: 400, 10 * mostHardened: 400} {
		if got := StepsFor(work, size); got != want {
			t.Errorf("%d steps on %d, want %d", got, size, want)
		}
	}
}
