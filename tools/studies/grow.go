package main

import (
	"context"
	"flag"
	"fmt"
	"strings"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
)

// grow prints how often the shape that data were drawn from is found. The table of
// docs/studies/trees.md is that of
//
//	go -C tools/studies run . grow -sets 5
//
// which takes half an hour of one core: n = 20,000, d = 5, σ = 0.1, unit gates, unit regressors at
// least 0.5 apart.
func grow(ctx context.Context) {
	sets := flag.Int("sets", 5, "data sets of every cell")
	rows := flag.Int("rows", 20000, "rows of a data set")
	only := flag.String("only", "", "cells whose names hold this")
	parse()
	for _, family := range []sdk.Family{identity.Family, relu.Family} {
		for _, shape := range []string{"2x2", "2x(1,2)", "3", "3x2"} {
			name := shape + " " + family.Name
			if !strings.Contains(name, *only) {
				continue
			}
			found, others, act, tree := 0, map[string]int{}, activation(family), must(model.ParseHierarchy(shape))
			for seed := uint64(1); seed <= uint64(*sets); seed++ {
				src := must(sample.New(sample.Config{Activation: act, Tree: tree, K: tree.Leaves(), D: 5, N: *rows,
					Sigma: 0.1, Design: sample.Separated, Seed: seed}))
				m := must(host.FitTree(ctx, act, src, host.DefaultMaxLeaves, host.Config{Seed: 1}))
				h := m.Params().Hierarchy().String()
				fmt.Printf("%s, data set %d: %s, %d trees fitted\n", name, seed, h, len(m.Fit.Selection))
				if h == shape {
					found++
				} else {
					others[h]++
				}
			}
			fmt.Printf("| %s | %d of %d | %v |\n", name, found, *sets, others)
		}
	}
}
