// Package learntest has what curves are tested and studied on: one learned from a sample, beside the truth.
package learntest

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/gatedlearning/moe/expression"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/learn"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// Trial is a curve learned from a sample, against the truth.
type Trial struct {
	*learn.Learned
	Src  *sample.Sampler
	Act  sdk.Activation
	EReg float64
	Sup  float64 // of the curve's error over the middle 95 % of arguments, in standard deviations of y
}

// Try learns the function of a text from n rows of k experts over six features, by a seed of the sample and the fit.
func Try(ctx context.Context, text string, k, n int, sigma float64, seed uint64) (Trial, error) {
	act, err := expression.Parse(text, nil)
	if err != nil {
		return Trial{}, err
	}
	src, err := sample.New(sample.Config{Activation: act, K: k, D: 6, N: n, Sigma: sigma, Seed: seed})
	if err != nil {
		return Trial{}, err
	}
	l, err := learn.Learn(ctx, src, learn.Config{K: k, UnitNorm: true, Seed: seed})
	if err != nil {
		return Trial{}, err
	}
	out := Trial{Learned: l, Src: src, Act: act}
	out.EReg, _ = metric.Ereg(l.Params, src.Truth)
	var z []float64
	for i := range 201 {
		z = append(z, l.Middle[0]+(l.Middle[1]-l.Middle[0])*float64(i)/200)
	}
	g, want := slices.Clone(z), slices.Clone(z)
	data, err := dataset.Load(ctx, src)
	if err := errors.Join(err, l.Table.Eval(ctx, g, z), act.Eval(ctx, want, z)); err != nil {
		return Trial{}, err
	}
	sum, squares := 0.0, 0.0
	for _, b := range data.Blocks {
		for _, y := range b.Y {
			sum, squares = sum+y/float64(n), squares+y*y/float64(n)
		}
	}
	for i := range z {
		out.Sup = max(out.Sup, math.Abs(g[i]-want[i])/math.Sqrt(squares-sum*sum))
	}
	return out, nil
}
