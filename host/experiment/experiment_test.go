package experiment

import (
	"context"
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	_ "github.com/gatedlearning/moe/internal/testheap"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestL4NeedsItsTransforms: with those of another activation, with the wrong
// sign of c4, or where nothing holds the rows of A at T2 = 1, the settings with
// which L4 recovers the regressors do not.
func TestL4NeedsItsTransforms(t *testing.T) {
	testslow.Mark(t)
	relu, err := paper("relu", 2).open(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		spoil func(*study, *descent)
		want  bool
	}{
		{"as it is", func(*study, *descent) {}, true},
		{"transforms of ReLU", func(s *study, _ *descent) { s.out = relu.out }, false},
		{"sign of c4", func(s *study, _ *descent) { s.out.C4 *= -1 }, false},
		{"λ = 0", func(_ *study, how *descent) { how.lambda = 0 }, false},
	} {
		for run := range uint64(2) {
			s, err := paper("identity", 2).open(t.Context(), 40+run, 1)
			if err != nil {
				t.Fatal(err)
			}
			how := l4Descent(2000)
			c.spoil(s, &how)
			p, curve, err := s.l4(t.Context(), s.sampler.Batches(how.batch), how)
			if err != nil {
				t.Fatal(err)
			}
			if got := curve.status == "" && s.ereg(p) <= recovered; got != c.want {
				t.Errorf("%s, run %d: ends with E_reg %.3g %s, want recovered = %v", c.name, run, s.ereg(p), curve.status, c.want)
			}
		}
	}
}

// TestNotFinite: a unit that gives a number that is not finite ends the run,
// and says where.
func TestNotFinite(t *testing.T) {
	f := &Figure{ID: "bad", judge: func(*Outcome) Verdict { return Verdict{} }, units: []unit{{key: "bad", run: func(context.Context, uint64) (*output, error) {
		out := new(output)
		out.add("", "series", 3, &trace{x: []float64{1}, y: []float64{math.NaN()}})
		return out, nil
	}}}}
	if _, err := Run(t.Context(), []*Figure{f}, Options{}); err == nil || !strings.Contains(err.Error(), "series, run 3") {
		t.Errorf("error %v, want one that names the series and the run", err)
	}
}

// TestFigures: every figure says what it is, in both sizes.
func TestFigures(t *testing.T) {
	for _, quick := range []bool{true, false} {
		var ids []string
		for _, f := range Figures(quick) {
			if slices.Contains(ids, f.ID) {
				t.Errorf("figure %s is there twice", f.ID)
			}
			ids = append(ids, f.ID)
			if _, ok := costs[f.ID]; !ok {
				t.Errorf("figure %s is not among the costs", f.ID)
			}
			if f.Title == "" || f.Source == "" || f.Claim == "" || f.Settings == "" || len(f.units) == 0 {
				t.Errorf("figure %s lacks title, source, claim, settings or units", f.ID)
			}
		}
	}
	if _, err := Find([]string{"002-2a", "no-such"}, true); err == nil {
		t.Error("an unknown figure is found")
	}
}

// TestSameResults: at any number of threads, and from the store or not.
func TestSameResults(t *testing.T) {
	testslow.Mark(t)
	figures, err := Find([]string{"002-L3", "002-B"}, true)
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	var want []*Outcome
	for _, o := range []Options{{Seed: 3, Threads: 1}, {Seed: 3, Threads: 3, Store: store}, {Seed: 3, Threads: 2, Store: store}} {
		got, err := Run(t.Context(), figures, o)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		for i := range got {
			a, _ := json.Marshal(got[i].Curves)
			b, _ := json.Marshal(want[i].Curves)
			if string(a) != string(b) || !reflect.DeepEqual(got[i].Rows, want[i].Rows) || got[i].Verdict != want[i].Verdict {
				t.Errorf("%s differs with %+v", got[i].ID, o)
			}
		}
	}
}
