package recheck

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// rowsOf draws rows of a mixture of linear experts with noise, some of them with weights.
func rowsOf(rng *rand.Rand, p *model.Params, n int, weights bool) *model.Data {
	data := &model.Data{N: n, D: p.D}
	for left := n; left > 0; left -= model.BlockRows {
		m := min(left, model.BlockRows)
		b := model.Block{N: m, X: make([]float64, m*p.D), Y: make([]float64, m)}
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		z := make([]float64, p.K*m)
		p.Predictors(z, &b)
		for t := range m {
			b.Y[t] = z[rng.IntN(p.K)*m+t] + p.SigmaOf(0)*rng.NormFloat64()
		}
		if weights {
			b.Role[model.Weights] = make([]float64, m)
			for t := range b.Role[model.Weights] {
				b.Role[model.Weights][t] = float64(rng.IntN(3))
			}
		}
		data.Blocks = append(data.Blocks, b)
	}
	return data
}

func params(rng *rand.Rand, shape string, sigma float64) *model.Params {
	h, err := model.ParseHierarchy(shape)
	if err != nil {
		panic(err)
	}
	p := model.NewParams(h.Leaves(), 3)
	if h.Depth() > 1 {
		p.Tree = h
	}
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, p.K), make([]float64, p.K-1)
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	p.Sigma[0] = sigma
	return p
}

// fitOf is the check of what the passes say of p.
func fitOf(t *testing.T, data *model.Data, p *model.Params) Fit {
	t.Helper()
	ctx := context.Background()
	l := loss.NewLikelihood(data, identity{}, p, loss.All, 1)
	stated, err := l.LogLikelihood(ctx, p)
	if err != nil {
		t.Fatal(err)
	}
	return Fit{
		Rows: data, Act: identity{}, Result: Of(p), Passes: Of(p), LogLikelihood: stated,
		Widened: func(ctx context.Context, times float64) (float64, error) {
			q := p.Clone()
			floats.Scale(times, q.Sigma)
			return l.LogLikelihood(ctx, q)
		},
	}
}

// TestCheck: what the passes say passes, of flat gates and trees, outputs, weights and gates of
// any size; a hundred-millionth of it more or less does not, nor does another result.
func TestCheck(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range 40 {
		p := params(rng, gates[n%len(gates)], 0.3)
		data := rowsOf(rng, p, 700, n%2 == 0)
		size := math.Pow(10, float64(n%20))
		floats.Scale(size, p.Gating)
		floats.Scale(size, p.GatingIntercepts)
		if n%3 == 0 {
			p.SetOutput(n%2 == 0, 0.5, 2)
		}
		f := fitOf(t, data, p)
		if err := f.Check(ctx); err != nil {
			t.Fatalf("gates %s of size %g: %v", gates[n%len(gates)], size, err)
		}
		var defect *Error
		for _, part := range []float64{1e-8, -1e-8, math.NaN(), math.Inf(1), math.Inf(-1)} {
			wrong := f
			s, err := f.sum(ctx, f.Result, false)
			if err != nil {
				t.Fatal(err)
			}
			if wrong.LogLikelihood += part * s.size.value(); size < 1e6 {
				if err := wrong.Check(ctx); !errors.As(err, &defect) {
					t.Errorf("%g of the log-likelihood more: error %v", part, err)
				}
			}
		}
		other := p.Clone()
		other.Sigma[0] *= 1.001
		wrong := f
		if wrong.Result = Of(other); !errors.As(wrong.Check(ctx), &defect) {
			t.Error("another result passes")
		}
	}
}

// TestCheckSample: the sample in many digits is held to as well: an activation that is another
// for a single row is seen there.
func TestCheckSample(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	p := params(rng, "2", 0.3)
	f := fitOf(t, rowsOf(rng, p, 300, false), p)
	f.Act = fickle{}
	var defect *Error
	if err := f.Check(context.Background()); !errors.As(err, &defect) {
		t.Errorf("error %v", err)
	}
}

// fickle is the identity on blocks, and something else on a row alone.
type fickle struct{ identity }

func (fickle) Eval(_ context.Context, dst, z []float64) error {
	copy(dst, z)
	if len(z) < 10 {
		for i := range dst {
			dst[i] += 1e-3
		}
	}
	return nil
}

// TestCheckExact: a fit whose residuals are rounding is held in its means: another order of
// the sums passes, another regressor does not.
func TestCheckExact(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(3, 1))
	for range 20 {
		p := params(rng, "2", 0)
		data := rowsOf(rng, p, 300, false)
		p.Sigma[0] = 1e-15
		// Expert 1 has all rows, exactly.
		clear(p.Gating)
		p.GatingIntercepts[0] = 40
		for i := range data.Blocks {
			b := &data.Blocks[i]
			z := make([]float64, 2*b.N)
			p.Predictors(z, b)
			copy(b.Y, z[:b.N])
		}
		f := fitOf(t, data, p)
		if err := f.Check(ctx); err != nil {
			t.Fatal(err)
		}
		s, err := f.explained(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		if s.exact() {
			t.Fatal("rounding explains next to nothing: the draw tests nothing")
		}
		wrong := f
		other := p.Clone()
		other.Regressors[0] *= 1 + 1e-6
		wrong.Result = Of(other)
		var defect *Error
		if err := wrong.Check(ctx); !errors.As(err, &defect) {
			t.Errorf("a regressor that is 1e-6 larger passes: %v", err)
		}
	}
}

// TestRoundingExplains: what the roundings of the terms alone may do to a log-density is at
// least what they do, for sums in another order and parameters that have been to other
// units and back, and no more than a thousand times as much.
func TestRoundingExplains(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(4, 1))
	most := 0.0
	for n := range 60 {
		p := params(rng, gates[n%len(gates)], math.Pow(10, -12*rng.Float64()))
		data := rowsOf(rng, p, 50, false)
		floats.Scale(math.Pow(10, 9*rng.Float64()), p.Gating)
		q := p.Clone()
		shift := []float64{1e3, 10, 0}
		for i := range p.K { // to other units and back
			for j, s := range shift {
				q.RegressorIntercepts[i] = (q.RegressorIntercepts[i] + q.Regressor(i)[j]*s) - q.Regressor(i)[j]*s
				if i < p.K-1 {
					q.GatingIntercepts[i] = (q.GatingIntercepts[i] + q.Gate(i)[j]*s) - q.Gate(i)[j]*s
				}
			}
		}
		b := &data.Blocks[0]
		one, other := newRoom(Of(p), shift), newRoom(Of(q), shift)
		for _, r := range []*room{one, other} {
			if err := r.take(ctx, identity{}, b, true); err != nil {
				t.Fatal(err)
			}
		}
		for row := range b.N {
			v, w := one.term(b, row), other.term(b, row)
			exact, err := Of(p).exactly(ctx, identity{}, b, row)
			if err != nil {
				t.Fatal(err)
			}
			bound := one.rounding(b, row, v) + other.rounding(b, row, w) + agreed*math.Abs(v)
			if math.Abs(v-w) > bound || math.Abs(v-exact) > bound {
				t.Fatalf("log densities %v, %v and %v, and rounding explains %g", v, w, exact, bound)
			}
			if bound > 1e-8*math.Abs(v) {
				most = max(most, max(math.Abs(v-w), math.Abs(v-exact))/bound)
			}
		}
	}
	if most < 1e-3 {
		t.Errorf("rounding reaches %g of what it is said to explain", most)
	}
}
