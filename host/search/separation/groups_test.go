package separation

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestGroups: under 2x(1,3), of whose second gate the first branch is separated from the other
// two, its row alone is infinite; and after the branches have changed places the row that
// belongs to the same boundary.
func TestGroups(t *testing.T) {
	h := searchtest.Tree(t, "2x(1,3)") // rows: 0 of the first gate, 1 and 2 of the second
	p := model.NewParams(4, 1)
	p.Tree = h
	g := &Groups{gates: h.Gates(), of: [][]int{nil, {0, 2, 2}}}
	for row, infinite := range []bool{false, true, false} {
		if g.Infinite(row) != infinite || g.Leads(row) != infinite {
			t.Errorf("row %d: infinite %v, leads %v, want %v", row, g.Infinite(row), g.Leads(row), infinite)
		}
	}
	if (*Groups)(nil).Infinite(1) || (*Groups)(nil).Relabel(p, []int{0, 1, 2, 3}) != nil {
		t.Error("no groups, and something is infinite")
	}
	// Leaf 1 goes last: its branch is then that whose predictor is 0, and both others lead
	// away from it, as one group that the second of them names.
	moved := g.Relabel(p, []int{0, 3, 1, 2})
	if want := (&Groups{gates: h.Gates(), of: [][]int{nil, {1, 1, 2}}}); !reflect.DeepEqual(moved, want) {
		t.Errorf("%+v, want %+v", moved, want)
	}
	for row, want := range [][2]bool{{false, false}, {true, false}, {true, true}} {
		if got := [2]bool{moved.Infinite(row), moved.Leads(row)}; got != want {
			t.Errorf("moved, row %d: infinite and leads %v, want %v", row, got, want)
		}
	}
	// The branches of the first gate change places, and the gates with them.
	turned := g.Relabel(p, []int{3, 0, 1, 2})
	if want := (&Groups{gates: searchtest.Tree(t, "2x(3,1)").Gates(), of: [][]int{nil, {0, 2, 2}}}); !reflect.DeepEqual(turned, want) {
		t.Errorf("turned %+v, want %+v", turned, want)
	}
}

// TestHardenATree: the probabilities of a gate below another become 0 and 1 between its
// groups, and nothing else does.
func TestHardenATree(t *testing.T) {
	p := model.NewParams(4, 1)
	p.Tree = searchtest.Tree(t, "2x(1,3)")
	p.Gating = []float64{0.7, 2, 0.4}
	q := harden(p, &Groups{gates: p.Tree.Gates(), of: [][]int{nil, {0, 2, 2}}})
	b := &model.Block{N: 2, X: []float64{1, -1}}
	was, is := make([]float64, 8), make([]float64, 8)
	mixture.Mixture{}.Prior(was, p, b)
	mixture.Mixture{}.Prior(is, q, b)
	for r, want := range [][]float64{
		{was[0], 1 - was[0], 0, 0},
		{was[1], 0, (1 - was[1]) * was[5] / (was[5] + was[7]), (1 - was[1]) * was[7] / (was[5] + was[7])},
	} {
		for i, v := range want {
			if math.Abs(is[2*i+r]-v) > 1e-12 {
				t.Errorf("row %d, expert %d: %v, want %v", r, i, is[2*i+r], v)
			}
		}
	}
}

// TestAllInfinite: only where each branch of each gate stands alone nothing of the gates is left to fit.
func TestAllInfinite(t *testing.T) {
	h := searchtest.Tree(t, "2x(1,3)")
	for _, c := range []struct {
		g    *Groups
		want bool
	}{
		{UnderOne([]int{0, 1, 2}), true},
		{UnderOne([]int{1, 1, 2}), false},
		{UnderOne([]int{0, 2, 2}), false},
		{&Groups{gates: h.Gates(), of: [][]int{{0, 1}, {0, 1, 2}}}, true},
		{&Groups{gates: h.Gates(), of: [][]int{{0, 1}, {0, 2, 2}}}, false},
		{&Groups{gates: h.Gates(), of: [][]int{{0, 1}, nil}}, false},
		{&Groups{gates: h.Gates(), of: [][]int{nil, {0, 1, 2}}}, false},
	} {
		if got := c.g.All(); got != c.want {
			t.Errorf("%v: all %v", c.g.of, got)
		}
	}
}

// TestBranchesShare: what two branches share is what their leaves do, each of the one with each of the
// other.
func TestBranchesShare(t *testing.T) {
	shared := []float64{ // above the diagonal
		0, 1, 2, 4, 8,
		0, 0, 16, 32, 64,
		0, 0, 0, 128, 256,
		0, 0, 0, 0, 512,
		0, 0, 0, 0, 0,
	}
	gates := searchtest.Tree(t, "2x(2,3)").Gates()
	for _, c := range []struct {
		gate, a, b int
		want       float64
	}{{0, 0, 1, 2 + 4 + 8 + 16 + 32 + 64}, {1, 0, 1, 1}, {2, 0, 1, 128}, {2, 0, 2, 256}, {2, 1, 2, 512}} {
		if got := branchesShare(shared, 5, gates[c.gate], c.a, c.b); got != c.want {
			t.Errorf("gate %d: branches %d and %d share %v, want %v", c.gate, c.a, c.b, got, c.want)
		}
	}
}

