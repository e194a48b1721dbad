package experiment

import (
	"context"
	"fmt"

	"github.com/gatedlearning/moe/internal/stream"
)

// twoPoints are the points x of the figure overfit-two, twoStep is the step of its lattice, twoStarts are the starts
// of a fit and twoSteps at most the last steps of Newton's method.
const (
	twoPoints, twoStarts, twoSteps = 60, 3, 300
	twoStep                        = .15
)

// overfitTwo is the mixture of the simulation of arXiv 2305.03288 with two experts too many.
func overfitTwo(z size) *Figure {
	ns, sets := []int64{1e4, 1e5, 1e6, 1e7, 1e8, 1e9}, z.of(8, 24)
	if z.quick {
		ns = []int64{1e4, 1e8}
	}
	f := &Figure{
		ID: "overfit-two", Title: "Two experts too many: errors of the local maximum of the likelihood",
		Source: "arXiv 2305.03288 (Nguyen, Nguyen & Ho), Theorem 2",
		Claim: "With two experts too many at one of the truth's, the errors of the gate's slopes and of the experts' " +
			"intercepts fall like n^(−1/12), those of the experts' slopes and variances like n^(−1/6).",
		Settings: fmt.Sprintf("The mixture of overfit, the source's, at %d equidistant x in [0, 1] with as many "+
			"rows at each. n^(−1/12) cannot be seen in rows that anybody has: y is a multiple of %g, half of the "+
			"less σ, where normal densities still add up to 1 but for rounding, so that rows are counts and n may "+
			"be large. Two fits of a data set: of two experts from the truth; of four, the first in three parts "+
			"of equal shares, moved as in overfit, the best of %d such starts. Errors, weights and the compact "+
			"set are those of overfit, with (Σ p_i |Δ|⁶)^(1/6) of the gate's slopes and intercepts and (Σ p_i "+
			"|Δ|³)^(1/3) of slopes and variances. Powers of n are of medians over all n, with two standard errors.",
			twoPoints, twoStep, twoStarts),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "error", Log: true}, measure: regressors,
		judge: judgeCrowd(3),
	}
	for _, q := range crowded {
		f.Views = append(f.Views, View{Title: q.name, Part: q.name, Y: f.Y})
	}
	f.units = unitsOverRows("overfit two by Newton", ns, sets, twoRun)
	return f
}

// twoRun is a data set with its fits of as many experts as there are and of two too many.
func twoRun(ctx context.Context, seed uint64, n int64, run int) (*output, error) {
	act, err := paper("identity", 2).activation(ctx)
	if err != nil {
		return nil, err
	}
	law, err := latticeOf(ctx, act, lambda(), twoPoints, 0, 1, twoStep)
	if err != nil {
		return nil, err
	}
	rng := stream.New(seed, stream.Study, 1)
	data, err := law.draw(ctx, rng, n)
	if err != nil {
		return nil, err
	}
	return crowdFits(ctx, rng, data, run, float64(n), 3, twoStarts, twoSteps)
}
