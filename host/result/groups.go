package result

import (
	"context"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// mostGroups is the most groups whose posteriors go into the model's file.
const mostGroups = 100_000

// groupsOf is how files state the groups of a fit at p, its experts in the model's order; nil where there are none.
func groupsOf(ctx context.Context, p *problem.Problem, l *loss.Likelihood, at *model.Params) (*fitted.Groups, error) {
	if !p.Grouped() {
		return nil, nil
	}
	out := &fitted.Groups{Column: p.Schema.Roles[model.Groups], Count: len(p.Groups.IDs)}
	if out.Count > mostGroups {
		return out, nil
	}
	of, err := l.OfGroups(ctx, at)
	if err != nil {
		return nil, err
	}
	out.Posteriors = make(map[string][]float64, out.Count)
	for g, id := range p.Groups.IDs {
		out.Posteriors[id] = of.Posteriors[g*at.K : (g+1)*at.K : (g+1)*at.K]
	}
	return out, nil
}
