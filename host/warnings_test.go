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
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// TestOneExpertTooMany: of three experts fitted to two, two are offered as one wherever BIC prefers two, and what that
// is said to come to is the fit of two experts. Of two experts they are where BIC prefers one. With -study it counts on
// so many data sets of each kind from -studyfrom on.
func TestOneExpertTooMany(t *testing.T) {
	testslow.Mark(t)
	lines := func(act sdk.Activation) func(seed uint64) (dataset.Source, sdk.Activation, string) {
		return func(seed uint64) (dataset.Source, sdk.Activation, string) {
			g := searchtest.Design{Act: act, K: 2, D: 3, N: 1000, Sigma: 0.3, Intercept: true}
			src, _ := g.Draw(seed)
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
				y[r] = searchtest.Count(mean, rng)
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

// TestWarningAtTheEdgeOfARange: of two experts, with ranges of k that end and begin
// at the best, and one that holds it inside.
func TestWarningAtTheEdgeOfARange(t *testing.T) {
	testslow.Mark(t)
	g := searchtest.Design{Act: ident, K: 2, D: 3, N: 600, Sigma: 0.2}
	src, _ := g.Draw(1)
	for _, c := range []struct {
		from, to int
		want     string // "" for none
	}{
		{1, 2, "k = 2, the largest that was fitted"},
		{2, 3, "k = 2, the smallest that was fitted"},
		{1, 3, ""},
		{2, 2, ""},
	} {
		m, err := FitRange(t.Context(), g.Act, src, c.from, c.to, Config{Seed: 1, Method: Auto{Starts: 2}})
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
		m, err := Fit(t.Context(), ident, dataset.Matrix(x, y), Config{K: 2, Seed: 1, Intercepts: BothIntercepts, Method: Auto{Starts: 2}})
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
