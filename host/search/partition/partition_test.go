package partition

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// tableOf are rows as a survey has them.
func tableOf(t testing.TB, x *mat.Dense, y []float64) *Table {
	t.Helper()
	rows, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	out, err := New(t.Context(), new(problem.Problem), rows)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// counts are how many rows have each of k labels.
func counts(label []int, k int) []int {
	n := make([]int, k)
	for _, i := range label {
		if i >= 0 {
			n[i]++
		}
	}
	return n
}

// TestResidualClusters: rows above a plane and below it are two clusters by the residual, whatever unit it has, over more
// than one block. The weight of the residual is a random multiple, e^z, of that of all features: of ten draws one in six is below
// e^−1, and the clusters may then be others.
func TestResidualClusters(t *testing.T) {
	const n = 300
	for _, unit := range []float64{1e-3, 1, 1e3} {
		rng := rand.New(rand.NewPCG(3, 8))
		x, y := mat.NewDense(n, 2, nil), make([]float64, n)
		for r := range y {
			x.SetRow(r, searchtest.Normal(rng, 2))
			y[r] = unit * (500 + 20*x.At(r, 0) - 30*x.At(r, 1) + float64(1-2*(r%2)))
		}
		rows, found := tableOf(t, x, y), 0
		for seed := range uint64(10) {
			label := rows.ResidualClusters(rand.New(rand.NewPCG(seed, 1)), 2)
			whole := label[0] != label[1]
			for r, i := range label {
				whole = whole && i == label[r%2]
			}
			if whole {
				found++
			}
		}
		if found < 6 {
			t.Errorf("unit %g: %d of 10 draws found the two sides", unit, found)
		}
	}
}

// TestCuts of one feature are intervals of it. Taken back, the last first, each has cut an interval that
// was the largest then; a cut leaves a row on the side where it began, and y has no say.
func TestCuts(t *testing.T) {
	const n, k = 300, 5
	rng := rand.New(rand.NewPCG(5, 8))
	x, y := mat.NewDense(n, 1, searchtest.Normal(rng, n)), searchtest.Normal(rng, n)
	rows := tableOf(t, x, y)
	order := make([]int, n)
	for r := range order {
		order[r] = r
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x.At(a, 0), x.At(b, 0)) })
	var possible func(cells []int, sizes map[int]int, next int) bool
	possible = func(cells []int, sizes map[int]int, next int) bool {
		if next == 0 {
			return true
		}
		at := slices.Index(cells, next)
		if at < 0 { // cut off nothing
			return possible(cells, sizes, next-1)
		}
		for _, side := range []int{at - 1, at + 1} {
			if side < 0 || side >= len(cells) {
				continue
			}
			largest := true
			for _, c := range cells {
				if c != next && c != cells[side] && sizes[c] > sizes[next]+sizes[cells[side]] {
					largest = false
				}
			}
			before := make(map[int]int)
			for _, c := range cells {
				before[c] = sizes[c]
			}
			before[cells[side]] += before[next]
			if largest && possible(slices.Delete(slices.Clone(cells), at, at+1), before, next-1) {
				return true
			}
		}
		return false
	}
	for seed := range uint64(20) {
		label := rows.Cuts(rand.New(rand.NewPCG(seed, 1)), k)
		var cells []int
		for _, r := range order {
			if len(cells) == 0 || cells[len(cells)-1] != label[r] {
				cells = append(cells, label[r])
			}
		}
		sizes := make(map[int]int)
		for i, m := range counts(label, k) {
			sizes[i] = m
		}
		unlike := slices.Compact(slices.Sorted(slices.Values(cells)))
		if len(unlike) != len(cells) || sizes[0] == 0 {
			t.Fatalf("seed %d: cells %v", seed, cells)
		}
		if !possible(cells, sizes, k-1) {
			t.Errorf("seed %d: cells %v of sizes %v are no cuts of the largest", seed, cells, sizes)
		}
	}
}

// TestNear against sorting, by the features alone.
func TestNear(t *testing.T) {
	const n = 300
	rng := rand.New(rand.NewPCG(6, 8))
	rows := tableOf(t, mat.NewDense(n, 2, searchtest.Normal(rng, 2*n)), searchtest.Normal(rng, n))
	for _, row := range []int{0, 299} {
		type far struct {
			at   int
			away float64
		}
		var all []far
		for r := range n {
			all = append(all, far{r, math.Hypot(rows.Z.At(r, 0)-rows.Z.At(row, 0), rows.Z.At(r, 1)-rows.Z.At(row, 1))})
		}
		slices.SortFunc(all, func(a, b far) int { return cmp.Compare(a.away, b.away) })
		for _, m := range []int{1, 7, 300, 400} {
			got := rows.Near(row, m)
			if len(got) != min(m, n) || got[0] != row {
				t.Fatalf("%d rows near %d, want %d", len(got), row, m)
			}
			for i, r := range got {
				if r != all[i].at {
					t.Errorf("row %d is %d of the nearest to %d, want %d", r, i, row, all[i].at)
				}
			}
		}
	}
}

