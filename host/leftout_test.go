package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/sdk"
)

// TestLeaveOneOutExactly: the gap of fits is that of as many fits as there are rows, to a tenth: of normal experts, of
// weighted rows, of a penalised gate, and of counts.
func TestLeaveOneOutExactly(t *testing.T) {
	testslow.Mark(t)
	for seed := range uint64(4) {
		g := newRowsDesign(60 + seed)
		g.N = min(g.N, 240)
		src, _ := g.Draw(seed)
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		cfg := configOf(g)
		cfg.K, cfg.Seed = g.K, 1
		if seed%2 == 1 {
			cfg.GatePenalty = "0.1"
			for i := range data.Blocks {
				b := &data.Blocks[i]
				b.Role[model.Weights] = make([]float64, b.N)
				for r := range b.N {
					b.Role[model.Weights][r] = float64(1 + r%3)
				}
			}
		}
		checkGap(t, fmt.Sprintf("design %d", seed), g.Act, dataset.InMemory(src.Schema(), data), cfg)
	}
	s, err := sample.New(sample.Config{K: 2, D: 4, N: 200, Seed: 3, Family: "poisson", Activation: activation(exp.Family, nil)})
	if err != nil {
		t.Fatal(err)
	}
	checkGap(t, "counts", activation(exp.Family, nil), s, Config{K: 2, Seed: 1, Family: "poisson", Intercepts: BothIntercepts})
}

func checkGap(t *testing.T, name string, act sdk.Activation, rows dataset.Source, cfg Config) {
	t.Helper()
	m, err := Fit(t.Context(), act, rows, cfg)
	if err != nil {
		t.Fatal(err)
	}
	left := m.LeftOut()
	if left == nil {
		t.Fatalf("%s: no gap; %q", name, m.Fit.Notes)
	}
	_, p, err := load(t.Context(), act, rows, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	lambda := 0.0
	if m.Penalised != nil {
		lambda = m.Penalised.Lambda
	}
	exact, lost, err := searchtest.ExactGap(t.Context(), p, m.ForNewRows().Params(), lambda)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %d rows, %d parameters, gap %.3f, %d rows by fits, exactly %.3f", name, m.Fit.N, left.Parameters, left.Gap, left.Refitted, exact)
	if lost > 0 || math.Abs(left.Gap-exact) > exact/10 {
		t.Errorf("%s: a gap of %.3f, exactly %.3f; %d fits did not converge", name, left.Gap, exact, lost)
	}
}

// newRowsDesign is table seed of the study of what new rows are like: a right model of few rows a parameter.
func newRowsDesign(seed uint64) searchtest.Design {
	rng := rand.New(rand.NewPCG(seed, 3535))
	g := searchtest.Design{Act: []sdk.Activation{ident, tanh, logistic}[rng.IntN(3)], K: 1 + rng.IntN(3), D: 1 + rng.IntN(5)}
	g.Sigma, g.PerExpert, g.Intercept = []float64{.1, .2, .5}[rng.IntN(3)], rng.IntN(2) == 1, rng.IntN(3) > 0
	parameters := (2*g.K - 1) * (g.D + 1)
	g.N = int(float64(parameters) * 6 * math.Exp(rng.Float64()*math.Log(10)))
	return g
}

// TestNewRowsOfRightModels: over -study tables of right models, of few rows a parameter, what leaving out each row says of new
// rows is off by less than half of what the fitted rows are, in the mean a parameter. Tables from 5001 on are for reporting:
//
//	go test ./host -run TestNewRowsOfRightModels -study 400 -studyfrom 5001 -v -timeout 0
func TestNewRowsOfRightModels(t *testing.T) {
	sets := *studySets
	if sets == 0 {
		t.Skip("a study: see docs/heldout.md")
	}
	var fitted1, left1, gaps []float64
	warned := 0
	for seed := *studyFrom; seed < *studyFrom+uint64(sets); seed++ {
		g := newRowsDesign(seed)
		n := g.N
		g.N *= 2
		src, _ := g.Draw(seed)
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		all := dataset.InMemory(src.Schema(), data)
		cfg := configOf(g)
		cfg.K, cfg.Seed = g.K, 1
		m, err := Fit(t.Context(), g.Act, all.Where(func(r int) bool { return r < n }), cfg)
		if err != nil {
			t.Fatal(err)
		}
		left := m.LeftOut()
		if left == nil {
			continue
		}
		e, err := predict.EvaluateModel(t.Context(), m, g.Act, all.Where(func(r int) bool { return r >= n }))
		if err != nil {
			t.Fatal(err)
		}
		parameters := float64(left.Parameters)
		left1 = append(left1, (left.LogLikelihood-e.LogLikelihood)/parameters)
		fitted1 = append(fitted1, (left.LogLikelihood+left.Gap-e.LogLikelihood)/parameters)
		gaps = append(gaps, left.Gap/parameters)
		if slices.Contains(m.Fit.WarningKinds, fitted.WarnNewRows) {
			warned++
			t.Logf("table %d, k = %d, d = %d, n = %d: gap %.1f, %d parameters, new rows %.1f below: %q", seed, g.K, g.D, n, left.Gap,
				left.Parameters, left.LogLikelihood+left.Gap-e.LogLikelihood, m.Fit.Warnings)
		}
	}
	of := func(v []float64) (mean, err float64) {
		mean, sd := stat.MeanStdDev(v, nil)
		return mean, sd / math.Sqrt(float64(len(v)))
	}
	slices.Sort(gaps)
	q := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, gaps, nil) }
	off, offError := of(left1)
	before, beforeError := of(fitted1)
	t.Logf("%d of %d tables; log-likelihood a parameter above that of new rows: left out %.2f ± %.2f, fitted %.2f ± %.2f; gap a parameter "+
		"%.2f in the median, %.2f at .9, %.2f at .99, at most %.2f; %d warned", len(gaps), sets, off, offError, before, beforeError, q(.5),
		q(.9), q(.99), gaps[len(gaps)-1], warned)
	if len(gaps) < sets/2 || !(math.Abs(off) < before/2) {
		t.Errorf("off by %.2f a parameter, where the fitted rows are by %.2f", off, before)
	}
}
