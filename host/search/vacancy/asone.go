package vacancy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
)

const (
	// doubtfulPairs are tried as one of an expert for which the data hardly ask, and of any other the nearest, where it
	// loses less than doubtfulLoss times the parameters of an expert times log n before a climb, by doubtfulRows of the
	// rows. At 1,000 rows two experts in the place of one lost .4 to 3 of these, two right ones 29 and more.
	doubtfulPairs, doubtfulLoss, doubtfulRows = 3, 8, 1 << 16
)

// nearlyEqual is the distance of two experts' means, in units of σ, within which their densities overlap by more than
// 80 %, and sameNoise the ratio of noise levels up to which they count as the same.
const nearlyEqual, sameNoise = 0.5, 1.5

// Doubts is what speaks for fewer experts than the optimum q of p has, of these proportions: an expert has few rows,
// two are nearly equal, or BIC prefers two as one for which the data hardly ask. The last are the best first, and each
// expert is in one that is better at most.
func Doubts(ctx context.Context, p *problem.Problem, q *model.Params, proportions []float64) ([]search.Doubt, error) {
	columns, _ := p.Shape.Estimated().Columns(q)
	pairs, err := infer.Distances(ctx, p.Given, p.G, q, p.Threads)
	if err != nil {
		return nil, err
	}
	d := &doubts{problem: p, at: q, tried: map[[2]int]*search.Merge{}, all: []search.Doubt{}}
	for i, share := range proportions {
		if rows := share * p.Weights.Total; rows < float64(infer.FewRows*len(columns)) && !p.Weights.Doubt {
			of := slices.DeleteFunc(slices.Clone(pairs), func(o infer.Pair) bool { return o.I != i && o.J != i })
			if err := d.add(ctx, search.Doubt{By: search.FewRows, Experts: []int{i}, Size: rows}, of); err != nil {
				return nil, err
			}
		}
	}
	// All rows of a group tell its expert: what they differ by adds up in squares.
	apart := 1.0
	if p.Grouped() {
		apart = math.Sqrt(p.Weights.Total / p.Observations())
	}
	for _, pair := range pairs {
		a, b, distance := q.SigmaOf(pair.I), q.SigmaOf(pair.J), pair.Distance*apart
		if distance < nearlyEqual && max(a, b) < sameNoise*min(a, b) {
			is := search.Doubt{By: search.NearlyEqual, Experts: []int{pair.I, pair.J}, Size: distance}
			if err := d.add(ctx, is, []infer.Pair{pair}); err != nil {
				return nil, err
			}
		}
	}
	return d.all, d.addHardlyAsked(ctx, pairs, proportions)
}

// doubts are those of an optimum, as they are found.
type doubts struct {
	problem *problem.Problem
	at      *model.Params
	tried   map[[2]int]*search.Merge
	all     []search.Doubt
}

// add adds one, with those of the pairs as one that lose least, where they are under one gate and of one kind.
func (d *doubts) add(ctx context.Context, is search.Doubt, pairs []infer.Pair) error {
	if p := d.problem; p.OneGate() && p.Leaves == nil && p.Shape.Output == nil {
		for _, pair := range pairs {
			merge, err := d.asOne(ctx, pair.I, pair.J)
			if err != nil {
				return err
			}
			if is.AsOne == nil || merge.BIC < is.AsOne.BIC {
				is.AsOne = merge
			}
		}
	}
	d.all = append(d.all, is)
	return nil
}

// offered says whether one of two experts is in a pair that is better as one.
func (d *doubts) offered(experts [2]int) bool {
	return slices.ContainsFunc(d.all, func(o search.Doubt) bool {
		return o.AsOne != nil && o.AsOne.BIC < 0 && slices.ContainsFunc(experts[:], func(i int) bool {
			return slices.Contains(o.AsOne.Experts[:], i)
		})
	})
}

// addHardlyAsked adds two experts that are better as one by BIC, the best first, each in one at most.
func (d *doubts) addHardlyAsked(ctx context.Context, pairs []infer.Pair, proportions []float64) error {
	slices.SortStableFunc(pairs, func(a, b infer.Pair) int { return cmp.Compare(a.Distance, b.Distance) })
	doubted, err := doubtful(ctx, d.problem, d.at, pairs, proportions)
	if err != nil {
		return err
	}
	var better []search.Doubt
	for _, o := range doubted {
		if d.offered(o.experts) {
			continue
		}
		merge, err := d.asOne(ctx, o.experts[0], o.experts[1])
		if err != nil {
			return err
		}
		if merge.BIC < 0 {
			better = append(better, search.Doubt{By: search.HardlyAsked, Experts: o.spare, AsOne: merge})
		}
	}
	slices.SortStableFunc(better, func(a, b search.Doubt) int { return cmp.Compare(a.AsOne.BIC, b.AsOne.BIC) })
	for _, o := range better {
		if !d.offered(o.AsOne.Experts) {
			d.all = append(d.all, o)
		}
	}
	return nil
}

// asOne is what experts i and j come to as one.
func (d *doubts) asOne(ctx context.Context, i, j int) (*search.Merge, error) {
	at := [2]int{i, j}
	if m, ok := d.tried[at]; ok {
		return m, nil
	}
	m, err := asOne(ctx, d.problem, d.at, i, j)
	d.tried[at] = m
	return m, err
}

// doubt is two experts that BIC may prefer as one, and those of them for which the data hardly ask.
type doubt struct {
	experts [2]int
	spare   []int
}

// doubtful returns those of the pairs of experts of the optimum q of p that are worth trying as one. The pairs are
// nearest first, the masses what the mean of two experts is by. There are none in trees, nor where places of experts
// are not looked for.
func doubtful(ctx context.Context, p *problem.Problem, q *model.Params, pairs []infer.Pair,
	mass []float64) ([]doubt, error) {
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
	var out []doubt
	seen := make([]int, q.K)
	for _, near := range pairs {
		pair := [2]int{near.I, near.J}
		d, first := doubt{experts: pair}, false
		for _, i := range pair {
			if slices.Contains(missed.Spare, i) && seen[i] < doubtfulPairs {
				d.spare = append(d.spare, i)
			}
			first = first || seen[i] == 0
			seen[i]++
		}
		if d.spare == nil {
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

// asOne is where climbs on all rows end from the optimum q of p with its experts i and j in one, the better of two.
func asOne(ctx context.Context, p *problem.Problem, q *model.Params, i, j int) (*search.Merge, error) {
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
		return nil, err
	}
	proportions, err := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), p.Threads).Proportions(ctx, q)
	if err != nil {
		return nil, err
	}
	begin := merged(q, i, j, proportions)
	is, bicIs, err := at(p.With(q.K-1), begin, true)
	if err != nil {
		return nil, err
	}
	// From a gate that separates rows no climb comes away: from one that knows nothing it does.
	clear(begin.Gating)
	clear(begin.GatingIntercepts)
	even, bicEven, err := at(p.With(q.K-1), begin, true)
	if even > is {
		is, bicIs = even, bicEven
	}
	return &search.Merge{Experts: [2]int{i, j}, LogLikelihood: is - was, BIC: bicIs - bicWas}, err
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
