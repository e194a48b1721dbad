package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/internal/stream"
)

// lambda is the mixture of two lines of the simulations of arXiv 2305.03288 ("lambda shape"): the first has the gate
// −8 + 25x, the second none.
func lambda() *model.Params {
	return &model.Params{
		K: 2, D: 1,
		Gating: []float64{25}, GatingIntercepts: []float64{-8},
		Regressors: []float64{-20, 20}, RegressorIntercepts: []float64{15, -5}, Sigma: []float64{.3, .4},
	}
}

// drawLambda draws n rows of it at x = 0, 1/(n−1), …, 1.
func drawLambda(ctx context.Context, rng *rand.Rand, n int) (*model.Data, error) {
	p := lambda()
	x, y := mat.NewDense(n, 1, nil), make([]float64, n)
	for r := range n {
		at := float64(r) / float64(n-1)
		x.Set(r, 0, at)
		i := 1
		if rng.Float64() < logistic(p.GatingIntercepts[0]+p.Gating[0]*at) {
			i = 0
		}
		y[r] = p.RegressorIntercepts[i] + p.Regressors[i]*at + p.Sigma[i]*rng.NormFloat64()
	}
	return dataset.Load(ctx, dataset.Matrix(x, y))
}

// crowd is the mixture with its first expert in parts of equal shares, more than one of which are moved at random: by
// a distance that is the same at any number of rows.
func crowd(rng *rand.Rand, truth *model.Params, parts int) *model.Params {
	k := truth.K + parts - 1
	p := model.NewParams(k, 1)
	p.Sigma, p.RegressorIntercepts, p.GatingIntercepts = make([]float64, k), make([]float64, k), make([]float64, k-1)
	move := func(by float64) float64 {
		if parts == 1 {
			return 0
		}
		return by * rng.NormFloat64()
	}
	for i := range k {
		if i >= parts {
			from := i - parts + 1
			p.Regressors[i], p.RegressorIntercepts[i] = truth.Regressors[from], truth.RegressorIntercepts[from]
			p.Sigma[i] = truth.Sigma[from]
			continue
		}
		p.Gating[i] = truth.Gating[0] + move(2)
		p.GatingIntercepts[i] = truth.GatingIntercepts[0] - math.Log(float64(parts))
		p.Regressors[i] = truth.Regressors[0] + move(.1)
		p.RegressorIntercepts[i] = truth.RegressorIntercepts[0] + move(.1)
		p.Sigma[i] = truth.Sigma[0] * math.Exp(move(.1))
	}
	return p
}

// The parameters that a figure of one expert too many has errors of, by the starts of their series' names, and the
// power to which arXiv 2305.03288 takes each, times the order r of the cell: the rate is n^(−1/(2r)) and n^(−1/r).
var crowded = []struct {
	name  string
	halve int
}{{"gate's slope", 2}, {"expert's intercept", 2}, {"expert's slope", 1}, {"variance", 1}}

// errorsNear are the terms of the loss of arXiv 2305.03288 of the cell of the first expert, each to its root:
// (Σ p_i |Δ|^r)^(1/r) of the gates' slopes and the experts' intercepts, (Σ p_i |Δ|^(r/2))^(2/r) of slopes and
// variances, over the parts, with their shares p_i of the rows. Of one part r is 1. They are nil where a parameter has
// left the compact set that the theory asks for.
func errorsNear(p, truth *model.Params, parts int, shares []float64) []float64 {
	r := order(parts)
	var sums [4]float64
	for i := range p.K {
		if v := p.Sigma[i] * p.Sigma[i]; v < .01 || v > 1 {
			return nil
		}
	}
	for i := range parts {
		off := [4]float64{
			p.Gating[i] - truth.Gating[0], p.RegressorIntercepts[i] - truth.RegressorIntercepts[0],
			p.Regressors[i] - truth.Regressors[0], p.Sigma[i]*p.Sigma[i] - truth.Sigma[0]*truth.Sigma[0],
		}
		if math.Abs(off[0]) > 35 || math.Abs(off[1]) > 10 || math.Abs(off[2]) > 20 {
			return nil
		}
		for j := range sums {
			sums[j] += shares[i] * math.Pow(math.Abs(off[j]), powerOf(j, r))
		}
	}
	out := make([]float64, len(sums))
	for j := range sums {
		out[j] = math.Pow(sums[j], 1/powerOf(j, r))
	}
	return out
}

