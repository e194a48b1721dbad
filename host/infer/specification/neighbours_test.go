package specification

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// neighboursOf are those of rows of u and, behind them, y.
func neighboursOf(rows [][]float64) *infer.Neighbours {
	targets := len(rows[0]) / 2
	s := infer.NewNeighbours(targets)
	for _, row := range rows {
		s.Add(row, make([]float64, targets))
	}
	return &s
}

// TestNeighboursOfRows: rows of weight 0 are none, and u and y are those of the definition.
func TestNeighboursOfRows(t *testing.T) {
	data, p := twoExperts(t, 400, identity{})
	data.Blocks[0].Y[3] = 1e9 // held within three σ of the means
	m := newTerms(identity{}, p, loss.All)
	measure(t, m, data)
	weigh(data, p, nil) // 0 to 3 in turn
	sums, err := m.sums(t.Context(), data, 2)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]float64
	for i := range data.Blocks {
		b := &data.Blocks[i]
		for r := range b.N {
			if b.Role[model.Weights][r] > 0 {
				rows = append(rows, neighbourOf(p, b, r))
			}
		}
	}
	if got, want := sums.Neighbours.Values(), neighboursOf(rows).Values(); !floats.EqualApprox(got, want, 1e-7) {
		t.Errorf("%v, want %v", got, want)
	}
}

// neighbourOf is u and the held y of a row, by definition.
func neighbourOf(p *model.Params, b *model.Block, r int) []float64 {
	x := make([]float64, p.D)
	for j := range x {
		x[j] = b.Col(j)[r]
	}
	post, soft := make([]float64, p.K), make([]float64, p.K)
	lo, hi := math.Inf(1), math.Inf(-1)
	most := math.Inf(-1)
	for i := range post {
		z := floats.Dot(p.Regressor(i), x) + p.RegressorIntercepts[i]
		e := (b.Y[r] - z) / p.Sigma[i]
		post[i] = -e*e/2 - math.Log(p.Sigma[i])
		if i < p.Gates() {
			post[i] += floats.Dot(p.Gate(i), x) + p.GatingIntercepts[i]
		}
		most = max(most, post[i])
		soft[i] = e / math.Sqrt(1+e*e/4)
		lo, hi = min(lo, z-3*p.Sigma[i]), max(hi, z+3*p.Sigma[i])
	}
	total, u := 0.0, 0.0
	for i, v := range post {
		post[i] = math.Exp(v - most)
		total += post[i]
		u += post[i] * soft[i]
	}
	return []float64{u / total, min(max(b.Y[r], lo), hi)}
}

// TestHotelling: with two degrees of freedom and a covariance from N draws the statistic S has
// P(T² > S) = (1 + S/N)^{−(N−1)/2}, also where that is far below rounding.
func TestHotelling(t *testing.T) {
	const draws = 4000
	for _, s := range []float64{0.1, 3, 20, 500} {
		f := form{z: []float64{math.Sqrt(s), 0}, n: 100, draws: draws}
		want := -(draws - 1.) / 2 * math.Log1p(s/draws)
		if got := math.Log(f.hotelling().PValue); math.Abs(got-want) > 1e-8*math.Max(1, -want) {
			t.Errorf("statistic %v: log p %v, want %v", s, got, want)
		}
	}
}

// TestForms: what was done to the sums is done to any other rows; along eigenvectors or not the statistic is the
// same where no direction is left out; the covariance in blocks is that of all terms where tests need it.
func TestForms(t *testing.T) {
	data, p := twoExperts(t, 3000, identity{})
	m := newTerms(identity{}, p, loss.All)
	measure(t, m, data)
	sums, err := m.sums(t.Context(), data, 1)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := sample(t.Context(), data, m.p, 0, 6000, sums, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	covariance := func(blocks []int) *mat.SymDense {
		c, err := covarianceOf(t.Context(), &rowTargets[termRows]{drawing: m.drawing(), drawn: drawn, seed: 1, workers: 1}, 1, blocks)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	blocks := m.at[atNonlinearity:]
	all := covariance([]int{m.at[atEnd]})
	c := covariance(blocks)
	var statistics [2][]float64
	for i, along := range []bool{false, true} {
		raw := sums.clone()
		m.allowForCoefficients(raw)
		rows := mat.NewDense(len(raw.Terms), 1, raw.Terms)
		q, _ := m.quadratic(sums.clone(), mat.NewSymDense(c.SymmetricDim(), slices.Clone(c.RawSymmetric().Data)), 6000, along)
		for _, step := range q.steps {
			step(rows)
		}
		// Sums of 3,000 terms of order 1.
		if !floats.EqualApprox(rows.RawMatrix().Data, q.sums, 1e-8) {
			t.Error("the steps do something else to other rows than to the sums")
		}
		for _, f := range q.forms {
			s, _ := f.statistic()
			statistics[i] = append(statistics[i], s)
		}
	}
	whole := 0
	for i, s := range statistics[0] {
		if math.Abs(s/statistics[1][i]-1) < 1e-6 {
			whole++
		}
	}
	if whole != len(statistics[0]) {
		t.Errorf("statistics %v, along eigenvectors %v", statistics[0], statistics[1])
	}
	q := &quadraticForms{sums: sums.Terms, blocks: blocks}
	for i := range sums.Terms {
		for j := i; j < q.until(i); j++ {
			if got, want := c.At(i, j), all.At(i, j); math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
				t.Fatalf("covariance %d, %d is %v, want %v", i, j, got, want)
			}
		}
	}
}

// TestStatisticOfSkewedSums: a sum of χ² of n rows, whose skewness of a row is √8: the share of sums
// above the normal 99.9 % point, nearly twice too many before, is within a half of what it should be. A direction that fewer
// than one row makes does not count.
func TestStatisticOfSkewedSums(t *testing.T) {
	const n, times = 100, 200_000
	rng := rand.New(rand.NewPCG(9, 9))
	before, after := 0, 0
	for range times {
		sum := 0.0
		for range n {
			z := rng.NormFloat64()
			sum += (z*z - 1) / math.Sqrt2
		}
		f := form{z: []float64{sum / math.Sqrt(n)}, n: n}
		plain, _ := f.statistic()
		f.skewness, f.kurtosis = []float64{math.Sqrt(8)}, []float64{15}
		symmetric, df := f.statistic()
		if df != 1 {
			t.Fatal("a direction of seven rows does not count")
		}
		const point = 10.83 // of χ² with one degree of freedom, .001 above it
		if plain > point {
			before++
		}
		if symmetric > point {
			after++
		}
	}
	// The standard error of 200 is 14. The sum is a gamma's, so that the transformation is exact to its own error.
	if want := times / 1000; before < want*3/2 || after < want/2 || after > want*3/2 {
		t.Errorf("%d and %d of %d beyond the point of %d", before, after, times, want)
	}
	few := form{z: []float64{9}, n: n, skewness: []float64{0}, kurtosis: []float64{n/fewestRows + 1}}
	if s, df := few.statistic(); s != 0 || df != 0 {
		t.Errorf("a direction of few rows counts: %v, %d", s, df)
	}
}
