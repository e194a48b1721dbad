package main

import (
	"context"
	"flag"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

// units are the activations of the study of networks.
var units = []sdk.Func{
	{Name: "sigmoid", G: logistic, DG: func(z float64) float64 { return logistic(z) * (1 - logistic(z)) }},
	{Name: "relu", G: func(z float64) float64 { return max(z, 0) }, Kinks: []float64{0}, DG: func(z float64) float64 {
		if z > 0 {
			return 1
		}
		return 0
	}},
	tanh,
	{Name: "softplus", G: func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + max(z, 0) },
		DG: logistic},
}

// networks counts, with the settings of the command, how many fits to samples end above what noise explains by
// five standard errors, and how many of these pass:
//
//	go -C tools/studies run . networks -sets 10
func networks(ctx context.Context) {
	sets := flag.Int("sets", 10, "data sets of each design")
	parse()
	for _, act := range units {
		for _, c := range []struct {
			k, d, n   int
			condition float64
		}{{3, 10, 2500, 1}, {2, 5, 1000, 2}, {4, 8, 10000, 2}} {
			pass, missed, wrong, starts := 0, 0, 0, 0
			for seed := uint64(101); seed < 101+uint64(*sets); seed++ {
				const sigma = 0.1
				src := must(sample.NewNetwork(sample.NetworkConfig{Activation: act, K: c.k, D: c.d, N: c.n,
					Sigma: sigma, Condition: c.condition, Seed: seed}))
				r := must(network.Fit(ctx, src, act, network.Request{K: c.k, Output: network.Signs, Starts: 4, More: 12,
					Descent: 200, Seed: seed}))
				starts += len(r.Starts)
				passes := r.Certificate.Optimum == infer.Pass
				far := r.Network.Sigma > sigma*(1+5/math.Sqrt(2*float64(c.n)))
				if passes {
					pass++
				}
				if far {
					missed++
				}
				if passes && far {
					wrong++
				}
			}
			fmt.Printf("%s k=%d d=%d n=%d: of %d fits %d pass, %d missed the optimum, %d of these pass; %.1f starts\n",
				act.Name, c.k, c.d, c.n, *sets, pass, missed, wrong, float64(starts)/float64(*sets))
		}
	}
}
