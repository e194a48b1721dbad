package diagnosis

import (
	"cmp"
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Panel is the scatter of the rows of a level of the only factor, or of all rows where there is none, over the only
// column of numbers, with the experts there.
type Panel struct {
	Level string // "" for all rows
	Name  string // of the column of numbers
	Rows  []int  // places of its points
	At    []float64
	X     []float64 // of these points
	Means [][]float64
	Gate  [][]float64
}

// maxPanels is how many levels have a panel: the commonest.
const maxPanels = 6

// panels are those of a table of one column of numbers and at most one factor; nil of others.
func (d *diagnosing) panels(ctx context.Context) (out []Panel, err error) {
	number, factor := -1, -1
	for c, col := range d.columns {
		switch {
		case col.levels == nil && number >= 0, col.levels != nil && factor >= 0:
			return nil, nil
		case col.levels == nil:
			number = c
		default:
			factor = c
		}
	}
	if number < 0 || len(d.kept) != len(d.Points) || d.Members[number].Binary || !(d.Members[number].SD > 0) {
		return nil, nil
	}
	base, levels := d.base(), []int{0}
	if factor >= 0 {
		levels = d.commonest(factor)
	}
	lo, hi := numeric.Extent(d.sorted(number))
	at := floats.Span(make([]float64, profilePoints), lo, hi)
	for _, l := range levels {
		p := Panel{Name: d.columns[number].name, At: at}
		if factor >= 0 {
			p.Level = d.columns[factor].levels[l]
			base[factor] = d.columns[factor].cell(float64(l))
		}
		for i, row := range d.kept {
			if factor < 0 || row[factor] == base[factor] {
				p.Rows, p.X = append(p.Rows, i), append(p.X, row[number])
			}
		}
		along, _, err := d.along(ctx, base, number, at)
		if err != nil {
			return nil, err
		}
		p.Means, p.Gate = along.Means, along.Gate
		out = append(out, p)
	}
	return out, nil
}

// commonest are the levels of a factor that have a panel, in their order.
func (d *diagnosing) commonest(c int) (levels []int) {
	shares := d.Members[c].Shares
	for l, share := range shares {
		if share > 0 {
			levels = append(levels, l)
		}
	}
	slices.SortStableFunc(levels, func(a, b int) int { return cmp.Compare(shares[b], shares[a]) })
	levels = levels[:min(len(levels), maxPanels)]
	slices.Sort(levels)
	return levels
}
