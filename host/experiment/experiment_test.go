package experiment

import (
	"encoding/json"
	"flag"
	"reflect"
	"slices"
	"testing"
)

// all runs every figure at quick size, which takes a few minutes:
//
//	go test ./host/experiment -run TestClaims -figures all
var which = flag.String("figures", "", "all: every figure, not only those that take seconds")

// agree says of each figure whether what its source says is seen at quick size.
var agree = map[string]bool{
	"002-2a": true, "002-2b": true, "002-3a": true, "002-3b": true, "002-4": true,
	"000-1a": false, "000-1b": true, "000-1c": true, "000-3a": true, "000-3b": true, "000-3c": true,
	"001-3": false, "001-4": false, "002-B": false,
	"002-T1": true, "002-T2": true, "002-T3": false, "002-T4n": true, "002-T4d": true, "002-L3": true,
	"ray": false, "fixed-table": false, "efficiency-2": true, "efficiency-3": true,
}

// short are the figures that run in every test.
var short = []string{"002-B", "002-T1", "002-L3"}

// TestClaims: seed 1, fixed, so that there are no false alarms; another seed
// may move a figure that rests on few runs.
func TestClaims(t *testing.T) {
	ids := short
	if *which == "all" {
		ids = nil
	}
	figures, err := Find(ids, true)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := Run(t.Context(), figures, Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range outcomes {
		t.Logf("%s: %s: %s", o.ID, o.Verdict.Measured, o.Verdict.Sentence())
		if want, known := agree[o.ID]; !known || o.Verdict.Agrees != want {
			t.Errorf("%s: %s; %s", o.ID, o.Verdict.Measured, o.Verdict.Sentence())
		}
		if !o.Verdict.Agrees && o.Verdict.Because == "" {
			t.Errorf("%s does not agree and does not say why", o.ID)
		}
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
