package vacancy

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/host/search/survey"
	"github.com/gatedlearning/moe/internal/stream"
)

// Places is how the search of a fit looks for other places of its experts.
func Places() search.Places {
	return search.Places{
		Missed: spares,
		Doubts: Doubts,
		Place:  placeSpares,
		Visit: func(ctx context.Context, t *search.Task, best *search.Candidate,
			from []search.Neighbour) (*search.Candidate, *search.Begun, error) {
			return visitor{t}.visit(ctx, best, from)
		},
	}
}

// losses returns what the log-likelihood of q would lose were one expert left out and the others stayed as
// they are,
//
//	Σ_rows w·(log(1 − p_i) − log(1 − r_i)),
//
// with p the gate's probabilities and r the posteriors, for each expert.
func losses(ctx context.Context, p *problem.Problem, q *model.Params) ([]float64, error) {
	workers := make([]*mixture.Posteriors, min(model.Workers(p.Threads), model.Chunks(p.Rows)))
	room, chunks := make([][]float64, len(workers)), make([][]float64, model.Chunks(p.Rows))
	err := model.Each(ctx, p.Rows, len(workers), func(worker, chunk, _ int, b *model.Block) error {
		if workers[worker] == nil {
			workers[worker], room[worker] = mixture.NewPosteriors(p.G, q), make([]float64, q.K*model.BlockRows)
		}
		if chunks[chunk] == nil {
			chunks[chunk] = make([]float64, q.K)
		}
		post, err := workers[worker].Of(ctx, b, nil)
		if err != nil {
			return err
		}
		each := room[worker]
		post.Without(each)
		for i := range q.K {
			chunks[chunk][i] += b.Sum(each[i*b.N : (i+1)*b.N])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := make([]float64, q.K)
	for _, c := range chunks {
		floats.Add(out, c)
	}
	return out, nil
}

// leaveOut returns q without expert i.
func leaveOut(q *model.Params, i int) *model.Params {
	perm := make([]int, q.K)
	for j := range perm {
		switch {
		case j < i:
			perm[j] = j
		case j == i:
			perm[j] = q.K - 1
		default:
			perm[j] = j - 1
		}
	}
	q = q.Relabel(perm)
	// The last row of the gate goes, to which the others are relative where the experts have all of its classes.
	out := q.Fewer()
	if q.Zero || out.K == 1 {
		return out
	}
	last := out.K - 1
	for j := range last {
		floats.Sub(out.Gate(j), q.Gate(last))
		if q.GatingIntercepts != nil {
			out.GatingIntercepts[j] -= q.GatingIntercepts[last]
		}
	}
	return out
}

const (
	// crowdedLoss times the parameters of an expert times log n is what its loss costs at most where
	// it is a spare one. Of fits with k one or two too large it was .00 to .8, of right ones 8 and more.
	crowdedLoss = 2
	// twinRows of the rows say that two experts are not one where their mean would cost clearCost times that. Of two in
	// the place of one it cost .1 to .4 of an expert's parameters times log n, of right ones 29 and more.
	twinRows, clearCost = 1 << 12, 4
	// spareWave joiners start before anyone looks at the result, leastJoiners at least and mostJoiners at most, of
	// search.DefaultStarts that are asked for, and mostTimes as many however many are asked for;
	// all spare experts are placed anew spareSweeps times at most.
	spareWave, leastJoiners, mostJoiners, mostTimes, spareSweeps = 16, 48, 400, 256, 6
	// spareWork is what placing one expert may cost: steps times rows times parameters.
	spareWork = 1e9
	// pursued of the distinct maxima of joiners go on to all parameters at most: those that gain
	// pursuedWithin of the most, or that many units less.
	pursued, pursuedWithin, pursuedUnits = 12, 0.5, 5
)

// mostOf is how many joiners start at most where so many starts are asked for: as many times mostJoiners.
func mostOf(starts int) int { return mostJoiners * min(max(1, starts/search.DefaultStarts), mostTimes) }

// spareable says whether the places of experts are looked for one by one.
func spareable(p *problem.Problem) bool {
	return p.Shape.K > 1 && p.OneGate() && p.Shape.Kinds == nil && p.Shape.Output == nil && !p.Shape.Zero
}

// spares are those of q; none where their places are not looked for.
func spares(ctx context.Context, p *problem.Problem, q *model.Params) (m search.Missed, err error) {
	if !spareable(p) {
		return m, nil
	}
	all, err := losses(ctx, p, q)
	if err != nil {
		return m, err
	}
	most := crowdedLoss * ownParameters(p) * math.Log(p.Count())
	for i, v := range all {
		if v < most {
			m.Spare = append(m.Spare, i)
		}
	}
	twins, err := twinsOf(ctx, p, q, most)
	if err != nil {
		return m, err
	}
	byLoss := func(i, j int) int { return cmp.Compare(all[i], all[j]) }
	for _, pair := range twins {
		if !slices.ContainsFunc(pair[:], func(i int) bool { return slices.Contains(m.Spare, i) }) {
			m.Spare = append(m.Spare, slices.MinFunc(pair[:], byLoss))
		}
	}
	slices.SortStableFunc(m.Spare, byLoss)
	m.Least = floats.MinIdx(all)
	return m, nil
}

// twinsOf are the pairs of experts of which the data hardly ask for two: their mean in the place of both costs less
// than most, as it stands. Each of two that share an expert's rows is missed where it is left out and the other stays
// as it is. Part of the rows decides where it is clear.
func twinsOf(ctx context.Context, p *problem.Problem, q *model.Params, most float64) (out [][2]int, err error) {
	part := partOf(p, twinRows)
	mass, err := loss.NewLikelihood(part, p.G, q, p.Shape.Free(), p.Threads).Proportions(ctx, q)
	if err != nil {
		return nil, err
	}
	cost, err := costOfMeans(ctx, p, part, q, mass)
	if err != nil {
		return nil, err
	}
	var near [][2]int
	for j := range q.K {
		for i := range j {
			lost, err := cost(i, j)
			if err != nil {
				return nil, err
			}
			if lost < clearCost*most {
				near = append(near, [2]int{i, j})
			}
		}
	}
	if len(near) == 0 {
		return nil, nil
	}
	if cost, err = costOfMeans(ctx, p, p.Rows, q, mass); err != nil {
		return nil, err
	}
	for _, pair := range near {
		lost, err := cost(pair[0], pair[1])
		if err != nil {
			return nil, err
		}
		if lost < most {
			out = append(out, pair)
		}
	}
	return out, nil
}

// ownParameters is how many an expert has, its gate's among them.
func ownParameters(p *problem.Problem) float64 {
	return float64(p.Shape.Parameters() - p.With(p.Shape.K-1).Shape.Parameters())
}

// placeSpares looks for better places of the spare experts of best, which are those of m, takes it there, and returns
// what it has seen; nil where there are none. Where a test of the model fails the expert that is missed least is placed
// anew, spare or not. It was done so many times before.
func placeSpares(ctx context.Context, t *search.Task, best *search.Candidate, m search.Missed, failed bool,
	before int) (seen *search.Spare, err error) {
	p := t.Problem
	if !spareable(p) {
		return nil, nil
	}
	var rows *partition.Table
	for sweep := range spareSweeps {
		if sweep > 0 {
			if m, err = spares(ctx, p, best.Params); err != nil {
				return nil, err
			}
		}
		if len(m.Spare) == 0 && !failed {
			return nil, nil
		}
		if rows == nil {
			if rows, err = partition.New(ctx, p, p.Rows); err != nil {
				return nil, err
			}
		}
		if leapt, err := leap(ctx, t, rows, best); err != nil {
			return nil, err
		} else if leapt {
			if m, err = spares(ctx, p, best.Params); err != nil {
				return nil, err
			}
		}
		seen = &search.Spare{Experts: len(m.Spare)}
		if !climb.Hardenable(p.Size()) {
			return seen, nil
		}
		which := m.Spare
		if len(which) == 0 {
			which = []int{m.Least}
		}
		gained := false
		for at, i := range which {
			number := (before*spareSweeps+sweep)*p.Shape.K + at
			others := leaveOut(best.Params, i)
			adapted, err := adapt(ctx, p, rows, others)
			if err != nil {
				return nil, err
			}
			s := newSparing(t, rows, best, stream.Spare, number)
			if gained, err = s.place(ctx, adapted); err != nil {
				return nil, err
			}
			if !gained && s.survey.Conclusive(leastJoiners) {
				held := newSparing(t, rows, best, stream.SpareHeld, number)
				if gained, err = held.place(ctx, others); err != nil {
					return nil, err
				}
			}
			if gained {
				break // experts have other numbers now
			}
			if at == 0 || s.survey.Unseen() > seen.Unseen() {
				*seen = search.Spare{Experts: seen.Experts, Starts: s.survey.Starts, Optima: s.survey.Optima,
					Met: s.survey.Met, Singles: s.survey.Singles}
			}
		}
		if !gained {
			break
		}
	}
	return seen, nil
}

// sparing places one spare expert anew.
type sparing struct {
	task    *search.Task
	rows    *partition.Table
	best    *search.Candidate
	use     stream.Use // of its random numbers
	number  int        // of the expert, of all that are placed
	vacancy *vacancy
	work    float64             // done
	joined  []*joiner           // where starts ended, best first
	climbed []*search.Candidate // what became of distinct ones, best first
	groups  []group             // of joiners that gain the same, and are taken for the same maximum
	of      map[*joiner]*search.Candidate
	survey  search.Survey
}

// group is joiners with this gain, and what became of the first of them.
type group struct {
	gain float64
	to   *search.Candidate
}

func newSparing(t *search.Task, rows *partition.Table, best *search.Candidate, use stream.Use,
	number int) *sparing {
	return &sparing{task: t, rows: rows, best: best, use: use, number: number, of: map[*joiner]*search.Candidate{}}
}

// adapt returns the others where they have adapted to the absence of the expert that was left out.
func adapt(ctx context.Context, p *problem.Problem, rows *partition.Table,
	others *model.Params) (*model.Params, error) {
	l := loss.NewLikelihood(rows.Data, p.G, others, p.With(p.Shape.K-1).Shape.Free(), p.Threads)
	l.PenaliseGate(starts.ScreenRidge)
	run, err := climb.Climb(ctx, l, l.Theta(others), nil)
	if err != nil {
		return nil, err
	}
	return l.Params(run.X), nil
}

// place looks for a better place of the expert that joins the others, and says whether it has found one. They have
// adapted to its absence, or are held as they are in the best: what one way never meets the other may.
func (s *sparing) place(ctx context.Context, others *model.Params) (gained bool, err error) {
	p := s.task.Problem
	if s.vacancy, err = newVacancy(ctx, p, s.rows, others); err != nil {
		return false, err
	}
	for s.survey.Starts < mostOf(s.task.Starts) && s.work < spareWork*float64(s.task.Starts)/search.DefaultStarts &&
		!s.survey.Conclusive(leastJoiners) {
		if err := s.wave(ctx); err != nil {
			return false, err
		}
		if err := s.pursue(ctx); err != nil {
			return false, err
		}
		s.count()
	}
	if len(s.climbed) == 0 {
		return false, nil
	}
	if top := s.climbed[0]; !converged(top) {
		if s.climbed[0], err = search.ExactNewton().Try(ctx, s.task, top, 0); err != nil {
			return false, err
		}
	}
	top, met := reached(s.climbed, s.best.Run.Value, search.SameOptimum(p.Count()))
	if converged(top) && top.Beats(s.best, p.Count()) {
		found, err := search.Make(ctx, s.task, s.task.Steps.Last, top, search.OfSpare(s.number))
		if err == nil {
			*s.best = *found
		}
		return true, err
	}
	if !met {
		s.survey.Met = 0
	}
	return false, nil
}

// reached returns what to take of candidates, best first: the first that has converged, or the first where none has. It
// says whether they met a best of this value: what is taken is no worse, and none is above it, converged or not. Values
// that differ by at most same are one optimum's.
func reached(climbed []*search.Candidate, best, same float64) (top *search.Candidate, met bool) {
	top = climbed[0]
	if at := slices.IndexFunc(climbed, converged); at >= 0 {
		top = climbed[at]
	}
	return top, top.Run.Value <= best+same && climbed[0].Run.Value >= best-same
}

func converged(c *search.Candidate) bool { return c.Run.Status == optim.Converged }

// wave makes some joiners.
func (s *sparing) wave(ctx context.Context) error {
	aim := math.Inf(-1)
	if len(s.joined) > 0 {
		aim = leastPursued(s.joined[0].gain)
	}
	all, err := s.vacancy.joiners(ctx, spareWave, s.use, s.number*mostOf(s.task.Starts)+s.survey.Starts, aim)
	if err != nil {
		return err
	}
	s.survey.Starts += len(all)
	for _, j := range all {
		s.work += float64(j.steps * len(s.vacancy.y) * (len(s.vacancy.experts) + len(s.vacancy.gate)))
		if !math.IsInf(j.gain, 0) {
			s.joined = append(s.joined, j)
		}
	}
	slices.SortStableFunc(s.joined, func(a, b *joiner) int { return cmp.Compare(b.gain, a.gain) })
	return nil
}

// leastPursued is the least gain that goes on to all parameters where the most is this.
func leastPursued(most float64) float64 { return most - max(pursuedUnits, pursuedWithin*most) }

// pursue takes the best distinct joiners to maxima over all parameters, by EM all the way where their gates become
// hard.
func (s *sparing) pursue(ctx context.Context) error {
	p := s.task.Problem
	fresh := s.distinct()
	best := s.best.Run.Value
	if len(s.climbed) > 0 {
		best = min(best, s.climbed[0].Run.Value)
	}
	err := search.Each(ctx, p, fresh, func(ctx context.Context, c *search.Candidate) error {
		l := loss.NewLikelihood(s.rows.Data, p.G, c.Params, p.Shape.Free(), 1)
		return s.task.PursueByEM(ctx, c, l, best)
	})
	for _, c := range fresh {
		s.work += survey.CostOf(p, c)
		if !c.Failed() && !c.Degenerate && c.Run.Status != optim.Stopped {
			s.climbed = append(s.climbed, c)
		}
	}
	slices.SortStableFunc(s.climbed, search.Compare)
	return err
}

// distinct returns candidates for those of the best maxima of joiners that have none.
func (s *sparing) distinct() (fresh []*search.Candidate) {
	seen, last := 0, math.Inf(1)
	for _, j := range s.joined {
		if last-j.gain >= joinApart {
			seen, last = seen+1, j.gain
		}
		if seen > pursued || j.gain < leastPursued(s.joined[0].gain) {
			break
		}
		if s.of[j] != nil {
			continue
		}
		at := slices.IndexFunc(s.groups, func(g group) bool { return math.Abs(g.gain-j.gain) < joinApart })
		if at < 0 {
			at = len(s.groups)
			c := &search.Candidate{Kind: starts.KindSpare, Params: s.vacancy.with(j)}
			s.groups, fresh = append(s.groups, group{j.gain, c}), append(fresh, c)
		}
		s.of[j] = s.groups[at].to
	}
	return fresh
}

// count counts the optima where joiners have ended.
func (s *sparing) count() {
	var pool []*search.Candidate
	for _, j := range s.joined {
		if c := s.of[j]; c != nil && slices.Contains(s.climbed, c) {
			pool = append(pool, c)
		}
	}
	slices.SortStableFunc(pool, search.Compare)
	s.survey.Count(pool, s.task.Problem.Count())
}
