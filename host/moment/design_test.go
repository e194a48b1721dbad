package moment

import (
	"testing"

	"github.com/gatedlearning/moe/internal/testslow"
)

// TestTwoRounds: transforms that are made of rows have the predicted error of those for the true design to 5 %, where
// those for orthonormal regressors lose more, and the mean square error of 40 data sets is that predicted: its standard
// error there is .06 to .08 of it (TestObliqueRegressorsStudy), and four of them are out of 0.65 and 1.35 in one of
// 10,000.
func TestTwoRounds(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		leaning
		n, sets int
	}{
		{leaning{shapes[0], 2, .7}, 20_000, 40}, {leaning{shapes[4], 3, .5}, 20_000, 40}, {leaning{shapes[1], 2, .7}, 40_000, 1},
		{leaning{shapes[0], 2, .9}, 60_000, 1},
	} {
		truth := c.truth()
		_, one, two := c.predicted(t, 3)
		p := c.draw(t, truth, c.n, 1)
		e, err := Measure(t.Context(), p, Want{Transform: Optimal, Order: 3})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Optimal.Noise.MeanError(c.design(3)); !(got <= 1.05*two) {
			t.Errorf("%v: predicted error %.4g, of the true design %.4g, in one round %.4g", c.leaning, got, two, one)
		}
		if c.sets == 1 {
			continue
		}
		sum := 0.0
		for seed := range uint64(c.sets) {
			square, _ := c.estimated(t, c.draw(t, truth, c.n, seed+1), truth, Want{Transform: Optimal, Order: 3})
			sum += square / float64(c.sets)
		}
		if ratio := sum / (2 * two / float64(c.n)); !(ratio > .65 && ratio < 1.35) {
			t.Errorf("%v: mean square error %.3f of the predicted", c.leaning, ratio)
		}
	}
}

// TestDefaultOfDesign: the default predicts for the regressors at hand. Of a line with ⟨a_1, a_2⟩ = .9 the transforms
// for orthonormal regressors have the larger error than the polynomials, and those that are made for it the smaller.
func TestDefaultOfDesign(t *testing.T) {
	c := leaning{shapes[0], 2, .9}
	polynomial, one, two := c.predicted(t, 3)
	if !(two < polynomial && polynomial < one) {
		t.Fatalf("polynomial %v, one round %v, two %v: the test says nothing", polynomial, one, two)
	}
	e, err := Measure(t.Context(), c.draw(t, c.truth(), 60_000, 2), Want{Order: 3})
	if err != nil || e.Optimal == nil {
		t.Errorf("the default takes the polynomials, error %v", err)
	}
}