// order is r̄ of so many experts at one: the least order at which a system of polynomial equations of theirs has no
// solution (arXiv 2305.03288, Lemma 1).
func order(parts int) float64 { return []float64{0, 1, 4, 6}[parts] }

// powerOf is the power at which the loss has the parameter j.
func powerOf(j int, r float64) float64 {
	return max(1, r*float64(crowded[j].halve)/2)
}

// claimed is the power of n at which the error of parameter j falls.
func claimed(j, parts int) float64 {
	if parts == 1 {
		return -.5
	}
	return -1 / (order(parts) * float64(crowded[j].halve))
}

// crowdSizes are numbers of rows with the data sets of each.
type crowdSizes []struct{ n, sets int }

// crowdStarts are the starts of a fit with experts too many.
const crowdStarts = 2

// overfit is the simulation of arXiv 2305.03288 with one expert too many.
func overfit(z size) *Figure {
	sizes := crowdSizes{{3000, 48}, {10000, 48}, {30000, 36}, {100000, 24}}
	if z.quick {
		sizes = crowdSizes{{3000, 16}, {20000, 16}}
	}
	f := &Figure{
		ID: "overfit", Title: "One expert too many: errors of the local maximum of the likelihood",
		Source: "arXiv 2305.03288 (Nguyen, Nguyen & Ho), Theorem 2 and its simulations",
		Claim: "With one expert too many the errors of the gate's slopes and of the experts' intercepts fall like " +
			"n^(−1/8), those of the experts' slopes and variances like n^(−1/4), not like n^(−1/2).",
		Settings: "The design of the source's simulations: two lines, 15 − 20x with σ = .3 and −5 + 20x with σ = .4, " +
			"of which the first has the gate −8 + 25x, at n equidistant x in [0, 1]; the source has n from 10,000 to " +
			"100,000. Two fits of a data set: of two experts from the truth; of three, the first in two parts of " +
			"equal shares, each moved by N(0, 2²) in the gate's slope, N(0, .1²) in intercept, slope and log σ, the " +
			"better of two such starts. A routine of the source's code has starts that are nearer as n grows. " +
			"Errors are over the parts of the first line, weighted by their shares p_i of the rows: the terms of " +
			"the source's loss, to their roots, (Σ p_i |Δ|⁴)^(1/4) of the gate's slopes and intercepts, " +
			"(Σ p_i |Δ|²)^(1/2) of slopes " +
			"and variances; |Δ| itself of two experts. A maximum outside the compact set .01 ≤ σ² ≤ 1, |Δ| ≤ 35, 10 " +
			"and 20 is dropped. Powers of n are of medians, with two standard errors. The source's bounds are for " +
			"all mixtures near the truth, of which overfit-held has the least favourable.",
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "error", Log: true}, measure: regressors,
		judge: judgeCrowd(2),
	}
	for _, q := range crowded {
		f.Views = append(f.Views, View{Title: q.name, Part: q.name, Y: f.Y})
	}
	for _, s := range sizes {
		for run := range s.sets {
			f.units = append(f.units, crowdUnit(s.n, run))
		}
	}
	return f
}

// crowdSeries is the errors of a parameter in fits with so many experts.
func crowdSeries(name string, k int) string { return fmt.Sprintf("%s, %d experts", name, k) }

// left counts the maxima outside of the compact set.
const left = "left"

// crowdUnit is a data set with its fits of as many experts as there are and of one too many.
func crowdUnit(n, run int) unit {
	return unit{key: fmt.Sprintf("overfit n %d run %d", n, run),
		run: func(ctx context.Context, seed uint64) (*output, error) {
			rng := stream.New(seed, stream.Study, 1)
			data, err := drawLambda(ctx, rng, n)
			if err != nil {
				return nil, err
			}
			return crowdFits(ctx, rng, data, run, float64(n), 2, crowdStarts, 0)
		}}
}

