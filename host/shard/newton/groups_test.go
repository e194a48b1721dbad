package newton_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/shard"
	"github.com/gatedlearning/moe/host/shard/newton"
	"github.com/gatedlearning/moe/host/shard/shardtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// groupedRows are rows in groups, of two experts of features a and b and a gate that sees level, which is constant in a
// group. The rows of a group stand beside each other.
type groupedRows struct {
	x          []float64 // three of every row
	y, id, w   []float64
	weightedBy bool
	law        []float64 // trials or offsets
	role       model.Role
}

// drawGroups draws groups of 2 to 8 rows, but for one of 700; counts have an offset, and binomials 1 to 3 trials.
func drawGroups(groups int, family string, seed uint64) *groupedRows {
	rng := rand.New(rand.NewPCG(seed, 17))
	out := new(groupedRows)
	for g := range groups {
		rows, level, z := 2+rng.IntN(7), rng.NormFloat64(), 0
		if g == groups/3 {
			rows = 700
		}
		if rng.Float64() > 1/(1+math.Exp(-0.3-0.8*level)) {
			z = 1
		}
		weight := 1 + rng.Float64()
		for range rows {
			a, b := rng.NormFloat64(), rng.NormFloat64()
			mean := []float64{1 + a, -1 - a + 0.5*b}[z]
			y := mean + 0.6*rng.NormFloat64()
			switch family {
			case "poisson":
				hours := float64(len(out.y)%5) / 4
				out.law, out.role = append(out.law, hours), model.Offsets
				y = distuv.Poisson{Lambda: math.Exp(0.6*mean + hours), Src: rng}.Rand()
			case "binomial":
				trials := float64(1 + len(out.y)%3)
				out.law, out.role = append(out.law, trials), model.Trials
				y = distuv.Binomial{N: trials, P: 1 / (1 + math.Exp(-mean)), Src: rng}.Rand()
			}
			out.x = append(out.x, a, b, level)
			out.y, out.id, out.w = append(out.y, y), append(out.id, float64(1000+g)), append(out.w, weight)
		}
	}
	return out
}

// table is that of the first rows, to the end of a group.
func (g *groupedRows) table(rows int) *dataset.Table {
	t := g.plain(rows)
	return t.With(model.Groups, "id", g.id[:g.whole(rows)])
}

// plain is table without the column of groups.
func (g *groupedRows) plain(rows int) *dataset.Table {
	rows = g.whole(rows)
	t := dataset.Matrix(mat.NewDense(rows, 3, g.x[:3*rows]), g.y[:rows]).Named([]string{"a", "b", "level"}, "y")
	if g.law != nil {
		t = t.With(g.role, "law", g.law[:rows])
	}
	if g.weightedBy {
		t = t.With(model.Weights, "w", g.w[:rows])
	}
	return t
}

func (g *groupedRows) whole(rows int) int {
	for rows < len(g.y) && g.id[rows] == g.id[rows-1] {
		rows++
	}
	return rows
}

// loop makes passes until they end.
func loop(t *testing.T, src dataset.Source, parts int, m *fitted.Model, act sdk.Activation) *newton.Step {
	t.Helper()
	for {
		s := pass(t, src, parts, m, act)
		if m = s.Model; s.Converged || !s.GoOn() {
			return s
		}
	}
}

