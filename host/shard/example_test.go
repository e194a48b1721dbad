package shard_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/plugins/relu"
)

// The moments of three parts of a table, in two rounds, are those of the table.
func Example() {
	ctx := context.Background()
	act, err := relu.Family.Activation(nil)
	if err != nil {
		log.Fatal(err)
	}
	rows, err := sample.New(sample.Config{Activation: act, K: 2, D: 6, N: 5000, Sigma: 0.1, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	table, err := shard.Open(ctx, rows)
	if err != nil {
		log.Fatal(err)
	}
	const n = 3
	files := []string{"part 1", "part 2", "part 3"}
	round := func(sum func(at shard.Place) (*shard.Moments, error)) *shard.Moments {
		var parts []*shard.Moments // of as many machines, as a rule: see MarshalBinary
		for i := range n {
			part, err := sum(shard.Place{I: i + 1, N: n})
			if err != nil {
				log.Fatal(err)
			}
			parts = append(parts, part)
		}
		all, err := shard.MergeMoments(files, parts)
		if err != nil {
			log.Fatal(err)
		}
		return all
	}
	first := round(func(at shard.Place) (*shard.Moments, error) {
		return shard.Sum(ctx, rows, table, at, shard.Subsample{Seed: 1, Rows: 1000})
	})
	second := round(func(at shard.Place) (*shard.Moments, error) {
		return shard.SumSpan(ctx, rows, table, at, "first", first, act, shard.Asked{K: 2, Transform: host.Polynomial})
	})
	all, taken := second.Rows()
	fmt.Printf("round %d of 2: %d rows, subsample of %d\n", second.Round(), all, taken)
	m, err := host.FitSums(ctx, act, second, "second", host.Config{K: 2, Method: host.Moments{}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%d regressors over %d features\n", len(m.Regressors), m.D)
	// Output:
	// round 2 of 2: 5000 rows, subsample of 957
	// 2 regressors over 6 features
}
