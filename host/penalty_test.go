package host

import (
	"bytes"
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

// heldOutBy is the log-likelihood of rows by one of a file's models.
func heldOutBy(t *testing.T, m *fitted.Model, which fitted.Which, rows dataset.Source) float64 {
	t.Helper()
	of, err := m.Of(which)
	if err != nil {
		t.Fatal(err)
	}
	e, err := predict.EvaluateModel(t.Context(), of, activation(identity.Family, nil), rows)
	if err != nil {
		t.Fatal(err)
	}
	return e.LogLikelihood
}

// TestPenalisedGate: on nested pieces, where the gate of four experts separates, new rows are as likely by the penalised model
// as by the tree that made them, less 30, where by the maximum they are hundreds less. All that is of the maximum is as
// it is without the penalised model. That is where the gradient of the penalised likelihood is 0, by sums of its own,
// with standard errors of everything.
func TestPenalisedGate(t *testing.T) {
	testslow.Mark(t)
	if testing.Short() {
		t.Skip("three fits")
	}
	act, train, test := activation(identity.Family, nil), searchtest.NestedPieces(1, 1500), searchtest.NestedPieces(2, 1500)
	cfg := Config{K: 4, Intercepts: BothIntercepts, Seed: 1}
	m, err := Fit(t.Context(), act, train, cfg)
	if err != nil {
		t.Fatal(err)
	}
	none := cfg
	none.GatePenalty = NoPenalty
	alone, err := Fit(t.Context(), act, train, none)
	if err != nil {
		t.Fatal(err)
	}
	tree := cfg
	tree.Hierarchy = model.Hierarchy{Branches: []model.Hierarchy{model.FlatHierarchy(2), model.FlatHierarchy(2)}}
	grown, err := Fit(t.Context(), act, train, tree)
	if err != nil {
		t.Fatal(err)
	}
	held, maximum, nested := heldOutBy(t, m, "", test), heldOutBy(t, m, fitted.Maximum, test),
		heldOutBy(t, grown, fitted.Maximum, test)
	t.Logf("held out: penalised %.1f, maximum %.1f, the tree's maximum %.1f; lambda %g", held, maximum, nested, m.Penalised.Lambda)
	if !(held >= nested-30) || !(held > maximum+20) {
		t.Errorf("held out %.1f by the penalised model, %.1f by the maximum, %.1f by the tree", held, maximum, nested)
	}

	s := m.Penalised
	if s.Folds == 0 || s.LogLikelihood >= m.Fit.LogLikelihood || len(m.Fit.Separation) == 0 {
		t.Errorf("folds %d, log-likelihood %v, that of the maximum %v", s.Folds, s.LogLikelihood, m.Fit.LogLikelihood)
	}
	bare := *m
	bare.Penalised = nil
	got, err := bare.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := alone.JSON(); alone.Penalised != nil || !bytes.Equal(got, want) {
		t.Error("what is of the maximum is not as without the penalised model")
	}
	used := m.ForNewRows()
	for i, name := range used.Covariance.Parameters {
		if v := used.Covariance.Matrix[i][i]; !(v > 0) {
			t.Errorf("variance of %s: %v", name, v)
		}
	}
	for _, row := range used.StandardErrors.Gating {
		for _, se := range row {
			if !(se > 0) || math.IsInf(se, 0) {
				t.Errorf("standard error %v of the gate", se)
			}
		}
	}
	if used.StandardErrors.Kind != fitted.KindPenalised {
		t.Errorf("standard errors of kind %q", used.StandardErrors.Kind)
	}

	// The gradient of ℓ − λ·Σ(w − w̄)², in the features' standard deviations, relative to what its terms are.
	p, err := problem.Load(t.Context(), train, act, problem.Request{K: 4, Intercepts: BothIntercepts})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	q := p.Units.Into(used.Params())
	l := loss.NewLikelihood(p.Given, p.G, q, loss.All, 1)
	grad := make([]float64, l.Dim())
	if _, err := l.Grad(t.Context(), grad, l.Theta(q)); err != nil {
		t.Fatal(err)
	}
	for j := range 2 {
		mean := (q.Gate(0)[j] + q.Gate(1)[j] + q.Gate(2)[j]) / 4
		for at, of := range l.Parameters() {
			if of.Part != model.Gate || of.Feature != j {
				continue
			}
			score, pull := -float64(p.N())*grad[at], 2*s.Lambda*(q.Gate(of.Index)[j]-mean)
			if !(math.Abs(score-pull) <= 1e-4) { // a step of Newton's would gain 1e-12 of the mean
				t.Errorf("gate %d of feature %d: score %v, the ridge pulls by %v", of.Index, j, score, pull)
			}
		}
	}
}

// TestGatePenaltyAsked: where no gate separates there is a penalised model where it is asked for, with the ridge that
// was given, and none else; two arrangements for new rows, constant gates and other words are refused. A tree has one too.
func TestGatePenaltyAsked(t *testing.T) {
	act, src, _ := cell{family: identity.Family, k: 2, d: 3, n: 300, sigma: 0.3}.draw(t, 1)
	fit := func(c Config) (*fitted.Model, error) {
		c.Intercepts, c.Seed = BothIntercepts, 1
		if c.Hierarchy.Depth() < 2 {
			c.K = 2
		}
		return Fit(t.Context(), act, src, c)
	}
	tree := model.Hierarchy{Branches: []model.Hierarchy{{}, model.FlatHierarchy(2)}}
	for _, c := range []struct {
		cfg  Config
		want float64 // λ; 0: no penalised model, below 0: any
	}{
		{Config{}, 0}, {Config{GatePenalty: NoPenalty}, 0}, {Config{GatePenalty: AutoPenalty}, -1},
		{Config{GatePenalty: "3"}, 3}, {Config{GatePenalty: "0.03", Method: EM{Starts: 2}}, 0.03},
		{Config{GatePenalty: "0.3", K: 3, Hierarchy: tree}, 0.3}, {Config{GatePenalty: "0.1", Errors: []ErrorKind{Robust}}, 0.1},
		{Config{GatePenalty: "1e-7", Noise: PerExpert{}}, 1e-7},
	} {
		m, err := fit(c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		switch s := m.Penalised; {
		case (s != nil) != (c.want != 0):
			t.Errorf("%q: a penalised model %v", c.cfg.GatePenalty, s != nil)
		case s != nil && (c.want > 0 && s.Lambda != c.want || s.StandardErrors == nil || s.LogLikelihood > m.Fit.LogLikelihood+1e-6):
			t.Errorf("%q: %+v", c.cfg.GatePenalty, s)
		}
	}
	for _, c := range []Config{
		{GatePenalty: "-1"}, {GatePenalty: "0"}, {GatePenalty: "NaN"}, {GatePenalty: "Inf"}, {GatePenalty: "some"},
		{GatePenalty: AutoPenalty, Gate: Constant{}}, {GatePenalty: AutoPenalty, Arrangements: true},
		{GatePenalty: AutoPenalty, Method: Moments{}},
	} {
		if m, err := fit(c); err == nil {
			t.Errorf("%+v: %v", c, m.Penalised)
		}
	}
}