// TestNewtonOfGroups: of rows in groups, one of which goes over several parts' blocks, passes over 1, 2 and 7 parts end
// where the fit on one machine does, whether they begin at a fit of some of the groups or at one that knows of none:
// the log-likelihood and BIC to 1e-9, parameters to 1e-9, standard errors to 1e-9 of their size, and the statistics of the
// certificate too.
func TestNewtonOfGroups(t *testing.T) {
	testslow.Mark(t)
	gate := host.Softmax{Features: []string{"level"}}
	for name, c := range map[string]struct {
		family   sdk.Family
		cfg      host.Config
		weighted bool
	}{
		"normal":   {identity.Family, host.Config{K: 2, Intercepts: host.BothIntercepts, Noise: host.PerExpert{}}, false},
		"weighted": {identity.Family, host.Config{K: 2, Intercepts: host.BothIntercepts}, true},
		"offsets":  {exp.Family, host.Config{K: 2, Intercepts: host.BothIntercepts, Family: "poisson"}, true},
		"trials":   {sigmoid.Family, host.Config{K: 2, Intercepts: host.BothIntercepts, Family: "binomial"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			act, ctx := shardtest.Activation(t, c.family), t.Context()
			c.cfg.Method, c.cfg.Gate = host.Auto{Starts: 2}, gate
			rows := drawGroups(500, c.cfg.Family, 5)
			rows.weightedBy = c.weighted
			src := rows.table(len(rows.y))
			want, err := host.Fit(ctx, act, src, c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			some, err := host.Fit(ctx, act, rows.table(800), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			none, err := host.Fit(ctx, act, rows.plain(len(rows.y)), c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, from := range []struct {
				start *fitted.Model
				parts int
			}{{some, 1}, {some, 7}, {none, 1}, {none, 2}} {
				start, parts := from.start, from.parts
				s := loop(t, src, parts, start, act)
				m := s.Model
				if !s.Converged || s.Pass < 2 {
					t.Fatalf("%d parts: after %d passes %q", parts, s.Pass, m.Fit.Status)
				}
				if m.Groups == nil || m.Groups.Count != 500 || m.Groups.Column != "id" || m.Groups.Posteriors != nil || m.Fit.N != len(rows.y) {
					t.Errorf("%d parts: groups %+v of %d rows", parts, m.Groups, m.Fit.N)
				}
				if math.Abs(m.Fit.Weight-want.Fit.Weight) > 1e-9 {
					t.Errorf("%d parts: weight %v, of the fit %v", parts, m.Fit.Weight, want.Fit.Weight)
				}
				for what, v := range map[string][2]float64{"log-likelihood": {m.Fit.LogLikelihood, want.Fit.LogLikelihood}, "BIC": {m.Fit.BIC, want.Fit.BIC}} {
					if math.Abs(v[0]-v[1]) > 1e-9 {
						t.Errorf("%d parts: %s %v, of the fit %v: %v apart", parts, what, v[0], v[1], v[0]-v[1])
					}
				}
				p, q := m.Params(), want.Params()
				for what, v := range map[string][2][]float64{
					"regressors": {p.Regressors, q.Regressors}, "gating": {p.Gating, q.Gating}, "sigma": {p.Sigma, q.Sigma},
					"intercepts": {p.RegressorIntercepts, q.RegressorIntercepts}, "gating intercepts": {p.GatingIntercepts, q.GatingIntercepts},
					"proportions": {m.Proportions, want.Proportions},
				} {
					if by := far(v[0], v[1]); by > 1e-9 {
						t.Errorf("%d parts: %s are %v from those of the fit", parts, what, by)
					}
				}
				if m.StandardErrors == nil {
					t.Fatalf("no standard errors: %v", m.Fit.Notes)
				}
				for i, of := range want.StandardErrors.Regressors {
					for j, se := range of {
						if got := m.StandardErrors.Regressors[i][j]; math.Abs(got-se) > 1e-9*se {
							t.Errorf("%d parts: standard error %v, of the fit %v", parts, got, se)
						}
					}
				}
				s = pass(t, src, parts, m, act)
				if !s.Certified || s.GoOn() {
					t.Fatalf("%d parts: no certificate behind the last pass: %v", parts, m.Fit.Notes)
				}
				sameCertificate(t, fmt.Sprintf("%d parts", parts), s.Model.Fit.Certificate, want.Fit.Certificate)
			}
		})
	}
}

// TestFewGroupsInParts: passes over groups of which one alone has an expert say that the model is not judged, as the fit
// on one machine does; where every expert has three, both judge it.
func TestFewGroupsInParts(t *testing.T) {
	testslow.Mark(t)
	act := shardtest.Activation(t, identity.Family)
	for lines, reason := range map[int]string{
		1: "expert 2 has 1 of 4 groups, and one alone does not tell what groups of its kind share", 3: "",
	} {
		rng := rand.New(rand.NewPCG(3, 17))
		var x, y, id []float64
		for g := range 3 + lines {
			for range 40 {
				a, b := rng.NormFloat64(), rng.NormFloat64()
				mean := 1 + a
				if g >= 3 {
					mean = -1 - a + 0.5*b
				}
				x, y, id = append(x, a, b), append(y, mean+0.3*rng.NormFloat64()), append(id, float64(g))
			}
		}
		src := dataset.Matrix(mat.NewDense(len(y), 2, x), y).With(model.Groups, "id", id)
		fit, err := host.Fit(t.Context(), act, src, host.Config{K: 2, Intercepts: host.BothIntercepts, Seed: 1,
			Gate: host.Constant{}})
		if err != nil {
			t.Fatal(err)
		}
		s := pass(t, src, 1, fit, act)
		for s.GoOn() {
			s = pass(t, src, 1, s.Model, act)
		}
		want := infer.Pass
		if reason != "" {
			want = infer.NotJudged
		}
		for name, m := range map[string]*fitted.Model{"the fit": fit, "passes": s.Model} {
			if c := m.Fit.Certificate; c == nil || c.Model != want || c.ModelReason != reason {
				t.Errorf("%d groups of the second kind: %s: %+v, want %s: %q; %v", lines, name, c, want, reason, m.Fit.Notes)
			}
		}
	}
}

// TestGroupsThatDoNotFit: a group that has rows in two parts, a column of the gate or weights that vary in a group, and a
// model and a table of which one knows of no groups are refused in words that name them.
func TestGroupsThatDoNotFit(t *testing.T) {
	act, ctx := shardtest.Activation(t, identity.Family), t.Context()
	rows := drawGroups(500, "", 5)
	whole := rows.table(len(rows.y))
	fit := func(src dataset.Source, gate host.Gate) *fitted.Model {
		m, err := host.Fit(ctx, act, src, host.Config{K: 2, Intercepts: host.BothIntercepts, Gate: gate, Method: host.Auto{Starts: 4}})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	level := host.Softmax{Features: []string{"level"}}
	m := fit(rows.table(800), level)
	part := func(src dataset.Source, m *fitted.Model, i, n int) (*newton.Sums, error) {
		table, err := shard.Open(ctx, src)
		if err != nil {
			t.Fatal(err)
		}
		return newton.Sum(ctx, src, table, shard.Place{I: i, N: n}, m, act, 1)
	}
	parts := func(src dataset.Source, n int) (files []string, all []*newton.Sums) {
		for i := range n {
			one, err := part(src, m, i+1, n)
			if err != nil {
				t.Fatal(err)
			}
			files, all = append(files, fmt.Sprint("part-", i+1)), append(all, one)
		}
		return files, all
	}

	apart := *rows
	apart.id = slices.Clone(rows.id)
	apart.id[2500] = 1003 // of a group that the first rows have
	files, all := parts(apart.table(len(rows.y)), 7)
	const says = `part-6: group 1003 of column "id" has rows in part 6 of 7 and in part 1: parts hold whole groups; sort the rows by the column, or make one part of all`
	_, err := newton.Merge(files, all)
	shardtest.WantData(t, "a group in two parts", err, says)
	_, err = newton.Join(files, all)
	shardtest.WantData(t, "a group in two parts, joined", err, says)
	first, err := newton.Join(files[:3], all[:3])
	if err != nil {
		t.Fatal(err)
	}
	rest, err := newton.Join(files[3:], all[3:])
	if err != nil {
		t.Fatal(err)
	}
	_, err = newton.Merge([]string{"a", "b"}, []*newton.Sums{first, rest})
	shardtest.WantData(t, "a group in parts that were joined", err, "b"+says[len("part-6"):])

	varies := fit(rows.plain(800), nil)
	_, err = part(whole, varies, 2, 2)
	shardtest.WantData(t, "a gate that varies", err, `column "a" of the gate varies within group`)
	_, err = part(rows.plain(len(rows.y)), m, 1, 2)
	shardtest.WantData(t, "no groups", err, `the model is of rows in groups of column "id", which is not among the columns read`)
	byRow := make([]float64, len(rows.y))
	for i := range byRow {
		byRow[i] = float64(1 + i)
	}
	_, err = part(whole.With(model.Weights, "w", byRow), m, 1, 2)
	shardtest.WantData(t, "weights", err, `have the weights`)

	one := *rows
	one.id, one.x = make([]float64, len(rows.id)), slices.Clone(rows.x)
	for i := 2; i < len(one.x); i += 3 {
		one.x[i] = 1
	}
	files, all = parts(one.table(len(rows.y)), 2)
	_, err = newton.Merge(files, all)
	shardtest.WantData(t, "one group", err, `column "id" has one group, 0, in every row`)

	alone := fit(rows.plain(800), level)
	s := pass(t, rows.plain(len(rows.y)), 2, alone, act)
	_, err = part(rows.table(len(rows.y)), s.Model, 1, 2)
	shardtest.WantData(t, "passes without groups", err, "the model is of passes over rows that are in no groups")

	// Ids are among what a pass must find as the one before did.
	s = pass(t, rows.table(len(rows.y)), 2, m, act)
	other := *rows
	other.id = slices.Clone(rows.id)
	other.id[500] = 7
	if _, err = part(other.table(len(rows.y)), s.Model, 1, 2); err == nil || !strings.Contains(err.Error(), "not the rows that the model was made of") && !strings.Contains(err.Error(), "the data have changed") {
		t.Errorf("other ids: %v", err)
	}
	table, err := shard.Open(ctx, rows.table(len(rows.y)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = shard.Sum(ctx, rows.table(len(rows.y)), table, shard.Place{I: 1, N: 2}, shard.Subsample{Rows: 100})
	shardtest.WantData(t, "moments", err, `column "id" of groups: moments are of rows`)
}
