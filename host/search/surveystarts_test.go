package search

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
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// tableOf are rows as a survey has them.
func tableOf(t testing.TB, x *mat.Dense, y []float64) *table {
	t.Helper()
	rows, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	out, err := newTable(t.Context(), new(problem.Problem), rows)
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
			x.SetRow(r, normal(rng, 2))
			y[r] = unit * (500 + 20*x.At(r, 0) - 30*x.At(r, 1) + float64(1-2*(r%2)))
		}
		rows, found := tableOf(t, x, y), 0
		for seed := range uint64(10) {
			label := residualClusters(rand.New(rand.NewPCG(seed, 1)), rows, 2)
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
	x, y := mat.NewDense(n, 1, normal(rng, n)), normal(rng, n)
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
		label := cuts(rand.New(rand.NewPCG(seed, 1)), rows, k)
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
	rows := tableOf(t, mat.NewDense(n, 2, normal(rng, 2*n)), normal(rng, n))
	for _, row := range []int{0, 299} {
		type far struct {
			at   int
			away float64
		}
		var all []far
		for r := range n {
			all = append(all, far{r, math.Hypot(rows.z.At(r, 0)-rows.z.At(row, 0), rows.z.At(r, 1)-rows.z.At(row, 1))})
		}
		slices.SortFunc(all, func(a, b far) int { return cmp.Compare(a.away, b.away) })
		for _, m := range []int{1, 7, 300, 400} {
			got := rows.near(row, m)
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
	x, y, label := mat.NewDense(n, 2, normal(rng, 2*n)), normal(rng, n), make([]int, n)
	for r := range y {
		label[r] = rng.IntN(k+1) - 1
		y[r] += 9 + float64(label[r])*x.At(r, 0)
	}
	rows := tableOf(t, x, y)
	was := slices.Clone(label)
	rows.trim(label, k)
	for i := range k {
		line := model.NewParams(k, 2)
		line.RegressorIntercepts = make([]float64, k)
		leastSquares(line, i, rows.data, was)
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
		rows := tableOf(t, mat.NewDense(c.n, 2, normal(rng, 2*c.n)), normal(rng, c.n))
		if got := counts(neighbourhoods(rng, rows, c.k), c.k)[c.k-1]; got != c.near {
			t.Errorf("n = %d, k = %d: a neighbourhood of %d rows, want %d", c.n, c.k, got, c.near)
		}
		for i, got := range counts(handfuls(rng, rows, c.k), c.k) {
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
		label := scaledClusters(rand.New(rand.NewPCG(seed, 1)), rows, 2)
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

// threeCells is a survey's table of three experts with a gate by the first of two features, of unit variance: 0 below −0.7,
// 2 above 0.7.
func threeCells(t testing.TB, r problem.Request) (*surveyor, *Candidate) {
	t.Helper()
	const n = 600
	rng := rand.New(rand.NewPCG(2, 8))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		x.SetRow(r, []float64{3 * rng.Float64() * float64(r%3-1), rng.NormFloat64()})
		y[r] = 3 * rng.NormFloat64()
	}
	r.K = 3
	if r.Intercepts != problem.BothIntercepts {
		r.Intercepts = problem.GateIntercepts
	}
	p := load(t, dataset.Matrix(x, y), activation(t, identity.Family), r)
	rows, err := newTable(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	q := p.Shape.Blank(1)
	copy(q.Regressors, normal(rng, len(q.Regressors)))
	copy(q.RegressorIntercepts, normal(rng, 3))
	if !p.Shape.ConstantGate {
		copy(q.Gating, []float64{-2, 0, -1, 0})
		copy(q.GatingIntercepts, []float64{0, 0.7})
	}
	return &surveyor{problem: p, rows: rows}, &Candidate{Params: q}
}

// TestRowOf: a row of one of the two experts by the gate, from any block, or any row where they have none.
func TestRowOf(t *testing.T) {
	s, c := threeCells(t, problem.Request{})
	q := c.Params
	data := s.rows.data
	at := func(x []float64) int { // the place of a row
		for i := range data.Blocks {
			b := &data.Blocks[i]
			for r := range b.N {
				if b.Col(0)[r] == x[0] && b.Col(1)[r] == x[1] {
					return i*model.BlockRows + r
				}
			}
		}
		return -1
	}
	top := func(x []float64) int {
		best := 0
		for i := 1; i < 3; i++ {
			if logitOf(q, i, x) > logitOf(q, best, x) {
				best = i
			}
		}
		return best
	}
	rng := rand.New(rand.NewPCG(1, 8))
	blocks, others := map[int]bool{}, 0
	for range 60 {
		for _, pair := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {0, 2}} {
			x := s.rows.rowOf(rng, q, pair[0], pair[1])
			if r := at(x); r < 0 {
				t.Fatalf("%v is no row", x)
			} else {
				blocks[r/model.BlockRows] = true
			}
			if i := top(x); i != pair[0] && i != pair[1] {
				others++
			}
		}
	}
	// Of 30 rows none is an expert's that has a fifth or more of all 1 time in 800: of 240 draws more than 3 once in 3,000.
	if others > 3 {
		t.Errorf("%d of 240 rows are of another expert", others)
	}
	if len(blocks) != 3 {
		t.Errorf("rows of blocks %v", blocks)
	}
	q.GatingIntercepts[1] = -1e9
	if x := s.rows.rowOf(rng, q, 1, 1); at(x) < 0 {
		t.Errorf("%v is no row", x)
	}
}

// TestPart: two experts of one gate are told apart by a hyperplane through a row of theirs, of the slope that a split has,
// in the features that the gate sees; what both have of the gate together stays, and so do the odds of the others.
func TestPart(t *testing.T) {
	for _, r := range []problem.Request{{}, {Gate: problem.Softmax{Features: []string{"x2"}}, Intercepts: problem.BothIntercepts}} {
		s, c := threeCells(t, r)
		for seed := range uint64(8) {
			for _, pair := range [][2]int{{0, 1}, {1, 2}, {2, 0}} {
				a, b := pair[0], pair[1]
				q := c.Params.Clone()
				q.ShareGate(b, a)
				was := q.Clone()
				s.part(rand.New(rand.NewPCG(seed, 8)), s.rows, q, a, b)
				diff := func(q *model.Params, i, j int, x []float64) float64 { return logitOf(q, i, x) - logitOf(q, j, x) }
				zero := []float64{0, 0}
				w := []float64{diff(q, a, b, []float64{1, 0}) - diff(q, a, b, zero), diff(q, a, b, []float64{0, 1}) - diff(q, a, b, zero)}
				if norm := floats.Norm(w, 2); math.Abs(norm-steepness) > 1e-9 || r.Gate != nil && math.Abs(w[0]) > 1e-12 {
					t.Errorf("a hyperplane of normal %v, norm %v, want %v", w, norm, steepness)
				}
				near := math.Inf(1)
				for i := range s.rows.data.Blocks {
					block := &s.rows.data.Blocks[i]
					for r := range block.N {
						near = min(near, math.Abs(diff(q, a, b, []float64{block.Col(0)[r], block.Col(1)[r]})))
					}
				}
				if q.GatingIntercepts != nil && near > 1e-9 {
					t.Errorf("the nearest row is %v from the hyperplane", near)
				}
				other := 3 - a - b
				for _, x := range [][]float64{{1, 2}, {-3, 1}} {
					before, after := diff(was, a, other, x)+diff(was, b, other, x), diff(q, a, other, x)+diff(q, b, other, x)
					if math.Abs(before-after) > 1e-9 {
						t.Errorf("both together have changed by %v", after-before)
					}
				}
			}
		}
	}
}

// TestFromOneOf: a move gives one expert up for a half of another's cell, or for the rows near a random one; all noise grows by
// a half, to no more than the target has. From the first optimum start half of the moves, a quarter from the next: the
// bound is four standard errors.
func TestFromOneOf(t *testing.T) {
	const draws = 400
	for name, r := range map[string]problem.Request{
		"intercepts": {Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}}, "a constant gate": {Intercepts: problem.BothIntercepts, Gate: problem.Constant{}}, "part": {ExpertFeatures: []string{"x2"}},
	} {
		s, c := threeCells(t, r)
		rms := s.problem.RMS()
		for i := range c.Params.Sigma {
			c.Params.Sigma[i] = []float64{0.1, 0.5, 0.9}[i] * rms
		}
		s.problem.Shape.MaskExperts(c.Params.Regressors)
		var from []*Candidate
		for i := range 3 {
			q := c.Params.Clone()
			floats.Scale(float64(1+i), q.Regressors) // by which the optima are known
			from = append(from, &Candidate{Params: q})
		}
		draw := s.fromOneOf(from)
		var begun, split, drops [3]int
		halves := 0
		for seed := range uint64(draws) {
			q, err := draw(t.Context(), rand.New(rand.NewPCG(seed, 3)))
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(from, func(c *Candidate) bool {
				same := 0
				for i := range 3 {
					if floats.Equal(q.Regressor(i), c.Params.Regressor(i)) {
						same++
					}
				}
				return same >= 2
			})
			if at < 0 {
				t.Fatalf("%s: regressors %v are of no optimum", name, q.Regressors)
			}
			begun[at]++
			was := from[at].Params
			drop := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return !floats.Equal(q.Regressor(i), was.Regressor(i)) })
			if drop < 0 {
				t.Fatalf("%s: nothing has moved", name)
			}
			drops[drop]++
			half := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return i != drop && floats.Equal(q.Regressor(drop), was.Regressor(i)) })
			if half >= 0 {
				halves++
				split[half]++
				if q.RegressorIntercepts != nil && q.RegressorIntercepts[drop] != was.RegressorIntercepts[half] {
					t.Errorf("%s: intercepts %v", name, q.RegressorIntercepts)
				}
			}
			if s.problem.Shape.Experts != nil && q.Regressor(drop)[0] != 0 {
				t.Errorf("%s: regressor %v of experts that see x2", name, q.Regressor(drop))
			}
			for i, sigma := range q.Sigma {
				grown := func(j int) bool { return sigma == min(1.5*was.Sigma[j], rms) }
				if !grown(i) && (i != drop || !slices.ContainsFunc([]int{0, 1, 2}[:len(q.Sigma)], grown)) {
					t.Errorf("%s: noise %v, was %v, rms %v", name, q.Sigma, was.Sigma, rms)
				}
			}
		}
		about := func(what string, got int, share float64) {
			if dev := 4 * math.Sqrt(draws*share*(1-share)); math.Abs(float64(got)-draws*share) > dev {
				t.Errorf("%s: %d %s of %d, want about %v", name, got, what, draws, draws*share)
			}
		}
		about("from the first", begun[0], 0.5)
		about("from the second", begun[1], 0.25)
		for _, m := range drops {
			about("drops of an expert", m, 1./3)
		}
		if name == "a constant gate" {
			if halves > 0 {
				t.Errorf("%s: %d halves of a cell", name, halves)
			}
			continue
		}
		about("halves", halves, 0.5)
		for _, m := range split {
			about("halves of an expert", m, 1./6)
		}
	}
}

