package host

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/search/penalty"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
)

// overfitted is a table of one line to which a range of k is fitted that has k = 2 from k = 3.
func overfitted(t *testing.T) (searchtest.Design, dataset.Source) {
	g := searchtest.Design{Act: ident, K: 1, D: 4, N: 200, Sigma: 0.3, PerExpert: true, Intercept: true}
	src, _ := g.Draw(4)
	return g, src
}

// TestRangeMends: where a fit alone misses an optimum that the fit of one expert more, less one, leads to, the range has it and says so; log-likelihoods
// rise with k.
func TestRangeMends(t *testing.T) {
	testslow.Mark(t)
	g, src := overfitted(t)
	cfg := configOf(g)
	m, err := FitRange(t.Context(), g.Act, src, 1, 3, cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.K = 2
	alone, err := Fit(t.Context(), g.Act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	two := m.Fit.Selection[1]
	if two.Begun == nil || two.Begun.K != 3 || two.Begun.Gain < 1 {
		t.Fatalf("k = 2: %+v", two)
	}
	if gain := two.LogLikelihood - alone.Fit.LogLikelihood; gain < two.Begun.Gain-1e-6 { // what came of it may have gone on
		t.Errorf("k = 2 gains %.6f over its fit alone, want %.6f", gain, two.Begun.Gain)
	}
	if notes := criterion.Falls(m.Fit.Selection); notes != nil {
		t.Errorf("log-likelihoods fall: %v", notes)
	}
}

// TestResumeMended: a range whose k is fitted anew goes on from any of its checkpoints to the same bytes.
func TestResumeMended(t *testing.T) {
	testslow.Mark(t)
	g, src := overfitted(t)
	cfg := configOf(g)
	cfg.Method = Auto{Starts: 8}
	m, kept := Resumed(t, cfg, func(ctx context.Context, cfg Config) (*fitted.Model, error) {
		return FitRange(ctx, g.Act, src, 1, 3, cfg)
	})
	if !slices.ContainsFunc(m.Fit.Selection, func(c fitted.Candidate) bool { return c.Begun != nil && c.Begun.K > c.K }) {
		t.Fatalf("no k was fitted anew: %+v", m.Fit.Selection)
	}
	var c Checkpoint
	if err := json.Unmarshal(kept[len(kept)-1], &c); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(){
		"a fit is missing":  func() { c.Chosen.Models = c.Chosen.Models[1:] },
		"in another order":  func() { c.Chosen.Models[0], c.Chosen.Models[1] = c.Chosen.Models[1], c.Chosen.Models[0] },
		"a model is no one": func() { c.Chosen.Models[0] = nil },
	} {
		c = Checkpoint{}
		if err := json.Unmarshal(kept[len(kept)-1], &c); err != nil {
			t.Fatal(err)
		}
		change()
		cfg.Resume, cfg.Checkpoint = &c, nil
		var refused *checkpoint.Error
		if _, err := FitRange(t.Context(), g.Act, src, 1, 3, cfg); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCrossValidateMends: without each part the fits are those of a range, of which some come of neighbours, and what is told of a k is
// how well these describe the rows of the part.
func TestCrossValidateMends(t *testing.T) {
	testslow.Mark(t)
	g, src := overfitted(t)
	cfg := configOf(g)
	cfg.Method = Auto{Starts: 8}
	const folds, from, to = 2, 1, 3
	held, err := CrossValidate(t.Context(), g.Act, src, from, to, folds, cfg)
	if err != nil {
		t.Fatal(err)
	}
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	table, part := dataset.InMemory(src.Schema(), data), penalty.Folds(data.N, folds, cfg.Seed)
	want, mended := make([]float64, to+1), 0
	for fold := range folds {
		rest := table.Where(func(row int) bool { return part[row] != fold })
		fits, err := everyK(t.Context(), g.Act, rest, from, to, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for k := from; k <= to; k++ {
			if fits[k].Candidate.Begun != nil {
				mended++
			}
			e, err := predict.Evaluate(t.Context(), fits[k].Model.ForNewRows().Params(), g.Act, table.Where(func(row int) bool { return part[row] == fold }))
			if err != nil {
				t.Fatal(err)
			}
			want[k] += e.LogLikelihood
		}
	}
	if mended == 0 {
		t.Error("no fit begins from a neighbour: the table shows nothing")
	}
	for _, h := range held {
		if math.Abs(h.LogLikelihood-want[h.K]) > 1e-9*math.Abs(want[h.K]) { // the order of the sum
			t.Errorf("k = %d: held-out log-likelihood %.9f, want %.9f", h.K, h.LogLikelihood, want[h.K])
		}
	}
}
