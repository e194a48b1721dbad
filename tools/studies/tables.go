package main

import (
	"context"
	"encoding/csv"
	"flag"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/terms"
)

// table is one of a study: its file without the ending, and its target; "" for the last column.
type table struct{ name, target string }

// tables are the flags of studies of real tables.
type tables struct{ dir, only *string }

func tableFlags() tables {
	return tables{flag.String("tables", "",
		"`directory` of the tables of docs/heldout.md, as docs/peers/heldout.R writes them"),
		flag.String("only", "", "the one `table`, by its name; all")}
}

// admits says whether a table is among those that were asked for.
func (s tables) admits(name string) bool { return *s.only == "" || *s.only == name }

// open returns a table.
func (s tables) open(ctx context.Context, t table) dataset.Loaded {
	if *s.dir == "" {
		log.Fatal("no -tables: no directory of tables")
	}
	path := filepath.Join(*s.dir, t.name+".csv")
	source := func(sel dataset.Selection) (dataset.Source, error) { return dataset.Open(path, sel) }
	opened := must(terms.Open(ctx, source, terms.Request{Selection: dataset.Selection{Target: t.target},
		Categorical: wordsOf(path)}))
	return dataset.InMemory(opened.Source.Schema(), must(dataset.Load(ctx, opened.Source)))
}

// wordsOf are the columns of a table with a cell that is no number.
func wordsOf(path string) (out []string) {
	f := must(os.Open(path))
	defer f.Close()
	rows := must(csv.NewReader(f).ReadAll())
	for j, name := range rows[0] {
		isWord := func(row []string) bool { _, err := strconv.ParseFloat(row[j], 64); return err != nil }
		if slices.ContainsFunc(rows[1:], isWord) {
			out = append(out, name)
		}
	}
	return out
}

// splits are the flags of studies of parts of real tables.
type splits struct {
	tables
	number *int
	first  *uint64
}

func splitFlags() splits {
	number, first := flag.Int("splits", 10, "splits of each"), flag.Uint64("first", 0, "number of the first split")
	return splits{tableFlags(), number, first}
}

// each does one with every split of a table: three quarters to fit and the rest to judge by.
func (s splits) each(ctx context.Context, t table, one func(split uint64, train, test dataset.Loaded)) {
	for split := *s.first; split < *s.first+uint64(*s.number); split++ {
		if t.name == "pieces" {
			one(split, searchtest.NestedPieces(2*split+1, 1500), searchtest.NestedPieces(2*split+2, 1500))
			continue
		}
		all := s.open(ctx, t)
		train := make([]bool, all.Data.N)
		for _, i := range rand.New(rand.NewPCG(split, 7)).Perm(all.Data.N)[:3*all.Data.N/4] {
			train[i] = true
		}
		one(split, all.Where(func(r int) bool { return train[r] }), all.Where(func(r int) bool { return !train[r] }))
	}
}