// TestSeparated: a gate that shares rows separates none; nor does one that would lose some if it were hard, which is no
// reason to give up the others.
func TestSeparated(t *testing.T) {
	p, data := searchtest.Quarters(t)
	gates := p.Tree.Gates()
	soft := p.Clone()
	soft.Gate(gates[1].Row(0))[1] = -1
	// At −0.3 the logit is 6, and the gate's probability for the other branch 1/400.
	left, right, below := [3]float64{-1, -0.3, 1}, [3]float64{1, -0.3, 3}, [3]float64{-0.3, -1, 2}
	two := []int{0, 1}
	act := searchtest.Activation(t, identity.Family)
	for name, c := range map[string]struct {
		p    *model.Params
		rows *model.Data
		want [][]int
	}{
		"all hard":                    {p, data(), [][]int{two, two, two}},
		"one is soft":                 {soft, data(), [][]int{two, nil, two}},
		"one would lose a row":        {p, data(left), [][]int{two, nil, two}},
		"two would":                   {p, data(left, right), [][]int{two, nil, nil}},
		"all would":                   {p, data(left, right, below), nil},
		"the others are soft, and it": {soft, data(right, below), nil},
	} {
		l := loss.NewLikelihood(c.rows, act, c.p, loss.All, 1)
		got, err := Separated(t.Context(), l, c.p)
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (c.want == nil) || got != nil && !reflect.DeepEqual(got.of, c.want) {
			t.Errorf("%s: %+v, want %v", name, got, c.want)
		}
	}
	flat := model.NewParams(2, 1)
	flat.RegressorIntercepts, flat.GatingIntercepts, flat.Sigma[0] = []float64{0, 10}, make([]float64, 1), 0.3
	flat.Gating[0] = -20
	for _, lost := range []bool{false, true} {
		b := model.Block{N: 3, X: []float64{-1, 1, -0.3}, Y: []float64{0.1, 10.1, 0.1}}
		if lost {
			b.Y[2] = 10.1
		}
		got, err := Separated(t.Context(), loss.NewLikelihood(&model.Data{N: 3, D: 1, Blocks: []model.Block{b}}, act, flat, loss.All, 1), flat)
		if err != nil || (got == nil) != lost {
			t.Errorf("two experts, a row is lost %v: %+v, error %v", lost, got, err)
		}
	}
}

// TestSeparatedInManyRows: a gate that separates some of the rows is looked at on all: one that shares a block among
// those that are not looked at first separates none.
func TestSeparatedInManyRows(t *testing.T) {
	flat := model.NewParams(2, 1)
	flat.RegressorIntercepts, flat.GatingIntercepts, flat.Sigma[0] = []float64{0, 10}, make([]float64, 1), 0.3
	flat.Gating[0] = -20
	act := searchtest.Activation(t, identity.Family)
	for _, shared := range []int{-1, 0, 1, 15} { // block
		data := &model.Data{N: 16 * model.BlockRows, D: 1}
		for i := range 16 {
			b := model.Block{N: model.BlockRows, X: make([]float64, model.BlockRows), Y: make([]float64, model.BlockRows)}
			for r := range b.N {
				b.X[r], b.Y[r] = float64(r%2*2-1), float64(10*(r%2))
				if i == shared {
					b.X[r] /= 100
				}
			}
			data.Blocks = append(data.Blocks, b)
		}
		got, err := Separated(t.Context(), loss.NewLikelihood(data, act, flat, loss.All, 1), flat)
		if err != nil || (got == nil) != (shared >= 0) {
			t.Errorf("block %d shared: %+v, error %v", shared, got, err)
		}
	}
}

// TestTogether are components worked out by hand.
func TestTogether(t *testing.T) {
	for _, c := range []struct {
		k       int
		edges   [][2]int
		groups  []int
		several bool
	}{
		{2, nil, []int{0, 1}, true},
		{2, [][2]int{{0, 1}}, []int{1, 1}, false},
		{4, [][2]int{{0, 2}}, []int{2, 1, 2, 3}, true},
		{4, [][2]int{{0, 3}, {1, 2}}, []int{3, 2, 2, 3}, true},
		{5, [][2]int{{0, 4}, {1, 2}, {2, 4}, {3, 4}}, []int{4, 4, 4, 4, 4}, false},
	} {
		groups, several := together(c.k, func(i, j int) bool { return slices.Contains(c.edges, [2]int{i, j}) })
		if !slices.Equal(groups, c.groups) || several != c.several {
			t.Errorf("%d nodes, edges %v: %v, several %v", c.k, c.edges, groups, several)
		}
	}
}

// TestHarden: the probabilities between groups become 0 and 1, those within a group
// stay.
func TestHarden(t *testing.T) {
	p := model.NewParams(4, 1)
	p.GatingIntercepts = []float64{1, 2, 0.5}
	p.Gating = []float64{5, -5, 0.2}
	q := harden(p, UnderOne([]int{1, 1, 3, 3})) // the last of each group is its name
	b := &model.Block{N: 2, X: []float64{3, -3}}
	was, is, lse := make([]float64, 8), make([]float64, 8), make([]float64, 2)
	p.GateLogits(was, b)
	q.GateLogits(is, b)
	model.Softmax(was, lse, was, 2)
	model.Softmax(is, lse, is, 2)
	// At x = 3 expert 1, the name of the first group, is at −13, below 0; at −3 at 17.
	for row, group := range [][]int{{2, 3}, {0, 1}} {
		i, j := group[0], group[1]
		want := was[i*2+row] / (was[i*2+row] + was[j*2+row])
		if got := is[i*2+row]; math.Abs(got-want) > 1e-6 || math.Abs(is[i*2+row]+is[j*2+row]-1) > 1e-12 {
			t.Errorf("row %d: probabilities %v, expert %d had %v of its group", row, is, i, want)
		}
	}
}
