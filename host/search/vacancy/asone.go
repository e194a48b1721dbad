package vacancy

import (
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
)

const (
	// doubtfulPairs are tried as one of an expert for which the data hardly ask, and of any other the nearest, where it
	// loses less than doubtfulLoss times the parameters of an expert times log n before a climb, by doubtfulRows of the
	// rows. At 1,000 rows two experts in the place of one lost .4 to 3 of these, two right ones 29 and more.
	doubtfulPairs, doubtfulLoss, doubtfulRows = 3, 8, 1 << 16
)

// Doubt is two experts that BIC may prefer as one, and those of them for which the data hardly ask.
type Doubt struct {
	Experts [2]int
	Spare   []int
}

// Doubtful returns those of the pairs of experts of the optimum q of p that are worth trying as one. The pairs are
// nearest first, the masses what the mean of two experts is by. There are none in trees, nor where places of experts
// are not looked for.
func Doubtful(ctx context.Context, p *problem.Problem, q *model.Params, pairs [][2]int,
	mass []float64) ([]Doubt, error) {
	if !spareable(p) {
		return nil, nil
	}
	missed, err := spares(ctx, p, q)
	if err != nil {
		return nil, err
	}
	cost, err := costOfMeans(ctx, p, partOf(p, doubtfulRows), q, mass)
	if err != nil {
		return nil, err
	}
	most := doubtfulLoss * ownParameters(p) * math.Log(p.Observations())
	var out []Doubt
	seen := make([]int, q.K)
	for _, pair := range pairs {
		d, first := Doubt{Experts: pair}, false
		for _, i := range pair {
			if slices.Contains(missed.Spare, i) && seen[i] < doubtfulPairs {
				d.Spare = append(d.Spare, i)
			}
			first = first || seen[i] == 0
			seen[i]++
		}
		if d.Spare == nil {
			if !first {
				continue
			}
			lost, err := cost(pair[0], pair[1])
			if err != nil {
				return nil, err
			}
			if lost >= most {
				continue
			}
		}
		out = append(out, d)
	}
	return out, nil
}

// partOf are about n of the rows of p, all of them where they are in groups, of which a part may have some rows only.
func partOf(p *problem.Problem, n int) model.Rows {
	if p.Grouped() {
		return p.Rows
	}
	return model.Part(p.Rows, n)
}

// costOfMeans is what the log-likelihood of q loses where the mean of experts i and j by these masses stands in the
// place of both, by some of the rows of p.
func costOfMeans(ctx context.Context, p *problem.Problem, rows model.Rows, q *model.Params,
	mass []float64) (func(i, j int) (float64, error), error) {
	value := func(p *problem.Problem, q *model.Params) (float64, error) {
		l := loss.NewLikelihood(rows, p.G, q, p.Shape.Free(), p.Threads)
		return l.Value(ctx, l.Theta(q))
	}
	fewer := p.With(q.K - 1)
	was, err := value(p, q)
	return func(i, j int) (float64, error) {
		is, err := value(fewer, merged(q, i, j, mass))
		return (is - was) * p.Weights.Total, err
	}, err
}

// AsOne is where climbs on all rows end from the optimum q of p with its experts i and j in one, the better of two: the
// log-likelihood, and the BIC, less those at q.
func AsOne(ctx context.Context, p *problem.Problem, q *model.Params, i, j int) (loglik, bic float64, err error) {
	at := func(p *problem.Problem, q *model.Params, climbs bool) (value, bic float64, err error) {
		l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Estimated(), p.Threads)
		if climbs {
			run, err := climb.Climb(ctx, l, l.Theta(q), nil)
			if err != nil {
				return 0, 0, err
			}
			value = run.Value
		} else if value, err = l.Value(ctx, l.Theta(q)); err != nil {
			return 0, 0, err
		}
		value *= -p.Weights.Total
		return value, float64(p.Shape.Parameters())*math.Log(p.Observations()) - 2*value, nil
	}
	was, bicWas, err := at(p, q, false)
	if err != nil {
		return 0, 0, err
	}
	proportions, err := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), p.Threads).Proportions(ctx, q)
	if err != nil {
		return 0, 0, err
	}
	begin := merged(q, i, j, proportions)
	is, bicIs, err := at(p.With(q.K-1), begin, true)
	if err != nil {
		return 0, 0, err
	}
	// From a gate that separates rows no climb comes away: from one that knows nothing it does.
	clear(begin.Gating)
	clear(begin.GatingIntercepts)
	even, bicEven, err := at(p.With(q.K-1), begin, true)
	if even > is {
		is, bicIs = even, bicEven
	}
	return is - was, bicIs - bicWas, err
}

// merged returns q with the experts i and j in one, their mean by these masses. Its logit is the mean of theirs and the
// entropy of their shares, which is the logarithm of the sum of their exponentials where these are as the shares.
func merged(q *model.Params, i, j int, mass []float64) *model.Params {
	total := mass[i] + mass[j]
	a, b := mass[i]/total, mass[j]/total
	if !(total > 0) {
		a, b = 0.5, 0.5
	}
	perm, at := make([]int, q.K), 2
	for e := range perm {
		switch e {
		case i:
			perm[e] = 0
		case j:
			perm[e] = 1
		default:
			perm[e], at = at, at+1
		}
	}
	q = q.Relabel(perm)
	mean := func(x, y []float64) {
		floats.Scale(a, x)
		floats.AddScaled(x, b, y)
	}
	q.Each(func(part model.ParamPart, values []float64) {
		if n := len(values) / q.K; part != model.Gate && len(values) > 1 {
			mean(values[:n], values[n:2*n])
		}
	})
	if q.Gates() > 1 { // else there is no gate left
		mean(q.Gate(0), q.Gate(1))
		if v := q.GatingIntercepts; v != nil {
			mean(v[:1], v[1:2])
			for _, share := range []float64{a, b} {
				if share > 0 {
					v[0] -= share * math.Log(share)
				}
			}
		}
	}
	return leaveOut(q, 1)
}
