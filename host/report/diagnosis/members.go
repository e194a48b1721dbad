package diagnosis

import (
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/model"
)

// Members says who is in each expert: what a column's values are among all rows and among those of each expert, every
// row counted with its posterior times its weight.
type Members struct {
	Name   string
	Levels []string // of a factor; the values below are then shares of its levels
	Binary bool     // its values are 0 and 1: means are shares of 1

	Mean, SD float64   // of all rows
	Means    []float64 // per expert
	SDs      []float64

	Shares  []float64   // of all rows, by level
	Experts [][]float64 // per expert, by level

	// Differs is how far the experts are apart, from 0 to 1: of numbers the square root of the share of the variance
	// that is between experts, of a factor Cramér's V with the expert.
	Differs float64
}

// tally are sums over the rows, in their order, of the columns of a table by expert.
type tally struct {
	k       int
	columns []rawColumn
	shift   []float64     // of each column, near its values
	mass    []float64     // per expert, then of all
	first   [][]float64   // per expert and of all, by column: Σ w·(x − shift)
	second  [][]float64   // Σ w·(x − shift)²
	levels  [][][]float64 // the same by level, of factors
	binary  []bool
}

func newTally(k int, columns []rawColumn) *tally {
	t := &tally{k: k, columns: columns, mass: make([]float64, k+1), binary: make([]bool, len(columns))}
	for range k + 1 {
		t.first, t.second = append(t.first, make([]float64, len(columns))),
			append(t.second, make([]float64, len(columns)))
		levels := make([][]float64, len(columns))
		for c := range columns {
			levels[c] = make([]float64, len(columns[c].levels))
		}
		t.levels = append(t.levels, levels)
	}
	for c := range t.binary {
		t.binary[c] = true
	}
	return t
}

// add adds the rows of a block: cells are its columns, posterior k rows of its length.
func (t *tally) add(cells *model.Block, weights, posterior []float64) {
	n := cells.N
	if t.shift == nil {
		for c := range t.columns {
			sum := 0.0
			for _, x := range cells.Col(c) {
				sum += x / float64(n)
			}
			t.shift = append(t.shift, sum)
		}
	}
	weight := make([]float64, n)
	for i := range t.k + 1 {
		for r := range weight {
			weight[r] = 1
			if weights != nil {
				weight[r] = weights[r]
			}
			if i < t.k {
				weight[r] *= posterior[i*n+r]
			}
			t.mass[i] += weight[r]
		}
		for c := range t.columns {
			t.addColumn(i, c, cells.Col(c), weight)
		}
	}
}

func (t *tally) addColumn(i, c int, cells, weight []float64) {
	col := &t.columns[c]
	if col.levels != nil {
		for r, x := range cells {
			t.levels[i][c][int(col.code(x))] += weight[r]
		}
		return
	}
	first, second, binary := 0.0, 0.0, t.binary[c]
	for r, x := range cells {
		binary = binary && (x == 0 || x == 1)
		e := x - t.shift[c]
		first += weight[r] * e
		second += weight[r] * e * e
	}
	t.first[i][c] += first
	t.second[i][c] += second
	t.binary[c] = binary
}

// moments are the mean and the standard deviation of column c in expert i, of all rows for i = k.
func (t *tally) moments(i, c int) (mean, sd float64) {
	if !(t.mass[i] > 0) {
		return math.NaN(), math.NaN()
	}
	off := t.first[i][c] / t.mass[i]
	return t.shift[c] + off, math.Sqrt(max(0, t.second[i][c]/t.mass[i]-off*off))
}

// members are the columns, in their order.
func (t *tally) members() []Members {
	out := make([]Members, len(t.columns))
	for c := range out {
		out[c] = t.member(c)
	}
	return out
}

func (t *tally) member(c int) Members {
	col := &t.columns[c]
	m := Members{Name: col.name, Levels: col.levels}
	if col.levels != nil {
		for i := range t.k + 1 {
			shares := slices.Clone(t.levels[i][c])
			for l := range shares {
				shares[l] /= t.mass[i]
			}
			if i == t.k {
				m.Shares = shares
			} else {
				m.Experts = append(m.Experts, shares)
			}
		}
		m.Differs = t.cramer(&m)
		return m
	}
	m.Binary = t.binary[c]
	between := 0.0
	for i := range t.k + 1 {
		mean, sd := t.moments(i, c)
		if i == t.k {
			m.Mean, m.SD = mean, sd
		} else {
			m.Means, m.SDs = append(m.Means, mean), append(m.SDs, sd)
		}
	}
	for i, mean := range m.Means {
		if t.mass[i] > 0 {
			between += t.mass[i] / t.mass[t.k] * (mean - m.Mean) * (mean - m.Mean)
		}
	}
	// What is only rounding of the sums differs by nothing.
	if m.SD > 1e-9*math.Abs(m.Mean) {
		m.Differs = min(1, math.Sqrt(between)/m.SD)
	}
	return m
}

// cramer is Cramér's V of the levels with the experts.
func (t *tally) cramer(m *Members) float64 {
	sum, levels := 0.0, 0
	for l, p := range m.Shares {
		if !(p > 0) {
			continue
		}
		levels++
		for i := range t.k {
			if t.mass[i] > 0 {
				e := m.Experts[i][l] - p
				sum += t.mass[i] / t.mass[t.k] * e * e / p
			}
		}
	}
	if least := min(t.k, levels) - 1; least > 0 {
		return min(1, math.Sqrt(sum/float64(least)))
	}
	return 0
}
