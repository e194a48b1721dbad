package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/sdk"
)

// ranges fits k = 1 to 5 to tables of one to three experts, half of them with hard cells, and counts the fits that
// came of another k, what that gained, and where log-likelihoods fall:
//
//	go -C tools/studies run . ranges -sets 40
func ranges(ctx context.Context) {
	sets := flag.Uint64("sets", 40, "tables")
	from := flag.Uint64("from", 1, "the first of them")
	parse()
	by, fits, falls, largest := map[string]int{}, 0, 0, 0.0
	for seed := *from; seed < *from+*sets; seed++ {
		rng := rand.New(rand.NewPCG(seed, 141))
		act := []sdk.Activation{searchtest.Ident, searchtest.Ident, searchtest.Rectify, tanh}[rng.IntN(4)]
		g := searchtest.Design{Act: act, K: 1 + rng.IntN(3), D: 1 + rng.IntN(4), N: 200 << rng.IntN(4),
			Sigma: []float64{.1, .3, .5}[rng.IntN(3)], Intercept: true, PerExpert: rng.IntN(3) == 0}
		g.Cells = []string{"", "argmax"}[rng.IntN(2)]
		src, _ := g.Draw(seed)
		all := must(host.FitRange(ctx, g.Act, src, 1, 5, configOf(g))).Fit.Selection
		falls += len(criterion.Falls(all))
		for _, c := range all {
			fits++
			if b := c.Begun; b != nil {
				way := "from k − 1"
				if b.K > c.K {
					way = "from k + 1"
				}
				by[way]++
				if b.Gain > 0.5 {
					by[way+", by more than .5"]++
				}
				largest = max(largest, b.Gain)
				fmt.Printf("table %d, %s k=%d d=%d n=%d, k = %d: %v\n", seed, act.Info().Name, g.K, g.D, g.N, c.K, b)
			}
		}
	}
	fmt.Printf("%d fits, %v, at most by %.1f; %d fall\n", fits, by, largest, falls)
}
