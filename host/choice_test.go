package host

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/sdk"
)

// TestChoose: a range is chosen from by ICL, and by what crossvalidation says, which is in the table then.
func TestChoose(t *testing.T) {
	testslow.Mark(t)
	g := searchtest.Design{Act: ident, K: 2, D: 2, N: 150, Sigma: .3, Intercept: true}
	src, _ := g.Draw(3)
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	rows, cfg := dataset.InMemory(src.Schema(), data), configOf(g)
	cfg.Seed, cfg.Method = 1, EM{Starts: 2}
	held, err := CrossValidate(t.Context(), g.Act, rows, 1, 3, 10, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append(Choices(), "") {
		cfg.Choose = c
		m, err := FitRange(t.Context(), g.Act, rows, 1, 3, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if want := map[Choice]string{ByICL: "icl", ByHeldOut: "heldout", BySet: "set"}[c]; m.Fit.ChosenBy != want || m.K != 2 {
			t.Errorf("%q: k = %d chosen by %q", c, m.K, m.Fit.ChosenBy)
		}
		for i, s := range m.Fit.Selection {
			switch {
			case c == ByHeldOut && s.HeldOut == nil: // it was left, and the fit says so
				note := fmt.Sprintf("crossvalidation: k = %d was left after", s.K)
				if s.K == 2 || !slices.ContainsFunc(m.Fit.Notes, func(n string) bool { return strings.HasPrefix(n, note) }) {
					t.Errorf("k = %d: no held-out likelihood; notes %q", s.K, m.Fit.Notes)
				}
			case s.HeldOut != nil && c != ByHeldOut:
				t.Errorf("%q, k = %d: held out %v", c, s.K, s.HeldOut)
			case s.HeldOut != nil && math.Abs(*s.HeldOut-held[i].Judged()) > 1e-9:
				t.Errorf("k = %d: %v held out, want %v", s.K, *s.HeldOut, held[i].Judged())
			}
		}
	}
	cfg.Choose = "aic"
	if _, err := FitRange(t.Context(), g.Act, rows, 1, 3, cfg); err == nil {
		t.Error("a choice by aic")
	}
}

// TestFewRows: of 20 rows near a line BIC has three experts, and corrected for so few rows one, which the file says; of
// counts there is no noise to estimate, and nothing is corrected.
func TestFewRows(t *testing.T) {
	testslow.Mark(t)
	x, y, counts := make([]float64, 20), make([]float64, 20), make([]float64, 20)
	for i := range x {
		r := float64(i + 1)
		x[i] = 2 * math.Sin(r*r)
		y[i] = 1 + x[i] + .3*math.Sin(r*r*r)
		counts[i] = math.Round(math.Exp(y[i]))
	}
	for _, c := range []struct {
		by           Choice
		family, said string
		k            int
	}{{"", "", "bicc", 1}, {ByBIC, "", "", 3}, {"", "poisson", "", 0}} {
		act, targets := sdk.Activation(ident), y
		if c.family != "" {
			act, targets = exponential, counts
		}
		cfg := Config{Family: c.family, Intercepts: BothIntercepts, Choose: c.by, Seed: 1}
		m, err := FitRange(t.Context(), act, dataset.Matrix(mat.NewDense(20, 1, x), targets), 1, 3, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if m.Fit.ChosenBy != c.said || c.k > 0 && m.K != c.k {
			t.Errorf("by %q, family %q: k = %d chosen by %q, want %d by %q", c.by, c.family, m.K, m.Fit.ChosenBy, c.k, c.said)
		}
		for _, s := range m.Fit.Selection {
			if (s.BICc != nil) != (c.said != "") {
				t.Errorf("by %q, family %q: k = %d has a corrected BIC: %v", c.by, c.family, s.K, s.BICc)
			}
		}
	}
}
