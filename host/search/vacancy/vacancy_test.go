package vacancy

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/hardgate"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// coreSteps are the steps of the search itself.
func coreSteps() search.Steps {
	return search.Steps{
		Refined: []search.Step{search.OtherStarts(), hardgate.Reheating(), hardgate.RowExchange()},
		Last:    []search.Step{search.Perturbation(), search.ExactNewton()},
	}
}

// vacant are problems of three experts of several shapes, and random mixtures of two.
func vacant(t *testing.T, each func(name string, p *problem.Problem, two *model.Params, rng *rand.Rand)) {
	shapes := map[string]problem.Request{
		"bare":            {},
		"intercepts":      {Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}},
		"a constant gate": {Gate: problem.Constant{}, Intercepts: problem.ExpertIntercepts},
		"some features":   {ExpertFeatures: []string{"x2", "x3"}, Gate: problem.Softmax{Features: []string{"x1"}}, Intercepts: problem.GateIntercepts},
	}
	for name, r := range shapes {
		for _, f := range []sdk.Family{identity.Family, tanh.Family} {
			r.K = 3
			p, _ := searchtest.Drawn(t, f, 3, 5, 600, 0.3, 4, r)
			rng := rand.New(rand.NewPCG(9, 9))
			q := searchtest.Anywhere(p.With(2), rng)
			if len(q.Sigma) == 1 {
				q.Sigma[0] = 0.7
			}
			each(name+", "+f.Name, p, q, rng)
		}
	}
	for _, c := range []struct {
		family string
		act    sdk.Family
		r      problem.Request
	}{
		{"poisson", exp.Family, problem.Request{Intercepts: problem.BothIntercepts}},
		{"negative-binomial", exp.Family, problem.Request{Noise: problem.PerExpert{}}},
		{"gamma", exp.Family, problem.Request{}},
		{"binomial", sigmoid.Family, problem.Request{Intercepts: problem.GateIntercepts}},
		{"student-t", tanh.Family, problem.Request{Noise: problem.PerExpert{}, Intercepts: problem.BothIntercepts}},
	} {
		cfg := sample.Config{Activation: searchtest.Activation(t, c.act), K: 3, D: 4, N: 600, Sigma: 1.5, Family: c.family, Design: sample.Random, Seed: 6}
		if c.family == "binomial" {
			cfg.Trials = 5
		}
		if c.family == "student-t" {
			cfg.Own = []float64{4}
		}
		if c.family == "poisson" || c.family == "binomial" {
			cfg.Sigma = 0
		}
		s, err := sample.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		c.r.K, c.r.Family = 3, c.family
		p := searchtest.Load(t, s, searchtest.Activation(t, c.act), c.r)
		rng := rand.New(rand.NewPCG(9, 9))
		each(c.family, p, searchtest.Anywhere(p.With(2), rng), rng)
	}
}

// TestVacancyIsTheLikelihood: what an expert gains that joins is the difference of the log-likelihoods with it and
// without, as the likelihood of all parameters computes them.
func TestVacancyIsTheLikelihood(t *testing.T) {
	vacant(t, func(name string, p *problem.Problem, two *model.Params, rng *rand.Rand) {
		rows, err := partition.New(t.Context(), p, p.Rows)
		if err != nil {
			t.Fatal(err)
		}
		v, err := newVacancy(t.Context(), p, rows, two)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			j := &joiner{a: make([]float64, len(v.experts)), w: make([]float64, len(v.gate)), own: two.OwnOf(nil, 0)}
			for _, c := range [][]float64{j.a, j.w} {
				for i := range c {
					c[i] = rng.NormFloat64()
				}
			}
			if p.Shape.PerExpert {
				for q := range j.own {
					j.own[q] = 1.4
				}
			}
			got, err := v.pass(t.Context(), v.room(), j, false)
			if err != nil {
				t.Fatal(err)
			}
			want := logLikelihood(t, p, v.with(j)) - logLikelihood(t, p.With(2), two)
			if math.Abs(got-want) > 1e-9*float64(p.N()) { // rounding of the terms
				t.Errorf("%s: gains %.9g, the likelihoods differ by %.9g", name, got, want)
			}
		}
	})
}

