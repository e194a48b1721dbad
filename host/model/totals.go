package model

import (
	"context"
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"
)

// Totals are sums over the rows of a table that every likelihood of them needs.
type Totals struct {
	Weight    float64   // sum of the observations' weights, n where there are none
	RMS       float64   // root mean square of the target, weights apart
	Deviation float64   // standard deviation of the target, weights apart
	Largest   []float64 // of every feature, in size
}

// FarTarget is how many of its standard deviations a target is from 0 where its size says little of what tells its rows
// apart.
const FarTarget = 100

// FarFromZero says whether the target is.
func (t Totals) FarFromZero() bool { return t.RMS > FarTarget*t.Deviation }

// Memo keeps the totals of rows, which cost a pass: rows that embed one and are not in memory,
// and those of [Data.Settled], have them summed once. The zero value is ready.
type Memo struct {
	once   sync.Once
	totals Totals
	err    error
}

func (m *Memo) memo() *Memo { return m }

// TotalsOf returns the totals of rows. The error is of rows that cannot be read.
func TotalsOf(rows Rows) (Totals, error) {
	var kept *Memo
	if d, ok := rows.(*Data); ok {
		kept = d.Memo
	} else if m, ok := rows.(interface{ memo() *Memo }); ok && settled(rows) {
		kept = m.memo()
	}
	if kept == nil {
		return totals(rows)
	}
	kept.once.Do(func() { kept.totals, kept.err = totals(rows) })
	return kept.totals, kept.err
}

// settled says whether rows that are in memory will not change.
func settled(rows Rows) bool {
	switch r := rows.(type) {
	case *Data:
		return r.Memo != nil
	case *part:
		return settled(r.rows)
	case *mapped:
		return settled(r.rows)
	}
	return true
}

func totals(rows Rows) (Totals, error) {
	of, err := TotalsOfEach(rows, 1)
	return of[0], err
}

// TotalsOfEach returns the totals of every one of m targets.
func TotalsOfEach(rows Rows, m int) ([]Totals, error) {
	// Differences from the first value keep their digits where all values are far from 0.
	type sums struct{ squares, sum, sumSquares, first float64 }
	of, out, weight := make([]sums, m), make([]Totals, m), 0.0
	count, d := rows.Dims()
	largest := make([]float64, d)
	var room Room
	for i := range Blocks(rows) {
		b, err := rows.Block(i, &room)
		if err != nil {
			return out, err
		}
		for c := range of {
			s, column := &of[c], b.Y[c*b.N:(c+1)*b.N]
			if i == 0 && b.N > 0 {
				s.first = column[0]
			}
			s.squares += floats.Dot(column, column)
			for _, y := range column {
				s.sum += y - s.first
				s.sumSquares += (y - s.first) * (y - s.first)
			}
		}
		for j, most := range largest {
			for _, x := range b.Col(j) {
				if x = math.Abs(x); x > most {
					most = x
				}
			}
			largest[j] = most
		}
		if b.Role[Weights] == nil {
			weight += float64(b.N)
		}
		for _, w := range b.Role[Weights] {
			weight += w
		}
	}
	n := float64(count)
	for c, s := range of {
		out[c] = Totals{Weight: weight, RMS: math.Sqrt(s.squares / n),
			Deviation: math.Sqrt(max(0, s.sumSquares/n-s.sum/n*(s.sum/n))), Largest: largest}
	}
	return out, nil
}

// Core returns the root mean square of the targets that are not far off, where those that are, a few rows, are most of
// that of all; 0 where they are not. Those beyond three times the root mean square are left out, again and again,
// until it does not halve any more.
func Core(ctx context.Context, rows Rows) (float64, error) {
	const beyond, most = 3, 0.1 // times the root mean square; its share that is left where others are most of it
	all, core := 0.0, math.Inf(1)
	for {
		n, squares := 0, 0.0
		err := InOrder(ctx, rows, func(b *Block) error {
			for _, y := range b.Y {
				if math.Abs(y) <= beyond*core {
					n, squares = n+1, squares+y*y
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		was := core
		if core = math.Sqrt(squares / float64(n)); all == 0 {
			all = core
		}
		if !(core < was/2) {
			break
		}
	}
	if !(core > 0 && core < most*all) {
		return 0, nil
	}
	return core, nil
}
