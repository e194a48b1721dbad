package main

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/sdk"
)

var tanh = sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { t := math.Tanh(z); return 1 - t*t }}

// configOf is the fit of a design's model.
func configOf(g searchtest.Design) host.Config {
	return host.Config{K: g.K, Seed: 1, Intercepts: g.Intercepts(), Noise: g.Noise()}
}

// problemOf is the problem of a fit, with its moments by polynomials.
func problemOf(ctx context.Context, act sdk.Activation, src dataset.Source,
	cfg host.Config) (*problem.Problem, *moment.Evidence) {
	p := must(problem.Load(ctx, src, act, problem.Request{K: cfg.K, Intercepts: cfg.Intercepts, Noise: cfg.Noise,
		Seed: cfg.Seed, Threads: cfg.Threads}))
	return p, must(moment.Measure(ctx, p, moment.Want{Transform: moment.Polynomial}))
}

// climbed is the log-likelihood of all rows of the maximum that parameters in the units of the fit lead to.
func climbed(ctx context.Context, p *problem.Problem, q *model.Params) float64 {
	q = p.Shape.Adopt(q)
	l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
	return -must(climb.Climb(ctx, l, l.Theta(q), nil)).Value * float64(p.N())
}
