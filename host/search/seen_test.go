package search

import (
	"math"
	"math/rand/v2"
	"testing"
)

// unseenOff returns the sums, over repetitions, of what the estimate is off by, and of its squares, where starts of
// several kinds in turn end at optima with the chances of each.
func unseenOff(rng *rand.Rand, kinds [][]float64, starts, repetitions int) (sum, squares float64) {
	for range repetitions {
		met := make([]int, len(kinds[0]))
		for j := range starts {
			u, i, chances := rng.Float64(), 0, kinds[j%len(kinds)]
			for i < len(chances)-1 && u >= chances[i] {
				u -= chances[i]
				i++
			}
			met[i]++
		}
		s, unseen := Survey{Starts: starts, Met: 1}, 0.0
		for i, m := range met {
			if m == 1 {
				s.Singles++
			}
			if m == 0 {
				for _, chances := range kinds {
					unseen += chances[i] / float64(len(kinds))
				}
			}
		}
		diff := s.Unseen() - unseen
		sum += diff
		squares += diff * diff
	}
	return sum, squares
}

// TestUnseenIsCalibrated: where starts end at optima with known chances, the mean of
// the estimate is that of the chance that the next one is new, within three standard
// errors of 4,000 repetitions.
func TestUnseenIsCalibrated(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	chances := []float64{0.5, 0.2, 0.1, 0.1, 0.05, 0.05}
	const starts, repetitions = 20, 4000
	sum, squares := unseenOff(rng, [][]float64{chances}, starts, repetitions)
	mean := sum / repetitions
	// The estimate is for one start less, and therefore a little too large: by the chance that
	// an optimum is unseen by all but one, times its share.
	bias := 0.0
	for _, c := range chances {
		bias += c * (math.Pow(1-c, starts-1) - math.Pow(1-c, starts))
	}
	if se := math.Sqrt(squares / repetitions / repetitions); math.Abs(mean-bias) > 3*se {
		t.Errorf("the estimate is off by %v on average, want %v within %v", mean, bias, 3*se)
	}
}

// TestUnseenOfKinds: the same where starts are of two kinds in turn, which have other
// chances, and one optimum that only one of them meets. The bias is summed up over
// optima and starts.
func TestUnseenOfKinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	kinds := [][]float64{{0.9, 0.06, 0.04, 0, 0}, {0.2, 0.1, 0.3, 0.3, 0.1}}
	const starts, repetitions = 20, 4000
	sum, squares := unseenOff(rng, kinds, starts, repetitions)
	mean, bias := sum/repetitions, 0.0
	for i := range kinds[0] {
		missed := math.Pow((1-kinds[0][i])*(1-kinds[1][i]), starts/2)
		for j := range starts {
			c := kinds[j%2][i]
			bias += c * (missed/(1-c) - missed) / starts
		}
	}
	if deviation := math.Sqrt((squares/repetitions - mean*mean) / repetitions); math.Abs(mean-bias) > 3*deviation {
		t.Errorf("the estimate is off by %v ± %v, want %v", mean, deviation, bias)
	}
}

// TestSettled: up to four optima are few, and a quarter of the starts a large share.
func TestSettled(t *testing.T) {
	for _, c := range []struct {
		optima, met   int
		many, settled bool
	}{{4, 25, false, true}, {5, 25, true, false}, {4, 24, false, false}} {
		s := &Survey{Starts: 100, Optima: c.optima, Met: c.met}
		if s.many() != c.many || s.Settled(100) != c.settled || s.Settled(101) {
			t.Errorf("%+v: many %v, settled %v", c, s.many(), s.Settled(100))
		}
	}
	if (*Survey)(nil).many() {
		t.Error("no survey has seen many optima")
	}
}
