package host

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/criterion"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/search/penalty"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// overfitted is a table of one line to which a range of k is fitted that has k = 2 from k = 3.
func overfitted(t *testing.T) (groupDesign, dataset.Source) {
	g := groupDesign{act: ident, k: 1, d: 4, n: 200, sigma: 0.3, perExpert: true, intercept: true}
	src, _ := g.draw(t, 4)
	return g, src
}

// TestRangeMends: where a fit alone misses an optimum that the fit of one expert more, less one, leads to, the range has it and says so; log-likelihoods
// rise with k.
func TestRangeMends(t *testing.T) {
	testslow.Mark(t)
	g, src := overfitted(t)
	cfg := g.config()
	m, err := FitRange(t.Context(), g.act, src, 1, 3, cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.K = 2
	alone, err := Fit(t.Context(), g.act, src, cfg)
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
	cfg := g.config()
	cfg.Method = Auto{Starts: 8}
	m, kept := Resumed(t, cfg, func(ctx context.Context, cfg Config) (*fitted.Model, error) {
		return FitRange(ctx, g.act, src, 1, 3, cfg)
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
		if _, err := FitRange(t.Context(), g.act, src, 1, 3, cfg); !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// rangeSets are tables of the study of ranges, from the first of them on:
//
//	go test ./host -run TestRangeStudy -rangesets 40 -v -timeout 0
var (
	rangeSets = flag.Uint64("rangesets", 0, "tables of the study of ranges of k")
	rangeFrom = flag.Uint64("rangefrom", 1, "the first of them")
)

// TestRangeStudy fits k = 1 to 5 to tables of one to three experts, half of them with hard cells, and counts the fits that came of another
// k, what that gained, and where log-likelihoods fall.
func TestRangeStudy(t *testing.T) {
	if *rangeSets == 0 {
		t.Skip("a study of minutes; see its flags")
	}
	by, fits, falls, largest := map[string]int{}, 0, 0, 0.0
	for seed := *rangeFrom; seed < *rangeFrom+*rangeSets; seed++ {
		rng := rand.New(rand.NewPCG(seed, 141))
		act := []sdk.Activation{ident, ident, rectify, tanh}[rng.IntN(4)]
		g := groupDesign{act: act, k: 1 + rng.IntN(3), d: 1 + rng.IntN(4), n: 200 << rng.IntN(4), sigma: []float64{.1, .3, .5}[rng.IntN(3)], intercept: true, perExpert: rng.IntN(3) == 0}
		g.cells = []string{"", "argmax"}[rng.IntN(2)]
		src, _ := g.draw(t, seed)
		m, err := FitRange(t.Context(), g.act, src, 1, 5, g.config())
		if err != nil {
			t.Fatal(err)
		}
		all := m.Fit.Selection
		falls += len(criterion.Falls(all))
		for _, c := range all {
			fits++
			if b := c.Begun; b != nil {
				way := "from k − 1"
				if b.K > c.K {
					way = "from k + 1"
				}
				by[way]++
				if b.Gain > 0.5 {
					by[way+", by more than .5"]++
				}
				largest = max(largest, b.Gain)
				t.Logf("table %d, %s k=%d d=%d n=%d, k = %d: %v", seed, act.Info().Name, g.k, g.d, g.n, c.K, b)
			}
		}
	}
	t.Logf("%d fits, %v, at most by %.1f; %d fall", fits, by, largest, falls)
}

// TestCrossValidateMends: without each part the fits are those of a range, of which some come of neighbours, and what is told of a k is
// how well these describe the rows of the part.
func TestCrossValidateMends(t *testing.T) {
	testslow.Mark(t)
	g, src := overfitted(t)
	cfg := g.config()
	cfg.Method = Auto{Starts: 8}
	const folds, from, to = 2, 1, 3
	held, err := CrossValidate(t.Context(), g.act, src, from, to, folds, cfg)
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
		fits, err := everyK(t.Context(), g.act, rest, from, to, cfg)
		if err != nil {
			t.Fatal(err)
		}
		for k := from; k <= to; k++ {
			if fits[k].Candidate.Begun != nil {
				mended++
			}
			e, err := predict.Evaluate(t.Context(), fits[k].Model.ForNewRows().Params(), g.act, table.Where(func(row int) bool { return part[row] == fold }))
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
