package specification

import (
	"context"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Steps makes the specification tests of [Tests] in steps, for rows that are in
// parts on several machines: what a step tells of parts adds up, and all of it goes into
// the next.
//
//	Squares  of the rows of [model.Spaced] blocks, about Draws of them; Scale takes all
//	Sums     of all rows, and Draw of rows of them
//	Tests    of all sums and draws
type Steps struct{ terms *terms }

// NewSteps begins the tests of the mixture p, fitted over the free parameters. Of
// too many terms it is a [*TooManyError].
func NewSteps(act model.Activation, p *model.Params, free loss.Free) (*Steps, error) {
	m := newTerms(act, p, free)
	if m.at[atEnd] > mostTerms {
		return nil, &TooManyError{m.at[atEnd]}
	}
	return &Steps{m}, nil
}

// Terms is the number of a row's terms.
func (s *Steps) Terms() int { return s.terms.at[atEnd] }

// Draws is about how many targets are drawn for the covariance of the terms.
func (s *Steps) Draws() int { return drawsFor(s.Terms()) }

// Squares returns the sums of the squares over rows of what the bounded functions are
// taken of.
func (s *Steps) Squares(ctx context.Context, rows model.Rows) (*Squares, error) {
	return s.terms.squares(ctx, rows)
}

// Scale sets the scales of the bounded functions.
func (s *Steps) Scale(q *Squares) { s.terms.scale(q) }

// NoSums returns those of no rows.
func (s *Steps) NoSums() *RowSums { return s.terms.newSums() }

// Sums returns the sums of the terms over rows.
func (s *Steps) Sums(ctx context.Context, rows model.Rows, workers int) (*RowSums, error) {
	return s.terms.sums(ctx, rows, workers)
}

// Draw draws rows of a table, of which those given begin at its block first. Of all are
// taken Σ p_i and the weight of all its rows.
func (s *Steps) Draw(ctx context.Context, rows model.Rows, first int, all *RowSums, seed uint64,
	workers int) (*Draws, error) {
	return sample(ctx, rows, s.terms.p, first, s.Draws(), all, seed, workers)
}

// Tests draws targets for the rows drawn and makes the tests of the sums. Where they are below
// [infer.Doubt] they are made again with moreTargets targets for each row drawn, allowing for the
// skewness of the terms, without directions that a few rows make.
func (s *Steps) Tests(ctx context.Context, sums *RowSums, drawn *Draws, seed uint64,
	workers int) (Tested, error) {
	of := &rowTargets[termRows]{drawing: s.terms.drawing(), drawn: drawn, seed: seed, workers: workers}
	return s.terms.tests(ctx, of, sums, float64(s.Draws()))
}

// under says of tests of a mixture of another density than the normal one what they suggest, and that none is robust:
// no free noise level makes the variance of e_i 1 whatever the density.
func (t *Tested) under(law mixture.Density) {
	t.inTime.Noise = 0
	for i := range t.Tests {
		of := &t.Tests[i]
		of.Noise = 0
		of.Robust = of.Name == infer.DependenceTest
		if infer.OfSpread(of.Name) {
			of.Suggests = infer.ShapeCause(law)
		}
	}
}

// moreTargets is how many targets are drawn of each row where tests are in doubt.
const moreTargets = 8

// testsOf makes tests from sums and draws, by the forms that quadratic makes of both.
func testsOf(ctx context.Context, d targets, blocks []int, sums *RowSums, draws float64,
	quadratic func(s *RowSums, c *mat.SymDense, draws float64, along bool) (*quadraticForms, []infer.Untested)) (Tested,
	error) {
	out := Tested{Mass: sums.Mass, Overlap: sums.Shared / sums.Weight}
	c, err := covarianceOf(ctx, d, 1, blocks)
	if err != nil {
		return out, err
	}
	var q *quadraticForms
	q, out.Untested = quadratic(sums.clone(), c, draws, false)
	out.Tests = q.tests()
	if least(out.Tests) < infer.Doubt {
		if c, err = covarianceOf(ctx, d, moreTargets, blocks); err != nil {
			return out, err
		}
		q, _ = quadratic(sums.clone(), c, moreTargets*draws, true)
		if err := giveShape(ctx, d, moreTargets, q); err != nil {
			return out, err
		}
		out.Tests = q.tests()
	}
	var t infer.Test
	t, out.NotMade = sums.dependence()
	if t.DF > 0 {
		out.Tests = append(out.Tests, t)
	}
	n, all := len(out.Tests), out.Tests
	if sums.Groups == nil {
		all = append(all, sums.Neighbours.InTime())
	}
	allowForNoise(all, out.Overlap)
	if out.Tests = all[:n:n]; n < len(all) {
		out.inTime = all[n]
	}
	return out, nil
}

// allowForNoise says what a noise of another shape may add to the robust tests of experts that
// overlap so much.
func allowForNoise(tests []infer.Test, overlap float64) {
	shape := 0.0
	for i := range tests {
		if t := &tests[i]; t.Name == infer.ResidualsTest {
			shape = max(0, t.Statistic-float64(t.DF))
		}
	}
	for i := range tests {
		if t := &tests[i]; t.Robust {
			t.Noise = overlap / 2 * shape
		}
	}
}

// least is the smallest p-value of tests, times their number.
func least(tests []infer.Test) float64 {
	p := 1.0
	for _, t := range tests {
		p = min(p, float64(len(tests))*t.PValue)
	}
	return p
}
