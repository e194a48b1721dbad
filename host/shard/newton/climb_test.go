package newton_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// logLikelihood is that of all rows at the parameters of m, which the passes do not tell.
func logLikelihood(t *testing.T, rows shardtest.InMemory, act sdk.Activation, m *fitted.Model) float64 {
	t.Helper()
	p := m.Params()
	v, err := loss.NewLikelihood(rows.Data, act, p, loss.All, 2).LogLikelihood(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestPassesNeverFall: from the moment estimate, from parameters drawn at random and from
// ones so large that no row is likely, no pass ends below the one before, in the likelihood of the
// model that it writes; and the passes end converged, or say why. Steps of Newton's method without
// a safeguard fall by millions.
func TestPassesNeverFall(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct {
		family sdk.Family
		start  string
		size   float64 // of what is drawn
	}{{relu.Family, "moments", 0}, {identity.Family, "moments", 0}, {tanh.Family, "random", 0.3}, {sigmoid.Family, "random", 1}, {relu.Family, "random", 30}, {identity.Family, "random", 1e6}} {
		t.Run(c.family.Name+" "+c.start, func(t *testing.T) {
			const n, d, k = 6000, 10, 3
			act := shardtest.Activation(t, c.family)
			rows := shardtest.Drawn(t, sample.Config{Activation: act, K: k, D: d, N: n, Sigma: 0.05, Seed: 1})
			m, err := host.Fit(t.Context(), act, rows, host.Config{K: k, Method: host.Moments{}})
			if err != nil {
				t.Fatal(err)
			}
			if c.start == "random" {
				rng, p := rand.New(rand.NewPCG(1, 2)), m.Params()
				for i := range p.Regressors {
					p.Regressors[i] = c.size * rng.NormFloat64()
				}
				for i := range p.Gating {
					p.Gating[i] = rng.NormFloat64()
				}
				m.SetParams(p)
			}
			least := logLikelihood(t, rows, act, m)
			for i := 1; ; i++ {
				s := pass(t, rows, 3, m, act)
				m = s.Model
				now := logLikelihood(t, rows, act, m)
				if now < least-1e-9*math.Abs(least) { // rounding of sums in another order
					t.Fatalf("pass %d ends at %v, the one before at %v", i, now, least)
				}
				if math.Abs(now-m.Fit.LogLikelihood) > 1e-9*math.Abs(now) {
					t.Errorf("pass %d: the model says %v, its rows %v", i, m.Fit.LogLikelihood, now)
				}
				least = now
				if s.Converged || !s.GoOn() {
					if !s.Converged && (s.Reason == "" || !strings.Contains(m.Fit.Status, s.Reason)) {
						t.Errorf("after %d passes not converged: %q, status %q", i, s.Reason, m.Fit.Status)
					}
					t.Logf("%d passes, converged %v %s", i, s.Converged, s.Reason)
					break
				}
				if i == newton.MostPasses {
					t.Fatal("it goes on")
				}
			}
		})
	}
}

// TestPassesGoOn: a loop that ended at its most passes goes on from its model, to
// where one with more passes would be.
func TestPassesGoOn(t *testing.T) {
	act := shardtest.Activation(t, tanh.Family)
	rows := shardtest.Drawn(t, sample.Config{Activation: act, K: 3, D: 10, N: 4000, Sigma: 0.05, Seed: 1})
	m, err := host.Fit(t.Context(), act, rows, host.Config{K: 3, Method: host.Moments{}})
	if err != nil {
		t.Fatal(err)
	}
	p := m.Params()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range p.Regressors {
		p.Regressors[i] = 0.3 * rng.NormFloat64()
	}
	m.SetParams(p)
	var s *newton.Step
	for s == nil || !s.Converged {
		if s = pass(t, rows, 2, m, act); s.Pass == 60 {
			t.Fatalf("not converged: %s", s.Model.Fit.Status)
		}
		if s.Pass == newton.MostPasses && (s.GoOn() || s.Reason == "") {
			t.Errorf("pass %d goes on, or says nothing", s.Pass)
		}
		m = s.Model
	}
	if s.Pass <= newton.MostPasses {
		t.Errorf("%d passes were enough: the start is too good for this test", s.Pass)
	}
}

// TestExpertsInOrder: a start whose experts stand in another order than their shares on
// all rows takes as many passes as one in order, to the same parameters: score and information are
// those of the order that the model gets.
func TestExpertsInOrder(t *testing.T) {
	act := shardtest.Activation(t, sigmoid.Family)
	rows := shardtest.Drawn(t, sample.Config{Activation: act, K: 3, D: 6, N: 8000, Sigma: 0.05, Seed: 4, Design: sample.Separated})
	part := shardtest.InMemory{Source: rows, Data: &model.Data{N: 2048, D: 6, Blocks: rows.Data.Blocks[:8]}}
	start, err := host.Fit(t.Context(), act, part, host.Config{K: 3, Intercepts: host.BothIntercepts, Noise: host.PerExpert{}})
	if err != nil {
		t.Fatal(err)
	}
	end := func(to []int) (*fitted.Model, int) {
		m := *start
		m.SetParams(start.Params().Relabel(to))
		for i := range to {
			m.Proportions = slices.Clone(m.Proportions)
			m.Proportions[to[i]] = start.Proportions[i]
		}
		s := passesFrom(t, rows, &m, act)
		if !s.Converged {
			t.Fatal(s.Reason)
		}
		return s.Model, s.Pass
	}
	want, passes := end([]int{0, 1, 2})
	for _, to := range [][]int{{2, 0, 1}, {1, 0, 2}, {2, 1, 0}} {
		got, made := end(to)
		if made != passes {
			t.Errorf("%v: %d passes, in order %d", to, made, passes)
		}
		a, b := got.Params(), want.Params()
		if far(a.Regressors, b.Regressors) > 1e-9 || far(a.Gating, b.Gating) > 1e-9 || far(a.GatingIntercepts, b.GatingIntercepts) > 1e-9 || far(a.Sigma, b.Sigma) > 1e-9 {
			t.Errorf("%v ends elsewhere", to)
		}
		for i, se := range got.StandardErrors.Gating {
			if far(se, want.StandardErrors.Gating[i]) > 1e-9 {
				t.Errorf("%v: standard errors of gate %d are others", to, i)
			}
		}
	}
}

// TestSideBySide: of the optima that the search on a subsample has found the best on all
// rows is taken, though it was not the best there; the verdict counts the starts that ended
// at that one, and what leads to one maximum is followed once.
func TestSideBySide(t *testing.T) {
	const n, d = 6000, 3
	act, ctx := shardtest.Activation(t, identity.Family), t.Context()
	x, y := gated(t, act, n, d, 0.3, 3)
	src := dataset.Matrix(x, y)
	want, err := host.Fit(ctx, act, src, host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	poor := *want // two experts that share all rows, next to a saddle or a lower maximum
	p := want.Params()
	for i := range p.Regressors {
		p.Regressors[i] = 0.01 * float64(i+1)
	}
	for i := range p.Gating {
		p.Gating[i] = 0.01
	}
	p.Sigma[0] = 2
	poor.SetParams(p)
	start := poor
	start.Fit.Starts = []fitted.Start{{Kind: "random", LogLikelihood: 1, Agrees: true, Path: []float64{}}, {Kind: "random", LogLikelihood: 0, Path: []float64{}}, {Kind: "moments", LogLikelihood: 0, Path: []float64{}}}
	start.Fit.Survey, start.Fit.Certificate = nil, nil
	near := want.Params()
	near.Regressors[0] += 0.05
	near.Gating[0] -= 0.05
	next := want.Params()
	next.Regressors[1] -= 0.05
	newton.SideBySide(&start, []newton.Optimum{{Params: near, Agreeing: 2}, {Params: next, Agreeing: 5}})
	if len(start.Fit.Climbs) != 3 {
		t.Fatalf("%d climbs", len(start.Fit.Climbs))
	}
	for _, parts := range []int{1, 4} {
		m, most := &start, 0
		var s *newton.Step
		for s == nil || s.GoOn() {
			s = pass(t, src, parts, m, act)
			m, most = s.Model, max(most, s.Climbs)
		}
		if !s.Certified || math.Abs(m.Fit.LogLikelihood-want.Fit.LogLikelihood) > 1e-6 {
			t.Fatalf("%d parts: ended %v at %v, of the fit %v: %s", parts, s.Certified, m.Fit.LogLikelihood, want.Fit.LogLikelihood, s.Reason)
		}
		if most < 2 {
			t.Errorf("at most %d side by side", most)
		}
		if reason := m.Fit.Certificate.Reason; !strings.Contains(reason, "3 starts") {
			t.Errorf("the certificate counts other starts: %s", reason)
		}
		if m.Fit.Climbs != nil || m.Fit.Prints != nil {
			t.Error("what the passes needed is still there")
		}
	}
	// The starts that ended at each: seven at that which was taken, one at the other.
	s := pass(t, src, 1, &start, act)
	for s.GoOn() && !s.Converged {
		s = pass(t, src, 1, s.Model, act)
	}
	if s.Model.Fit.Passes.Agreeing != 7 || s.Model.Fit.Passes.Starts != 3 {
		t.Errorf("%d of %d starts agree, want 7 of 3", s.Model.Fit.Passes.Agreeing, s.Model.Fit.Passes.Starts)
	}
}

// TestFromTheSubsample: from the full fit of a subsample the passes are in at most
// newton.MostPasses merges where a fit of all rows on one machine is that begins at the same start,
// whatever the number of parts: to 1e-9 of the larger of 1 and a parameter, where the maximum is
// at no kink of the likelihood, and there within the 0.01 of log-likelihood that end fits at one.
// Twenty designs:
//
//	MOE_STUDY=20 go test ./host/shard/newton -run TestFromTheSubsample -v
//
// TestNewton and TestSumsOfCounts begin at fits of subsamples too.
func TestFromTheSubsample(t *testing.T) {
	testslow.Mark(t)
	tables, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		tables = 2
	}
	families := []sdk.Family{sigmoid.Family, identity.Family, tanh.Family, relu.Family}
	for i := range tables {
		act, rng := shardtest.Activation(t, families[i%4]), rand.New(rand.NewPCG(29, uint64(i)))
		k := 2 + rng.IntN(2)
		c := sample.Config{
			Activation: act, K: k, D: 2*k + rng.IntN(4), N: 12000 + rng.IntN(8000), Sigma: []float64{0.05, 0.1, 0.3}[rng.IntN(3)],
			Design: []sample.Design{sample.Paper, sample.Separated}[rng.IntN(2)], Seed: uint64(i),
		}
		cfg := host.Config{K: k, Intercepts: host.InterceptsOf(i%3 == 1, i%3 == 1)}
		if i%5 == 2 {
			cfg.Noise = host.PerExpert{}
		}
		rows := shardtest.Drawn(t, c)
		table, err := shard.Open(t.Context(), rows)
		if err != nil {
			t.Fatal(err)
		}
		first := shardtest.Merged(t, 3, func(at shard.Place) (*shard.Moments, error) {
			return shard.Sum(t.Context(), rows, table, at, shard.Subsample{Seed: 1, Rows: 3000})
		})
		start, err := host.FitSums(t.Context(), act, first, "first", cfg)
		if err != nil {
			t.Fatal(err)
		}
		one := cfg
		one.Start, one.Method = start.Params(), host.Auto{Starts: 1}
		want, err := host.Fit(t.Context(), act, rows, one)
		if err != nil {
			t.Fatal(err)
		}
		for _, parts := range []int{2, 7} {
			s := passesUp(t, rows, parts, start, act)
			p, q := s.Model.Params().Relabel(matching(s.Model, want)), want.Params()
			off := 0.0
			for _, v := range [][2][]float64{{p.Regressors, q.Regressors}, {p.Gating, q.Gating}, {p.Sigma, q.Sigma}, {p.RegressorIntercepts, q.RegressorIntercepts}, {p.GatingIntercepts, q.GatingIntercepts}} {
				off = max(off, far(v[0], v[1]))
			}
			higher := s.Model.Fit.LogLikelihood - want.Fit.LogLikelihood
			t.Logf("%s k=%d d=%d n=%d sigma=%v %s intercept %v: %d parts, %d passes, kink %v, off by %.1e, log-likelihood higher by %.1e", act.Info().Name, k, c.D, c.N, c.Sigma, c.Design, cfg.Intercepts, parts, s.Pass, s.AtKink, off, higher)
			switch {
			case !s.Converged:
				t.Errorf("not converged: %s", s.Reason)
			case off > 1e-9, math.Abs(higher) > 1e-6:
				t.Errorf("off by %v, log-likelihood by %v", off, higher)
			}
		}
	}
}

// passesUp makes passes in parts until they end, the certificate not among them.
func passesUp(t *testing.T, src dataset.Source, parts int, m *fitted.Model, act sdk.Activation) (s *newton.Step) {
	t.Helper()
	for s == nil || !s.Converged && s.GoOn() {
		s = pass(t, src, parts, m, act)
		m = s.Model
	}
	return s
}

// TestStalled: where no step raises the log-likelihood the passes end and say so: two experts
// that are the same are at a saddle.
func TestStalled(t *testing.T) {
	act, ctx := shardtest.Activation(t, identity.Family), t.Context()
	x, y := gated(t, act, 4000, 3, 0.3, 3)
	src := dataset.Matrix(x, y)
	one, err := host.Fit(ctx, act, src, host.Config{K: 1})
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.Fit(ctx, act, src, host.Config{K: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := m.Params()
	copy(p.Regressors[:3], one.Regressors[0])
	copy(p.Regressors[3:], one.Regressors[0])
	for i := range p.Gating {
		p.Gating[i] = 1e-300 // there, and of no effect
	}
	p.Sigma = slices.Clone(one.Sigma)
	m.SetParams(p)
	s := passesUp(t, src, 2, m, act)
	if s.Converged || s.Reason == "" || s.Pass >= newton.MostPasses {
		t.Errorf("at a saddle: converged %v after %d passes, %q", s.Converged, s.Pass, s.Reason)
	}
}

// TestSumsOfCounts: Poisson experts fitted to the subsample of moment sums, and a zero expert beside them, are brought by
// passes to the fit of all rows. The spectral estimate of the sums is that of all rows, to the byte.
func TestSumsOfCounts(t *testing.T) {
	testslow.Mark(t)
	act, ctx := shardtest.Activation(t, exp.Family), t.Context()
	for _, zero := range []bool{false, true} {
		cfg := host.Config{K: 2, Family: "poisson", ZeroExpert: zero}
		rows := shardtest.Drawn(t, sample.Config{Activation: act, K: 2, D: 5, N: 12000, Family: "poisson", Zero: zero, Design: sample.Random, Seed: 3})
		table, err := shard.Open(ctx, rows)
		if err != nil {
			t.Fatal(err)
		}
		first := func(take int) *shard.Moments {
			return shardtest.Merged(t, 3, func(at shard.Place) (*shard.Moments, error) {
				return shard.Sum(ctx, rows, table, at, shard.Subsample{Seed: 1, Rows: take})
			})
		}
		want, err := host.Fit(ctx, act, rows, cfg)
		if err != nil {
			t.Fatal(err)
		}
		some := first(3000)
		starts := []*shard.Moments{some}
		asked := shard.Asked{K: 2, Family: "poisson"}
		if !zero {
			starts = append(starts, shardtest.Later(t, rows, table, 3, act, some, asked))
		}
		for _, sums := range starts {
			start, err := host.FitSums(ctx, act, sums, "sums", cfg)
			if err != nil {
				t.Fatal(err)
			}
			s := passesUp(t, rows, 3, start, act)
			if gap := s.Model.Fit.LogLikelihood - want.Fit.LogLikelihood; !s.Converged || math.Abs(gap) > 1e-6 {
				t.Errorf("zero expert %v, round %d: %s, log-likelihood higher by %v", zero, sums.Round(), s.Model.Fit.Status, gap)
			}
		}
		if zero {
			continue
		}
		cfg.Method = host.Spectral{}
		if want, err = host.Fit(ctx, act, rows, cfg); err != nil {
			t.Fatal(err)
		}
		for _, parts := range []int{1, 7} {
			got, err := host.FitSums(ctx, act, shardtest.Later(t, rows, table, parts, act, first(1<<16), asked), "all", cfg)
			if err != nil {
				t.Fatal(err)
			}
			shardtest.EqualJSON(t, fmt.Sprint("spectral, parts ", parts), got, want)
		}
	}
}
