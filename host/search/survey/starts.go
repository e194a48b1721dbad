package survey

import (
	"context"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/stream"
)

// surveyStarts are the kinds of starts of a survey of a small table, in turn.
func surveyStarts(p *problem.Problem, e *moment.Evidence, t *partition.Table) []starts.Start {
	return inTurn(starts.Random(p, e), func(name string, _ bool, label labelling) starts.Start {
		return starts.Start{Kind: name, Draw: func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
			return partition.Lines(p, rng, t.Working, label(t, rng, p.Shape.K)), nil
		}}
	})
}

// labelling divides the rows of a table among so many experts.
type labelling = func(t *partition.Table, rng *rand.Rand, k int) []int

// inTurn are the kinds of starts, of lines of labelled rows by kind: of several targets together, or of a random one of
// them alone.
func inTurn(random starts.Start, kind func(name string, alone bool, label labelling) starts.Start) []starts.Start {
	return []starts.Start{
		random,
		kind(starts.KindKMeans, false, (*partition.Table).ScaledClusters),
		kind(starts.KindPartition, true, (*partition.Table).Cuts),
		kind(starts.KindResiduals, true, (*partition.Table).ResidualClusters),
		random,
		kind(starts.KindPartition, true, (*partition.Table).Cuts),
		kind(starts.KindTrimmed, true, (*partition.Table).Neighbourhoods),
		kind(starts.KindRows, false, (*partition.Table).Handfuls),
	}
}

// softest is the norm to which the steepest row of a gate is brought down before a move,
// and steepness that of the hyperplane of a split.
const (
	softest   = 3
	steepness = 3
)

// fromOneOf is a random move from one of the optima.
func (s *surveyor) fromOneOf(from []*search.Candidate) starts.Start {
	if s.several != nil {
		return starts.Start{Kind: starts.KindMove,
			Vector: func(_ context.Context, rng *rand.Rand) (*model.VectorParams, error) {
				return s.several.Join(s.moved(rng, from)), nil
			}}
	}
	return starts.Start{Kind: starts.KindMove, Draw: func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
		return s.moved(rng, from)[0], nil
	}}
}

// moved are the parameters of every target after a random move from one of the optima, the first of them most often: an
// expert is given up, and takes over one side of another's cell, or the rows near a random one. The gate is that of the
// first.
func (s *surveyor) moved(rng *rand.Rand, from []*search.Candidate) (all []*model.Params) {
	at := 0
	for at < len(from)-1 && stream.Coin(rng) {
		at++
	}
	all = s.several.targetsOf(from[at])
	k := all[0].K
	drop := rng.IntN(k)
	split := (drop + 1 + rng.IntN(k-1)) % k
	for c, q := range all {
		q = withSoftGate(q)
		all[c] = q
		if s.problem.Shape.Density().Domain().Scale {
			for i, sigma := range q.Sigma {
				q.Sigma[i] = min(1.5*sigma, s.several.of(c, s.problem).RMS())
			}
		}
		q.ShareGate(drop, split)
		q.CopyOwn(drop, split)
		q.CopyOutput(drop, split)
	}
	if stream.Coin(rng) && !s.problem.Shape.ConstantGate {
		for _, q := range all {
			copy(q.Regressor(drop), q.Regressor(split))
			if q.RegressorIntercepts != nil {
				q.RegressorIntercepts[drop] = q.RegressorIntercepts[split]
			}
		}
		s.part(rng, s.rows, all[0], split, drop)
		return all
	}
	t := s.several.table(rng, s.rows) // whose rows are left out that fit their line worst
	n, columns := t.Z.Dims()
	label := partition.Unlabelled(n)
	for _, r := range t.Near(rng.IntN(n), max(2*columns, n/(2*k))) {
		label[r] = drop
	}
	t.Trim(label, k)
	for c, q := range all {
		partition.Line(s.several.of(c, s.problem), q, drop, s.several.working(c, s.rows), label)
		s.problem.Shape.MaskExperts(q.Regressors)
	}
	return all
}

// withSoftGate returns p with a gate that is no steeper than softest.
func withSoftGate(p *model.Params) *model.Params {
	q, steepest := p.Clone(), 0.0
	for i := range q.Gates() {
		steepest = max(steepest, floats.Norm(q.Gate(i), 2))
	}
	if steepest > softest {
		floats.Scale(softest/steepest, q.Gating)
		floats.Scale(softest/steepest, q.GatingIntercepts)
	}
	return q
}

// part tells the gates of two experts that are alike apart, by a hyperplane through a
// random row of theirs.
func (s *surveyor) part(rng *rand.Rand, t *partition.Table, q *model.Params, a, b int) {
	x := rowOf(t, rng, q, a, b)
	w := make([]float64, q.D)
	for _, j := range s.problem.Shape.GateFeatures() {
		w[j] = rng.NormFloat64()
	}
	norm := floats.Norm(w, 2)
	if norm == 0 {
		return
	}
	floats.Scale(steepness/norm/2, w)
	v := -floats.Dot(w, x)
	q.Tilt(a, w, v, 1)
	q.Tilt(b, w, v, -1)
}

// rowOf returns the features of a random row to which the gate of q gives expert a or b,
// or of any where it is hard to find one.
func rowOf(t *partition.Table, rng *rand.Rand, q *model.Params, a, b int) []float64 {
	x := make([]float64, q.D)
	for range 10 * q.K {
		r := rng.IntN(t.Data.N)
		block := &t.Data.Blocks[r/model.BlockRows]
		for j := range x {
			x[j] = block.Col(j)[r%model.BlockRows]
		}
		top, best := q.K-1, 0.0
		for i := range q.Gates() {
			v := floats.Dot(q.Gate(i), x)
			if q.GatingIntercepts != nil {
				v += q.GatingIntercepts[i]
			}
			if v > best {
				top, best = i, v
			}
		}
		if top == a || top == b {
			break
		}
	}
	return x
}
