package network

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// bent is piecewise linear with three kinks.
var bent = sdk.Func{
	Name: "bent", Kinks: []float64{-1, 0, 1.5},
	G: func(z float64) float64 {
		return 0.1*z + 0.4*max(z+1, 0) + 0.8*max(z, 0) - 0.5*max(z-1.5, 0)
	},
	DG: func(z float64) float64 {
		slope := 0.1
		for _, k := range []struct{ at, by float64 }{{-1, 0.4}, {0, 0.8}, {1.5, -0.5}} {
			if z > k.at {
				slope += k.by
			}
		}
		return slope
	},
}

// TestRecoveryFromTensors: k = 3, d = 10, κ = 2, v given: descent from the tensors' start ends at
// the truth, to 1e−3 of W without noise, for the curved tanh and for an activation with kinks in three
// places. All three problems of each; the figure 003-recovery has rates.
func TestRecoveryFromTensors(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		act sdk.Func
		n   int
	}{{tanh, 10000}, {bent, 10000}} {
		for seed := range uint64(3) {
			truth, data := draw(t, c.act, sample.NetworkConfig{K: 3, D: 10, N: c.n, Condition: 2, Seed: 100 + seed})
			r, err := fitOf(t, c.act, data, Request{K: 3, Output: Given, V: truth.Output, Descent: 100, Seed: 1})
			if err != nil {
				t.Fatalf("%s: %v", c.act.Name, err)
			}
			e := metric.Units(r.Network, truth, r.Odd)
			t.Logf("%s, problem %d: relative error of W %.2g, %v", c.act.Name, seed, e.Weights, r.Starts[0].Kind)
			if len(r.Starts) != 1 || r.Starts[0].Kind != "tensors" || !(e.Weights < 1e-3) {
				t.Errorf("%s, problem %d: relative error %v", c.act.Name, seed, e.Weights)
			}
			if r.Certificate.Optimum != infer.Pass {
				t.Errorf("%s, problem %d: %+v", c.act.Name, seed, r.Certificate)
			}
		}
	}
}

// TestNoStructure: of data that no network of the activation fits, or without
// any structure, a fit is finite.
func TestNoStructure(t *testing.T) {
	_, data := draw(t, relu, sample.NetworkConfig{K: 2, D: 4, N: 2000, Sigma: 1e6, Seed: 3})
	for _, act := range []sdk.Func{relu, tanh, softplus, bent} {
		r, err := fitOf(t, act, data, Request{K: 2, Output: Signs, Starts: 1, Descent: 10, Seed: 1})
		if err != nil {
			t.Errorf("%s: %v", act.Name, err)
			continue
		}
		for _, v := range append(r.Network.Weights, r.Loss, r.Network.Sigma) {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				t.Errorf("%s: %v", act.Name, r.Network.Weights)
				break
			}
		}
	}
}
