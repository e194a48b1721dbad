package infer

import (
	"context"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// Specification makes the specification tests of [Tests] in steps, for rows that are in
// parts on several machines: what a step tells of parts adds up, and all of it goes into
// the next.
//
//	Squares  of the rows of [model.Spaced] blocks, about Draws of them; Scale takes all
//	Sums     of all rows, and Draw of rows of them
//	Tests    of all sums and draws
type Specification struct{ terms *terms }

// NewSpecification begins the tests of the mixture p, fitted over the free parameters. Of
// too many terms it is a [*TooManyError].
func NewSpecification(act model.Activation, p *model.Params, free loss.Free) (*Specification, error) {
	m := newTerms(act, p, free)
	if m.at[atEnd] > MostTerms {
		return nil, &TooManyError{m.at[atEnd]}
	}
	return &Specification{m}, nil
}

// Terms is the number of a row's terms.
func (s *Specification) Terms() int { return s.terms.at[atEnd] }

// Draws is about how many targets are drawn for the covariance of the terms.
func (s *Specification) Draws() int { return drawsFor(s.Terms()) }

// Squares returns the sums of the squares over rows of what the bounded functions are
// taken of.
func (s *Specification) Squares(ctx context.Context, rows model.Rows) (*Squares, error) {
	return s.terms.squares(ctx, rows)
}

// Scale sets the scales of the bounded functions.
func (s *Specification) Scale(q *Squares) { s.terms.scale(q) }

// Sums returns the sums of the terms over rows.
func (s *Specification) Sums(ctx context.Context, rows model.Rows, workers int) (*RowSums, error) {
	return s.terms.sums(ctx, rows, workers)
}

// Draw draws rows of a table, of which those given begin at its block first. Of all are
// taken Σ p_i and the weight of all its rows.
func (s *Specification) Draw(ctx context.Context, rows model.Rows, first int, all *RowSums, seed uint64, workers int) (*Draws, error) {
	return s.terms.sample(ctx, rows, first, s.Draws(), all, seed, workers)
}

// Tests draws targets for the rows drawn and makes the tests of the sums, which are used
// up. Experts of too few rows are left out, and named.
func (s *Specification) Tests(ctx context.Context, sums *RowSums, drawn *Draws, seed uint64, workers int) ([]Test, []Untested, error) {
	c, err := s.terms.covariance(ctx, drawn, seed, workers)
	if err != nil {
		return nil, nil, err
	}
	tests, untested := s.terms.tests(sums, c, float64(s.Draws()))
	return tests, untested, nil
}