func logLikelihood(t *testing.T, p *problem.Problem, q *model.Params) float64 {
	t.Helper()
	v, err := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1).LogLikelihood(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestLeaveOut: without an expert the others have their odds against each other, and what the log-likelihood
// loses is what losses says.
func TestLeaveOut(t *testing.T) {
	p, _ := searchtest.Drawn(t, identity.Family, 3, 5, 600, 0.3, 4, problem.Request{K: 3, Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}})
	q := searchtest.Anywhere(p, rand.New(rand.NewPCG(3, 3)))
	all, err := losses(t.Context(), p, q)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range all {
		if want := logLikelihood(t, p, q) - logLikelihood(t, p.With(2), leaveOut(q, i)); math.Abs(got-want) > 1e-9*float64(p.N()) {
			t.Errorf("expert %d: loses %.9g, the likelihoods differ by %.9g", i, got, want)
		}
	}
	// A gate so hard that its probabilities underflow: the loss is that of the other expert's density.
	hard := p.With(2).Shape.Blank(1)
	hard.GatingIntercepts[0] = 1e4
	hard.RegressorIntercepts[1] = 1
	if all, err = losses(t.Context(), p.With(2), hard); err != nil {
		t.Fatal(err)
	}
	want := logLikelihood(t, p.With(2), hard) - logLikelihood(t, p.With(1), leaveOut(hard, 0))
	if math.Abs(all[0]-want) > 1e-9*float64(p.N()) || math.Abs(all[1]) > 1e-9 {
		t.Errorf("behind a hard gate the losses are %.9g, want %.9g and 0", all, want)
	}
}

// TestTwins: of two experts that share the rows of one each is missed where it is left out and the other stays as it is, and the one of
// them that is missed less is spare. Of three that the rows ask for none is.
func TestTwins(t *testing.T) {
	const n = 2 * twinRows
	for right, level := range map[bool]func(row int) float64{
		false: func(r int) float64 { return 10 * float64(r%2) },
		true:  func(r int) float64 { return []float64{0, 5, 10, 10}[r%4] },
	} {
		p := searchtest.Parallels(t, n, 3, level, problem.Request{})
		q := searchtest.At(p, 0.3, 0, 0.01, 10)
		if right {
			q = searchtest.At(p, 0.3, 0, 5, 10)
		}
		q.GatingIntercepts = []float64{math.Log(0.5), math.Log(0.5), 0} // a quarter, a quarter, a half
		all, err := losses(t.Context(), p, q)
		if err != nil {
			t.Fatal(err)
		}
		if least := floats.Min(all); least < crowdedLoss*ownParameters(p)*math.Log(n) {
			t.Fatalf("right %v: an expert is missed by %.3g alone", right, least)
		}
		m, err := spares(t.Context(), p, q)
		if err != nil {
			t.Fatal(err)
		}
		if right != (len(m.Spare) == 0) || !right && (len(m.Spare) > 1 || m.Spare[0] == 2) {
			t.Errorf("right %v: spare are %v", right, m.Spare)
		}
	}
}

// threeLines is a problem of three experts with a random half of the rows for each of the first two, and a third that has most of
// those where x1 > 1; the truth in its units, and the mixture of the first two alone.
func threeLines(t *testing.T, f sdk.Family) (p *problem.Problem, lines [][]float64, two *model.Params) {
	t.Helper()
	const n, sigma = 3000, 0.2
	rng := rand.New(rand.NewPCG(5, 5))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	lines = [][]float64{{1, 0.3, 0.2}, {-0.5, 1, 1}, {0.2, -1, 2}} // and an intercept
	g := searchtest.Activation(t, f)
	for r := range y {
		u, v := rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(r, []float64{u, v})
		of := lines[rng.IntN(2)]
		if u > 1 && rng.IntN(4) > 0 {
			of = lines[2]
		}
		z := []float64{of[0]*u + of[1]*v + of[2]}
		if err := g.Eval(t.Context(), z, z); err != nil {
			t.Fatal(err)
		}
		y[r] = z[0] + sigma*rng.NormFloat64()
	}
	p = searchtest.Load(t, dataset.Matrix(x, y), g, problem.Request{K: 3, Intercepts: problem.BothIntercepts})
	two = p.With(2).Shape.Blank(sigma)
	for i := range 2 {
		copy(two.Regressor(i), lines[i][:2])
		two.RegressorIntercepts[i] = lines[i][2]
	}
	return p, lines, p.With(2).Shape.Adopt(p.Units.Into(two))
}

