package recheck

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/model"
)

// hinge is a φ with a kink, bump one that is curved.
type hinge struct{}

func (hinge) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = max(v, 0)
	}
	return nil
}
func (hinge) Deriv(context.Context, []float64, []float64) error { panic("not asked for") }

type bump struct{}

func (bump) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = v / (1 + v*v)
	}
	return nil
}
func (bump) Deriv(context.Context, []float64, []float64) error { panic("not asked for") }

// squares is the loss as it is written down, from the first term to the last.
func squares(net *model.Network, act model.Activation, data *model.Data) float64 {
	sum, weight := 0.0, 0.0
	for _, b := range data.Blocks {
		for t := range b.N {
			f := 0.0
			for i := range net.K {
				z := []float64{0}
				for j, w := range net.Unit(i) {
					z[0] += w * b.X[j*b.N+t]
				}
				act.Eval(context.Background(), z, z)
				f += net.Output[i] * z[0]
			}
			w := b.Weight(t)
			sum += w * (f - b.Y[t]) * (f - b.Y[t])
			weight += w
		}
	}
	return sum / (2 * weight)
}

// TestNetworkCheck: the loss as it is written down passes, of targets and weights of any size and of fits that are exact to
// rounding, at kinks too; a hundred-millionth of it more or less does not, nor does another network, nor no number.
func TestNetworkCheck(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 5))
	for n := range 40 {
		act := []model.Activation{hinge{}, bump{}}[n%2]
		net := model.NewNetwork(3, 3)
		scale := math.Pow(10, float64(n%7-3))
		for i := range net.Weights {
			net.Weights[i] = float64(1 + rng.IntN(5)) // that cancel where features are whole numbers
		}
		for i := range net.Output {
			net.Output[i] = scale * rng.NormFloat64()
		}
		data := rowsOf(rng, params(rng, "2", 1), 700, n%3 == 0)
		exact := n%5 == 0
		for _, b := range data.Blocks {
			for at := range b.X {
				if n%4 == 0 { // predictors at the kink, to rounding
					b.X[at] = 0.1 * float64(rng.IntN(5)-2)
				}
			}
			for t := range b.Y {
				if b.Y[t] *= scale; exact {
					one := model.Block{N: 1, X: []float64{b.X[t], b.X[b.N+t], b.X[2*b.N+t]}, Y: []float64{0}}
					f, room := []float64{0}, make([]float64, 3)
					net.Mean(ctx, f, room, act, &one)
					b.Y[t] = f[0]
				}
			}
		}
		f := NetworkFit{Rows: data, Act: act, Network: net, Loss: squares(net, act, data)}
		if exact && f.Loss > 1e-28*scale*scale {
			t.Fatalf("a loss of %v is not exact to rounding", f.Loss)
		}
		if err := f.Check(ctx); err != nil {
			t.Fatalf("scale %g: %v", scale, err)
		}
		var defect *Error
		wrong := f
		for _, loss := range []float64{f.Loss*(1+1e-8) + 1e-20*scale*scale, f.Loss*(1-1e-8) - 1e-20*scale*scale, math.NaN(), math.Inf(1)} {
			if wrong.Loss = loss; !errors.As(wrong.Check(ctx), &defect) || defect.What != "loss" {
				t.Errorf("scale %g, loss %v instead of %v: %v", scale, loss, f.Loss, wrong.Check(ctx))
			}
		}
		wrong = f
		wrong.Network = net.Clone()
		wrong.Network.Output[1] += 1e-3 * scale
		if !errors.As(wrong.Check(ctx), &defect) {
			t.Error("another network passes")
		}
	}
}

// lying is φ but for some of its calls.
type lying struct {
	bump
	calls int
	wrong []int
}

func (l *lying) Eval(ctx context.Context, dst, z []float64) error {
	err := l.bump.Eval(ctx, dst, z)
	if l.calls++; slices.Contains(l.wrong, l.calls) {
		dst[0] += 1e-3
	}
	return err
}

// TestNetworkCheckSample: of 200 rows, which are one block, eight are asked for once more: what is not the same there is seen.
func TestNetworkCheckSample(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 6))
	net := model.NewNetwork(3, 3)
	for i := range net.Weights {
		net.Weights[i] = rng.NormFloat64()
	}
	copy(net.Output, []float64{1, -1, 2})
	data := rowsOf(rng, params(rng, "2", 1), 200, false)
	f := NetworkFit{Rows: data, Network: net, Loss: squares(net, bump{}, data), Workers: 1}
	for row := range sampled {
		// The block, then the rows; where these differ the block again, with both ends of its arguments, and the rows.
		act := &lying{wrong: []int{2 + row, 1 + sampled + 3 + 1 + row}}
		f.Act = act
		if err := f.Check(ctx); !errors.As(err, new(*Error)) {
			t.Errorf("sampled row %d: %v after %d calls", row, err, act.calls)
		}
	}
}
