package problem

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/explore"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// Facts are what a pass over the rows tells that no fit of them changes.
type Facts struct {
	Digest string          // of targets, as they came, and weights
	Values *explore.Column // what values the targets take
	Mean   *Line           // one normal distribution of the targets; nil where they are all the same
	Linear *Line           // their regression on the features; nil for more than 100, and where it leaves nothing
}

// Line is a normal regression, with the maximum likelihood's noise.
type Line struct {
	Coefficients []float64 // of the features as they came; nil for none
	Intercept    float64
	Sigma        float64
}

// maxRegressors bounds the normal equations of the regression.
const maxRegressors = 100

// Look reads the rows of p, which came from src, for the facts of them.
func Look(ctx context.Context, p *Problem, src dataset.Source) (f *Facts, err error) {
	f = new(Facts)
	digest, sums := dataset.NewDigest(), newRegression(0)
	if p.Shape.D <= maxRegressors {
		sums = newRegression(p.Shape.D)
	}
	f.Values, err = explore.OfNumbers(p.Schema.Target, func(add func(float64)) error {
		return model.InOrder(ctx, p.Given, func(b *model.Block) error {
			sums.add(b)
			came := *b
			came.Y = p.Units.Targets(b.Y)
			digest.Add(&came)
			for _, y := range came.Y {
				add(p.Schema.Scale.Back(y))
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if f.Digest = digest.String(); src != nil && dataset.DigestOf(src) != "" {
		f.Digest = dataset.DigestOf(src)
	}
	f.Mean = sums.line(0, p)
	if sums.d > 0 {
		f.Linear = sums.line(sums.d, p)
	}
	return f, nil
}

// regression accumulates the sums of a linear regression of y on x and 1, of values
// from which those of a first row have been taken: with far means the sums of squares
// would lose what tells rows apart.
type regression struct {
	d      int
	origin []float64 // of the features and the target
	gram   []float64 // of the features, 1 and the target: the upper triangle in rows
	room   []float64
}

func newRegression(d int) *regression {
	m := d + 2
	return &regression{d: d, gram: make([]float64, m*(m+1)/2)}
}

// at is an entry of the Gram matrix.
func (s *regression) at(i, j int) float64 {
	i, j = min(i, j), max(i, j)
	return s.gram[i*(s.d+2)-i*(i+1)/2+j]
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
	m := s.d + 2
	if len(s.room) < 2*m*b.N {
		s.room = make([]float64, 2*m*b.N)
	}
	columns, weighted := make([][]float64, m), make([][]float64, m)
	for j := range m {
		c := s.room[j*b.N : (j+1)*b.N]
		switch {
		case j < s.d:
			copy(c, b.Col(j))
			floats.AddConst(-s.origin[j], c)
		case j == s.d:
			for t := range c {
				c[t] = 1
			}
		default:
			copy(c, b.Y)
			floats.AddConst(-s.origin[s.d], c)
		}
		columns[j], weighted[j] = c, c
		if b.Role[model.Weights] != nil {
			weighted[j] = s.room[(m+j)*b.N : (m+j+1)*b.N]
			kernel.Mul(weighted[j], c, b.Role[model.Weights])
		}
	}
	kernel.AddGram(s.gram, weighted, columns)
}

// line is the least squares fit on the first n features, in the user's units; nil where it leaves nothing. Features
// that others determine change nothing: of directions without variance the coefficients are 0.
func (s *regression) line(n int, p *Problem) *Line {
	one := s.d // the place of the 1s
	weight := s.at(one, one)
	mean := func(j int) float64 { return s.at(j, one) / weight }
	centred := func(i, j int) float64 { return s.at(i, j) - s.at(i, one)*mean(j) }
	left := centred(one+1, one+1)
	params := model.NewParams(1, p.Shape.D)
	params.RegressorIntercepts = []float64{0}
	beta := params.Regressor(0)
	if n > 0 {
		scale := make([]float64, n)
		for j := range n {
			scale[j] = math.Sqrt(max(centred(j, j), 0))
			if scale[j] <= 1e-9*math.Sqrt(s.at(j, j)) {
				scale[j] = math.Inf(1)
			}
		}
		a, c := mat.NewSymDense(n, nil), make([]float64, n)
		for i := range n {
			c[i] = centred(i, one+1) / scale[i]
			for j := i; j < n; j++ {
				a.SetSym(i, j, centred(i, j)/scale[i]/scale[j])
			}
		}
		var eig mat.EigenSym
		if !eig.Factorize(a, true) {
			return nil
		}
		var vectors mat.Dense
		eig.VectorsTo(&vectors)
		column := make([]float64, n)
		for j, v := range eig.Values(nil) {
			if v > 1e-10*float64(n) {
				along := floats.Dot(mat.Col(column, j, &vectors), c) / v
				left -= along * along * v
				floats.AddScaled(beta, along, column)
			}
		}
		for j := range n {
			beta[j] /= scale[j]
		}
	}
	intercept := s.origin[one] + mean(one+1)
	for j := range n {
		intercept -= beta[j] * (s.origin[j] + mean(j))
	}
	params.RegressorIntercepts[0] = intercept
	params.Sigma = []float64{math.Sqrt(max(left, 0) / weight)}
	params = p.Units.OutOf(params)
	l := &Line{Intercept: params.RegressorIntercepts[0], Sigma: params.Sigma[0]}
	if n > 0 {
		l.Coefficients = params.Regressor(0)
	}
	if !(l.Sigma > 0) || math.IsInf(l.Sigma, 0) || math.IsNaN(l.Intercept+floats.Sum(l.Coefficients)) ||
		math.IsInf(l.Intercept+floats.Sum(l.Coefficients), 0) {
		return nil
	}
	return l
}
