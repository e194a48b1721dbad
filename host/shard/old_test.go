package shard_test

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// TestOldFiles: the parts in testdata, which a version without fingerprints, digests and
// climbs wrote, are read, merge, and go on: a round that is given an old one. Within a round they do not go with new
// ones.
func TestOldFiles(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("they were summed by the kernels of amd64")
	}
	act, ctx := shardtest.Activation(t, sigmoid.Family), t.Context()
	rows := shardtest.Drawn(t, sample.Config{Activation: act, K: 2, D: 5, N: 600, Sigma: 0.1, Seed: 8, Design: sample.Random})
	table, err := shard.Open(ctx, rows)
	if err != nil {
		t.Fatal(err)
	}
	moments := func(names ...string) (parts []*shard.Moments) {
		for _, name := range names {
			m, err := shard.ReadMoments(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, m)
		}
		return parts
	}
	files := []string{"a", "b"}
	first, err := shard.MergeMoments(files, moments("old-first-1.moments", "old-first-2.moments"))
	if err != nil {
		t.Fatal(err)
	}
	old := moments("old-second-1.moments", "old-second-2.moments")
	if _, err := shard.MergeMoments(files, old); err != nil {
		t.Error(err)
	}
	shardtest.Merged(t, 3, func(at shard.Place) (*shard.Moments, error) {
		return shard.SumSpan(ctx, rows, table, at, "first", first, act, shard.Asked{K: 2, Transform: host.Polynomial})
	})
	part, err := shard.Sum(ctx, rows, table, shard.Place{I: 1, N: 2}, shard.Subsample{Seed: 1, Rows: 200})
	if err != nil {
		t.Fatal(err)
	}
	_, err = shard.MergeMoments(files, []*shard.Moments{part, moments("old-first-2.moments")[0]})
	shardtest.WantData(t, "old beside new", err, "b: it does not go with a: one of the two has no fingerprint of all rows: it is of an older version")
}
