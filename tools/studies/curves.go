package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"strings"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/learn/learntest"
	"github.com/gatedlearning/moe/host/metric"
)

// curves prints errors of curves learned from 10,000 rows, and whether BIC prefers the true function. It takes some
// seconds a case:
//
//	go -C tools/studies run . curves -seeds 10
func curves(ctx context.Context) {
	seeds := flag.Uint64("seeds", 10, "seeds of each case")
	first := flag.Uint64("first", 11, "the first of them")
	only := flag.String("only", "", "cases whose `names` hold this, such as relu/k=2")
	parse()
	cases, right, near, preferred := 0, 0, 0, 0
	for seed := *first; seed < *first+*seeds; seed++ {
		for _, g := range []struct{ text, name string }{
			{"expr: z", "identity"}, {"expr: max(z, 0)", "relu"}, {"expr: max(z, 0.1*z)", "leakyrelu"},
			{"expr: sigmoid(z)", "sigmoid"}, {"expr: softplus(z)", "expr: softplus(z)"},
			{"expr: exp(-(z - 0.7)^2)", "expr: exp(-z^2)"},
		} {
			for k := 1; k <= 3; k++ {
				name := fmt.Sprintf("%s/k=%d/%d", g.name, k, seed)
				if !strings.Contains(name, *only) {
					continue
				}
				l := must(learntest.Try(ctx, g.text, k, 10_000, .1, seed))
				cases++
				known := math.NaN()
				if l.EReg >= 1e-3 {
					m := must(host.Fit(ctx, l.Act, l.Src, host.Config{K: k}))
					known, _ = metric.Ereg(m.Params(), l.Src.Truth)
				}
				if l.EReg < 1e-3 || l.EReg <= 1.5*known {
					right++
				}
				if l.Sup <= .05 {
					near++
				}
				less := math.Inf(1)
				for _, n := range l.Named {
					if n.Name == g.name {
						less = n.BIC - l.BIC
					}
				}
				if less < 0 {
					preferred++
				}
				fmt.Printf("%s: E_reg %.2g (known %.2g), sup %.3f sd, %d knots; %s %+.1f, least BIC %s\n", name,
					l.EReg, known, l.Sup, l.Knots, g.name, less, &l.Named[0])
			}
		}
	}
	fmt.Printf("%d cases: E_reg < 1e-3 or at most 1.5 times that with g known in %d, sup error <= .05 sd in %d, "+
		"the true function preferred by BIC in %d\n", cases, right, near, preferred)
}

// curveSize counts how often what is true is rejected at .05 by either test, and how often a band has the true g at a
// point:
//
//	go -C tools/studies run . curve-size -samples 60
//
// Of 60 samples of a test of size .05 more than 8 reject with probability .004, and of 60 bands of 95 % fewer than 51
// hold with that.
func curveSize(ctx context.Context) {
	samples := flag.Uint64("samples", 60, "samples of each case")
	first := flag.Uint64("first", 1, "the seed of the first of them")
	rows := flag.Int("rows", 2000, "rows of each")
	parse()
	all := [4]int{}
	for _, c := range []struct{ text, name string }{
		{"expr: sigmoid(z)", "sigmoid"}, {"expr: softplus(z)", "expr: softplus(z)"}, {"expr: max(z, 0)", "relu"},
		{"expr: z", "identity"}, {"expr: exp(-(z - 0.7)^2)", "expr: exp(-z^2)"},
	} {
		for k := 1; k <= 3; k++ {
			var of [4]int // judged, and rejected by the score test, the likelihood ratio and either
			held, bands := 0, 0
			for seed := *first; seed < *first+*samples; seed++ {
				l := must(learntest.Try(ctx, c.text, k, *rows, .1, seed))
				for _, n := range l.Named {
					if n.Name == c.name && n.P != nil {
						for i, is := range []bool{true, *n.P < .05, n.Ratio.P < .05, n.Rejected()} {
							if is {
								of[i]++
								all[i]++
							}
						}
					}
				}
				if l.StandardErrors == nil {
					continue
				}
				p := l.Curve[30]
				z := []float64{p.Z}
				check(l.Act.Eval(ctx, z, z))
				bands++
				if math.Abs(z[0]-p.G) <= 1.96**p.SE {
					held++
				}
			}
			fmt.Printf("%s, k = %d: of %d rejected by the score test %d, the likelihood ratio %d, either %d; the band "+
				"in the middle holds in %d of %d\n", c.name, k, of[0], of[1], of[2], of[3], held, bands)
		}
	}
	fmt.Printf("of %d rejected by the score test %d, the likelihood ratio %d, either %d\n", all[0], all[1], all[2],
		all[3])
}
