package infer

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

const (
	// alike is the correlation of neighbouring targets above which rows may be sorted. In a table sorted by y the
	// residuals are sorted too, and in one sorted by groups of it those of neighbours are alike, whatever the model: a
	// half of the rows below the median and a half above it have a correlation of .64 or so. Noise with a correlation ρ
	// between neighbours whose share of the target's variance is ν has ρ·ν where the features are in no order.
	alike = 0.5
	// away is how many rows apart those are that neighbours are then held against: of two the test sees a correlation
	// of .9 in 1,000 rows but hardly in 200, and of five small groups in any order often fail it.
	away = 3
)

// Neighbours are sums over the rows of weight above 0 and over the pairs of those that follow
// one another, of M targets y_c each with u_c = Σ_i r_i·h(e_ic), h the identity held within
// ±2: what the test of dependence needs. A row counts once whatever its weight.
type Neighbours struct {
	Rows     float64
	Sums     []float64 // Σ u_c
	Products []float64 // Σ u_c·u'_c over pairs, u' of the row before
	Squares  []float64 // Σ u_a·u'_a·u_b·u'_b, M×M
	Mean     []float64 // of y_c, held within three σ of the experts' means
	Spread   []float64 // Σ (y_c − mean)²
	Steps    []float64 // Σ (y_c − y'_c)² over pairs
	Away     []float64 // Σ u_c·u″_c, u″ of the row as many before as away
	Nearer   []float64 // Σ u_a·(u'_a − u″_a)·u_b·(u'_b − u″_b), M×M
	// First and Last are u and y of as many first and last rows as away, in their order.
	First, Last []float64
}

// NewNeighbours are those of no rows.
func NewNeighbours(targets int) Neighbours {
	of := func() []float64 { return make([]float64, targets) }
	square := func() []float64 { return make([]float64, targets*targets) }
	ends := func() []float64 { return make([]float64, away*2*targets) }
	return Neighbours{Sums: of(), Products: of(), Squares: square(), Mean: of(), Spread: of(), Steps: of(), Away: of(),
		Nearer: square(), First: ends(), Last: ends()}
}

// Values are all of them, in the order of the fields.
func (s *Neighbours) Values() []float64 {
	out := []float64{s.Rows}
	for _, v := range s.parts() {
		out = append(out, v...)
	}
	return out
}

// Set takes what Values gave, of as many targets.
func (s *Neighbours) Set(values []float64) {
	s.Rows, values = values[0], values[1:]
	for _, v := range s.parts() {
		values = values[copy(v, values):]
	}
}

func (s *Neighbours) parts() [][]float64 {
	return [][]float64{s.Sums, s.Products, s.Squares, s.Mean, s.Spread, s.Steps, s.Away, s.Nearer, s.First, s.Last}
}

// first is the row i, and last the one that is i-th from the end, from 1.
func (s *Neighbours) first(i int) []float64 { return s.First[i*2*len(s.Sums):][:2*len(s.Sums)] }
func (s *Neighbours) last(i int) []float64  { return s.Last[(away-i)*2*len(s.Sums):][:2*len(s.Sums)] }

// Add adds a row: its u, and behind them its y. At is room for M values.
func (s *Neighbours) Add(row, at []float64) {
	m := len(s.Sums)
	if s.Rows > 0 {
		s.pair(row, s.last(1), at)
	}
	if s.Rows >= away {
		s.apart(row, s.last(1), s.last(away), at)
	}
	s.end(row)
	s.Rows++
	for c := range m {
		s.Sums[c] += row[c]
		off := row[m+c] - s.Mean[c]
		s.Mean[c] += off / s.Rows
		s.Spread[c] += off * (row[m+c] - s.Mean[c])
	}
}

// end puts a row behind the others.
func (s *Neighbours) end(row []float64) {
	if s.Rows < away {
		copy(s.first(int(s.Rows)), row)
	}
	copy(s.Last, s.Last[len(row):])
	copy(s.last(1), row)
}

// pair adds that of a row and the one before.
func (s *Neighbours) pair(row, before, at []float64) {
	m := len(s.Sums)
	for c := range m {
		at[c] = row[c] * before[c]
		step := row[m+c] - before[m+c]
		s.Steps[c] += step * step
	}
	floats.Add(s.Products, at)
	addProducts(s.Squares, at)
}

