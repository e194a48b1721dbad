package model

import (
	"math"
	"sync"

	"gonum.org/v1/gonum/floats"
)

// Totals are sums over the rows of a table that every likelihood of them needs.
type Totals struct {
	Weight    float64 // sum of the observations' weights, n where there are none
	RMS       float64 // root mean square of the target, weights apart
	Deviation float64 // standard deviation of the target, weights apart
}

// Memo keeps the totals of rows that are not in memory, where they cost a pass: rows
// that embed one have them summed once. The zero value is ready.
type Memo struct {
	once   sync.Once
	totals Totals
	err    error
}

func (m *Memo) memo() *Memo { return m }

// TotalsOf returns the totals of rows. The error is of rows that cannot be read.
func TotalsOf(rows Rows) (Totals, error) {
	m, ok := rows.(interface{ memo() *Memo })
	if !ok || Held(rows) {
		return totals(rows)
	}
	kept := m.memo()
	kept.once.Do(func() { kept.totals, kept.err = totals(rows) })
	return kept.totals, kept.err
}

func totals(rows Rows) (t Totals, err error) {
	// Differences from the first value keep their digits where all values are far from 0.
	var squares, sum, sumSquares, first float64
	var room Room
	for i := range Blocks(rows) {
		b, err := rows.Block(i, &room)
		if err != nil {
			return t, err
		}
		if i == 0 && b.N > 0 {
			first = b.Y[0]
		}
		squares += floats.Dot(b.Y, b.Y)
		for _, y := range b.Y {
			sum += y - first
			sumSquares += (y - first) * (y - first)
		}
		if b.W == nil {
			t.Weight += float64(b.N)
		}
		for _, w := range b.W {
			t.Weight += w
		}
	}
	count, _ := rows.Dims()
	n := float64(count)
	t.RMS, t.Deviation = math.Sqrt(squares/n), math.Sqrt(max(0, sumSquares/n-sum/n*(sum/n)))
	return t, nil
}
