package crossvalidation

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// TestSimplest: the one of the fewest parameters that is not worse than the best by more than a standard error of their difference.
func TestSimplest(t *testing.T) {
	const n = 400
	beside := func(other score, off, spread float64) (s score) { // by off ± spread a row: off·n ± spread·√n
		for t, v := range other.predictive.terms {
			of := v + off + spread*float64(2*(t%2)-1)
			s.count(1, of, of)
		}
		return s
	}
	blank := score{predictive: tally{terms: make([]float64, n)}, weights: make([]float64, n)}
	base := beside(blank, -1, 1)
	second := beside(base, .5, .1)
	for name, c := range map[string]struct {
		held []score
		want int
	}{
		"the first is best":      {[]score{base, beside(base, -.2, .1)}, 0},
		"better by 80 ± 10":      {[]score{base, beside(base, .2, .5)}, 1},
		"better by 4 ± 20":       {[]score{base, beside(base, .01, 1)}, 0},
		"the third by 4 ± 20":    {[]score{base, second, beside(second, .01, 1)}, 1},
		"all rows by one number": {[]score{base, beside(base, .01, 0)}, 1},
		"one":                    {[]score{base}, 0},
		"better by rounding":     {[]score{base, beside(base, 1e-9, 1e-10)}, 0}, // 4e-7 ± 2e-9
		"better by 1e-6 a row":   {[]score{base, beside(base, 1e-6, 1e-6)}, 1},
	} {
		for i := range c.held {
			c.held[i].parameters = i
		}
		if got, _ := simplest(c.held); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestGroupParts: all rows of a group are in one part, and the parts have as many groups as can be.
func TestGroupParts(t *testing.T) {
	id := make([]float64, 60)
	for i := range id {
		id[i] = float64(i / 6)
	}
	data, err := dataset.Load(t.Context(), dataset.Matrix(mat.NewDense(60, 1, nil), id).With(model.Groups, "id", id))
	if err != nil {
		t.Fatal(err)
	}
	part, count := groupParts(data, 3, 1)
	rows := make([]int, 3)
	for r, p := range part {
		rows[p]++
		if p != part[r/6*6] {
			t.Errorf("row %d is in another part than its group", r+1)
		}
	}
	if count != 10 || min(rows[0], rows[1], rows[2]) != 18 {
		t.Errorf("%d groups in parts of %v rows", count, rows)
	}
}

// TestUntold: features that follow from others, or from the intercept, without the part of some rows alone are none of
// the fit without it, nor of the part. Those that follow in all rows stay, and where all would go all stay.
func TestUntold(t *testing.T) {
	const n, rare, other = 300, 280, 7 // rows, and two of them
	part := func(r int) int { return r % 5 }
	ones := func(at ...int) func(r int) float64 {
		return func(r int) float64 {
			if slices.Contains(at, r) {
				return 1
			}
			return 0
		}
	}
	slope := func(r int) float64 { return math.Sin(float64(r)) + 2000 }
	odd := func(r int) float64 { return float64(r / 5 % 2) }
	for name, c := range map[string]struct {
		columns   []func(r int) float64
		intercept bool
		want      map[int][]int // of the parts of rare and other
	}{
		"a level of one row":                       {[]func(int) float64{slope, ones(rare), odd}, true, map[int][]int{part(rare): {1}}},
		"of one row, no intercept":                 {[]func(int) float64{slope, ones(rare), odd}, false, map[int][]int{part(rare): {1}}},
		"of two rows in two parts":                 {[]func(int) float64{slope, ones(rare, other)}, true, nil},
		"equal but for one row":                    {[]func(int) float64{odd, func(r int) float64 { return max(odd(r), ones(rare)(r)) + ones(other)(r) }, slope}, true, nil},
		"equal without one part":                   {[]func(int) float64{odd, func(r int) float64 { return odd(r) + ones(rare)(r) }, slope}, true, map[int][]int{part(rare): {1}}},
		"the reference is of one row":              {[]func(int) float64{slope, odd, func(r int) float64 { return 1 - odd(r) - ones(rare)(r) }}, true, map[int][]int{part(rare): {2}}},
		"the reference of one row, no intercept":   {[]func(int) float64{slope, odd, func(r int) float64 { return 1 - odd(r) - ones(rare)(r) }}, false, nil},
		"1 in all rows but one":                    {[]func(int) float64{slope, func(r int) float64 { return 1 - ones(rare)(r) }}, true, map[int][]int{part(rare): {1}}},
		"1 in all rows but one, no intercept":      {[]func(int) float64{slope, func(r int) float64 { return 1 - ones(rare)(r) }}, false, nil},
		"a product that follows in all rows":       {[]func(int) float64{slope, func(r int) float64 { return 1 - ones(rare)(r) }, func(r int) float64 { return slope(r) * (1 - ones(rare)(r)) }}, true, map[int][]int{part(rare): {1, 2}}},
		"a sum in all rows":                        {[]func(int) float64{slope, odd, func(r int) float64 { return slope(r) + odd(r) }}, true, nil},
		"nothing else":                             {[]func(int) float64{ones(rare)}, true, nil},
		"two levels of one row each, of one part":  {[]func(int) float64{slope, ones(rare), ones(rare - 5)}, true, map[int][]int{part(rare): {1, 2}}},
		"two levels of one row each, of two parts": {[]func(int) float64{slope, ones(rare), ones(other)}, true, map[int][]int{part(rare): {1}, part(other): {2}}},
	} {
		x := mat.NewDense(n, len(c.columns), nil)
		of := make([]int, n)
		for r := range n {
			of[r] = part(r)
			for j, f := range c.columns {
				x.Set(r, j, f(r))
			}
		}
		data, err := dataset.Load(t.Context(), dataset.Matrix(x, make([]float64, n)))
		if err != nil {
			t.Fatal(err)
		}
		table := &parts{tables: []dataset.Loaded{dataset.InMemory(dataset.Names(len(c.columns), true), data)}, part: of, folds: 5}
		table.findUntold(c.intercept)
		for fold, got := range table.untold {
			if !slices.Equal(got, c.want[fold]) {
				t.Errorf("%s, part %d: %v tell nothing, want %v", name, fold, got, c.want[fold])
			}
			features := len(c.columns) - len(c.want[fold])
			for _, rows := range slices.Concat(table.without(fold), table.left(fold)) {
				if len(rows.Schema().Features) != features || rows.Data.D != features {
					t.Errorf("%s, part %d: features %v, want %d", name, fold, rows.Schema().Features, features)
				}
			}
		}
	}
}

// TestLeaveBehind: after half of the parts what has more parameters than the best and is one standard error below it is
// left, and further than half a unit for each parameter more, from the largest number of experts on down to the first
// that is not; of few rows nothing is.
func TestLeaveBehind(t *testing.T) {
	scored := func(n, parameters int, off, spread float64) (s score) {
		for r := range n {
			of := off + spread*float64(2*(r%2)-1)
			s.count(1, of, of)
		}
		s.parameters = parameters
		return s
	}
	const n = 100 // a row's spread of 1 makes 10 for the sum
	best, before := scored(n, 5, 0, 0), scored(60, 13, -3, 1)
	before.left = &behind{parts: 3}
	for name, c := range map[string]struct {
		scores []score
		want   int // largest number of experts that stays
	}{
		"far behind":              {[]score{best, scored(n, 9, -.3, 1), scored(n, 13, -.3, 1)}, 1},
		"not so far":              {[]score{best, scored(n, 9, -.09, 1)}, 2},
		"as parameters cost":      {[]score{best, scored(n, 13, -.03, .01)}, 2},
		"more than those":         {[]score{best, scored(n, 9, -.03, .01)}, 1},
		"a smaller one is behind": {[]score{scored(n, 3, -3, 1), best, scored(n, 9, -.1, 1)}, 3},
		"the largest is not":      {[]score{best, scored(n, 9, -3, 1), scored(n, 13, -.1, 1)}, 3},
		"a density of 0":          {[]score{best, scored(n, 9, math.Inf(-1), 0)}, 1},
		"few rows":                {[]score{scored(20, 5, 0, 0), scored(20, 9, -9, 1)}, 2},
		"the largest was left":    {[]score{best, scored(n, 9, -.3, 1), before}, 1},
	} {
		all := []crossed{{table: &parts{folds: 10}, scores: c.scores, to: len(c.scores)}}
		if c.scores[len(c.scores)-1].left != nil {
			all[0].to--
		}
		if leaveBehind(all, 5); all[0].to != c.want {
			t.Errorf("%s: %d experts stay, want %d", name, all[0].to, c.want)
		}
		for j, s := range all[0].scores {
			if (s.left != nil) != (j >= c.want) || s.left != nil && s.sound() {
				t.Errorf("%s, k = %d: left %v, sound %v", name, j+1, s.left, s.sound())
			}
		}
	}
}

// TestMostBehind: of descriptions that the rule of one standard error takes at the end, few are left before. The
// difference's sum over the parts is a Gaussian random walk. The bounds are five standard errors above what is said.
func TestMostBehind(t *testing.T) {
	const tables, folds = 100_000, 10
	for _, c := range []struct{ better, taken, left float64 }{{0, .159, .003}, {1, .5, .007}, {2, .841, .007}} {
		rng := rand.New(rand.NewPCG(7, 1))
		taken, lost := 0, 0
		for range tables {
			sum, left := 0., false
			for part := 1; part <= folds; part++ {
				sum += c.better/folds + rng.NormFloat64()/math.Sqrt(folds)
				share := float64(part) / folds
				left = left || slices.Contains(looks, part) && -sum > mostBehind(share)*math.Sqrt(share)
			}
			if sum > 1 {
				taken++
				if left {
					lost++
				}
			}
		}
		within := func(share float64) float64 { return 5 * math.Sqrt(share*(1-share)/tables) }
		if got := float64(taken) / tables; math.Abs(got-c.taken) > within(c.taken) {
			t.Errorf("%v better: taken in %v, want %v", c.better, got, c.taken)
		}
		if got := float64(lost) / tables; got > c.left+within(c.left) {
			t.Errorf("%v better: left in %v, want at most %v", c.better, got, c.left)
		}
	}
}

// TestBelowOfWeights: of rows that all weigh w the difference is w times that of rows of weight 1, and its standard error
// √w times; of weight 1 that is √n times the standard deviation. A row without weight counts for nothing.
func TestBelowOfWeights(t *testing.T) {
	of := func(w float64) (by, se float64) {
		var a, b score
		for r := range 40 {
			v := math.Sin(float64(r * r))
			a.count(w, -1, -1)
			b.count(w, -1+v, -1+v)
		}
		a.count(0, -5, -5)
		b.count(0, -9, -9)
		return a.below(&b)
	}
	by, se := of(1)
	var off []float64
	for r := range 40 {
		off = append(off, math.Sin(float64(r*r)))
	}
	if want := stat.StdDev(off, nil) * math.Sqrt(40); math.Abs(se-want) > 1e-12 || math.Abs(by-floats.Sum(off)) > 1e-12 {
		t.Errorf("%v ± %v, want %v ± %v", by, se, floats.Sum(off), want)
	}
	if more, error100 := of(100); math.Abs(more-100*by) > 1e-9 || math.Abs(error100-10*se) > 1e-9 {
		t.Errorf("of weight 100 %v ± %v, want %v ± %v", more, error100, 100*by, 10*se)
	}
}
