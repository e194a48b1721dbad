package narrower

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// TestNarrower: where a wider density is next to the narrower one the optimum has the likelihood of the narrower one,
// to 1/1000 of a unit a row for a t law of 1000 degrees of freedom; where its own parameter is given, or it is no wider
// one, it has no such place.
func TestNarrower(t *testing.T) {
	for name, c := range map[string]struct {
		act          sdk.Family
		drawn        string
		request      problem.Request
		starts, near int // how many at least, and how many of them next to the narrower density
		within       float64
	}{
		"t":                 {identity.Family, "", problem.Request{Family: "student-t"}, 2, 1, 1e-3},
		"t, noise of each":  {identity.Family, "", problem.Request{Family: "student-t", Noise: problem.PerExpert{}}, 2, 1, 1e-3},
		"t of given dof":    {identity.Family, "", problem.Request{Family: "student-t", Dof: 4}, 1, 0, 0},
		"negative binomial": {exp.Family, "poisson", problem.Request{Family: "negative-binomial"}, 2, 1, 1e-6},
		"poisson":           {exp.Family, "poisson", problem.Request{Family: "poisson"}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			act := searchtest.Activation(t, c.act)
			config := sample.Config{Activation: act, K: 2, D: 3, N: 400, Family: c.drawn, Design: sample.Random, Seed: 5}
			if c.drawn == "" {
				config.Sigma = 0.3
			}
			src, err := sample.New(config)
			if err != nil {
				t.Fatal(err)
			}
			c.request.K = 2
			p := searchtest.Load(t, src, act, c.request)
			task := &search.Task{Problem: p, Part: p.Rows, Starts: search.DefaultStarts}
			all, err := narrower(t.Context(), task, searchtest.Measure(t, p))
			if err != nil {
				t.Fatal(err)
			}
			if len(all) < c.starts || c.starts == 0 && len(all) > 0 {
				t.Fatalf("%d starts, want %d or more", len(all), c.starts)
			}
			if c.near == 0 {
				return
			}
			n := p.Narrower()
			mean := func(p *problem.Problem, q *model.Params) float64 {
				l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
				v, err := l.Value(t.Context(), l.Theta(q))
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			wide, narrow := mean(p, all[0]), mean(n, n.Shape.Adopt(all[0]))
			if !(math.Abs(wide-narrow) < c.within) {
				t.Errorf("mean negative log-likelihood %v, under the narrower density %v", wide, narrow)
			}
			if begun := mean(p, all[1]); !(begun > wide+c.within) {
				t.Errorf("the second start has %v, next to the first with %v: it is to be away from the limit", begun, wide)
			}
		})
	}
}

// TestNarrowerKnowsNoOffsets: normal noise takes no offsets, so a t law with offsets has no narrower density.
func TestNarrowerKnowsNoOffsets(t *testing.T) {
	p := searchtest.Poisson(t)
	p.Shape.Family = "student-t"
	if p.Narrower() == nil {
		t.Fatal("a t law has no narrower density")
	}
	p.Schema.Roles[model.Offsets] = "hours"
	if p.Narrower() != nil {
		t.Error("normal noise is to take offsets")
	}
}

// TestBegin: the optima under the narrower density are starts of a search on part of the rows, as they are, and on all rows maxima that
// compete with what it finds; of a density that is the wider of no other there are none.
func TestBegin(t *testing.T) {
	for family, some := range map[string]bool{"student-t": true, "": false} {
		p := searchtest.Parallels(t, 200, 2, func(r int) float64 { return float64(r%2) * 9 }, problem.Request{Family: family})
		for _, whole := range []bool{false, true} {
			task := &search.Task{Problem: p, Part: p.Rows, Starts: search.DefaultStarts}
			if err := Begin(t.Context(), task, searchtest.Measure(t, p), whole); err != nil {
				t.Fatal(err)
			}
			if first, others := len(task.First) > 0, len(task.Others) > 0; first != (some && !whole) || others != (some && whole) {
				t.Errorf("family %q, all rows %v: %d starts and %d others", family, whole, len(task.First), len(task.Others))
			}
			for _, s := range task.First {
				q, err := s.Draw(t.Context(), nil)
				if err != nil || s.Kind != starts.KindNarrower || q.K != 2 || q.Family != family {
					t.Errorf("a start %s at %+v, error %v", s.Kind, q, err)
				}
			}
			for _, c := range task.Others {
				if c.Kind != starts.KindNarrower || c.Rows != p.N() || c.Failed() {
					t.Errorf("%+v", c)
				}
			}
		}
	}
}