// crowdFits are the errors in fits of n rows with as many experts as there are, and with the first in so many parts.
func crowdFits(ctx context.Context, rng *rand.Rand, data *model.Data, run int, n float64, most, starts,
	steps int) (*output, error) {
	out := new(output)
	for _, parts := range []int{1, most} {
		e, err := crowdErrors(ctx, rng, data, parts, starts, steps)
		if err != nil {
			return nil, err
		}
		if e == nil {
			out.point(left, left, run, n, 1)
		}
		for j, v := range e {
			out.point(regressors, crowdSeries(crowded[j].name, parts+1), run, n, v)
		}
	}
	return out, nil
}

// crowdErrors are those of the best local maximum from starts at the truth with the first expert in parts, of those
// in the compact set; nil where none is there. More steps of Newton's method follow on those of the climb, which ends
// where a gain in the log-likelihood is small.
func crowdErrors(ctx context.Context, rng *rand.Rand, data *model.Data, parts, starts, more int) (errs []float64,
	err error) {
	truth := lambda()
	act, err := paper("identity", 2).activation(ctx)
	if err != nil {
		return nil, err
	}
	best := math.Inf(1)
	if parts == 1 {
		starts = 1
	}
	for range starts {
		p := crowd(rng, truth, parts)
		l := loss.NewLikelihood(data, act, p, loss.All, 1)
		run, err := climb.Climb(ctx, l, l.Theta(p), nil)
		if err != nil {
			return nil, err
		}
		if more > 0 {
			if run, err = optim.Newton(ctx, l, run.X, optim.Settings{Iterations: more, Tolerance: 1e-16}); err != nil {
				return nil, err
			}
		}
		q := l.Params(run.X)
		shares, err := l.Proportions(ctx, q)
		if err != nil {
			return nil, err
		}
		if e := errorsNear(q, truth, parts, shares); e != nil && run.Value < best {
			errs, best = e, run.Value
		}
	}
	return errs, nil
}

// judgeCrowd asks for powers of n within two standard errors of those claimed, and that these exclude n^(−1/2). What
// falls faster keeps the bound all the same.
func judgeCrowd(parts int) func(*Outcome) Verdict {
	return func(o *Outcome) Verdict {
		var measured, slower, faster, open []string
		for j, q := range crowded {
			want := claimed(j, parts)
			power, se := o.rate(crowdSeries(q.name, parts+1))
			exact, exactSE := o.rate(crowdSeries(q.name, 2))
			_, m := o.medians(crowdSeries(q.name, parts+1))
			_, e := o.medians(crowdSeries(q.name, 2))
			says := fmt.Sprintf("%s %.2f ± %.2f", q.name, power, 2*se)
			measured = append(measured, fmt.Sprintf("%s (of two %.2f ± %.2f; at the largest n %.1f times the error)",
				says, exact, 2*exactSE, m[len(m)-1]/e[len(e)-1]))
			switch {
			case power-2*se > want:
				slower = append(slower, says)
			case power+2*se < want:
				faster = append(faster, says)
			case power-2*se <= -.5:
				open = append(open, says)
			}
		}
		v := Verdict{Measured: fmt.Sprintf("powers of n of %s experts: %s", []string{2: "three", 3: "four"}[parts],
			strings.Join(measured, "; "))}
		if n := len(o.beside(left)); n > 0 {
			v.Measured += fmt.Sprintf("; dropped %d maxima", n)
		}
		var why []string
		if len(slower) > 0 {
			why = append(why, "slower than claimed: "+strings.Join(slower, ", "))
		}
		if len(faster) > 0 {
			why = append(why, "faster than claimed, which as a bound holds: "+strings.Join(faster, ", "))
		}
		if len(open) > 0 {
			why = append(why, "n^(−1/2) cannot be told from it: "+strings.Join(open, ", "))
		}
		v.Agrees, v.Because = len(why) == 0, strings.Join(why, "; ")
		return v
	}
}
