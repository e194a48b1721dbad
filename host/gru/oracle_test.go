package gru

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// balanced is a random layer of which both gates of every unit are open on half of the steps or so.
func balanced(t *testing.T, seed uint64) *Layer {
	l := Random(rand.New(rand.NewPCG(seed, 0)), 2, 2)
	if err := Balance(t.Context(), l, seed); err != nil {
		t.Fatal(err)
	}
	return l
}

// TestOracles: over 200 records of a layer the estimates' distance from the truth in the metric of their covariance is
// chi-squared with 6 degrees of freedom, of W, U, b and c. Its mean over both units is within four of its standard
// deviations, which fails once in 16,000.
func TestOracles(t *testing.T) {
	const records, free = 200, 6
	l := balanced(t, 5)
	var sum, n float64
	for seed := range uint64(records) {
		all, err := Oracles(t.Context(), l, Recording{Steps: 400, Sigma: .01, Gates: Binary, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		for j, o := range all {
			truth := append(append([]float64{}, l.Candidate.W.RawRowView(j)...), l.Candidate.U.RawRowView(j)...)
			truth = append(truth, l.Candidate.B[j], l.RecurrentBias[j])
			off := mat.NewVecDense(free, floats.SubTo(make([]float64, free), o.Estimate, truth))
			var root mat.Cholesky
			var solved mat.VecDense
			if !root.Factorize(o.Covariance) || root.SolveVecTo(&solved, off) != nil {
				t.Fatal("no covariance")
			}
			sum += mat.Dot(off, &solved)
			n++
		}
	}
	if mean := sum / n; math.Abs(mean-free) > 4*math.Sqrt(2*free/n) {
		t.Errorf("the mean chi-squared is %v, want %d", mean, free)
	}
	closed := balanced(t, 5)
	closed.Reset.B[0] = -Never // unit 1 never takes an open candidate: U and c have no estimate
	all, err := Oracles(t.Context(), closed, Recording{Steps: 400, Sigma: .01, Gates: Binary})
	if err != nil || all[0] != nil || all[1] == nil {
		t.Errorf("%v, %v", all, err)
	}
}

// TestShares: the states themselves tell: without noise a unit that keeps its state has the one before, and the two
// candidates are known.
func TestShares(t *testing.T) {
	l := balanced(t, 6)
	r := Recording{Steps: 1000, Gates: Binary, Seed: 2}
	shares, err := Shares(t.Context(), l, r)
	if err != nil {
		t.Fatal(err)
	}
	want := make([][3]float64, 2)
	err = Record(t.Context(), l, r, func(row []float64) error {
		x, h, next := mat.NewVecDense(2, row[:2]), mat.NewVecDense(2, row[2:4]), row[4:]
		var in, rec mat.VecDense
		in.MulVec(l.Candidate.W, x)
		rec.MulVec(l.Candidate.U, h)
		for j, v := range next {
			pre := in.AtVec(j) + l.Candidate.B[j]
			gaps := []float64{math.Abs(v - h.AtVec(j)), math.Abs(v - math.Tanh(pre)),
				math.Abs(v - math.Tanh(pre+rec.AtVec(j)+l.RecurrentBias[j]))}
			want[j][floats.MinIdx(gaps)] += 1. / 1000
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for j := range want {
		for leaf, share := range want[j] {
			// A step or two on which the state is 0 before and after, as the first, may be any.
			if math.Abs(share-shares[j][leaf]) > .0021 || share < .02 {
				t.Errorf("unit %d, leaf %d: %v of the steps, want %v", j+1, leaf, shares[j][leaf], share)
			}
		}
	}
}
