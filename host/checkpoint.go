package host

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/claims"
)

// request is what was asked for: the configuration as it came, and how far a
// range of k has come where there is one.
type request struct {
	Config
	chosen checkpoint.Series // From is 0 where there is one fit
	// of the activations, taken before the search: a checkpoint is written when they may be gone
	values []*claims.Values
	data   func() (string, error) // the hash of the rows, made once
	given  *atomic.Bool           // a checkpoint has been offered
	more   map[string]any         // settings besides, or in the place of those of one target

	parameters int // of several targets under one gate; 0 for one target
}

// leave sees to it that a checkpoint can be written when the rows' file is closed: that
// of an interrupted fit is.
func (r request) leave(ctx context.Context) {
	if ctx.Err() != nil && r.given.Load() {
		r.data()
	}
}

// requested is a request for a fit of p.
func (c Config) requested(ctx context.Context, p *problem.Problem) (request, error) {
	r := request{Config: c, given: new(atomic.Bool)}
	r.data = sync.OnceValues(func() (string, error) { return checkpoint.Hash(p.Rows, p.Threads) })
	for _, g := range p.Activations() {
		values, err := claims.ValuesOf(ctx, g)
		if err != nil {
			return r, err
		}
		r.values = append(r.values, values)
	}
	return r, nil
}

// started is the run of c, of one number of experts, for a request: with the
// state that a checkpoint is resumed from, and the way to write the next.
func (c Config) started(ctx context.Context, p *problem.Problem, asked request) (run, error) {
	r := run{Config: c}
	if c.Checkpoint != nil {
		r.checkpoint = func(p *problem.Problem, s search.State) {
			asked.given.Store(true)
			c.Checkpoint(func() (*Checkpoint, error) { return asked.checkpoint(p, s) })
		}
	}
	from := c.Resume
	if from == nil {
		return r, nil
	}
	if asked.chosen.From == 0 { // a series has admitted it
		if err := asked.admit(ctx, from, p); err != nil {
			return r, err
		}
	} else if len(from.Chosen.Selection) != len(asked.chosen.Selection) {
		return r, nil
	}
	var err error
	if asked.parameters > 0 {
		r.resume, err = from.StateOfSeveral(asked.parameters)
	} else {
		r.resume, err = from.State(p.Shape.Blank(1))
	}
	return r, err
}

// resumed is what a series had come to.
func (r request) resumed(ctx context.Context, p *problem.Problem) (checkpoint.Series, error) {
	c, done := r.Config, r.chosen
	if c.Resume == nil {
		return done, nil
	}
	if err := r.admit(ctx, c.Resume, p); err != nil {
		return done, err
	}
	if !c.Resume.Chosen.Whole() {
		return done, checkpoint.Damaged("it does not say how far the range of k had come")
	}
	return *c.Resume.Chosen, nil
}

// fit is what its checkpoints belong to.
func (r request) fit(p *problem.Problem) (checkpoint.Fit, error) {
	settings, err := r.settings(p)
	f := checkpoint.Fit{Settings: settings, Data: r.data, Values: r.values}
	if r.chosen.From > 0 {
		f.Series = &r.chosen
	}
	return f, err
}

// checkpoint writes down where a search stands.
func (r request) checkpoint(p *problem.Problem, s search.State) (*Checkpoint, error) {
	f, err := r.fit(p)
	if err != nil {
		return nil, err
	}
	return f.Save(p, s)
}

// admit refuses a checkpoint of another request, other data or other activations.
func (r request) admit(ctx context.Context, c *Checkpoint, p *problem.Problem) error {
	f, err := r.fit(p)
	if err != nil {
		return err
	}
	return f.Admit(ctx, c, p)
}

// settings are what the outcome depends on besides the data.
func (r request) settings(p *problem.Problem) (map[string]string, error) {
	c := r.Config
	k := fmt.Sprint(c.K)
	if r.chosen.From > 0 {
		k = fmt.Sprintf("%d:%d", r.chosen.From, r.chosen.To)
	}
	out := map[string]string{"k": k, "program": checkpoint.Program()}
	var names []stated.Activation
	for _, g := range c.activations(p.Activation) {
		names = append(names, stated.Of(g.Info()))
	}
	values := map[string]any{
		"activation": names[0], "method": c.Method.Name(), "transform": c.Transform,
		"seed": c.Seed, "intercept": []bool{p.Shape.Intercept, p.Shape.GateIntercept}, "gate": c.Gate.Name(),
		"noise": c.Noise.Name(), "sigma": p.Shape.Sigma,
		"robust": c.wants(Robust), "hac": c.wants(Dependent), "arrangements": c.Arrangements,
		"approximate": c.Approximate,
		"features":    p.Schema.Features, "target": p.Schema.Target, "roles": p.Schema.Roles,
		"expert features": c.ExpertFeatures, "design": c.Design, "start": c.Start, "truth": c.Truth,
	}
	if !c.Inputs.Gaussian() {
		values["inputs"] = c.Inputs
	}
	if r.chosen.Grown {
		values["hierarchy"] = "auto"
	} else if p.Shape.Tree.Depth() > 1 {
		values["hierarchy"] = p.Shape.Tree.String()
	}
	if len(names) > 1 {
		values["leaves"] = names
	}
	if c.Tied != nil {
		values["tied"] = c.Tied
	}
	if c.Output != "" {
		values["output scale"] = c.Output
	}
	if p.Schema.Scale != "" {
		values["target scale"] = p.Schema.Scale
	}
	if p.Shape.Family != "" {
		values["density"] = p.Shape.Family
	}
	if p.Shape.Zero {
		values["zero expert"] = true
	}
	if g, ok := c.Gate.(Softmax); ok {
		values["gate features"] = g.Features
	}
	if Takes(c.Method, OptCheckpoints) {
		m := c.Method.(Auto)
		values["mu"], values["starts"] = m.Mu, m.starts()
	}
	maps.Copy(values, r.more)
	for key, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		out[key] = string(text)
	}
	return out, nil
}
