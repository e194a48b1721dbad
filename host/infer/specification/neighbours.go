package specification

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/infer"
)

// alike is the correlation of neighbouring targets above which rows count as sorted. In a
// table sorted by y the residuals are sorted too, and in one sorted by groups of it those of
// neighbours are alike, whatever the model: a half of the rows below the median and a half
// above it have a correlation of .64 or so. Noise with a correlation ρ between neighbours
// whose share of the target's variance is ν has ρ·ν where the features are in no order.
const alike = 0.5

// Neighbours are sums over the rows of weight above 0 and over the pairs of those that follow
// one another, of M targets y_c each with u_c = Σ_i r_i·h(e_ic), h the identity held within
// ±2: what the test of dependence needs. A row counts once whatever its weight.
type Neighbours struct {
	Rows        float64
	Sums        []float64 // Σ u_c
	Products    []float64 // Σ u_c·u'_c over pairs, u' of the row before
	Squares     []float64 // Σ u_a·u'_a·u_b·u'_b, M×M
	Mean        []float64 // of y_c, held within three σ of the experts' means
	Spread      []float64 // Σ (y_c − mean)²
	Steps       []float64 // Σ (y_c − y'_c)² over pairs
	First, Last []float64 // u and y of the first and of the last row
}

func newNeighbours(targets int) Neighbours {
	of := func() []float64 { return make([]float64, targets) }
	return Neighbours{
		Sums: of(), Products: of(), Squares: make([]float64, targets*targets), Mean: of(), Spread: of(), Steps: of(),
		First: make([]float64, 2*targets), Last: make([]float64, 2*targets),
	}
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
	return [][]float64{s.Sums, s.Products, s.Squares, s.Mean, s.Spread, s.Steps, s.First, s.Last}
}

// add adds a row: its u, and behind them its y. At is room for M values.
func (s *Neighbours) add(row, at []float64) {
	m := len(s.Sums)
	if s.Rows == 0 {
		copy(s.First, row)
	} else {
		s.pair(row, s.Last, at)
	}
	s.Rows++
	for c := range m {
		s.Sums[c] += row[c]
		off := row[m+c] - s.Mean[c]
		s.Mean[c] += off / s.Rows
		s.Spread[c] += off * (row[m+c] - s.Mean[c])
	}
	copy(s.Last, row)
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
	for a, p := range at {
		for b, q := range at {
			s.Squares[a*m+b] += p * q
		}
	}
}

// merge adds those of later rows.
func (s *Neighbours) merge(o *Neighbours) {
	switch {
	case o.Rows == 0:
		return
	case s.Rows == 0:
		s.Set(o.Values())
		return
	}
	m := len(s.Sums)
	s.pair(o.First, s.Last, make([]float64, m))
	for c := range m {
		off := o.Mean[c] - s.Mean[c]
		s.Spread[c] += o.Spread[c] + off*off*s.Rows*o.Rows/(s.Rows+o.Rows)
		s.Mean[c] += off * o.Rows / (s.Rows + o.Rows)
	}
	floats.Add(s.Sums, o.Sums)
	floats.Add(s.Products, o.Products)
	floats.Add(s.Squares, o.Squares)
	floats.Add(s.Steps, o.Steps)
	s.Rows += o.Rows
	copy(s.Last, o.Last)
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

// test is that of E[u_c·u'_c] = 0, studentised by the products themselves. Under the model
// each has mean 0 given the features and the rows before, whatever their order, so that the
// estimation of parameters takes nothing off; where features are made of the targets before
// it takes something off, and the p-value is too large. Where rows are sorted there is none,
// and why.
func (s *Neighbours) test() (t infer.Test, why string) {
	if r := s.alikeness(); r > alike {
		return t, fmt.Sprintf("rows are sorted (targets of neighbouring rows have a correlation of %.2f, more than %g)",
			r, alike)
	}
	m := len(s.Sums)
	u := mat.NewVecDense(m, nil)
	for c := range m {
		u.SetVec(c, s.Products[c]-s.Sums[c]*s.Sums[c]/s.Rows)
	}
	var chol mat.Cholesky
	var solved mat.VecDense
	if !chol.Factorize(mat.NewSymDense(m, append([]float64(nil), s.Squares...))) || chol.SolveVecTo(&solved, u) != nil {
		return t, ""
	}
	t = infer.Test{Name: infer.DependenceTest, DF: m, Statistic: mat.Dot(u, &solved), Robust: true}
	t.PValue = distuv.ChiSquared{K: float64(m)}.Survival(t.Statistic)
	return t, ""
}
