package host

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// TestGrow: the way of growth over criteria that are given, tree by tree. It takes the
// best split of each tree, stops where none is better, merges or joins where that is, and grows on from there.
func TestGrow(t *testing.T) {
	shape := func(text string) model.Hierarchy {
		h, err := model.ParseHierarchy(text)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	for name, c := range map[string]struct {
		most int
		bic  map[string]float64 // of all others: 1000
		want []string           // trees in turn
		best string
	}{
		"nothing to split": {8, map[string]float64{"1": 1}, []string{"1", "2"}, "1"},
		"the better split": {
			8, map[string]float64{"1": 9, "2": 8, "2x(1,2)": 7, "2x2": 5, "2x(1,2x(1,2))": 6},
			[]string{"1", "2", "2x(1,2)", "2x(1,2x(1,2))", "2x2", "2x(2,2x(1,2))", "3x(1,1,2)"}, "2x2",
		},
		"at most three": {3, map[string]float64{"1": 9, "2": 8, "2x(1,2)": 7, "2x2": 5}, []string{"1", "2", "2x(1,2)", "3"}, "2x(1,2)"},
		"joined": {
			4, map[string]float64{"1": 9, "2": 8, "2x(1,2)": 7, "3": 6, "3x(1,1,2)": 5, "4": 4},
			[]string{"1", "2", "2x(1,2)", "2x(1,2x(1,2))", "2x2", "3", "3x(1,1,2)", "4"}, "4",
		},
		"one leaf": {1, map[string]float64{"1": 9, "2": 8}, []string{"1"}, "1"},
		"merged back": {
			6, map[string]float64{"1": 9, "2": 8, "2x(1,2)": 7, "2x2": 6, "2x(2,2x(1,2))": 5, "2x(2,2x2)": 4, "2x(1,2x2)": 3, "2x(1,2x(2,2x(1,2)))": 2},
			[]string{
				"1", "2", "2x(1,2)", "2x(1,2x(1,2))", "2x2", "2x(2,2x(1,2))",
				"2x(2,2x(1,2x(1,2)))", "2x(2,2x2)", "2x2x(1,2)", // splits of the last
				"2x(1,2x2)",                                                                    // a merge of 2x(2,2x2), of which no split has 6 leaves or fewer
				"2x(1,2x(2,2x(1,2)))",                                                          // and the split that follows
				"2x(1,2x(1,2x(1,2)))",                                                          // a merge of that
				"2x(1,2x(2,3))", "2x(1,3x(1,1,2x(1,2)))", "2x(1,3x(1,2,2))", "3x(1,2,2x(1,2))", // joins of it
			}, "2x(1,2x(2,2x(1,2)))",
		},
	} {
		var visited []string
		best := "1"
		bic := func(h string) float64 { return cmp.Or(c.bic[h], 1000) }
		err := grow(c.most, func(h model.Hierarchy, _ fitted.Candidate) error {
			if name := h.String(); !slices.Contains(visited, name) {
				if visited = append(visited, name); bic(name) < bic(best) {
					best = name
				}
			}
			return nil
		}, func() model.Hierarchy { return shape(best) })
		if err != nil || !slices.Equal(visited, c.want) || best != c.best {
			t.Errorf("%s: %v, at %s, error %v; want %v, %s", name, visited, best, err, c.want, c.best)
		}
	}
}

// grown is a data set from a tree for the tests of growth.
func grown(t *testing.T, shape string, family sdk.Family, n, d int, seed uint64) (*sample.Sampler, sdk.Activation) {
	t.Helper()
	h, err := model.ParseHierarchy(shape)
	if err != nil {
		t.Fatal(err)
	}
	act := activation(family, nil)
	s, err := sample.New(sample.Config{Activation: act, Tree: h, K: h.Leaves(), D: d, N: n, Sigma: 0.1, Design: sample.Separated, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	return s, act
}

// TestFitTree: a tree that is grown is that of its hierarchy alone, to the byte; what is
// told of the way agrees with it; it does not depend on the number of threads, and goes on
// from every checkpoint to the same bytes.
func TestFitTree(t *testing.T) {
	testslow.Mark(t)
	ctx := t.Context()
	src, act := grown(t, "2x(2,1)", identity.Family, 600, 3, 4)
	fit := func(ctx context.Context, cfg Config) (*fitted.Model, error) { return FitTree(ctx, act, src, 4, cfg) }
	m, kept := Resumed(t, Config{Seed: 2, Truth: src.Truth}, fit)
	whole, err := m.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if m.Hierarchy != "2x(1,2)" || m.Truth == nil || m.Truth.EReg > 0.01 {
		t.Fatalf("tree %q, against the truth %+v", m.Hierarchy, m.Truth)
	}
	var way []string
	before := fitted.Candidate{}
	for i, c := range m.Fit.Selection {
		way = append(way, strings.TrimRight(fmt.Sprintln(c.Hierarchy, c.Move, c.From, c.Kept), "\n"))
		// A tree has the likelihood of the one that it was split from, at least.
		for _, o := range m.Fit.Selection[:i] {
			if o.Hierarchy == c.From && c.Move == "split" && c.LogLikelihood < o.LogLikelihood-1e-6 {
				t.Errorf("%s: log-likelihood %v, of %s %v", c.Hierarchy, c.LogLikelihood, o.Hierarchy, o.LogLikelihood)
			}
		}
		if c.Kept && i > 0 && !(c.BIC < before.BIC) {
			t.Errorf("%s was kept with BIC %v after %v", c.Hierarchy, c.BIC, before.BIC)
		}
		if c.Kept {
			before = c
		}
	}
	want := []string{"1   true", "2 split 1 true", "2x(1,2) split 2 true", "2x(1,2x(1,2)) split 2x(1,2) false", "2x2 split 2x(1,2) false", "3 join 2x(1,2) false"}
	if !slices.Equal(way, want) {
		t.Errorf("the way %q, want %q", way, want)
	}
	h, perm := src.Truth.Tree.Sorted()
	alone, err := Fit(ctx, act, src, Config{K: 3, Hierarchy: h, Seed: 2, Threads: 1, Truth: src.Truth.Relabel(perm)})
	if err != nil {
		t.Fatal(err)
	}
	alone.Fit.Selection = m.Fit.Selection
	if got, err := alone.JSON(); err != nil || string(got) != string(whole) {
		t.Errorf("alone the tree is another, error %v", err)
	}
	if len(kept) < 5 {
		t.Errorf("%d checkpoints", len(kept))
	}
	other := Config{Seed: 2, Truth: src.Truth, Resume: new(Checkpoint)}
	if err := json.Unmarshal(kept[0], other.Resume); err != nil {
		t.Fatal(err)
	}
	if _, err := FitTree(ctx, act, src, 5, other); err == nil || !strings.Contains(err.Error(), "k was 1:4 and is 1:5") {
		t.Errorf("with another bound: %v", err)
	}
	small, err := FitTree(ctx, act, src, 2, Config{Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(small.Fit.Warnings, func(w string) bool { return strings.HasPrefix(w, "the tree has 2 leaves, as many as it may have") }) {
		t.Errorf("a tree at its bound warns %q", small.Fit.Warnings)
	}
}

// TestFitTreeJoins: experts under one gate are grown under two, which then become one.
func TestFitTreeJoins(t *testing.T) {
	testslow.Mark(t)
	src, act := grown(t, "3", identity.Family, 2000, 3, 2)
	m, err := FitTree(t.Context(), act, src, 3, Config{Seed: 1, Truth: src.Truth})
	if err != nil {
		t.Fatal(err)
	}
	last := m.Fit.Selection[slices.IndexFunc(m.Fit.Selection, func(c fitted.Candidate) bool { return c.Hierarchy == "3" })]
	if h := m.Params().Hierarchy().String(); h != "3" || last.Move != "join" || last.From != "2x(1,2)" || m.Truth == nil || m.Truth.EReg > 0.001 {
		t.Errorf("%s, by %+v, against the truth %+v; want 3, a join of 2x(1,2)", h, last, m.Truth)
	}
}

// TestFitTreeRefuses: what cannot be grown.
func TestFitTreeRefuses(t *testing.T) {
	src, act := grown(t, "2", identity.Family, 50, 2, 1)
	for want, c := range map[string]struct {
		most int
		act  sdk.Activation
		cfg  Config
	}{
		"at most 0 leaves, want 1 or more":               {0, act, Config{}},
		"one activation for all its leaves":              {3, nil, Config{Leaves: []sdk.Activation{act, act}}},
		"hierarchy has no effect on method l2":           {3, act, Config{Method: L2{}}},
		"k = 60 experts for 50 rows; choose a smaller k": {60, act, Config{}},
		"not for a tree":                                 {3, act, Config{Output: SharedScale}},
	} {
		if _, err := FitTree(t.Context(), c.act, src, c.most, c.cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
