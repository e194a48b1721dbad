// Package sweep fits samples of known mixtures over a grid of settings, several times
// each: how errors, likelihood and verdicts go with k, n and σ. What is finished is a
// row of a table ([Table]), so that an interrupted sweep goes on where it was.
package sweep

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/sdk"
)

// Grid is what is swept over: every k with every n, every σ and every seed.
type Grid struct {
	Activation  sdk.Activation
	Approximate bool // see [host.Config]
	D           int  // features
	Design      sample.Design
	Inputs      sample.Inputs
	InputsName  string // as [sample.ParseInputs] reads it
	K, N        []int
	Sigma       []float64
	First       uint64 // the first seed
	Seeds       int    // their number
}

// Setting is a point of a grid.
type Setting struct {
	K, N  int
	Sigma float64
	Seed  uint64 // of the truth, the sample and the fit
}

// Settings lists the points of the grid: by k, then σ, then n, then seed.
func (g *Grid) Settings() []Setting {
	var out []Setting
	for _, k := range g.K {
		for _, sigma := range g.Sigma {
			for _, n := range g.N {
				for i := range g.Seeds {
					out = append(out, Setting{k, n, sigma, g.First + uint64(i)})
				}
			}
		}
	}
	return out
}

// Check says what of the grid no sample can be drawn of.
func (g *Grid) Check() error {
	for _, k := range g.K {
		for _, n := range g.N {
			for _, sigma := range g.Sigma {
				if _, err := g.sampler(Setting{K: k, N: n, Sigma: sigma}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (g *Grid) sampler(s Setting) (*sample.Sampler, error) {
	return sample.New(sample.Config{
		Activation: g.Activation, K: s.K, D: g.D, N: s.N, Sigma: s.Sigma, Design: g.Design, Inputs: g.Inputs,
		Seed: s.Seed,
	})
}

// Options say how a sweep runs.
type Options struct {
	Threads int // fits side by side, each on one thread; 0: one per processor
	// Finished is called after every fit with the table so far, from one goroutine at
	// a time. An error ends the sweep.
	Finished func(t *Table, done, total int) error
}

// Run fits what the table does not have of the grid, and adds it. A sample that no
// mixture can be fitted to, such as one of too few rows, is a row that says why.
// Errors are those of the activation, of ctx and of o.Finished; the table then has what
// was finished.
func Run(ctx context.Context, g *Grid, t *Table, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var todo []Setting
	all := g.Settings()
	for _, s := range all {
		if !t.has(g, s) {
			todo = append(todo, s)
		}
	}
	done, work := len(all)-len(todo), make(chan Setting)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range min(model.Workers(o.Threads), max(1, len(todo))) {
		wg.Go(func() {
			for s := range work {
				r, err := g.run(ctx, s)
				mu.Lock()
				if err == nil && ctx.Err() == nil {
					t.add(g, r)
					done++
					err = o.Finished(t, done, len(all))
				}
				mu.Unlock()
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, s := range todo {
		select {
		case work <- s:
		case <-ctx.Done():
		}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// Result is a row of the table.
type Result struct {
	Setting
	EReg, EGating float64 // against the truth, as of fitted.Recovery
	LogLikelihood float64 // of the sample under the fit
	OfTruth       float64 // and under the parameters that it was drawn from
	Converged     bool
	Optimum       string // the certificate's verdicts
	Model         string
	PValue        float64
	Failed        string  // why there is no fit; "" where there is
	Seconds       float64 // to draw and fit, on one thread
}

// run draws a sample and fits it.
func (g *Grid) run(ctx context.Context, s Setting) (*Result, error) {
	began := time.Now()
	sampler, err := g.sampler(s)
	if err != nil {
		return nil, err
	}
	r := &Result{Setting: s}
	m, err := host.Fit(ctx, g.Activation, sampler, host.Config{
		K: s.K, Seed: s.Seed, Threads: 1, Truth: sampler.Truth, Approximate: g.Approximate,
	})
	r.Seconds = time.Since(began).Seconds()
	var request *host.RequestError
	var data *dataset.Error
	switch {
	case errors.As(err, &request):
		r.Failed = request.Msg
		return r, nil
	case errors.As(err, &data):
		r.Failed = data.Msg
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("k = %d, n = %d, sigma = %v, seed %d: %w", s.K, s.N, s.Sigma, s.Seed, err)
	}
	r.fill(m)
	truth, err := predict.Evaluate(ctx, sampler.Truth, g.Activation, sampler)
	if err != nil {
		return nil, err
	}
	r.OfTruth = truth.LogLikelihood
	return r, nil
}

// fill takes what the table has of a fit.
func (r *Result) fill(m *fitted.Model) {
	r.EReg, r.EGating = m.Truth.EReg, m.Truth.EGating
	r.LogLikelihood, r.Converged = m.Fit.LogLikelihood, m.Fit.Converged
	if c := m.Fit.Certificate; c != nil {
		r.Optimum, r.Model, r.PValue = c.Optimum, c.Model, c.PValue
	}
}
