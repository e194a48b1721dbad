package specification

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// TestGroupDrawsOfParts: groups drawn of parts of a table, written and read, are those of the whole table, and numbers
// that are none are refused.
func TestGroupDrawsOfParts(t *testing.T) {
	p := groupParams("binomial")
	data := groupRows(p, 200, 300, rand.New(rand.NewPCG(34, 8)))
	gathered, rows := model.Gathered{D: data.D}, 0
	for id := 0.0; id < 200; id++ { // the rows of every group beside each other
		for i := range data.Blocks {
			b := &data.Blocks[i]
			for r, g := range b.Role[model.Groups] {
				if g == id {
					gathered.Add(b, r)
					rows++
				}
			}
		}
	}
	whole := gathered.Data()
	free := loss.All
	free.GateColumns = []int{2}
	s, err := NewSteps(sigmoidal{}, p, free)
	if err != nil {
		t.Fatal(err)
	}
	squares, err := s.Squares(t.Context(), whole)
	if err != nil {
		t.Fatal(err)
	}
	s.Scale(squares)
	_, want, err := s.SumGroups(t.Context(), whole, 0, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &groupTerms{terms: s.terms}
	if m.table, err = byGroup(t.Context(), whole, 0); err != nil {
		t.Fatal(err)
	}
	_, prior, err := m.sums(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := m.all(prior)
	var has model.ByRole[bool]
	has[model.Trials] = true
	sums, got := s.NoGroupSums(), NewGroupDraws(p.D)
	for _, blocks := range [][2]int{{0, 0}, {0, 1}, {1, 3}, {3, 99}} {
		part, first := model.Gathered{D: data.D}, 0
		for i := range whole.Blocks {
			b := &whole.Blocks[i]
			for r, g := range b.Role[model.Groups] {
				if of := m.table.block[int(g)]; of < blocks[0] {
					first++
				} else if of < blocks[1] {
					part.Add(b, r)
				}
			}
		}
		own, drawn, err := s.SumGroups(t.Context(), part.Data(), first, all, 1)
		if err != nil {
			t.Fatal(err)
		}
		read, ok := GroupDrawsOf(drawn.Values(), p.D, p.K, has)
		if !ok || !slices.Equal(read.Values(), drawn.Values()) {
			t.Fatalf("blocks %v: not read as they were written", blocks)
		}
		sums.Merge(own)
		got.Append(read)
	}
	if got.Draws() == 0 || !slices.Equal(got.Values(), want.Values()) {
		t.Errorf("%d draws of parts, %d of the table, or others", got.Draws(), want.Draws())
	}
	if sums.Groups.Weight != 200 || int(sums.Weight) != rows {
		t.Errorf("%v groups of %v rows, want 200 of %d", sums.Groups.Weight, sums.Weight, rows)
	}
	// How many are wanted; two rows and a draw, of expert 1 with weight .5; the features and trials of each row.
	good := []float64{9, 2, 1, 1, 0.5, 0, 0, 0, 3, 0, 0, 0, 1}
	if _, ok := GroupDrawsOf(good, 3, 2, has); !ok {
		t.Fatal("draws are refused")
	}
	for what, at := range map[string]struct {
		place int
		value float64
	}{"half a row": {1, 1.5}, "no rows": {1, 0}, "more rows than there are": {1, 1e9}, "no draws": {2, 0},
		"no such expert": {3, 2}, "no weight": {4, 0}, "half a trial": {8, 0.5}} {
		bad := slices.Clone(good)
		bad[at.place] = at.value
		if _, ok := GroupDrawsOf(bad, 3, 2, has); ok {
			t.Errorf("%s is read", what)
		}
	}
	for n := range good {
		if _, ok := GroupDrawsOf(good[:n], 3, 2, has); ok && n != 1 {
			t.Errorf("the first %d numbers are read", n)
		}
	}
}
