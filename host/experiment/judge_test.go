package experiment

import (
	"math"
	"strings"
	"testing"
)

// TestSignTest has values by hand: sums of binomial coefficients over 2^n.
func TestSignTest(t *testing.T) {
	for _, c := range []struct {
		count, n int
		want     float64
	}{{0, 0, 1}, {5, 10, 1}, {8, 10, 112.0 / 1024}, {2, 10, 112.0 / 1024}, {0, 10, 2.0 / 1024}, {7, 7, 2.0 / 128}} {
		if got := signTest(c.count, c.n); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%d of %d: p = %g, want %g", c.count, c.n, got, c.want)
		}
	}
}

// TestJudgeSameRows: pairs are judged, not medians, and a size with as many pairs of either kind tells nothing.
func TestJudgeSameRows(t *testing.T) {
	outcome := func(ratio func(run int) float64) *Outcome {
		o := &Outcome{Figure: new(Figure)}
		for run := range 12 {
			em := math.Pow(10, float64(run%3)-4) // data sets of very different errors
			var out output
			out.point(gating, seriesAfterL4, run, 1000, ratio(run)*em)
			out.point(gating, seriesFixed, run, 1000, em)
			out.point(gating, seriesFree, run, 1000, em)
			o.Curves = append(o.Curves, out.Curves...)
		}
		return o
	}
	for _, c := range []struct {
		name    string
		ratio   func(run int) float64
		agrees  bool
		because string
	}{
		{"a third", func(int) float64 { return 1.0 / 3 }, true, ""},
		{"a little better", func(int) float64 { return 0.9 }, false, "better than EM at 0 of 1 sizes, and EM to be better at 0"},
		{"a little worse", func(int) float64 { return 1.1 }, false, "EM to be better at 1"},
		{"either way", func(run int) float64 { return []float64{0.3, 3}[run%2] }, false, "EM to be better at 0"},
		{"worse in 9 of 12", func(run int) float64 { return []float64{1.1, 0.9, 1.1, 1.1}[run%4] }, false, "EM to be better at 0"},
	} {
		v := judgeSameRows(outcome(c.ratio))
		if v.Agrees != c.agrees || !strings.Contains(v.Because, c.because) {
			t.Errorf("%s: agrees is %v because %q, want %v and %q", c.name, v.Agrees, v.Because, c.agrees, c.because)
		}
	}
}

// TestPlateau: a stall between two falls is one, an even fall and one that slows down are not.
func TestPlateau(t *testing.T) {
	curve := func(log func(x float64) float64) (c Curve) {
		for x := 0.0; x <= 10000; x += 50 {
			c.X, c.Y = append(c.X, x), append(c.Y, math.Exp(log(x)))
		}
		return c
	}
	for _, c := range []struct {
		name     string
		log      func(x float64) float64
		from, to float64 // within 150 where it is seen
		seen     bool
	}{
		{"even", func(x float64) float64 { return -x / 2000 }, 0, 0, false},
		{"slower and slower", func(x float64) float64 { return -math.Log1p(x / 200) }, 0, 0, false},
		{"flat from 1000 to 1800", func(x float64) float64 {
			return -min(x, 1000)/1000 - max(x-1800, 0)/1000
		}, 1000, 1800, true},
		{"flat to the end", func(x float64) float64 { return -min(x, 1000) / 1000 }, 0, 0, false},
	} {
		from, to, seen := curve(c.log).plateau()
		if seen != c.seen || seen && (math.Abs(from-c.from) > 150 || math.Abs(to-c.to) > 150) {
			t.Errorf("%s: from %g to %g, seen is %v; want %g to %g, %v", c.name, from, to, seen, c.from, c.to, c.seen)
		}
	}
}
