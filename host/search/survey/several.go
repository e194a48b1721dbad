package survey

import (
	"context"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/starts"
)

// several are the targets under one gate that a survey is of, with their tables; nil is one target, whose problem and
// table it is given then.
type several struct {
	*search.VectorTask
	all    *partition.Table   // of all targets
	tables []*partition.Table // of every one
}

// Several is [Small] of several targets under one gate, under the same limits.
func Several(ctx context.Context, t *search.VectorTask) (*search.Survey, error) {
	p, of := t.Problems[0], &several{VectorTask: t}
	s := &surveyor{problem: p, several: of, scope: scopeOf(p)}
	if size := p.N() * t.Parameters(); p.Shape.K > 1 && p.OneGate() && size <= s.scope.largest &&
		t.Starts >= leastStarts {
		s.most = workOf(s.scope, size, t.Starts)
	} else {
		return nil, nil
	}
	data, err := model.InMemory(ctx, t.Rows, 1)
	if err != nil {
		return nil, err
	}
	of.take(data)
	return s.make(ctx, nil)
}

// take takes the rows.
func (s *several) take(data *model.Data) {
	s.all = partition.Of(data)
	for _, one := range partition.Targets(data, len(s.Problems)) {
		s.tables = append(s.tables, partition.Of(one))
	}
}

// sizes are how many values of targets there are, and parameters.
func (s *several) sizes(p *problem.Problem) (values, parameters int) {
	if s == nil {
		return p.N(), p.Shape.Parameters()
	}
	return p.N() * len(s.Problems), s.Parameters()
}

// cost is [CostOf].
func (s *several) cost(p *problem.Problem, c *search.Candidate) float64 {
	if s == nil {
		return CostOf(p, c)
	}
	return float64(c.Run.Iterations) * (severalPrice*float64(p.N()*s.Parameters()) + iterationWork)
}

// severalPrice is how many times the work of one target an iteration for several is, of as many parameters, about.
const severalPrice = 2

// targetsOf are the parameters of every target where a candidate stands.
func (s *several) targetsOf(c *search.Candidate) (all []*model.Params) {
	if s == nil {
		return []*model.Params{c.Params}
	}
	for j := range s.Problems {
		all = append(all, c.Vector.Coordinate(j))
	}
	return all
}

// of is the problem of target c.
func (s *several) of(c int, p *problem.Problem) *problem.Problem {
	if s == nil {
		return p
	}
	return s.Problems[c]
}

// working are the rows that lines of target c are fitted to.
func (s *several) working(c int, one *partition.Table) *model.Data {
	if s == nil {
		return one.Working
	}
	return s.tables[c].Working
}

// table is that of a random target.
func (s *several) table(rng *rand.Rand, one *partition.Table) *partition.Table {
	if s == nil {
		return one
	}
	return s.tables[rng.IntN(len(s.tables))]
}

// starts are the kinds of [surveyStarts]: clusters and handfuls are of all targets, residuals, and which rows fit their
// line worst, of a random one.
func (s *several) starts() []starts.Start {
	var working []*model.Data
	for _, t := range s.tables {
		working = append(working, t.Working)
	}
	return inTurn(s.Random(), func(name string, alone bool, label labelling) starts.Start {
		return s.Lines(name, working, func(rng *rand.Rand) []int {
			t := s.all
			if alone {
				t = s.table(rng, nil)
			}
			return label(t, rng, s.Problems[0].Shape.K)
		})
	})
}
