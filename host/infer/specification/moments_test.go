package specification

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/model"
)

// TestConditionalMoments: the statistic of terms behind scores that were estimated is n·r̄ᵀV⁻¹r̄ with r̄ the mean of what the scores leave of
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

		q := &quadraticForms{cov: cov, sums: sums, n: n, draws: n, blocks: []int{scores, len(sums)}}
		q.standardise()
		q.project(0, scores, ridged)
		got := q.form(scores, len(sums)).chiSquared()
		p := distuv.ChiSquared{K: terms}.Survival(want)
		// A ridge of 1e−10 on correlations whose inverse may be some 1e4.
		if got.DF != terms || math.Abs(got.Statistic/want-1) > 1e-5 || math.Abs(got.PValue-p) > 1e-5 {
			t.Errorf("%+v, want %v on %d degrees of freedom, p = %v", got, want, terms, p)
		}
	}
	if none := ConditionalMoments(mat.NewSymDense(2, nil), make([]float64, 2), 10); none.DF != 0 || none.PValue != 1 || none.Statistic != 0 {
		t.Errorf("of nothing: %+v", none)
	}
	// Of more scores than half the draws the widening ends at 2.
	q := &quadraticForms{cov: mat.NewSymDense(2, []float64{1, 0, 0, 1}), sums: []float64{1, 6}, n: 4, draws: 1, blocks: []int{1, 2}}
	if q.project(0, 1, ridged); math.Abs(q.cov.At(1, 1)-2) > 1e-9 || q.sums[1] != 6 {
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

// TestScalesOfTerms: the bounded functions are of predictors, logits and features in units of
// their rms; what is always 0 has the unit 1.
func TestScalesOfTerms(t *testing.T) {
	data, p := twoExperts(t, model.BlockRows+100, softsign{})
	var want [3][]float64
	want[0], want[1], want[2] = make([]float64, p.K), make([]float64, p.K), make([]float64, p.D)
	for _, b := range data.Blocks {
		for r := range b.N {
			x := make([]float64, p.D)
			for j := range x {
				x[j] = b.X[j*b.N+r]
				want[2][j] += x[j] * x[j]
			}
			for i := range p.K {
				z := floats.Dot(p.Regressor(i), x) + p.RegressorIntercepts[i]
				want[0][i] += z * z
			}
			for i := range p.Gates() {
				g := floats.Dot(p.Gate(i), x) + p.GatingIntercepts[i]
				want[1][i] += g * g
			}
		}
	}
	m := &terms{p: p}
	q, err := m.squares(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	m.scale(q)
	for i, got := range [][]float64{m.zRMS, m.lRMS, m.xRMS} {
		for j, sum := range want[i] {
			rms := math.Sqrt(sum / float64(data.N))
			if rms == 0 {
				rms = 1
			}
			if math.Abs(got[j]/rms-1) > 1e-12 {
				t.Errorf("rms %d of kind %d is %v, want %v", j, i, got[j], rms)
			}
		}
	}
	if m.lRMS[p.K-1] != 1 {
		t.Errorf("the last logit, which is 0, has the unit %v", m.lRMS[p.K-1])
	}
}
