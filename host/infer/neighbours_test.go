package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
)

// neighboursOf are those of rows of u and, behind them, y.
func neighboursOf(rows [][]float64) *Neighbours {
	targets := len(rows[0]) / 2
	s := NewNeighbours(targets)
	for _, row := range rows {
		s.Add(row, make([]float64, targets))
	}
	return &s
}

// walk are random rows of so many targets, the y of which follow one another with this correlation.
func walk(rng *rand.Rand, n, targets int, correlation float64) [][]float64 {
	out := make([][]float64, n)
	for r := range out {
		out[r] = make([]float64, 2*targets)
		for c := range out[r] {
			out[r][c] = rng.NormFloat64()
			if c >= targets && r > 0 {
				out[r][c] = correlation*out[r-1][c] + math.Sqrt(1-correlation*correlation)*out[r][c]
			}
		}
	}
	return out
}

// TestNeighboursMerge: the sums of rows in parts, empty ones among them, are those of all rows
// to rounding, and travel as numbers.
func TestNeighboursMerge(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	rows := walk(rng, 300, 2, 0.3)
	want := neighboursOf(rows).Values()
	for _, cuts := range [][]int{{0, 300}, {0, 1, 300}, {0, 0, 120, 120, 299, 300}, {0, 1, 2, 3, 4, 298, 300}, {0, 2, 4, 299, 300}} {
		all := NewNeighbours(2)
		for i, to := range cuts[1:] {
			part := NewNeighbours(2)
			if to > cuts[i] {
				part.Set(neighboursOf(rows[cuts[i]:to]).Values())
			}
			all.Merge(&part)
		}
		if got := all.Values(); !floats.EqualApprox(got, want, 1e-9) {
			t.Errorf("cuts %v: %v, want %v", cuts, got, want)
		}
	}
}

// TestDependenceByDefinition: the statistic of one target is (Σ u·u′ − n·ū²)²/Σ (u·u′)², and the likeness of
// neighbours half of von Neumann's ratio below 1.
func TestDependenceByDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	rows := walk(rng, 200, 1, 0.2)
	var sum, products, squares, steps, y, yy float64
	for r, row := range rows {
		sum, y, yy = sum+row[0], y+row[1], yy+row[1]*row[1]
		if r > 0 {
			p := row[0] * rows[r-1][0]
			products, squares = products+p, squares+p*p
			steps += math.Pow(row[1]-rows[r-1][1], 2)
		}
	}
	s := neighboursOf(rows)
	want := math.Pow(products-sum*sum/200, 2) / squares
	if got, not := s.Test(); math.Abs(got.Statistic/want-1) > 1e-9 || got.DF != 1 || not != nil {
		t.Errorf("%+v (%v), want %v", got, not, want)
	}
	if got, want := s.alikeness(), 1-steps/199/(2*(yy/200-y*y/40000)); math.Abs(got-want) > 1e-9 {
		t.Errorf("likeness %v, want %v", got, want)
	}
}

// TestDependenceOfOrder: neighbours with a correlation of .5 in 1,000 rows are seen and independent ones are not, of
// one target and of two. Tables of such y whose u has a part of it, sorted by y, by
// two halves of it and by ten groups, pass but for slow dependence; as rows in time they do not.
func TestDependenceOfOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for targets := 1; targets <= 2; targets++ {
		rows := walk(rng, 1000, targets, 0)
		if got, not := neighboursOf(rows).Test(); got.PValue < 1e-4 || got.DF != targets || not != nil {
			t.Errorf("independent: %+v, %v", got, not)
		}
		for r := 1; r < len(rows); r++ {
			rows[r][0] = 0.5*rows[r-1][0] + math.Sqrt(0.75)*rows[r][0]
		}
		// 1,000 pairs: the sum is 13 of its standard errors at least.
		if got, _ := neighboursOf(rows).Test(); got.PValue > 1e-12 {
			t.Errorf("dependent: %+v", got)
		}
		for name, group := range map[string]float64{"sorted": 0, "in halves": 2, "in tens": 10} {
			sorted := walk(rng, 1000, targets, 0)
			for _, row := range sorted { // what a model leaves of y
				for c := range targets {
					row[targets+c] += row[c]
				}
			}
			slices.SortFunc(sorted, func(a, b []float64) int {
				if a[targets] < b[targets] {
					return -1
				}
				return 1
			})
			if group > 0 {
				each := int(1000 / group)
				for from := 0; from < 1000; from += each {
					rng.Shuffle(each, func(i, j int) { sorted[from+i], sorted[from+j] = sorted[from+j], sorted[from+i] })
				}
			}
			s := neighboursOf(sorted)
			got, not := s.Test()
			if got.DF != targets || got.PValue < 1e-3 || len(not) != 1 || not[0].Name != SlowDependenceTest {
				t.Errorf("%s: %+v, %v", name, got, not)
			}
			if got := s.InTime(); got.PValue > 1e-4 {
				t.Errorf("%s, as in time: %+v", name, got)
			}
		}
	}
}

// TestContrastByDefinition: of rows that are alike the statistic is that of the mean of Σ u_t·(u_{t−1} − u_{t−3}) forwards
// and backwards. Noise with a correlation of .9 in 1,000 rows fails it, of one target and of two.
func TestContrastByDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 1000
	for targets := 1; targets <= 2; targets++ {
		rows := walk(rng, n, targets, 0.9)
		for _, row := range rows {
			copy(row, row[targets:])
		}
		got, not := neighboursOf(rows).Test()
		if got.PValue > 1e-8 || got.DF != targets || not[0].Name != SlowDependenceTest {
			t.Errorf("dependent: %+v, %v", got, not)
		}
		if targets > 1 {
			continue
		}
		sum, squares := 0.0, 0.0
		for r := range rows {
			u := rows[r][0]
			if r >= 3 {
				p := u * (rows[r-1][0] - rows[r-3][0])
				sum, squares = sum+p/2, squares+p*p
			}
			if r+3 < n {
				sum += u * (rows[r+1][0] - rows[r+3][0]) / 2
			}
		}
		if want := sum * sum / squares; math.Abs(got.Statistic/want-1) > 1e-9 {
			t.Errorf("%v, want %v", got.Statistic, want)
		}
	}
}
