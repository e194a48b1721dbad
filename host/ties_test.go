package host

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestTies: where half of the targets coincide, the likelihood of noise per expert has no end. With a floor that is given an
// expert stands there, in the maximum and in the model for new rows, the fit has converged and says so, σ there has no standard error
// and the other one has; without, the fit has not converged and has no model for new rows, or every σ is .002 of the target's
// standard deviation at least. Rows beside the ties have a likelihood.
func TestTies(t *testing.T) {
	testslow.Mark(t)
	const n, d, floor = 200, 2, 0.01
	rng := rand.New(rand.NewPCG(4, 19))
	b := model.Block{N: n, X: make([]float64, n*d), Y: make([]float64, n)}
	beside := model.Block{N: n, X: b.X, Y: make([]float64, n)}
	for r := range n {
		b.X[r], b.X[n+r] = rng.NormFloat64(), rng.NormFloat64()
		if b.Y[r] = 2 + b.X[r] + 0.3*rng.NormFloat64(); rng.Float64() < (1+math.Tanh(b.X[r]))/2 {
			b.Y[r] = 0
		}
		beside.Y[r] = b.Y[r] + floor*rng.NormFloat64()
	}
	schema := dataset.Schema{Name: "ties", Target: "y", Features: []string{"x", "z"}}
	table := func(b model.Block) dataset.Loaded {
		return dataset.InMemory(schema, &model.Data{N: n, D: d, Blocks: []model.Block{b}})
	}
	act := activation(identity.Family, nil)
	fit := func(noise PerExpert, c Config) (*fitted.Model, error) {
		c.K, c.Intercepts, c.Noise = 2, BothIntercepts, noise
		return Fit(t.Context(), act, table(b), c)
	}
	for _, c := range []Config{{}, {ExpertRidge: "1"}, {ExpertLasso: "5", GatePenalty: "1"}} {
		m, err := fit(PerExpert{Least: floor}, c)
		if err != nil {
			t.Fatal(err)
		}
		view := m.ForNewRows()
		for _, of := range []*fitted.Model{m, view} {
			at := slices.IndexFunc(of.Sigma, func(v float64) bool { return math.Abs(v/floor-1) <= 1e-9 })
			if !m.Fit.Converged || at < 0 || !(math.Abs(of.Sigma[1-at]-0.3) <= 0.1) || !(math.Abs(of.RegressorIntercepts[at]) <= floor) ||
				of.StandardErrors == nil || of.StandardErrors.Sigma[at] != 0 || !(of.StandardErrors.Sigma[1-at] > 0) {
				t.Errorf("%v: %s, sigma %v, intercepts %v, errors %+v", c.ExpertRidge+c.ExpertLasso, m.Fit.Status, of.Sigma, of.RegressorIntercepts, of.StandardErrors)
			}
		}
		if (m.Penalised != nil) != (onExperts(c) != "") {
			t.Errorf("%v: penalised %v", c.ExpertRidge+c.ExpertLasso, m.Penalised)
		}
		if !slices.ContainsFunc(m.Fit.Notes, func(s string) bool { return strings.Contains(s, "stands at its floor of 0.01") }) {
			t.Errorf("notes %q", m.Fit.Notes)
		}
		if held := heldOutBy(t, m, "", table(beside)); !(held >= m.Fit.LogLikelihood-n) {
			t.Errorf("rows beside the ties have a log-likelihood of %v", held)
		}
		m, err = fit(PerExpert{}, c)
		if err != nil {
			t.Fatal(err)
		}
		least := 0.002 * stat.PopStdDev(b.Y, nil)
		if is := m.Fit.Status == result.Shrunk; is && (m.Penalised != nil || m.Fit.Converged) || !is && slices.Min(m.ForNewRows().Sigma) < least {
			t.Errorf("without a floor: %s, sigma %v, penalised %v", m.Fit.Status, m.ForNewRows().Sigma, m.Penalised)
		}
	}
	for _, noise := range []PerExpert{{Least: -1}, {Least: math.Inf(1)}, {Least: math.NaN()}, {Least: 0.1, Sigma: 0.2}} {
		if _, err := fit(noise, Config{}); err == nil {
			t.Errorf("%+v is taken", noise)
		}
	}
	if _, err := fit(PerExpert{Least: 0.1}, Config{Family: "poisson"}); err == nil {
		t.Error("counts have a floor")
	}
}
