package atleast

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/stream"
)

// mostRows is of how many rows, drawn at random, the halves of a bound are made at most: it holds of any, and is
// the higher the more there are.
const mostRows = 4000

// mostDeals are made for a column that is constant in a half.
const mostDeals = 20

// Halves are halves in which no feature is constant, as the column of a rare level may be, of the first mostDeals. That
// looks at the features alone, given which the targets are independent still.
func Halves(ctx context.Context, rows model.Rows, schema dataset.Schema, seed uint64) (half [2]dataset.Loaded,
	why string, err error) {
	fixed := ""
	for deal := range mostDeals {
		half, why, err = halves(ctx, rows, schema, seed, deal)
		if why != "" || err != nil {
			return half, why, err
		}
		if fixed = cmp.Or(constant(half[0]), constant(half[1])); fixed == "" {
			return half, "", nil
		}
	}
	return half, fmt.Sprintf("column %q is the same in all rows of a half", fixed), nil
}

// constant is the first feature that is the same in all rows; "" where none is.
func constant(t dataset.Loaded) string {
	for j := range t.Data.D {
		least, most := math.Inf(1), math.Inf(-1)
		for i := range t.Data.Blocks {
			column := t.Data.Blocks[i].Col(j)
			least, most = min(least, floats.Min(column)), max(most, floats.Max(column))
		}
		if least == most {
			return t.Schema().Features[j]
		}
	}
	return ""
}

// halves deals the rows of a table into two independent halves, or mostRows of them where there are more, or says
// why there are none. The rows of a cluster or a group are in one; of a weight, which is a count, each copy is dealt by
// itself.
func halves(ctx context.Context, rows model.Rows, schema dataset.Schema, seed uint64,
	index int) (half [2]dataset.Loaded, why string, err error) {
	dealt, why, err := deal(ctx, rows, stream.New(seed, stream.Halves, index))
	if why != "" || err != nil {
		return half, why, err
	}
	for h := range half {
		data, err := model.Where(ctx, rows, func(row int) bool { return dealt[h][row] > 0 })
		if err != nil {
			return half, "", err
		}
		of := slices.Sorted(maps.Keys(dealt[h]))
		for i := range data.Blocks {
			for r := range data.Blocks[i].Role[model.Weights] {
				data.Blocks[i].Role[model.Weights][r] = dealt[h][of[r]]
			}
			of = of[data.Blocks[i].N:]
		}
		half[h] = dataset.InMemory(schema, data)
	}
	return half, "", nil
}

// unit is what is dealt as one: rows of an id, or one row. Its key says where.
type unit struct {
	key    float64 // uniform on [0, 1)
	copies float64 // that are dealt one by one; 0 of rows that go together with the weights that they have
	rows   []int
	weight []float64 // of rows
}

// deal returns the weights of the rows of each half, those of none left out.
func deal(ctx context.Context, rows model.Rows, rng *rand.Rand) (dealt [2]map[int]float64, why string, err error) {
	dealt = [2]map[int]float64{{}, {}}
	n, _ := rows.Dims()
	keep := min(1, mostRows/float64(n))
	put := func(u *unit, first, second float64) {
		for h, copies := range [2]float64{first, second} {
			for i, row := range u.rows {
				w := copies
				if u.copies == 0 { // all of them, or none
					w *= u.weight[i]
				}
				if w > 0 {
					dealt[h][row] = w
				}
			}
		}
	}
	// by its key, or each copy by itself
	byChance := func(u *unit) {
		switch {
		case u.copies > 1:
			first := binomial(u.copies, keep/2, rng)
			put(u, first, binomial(u.copies-first, keep/(2-keep), rng))
		case u.key < keep/2:
			put(u, 1, 0)
		case u.key < keep:
			put(u, 0, 1)
		}
	}
	var all []*unit // of a table that is dealt whole
	known, row, counted := make(map[float64]*unit), 0, false
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		ids := b.Role[model.Clusters]
		together := ids != nil
		if !together {
			ids = b.Role[model.Groups]
		}
		for r := range b.N {
			w := b.Weight(r)
			if w != math.Trunc(w) {
				why = "the weights are no counts"
			}
			var u *unit
			if ids != nil {
				u = known[ids[r]]
			}
			if u == nil {
				u = &unit{key: rng.Float64()}
				if !together {
					u.copies = w
				}
				if ids != nil {
					known[ids[r]] = u
				}
				if ids != nil || keep == 1 {
					all = append(all, u)
				}
				counted = counted || u.copies > 1
			}
			u.rows, u.weight = append(u.rows, row), append(u.weight, w)
			if ids == nil && keep < 1 {
				byChance(u)
			}
			row++
		}
		return nil
	})
	if why != "" || err != nil {
		return dealt, why, err
	}
	if keep < 1 || counted {
		for _, u := range all {
			byChance(u)
		}
		return dealt, "", nil
	}
	slices.SortStableFunc(all, func(a, b *unit) int { return cmp.Compare(a.key, b.key) })
	for i, u := range all {
		put(u, float64(1-i%2), float64(i%2))
	}
	return dealt, "", nil
}

// binomial draws how many of n are taken, each with probability p.
func binomial(n, p float64, rng *rand.Rand) float64 {
	if n == 0 || p == 1 {
		return n
	}
	return distuv.Binomial{N: n, P: p, Src: rng}.Rand()
}
