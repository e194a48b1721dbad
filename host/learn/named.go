package learn

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// Named is a function that g may be: Offset + Scale·Name(Beta·z), with all parameters fitted again.
type Named struct {
	Name          string  `json:"name"`
	Offset        float64 `json:"offset"`
	Scale         float64 `json:"scale"`
	Beta          float64 `json:"beta"`
	LogLikelihood float64 `json:"log_likelihood"`
	BIC           float64 `json:"bic"`
}

// compare fits the mixture with each of the shapes in the place of the spline, best BIC first. Their
// beta is for indices times sign.
func (s *state) compare(ctx context.Context, r *rows, sign float64) ([]Named, error) {
	at := s.indices(r)
	var out []Named
	for _, shape := range shapes {
		begun := s.clone()
		begun.g = s.like(shape, at)
		done, err := begun.climb(ctx, r, 30, .1)
		if err != nil {
			return nil, err
		}
		g := done.g.(*named)
		out = append(out, Named{shape.name, g.offset, g.scale, sign * g.beta, done.loglik, done.bic(r)})
	}
	slices.SortStableFunc(out, func(a, b Named) int { return cmp.Compare(a.BIC, b.BIC) })
	return out, nil
}

// like returns the member of a shape that is nearest to the curve of s at indices.
func (s *state) like(shape shape, at []float64) *named {
	const points = 200
	wide := math.Abs(at[len(at)-1-len(at)/40]-at[len(at)/40]) / 4
	best, least := (*named)(nil), math.Inf(1)
	row := make([]float64, s.g.size())
	for _, beta := range []float64{.25, .5, 1, 2, 4, 8, -.25, -.5, -1, -2, -4, -8} {
		beta /= wide
		if !shape.scaled {
			if math.Abs(beta*wide) != 1 {
				continue
			}
			beta *= wide
		}
		x, y := mat.NewDense(points, 2, nil), mat.NewVecDense(points, nil)
		for i := range points {
			z := at[(2*i+1)*len(at)/(2*points)]
			h, _ := shape.h(beta * z)
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
			best, least = &named{shape, c.AtVec(0), c.AtVec(1), beta}, e
		}
	}
	if best == nil {
		best = &named{shape: shape, beta: 1}
	}
	return best
}
