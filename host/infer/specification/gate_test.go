package specification

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// TestHardGates: a right model whose gate is so hard that few rows, and fewer of the draws, are in doubt
// passes its tests. Of 100 p-values the least is below 1e−6 with a chance of 1 in 10,000; with the
// scores of those few draws in the projection it was 6e−31.
func TestHardGates(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	tests, least := 0, 1.0
	for range 24 {
		p := model.NewParams(3, 3)
		for i := range p.Regressors {
			p.Regressors[i] = rng.NormFloat64()
		}
		for i := range p.Gating {
			p.Gating[i] = 3000 * rng.NormFloat64()
		}
		p.RegressorIntercepts, p.GatingIntercepts = []float64{1, -1, 0}, []float64{0.1, 0.2}
		p.Sigma = []float64{0.5, 0.5, 0.5}
		data := drawn(t, 6000, softsign{}, p)
		all, err := Tests(t.Context(), data, softsign{}, p, loss.All, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all.Tests {
			tests++
			least = min(least, c.PValue)
		}
	}
	if tests < 96 || least < 1e-6 {
		t.Errorf("%d tests, the least p-value %.1g", tests, least)
	}
}

// TestOmitHardGates: of two gates of one coefficient each, of which the sum is in doubt in a quarter of the draws
// and the difference in one of 10,000, the difference is left out, and the test of the others knows of the sum
// alone; a gate by itself that is in doubt in few is named. Where all are in doubt nothing changes.
func TestOmitHardGates(t *testing.T) {
	const rare = 1e-4
	forms := func(sum, difference float64) *quadraticForms {
		// Terms: the two scores (s + d)/√2 and (s − d)/√2, of features with an rms of 2, and one of
		// variance 1 whose correlation with s is 0.5 and with d 0.9.
		s, d := 2*math.Sqrt(sum), 2*math.Sqrt(difference)
		c := mat.NewSymDense(3, nil)
		c.SetSym(0, 0, (s*s+d*d)/2)
		c.SetSym(1, 1, (s*s+d*d)/2)
		c.SetSym(0, 1, (s*s-d*d)/2)
		c.SetSym(0, 2, (0.5*s+0.9*d)/math.Sqrt2)
		c.SetSym(1, 2, (0.5*s-0.9*d)/math.Sqrt2)
		c.SetSym(2, 2, 2)
		return &quadraticForms{cov: c, sums: []float64{3, 1, 7}, n: 100, draws: 1e9, blocks: []int{2, 3}}
	}
	q := forms(0.25, rare)
	if hard := q.omitHardGates(0, 2, []float64{2}, 4096); hard != nil {
		t.Errorf("gates %v, which are both in doubt", hard)
	}
	q.standardise()
	q.project(0, 2, ridged)
	// s has the sum (3 + 1)/√2 and a variance of 1: U = 7 − 0.5·4/√2, of variance 2 − 0.25.
	u := 7 - 0.5*4/math.Sqrt2
	if got, want := q.form(2, 3).chiSquared().Statistic, u*u/(100*1.75); math.Abs(got-want) > 1e-7*want {
		t.Errorf("χ² %v, want %v", got, want)
	}
	q, same := forms(0.25, 0.2), forms(0.25, 0.2)
	if hard := q.omitHardGates(0, 2, []float64{2}, 4096); hard != nil || !mat.Equal(q.cov, same.cov) || !floats.Equal(q.sums, same.sums) {
		t.Errorf("%v %v, of gates in doubt", hard, q)
	}
	q = &quadraticForms{cov: mat.NewSymDense(2, []float64{1, 0, 0, 4 * rare}), sums: []float64{1, 1}, n: 100, blocks: []int{2}}
	if hard := q.omitHardGates(0, 2, []float64{2}, 4096); len(hard) != 1 || hard[0] != 1 || q.sums[0]*q.sums[1] != 0 {
		t.Errorf("gates %v, want the second: %v", hard, q.sums)
	}
	if hard := q.omitHardGates(2, 0, nil, 4096); hard != nil {
		t.Errorf("no gates: %v", hard)
	}
}
