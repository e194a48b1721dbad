package problem

import (
	"context"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk"
)

// Sums are what passes over the parts of a table have told of all its rows.
type Sums struct {
	Schema  dataset.Schema
	Second  *tensor.Second // with the weights and in the units of the data
	Columns Columns
	Dropped int // rows with missing cells that were left out
}

// FromSums is [Load] for a table that is known by its sums and a sample of its rows:
// Second, Inputs and Units are those of all rows, to the byte those that Load makes of
// them; Rows, Given and Weights are the sample's. The shape has no intercepts, which
// would take means off the features. Errors: [*RequestError], [*claims.Error],
// *dataset.Error, those of act and of ctx.
func FromSums(ctx context.Context, all Sums, sample *model.Data, act sdk.Activation, r Request) (*Problem, error) {
	p := &Problem{Schema: all.Schema, Activation: act, Seed: r.Seed, Threads: r.Threads, Dropped: all.Dropped}
	p.Notes = slices.Clone(p.Schema.Notes)
	var err error
	if p.Shape, err = r.shape(p.Schema.Features); err != nil {
		return nil, err
	}
	if p.Shape.takesMeans() {
		return nil, Refuse("sums of all rows have no intercepts")
	}
	if p.Moments, err = MomentsOf(ctx, act); err != nil {
		return nil, err
	}
	if !p.Shape.Normal() {
		if p.Link, err = newLink(ctx, p); err != nil {
			return nil, err
		}
	}
	if err := firstOf(p.enoughExperts(all.Second.N), all.Columns.check(p.Schema), p.enoughRows(all.Second.N),
		p.Shape.room(sample)); err != nil {
		return nil, err
	}
	if p.Link != nil {
		for i := range sample.Blocks {
			if row, wrong := mixture.Outside(p.Shape.Density(), &sample.Blocks[i]); row >= 0 {
				return nil, &dataset.Error{File: p.Schema.Name, Msg: "in the subsample " + wrong}
			}
		}
	}
	if p.Weights, err = WeightsOf(ctx, sample); err != nil {
		return nil, err
	}
	if err := p.adopt(ctx, all.Second, p.Weights.even(sample), sample, 0); err != nil {
		return nil, err
	}
	if p.Link != nil {
		if err := p.Link.begin(ctx, p.Rows); err != nil {
			return nil, err
		}
	}
	p.G, err = native.EvaluatorOf(ctx, act, r.Approximate)
	return p, err
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