// TestTrim: of each label the rows that its line misses least stay, seven tenths rounded up, over more than one block.
func TestTrim(t *testing.T) {
	const n, k = 307, 3
	rng := rand.New(rand.NewPCG(7, 8))
	x, y, label := mat.NewDense(n, 2, searchtest.Normal(rng, 2*n)), searchtest.Normal(rng, n), make([]int, n)
	for r := range y {
		label[r] = rng.IntN(k+1) - 1
		y[r] += 9 + float64(label[r])*x.At(r, 0)
	}
	rows := tableOf(t, x, y)
	was := slices.Clone(label)
	rows.Trim(label, k)
	for i := range k {
		line := model.NewParams(k, 2)
		line.RegressorIntercepts = make([]float64, k)
		leastSquares(line, i, rows.Data, was)
		miss := func(r int) float64 {
			return math.Abs(y[r] - line.RegressorIntercepts[i] - floats.Dot(line.Regressor(i), x.RawRowView(r)))
		}
		kept, most, least := 0, 0.0, math.Inf(1)
		for r := range n {
			switch {
			case was[r] != i:
				continue
			case label[r] == i:
				kept++
				most = max(most, miss(r))
			case label[r] == -1:
				least = min(least, miss(r))
			default:
				t.Errorf("row %d has label %d, had %d", r, label[r], i)
			}
		}
		if all := counts(was, k)[i]; kept != int(math.Ceil(0.7*float64(all))) || most > least {
			t.Errorf("label %d: %d of %d rows stay, with misses up to %v, and one of %v goes", i, kept, all, most, least)
		}
	}
	for r, i := range was {
		if i == -1 && label[r] != -1 {
			t.Errorf("row %d has got a label", r)
		}
	}
}

// TestSizesOfLabels: a neighbourhood is n/2k rows, of which trimmed are left out, and the last of them loses none to others;
// a handful is two rows more than there are columns, or n/k where those are fewer.
func TestSizesOfLabels(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	for _, c := range []struct{ n, k, near, handful int }{{300, 4, 26, 5}, {30, 4, 3, 5}, {6, 4, 1, 1}, {300, 2, 53, 5}, {8, 2, 2, 4}} {
		rows := tableOf(t, mat.NewDense(c.n, 2, searchtest.Normal(rng, 2*c.n)), searchtest.Normal(rng, c.n))
		if got := counts(rows.Neighbourhoods(rng, c.k), c.k)[c.k-1]; got != c.near {
			t.Errorf("n = %d, k = %d: a neighbourhood of %d rows, want %d", c.n, c.k, got, c.near)
		}
		for i, got := range counts(rows.Handfuls(rng, c.k), c.k) {
			if got != c.handful {
				t.Errorf("n = %d, k = %d: handful %d of %d rows, want %d", c.n, c.k, i, got, c.handful)
			}
		}
	}
}

// TestScaledClusters: of two columns with two clusters each that cross, which of them decides depends on the scales, and
// both do in some draws.
func TestScaledClusters(t *testing.T) {
	const n = 200
	rng := rand.New(rand.NewPCG(9, 8))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		x.SetRow(r, []float64{float64(r%2*2-1) + 0.1*rng.NormFloat64(), float64(r/2%2*2-1) + 0.1*rng.NormFloat64()})
		y[r] = 0.1 * rng.NormFloat64()
	}
	rows := tableOf(t, x, y)
	by := [2]int{}
	for seed := range uint64(12) {
		label := rows.ScaledClusters(rand.New(rand.NewPCG(seed, 1)), 2)
		for j, of := range []func(int) int{func(r int) int { return r % 2 }, func(r int) int { return r / 2 % 2 }} {
			whole := true
			for r, i := range label {
				whole = whole && (i == label[0]) == (of(r) == of(0))
			}
			if whole {
				by[j]++
			}
		}
	}
	if by[0] == 0 || by[1] == 0 {
		t.Errorf("clusters by the first column in %d draws of 12, by the second in %d", by[0], by[1])
	}
}

