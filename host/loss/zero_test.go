package loss

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// TestZeroExpert: of counts beside a zero expert gradient, information and its products are those of differences of the value, which is
// that which is written out.
func TestZeroExpert(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 3))
	names, all, tables := losstest.ZeroCases(rng)
	for at, p := range all {
		name, data := names[at], tables[at]
		l := NewLikelihood(data, losstest.Exp, p, All, 2)
		x, dim := l.Theta(p), l.Dim()
		if want := p.K*4 + p.K*4 + len(p.Sigma); dim != want {
			t.Fatalf("%s: %d parameters, want %d", name, dim, want)
		}
		want := 0.0
		for _, b := range data.Blocks {
			for r := range b.N {
				logs, scores := make([]float64, p.K+1), make([]float64, p.K+1)
				linear := func(w []float64, v float64) float64 {
					for j := range w {
						v += w[j] * b.Col(j)[r]
					}
					return v
				}
				for i := range p.K {
					scores[i] = linear(p.Gate(i), p.GatingIntercepts[i])
					mean, one := math.Exp(linear(p.Regressor(i), p.RegressorIntercepts[i])/2), []float64{0}
					mixture.DensityOf(p.Family).LogDensity(one, scores[i:i+1], b.Y[r:r+1], []float64{mean}, p.OwnOf(nil, i))
					logs[i] = one[0]
				}
				if b.Y[r] != 0 {
					logs = logs[:p.K]
				}
				want += b.Role[model.Weights][r] * (floats.LogSumExp(logs) - floats.LogSumExp(scores))
			}
		}
		if got, err := l.LogLikelihood(t.Context(), p); err != nil || math.Abs(got-want) > 1e-12*math.Abs(want) {
			t.Errorf("%s, k = %d: log-likelihood %v, want %v, error %v", name, p.K, got, want, err)
		}
		grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		if _, err := l.Grad(t.Context(), grad, x); err != nil {
			t.Fatal(err)
		}
		info := mat.NewSymDense(dim, nil)
		if err := l.Information(t.Context(), info, make([]float64, dim), p, nil); err != nil {
			t.Fatal(err)
		}
		const step = 1e-5
		for i := range x {
			to := slices.Clone(x)
			to[i] = x[i] + step
			above, _ := l.Grad(t.Context(), up, to)
			to[i] = x[i] - step
			below, _ := l.Grad(t.Context(), down, to)
			if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > 1e-8 {
				t.Errorf("%s, k = %d: entry %d of the gradient is %v, want %v", name, p.K, i, grad[i], want)
			}
			for j := range x {
				if want, got := (up[j]-down[j])/(2*step), info.At(i, j)/l.Rows(); math.Abs(got-want) > 1e-7 {
					t.Errorf("%s, k = %d: entry (%d, %d) of the information is %v, want %v", name, p.K, i, j, got, want)
				}
			}
		}
		h, v, got := mat.NewSymDense(dim, nil), make([]float64, dim), make([]float64, dim)
		if _, err := l.Hessian(t.Context(), h, grad, x); err != nil {
			t.Fatal(err)
		}
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		if err := l.HessianTimes(t.Context(), got, v, x); err != nil {
			t.Fatal(err)
		}
		var product mat.VecDense
		product.MulVec(h, mat.NewVecDense(dim, v))
		for i := range got {
			if math.Abs(got[i]-product.AtVec(i)) > 1e-12 {
				t.Errorf("%s, k = %d: entry %d of a product is %v, want %v", name, p.K, i, got[i], product.AtVec(i))
			}
		}
	}
}
