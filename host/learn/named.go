package learn

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Named is a function that g may be: Offset + Scale·Name(Beta·z + Shift), with all parameters fitted again. Shift is 0
// but for one expert and for experts with intercepts, where it is fitted.
type Named struct {
	Name          string  `json:"name"`
	Offset        float64 `json:"offset"`
	Scale         float64 `json:"scale"`
	Beta          float64 `json:"beta"`
	Shift         float64 `json:"shift"`
	LogLikelihood float64 `json:"log_likelihood"`
	BIC           float64 `json:"bic"`

	// The test of whether the curve deviates from this one by a spline, χ² with DF degrees of freedom. P is null
	// where there are none.
	Statistic float64  `json:"statistic"`
	DF        int      `json:"df"`
	P         *float64 `json:"p"`
}

// compare fits the mixture of s with each of the shapes in the place of the spline, best BIC first.
func compare(ctx context.Context, s *state, r *rows, l *Learned) ([]Named, error) {
	at := s.indices(r)
	var out []Named
	for _, shape := range shapes {
		begun := s.clone()
		begun.g = nearest(s, shape, at)
		done, err := begun.climb(ctx, r, 60, 1e-3)
		if err != nil {
			return nil, err
		}
		g := done.g.(*named)
		n := Named{Name: shape.name, Offset: g.offset, Scale: g.scale, Beta: l.sign * g.beta,
			Shift: g.shift - l.sign*g.beta*l.move, LogLikelihood: done.loglik, BIC: done.bic(r)}
		if shape.line { // its shift is in the offset
			n.Offset, n.Shift = g.offset+g.scale*n.Shift, 0
		}
		if n.Statistic, n.DF = done.deviation(r); n.DF > 0 {
			p := tail(n.Statistic, n.DF)
			n.P = &p
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b Named) int { return cmp.Compare(a.BIC, b.BIC) })
	return out, nil
}

// nearest returns the member of a shape that is nearest to the curve of s at indices.
func nearest(s *state, shape shape, at []float64) *named {
	const points = 200
	wide := math.Abs(at[len(at)-1-len(at)/40]-at[len(at)/40]) / 4
	best, least := (*named)(nil), math.Inf(1)
	row := make([]float64, s.g.size())
	places := []float64{0}
	if s.placed && !shape.line {
		for i := 1; i < 6; i++ {
			places = append(places, at[i*len(at)/6])
		}
	}
	betas := []float64{1, -1}
	if shape.scaled {
		betas = nil
		for _, beta := range []float64{.25, .5, 1, 2, 4, 8} {
			betas = append(betas, beta/wide, -beta/wide)
		}
	}
	for _, beta := range betas {
		for _, place := range places {
			x, y := mat.NewDense(points, 2, nil), mat.NewVecDense(points, nil)
			for i := range points {
				z := at[(2*i+1)*len(at)/(2*points)]
				h, _ := shape.h(beta * (z - place))
				x.SetRow(i, []float64{1, h})
				g, _ := s.g.at(z, row)
				y.SetVec(i, g)
			}
			var c, rest mat.VecDense
			if c.SolveVec(x, y) != nil {
				continue
			}
			rest.MulVec(x, &c)
			rest.SubVec(&rest, y)
			if e := mat.Norm(&rest, 2); e < least {
				best, least = &named{shape, c.AtVec(0), c.AtVec(1), beta, -beta * place, s.placed}, e
			}
		}
	}
	if best == nil {
		best = &named{shape: shape, beta: 1, placed: s.placed}
	}
	return best
}
