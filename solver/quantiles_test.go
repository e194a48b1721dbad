package solver

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// TestQuantiles: the least value with at least (q + ½)/192 of the weight at or below it.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, n := range []int{1, 2, 7, 96, 191, 192, 500} {
		y, w := make([]float64, n), make([]float64, n)
		for i := range y {
			y[i] = math.Round(8*rng.NormFloat64()) / 4 // with ties
			w[i] = max(0, rng.NormFloat64()+1)
		}
		w[0] = 2
		total := 0.0
		for _, v := range w {
			total += v
		}
		sorted := slices.Sorted(slices.Values(y))
		equal, weighted := Quantiles(y, nil), Quantiles(y, w)
		if len(equal) != levelQuantiles || len(weighted) != levelQuantiles {
			t.Fatalf("%d and %d quantiles", len(equal), len(weighted))
		}
		for q := range levelQuantiles {
			share := (float64(q) + .5) / levelQuantiles
			place := slices.IndexFunc(sorted, func(v float64) bool {
				at := 0
				for _, x := range y {
					if x <= v {
						at++
					}
				}
				return float64(at) >= share*float64(n)
			})
			if equal[q] != sorted[place] {
				t.Errorf("%d values: quantile %d is %v, want %v", n, q, equal[q], sorted[place])
			}
			place = slices.IndexFunc(sorted, func(v float64) bool {
				at := 0.0
				for i, x := range y {
					if x <= v {
						at += w[i]
					}
				}
				return at >= share*total*(1-1e-14) // sums in another order
			})
			if weighted[q] != sorted[place] {
				t.Errorf("%d weighted values: quantile %d is %v, want %v", n, q, weighted[q], sorted[place])
			}
		}
	}
	if got := deviation([]float64{2, 4, 4, 4, 5, 5, 7, 9}); !(math.Abs(got-2) <= 1e-15) {
		t.Errorf("deviation %v, want 2", got)
	}
}

// TestNoiseLevelByScan: the largest σ whose likelihood is within ½ of the best, from looking at all of
// 150 between the floor and the deviation of y; within the tolerance of the search.
func TestNoiseLevelByScan(t *testing.T) {
	for i, c := range []struct {
		g            func(z float64) float64
		norm, sigma  float64
		n, effective int
	}{
		{func(z float64) float64 { return max(z, 0) }, 1, .2, 300, 300},
		{func(z float64) float64 { return max(z, 0) }, 1, .2, 300, 10},
		{func(z float64) float64 { return max(z, 0) }, 1, 0, 300, 300},
		{math.Tanh, 1, .6, 500, 500},
		{func(z float64) float64 { return z }, 1, .1, 500, 50},
		{func(z float64) float64 { return z }, 4, .1, 300, 300}, // wider than the law: the deviation of y or near it
		{func(z float64) float64 { return z }, .1, 0, 300, 300}, // narrower: the floor
	} {
		law, err := NewLaw(t.Context(), sdk.Func{Name: "g", G: c.g, Kinks: []float64{0}})
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		y := make([]float64, c.n)
		for i := range y {
			y[i] = c.g(c.norm*rng.NormFloat64()) + c.sigma*rng.NormFloat64()
		}
		q := Quantiles(y, nil)
		least := .01 * law.SD
		most := max(2*least, deviation(q))
		const steps = 150
		at, best := make([]float64, steps+1), math.Inf(-1)
		values := make([]float64, len(q))
		for i := range at {
			sigma := least * math.Pow(most/least, float64(i)/steps)
			law.law.Density(sigma).Values(values, q)
			for _, v := range values {
				at[i] += math.Log(max(v, 1e-300)) / float64(len(q))
			}
			best = max(best, at[i])
		}
		want := least
		for i, v := range at {
			if float64(c.effective)*(best-v) <= .5 {
				want = least * math.Pow(most/least, float64(i)/steps)
			}
		}
		// The search stops at .1 of log σ, and the scan has steps of .03.
		if got := law.NoiseLevel(y, nil, float64(c.effective)); !(math.Abs(math.Log(got/want)) <= .15) || !(got >= least) || !(got <= most) {
			t.Errorf("case %d: σ = %v, want %v", i, got, want)
		}
	}
}

// TestFitsByScan: values fit as long as 2/√n and half a value's share are more than the least distance, which
// is found by looking at 60 noise levels and again at 60 about the best.
func TestFitsByScan(t *testing.T) {
	testslow.Mark(t)
	for i, act := range []sdk.Func{
		{Name: "relu", G: func(z float64) float64 { return max(z, 0) }, Kinks: []float64{0}},
		{Name: "tanh", G: math.Tanh},
	} {
		law, err := NewLaw(t.Context(), act)
		if err != nil {
			t.Fatal(err)
		}
		const n = 100
		rng := rand.New(rand.NewPCG(uint64(i), 4))
		y := make([]float64, n)
		for i := range y {
			y[i] = act.G(.8*rng.NormFloat64()+.3) + .2*rng.NormFloat64()
		}
		q := Quantiles(y, nil)
		apart := func(logSigma float64) (worst float64) {
			density := law.law.Density(math.Exp(logSigma))
			for i, v := range q {
				worst = max(worst, math.Abs(density.CDF(v)-(float64(i)+.5)/192))
			}
			return worst
		}
		least := .01 * law.SD
		best, at := math.Inf(1), 0.0
		scan := func(lo, hi float64) {
			for s := range 61 {
				x := lo + (hi-lo)*float64(s)/60
				if d := apart(x); d < best {
					best, at = d, x
				}
			}
		}
		scan(math.Log(least), math.Log(deviation(q)))
		scan(at-.1, at+.1)
		// The two searches agree to a few thousandths of log σ, of which the distance is less than 2 %.
		for by, want := range map[float64]bool{1.03: true, .97: false} {
			effective := math.Pow(2/(best*by-.5/n), 2)
			if got := law.Fits(y, nil, effective); got != want {
				t.Errorf("%s at a distance of %v, worth %v draws: fits %v", act.Name, best, effective, got)
			}
		}
		if law.Fits(nil, nil, 1) || law.NoiseLevel(nil, nil, 1) != least {
			t.Errorf("%s: no value at all", act.Name)
		}
	}
}

// TestDeviation keeps its digits where the mean is large: at 1e17 numbers lie 16 apart.
func TestDeviation(t *testing.T) {
	v := []float64{1e17 - 48, 1e17 - 16, 1e17 + 16, 1e17 + 48}
	if got, want := deviation(v), 16*math.Sqrt(5); math.Abs(got-want) > 1e-9 {
		t.Errorf("%v, want %v", got, want)
	}
}
