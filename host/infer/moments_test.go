package infer

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// TestConditionalMoments: the statistic is n·r̄ᵀV⁻¹r̄ with r̄ the mean of what the scores leave of
// the terms and V its covariance, widened for the scores that were estimated, whatever the
// terms' sizes; terms that are always 0, or the same as others, have no degree of freedom.
func TestConditionalMoments(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 23))
	const n, scores, terms = 300, 3, 4
	for range 20 {
		size := scores + terms
		rows := mat.NewDense(n, size+2, nil) // one term more that is 0, and one that is another's double
		mixed := mat.NewDense(size, size, nil)
		for i := range size {
			for j := range size {
				mixed.Set(i, j, 0.2*rng.NormFloat64())
			}
			mixed.Set(i, i, mixed.At(i, i)+1) // so that no direction is without variance
		}
		for j := range size {
			for i := range size {
				mixed.Set(i, j, mixed.At(i, j)*math.Pow(10, float64(j%4)))
			}
		}
		sums := make([]float64, size+2)
		for r := range n {
			z := make([]float64, size)
			for i := range z {
				z[i] = rng.NormFloat64()
			}
			var v mat.VecDense
			v.MulVec(mixed.T(), mat.NewVecDense(size, z))
			for i := range size {
				rows.Set(r, i, v.AtVec(i))
			}
			rows.Set(r, size+1, 2*v.AtVec(size-1))
			floats.Add(sums, rows.RawRowView(r))
		}
		cov := mat.NewSymDense(size+2, nil)
		cov.SymOuterK(1./n, rows.T())

		all := mat.DenseCopyOf(cov)
		known, cross, own := all.Slice(0, scores, 0, scores), all.Slice(0, scores, scores, size), all.Slice(scores, size, scores, size)
		var b, taken, v, left, out mat.Dense
		if err := b.Solve(known, cross); err != nil {
			t.Fatal(err)
		}
		taken.Mul(cross.T(), &b)
		v.Sub(own, &taken)
		v.Scale(float64(n)/(n-scores), &v)
		mean := mat.NewVecDense(terms, nil)
		mean.MulVec(b.T(), mat.NewVecDense(scores, append([]float64(nil), sums[:scores]...)))
		mean.SubVec(mat.NewVecDense(terms, append([]float64(nil), sums[scores:size]...)), mean)
		if err := left.Solve(&v, mean); err != nil {
			t.Fatal(err)
		}
		out.Mul(mean.T(), &left)
		want := out.At(0, 0) / n

		got := ConditionalMoments(cov, sums, scores, n)
		p := distuv.ChiSquared{K: terms}.Survival(want)
		// A ridge of 1e−10 on correlations whose inverse may be some 1e4.
		if got.DF != terms || math.Abs(got.Statistic/want-1) > 1e-5 || math.Abs(got.PValue-p) > 1e-5 {
			t.Errorf("%+v, want %v on %d degrees of freedom, p = %v", got, want, terms, p)
		}
	}
	if none := ConditionalMoments(mat.NewSymDense(2, nil), make([]float64, 2), 0, 10); none.DF != 0 || none.PValue != 1 || none.Statistic != 0 {
		t.Errorf("of nothing: %+v", none)
	}
	// Of more scores than half the draws the widening ends at 2.
	q := &quadraticForms{cov: mat.NewSymDense(2, []float64{1, 0, 0, 1}), sums: []float64{1, 6}, n: 4}
	if q.project(0, 1, 1); math.Abs(q.cov.At(1, 1)-2) > 1e-9 || q.sums[1] != 6 {
		t.Errorf("%+v, want a variance of 2", q)
	}
}

// TestDraws: so many for each term, and no more than are cheap.
func TestDraws(t *testing.T) {
	for terms := 1; terms <= 3000; terms++ {
		n, floor := drawsFor(terms), max(leastDraws, drawsPerTerm*terms)
		products := float64(n) * float64(terms) * float64(terms)
		more := float64(n+1) * float64(terms) * float64(terms)
		if n < floor || n > max(floor, mostDraws) || n > floor && (products > cheapProducts || n < mostDraws && more <= cheapProducts) {
			t.Fatalf("%d terms: %d draws", terms, n)
		}
	}
	if drawsFor(1) != mostDraws || drawsFor(3000) != drawsPerTerm*3000 {
		t.Errorf("%d and %d draws: one term takes most, 3000 no more than they must", drawsFor(1), drawsFor(3000))
	}
}
