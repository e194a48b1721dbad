package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// TestLattice holds the law on the lattice to the normal mixture: mean and variance of y at each x, and the counts of
// rows drawn.
func TestLattice(t *testing.T) {
	truth := lambda()
	act, err := paper("identity", 2).activation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, err := latticeOf(t.Context(), act, truth, 7, 0, 1, .15)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range l.x {
		gate := logistic(truth.GatingIntercepts[0] + truth.Gating[0]*x)
		var mean, square, wantMean, wantSquare float64
		for j, y := range l.y[i] {
			mean += l.share[i][j] * y
			square += l.share[i][j] * y * y
		}
		for j, share := range []float64{gate, 1 - gate} {
			m := truth.RegressorIntercepts[j] + truth.Regressors[j]*x
			wantMean += share * m
			wantSquare += share * (m*m + truth.Sigma[j]*truth.Sigma[j])
		}
		if math.Abs(mean-wantMean) > 1e-11 || math.Abs(square-wantSquare) > 1e-9 {
			t.Errorf("x = %g: moments %g and %g, want %g and %g", x, mean, square, wantMean, wantSquare)
		}
	}
	const n = 1000003
	data, err := l.draw(t.Context(), rand.New(rand.NewPCG(1, 2)), n)
	if err != nil {
		t.Fatal(err)
	}
	at, y := map[float64]float64{}, map[float64]float64{}
	for _, b := range data.Blocks {
		for r := range b.N {
			w := b.Role[model.Weights][r]
			at[b.X[r]] += w
			y[b.X[r]] += w * b.Y[r]
		}
	}
	var total float64
	for i, x := range l.x {
		total += at[x]
		if math.Abs(at[x]-n/7) > 1 {
			t.Errorf("%g rows at x = %g", at[x], x)
		}
		var mean, square float64
		for j, v := range l.y[i] {
			mean += l.share[i][j] * v
			square += l.share[i][j] * v * v
		}
		if off := y[x]/at[x] - mean; math.Abs(off) > 5*math.Sqrt((square-mean*mean)/at[x]) {
			t.Errorf("x = %g: the mean of the rows is off by %g", x, off)
		}
	}
	if total != n {
		t.Errorf("%g rows, want %d", total, n)
	}
}

// TestMarquardt finds an exponential from its values, and the mean of those of a constant.
func TestMarquardt(t *testing.T) {
	y := make([]float64, 20)
	for i := range y {
		y[i] = 2 * math.Exp(-.3*float64(i))
	}
	at, sum := marquardt(func(t, out []float64) {
		for i := range out {
			out[i] = t[0] * math.Exp(t[1]*float64(i))
		}
	}, y, []float64{1, 0})
	if math.Abs(at[0]-2) > 1e-7 || math.Abs(at[1]+.3) > 1e-7 || sum > 1e-13 {
		t.Errorf("found %g with %g", at, sum)
	}
	at, _ = marquardt(func(t, out []float64) {
		for i := range out {
			out[i] = t[0]
		}
	}, []float64{1, 2, 6}, []float64{0})
	if math.Abs(at[0]-3) > 1e-6 {
		t.Errorf("the mean is %g", at[0])
	}
}
