package crossvalidation

import (
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
)

// TestSimplest: the one of the fewest parameters that is not worse than the best by more than a standard error of their difference.
func TestSimplest(t *testing.T) {
	const n = 400
	beside := func(other score, off, spread float64) (s score) { // by off ± spread a row: off·n ± spread·√n
		for t, v := range other.terms {
			s.count(1, v+off+spread*float64(2*(t%2)-1))
		}
		return s
	}
	base := beside(score{terms: make([]float64, n)}, -1, 1)
	second := beside(base, .5, .1)
	for name, c := range map[string]struct {
		held []score
		want int
	}{
		"the first is best":      {[]score{base, beside(base, -.2, .1)}, 0},
		"better by 80 ± 10":      {[]score{base, beside(base, .2, .5)}, 1},
		"better by 4 ± 20":       {[]score{base, beside(base, .01, 1)}, 0},
		"the third by 4 ± 20":    {[]score{base, second, beside(second, .01, 1)}, 1},
		"all rows by one number": {[]score{base, beside(base, .01, 0)}, 1},
		"one":                    {[]score{base}, 0},
	} {
		for i := range c.held {
			c.held[i].parameters = i
		}
		if got, _ := simplest(c.held); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestGroupParts: all rows of a group are in one part, and the parts have as many groups as can be.
func TestGroupParts(t *testing.T) {
	id := make([]float64, 60)
	for i := range id {
		id[i] = float64(i / 6)
	}
	data, err := dataset.Load(t.Context(), dataset.Matrix(mat.NewDense(60, 1, nil), id).With(model.Groups, "id", id))
	if err != nil {
		t.Fatal(err)
	}
	part, count := groupParts(data, 3, 1)
	rows := make([]int, 3)
	for r, p := range part {
		rows[p]++
		if p != part[r/6*6] {
			t.Errorf("row %d is in another part than its group", r+1)
		}
	}
	if count != 10 || min(rows[0], rows[1], rows[2]) != 18 {
		t.Errorf("%d groups in parts of %v rows", count, rows)
	}
}

// TestSame: a feature that has one value in all rows but those of one part is none of the rows without that part, nor of
// the part; one that has one value in all rows stays, and is refused later.
func TestSame(t *testing.T) {
	const n = 300 // more than a block
	x := mat.NewDense(n, 4, nil)
	for r := range n {
		x.SetRow(r, []float64{float64(r), 0, 2, 1})
	}
	src := func() dataset.Source { return dataset.Matrix(x, make([]float64, n)) }
	drawn, err := inParts(t.Context(), src(), 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	fold := drawn.part[280]
	other := slices.IndexFunc(drawn.part, func(p int) bool { return p != fold })
	x.Set(280, 1, 1)   // a level that one row has
	x.Set(280, 3, 5)   // and one that two have, in two parts
	x.Set(other, 3, 5) //
	table, err := inParts(t.Context(), src(), 5, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := table.constant(); !slices.Equal(got, []string{"x2"}) {
		t.Errorf("%v are the same without some part, want x2", got)
	}
	for f := range 5 {
		want := []string{"x1", "x2", "x3", "x4"}
		if f == fold {
			want = []string{"x1", "x3", "x4"}
		}
		for name, rows := range map[string]dataset.Loaded{"without": table.without(f), "left": table.left(f)} {
			if got := rows.Schema().Features; !slices.Equal(got, want) || rows.Data.D != len(want) {
				t.Errorf("part %d, %s: features %v, want %v", f, name, got, want)
			}
			if last := rows.Data.Blocks[0].Col(len(want) - 1)[0]; last != 1 && last != 5 {
				t.Errorf("part %d, %s: x4 is %v", f, name, last)
			}
		}
	}
}