// apart adds what a row, the one before and the one away say.
func (s *Neighbours) apart(row, before, far, at []float64) {
	for c := range at {
		at[c] = row[c] * (before[c] - far[c])
		s.Away[c] += row[c] * far[c]
	}
	addProducts(s.Nearer, at)
}

func addProducts(dst, at []float64) {
	for a, p := range at {
		for b, q := range at {
			dst[a*len(at)+b] += p * q
		}
	}
}

// Merge adds those of later rows.
func (s *Neighbours) Merge(o *Neighbours) {
	switch {
	case o.Rows == 0:
		return
	case s.Rows == 0:
		s.Set(o.Values())
		return
	}
	m := len(s.Sums)
	at := make([]float64, m)
	s.pair(o.first(0), s.last(1), at)
	for c := range m {
		off := o.Mean[c] - s.Mean[c]
		s.Spread[c] += o.Spread[c] + off*off*s.Rows*o.Rows/(s.Rows+o.Rows)
		s.Mean[c] += off * o.Rows / (s.Rows + o.Rows)
	}
	rows := s.Rows + o.Rows
	for i := range min(away, int(o.Rows)) {
		row := o.first(i)
		if s.Rows >= away {
			s.apart(row, s.last(1), s.last(away), at)
		}
		s.end(row)
		s.Rows++
	}
	if o.Rows > away {
		copy(s.Last, o.Last)
	}
	s.Rows = rows
	floats.Add(s.Sums, o.Sums)
	floats.Add(s.Products, o.Products)
	floats.Add(s.Squares, o.Squares)
	floats.Add(s.Steps, o.Steps)
	floats.Add(s.Away, o.Away)
	floats.Add(s.Nearer, o.Nearer)
}

// alikeness is von Neumann's: 1 − (mean square of the steps)/(twice the variance), the
// greatest of the targets'.
func (s *Neighbours) alikeness() float64 {
	most := math.Inf(-1)
	for c, spread := range s.Spread {
		if spread > 0 {
			most = max(most, 1-s.Steps[c]/(s.Rows-1)/(2*spread/s.Rows))
		}
	}
	return most
}

// InTime is the test of E[u_c·u'_c] = 0, studentised by the products themselves. Under the model
// each has mean 0 given the features and the rows before, whatever their order, so that the
// estimation of parameters takes nothing off; where features are made of the targets before
// it takes something off, and the p-value is too large. Rows sorted by y fail it.
func (s *Neighbours) InTime() Test {
	u := make([]float64, len(s.Sums))
	for c := range u {
		u[c] = s.Products[c] - s.Sums[c]*s.Sums[c]/s.Rows
	}
	return studentised(u, s.Squares)
}

// Test is [Neighbours.InTime] where neighbouring targets are hardly alike. Else rows may be sorted by y, by a key
// near it or by groups of it. Then E[u_t·u_{t−1}] is not 0 under the model, but nearly that of rows a little further
// apart: the test is that of E[u_t·u_{t−1}] = E[u_t·u_{t−away}], the mean over both directions, in which what a trend
// does at the ends cancels. It does not see dependence that changes as slowly as a sort, as slow says.
func (s *Neighbours) Test() (t Test, slow []NotMade) {
	r := s.alikeness()
	if r <= alike {
		return s.InTime(), nil
	}
	why := fmt.Sprintf("targets of neighbouring rows have a correlation of %.2f, more than %g: "+
		"rows are sorted, or depend on each other", r, alike)
	u := make([]float64, len(s.Sums))
	for c := range u {
		u[c] = s.Products[c] - s.Away[c]
		for i := 1; i < away; i++ {
			u[c] -= (s.first(i)[c]*s.first(i - 1)[c] + s.last(i)[c]*s.last(i + 1)[c]) / 2
		}
	}
	return studentised(u, s.Nearer), []NotMade{{SlowDependenceTest, why}}
}

// studentised is the test that sums of products have mean 0, by the sums of the products' own; none where these tell
// of no variance.
func studentised(sums, squares []float64) (t Test) {
	m := len(sums)
	u := mat.NewVecDense(m, sums)
	var chol mat.Cholesky
	var solved mat.VecDense
	if !chol.Factorize(mat.NewSymDense(m, append([]float64(nil), squares...))) || chol.SolveVecTo(&solved, u) != nil {
		return t
	}
	t = Test{Name: DependenceTest, DF: m, Statistic: mat.Dot(u, &solved), Robust: true}
	t.PValue = distuv.ChiSquared{K: float64(m)}.Survival(t.Statistic)
	return t
}
