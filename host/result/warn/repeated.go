package warn

import (
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

const (
	// mostLookedAt is how many of the rows, about, are held against each other: two numbers of each are kept.
	mostLookedAt = 1 << 17
	// leastRepeated is the share of rows equal to another from which on that is said.
	leastRepeated = 0.2
	// leastOwn is the share of different rows with a target of their own below which rows may be equal by chance: few
	// values of the target are then common to many rows.
	leastOwn = 0.9
)

// ofRepeated warns where many rows are equal to another in all columns though hardly two others have one target: that
// is no chance of rounding, and each counts as one observation.
func ofRepeated(ctx context.Context, m *fitted.Model, p *problem.Problem) error {
	part := model.Part(p.Given, mostLookedAt)
	if met, n, err := metAgain(ctx, part); err != nil || float64(2*met) < leastRepeated*float64(n) {
		return err // of rows that are equal to others at least half are met again
	}
	var rows, targets []uint64
	err := model.InOrder(ctx, part, func(b *model.Block) error {
		for r := range b.N {
			y := hashed(0, b.Y[r])
			row := y
			for j := range len(b.X) / b.N {
				row = hashed(row, b.Col(j)[r])
			}
			for _, role := range b.Role {
				if role != nil {
					row = hashed(row, role[r])
				}
			}
			rows, targets = append(rows, row), append(targets, y)
		}
		return nil
	})
	if err != nil {
		return err
	}
	different, again := distinct(rows)
	values, _ := distinct(targets)
	if float64(again) < leastRepeated*float64(len(rows)) || float64(values) < leastOwn*float64(different) {
		return nil
	}
	of := "%d of %d rows"
	if p.N() > len(rows) {
		of = "%d of %d rows looked at"
	}
	m.Fit.Warn(fitted.WarnRepeated, of+" are equal to another in all columns, and standard errors, BIC and tests "+
		"count each: of copies keep one", again, len(rows))
	return nil
}

// metAgain counts the rows of n whose target may be that of a row before, and one in thirty others: a look at the
// targets alone, for most tables have no rows that are equal.
func metAgain(ctx context.Context, rows model.Rows) (met, n int, err error) {
	var seen [mostLookedAt / 4]uint64 // 16 bits for each row
	err = model.InOrder(ctx, rows, func(b *model.Block) error {
		for r := range b.N {
			h := hashed(0, b.Y[r])
			word, bit := &seen[h%uint64(len(seen))], uint64(1)<<(h>>58)
			if *word&bit != 0 {
				met++
			}
			*word |= bit
		}
		n += b.N
		return nil
	})
	return met, n, err
}

// distinct says how many different numbers there are, and how many are there with another that is the same.
func distinct(v []uint64) (different, again int) {
	slices.Sort(v)
	for i := 0; i < len(v); {
		end := i + 1
		for end < len(v) && v[end] == v[i] {
			end++
		}
		if different++; end > i+1 {
			again += end - i
		}
		i = end
	}
	return different, again
}

// hashed adds a number to a hash of 64 bits (the finaliser of SplitMix64).
func hashed(h uint64, v float64) uint64 {
	h = h*0x9e3779b97f4a7c15 + math.Float64bits(v) + 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
