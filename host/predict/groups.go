package predict

import (
	"context"
	"math"

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

// take finds what is known of the groups of src: the posterior of those that the model has, and of others the gate's
// probabilities of their first rows, times the density of the rows that have a target.
func (g *Groups) take(ctx context.Context, t *predictions) error {
	g.of, g.New = make(map[float64][]float64), 0
	schema, k := t.src.Schema(), t.params.K
	predictor, density := NewPredictor(t.params, t.act, schema.Name), mixture.DensityOf(t.params.Family)
	logf, none := make([]float64, k*model.BlockRows), make([]float64, model.BlockRows)
	scores := make(map[float64][]float64) // of new ones: logarithms
	err := t.src.Read(ctx, func(b *model.Block) error {
		whole, lacks := complete(b)
		p, err := predictor.Predict(ctx, whole)
		if err != nil {
			return err
		}
		if b.Y != nil {
			for i := range k {
				density.LogDensity(logf[i*b.N:(i+1)*b.N], none[:b.N], whole.Y, p.Experts[i*b.N:(i+1)*b.N],
					t.params.OwnOf(nil, i))
			}
		}
		for r, id := range b.Role[model.Groups] {
			if g.of[id] != nil || math.IsNaN(id) || lacks != nil && lacks[r] == feature {
				continue
			}
			if known := g.Posteriors[schema.ID(model.Groups, id)]; known != nil {
				g.of[id] = known
				continue
			}
			s := scores[id]
			if s == nil {
				s = make([]float64, k)
				for i := range s {
					s[i] = math.Log(p.Gate[i*b.N+r])
				}
				scores[id] = s
			}
			if b.Y != nil && (lacks == nil || lacks[r] == nothing) {
				for i := range s {
					s[i] += logf[i*b.N+r]
				}
			}
		}
		return nil
	})
	for id, s := range scores {
		mixture.SharePosterior(s)
		g.of[id] = s
	}
	g.New = len(scores)
	return err
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
			p.Mean[r] += known[i] * p.Experts[at]
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
