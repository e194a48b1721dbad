package model

import (
	"slices"
	"testing"
)

// TestMap: a view of a view of a part has the values of the functions applied in
// turn, targets and weights of what it is a view of, and leaves that as it was.
func TestMap(t *testing.T) {
	d := blocks(20*BlockRows + 7)
	for i := range d.Blocks {
		d.Blocks[i].W = slices.Repeat([]float64{2}, d.Blocks[i].N)
	}
	double := func(dst, src *Block) {
		for j, v := range src.X {
			dst.X[j] = 2 * v
		}
	}
	twoColumns := func(dst, src *Block) {
		copy(dst.Col(0), src.Col(0))
		for r, v := range src.Col(0) {
			dst.Col(1)[r] = -v
		}
		dst.W = nil
	}
	for _, rows := range []Rows{d, Part(d, 5*BlockRows)} {
		view := Map(Map(rows, 1, double), 2, twoColumns)
		n, _ := rows.Dims()
		if gotN, gotD := view.Dims(); gotN != n || gotD != 2 {
			t.Fatalf("%d rows and %d features, want %d and 2", gotN, gotD, n)
		}
		kept, err := InMemory(t.Context(), view)
		if err != nil {
			t.Fatal(err)
		}
		for i := range Blocks(rows) {
			b, err := rows.Block(i, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := &kept.Blocks[i]
			if !slices.Equal(got.Y, b.Y) || got.W != nil {
				t.Fatalf("block %d: another target, or weights", i)
			}
			for r, v := range b.X {
				if got.Col(0)[r] != 2*v || got.Col(1)[r] != -2*v {
					t.Fatalf("block %d, row %d: %v and %v of %v", i, r, got.Col(0)[r], got.Col(1)[r], v)
				}
			}
		}
	}
	if d.Blocks[1].X[0] != BlockRows || d.Blocks[1].W[0] != 2 {
		t.Error("the view changed the rows")
	}
}
