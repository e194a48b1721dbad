package vacancy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/hardgate"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/splitmerge"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// Moves from a neighbour.
const (
	ByJoin  = "join"  // an expert joins the others
	BySplit = "split" // one becomes two
	ByLoss  = "loss"  // one is left out
	ByMerge = "merge" // two become one
)

const (
	// mostLost experts are left out at most, those that are missed least, mostMerged pairs merged, those that share
	// most rows, and mostJoined of the distinct maxima of joiners begin.
	mostLost, mostMerged, mostJoined = 4, 3, 3
	// mostNeighbours of the distinct maxima that neighbours lead to on the part go on to all rows.
	mostNeighbours = 2
	// rising is a log-likelihood by which a mixture may be below one that it contains: rounding.
	rising = 1e-6
	// nearlyOne is how far apart the halves of an expert are, in rms of the residuals, that are next to it.
	nearlyOne = 0.03
)

// NeighboursHelp says whether fits of one expert less or more are places to begin: under one gate, where g is
// that of all experts, none is always 0, and σ is estimated.
func NeighboursHelp(p *problem.Problem) bool {
	return p.OneGate() && p.Shape.Kinds == nil && p.Shape.Output == nil && !p.Shape.Zero && p.Shape.Sigma == 0
}

// Nested says whether a mixture of k experts is one of k + 1 too: two of these are then the same expert, between which
// the gate's intercepts share its rows.
func Nested(p *problem.Problem) bool { return p.Shape.GateIntercept && NeighboursHelp(p) }