// TestJoiner: of two lines and a third that a side of the plane has, the best of some joiners is that of the third.
func TestJoiner(t *testing.T) {
	for _, f := range []sdk.Family{identity.Family, relu.Family} {
		p, lines, two := threeLines(t, f)
		rng := rand.New(rand.NewPCG(6, 6))
		rows, err := partition.New(t.Context(), p, p.Rows)
		if err != nil {
			t.Fatal(err)
		}
		v, err := newVacancy(t.Context(), p, rows, two)
		if err != nil {
			t.Fatal(err)
		}
		var best joiner
		for range 24 {
			r := v.room()
			v.label(rng, r.post)
			j, err := v.join(t.Context(), r, v.begin(r), math.Inf(-1))
			if err != nil {
				t.Fatal(err)
			}
			if j.gain > best.gain {
				best = j
			}
		}
		q := p.Units.OutOf(v.with(&best))
		got := append(q.Regressor(0)[:2:2], q.RegressorIntercepts[0])
		// Some 360 rows: a standard error is about .02, of a kink's less than twice that.
		if floats.Distance(got, lines[2], math.Inf(1)) > 0.15 {
			t.Errorf("%s: joined at %.3f, want %.3f; gain %.1f", f.Name, got, lines[2], best.gain)
		}
	}
}

// TestPlaceSpares: a best of two lines and an expert that has next to no rows goes on to the optimum of three lines, which the
// truth leads to, and there no expert is a spare one.
func TestPlaceSpares(t *testing.T) {
	p, lines, two := threeLines(t, identity.Family)
	pair := p.With(2)
	two = searchtest.Likelihood(pair, pair.Rows).Params(searchtest.Climbed(t, pair, pair.Rows, two).X)
	v := &vacancy{problem: p, mixture: two, experts: []int{0, 1, 2}, gate: []int{0, 1, 2}}
	idle := v.with(&joiner{a: []float64{3, 3, 0}, w: []float64{0, 0, -30}, own: []float64{1}})
	truth := p.Shape.Blank(0.2)
	for i, line := range lines {
		copy(truth.Regressor(i), line[:2])
		truth.RegressorIntercepts[i] = line[2]
	}
	copy(truth.Gate(0), []float64{-6, 0})
	copy(truth.Gate(1), []float64{-6, 0})
	truth.GatingIntercepts[0], truth.GatingIntercepts[1] = 5, 5
	want := searchtest.Climbed(t, p, p.Rows, p.Units.Into(truth)).Value
	l := searchtest.Likelihood(p, p.Rows)
	at, err := l.Value(t.Context(), l.Theta(idle))
	if err != nil {
		t.Fatal(err)
	}
	best := &search.Candidate{Params: idle, Run: &optim.Result{Value: at, Status: optim.Converged}, Rows: p.N()}
	spared := func() search.Missed {
		m, err := spares(t.Context(), p, best.Params)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	if m := spared(); len(m.Spare) != 1 || m.Spare[0] != 0 || m.Least != 0 {
		t.Fatalf("spare are %v, the least missed is %d", m.Spare, m.Least)
	}
	seen, err := placeSpares(t.Context(), &search.Task{Steps: coreSteps(), Problem: p, Starts: search.DefaultStarts}, best, spared(), false, 0)
	if err != nil || seen != nil {
		t.Errorf("where no expert is spare: %+v, %v", seen, err)
	}
	if best.Run.Value > want+search.SameOptimum(p.Count()) || best.Run.Status != optim.Converged {
		t.Errorf("mean negative log-likelihood %.6f, from the truth %.6f", best.Run.Value, want)
	}
	// Where a test fails the one that is missed least is placed anew all the same, and meets the best again.
	// Where more starts are asked for the numbers of its streams are still a stream's.
	for _, starts := range []int{search.DefaultStarts, 640, math.MaxInt32} {
		seen, err = placeSpares(t.Context(), &search.Task{Steps: coreSteps(), Problem: p, Starts: starts}, best, spared(), true, 1)
		if err != nil || seen == nil || seen.Experts != 0 || seen.Met < 3 || seen.Unseen() > 0.05 {
			t.Errorf("placed anew of %d starts: %+v, %v", starts, seen, err)
		}
	}
}
