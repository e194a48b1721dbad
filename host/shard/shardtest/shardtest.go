// Package shardtest has what tests of sums over parts are made of.
package shardtest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// Drawn are n rows of a known mixture, in memory.
func Drawn(t *testing.T, cfg sample.Config) InMemory {
	t.Helper()
	s, err := sample.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Load(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return InMemory{Source: s, Data: data}
}

// Rows draws n rows of two ReLU experts over d features, which have these sizes and
// means, with weights where they are asked for.
func Rows(n int, mean, size float64, weighted bool) *dataset.Table {
	const d = 6
	rng := rand.New(rand.NewPCG(uint64(n), 17))
	x, y, w := mat.NewDense(n, d, nil), make([]float64, n), make([]float64, n)
	for i := range n {
		for j := range d {
			x.Set(i, j, mean+size*rng.NormFloat64())
		}
		e := rng.IntN(2)
		y[i] = max((x.At(i, e)-mean)/size, 0) + 0.2*rng.NormFloat64()
		w[i] = float64(rng.IntN(5)) * 0.1
	}
	if weighted {
		return dataset.WeightedMatrix(x, y, w)
	}
	return dataset.Matrix(x, y)
}

// Activation is that of a family without parameters.
func Activation(t *testing.T, family sdk.Family) sdk.Activation {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// EqualJSON says whether two models have the same bytes.
func EqualJSON(t *testing.T, what string, got, want interface{ JSON() ([]byte, error) }) {
	t.Helper()
	a, errA := got.JSON()
	b, errB := want.JSON()
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("%s: %v %v\n%s\nwant\n%s", what, errA, errB, a, b)
	}
}

// InMemory is a source of other rows.
type InMemory struct {
	dataset.Source
	Data *model.Data
}

// Read reads the other rows.
func (s InMemory) Read(ctx context.Context, fn func(*model.Block) error) error {
	return model.InOrder(ctx, s.Data, fn)
}

// Table100 is a table of 100 blocks, of which 64 are in its fingerprint: the last is not.
func Table100(t *testing.T, change func(rows InMemory)) (InMemory, shard.Table) {
	t.Helper()
	rows := Drawn(t, sample.Config{Activation: Activation(t, sigmoid.Family), K: 2, D: 4, N: 25500, Sigma: 0.1,
		Seed: 8})
	if change != nil {
		change(rows)
	}
	table, err := shard.Open(t.Context(), rows)
	if err != nil {
		t.Fatal(err)
	}
	return rows, table
}

// Unseen changes a row of a block that is not in the fingerprint: row 25356, of the last block.
func Unseen(rows InMemory) { rows.Data.Blocks[99].Y[11]++ }

// WantData says whether err is a *dataset.Error with these words.
func WantData(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	var bad *dataset.Error
	if !errors.As(err, &bad) {
		t.Errorf("%s: %v, want an error of the data", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: %v, want %q", what, err, w)
		}
	}
}
