package newton_test

import (
	"encoding"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// FuzzNewton looks for headers and sums that are read as parts of a pass and are none.
func FuzzNewton(f *testing.F) {
	src := shardtest.Few(f)
	act, err := sigmoid.Family.Activation(nil)
	if err != nil {
		f.Fatal(err)
	}
	table, err := shard.Open(f.Context(), src)
	if err != nil {
		f.Fatal(err)
	}
	m, err := host.Fit(f.Context(), act, src, host.Config{K: 2, Method: host.Auto{Starts: 2}})
	if err != nil {
		f.Fatal(err)
	}
	part, err := newton.Sum(f.Context(), src, table, shard.Place{I: 1, N: 2}, m, act, 1)
	if err != nil {
		f.Fatal(err)
	}
	shardtest.FuzzParts(f, newton.Format, "*.newton", func() encoding.BinaryUnmarshaler { return new(newton.Sums) }, part, groupedPart(f))
}

// groupedPart is a part of rows in groups, at a model that knows of none, which it costs less to judge.
func groupedPart(f *testing.F) *newton.Sums {
	f.Helper()
	act, err := identity.Family.Activation(nil)
	if err != nil {
		f.Fatal(err)
	}
	rows := drawGroups(60, "", 3)
	src := rows.table(300)
	m, err := host.Fit(f.Context(), act, rows.plain(300), host.Config{K: 2, Gate: host.Softmax{Features: []string{"level"}}, Method: host.EM{Starts: 1}})
	if err != nil {
		f.Fatal(err)
	}
	table, err := shard.Open(f.Context(), src)
	if err != nil {
		f.Fatal(err)
	}
	part, err := newton.Sum(f.Context(), src, table, shard.Place{I: 1, N: 2}, m, act, 1)
	if err != nil {
		f.Fatal(err)
	}
	return part
}
