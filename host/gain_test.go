package host

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
)

// TestGainBound: fits of more experts with the sigma of the fit gain less than its certificate says, and what is said
// to be gained is nearly reached; it does not depend on the units of the rows. Where a bound does not say anything, or
// the gate is not constant, or the activation another, there is none.
func TestGainBound(t *testing.T) {
	testslow.Mark(t)
	const n = 200
	rng := rand.New(rand.NewPCG(6, 6))
	x, y, scaled := mat.NewDense(n, 1, nil), make([]float64, n), mat.NewDense(n, 1, nil)
	for i := range y {
		v := rng.NormFloat64()
		x.Set(i, 0, v)
		scaled.Set(i, 0, 100+7*v)
		y[i] = 1 - 2*v + 0.3*rng.NormFloat64()
		if rng.Float64() < 0.4 {
			y[i] = -1 + v + 0.3*rng.NormFloat64()
		}
	}
	id := activation(identity.Family, nil)
	fit := func(x *mat.Dense, k int, c Config) *fitted.Model {
		c.K, c.Intercepts = k, BothIntercepts
		m, err := Fit(t.Context(), id, dataset.Matrix(x, y), c)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	m := fit(x, 2, Config{Gate: Constant{}})
	g := m.Fit.Certificate.Gain
	if g == nil || g.Upper > 5 || g.Upper < g.Found || g.Upper > g.Found+0.11 || g.Experts < 2 {
		t.Fatalf("gain %+v", g)
	}
	best := 0.0
	for _, k := range []int{3, 6} {
		more := fit(x, k, Config{Gate: Constant{}, Noise: Shared{Sigma: m.Sigma[0]}})
		best = max(best, more.Fit.LogLikelihood-m.Fit.LogLikelihood)
	}
	if best > g.Upper || best < g.Found-0.5 {
		t.Errorf("more experts gain %.4f, and the certificate has %+v", best, *g)
	}
	if other := fit(scaled, 2, Config{Gate: Constant{}}).Fit.Certificate.Gain; other == nil ||
		other.Upper > g.Upper+0.1 || other.Upper < g.Upper-0.1 {
		t.Errorf("gain %+v, and in other units %+v", *g, other)
	}
	if soft := fit(x, 2, Config{}).Fit.Certificate.Gain; soft != nil {
		t.Errorf("of a softmax gate %+v", *soft)
	}
	for i := range n / 10 { // noise of heavy tails
		y[i] *= 3
	}
	if far := fit(x, 2, Config{Gate: Constant{}}).Fit.Certificate.Gain; far != nil {
		t.Errorf("of rows far off %+v", *far)
	}
	id = activation(relu.Family, nil)
	if other := fit(x, 2, Config{Gate: Constant{}}).Fit.Certificate.Gain; other != nil {
		t.Errorf("of another activation %+v", *other)
	}
}
