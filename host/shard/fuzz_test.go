package shard_test

import (
	"encoding"
	"testing"

	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/shardtest"
)

// FuzzMoments looks for headers and sums that are read as parts and are none.
func FuzzMoments(f *testing.F) {
	src := shardtest.Few(f)
	table, err := shard.Open(f.Context(), src)
	if err != nil {
		f.Fatal(err)
	}
	part, err := shard.Sum(f.Context(), src, table, shard.Place{I: 1, N: 2}, shard.Subsample{Seed: 1, Rows: 50})
	if err != nil {
		f.Fatal(err)
	}
	shardtest.FuzzParts(f, shard.MomentsFormat, "*.moments", func() encoding.BinaryUnmarshaler { return new(shard.Moments) }, part)
}
