package separation

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// TestHighest against sorting and adding up, places and gains on a grid so that there are ties.
func TestHighest(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 2000 {
		c := make([]crossing, rng.IntN(12))
		for i := range c {
			c[i] = crossing{float64(1 + rng.IntN(9)), float64(rng.IntN(9) - 4)}
		}
		sorted := slices.Clone(c)
		slices.SortFunc(sorted, func(a, b crossing) int { return int(a.at - b.at) })
		lo, hi, gain, sum := 0.0, 0.0, 0.0, 0.0
		if len(sorted) > 0 {
			hi = sorted[0].at
		}
		for i := 0; i+1 < len(sorted); i++ {
			sum += sorted[i].gain
			if sum > gain && sorted[i+1].at > sorted[i].at {
				lo, hi, gain = sorted[i].at, sorted[i+1].at, sum
			}
		}
		if a, b, g := highest(c); a != lo || b != hi || g != gain {
			t.Fatalf("%v: (%v, %v) gains %v, want (%v, %v) and %v", sorted, a, b, g, lo, hi, gain)
		}
	}
}

// TestAlong: no place along a random line has a larger likelihood, at a gate that is hard, than
// the interval, in which it is larger by the gain. Two of the four experts share their
// cell by a soft gate, and rows have weights.
func TestAlong(t *testing.T) {
	const steep, rounding = 1e7, 2e-3 // logits are up to 1e12, and sums of them are off by 1e-3
	rng := rand.New(rand.NewPCG(6, 6))
	p := searchtest.Quadrants(t, 120, 1)
	data, err := model.InMemory(t.Context(), p.Rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data.Blocks {
		data.Blocks[i].Role[model.Weights] = searchtest.Normal(rng, data.Blocks[i].N)
		for r, w := range data.Blocks[i].Role[model.Weights] {
			data.Blocks[i].Role[model.Weights][r] = math.Abs(w)
		}
	}
	weighted := *p
	weighted.Rows = data
	groups := []int{0, 2, 2, 3}
	for range 20 {
		q := p.Shape.Blank(0.5)
		copy(q.Regressors, searchtest.Normal(rng, len(q.Regressors)))
		copy(q.RegressorIntercepts, searchtest.Normal(rng, q.K))
		copy(q.Gating, searchtest.Normal(rng, len(q.Gating)))
		floats.Scale(50, q.Gating)
		floats.AddTo(q.Gate(1), q.Gate(2), searchtest.Normal(rng, q.D))
		v, g := searchtest.Normal(rng, 4), rng.IntN(3)
		cells := func() *hardGate {
			s, err := newHardGate(t.Context(), &weighted, q, groups)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		at := func(x float64) float64 {
			s := cells()
			s.along(g, v) // for the slopes
			s.move(g, v, x)
			hard := steepen(s.params(), UnderOne(groups), steep)
			l, err := loss.Log(data, p.G, hard, 1).LogLikelihood(t.Context(), hard)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		s, here := cells(), at(0)
		lo, hi, gain := s.along(g, v)
		if got := at((lo+hi)/2) - here; math.Abs(got-gain) > rounding {
			t.Errorf("group %d: the middle of (%v, %v) gains %v, want %v", g, lo, hi, got, gain)
		}
		first, last := 0.0, 0.0 // rows that change their cell
		for r, slope := range s.slope {
			next := math.Inf(-1)
			for h, logit := range s.logit {
				if h != g {
					next = max(next, logit[r])
				}
			}
			x := (next - s.logit[g][r]) / slope
			first, last = min(first, x), max(last, x)
		}
		for range 100 {
			x := 50 * rng.NormFloat64()
			if x < first || x > last {
				continue // where all rows that can have gone over
			}
			if got := at(x) - here; got > gain+rounding {
				t.Fatalf("group %d: %v gains %v, and (%v, %v) %v", g, x, got, lo, hi, gain)
			}
		}
	}
}

// TestMovesCount: what lines are said to have gained is by how much the rows' values in the cells that they are now in are
// larger, every gain counted, and none is near the ends of its interval: no row is near a boundary.
func TestMovesCount(t *testing.T) {
	p := searchtest.Quadrants(t, 60, 1)
	rng := rand.New(rand.NewPCG(4, 6))
	q := p.Shape.Blank(1)
	copy(q.Regressors, searchtest.Normal(rng, len(q.Regressors)))
	copy(q.Gating, searchtest.Normal(rng, len(q.Gating)))
	s, err := newHardGate(t.Context(), p, q, []int{0, 1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	total := func() (sum float64) {
		for r := range s.slope {
			cell := 0
			for m := range s.logit {
				if s.logit[m][r] > s.logit[cell][r] {
					cell = m
				}
			}
			sum += s.value[cell][r]
		}
		return sum
	}
	before := total()
	gained := s.improve(rng)
	// Gains of less than slack/1000 are not counted; there are some hundred lines.
	if after := total(); gained < 1 || math.Abs(after-before-gained) > slack {
		t.Errorf("gained %v, from %v to %v", gained, before, after)
	}
	hard := s.hard()
	if hard == nil {
		t.Fatal("a row is too near to a boundary")
	}
	same, err := newHardGate(t.Context(), p, hard, []int{0, 1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	for r := range s.slope {
		for m := range s.logit {
			for l := range s.logit {
				if (s.logit[m][r] > s.logit[l][r]) != (same.logit[m][r] > same.logit[l][r]) {
					t.Fatalf("row %d has another order of cells in the gate that is hard", r)
				}
			}
		}
	}
	if was, _ := s.gap(); was >= hardGap {
		t.Fatalf("the gap is %v already", was)
	}
	if gap, _ := same.gap(); math.Abs(gap-hardGap) > 1e-6 {
		t.Errorf("the nearest row is %v from the next cell, want %v", gap, hardGap)
	}
}

// TestGap by hand, and what is made of it: a gate is multiplied until the gap is hardGap, not at all where it is larger,
// and there is none where the gap is rounding of the largest logit.
func TestGap(t *testing.T) {
	from := model.NewParams(2, 1)
	for _, c := range []struct {
		logit        [][]float64 // of two groups at two rows
		gap, largest float64
		by           float64 // 0: none
	}{
		{[][]float64{{1, -4}, {0, 2}}, 1, 4, hardGap},
		{[][]float64{{1, -4}, {0.5, 2}}, 0.5, 4, 2 * hardGap},
		{[][]float64{{100, -400}, {0, 0}}, 100, 400, 1},
		{[][]float64{{2e9, 5}, {2e9 - 4, 0}}, 4, 2e9, 0},
		{[][]float64{{1e8, 5}, {1e8 - 1, 0}}, 1, 1e8, hardGap}, // the least that may be
		{[][]float64{{2e9, 50}, {2e9 - 40, 0}}, 40, 2e9, 1},
	} {
		s := &hardGate{from: from, groups: []int{0, 1}, names: []int{0, 1}, columns: []int{0}, logit: c.logit, slope: make([]float64, 2), moved: [][]float64{{3}, {0}}}
		if gap, largest := s.gap(); gap != c.gap || largest != c.largest {
			t.Errorf("%v: gap %v of %v, want %v of %v", c.logit, gap, largest, c.gap, c.largest)
		}
		hard := s.hard()
		if (hard == nil) != (c.by == 0) || hard != nil && math.Abs(hard.Gating[0]-3*c.by) > 1e-9 {
			t.Errorf("%v: a gate %+v, want 3 times %v", c.logit, hard, c.by)
		}
	}
}

// byHand are the cells of two groups at rows of one feature, with what each row is worth in either.
func byHand(x, logit []float64, values ...[2]float64) *hardGate {
	n := len(x)
	s := &hardGate{groups: []int{0, 1}, names: []int{0, 1}, columns: []int{0}, x: [][]float64{x},
		logit: [][]float64{logit, make([]float64, n)}, slope: make([]float64, n), moved: [][]float64{{0}, {0}}, value: make([][]float64, 2)}
	for _, v := range values {
		s.value[0], s.value[1] = append(s.value[0], v[0]), append(s.value[1], v[1])
	}
	return s
}

// TestAlongByHand: rows at 1 and −1, whose logits are 0.5 and −2: the first goes over at t = −0.5, the second at −2; and where
// both sides gain alike the line goes up.
func TestAlongByHand(t *testing.T) {
	for name, c := range map[string]struct {
		s            *hardGate
		lo, hi, gain float64
	}{
		"both gain":           {byHand([]float64{1, -1, 1}, []float64{0.5, -2, 9}, [2]float64{0, 1}, [2]float64{5, 1}, [2]float64{}), -9, -2, 5},
		"the first alone":     {byHand([]float64{1, -1, 1}, []float64{0.5, -2, 9}, [2]float64{0, 1}, [2]float64{1, 5}, [2]float64{}), -2, -0.5, 1},
		"nothing":             {byHand([]float64{1, -1, 0}, []float64{0.5, 2, 9}, [2]float64{1, 0}, [2]float64{1, 0}, [2]float64{}), -0.5, 2, 0},
		"up and down alike":   {byHand([]float64{1, -1, 1, -1}, []float64{1, 1, 4, 4}, [2]float64{0, 3}, [2]float64{0, 3}, [2]float64{}, [2]float64{}), 1, 4, 3},
		"up as long as leads": {byHand([]float64{-1, -1, -1}, []float64{1, 2, 3}, [2]float64{0, 1}, [2]float64{0, 1}, [2]float64{3, 0}), 2, 3, 2},
	} {
		if lo, hi, gain := c.s.along(0, []float64{1}); lo != c.lo || hi != c.hi || gain != c.gain {
			t.Errorf("%s: (%v, %v) gains %v, want (%v, %v) and %v", name, lo, hi, gain, c.lo, c.hi, c.gain)
		}
	}
}

// counted counts the draws from a source.
type counted struct {
	rand.Source
	n int
}

func (c *counted) Uint64() uint64 { c.n++; return c.Source.Uint64() }

// TestImproveEnds after exchangeTries lines for every group of which none gains: without features a line is one draw, that of its group.
func TestImproveEnds(t *testing.T) {
	s := byHand([]float64{1}, []float64{1}, [2]float64{1, 0})
	s.x, s.moved = nil, [][]float64{{}, {}}
	source := &counted{Source: rand.NewPCG(1, 1)}
	if gained := s.improve(rand.New(source)); gained != 0 || source.n != 2*exchangeTries {
		t.Errorf("gained %v after %d lines, want %d", gained, source.n, 2*exchangeTries)
	}
}

// TestInside: places all over the middle half.
func TestInside(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	least, most := math.Inf(1), math.Inf(-1)
	for range 1000 {
		x := inside(rng, -3, 5)
		least, most = min(least, x), max(most, x)
	}
	// Of 1000 draws none is in an end of a hundredth once in 20,000.
	if least < -1 || least > -0.96 || most > 3 || most < 2.96 {
		t.Errorf("places from %v to %v, want those from -1 to 3", least, most)
	}
}
