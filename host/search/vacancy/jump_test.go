package vacancy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestOccupant: an expert as one that joins the others is where it was.
func TestOccupant(t *testing.T) {
	vacant(t, func(name string, p *problem.Problem, _ *model.Params, rng *rand.Rand) {
		q := searchtest.Anywhere(p, rng)
		rows, err := partition.New(t.Context(), p, p.Rows)
		if err != nil {
			t.Fatal(err)
		}
		for i := range q.K {
			v, err := newVacancy(t.Context(), p, rows, leaveOut(q, i))
			if err != nil {
				t.Fatal(err)
			}
			got, want := logLikelihood(t, p, v.with(v.occupant(q, i))), logLikelihood(t, p, q)
			if math.Abs(got-want) > 1e-9*float64(p.N()) { // rounding of the terms
				t.Errorf("%s: as the one that joins expert %d has log-likelihood %.9g, want %.9g", name, i, got, want)
			}
		}
	})
}

// TestJumpIsTheLikelihood: what a jump gains is the difference of the log-likelihoods after it and before, and no place on a grid along
// its direction gains more, the gate as it is.
func TestJumpIsTheLikelihood(t *testing.T) {
	testslow.Mark(t)
	vacant(t, func(name string, p *problem.Problem, _ *model.Params, rng *rand.Rand) {
		q := searchtest.Anywhere(p, rng)
		rows, err := partition.New(t.Context(), p, p.Rows)
		if err != nil {
			t.Fatal(err)
		}
		v, err := newVacancy(t.Context(), p, rows, leaveOut(q, 1))
		if err != nil {
			t.Fatal(err)
		}
		j := v.occupant(q, 1)
		z, rho := v.stands(j)
		before := logLikelihood(t, p, q)
		gain := func(by jump) float64 {
			moved := &joiner{a: slices.Clone(j.a), w: slices.Clone(j.w), own: j.own}
			v.move(moved, by)
			return logLikelihood(t, p, v.with(moved)) - before
		}
		for _, along := range v.directions() {
			found, err := v.jumpable(j, z, rho, along).highest(t.Context(), p.G)
			if err != nil {
				t.Fatal(err)
			}
			if want := gain(found); math.Abs(found.gain-want) > 1e-9*float64(p.N()) {
				t.Errorf("%s: %+v, the likelihoods differ by %.9g", name, found, want)
			}
			for delta := -8.0; delta <= 8; delta += 0.25 {
				along.delta = delta
				if other := gain(along); other > found.gain+1 { // a maximum may lie between two places
					t.Errorf("%s: %+v, and a step of %g gains %.6g", name, found, delta, other)
				}
			}
		}
	})
}

// TestLeap: an expert of few rows has some of a level of a factor, and others would be worth more. No climb leads
// there; a jump does.
func TestLeap(t *testing.T) {
	const n = 3000
	rng := rand.New(rand.NewPCG(7, 7))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		u, level := rng.NormFloat64(), 0.0
		if r%10 == 0 {
			level = 1
		}
		x.SetRow(r, []float64{u, level})
		y[r] = u + level/2
		switch {
		case r%30 == 1: // 100 rows
			y[r] = 8
		case r%300 == 10: // 10 rows of the level
			y[r] = 5
		case r%600 == 40: // 5 rows of it
			y[r] = 12
		}
		y[r] += 0.3 * rng.NormFloat64()
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts})
	through := func(level float64) *search.Candidate {
		q := p.Shape.Blank(0.3)
		copy(q.Regressor(0), []float64{1, 0.5})
		q.RegressorIntercepts[1] = 8
		q.Regressor(1)[1] = level
		q.GatingIntercepts[0] = 3
		q = p.Units.Into(q)
		c, err := (&search.Task{Problem: p}).ClimbFrom(t.Context(), p.Shape.Free(), starts.KindSpare, q)
		if err != nil || c.Run.Status != optim.Converged {
			t.Fatal(c.Run.Status, err)
		}
		return c
	}
	low, high := through(4), through(-3)
	if !high.Beats(low, n) {
		t.Fatalf("the optimum to find has %.6f, the other %.6f", high.Run.Value, low.Run.Value)
	}
	rows, err := partition.New(t.Context(), p, p.Rows)
	if err != nil {
		t.Fatal(err)
	}
	gained, err := leap(t.Context(), &search.Task{Problem: p}, rows, low)
	if err != nil || !gained || math.Abs(low.Run.Value-high.Run.Value) > joinGain/n {
		t.Errorf("leapt %v to %.6f, want %.6f; %v", gained, low.Run.Value, high.Run.Value, err)
	}
	if gained, err := leap(t.Context(), &search.Task{Problem: p}, rows, high); gained || err != nil {
		t.Errorf("leapt from the better optimum too: %v", err)
	}
}
