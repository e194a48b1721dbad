package learn

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/expression"
)

// Named is a function that g may be: Offset + Scale·Name(Beta·z + Shift), with all parameters fitted again. A leaky
// ReLU has the slope Slope below its kink. Shift is fitted where it is a convention, for one expert and for experts
// with intercepts, and elsewhere where BIC prefers it.
type Named struct {
	Name          string   `json:"name"`
	Activation    string   `json:"activation"` // all of it, as an expression of z
	Offset        float64  `json:"offset"`
	Scale         float64  `json:"scale"`
	Beta          float64  `json:"beta"`
	Shift         float64  `json:"shift"`
	Slope         *float64 `json:"slope"` // null but for a leaky ReLU
	LogLikelihood float64  `json:"log_likelihood"`
	BIC           float64  `json:"bic"`
	Converged     bool     `json:"converged"` // else the likelihood still rose, and nothing is tested

	// The test of whether the curve deviates from this one by a spline, χ² with DF degrees of freedom: the score test,
	// which knows the likelihood about this fit alone. P is null where there are none.
	Statistic float64  `json:"statistic"`
	DF        int      `json:"df"`
	P         *float64 `json:"p"`
	Ratio     *Ratio   `json:"likelihood_ratio"` // null where P is

	shape shape
}

// Ratio is the likelihood ratio test of the same: Statistic is twice what the log-likelihood gains where the spline is
// fitted beside the function. It also sees what is far from the function, where the score test may not.
type Ratio struct {
	Statistic float64 `json:"statistic"`
	DF        int     `json:"df"`
	P         float64 `json:"p"`
}

// deviatingSteps are those of the fit with the spline. One that ends before its optimum has too small a statistic.
const deviatingSteps = 60

// Eval writes the function at z to dst.
func (n *Named) Eval(dst, z []float64) {
	for i, v := range z {
		u := n.Beta*v + n.Shift
		h, _ := n.shape.h(u)
		if n.Slope != nil {
			rest, _ := n.shape.rest(u)
			h += *n.Slope * rest
		}
		dst[i] = n.Offset + n.Scale*h
	}
}

// untested takes the test of n away.
func (n *Named) untested() { n.Statistic, n.DF, n.P, n.Ratio = 0, 0, nil, nil }

// LeastP is the smaller p of the two tests, nil where there are none. They are of one deviation and agree where it is
// small, so that the smaller is not corrected for their number.
func (n *Named) LeastP() *float64 {
	if n.P == nil || n.Ratio == nil {
		return n.P
	}
	p := min(*n.P, n.Ratio.P)
	return &p
}

// Rejected says whether one of the two tests rejects the function at .05.
func (n *Named) Rejected() bool {
	p := n.LeastP()
	return p != nil && *p < .05
}

// String is the function's name with the parameters that tell it from others of the name.
func (n *Named) String() string {
	var with []string
	if n.Slope != nil {
		with = append(with, fmt.Sprintf("slope %.3g", *n.Slope))
	}
	if n.shape.scaled {
		with = append(with, fmt.Sprintf("beta %.3g", n.Beta))
	}
	if n.Shift != 0 {
		with = append(with, fmt.Sprintf("shift %.2g", n.Shift))
	}
	if with == nil {
		return n.Name
	}
	return n.Name + " (" + strings.Join(with, ", ") + ")"
}

// namedSteps are enough for a function whose parameters the rows tell. Those of others go on: with β towards 0 and a
// scale that grows exp(−z²) is a parabola.
const namedSteps = 400

