package survey

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/identity"
)

// threeCells is a survey's table of three experts with a gate by the first of two features, of unit variance: 0 below −0.7,
// 2 above 0.7.
func threeCells(t testing.TB, r problem.Request) (*surveyor, *search.Candidate) {
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
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), r)
	rows, err := partition.New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	q := p.Shape.Blank(1)
	copy(q.Regressors, searchtest.Normal(rng, len(q.Regressors)))
	copy(q.RegressorIntercepts, searchtest.Normal(rng, 3))
	if !p.Shape.ConstantGate {
		copy(q.Gating, []float64{-2, 0, -1, 0})
		copy(q.GatingIntercepts, []float64{0, 0.7})
	}
	return &surveyor{problem: p, rows: rows}, &search.Candidate{Params: q}
}

// TestRowOf: a row of one of the two experts by the gate, from any block, or any row where they have none.
func TestRowOf(t *testing.T) {
	s, c := threeCells(t, problem.Request{})
	q := c.Params
	data := s.rows.Data
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
			if searchtest.LogitOf(q, i, x) > searchtest.LogitOf(q, best, x) {
				best = i
			}
		}
		return best
	}
	rng := rand.New(rand.NewPCG(1, 8))
	blocks, others := map[int]bool{}, 0
	for range 60 {
		for _, pair := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {0, 2}} {
			x := rowOf(s.rows, rng, q, pair[0], pair[1])
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
	if x := rowOf(s.rows, rng, q, 1, 1); at(x) < 0 {
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
				diff := func(q *model.Params, i, j int, x []float64) float64 {
					return searchtest.LogitOf(q, i, x) - searchtest.LogitOf(q, j, x)
				}
				zero := []float64{0, 0}
				w := []float64{diff(q, a, b, []float64{1, 0}) - diff(q, a, b, zero), diff(q, a, b, []float64{0, 1}) - diff(q, a, b, zero)}
				if norm := floats.Norm(w, 2); math.Abs(norm-steepness) > 1e-9 || r.Gate != nil && math.Abs(w[0]) > 1e-12 {
					t.Errorf("a hyperplane of normal %v, norm %v, want %v", w, norm, steepness)
				}
				near := math.Inf(1)
				for i := range s.rows.Data.Blocks {
					block := &s.rows.Data.Blocks[i]
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
		var from []*search.Candidate
		for i := range 3 {
			q := c.Params.Clone()
			floats.Scale(float64(1+i), q.Regressors) // by which the optima are known
			from = append(from, &search.Candidate{Params: q})
		}
		draw := s.fromOneOf(from).Draw
		var begun, split, drops [3]int
		halves := 0
		for seed := range uint64(draws) {
			q, err := draw(t.Context(), rand.New(rand.NewPCG(seed, 3)))
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(from, func(c *search.Candidate) bool {
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

// TestMoveToARow: an expert that moves to the rows near one becomes the line of those, the worst left out: of n/2K, or twice the columns
// where those are more. Which row it was is not known: it is that of one of them.
func TestMoveToARow(t *testing.T) {
	s, c := threeCells(t, problem.Request{Intercepts: problem.BothIntercepts, Gate: problem.Constant{}}) // without halves of a cell
	full := s.rows.Data
	few := &model.Data{N: 24, D: 2, Blocks: []model.Block{{N: 24, X: slices.Concat(full.Blocks[0].Col(0)[:24], full.Blocks[0].Col(1)[:24]), Y: full.Blocks[0].Y[:24]}}}
	for _, of := range []struct {
		rows *partition.Table
		near int
	}{{s.rows, 100}, {partition.Of(few), 6}} {
		s.rows = of.rows
		draw := s.fromOneOf([]*search.Candidate{c}).Draw
		for seed := range uint64(3) {
			q, err := draw(t.Context(), rand.New(rand.NewPCG(seed, 3)))
			if err != nil {
				t.Fatal(err)
			}
			moved := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool { return !floats.Equal(q.Regressor(i), c.Params.Regressor(i)) })
			found := false
			for row := range of.rows.Data.N {
				label := slices.Repeat([]int{-1}, of.rows.Data.N)
				for _, r := range of.rows.Near(row, of.near) {
					label[r] = moved
				}
				of.rows.Trim(label, 3)
				line := q.Clone()
				partition.Line(s.problem, line, moved, of.rows.Data, label)
				found = found || floats.EqualApprox(line.Regressor(moved), q.Regressor(moved), 1e-12)
			}
			if !found {
				t.Errorf("expert %d is the line of no row's %d nearest", moved, of.near)
			}
		}
	}
}
