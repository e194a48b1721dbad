package diagnosis

import (
	"context"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report"
	"github.com/gatedlearning/moe/internal/numeric"
)

// maxScatters is how many features have a picture of the residuals.
const maxScatters = 6

// Index is the experts along their indices: expert i's z_i = ⟨a_i,x⟩ + b_i over the
// range of the points that are most probably its own, and g(z_i).
type Index struct {
	Z, G [][]float64 // per expert
}

// alongIndex evaluates the experts over the ranges of their points.
func (d *Diagnosis) alongIndex(ctx context.Context, k int, act model.Activation) (*Index, error) {
	z := make([]float64, k*curvePoints)
	out := new(Index)
	for i := range k {
		var own []float64
		for _, p := range d.Points {
			if p.Expert == i {
				own = append(own, p.Index)
			}
		}
		lo, hi := numeric.Extent(own)
		at := z[i*curvePoints : (i+1)*curvePoints]
		for t := range at {
			at[t] = lo + (hi-lo)*float64(t)/(curvePoints-1)
		}
		out.Z = append(out.Z, at)
	}
	g := make([]float64, len(z))
	if err := act.Eval(ctx, g, z); err != nil {
		return nil, err
	}
	for i := range k {
		out.G = append(out.G, g[i*curvePoints:(i+1)*curvePoints])
	}
	return out, nil
}

// scattered are the features that residuals are drawn against: all, or of more than
// maxScatters those with the largest |t| among the experts'.
func scattered(m *fitted.Model) []int {
	if m.D <= maxScatters {
		all := make([]int, m.D)
		for j := range all {
			all[j] = j
		}
		return all
	}
	features, _ := report.ShownFeatures(m, m.Regressors, report.KnownErrors(m).Regressors, maxScatters)
	return features
}