// TestLinesOfAnOutput: of means c + s·g of a random sign the lines are those of (y − c)/s, bent.
func TestLinesOfAnOutput(t *testing.T) {
	const n = 60
	rng := rand.New(rand.NewPCG(3, 9))
	x, y := mat.NewDense(n, 1, searchtest.Normal(rng, n)), make([]float64, n)
	for r := range y {
		y[r] = 7 + 2*x.At(r, 0)
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, tanh.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts, Output: problem.SharedScale})
	rows, err := New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	scales := map[float64]bool{}
	for seed := range uint64(5) {
		q := Lines(p, rand.New(rand.NewPCG(seed, 1)), rows.Data, make([]int, n))
		plain := p.Shape.Blank(1)
		copy(plain.Offset, q.Offset)
		copy(plain.Scale, q.Scale)
		leastSquares(plain, 0, rows.Data, make([]int, n))
		p.Shape.Output.Bend(plain, 0)
		if !floats.Equal(plain.Regressor(0), q.Regressor(0)) || plain.RegressorIntercepts[0] != q.RegressorIntercepts[0] {
			t.Errorf("%v and %v, want %v and %v", q.Regressor(0), q.RegressorIntercepts[0], plain.Regressor(0), plain.RegressorIntercepts[0])
		}
		scales[q.Scale[0]] = true
	}
	if len(scales) != 5 {
		t.Errorf("scales %v", scales)
	}
}

// TestCutOfTwo: the row that a cut goes through stays on its side.
func TestCutOfTwo(t *testing.T) {
	rows := tableOf(t, mat.NewDense(2, 1, []float64{1, 2}), []float64{3, 4})
	for seed := range uint64(10) {
		if label := rows.Cuts(rand.New(rand.NewPCG(seed, 1)), 2); !slices.Contains(label, 0) {
			t.Errorf("seed %d: labels %v", seed, label)
		}
	}
}

// TestLabelsOfStarts: what each kind of start labels.
func TestLabelsOfStarts(t *testing.T) {
	p := searchtest.Quadrants(t, 300, 1)
	rows, err := New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	const k = 4
	for _, c := range []struct {
		name        string
		label       func(*Table, *rand.Rand, int) []int
		least, most int // rows that have a label
	}{
		{"scaled clusters", (*Table).ScaledClusters, 300, 300},
		{"residual clusters", (*Table).ResidualClusters, 300, 300},
		{"cuts", (*Table).Cuts, 300, 300},
		{"neighbourhoods", (*Table).Neighbourhoods, 1, k * 27}, // 300/8, of which trimmed are left out, some twice
		{"handfuls", (*Table).Handfuls, k * 6, k * 6},
	} {
		var before []int
		for seed := range uint64(5) {
			label := c.label(rows, rand.New(rand.NewPCG(seed, 1)), k)
			count := make([]int, k)
			for _, i := range label {
				if i >= 0 {
					count[i]++
				}
			}
			if n := count[0] + count[1] + count[2] + count[3]; len(label) != 300 || n < c.least || n > c.most || slices.Max(count) == n {
				t.Errorf("%s: labels of %v rows", c.name, count)
			}
			if slices.Equal(label, before) {
				t.Errorf("%s: the same for two seeds", c.name)
			}
			before = label
		}
	}
}

// TestTrimLeavesOutliersOut: rows off the line of their label are those that lose it.
func TestTrimLeavesOutliersOut(t *testing.T) {
	x, y := mat.NewDense(100, 1, nil), make([]float64, 100)
	for r := range y {
		x.Set(r, 0, float64(r%37)-18)
		y[r] = 2 * x.At(r, 0)
		if r%5 == 0 {
			y[r] += 50
		}
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), problem.Request{K: 1, Intercepts: problem.BothIntercepts})
	rows, err := New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	label := make([]int, 100)
	rows.Trim(label, 1)
	for r, i := range label {
		if r%5 == 0 && i != -1 {
			t.Errorf("row %d has kept its label", r)
		}
	}
}

// TestTargets: tables of each target, with the features of all.
func TestTargets(t *testing.T) {
	data := &model.Data{N: 5, D: 1, Blocks: []model.Block{
		{N: 3, X: []float64{1, 2, 3}, Y: []float64{4, 5, 6, 7, 8, 9}}, {N: 2, X: []float64{10, 11}, Y: []float64{12, 13, 14, 15}},
	}}
	got := Targets(data, 2)
	for c, want := range [][]float64{{4, 5, 6, 12, 13}, {7, 8, 9, 14, 15}} {
		if y := slices.Concat(got[c].Blocks[0].Y, got[c].Blocks[1].Y); !slices.Equal(y, want) || got[c].N != 5 || !slices.Equal(got[c].Blocks[1].X, []float64{10, 11}) {
			t.Errorf("target %d: %v, want %v", c, y, want)
		}
	}
	if len(data.Blocks[0].Y) != 6 {
		t.Error("the data have changed")
	}
}