// Beat looks for a better maximum than best, from neighbours of p, and returns it with what it came of; nil where there
// is none. The steps are made of what beats it.
func Beat(ctx context.Context, p *problem.Problem, best search.Neighbour, from []search.Neighbour,
	steps search.Steps) (*search.Candidate, *search.Begun, error) {
	part, err := search.ScreeningPart(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	run := &optim.Result{Value: best.Value, Status: optim.Converged}
	c := &search.Candidate{Params: best.Params, Rows: p.N(), Run: run}
	return visitor{&search.Task{Problem: p, Part: part, Starts: search.DefaultStarts, Steps: steps}}.visit(ctx, c, from)
}

// visitor begins a search from neighbours.
type visitor struct{ *search.Task }

// beginning is where a candidate begins that comes of a neighbour.
type beginning struct {
	by string
	at *model.Params
}

// visit begins from neighbours: on the part, of which the best go on to all rows. It returns the best of what beats
// best, nil where nothing does, and what that came of.
func (t visitor) visit(ctx context.Context, best *search.Candidate,
	from []search.Neighbour) (found *search.Candidate, begun *search.Begun, err error) {
	p := t.Problem
	if !NeighboursHelp(p) || best.Failed() {
		return nil, nil, nil
	}
	was := best.Run.Value
	for _, n := range from {
		all, err := t.beginnings(ctx, n.Params)
		if err != nil {
			return nil, nil, err
		}
		top, by, err := t.rise(ctx, best, all)
		if err != nil {
			return nil, nil, err
		}
		if top == nil && n.Params.K < p.Shape.K && Nested(p) && best.Run.Value > n.Value+rising/p.Count() {
			if top, by, err = t.contain(ctx, best, n, all); err != nil {
				return nil, nil, err
			}
		}
		if top != nil {
			best, found, begun = top, top, &search.Begun{From: n.Params.K, By: by}
		}
	}
	if found == nil {
		return nil, nil, nil
	}
	if err = hardgate.Reheat(ctx, t.Task, found); err != nil {
		return nil, nil, err
	}
	rng := stream.New(p.Seed, stream.NeighbourExchange, begun.From)
	if err = hardgate.Exchange(ctx, t.Task, found, rng); err != nil {
		return nil, nil, err
	}
	if found, err = search.Make(ctx, t.Task, t.Steps.Last, found, search.BesideFit(begun.From)); err != nil {
		return nil, nil, err
	}
	begun.Gain = (was - found.Run.Value) * p.Weights.Total
	return found, begun, nil
}

// beginnings are those from a maximum of one expert less or more.
func (t visitor) beginnings(ctx context.Context, q *model.Params) ([]beginning, error) {
	s, err := t.structure(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.K > t.Problem.Shape.K {
		return t.fewer(ctx, q, s)
	}
	return t.more(ctx, q, s)
}

// structure is that of q on the part.
func (t visitor) structure(ctx context.Context, q *model.Params) (*loss.Structure, error) {
	return loss.NewLikelihood(t.Part, t.Problem.G, q, t.Problem.Shape.Free(), 1).Structure(ctx, q)
}

// fewer are q without one of the experts that are missed least, or with two in one that share rows.
func (t visitor) fewer(ctx context.Context, q *model.Params, s *loss.Structure) (all []beginning, err error) {
	missed, err := losses(ctx, t.Problem, q)
	if err != nil {
		return nil, err
	}
	least := make([]int, q.K)
	for i := range least {
		least[i] = i
	}
	slices.SortStableFunc(least, func(i, j int) int { return cmp.Compare(missed[i], missed[j]) })
	for _, i := range least[:min(mostLost, q.K)] {
		all = append(all, beginning{ByLoss, leaveOut(q, i)})
	}
	type pair struct {
		i, j  int
		share float64
	}
	var pairs []pair
	for i := range q.K {
		for j := range i {
			pairs = append(pairs, pair{i, j, s.Overlap[j*q.K+i] / max(min(s.Mass[i], s.Mass[j]), 1e-300)})
		}
	}
	slices.SortStableFunc(pairs, func(a, b pair) int { return cmp.Compare(b.share, a.share) })
	for _, o := range pairs[:min(mostMerged, len(pairs))] {
		all = append(all, beginning{ByMerge, merged(q, o.i, o.j, s.Mass)})
	}
	return all, nil
}

// more are q with one of its experts in two, and with one that joins it: of a wave of joiners those that gain most.
func (t visitor) more(ctx context.Context, q *model.Params, s *loss.Structure) (all []beginning, err error) {
	p := t.Problem
	rows, err := partition.New(ctx, p, t.Part)
	if err != nil {
		return nil, err
	}
	v, err := newVacancy(ctx, p, rows, q)
	if err != nil {
		return nil, err
	}
	joined, err := v.joiners(ctx, spareWave, stream.NeighbourJoiner, q.K*spareWave, math.Inf(-1))
	if err != nil {
		return nil, err
	}
	last := math.Inf(1)
	for _, j := range joined {
		if j.gain > 0 && last-j.gain >= joinApart && len(all) < mostJoined {
			all, last = append(all, beginning{ByJoin, v.with(j)}), j.gain
		}
	}
	for i := range q.K {
		all = append(all, beginning{BySplit, halved(p.Shape, q, i, s, 1)})
	}
	return all, nil
}

// halved returns q with an expert more: expert i and it are so many times the rms of the residuals apart, along their
// axis, under the same gate, of which each has half where there are intercepts.
func halved(shape problem.Shape, q *model.Params, i int, s *loss.Structure, apart float64) *model.Params {
	shifted := &loss.Structure{
		Mass: append([]float64{0}, s.Mass...), RSS: append([]float64{0}, s.RSS...), Axes: append([][]float64{nil},
			s.Axes...),
	}
	i++
	shifted.RSS[i] *= apart * apart
	from := beside(shape, q)
	out := from.Clone()
	splitmerge.Halve(out, from, shifted, i, 0)
	out.ShareGate(0, i)
	if v := out.GatingIntercepts; v != nil {
		for e := range v {
			switch {
			case i < out.K-1 && (e == 0 || e == i):
				v[e] -= math.Ln2
			case i == out.K-1 && e > 0: // the last one's logit stays 0
				v[e] += math.Ln2
			}
		}
	}
	return out
}

// rise takes beginnings to maxima on the part, the best distinct of these to all rows, and returns the best that beats
// best; nil where none does.
func (t visitor) rise(ctx context.Context, best *search.Candidate,
	from []beginning) (top *search.Candidate, by string, err error) {
	moves := map[*search.Candidate]string{}
	var all []*search.Candidate
	for _, b := range from {
		c := &search.Candidate{Kind: starts.KindNeighbour, Params: b.at}
		all, moves[c] = append(all, c), b.by
	}
	risen, err := t.Rise(ctx, all, mostNeighbours)
	if err != nil {
		return nil, "", err
	}
	for _, c := range risen {
		if !c.Failed() && c.Run.Status == optim.Converged && c.Beats(best, t.Problem.Count()) {
			best, top = c, c
		}
	}
	return top, moves[top], nil
}

// contain climbs on all rows, without a ridge from the first step on, from where an expert joins a neighbour and from
// where one of its is nearly two: what begins above a likelihood, or as near to it as rounding, ends above it. The
// first that is above the neighbour is taken; else the best that is above best, nil where none is.
func (t visitor) contain(ctx context.Context, best *search.Candidate, n search.Neighbour,
	from []beginning) (top *search.Candidate, by string, err error) {
	p := t.Problem
	s, err := t.structure(ctx, n.Params)
	if err != nil {
		return nil, "", err
	}
	from = slices.DeleteFunc(slices.Clone(from), func(b beginning) bool { return b.by != ByJoin })
	for i := range n.Params.K {
		from = append(from, beginning{BySplit, halved(p.Shape, n.Params, i, s, nearlyOne)})
	}
	for _, b := range from {
		c, err := t.ClimbFrom(ctx, p.Shape.Free(), starts.KindNeighbour, b.at)
		if err != nil {
			return nil, "", err
		}
		if c == nil {
			continue
		}
		if c.Run.Status == optim.Converged && search.Compare(c, best) < 0 {
			best, top, by = c, c, b.by
		}
		if top != nil && top.Run.Value <= n.Value {
			break
		}
	}
	return top, by, nil
}