// TestDirections are of norm 1, and to all sides.
func TestDirections(t *testing.T) {
	rng, sum := rand.New(rand.NewPCG(1, 8)), make([]float64, 3)
	for range 400 {
		w := model.RandomDirections(rng, 1, 3)
		if norm := floats.Norm(w, 2); math.Abs(norm-1) > 1e-12 {
			t.Fatalf("norm %v", norm)
		}
		floats.Add(sum, w)
	}
	if norm := floats.Norm(sum, 2); norm > 6*20 { // six times √400, of which the mean square is
		t.Errorf("a sum of norm %v", norm)
	}
}

// TestLinesOfAnOutput: of means c + s·g of a random sign the lines are those of (y − c)/s, bent.
func TestLinesOfAnOutput(t *testing.T) {
	const n = 60
	rng := rand.New(rand.NewPCG(3, 9))
	x, y := mat.NewDense(n, 1, normal(rng, n)), make([]float64, n)
	for r := range y {
		y[r] = 7 + 2*x.At(r, 0)
	}
	p := load(t, dataset.Matrix(x, y), activation(t, tanh.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts, Output: problem.SharedScale})
	rows, err := newTable(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	scales := map[float64]bool{}
	for seed := range uint64(5) {
		q := linesOf(p, rand.New(rand.NewPCG(seed, 1)), rows.data, make([]int, n))
		plain := p.Shape.Blank(1)
		copy(plain.Offset, q.Offset)
		copy(plain.Scale, q.Scale)
		leastSquares(plain, 0, rows.data, make([]int, n))
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

// TestMoveToARow: an expert that moves to the rows near one becomes the line of those, the worst left out: of n/2K, or twice the columns
// where those are more. Which row it was is not known: it is that of one of them.
func TestMoveToARow(t *testing.T) {
	s, c := threeCells(t, problem.Request{Intercepts: problem.BothIntercepts, Gate: problem.Constant{}}) // without halves of a cell
	full := s.rows.data
	few := &model.Data{N: 24, D: 2, Blocks: []model.Block{{N: 24, X: slices.Concat(full.Blocks[0].Col(0)[:24], full.Blocks[0].Col(1)[:24]), Y: full.Blocks[0].Y[:24]}}}
	for _, of := range []struct {
		rows *table
		near int
	}{{s.rows, 100}, {&table{few, few, standardised(few)}, 6}} {
		s.rows = of.rows
		draw := s.fromOneOf([]*Candidate{c})
		for seed := range uint64(3) {
			q, err := draw(t.Context(), rand.New(rand.NewPCG(seed, 3)))
			if err != nil {
				t.Fatal(err)
			}
			moved := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return !floats.Equal(q.Regressor(i), c.Params.Regressor(i)) })
			found := false
			for row := range of.rows.data.N {
				label := slices.Repeat([]int{-1}, of.rows.data.N)
				for _, r := range of.rows.near(row, of.near) {
					label[r] = moved
				}
				of.rows.trim(label, 3)
				line := q.Clone()
				leastSquares(line, moved, of.rows.data, label)
				found = found || floats.EqualApprox(line.Regressor(moved), q.Regressor(moved), 1e-12)
			}
			if !found {
				t.Errorf("expert %d is the line of no row's %d nearest", moved, of.near)
			}
		}
	}
}

// TestCutOfTwo: the row that a cut goes through stays on its side.
func TestCutOfTwo(t *testing.T) {
	rows := tableOf(t, mat.NewDense(2, 1, []float64{1, 2}), []float64{3, 4})
	for seed := range uint64(10) {
		if label := cuts(rand.New(rand.NewPCG(seed, 1)), rows, 2); !slices.Contains(label, 0) {
			t.Errorf("seed %d: labels %v", seed, label)
		}
	}
}

// TestCoin: of 1000 draws half are true, to four standard errors.
func TestCoin(t *testing.T) {
	rng, heads := rand.New(rand.NewPCG(1, 1)), 0
	for range 1000 {
		if coin(rng) {
			heads++
		}
	}
	if math.Abs(float64(heads-500)) > 4*math.Sqrt(250) {
		t.Errorf("%d of 1000", heads)
	}
}
