package predict

import (
	"context"
	"fmt"
	"math"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

// Groups is what a model knows of the groups of a table's rows, all rows of each of which have one expert.
type Groups struct {
	Posteriors map[string][]float64 // by the groups' ids: K probabilities of the experts
	// New is how many groups of a table were not among them, after a pass over its predictions.
	New int

	// of the groups of a table, by what stands in its column
	of map[float64][]float64
}

// joints are of the groups of a table, by what stands in its column,
//
//	log P(z=i|x_g) + Σ_t log f(y_gt; m_i(x_gt), ψ_i)
type joints struct {
	schema     dataset.Schema
	params     *model.Params
	density    mixture.Density
	of         map[float64]*joint
	order      []*joint
	logf, none []float64 // room
	seen       int       // rows gone over
}

// joint is that of one group.
type joint struct {
	row    int // its first, counted from 1
	weight float64
	gate   []float64
	logs   []float64 // K
}

func newJoints(p *model.Params, schema dataset.Schema) *joints {
	return &joints{schema: schema, params: p, density: mixture.DensityOf(p.Family), of: make(map[float64]*joint),
		logf: make([]float64, p.K*model.BlockRows), none: make([]float64, model.BlockRows)}
}

// add adds the rows of a block, of which p is the prediction, but for those that skip says are no use, and the
// densities of those that have a target. A gate or weights that vary within a group are a *dataset.Error.
func (j *joints) add(b *model.Block, p *Prediction, skip, noTarget func(row int) bool) error {
	k, n := j.params.K, b.N
	if b.Y != nil {
		density := mixture.OfTrials(j.density, b.Role[model.Trials])
		for i := range k {
			density.LogDensity(j.logf[i*n:(i+1)*n], j.none[:n], b.Y, p.Experts[i*n:(i+1)*n], j.params.OwnOf(nil, i))
		}
	}
	for r, id := range b.Role[model.Groups] {
		j.seen++
		if skip(r) {
			continue
		}
		g := j.of[id]
		if g == nil {
			g = &joint{row: j.seen, weight: b.Weight(r), gate: make([]float64, k), logs: make([]float64, k)}
			for i := range k {
				g.gate[i] = p.Gate[i*n+r]
				g.logs[i] = math.Log(g.gate[i])
			}
			j.of[id], j.order = g, append(j.order, g)
		}
		for i, v := range g.gate {
			if math.Abs(p.Gate[i*n+r]-v) > gateVaries {
				return j.fault(g, id, "what the gate sees varies: its features are constant in a group")
			}
		}
		if b.Weight(r) != g.weight {
			return j.fault(g, id, fmt.Sprintf("the weights are %v and %v: weights are constant in a group", g.weight,
				b.Weight(r)))
		}
		if b.Y != nil && !noTarget(r) {
			for i := range g.logs {
				g.logs[i] += j.logf[i*n+r]
			}
		}
	}
	return nil
}

// gateVaries is what rounding may make of a gate's probability in rows of one group.
const gateVaries = 1e-9

func (j *joints) fault(g *joint, id float64, what string) error {
	return &dataset.Error{File: j.schema.Name, Msg: fmt.Sprintf("rows %d and %d of group %s (column %q): %s", g.row,
		j.seen, j.schema.ID(model.Groups, id), j.schema.Roles[model.Groups], what)}
}

// logLikelihood is Σ_g w_g·log p(y_g|x_g); it makes posteriors of the joints.
func (j *joints) logLikelihood() (sum float64) {
	for _, g := range j.order {
		if v := mixture.SharePosterior(g.logs); g.weight > 0 {
			sum += g.weight * v
		}
	}
	return sum
}

// take finds what is known of the groups of src: the posterior of those that the model has, and of others the gate's
// probabilities, times the density of the rows that have a target.
func (g *Groups) take(ctx context.Context, t *predictions) error {
	g.of, g.New = make(map[float64][]float64), 0
	schema := t.src.Schema()
	predictor, j := NewPredictor(t.params, t.act, schema.Name), newJoints(t.params, schema)
	err := t.src.Read(ctx, func(b *model.Block) error {
		whole, lacks := complete(b)
		p, err := predictor.Predict(ctx, whole)
		if err != nil {
			return err
		}
		ids := b.Role[model.Groups]
		whole.Role[model.Groups] = ids
		return j.add(whole, p, func(r int) bool {
			id := ids[r]
			if math.IsNaN(id) || lacks != nil && lacks[r] == feature {
				return true
			}
			if g.of[id] == nil {
				if known := g.Posteriors[schema.ID(model.Groups, id)]; known != nil {
					g.of[id] = known
				}
			}
			return g.of[id] != nil
		}, func(r int) bool { return lacks != nil && lacks[r] != nothing })
	})
	for id, s := range j.of {
		mixture.SharePosterior(s.logs)
		g.of[id] = s.logs
	}
	g.New = len(j.of)
	return err
}

// GroupPosteriors passes every block of a table of rows in groups that have targets to fn, with the experts'
// probabilities given all rows of each row's group, K rows of N values, which are valid until fn returns.
func GroupPosteriors(ctx context.Context, p *model.Params, act model.Activation, src dataset.Source,
	fn func(b *model.Block, posterior []float64) error) error {
	var g Groups
	if err := g.take(ctx, &predictions{params: p, act: act, src: src}); err != nil {
		return err
	}
	posterior := make([]float64, p.K*model.BlockRows)
	return src.Read(ctx, func(b *model.Block) error {
		for r, id := range b.Role[model.Groups] {
			for i, v := range g.of[id] {
				posterior[i*b.N+r] = v
			}
		}
		return fn(b, posterior[:p.K*b.N])
	})
}

// apply has the predictions of a block be those given what is known of its rows' groups: the gate's probabilities, the
// posterior where there are targets, and the mean.
func (g *Groups) apply(p *Prediction, b *model.Block) {
	n, k := p.N, len(p.Gate)/max(p.N, 1)
	for r, id := range b.Role[model.Groups] {
		known := g.of[id]
		if known == nil {
			continue
		}
		p.Mean[r] = 0
		for i := range k {
			at := i*n + r
			if p.around != nil {
				p.around.logits[at] += logOf(known[i]) - logOf(p.Gate[at])
			}
			p.Gate[at] = known[i]
			p.Mean[r] += known[i] * p.Experts[at] * p.triedOf(r)
			if p.Posterior != nil {
				p.Posterior[at] = known[i]
			}
		}
	}
}

// logOf is the logarithm of a probability, and of 0 one that is next to it.
func logOf(p float64) float64 { return max(math.Log(p), -700) }

// grouped says whether the predictions are of rows in groups.
func (t *predictions) grouped() bool {
	return t.extras.Groups != nil && t.src.Schema().Roles[model.Groups] != ""
}
