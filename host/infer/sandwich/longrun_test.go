package sandwich

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
)

// free are the parameters that vary in a shape, as [loss] names them.
func free(s losstest.Shape) loss.Free {
	return loss.Free{Regressors: s.Free.Regressors, Gating: s.Free.Gating, Sigma: s.Free.Sigma,
		ExpertColumns: s.Free.ExpertColumns, GateColumns: s.Free.GateColumns}
}

// rowScores are the scores of the rows at p, each from the gradient of a table of one row.
func rowScores(t *testing.T, data *model.Data, act model.Activation, p *model.Params, free loss.Free) (out []*mat.VecDense) {
	t.Helper()
	for r := range data.N {
		one := loss.NewLikelihood(losstest.Row(data, r), act, p, free, 1)
		grad := make([]float64, one.Dim())
		if _, err := one.Grad(t.Context(), grad, one.Theta(p)); err != nil {
			t.Fatal(err)
		}
		s := mat.NewVecDense(len(grad), grad)
		s.ScaleVec(-one.Rows(), s) // the row's weight, which Grad divides by
		out = append(out, s)
	}
	return out
}

// TestLongRun compares them with the sum over all lags written out, for
// bandwidths of one row, of several, of more than a block and of more than all rows.
func TestLongRun(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(21, 1))
	for _, s := range losstest.Shapes {
		n := min(s.N, 300)
		data := s.Data(rng, losstest.Params(rng, s.K, s.D, 0.7, s.General), n)
		p := losstest.Params(rng, s.K, s.D, 0.9, s.General)
		l := loss.NewLikelihood(data, s.Act, p, free(s), 2)
		scores := rowScores(t, data, s.Act, p, free(s))
		inverse := mat.NewSymDense(l.Dim(), nil)
		for i := range l.Dim() {
			for j := range i + 1 {
				inverse.SetSym(i, j, (rng.NormFloat64()+float64(l.Dim())*float64((j+1)/(i+1)))/float64(n))
			}
		}
		for _, bandwidth := range []int{1, 2, 7, 270, 2 * n} {
			corrected, expected := mat.NewSymDense(l.Dim(), nil), windows(scores, data, inverse, bandwidth)
			if err := LongRun(t.Context(), corrected, l, p, inverse, bandwidth); err != nil {
				t.Fatal(err)
			}
			if tolerance := 1e-9 * math.Max(1, mat.Max(expected)); !mat.EqualApprox(corrected, expected, tolerance) {
				t.Errorf("%s, bandwidth %d: differs from the sum over the windows", s.Name, bandwidth)
			}
			got, want := mat.NewSymDense(l.Dim(), nil), mat.NewSymDense(l.Dim(), nil)
			if err := LongRun(t.Context(), got, l, p, nil, bandwidth); err != nil {
				t.Fatal(err)
			}
			for at, score := range scores {
				want.SymRankOne(want, 1, score)
				for lag := 1; lag < bandwidth && lag <= at; lag++ {
					want.RankTwo(want, 1-float64(lag)/float64(bandwidth), score, scores[at-lag])
				}
			}
			// Sums of n·b products in another order, relative to the largest.
			if tolerance := 1e-10 * math.Max(1, mat.Max(want)); !mat.EqualApprox(got, want, tolerance) {
				t.Errorf("%s, bandwidth %d: differs from the sum over the lags", s.Name, bandwidth)
			}
		}
	}
}

// windows is the sum over all windows of LongRun written out.
func windows(scores []*mat.VecDense, data *model.Data, inverse *mat.SymDense, bandwidth int) *mat.SymDense {
	var weights []float64
	for _, b := range data.Blocks {
		for r := range b.N {
			w := 1.0
			if b.Role[model.Weights] != nil {
				w = b.Role[model.Weights][r]
			}
			weights = append(weights, w)
		}
	}
	p, n := inverse.SymmetricDim(), len(scores)
	out := mat.NewSymDense(p, nil)
	for end := range n + bandwidth - 1 {
		sum, information := mat.NewVecDense(p, nil), mat.NewSymDense(p, nil)
		for t := max(0, end-bandwidth+1); t <= min(end, n-1); t++ {
			sum.AddVec(sum, scores[t])
			if weights[t] > 0 {
				information.SymRankOne(information, 1/weights[t], scores[t])
			}
		}
		var moved, more mat.VecDense
		moved.MulVec(inverse, sum)
		more.MulVec(information, &moved)
		sum.AddVec(sum, &more)
		out.SymRankOne(out, 1/float64(bandwidth), sum)
	}
	return out
}

// autoregression are n values of an autoregression of order 1 with unit variance.
func autoregression(rng *rand.Rand, n int, rho float64) []float64 {
	out, last := make([]float64, n), rng.NormFloat64()
	for t := range out {
		out[t] = last
		last = rho*last + math.Sqrt(1-rho*rho)*rng.NormFloat64()
	}
	return out
}

// TestBandwidth: of a line through rows whose feature and noise are autoregressions with
// coefficients √ρ the scores x·e have the autocorrelations ρ^l, and the long-run variance
// of the kernel is a sum that can be written down.
func TestBandwidth(t *testing.T) {
	const n = 40_000
	for _, rho := range []float64{0, 0.25, 0.64} {
		rng := rand.New(rand.NewPCG(22, uint64(100*rho)))
		x, e := autoregression(rng, n, math.Sqrt(rho)), autoregression(rng, n, math.Sqrt(rho))
		data := &model.Data{N: n, D: 1}
		for at := 0; at < n; at += model.BlockRows {
			to := min(at+model.BlockRows, n)
			data.Blocks = append(data.Blocks, model.Block{N: to - at, X: x[at:to], Y: e[at:to]})
		}
		p := model.NewParams(1, 1)
		p.Sigma[0] = 1
		l := loss.NewLikelihood(data, losstest.Identity, p, loss.Free{Regressors: true}, 1)
		b, err := Bandwidth(t.Context(), l, p)
		if err != nil {
			t.Fatal(err)
		}
		// Of one series: α = 4ρ²/((1−ρ)²(1+ρ)²). The estimate of ρ is off by about 1/√n, twice
		// that for its product's kurtosis; 4 of those are 0.04.
		bandwidth := func(rho float64) float64 {
			return 1.1447 * math.Cbrt(4*rho*rho/math.Pow((1-rho)*(1+rho), 2)*n)
		}
		if lo, hi := math.Floor(bandwidth(max(rho-0.04, 0))), math.Ceil(bandwidth(rho+0.04)); float64(b) < max(lo, 1) || float64(b) > hi {
			t.Errorf("rho = %v: bandwidth %d, want between %v and %v", rho, b, lo, hi)
		}
		m, want := mat.NewSymDense(1, nil), 1.0
		if err := LongRun(t.Context(), m, l, p, nil, b); err != nil {
			t.Fatal(err)
		}
		for lag := 1; lag < b; lag++ {
			want += 2 * (1 - float64(lag)/float64(b)) * math.Pow(rho, float64(lag))
		}
		// The relative standard error of a kernel estimate is √(4b/(3n)) (Priestley 1981); a
		// half more for the scores' heavy tails, and 4 of those: one false alarm in 10,000.
		bound := 6*math.Sqrt(4*float64(b)/(3*n)) + 6*math.Sqrt(8.0/n)
		if got := m.At(0, 0) / n; !(math.Abs(got/want-1) <= bound) {
			t.Errorf("rho = %v: long-run variance %.3f, want %.3f within %.2g", rho, got, want, bound)
		}
	}
}