// compare fits the mixture of s with each of the shapes in the place of the spline, best BIC first.
func compare(ctx context.Context, s *state, r *rows, move float64) ([]Named, error) {
	few := r.thinned(startRows)
	at := s.indices(r)
	var out []Named
	for _, shape := range shapes {
		var done *state
		for _, moves := range []bool{false, true} {
			if moves != s.placed && (s.placed || shape.fixed != nil) {
				continue
			}
			begun := s.clone()
			begun.g = nearest(s, shape, at, moves && shape.fixed == nil)
			next, err := begun.climb(ctx, few, namedSteps, 1e-3)
			if err != nil {
				return nil, err
			}
			if few != r {
				if next, err = next.climb(ctx, r, namedSteps, 1e-3); err != nil {
					return nil, err
				}
			}
			if done == nil || next.bic(r) < done.bic(r) {
				done = next
			}
		}
		n := done.g.(*named).named(move)
		if n.Slope != nil && !(*n.Slope >= 0) { // no leaky ReLU, but one that falls and rises
			continue
		}
		n.LogLikelihood, n.BIC = done.loglik, done.bic(r)
		if n.Converged = done.settled; n.Converged {
			if err := n.test(ctx, done, r); err != nil {
				return nil, err
			}
		}
		out = append(out, n)
	}
	slices.SortStableFunc(out, func(a, b Named) int { return cmp.Compare(a.BIC, b.BIC) })
	return out, nil
}

// test gives n both tests of its fit, which is s.
func (n *Named) test(ctx context.Context, s *state, r *rows) (err error) {
	var with *state
	n.Statistic, n.DF, with = s.deviation(r)
	if n.DF == 0 {
		return nil
	}
	p := tail(n.Statistic, n.DF)
	n.P = &p
	if with, err = with.climb(ctx, r, deviatingSteps, 1e-3); err != nil {
		return err
	}
	gain := 2 * (with.loglik - s.loglik)
	n.Ratio = &Ratio{gain, n.DF, tail(gain, n.DF)}
	return nil
}

// named is g of indices that are larger by move.
func (n *named) named(move float64) Named {
	out := Named{Name: n.shape.name, Offset: n.offset, Scale: n.scale, Beta: n.beta, Shift: n.shift - n.beta*move,
		shape: n.shape}
	if n.shape.fixed != nil {
		n.shape.fixed(&out)
	}
	if m := n.shape.mirror; out.Beta < 0 && m[1] != 0 {
		out.Offset, out.Scale, out.Beta, out.Shift = out.Offset+out.Scale*m[0], out.Scale*m[1], -out.Beta, -out.Shift
	}
	other := n.other
	if n.shape.rest != nil {
		if math.Abs(other) > math.Abs(out.Scale) { // the same of −u
			out.Scale, other, out.Beta, out.Shift = -other, -out.Scale, -out.Beta, -out.Shift
		}
		slope := other / out.Scale
		out.Slope = &slope
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	u := "z"
	if out.Beta != 1 {
		u = number(out.Beta) + "*z"
	}
	if out.Shift != 0 {
		u += " + " + number(out.Shift)
	}
	text := number(out.Offset) + " + " + fmt.Sprintf(n.shape.text, number(out.Scale), number(other), u)
	out.Activation = expression.Prefix + " " + strings.ReplaceAll(text, "+ -", "- ")
	return out
}

// nearest returns the member of a shape that is nearest to the curve of s at indices.
func nearest(s *state, shape shape, at []float64, moves bool) *named {
	const points = 200
	wide := math.Abs(at[len(at)-1-len(at)/40]-at[len(at)/40]) / 4
	best, least := (*named)(nil), math.Inf(1)
	row := make([]float64, s.g.size())
	places := []float64{0}
	if moves {
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
			bare := &named{shape: shape, beta: beta, shift: -beta * place, moves: moves}
			linear := bare.linear()
			x, y := mat.NewDense(points, len(linear), nil), mat.NewVecDense(points, nil)
			by := make([]float64, bare.size())
			for i := range points {
				z := at[(2*i+1)*len(at)/(2*points)]
				bare.at(z, by)
				x.SetRow(i, by[:len(linear)])
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
				for j, v := range linear {
					*v = c.AtVec(j)
				}
				best, least = bare, e
			}
		}
	}
	if best == nil {
		best = &named{shape: shape, beta: 1, moves: moves}
	}
	return best
}
