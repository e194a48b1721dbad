package main

import (
	"context"
	"flag"
	"fmt"
	"math"
	"strings"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
)

// arrangements prints how many 95 % intervals of the regressors hold the truth, given the best arrangement, over all
// that were weighed, and given the one that EM from the truth ends in; docs/studies/inference.md has what it prints:
//
//	go -C tools/studies run . arrangements -sets 300
func arrangements(ctx context.Context) {
	sets := flag.Int("sets", 300, "data sets of each design")
	first := flag.Uint64("first", 20001, "the first of their seeds")
	only := flag.String("only", "", "parts whose `names` hold this: of uniform or normal, and from the truth")
	parse()
	for _, c := range []searchtest.Arranged{
		{Name: "uniform, uneven", D: 2, Sigma: 0.5, Intercepts: []float64{1.5, 0.5}, Uniform: true},
		{Name: "normal, even", D: 2, Sigma: 0.2, Intercepts: []float64{0.3, 0}},
	} {
		if strings.Contains(c.Name, *only) {
			givenBest(ctx, c, *sets, *first)
		}
		if strings.Contains(c.Name+", from the truth", *only) {
			fromTruth(ctx, c, *sets, *first)
		}
	}
}

// givenBest fits the data sets of a design.
func givenBest(ctx context.Context, c searchtest.Arranged, sets int, first uint64) {
	var given, over, givenPass, overPass share
	several, none := 0, 0
	for seed := range uint64(sets) {
		src, truth := c.Draw(1500, first+seed)
		cfg := host.Config{K: 3, Intercepts: host.BothIntercepts, Arrangements: true, Threads: 1}
		m := must(host.Fit(ctx, line, src, cfg))
		if len(m.Arrangements.Others) > 0 {
			several++
		}
		if m.StandardErrors == nil && m.Arrangements.Intervals == nil {
			none++
			continue
		}
		var g, o share
		countOver(&g, &o, m, truth)
		fmt.Printf("seed %d: %d of %d given the best, %d of %d over arrangements\n", first+seed, g.in, g.of, o.in, o.of)
		given.add(g)
		over.add(o)
		if m.Fit.Certificate != nil && m.Fit.Certificate.Optimum == "pass" {
			givenPass.add(g)
			overPass.add(o)
		}
	}
	fmt.Printf("%s: 95 %% intervals hold %v of regressors given the best, %v over arrangements; of passes %v and %v; "+
		"%d of %d had several, %d no intervals\n", c.Name, given, over, givenPass, overPass, several, sets, none)
}

// fromTruth fits them by EM from the truth: what normal intervals hold where the arrangement is the right one.
func fromTruth(ctx context.Context, c searchtest.Arranged, sets int, first uint64) {
	var held share
	for seed := range uint64(sets) {
		src, truth := c.Draw(1500, first+seed)
		m := must(host.Fit(ctx, line, src, host.Config{K: 3, Intercepts: host.BothIntercepts,
			Method: host.EM{Starts: 1}, Start: truth.Clone(), Threads: 1}))
		if m.StandardErrors == nil {
			continue
		}
		for i, j := range metric.Nearest(m.Params(), truth) {
			for f, a := range m.Regressors[i] {
				within(&held, a, 1.959964*m.StandardErrors.Regressors[i][f], truth.Regressor(j)[f])
			}
		}
	}
	fmt.Printf("%s: from the truth 95 %% intervals hold %v of regressors\n", c.Name, held)
}

// countOver counts the intervals of a fit's regressors given its arrangement, and over all.
func countOver(given, over *share, m *fitted.Model, truth *model.Params) {
	for i, j := range metric.Nearest(m.Params(), truth) { // metric.EregOf does not tell lengths and signs apart
		for f, a := range m.Regressors[i] {
			want := truth.Regressor(j)[f]
			if m.StandardErrors != nil {
				within(given, a, 1.959964*m.StandardErrors.Regressors[i][f], want)
			}
			if s := m.Arrangements.Intervals; s != nil {
				ends := s.Regressors[i][f]
				within(over, (ends[0]+ends[1])/2, (ends[1]-ends[0])/2, want)
			} else {
				within(over, a, 1.959964*m.StandardErrors.Regressors[i][f], want)
			}
		}
	}
}

// within counts an interval that goes as far as half to either side.
func within(held *share, est, half, truth float64) {
	if half > 0 {
		held.count(math.Abs(est-truth) <= half)
	}
}
