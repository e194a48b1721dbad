// Package host fits mixtures of experts
//
//	y = g(⟨a_z, x⟩) + σ·N(0,1),  P(z = i | x) = softmax_i(⟨w_1,x⟩, …, ⟨w_{k−1},x⟩, 0)
//
// to rows (x, y), with g known: the moment estimate of the papers, the likelihood
// that refines it, and the search that makes sure of the optimum.
//
// [Fit] is what most programs need. The activation g is any [sdk.Func], or one of
// those that host/catalog opens by name; the rows are a matrix (dataset.Matrix) or a
// file (dataset.Open); of [Config] only K must be set:
//
//	m, err := host.Fit(ctx, g, dataset.Matrix(x, y), host.Config{K: 2})
//
// m has the coefficients with their standard errors, m.Fit.Certificate says whether
// to trust the optimum, and m.Write keeps it in a file. predict.New and predict.Open
// make predictions of it. [FitRange], [CrossValidate] and [Compare] choose the number of experts, and more.
package host

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/recheck"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/result/remedy"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/claims"
	"github.com/gatedlearning/moe/sdk"
)

// Fit fits a mixture of cfg.K experts with nonlinearity act to the rows of src
// by the method that cfg names. It reads like the paper:
//
//	moments of g → Q4, Q2 → T̂2 → its span → T̂4 there → L4 → regressors → signs
//	→ L_log → gating → joint likelihood
//
// The result is the same at any number of threads. A fit that did not converge
// is returned with Fit.Converged false, not as an error. Where the experts have
// activations of their own, cfg.Leaves, act is nil. Errors: [*RequestError]
// where the request does not fit the data or the activation, [*ClaimError] where g′ is not
// the derivative of g (moments of act's own are taken as they are, see [sdk.MomentsProvider]),
// those of src, of act and of ctx. It panics if act or src is nil.
func Fit(ctx context.Context, act sdk.Activation, src dataset.Source, cfg Config) (*fitted.Model, error) {
	cfg, p, err := load(ctx, act, src, cfg)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if s, k, d := cfg.Start, p.Shape.K, p.Shape.D; s != nil && (s.K != k || s.D != d) {
		return nil, problem.Refuse("the start has k = %d and d = %d, the fit k = %d and d = %d", s.K, s.D, k, d)
	}
	if err := cfg.sameFamily(p); err != nil {
		return nil, err
	}
	e, err := measure(ctx, p, cfg.want())
	if err != nil {
		return nil, err
	}
	asked, err := cfg.requested(ctx, p)
	if err != nil {
		return nil, err
	}
	defer asked.leave(ctx)
	r, err := cfg.started(ctx, p, asked)
	if err != nil {
		return nil, err
	}
	m, err := fit(ctx, p, e, r)
	if err != nil {
		return nil, err
	}
	return finish(ctx, p, m, cfg)
}

// finish adds to the model that is returned what is asked of it alone, and not of every one on the way to it.
func finish(ctx context.Context, p *problem.Problem, m *fitted.Model, cfg Config) (*fitted.Model, error) {
	written := cfg.written()
	if Takes(cfg.Method, OptFamily) && !cfg.Arrangements {
		if err := remedy.Try(ctx, p, m); err != nil {
			return nil, err
		}
	}
	if err := result.Penalise(ctx, p, m, written); err != nil {
		return nil, err
	}
	if err := result.NewRows(ctx, p, m, written); err != nil {
		return nil, err
	}
	if Choice(m.Fit.ChosenBy) != ByHeldOut { // by which several experts were chosen where rows are few
		if err := result.FewRows(ctx, p, m, written, alone(cfg)); err != nil {
			return nil, err
		}
	}
	if x := cfg.compared; x != nil && x.Table != nil {
		x.Tell(&m.Fit)
	}
	return result.OfTarget(ctx, p, m)
}

// load reads the data of a configuration, which comes back complete.
func load(ctx context.Context, act sdk.Activation, src dataset.Source, cfg Config) (Config, *problem.Problem, error) {
	switch {
	case act == nil && cfg.Leaves == nil, slices.Contains(cfg.Leaves, nil):
		panic("host: no activation")
	case act != nil && cfg.Leaves != nil:
		panic("host: an activation beside those of the leaves")
	case src == nil:
		panic("host: no data")
	}
	cfg, err := cfg.Checked()
	if err != nil {
		return cfg, nil, err
	}
	for _, g := range cfg.activations(act) {
		named := stated.Of(g.Info())
		if err := named.Check(); err != nil {
			return cfg, nil, problem.Refuse("no file of a model can name the activation: %v", err)
		}
	}
	if err := admits(cfg, src.Schema()); err != nil {
		return cfg, nil, err
	}
	cfg.show(StageRead, 0, 0)
	p, err := problem.Load(ctx, src, act, cfg.request())
	if err != nil {
		return cfg, nil, err
	}
	if p.Facts, err = problem.Look(ctx, p, src); err != nil {
		p.Close()
		return cfg, nil, err
	}
	return cfg, p, nil
}

// measure takes the moments of the target; where the means are c + s·g those of
// (y − c)/s, with c and s as the starts begin.
func measure(ctx context.Context, p *problem.Problem, w moment.Want) (*moment.Evidence, error) {
	e, err := moment.Measure(ctx, p.Plain(), w)
	if err == nil && p.Shape.Output != nil {
		e.Notes = []string{"the moment tensors are of (y - c)/s for a first guess of c and s, and give starts only"}
	}
	return e, err
}

// fit fits a problem of one number of experts.
func fit(ctx context.Context, p *problem.Problem, e *moment.Evidence, r run) (*fitted.Model, error) {
	if Takes(r.Method, OptStrict) {
		if err := possible(ctx, p, r.Start); err != nil {
			return nil, err
		}
	}
	out, err := r.Method.fit(ctx, p, e, r)
	if err != nil {
		return nil, err
	}
	m, err := result.Model(ctx, p, e, out, r.written())
	if err != nil {
		return nil, err
	}
	for _, g := range p.Activations() {
		if err := claims.Recheck(ctx, g); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// alone returns what fits one expert, of the problem that it is given, for a comparison.
func alone(c Config) func(context.Context, *problem.Problem) (*fitted.Model, error) {
	c = c.of(1)
	c.Checkpoint, c.Resume, c.Progress = nil, nil, nil
	return func(ctx context.Context, one *problem.Problem) (*fitted.Model, error) {
		e, err := measure(ctx, one, c.want())
		if err != nil {
			return nil, err
		}
		return fit(ctx, one, e, run{Config: c})
	}
}

// possible refuses a start of the user's under which the density of a row is 0 in float64: no
// step leads from a log-likelihood of −Inf.
func possible(ctx context.Context, p *problem.Problem, start *model.Params) error {
	if start == nil || start.K != p.Shape.K || start.D != p.Shape.D {
		return nil // of another k in a range, which stands aside
	}
	q, err := starts.Own(p, start).Draw(ctx, nil)
	if err != nil {
		return err
	}
	row, err := recheck.Impossible(ctx, p.Rows, p.G, recheck.Under(q, problem.LawOf(q.Family)))
	if err != nil || row == 0 {
		return err
	}
	return &dataset.Error{File: p.Schema.Name,
		Msg: fmt.Sprintf("row %d has a density of 0 at the start, whose logarithm is -Inf: its target is too far "+
			"from every expert's mean for the start's sigma; begin nearer, or with a larger sigma", row)}
}
