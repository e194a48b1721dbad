package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// TestWarningsOfTooManyExperts: of the parameters that 400 rows were drawn from, whether an
// expert of few rows and two that are nearly equal are named.
func TestWarningsOfTooManyExperts(t *testing.T) {
	for _, c := range []struct {
		name        string
		proportions []float64
		first, last float64 // the first coefficients of experts 2 and 3; expert 1 has 1
		noise       float64 // of expert 2; the others' is 0.3
		want        []string
	}{
		{"none", []float64{0.5, 0.3, 0.2}, 0, -1, 0.3, nil},
		{"few rows", []float64{0.6, 0.37, 0.03}, 0, -1, 0.3, []string{"expert 3 has 12 rows for 3 coefficients"}},
		{"nearly equal", []float64{0.5, 0.3, 0.2}, 0.9, -1, 0.3, []string{"experts 1 and 2 are nearly equal"}},
		{"equal but for the noise", []float64{0.5, 0.3, 0.2}, 0.9, -1, 1.5, nil},
		{"both", []float64{0.6, 0.37, 0.03}, 0, 0.1, 0.3, []string{"expert 3 has 12 rows", "experts 2 and 3 are nearly equal"}},
	} {
		q := model.NewParams(3, 3)
		q.Regressors[0], q.Regressors[3], q.Regressors[6] = 1, c.first, c.last
		q.Sigma = []float64{0.3, c.noise, 0.3}
		const n = 400
		rng := rand.New(rand.NewPCG(1, 1))
		x, y := mat.NewDense(n, 3, nil), make([]float64, n)
		for r := range y {
			for j := range 3 {
				x.Set(r, j, rng.NormFloat64())
			}
			i := rng.IntN(3)
			y[r] = q.Regressor(i)[0]*x.At(r, 0) + q.Sigma[i]*rng.NormFloat64()
		}
		_, p, err := load(t.Context(), ident, dataset.Matrix(x, y), Config{K: 3, Noise: PerExpert{}})
		if err != nil {
			t.Fatal(err)
		}
		m := &fitted.Model{Proportions: c.proportions}
		m.SetParams(q)
		out := &outcome{best: &search.Candidate{Params: q}, joint: true}
		if err := warnOfTooMany(t.Context(), m, p, out, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		if len(m.Fit.Warnings) != len(c.want) {
			t.Errorf("%s: %q, want %q", c.name, m.Fit.Warnings, c.want)
			continue
		}
		for i, w := range c.want {
			if !strings.HasPrefix(m.Fit.Warnings[i], "k may be too large: "+w) {
				t.Errorf("%s: %q, want %q", c.name, m.Fit.Warnings[i], w)
			}
		}
	}
}

// TestAsOne: of a maximum of two experts with the second in two alike, these are offered as one, which costs no
// likelihood and saves their parameters; the others are not.
func TestAsOne(t *testing.T) {
	g := groupDesign{act: ident, k: 2, d: 3, n: 400, sigma: 0.3}
	src, _ := g.draw(t, 1)
	cfg := Config{K: 2, Intercepts: BothIntercepts}
	two, err := Fit(t.Context(), g.act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if len(two.Fit.Merges) > 0 {
		t.Errorf("of the right number %+v are offered", two.Fit.Merges)
	}
	cfg.K = 3
	_, p, err := load(t.Context(), g.act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	q, of := p.Shape.Blank(two.Sigma[0]), two.Params()
	for i := range 3 {
		from := min(i, 1)
		copy(q.Regressor(i), of.Regressor(from))
		q.RegressorIntercepts[i] = of.RegressorIntercepts[from]
	}
	copy(q.Gate(0), of.Gate(0)) // against expert 3, which has half of expert 2's rows, as expert 2 has
	q.GatingIntercepts[0] = of.GatingIntercepts[0] + math.Ln2
	m := &fitted.Model{Proportions: []float64{two.Proportions[0], two.Proportions[1] / 2, two.Proportions[1] / 2}}
	errors := p.Shape.Blank(1)
	for _, part := range [][]float64{errors.Regressors, errors.RegressorIntercepts, errors.Gating, errors.GatingIntercepts} {
		for i := range part {
			part[i] = 1
		}
	}
	m.StandardErrors = fitted.NewStandardErrors("observed", errors, true)
	out := &outcome{best: &search.Candidate{Params: p.Units.Into(q)}, joint: true}
	if err := warnOfTooMany(t.Context(), m, p, out, []int{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	saved := 8 * math.Log(400)
	if len(m.Fit.Merges) != 1 || m.Fit.Merges[0].Experts != [2]int{2, 3} ||
		math.Abs(m.Fit.Merges[0].LogLikelihood) > 1e-6 || math.Abs(m.Fit.Merges[0].BIC+saved) > 1e-5 {
		t.Errorf("offered are %+v, want experts 2 and 3 with a BIC of %v", m.Fit.Merges, -saved)
	}
	if len(m.Fit.Warnings) != 1 || !strings.HasSuffix(m.Fit.Warnings[0], fmt.Sprintf(
		", BIC better by %.3g, and the two have no standard errors", saved)) {
		t.Errorf("warnings %q", m.Fit.Warnings)
	}
	se := m.StandardErrors
	for i := range 3 {
		without := i > 0
		if math.IsNaN(se.Regressors[i][0]) != without || math.IsNaN(se.RegressorIntercepts[i]) != without {
			t.Errorf("expert %d has the errors %v and %v", i+1, se.Regressors[i], se.RegressorIntercepts[i])
		}
	}
	// All gates are against expert 3, which may be expert 2.
	if !math.IsNaN(se.Gating[0][0]) || !math.IsNaN(se.Gating[1][0]) || !math.IsNaN(se.GatingIntercepts[0]) ||
		math.IsNaN(se.Sigma[0]) {
		t.Errorf("gates have the errors %v and %v, the noise %v", se.Gating, se.GatingIntercepts, se.Sigma)
	}
}

// TestOneExpertTooMany: of three experts fitted to two, two are offered as one wherever BIC prefers two, and what that
// is said to come to is the fit of two experts. Of two experts they are where BIC prefers one. With -study it counts on
// so many data sets of each kind from -studyfrom on.
func TestOneExpertTooMany(t *testing.T) {
	testslow.Mark(t)
	lines := func(act sdk.Activation) func(seed uint64) (dataset.Source, sdk.Activation, string) {
		return func(seed uint64) (dataset.Source, sdk.Activation, string) {
			g := groupDesign{act: act, k: 2, d: 3, n: 1000, sigma: 0.3, intercept: true}
			src, _ := g.draw(t, seed)
			return src, act, ""
		}
	}
	for _, c := range []struct {
		name  string
		draw  func(seed uint64) (src dataset.Source, act sdk.Activation, family string)
		noise Noise
	}{
		{"identity", lines(ident), nil},
		{"identity, sigma given", lines(ident), Shared{Sigma: 0.3}},
		{"relu", lines(rectify), nil},
		{"poisson", func(seed uint64) (dataset.Source, sdk.Activation, string) {
			const n = 1000
			rng := rand.New(rand.NewPCG(seed, 1))
			x, y := mat.NewDense(n, 2, nil), make([]float64, n)
			for r := range y {
				a, b := rng.NormFloat64(), rng.NormFloat64()
				x.SetRow(r, []float64{a, b})
				mean := math.Exp(-0.3*a + 0.6*b)
				if rng.Float64() < 1/(1+math.Exp(-2*a)) {
					mean = math.Exp(1 + 0.8*a + 0.3*b)
				}
				y[r] = poisson(mean, rng)
			}
			return dataset.Matrix(x, y), exponential, "poisson"
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			sets, from := *studySets, *studyFrom
			if sets == 0 {
				sets, from = 1, 1
			}
			asked := func(m *fitted.Model) bool {
				return slices.ContainsFunc(m.Fit.Merges, func(o fitted.Merge) bool { return o.BIC < 0 })
			}
			var prefers, offered, same, wrong int
			for seed := from; seed < from+uint64(sets); seed++ {
				src, act, family := c.draw(seed)
				fit := func(k int) *fitted.Model {
					m, err := Fit(t.Context(), act, src, Config{K: k, Intercepts: BothIntercepts, Family: family, Seed: seed,
						Noise: c.noise})
					if err != nil {
						t.Fatal(err)
					}
					return m
				}
				two, three := fit(2), fit(3)
				if asked(two) && fit(1).Fit.BIC >= two.Fit.BIC {
					wrong++
				}
				want := two.Fit.BIC - three.Fit.BIC
				if !three.Fit.Converged || want >= 0 { // it has no errors that could mislead, or BIC does not prefer two
					continue
				}
				prefers++
				if asked(three) {
					offered++
				}
				if slices.ContainsFunc(three.Fit.Merges, func(o fitted.Merge) bool { return math.Abs(o.BIC-want) < 0.1 }) {
					same++
				}
			}
			t.Logf("of %d data sets BIC prefers two experts in %d, two of the three are offered as one in %d, "+
				"which is the fit of two in %d; of two experts two are offered, and BIC does not prefer one, in %d", sets, prefers, offered, same, wrong)
			if offered < prefers || wrong > 0 || *studySets == 0 && same < prefers {
				t.Errorf("offered in %d of %d, %d as the fit of two; of two experts %d", offered, prefers, same, wrong)
			}
		})
	}
}

// TestWarningOfTwinLeaves: experts that are nearly equal are said to have no gate to
// estimate where they are leaves of one gate of the tree, and not where they are not.
func TestWarningOfTwinLeaves(t *testing.T) {
	g := groupDesign{act: ident, k: 2, d: 3, n: 400, sigma: 0.3}
	src, _ := g.draw(t, 1)
	for _, c := range []struct {
		shape string
		first [3]float64 // the first coefficients of the experts
		pair  string
		twins bool
	}{
		{"2x(1,2)", [3]float64{-1, 1, 1}, "2 and 3", true},
		{"2x(1,2)", [3]float64{1, 1, -1}, "1 and 2", false},
		{"2x(2,1)", [3]float64{1, 1, -1}, "1 and 2", true},
		{"2x(2,1)", [3]float64{-1, 1, 1}, "2 and 3", false},
		{"3", [3]float64{-1, 1, 1}, "2 and 3", false},
	} {
		shape, err := model.ParseHierarchy(c.shape)
		if err != nil {
			t.Fatal(err)
		}
		_, p, err := load(t.Context(), g.act, src, Config{K: 3, Hierarchy: shape})
		if err != nil {
			t.Fatal(err)
		}
		q := p.Shape.Blank(0.3)
		for i, a := range c.first {
			q.Regressor(i)[0] = a
		}
		m := &fitted.Model{Proportions: []float64{0.4, 0.3, 0.3}}
		m.SetParams(q)
		if err := warnOfTooMany(t.Context(), m, p, &outcome{best: &search.Candidate{Params: q}, joint: true}, []int{0, 1, 2}); err != nil {
			t.Fatal(err)
		}
		if len(m.Fit.Warnings) != 1 || !strings.Contains(m.Fit.Warnings[0], "experts "+c.pair+" are nearly equal") ||
			strings.Contains(m.Fit.Warnings[0], "no gate to estimate between them") != c.twins {
			t.Errorf("%s, %v: %q", c.shape, c.first, m.Fit.Warnings)
		}
	}
}

// TestWarningAtTheEdgeOfARange: of two experts, with ranges of k that end and begin
// at the best, and one that holds it inside.
func TestWarningAtTheEdgeOfARange(t *testing.T) {
	g := groupDesign{act: ident, k: 2, d: 3, n: 600, sigma: 0.2}
	src, _ := g.draw(t, 1)
	for _, c := range []struct {
		from, to int
		want     string // "" for none
	}{
		{1, 2, "k = 2, the largest that was fitted"},
		{2, 3, "k = 2, the smallest that was fitted"},
		{1, 3, ""},
		{2, 2, ""},
	} {
		m, err := FitRange(t.Context(), g.act, src, c.from, c.to, Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		edge := func(w string) bool { return strings.HasPrefix(w, "k = ") }
		at := slices.IndexFunc(m.Fit.Warnings, edge)
		if c.want == "" && at >= 0 || c.want != "" && (at < 0 || !strings.HasPrefix(m.Fit.Warnings[at], c.want)) {
			t.Errorf("k from %d to %d: %q, want %q", c.from, c.to, m.Fit.Warnings, c.want)
		}
	}
}

// TestWarningOfTwoValues: a target of zeros and ones is said to be one, and its fit does not
// pass; one with a third value is not.
func TestWarningOfTwoValues(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	const n = 150
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		x.SetRow(r, []float64{rng.NormFloat64(), rng.NormFloat64()})
		if x.At(r, 0)+rng.NormFloat64() > 0 {
			y[r] = 1
		}
	}
	for _, third := range []bool{false, true} {
		if third {
			y[0] = 0.4
		}
		m, err := Fit(t.Context(), ident, dataset.Matrix(x, y), Config{K: 2, Seed: 1, Intercepts: BothIntercepts})
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(m.Fit.Warnings, func(w string) bool { return strings.HasPrefix(w, "the target takes two values, 0 and 1") })
		if said == third {
			t.Errorf("a third value %v: warnings %q", third, m.Fit.Warnings)
		}
		if c := m.Fit.Certificate; !third && (c == nil || c.Optimum != infer.NotJudged || c.Model != infer.NotJudged) {
			t.Errorf("certificate %+v", c)
		}
	}
}

// TestWarnOfGate: a gate that is a threshold but for two rows beside it is said to separate nearly, with Σ p_1·p_2 of its
// probabilities, written out; one that leaves many rows in doubt is not.
func TestWarnOfGate(t *testing.T) {
	const n = 400
	for name, soft := range map[string]bool{"threshold": false, "soft": true} {
		rng := rand.New(rand.NewPCG(8, 8))
		x, y := mat.NewDense(n, 1, nil), make([]float64, n)
		for r := range y {
			u := 4*(float64(r)+0.5)/n - 2
			second := u > 0 != (r == n/2-1 || r == n/2) // the two beside 0 have changed places
			if soft {
				second = rng.Float64() < 1/(1+math.Exp(-u))
			}
			if y[r] = 3 - u; second {
				y[r] = -3 + u
			}
			y[r] += 0.2 * rng.NormFloat64()
			x.Set(r, 0, u)
		}
		m, err := Fit(t.Context(), activation(identity.Family, nil), dataset.Matrix(x, y), Config{K: 2, Seed: 1, Intercepts: BothIntercepts})
		if err != nil {
			t.Fatal(err)
		}
		doubt := 0.0
		for r := range y {
			z := m.Gating[0][0]*x.At(r, 0) + m.GatingIntercepts[0]
			doubt += 1 / (1 + math.Exp(z)) / (1 + math.Exp(-z))
		}
		if want := !soft; m.Fit.Has(fitted.WarnGate) != want || doubt < 1 != want || len(m.Fit.Separation) > 0 {
			t.Errorf("%s: warnings %q, with %v rows in doubt, separation %v", name, m.Fit.Warnings, doubt, m.Fit.Separation)
		}
		if says := fmt.Sprintf("in all %.2g of the 400 are in doubt", doubt); !soft && !strings.Contains(strings.Join(m.Fit.Warnings, ""), says) {
			t.Errorf("%q, want %q", m.Fit.Warnings, says)
		}
	}
}
