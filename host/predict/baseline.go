package predict

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// Baselines are what simpler models make of the rows of an evaluation, fitted to these
// very rows: what a mixture is to be better than.
type Baselines struct {
	Mean   Baseline  `json:"mean"`   // one normal distribution
	Linear *Baseline `json:"linear"` // a linear regression on the features with an intercept; null for more than 100 of them
}

// Baseline is how well a normal regression describes the rows it was fitted to, by
// maximum likelihood: −n/2·(log 2πs² + 1) with s the RMSE.
type Baseline struct {
	LogLikelihood float64 `json:"log_likelihood"`
	RMSE          float64 `json:"rmse"`
	R2            float64 `json:"r2"`
}

// maxRegressors bounds the normal equations of the linear baseline.
const maxRegressors = 100

// regression accumulates the sums of a linear regression of y on x and 1, of values
// from which those of a first row have been taken: with far means the sums of squares
// would lose what tells rows apart.
type regression struct {
	d      int
	origin []float64 // of the features and the target
	gram   *mat.SymDense
	row    []float64
	vector *mat.VecDense // of row
}

func newRegression(d int) *regression {
	row := make([]float64, d+2)
	return &regression{d: d, gram: mat.NewSymDense(d+2, nil), row: row, vector: mat.NewVecDense(d+2, row)}
}

// add takes a block.
func (s *regression) add(b *model.Block) {
	if s.origin == nil {
		s.origin = make([]float64, s.d+1)
		for j := range s.d {
			s.origin[j] = b.Col(j)[0]
		}
		s.origin[s.d] = b.Y[0]
	}
	for r, y := range b.Y {
		w := 1.0
		if b.W != nil {
			w = b.W[r]
		}
		for j := range s.d {
			s.row[j] = b.X[j*b.N+r] - s.origin[j]
		}
		s.row[s.d], s.row[s.d+1] = 1, y-s.origin[s.d]
		s.gram.SymRankOne(s.gram, w, s.vector)
	}
}

// residual returns Σw(y − ŷ)² of the least squares fit. Features that others determine
// change nothing: directions without variance are left out.
func (s *regression) residual() float64 {
	n := s.d
	weight := s.gram.At(n, n)
	scale := make([]float64, n)
	for j := range n {
		scale[j] = math.Sqrt(max(s.gram.At(j, j)-s.gram.At(j, n)*s.gram.At(j, n)/weight, 0))
		if scale[j] <= 1e-9*math.Sqrt(s.gram.At(j, j)) {
			scale[j] = math.Inf(1)
		}
	}
	centred := func(i, j int) float64 { return s.gram.At(i, j) - s.gram.At(i, n)*s.gram.At(j, n)/weight }
	left := centred(n+1, n+1)
	if n == 0 {
		return left
	}
	a, c := mat.NewSymDense(n, nil), make([]float64, n)
	for i := range n {
		c[i] = centred(i, n+1) / scale[i]
		for j := i; j < n; j++ {
			a.SetSym(i, j, centred(i, j)/scale[i]/scale[j])
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(a, true) {
		return math.NaN()
	}
	var vectors mat.Dense
	eig.VectorsTo(&vectors)
	column := make([]float64, n)
	for j, v := range eig.Values(nil) {
		if v > 1e-10*float64(n) {
			p := floats.Dot(mat.Col(column, j, &vectors), c)
			left -= p * p / v
		}
	}
	return max(left, 0)
}

// baseline is that of a residual sum of squares.
func baseline(sse, total, weight float64) *Baseline {
	s2 := sse / weight
	b := &Baseline{RMSE: math.Sqrt(s2), R2: 1 - sse/total, LogLikelihood: -weight / 2 * (math.Log(2*math.Pi*s2) + 1)}
	if !(sse > 0) || math.IsInf(b.LogLikelihood, 0) || math.IsNaN(b.LogLikelihood) {
		return nil
	}
	return b
}
