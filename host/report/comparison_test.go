package report_test

import (
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/compare"
	"github.com/gatedlearning/moe/host/report"
)

// TestRatioSpeaksByItsP: a likelihood ratio speaks against the smaller model below 1 in 20, and else does not.
func TestRatioSpeaksByItsP(t *testing.T) {
	for p, want := range map[float64]string{
		8.9e-12: "The other contains small.json: the likelihood ratio speaks against it with p = 8.9e-12 (chi-squared 3.1, 4 degrees of freedom).\n",
		0.049:   "The other contains small.json: the likelihood ratio speaks against it with p = 0.049 (",
		0.05:    "The other contains small.json: the likelihood ratio does not speak against it at level 0.05: p = 0.05 (",
		0.55:    "the likelihood ratio does not speak against it at level 0.05: p = 0.55 (chi-squared 3.1, 4 degrees of freedom).\n",
		1:       "the likelihood ratio does not speak against it at level 0.05: p = 1 (",
	} {
		c := &compare.Comparison{Rows: 400, A: compare.Compared{Model: "small.json"}, B: compare.Compared{Model: "large.json"},
			Nested: &compare.NestedTest{Smaller: "a", Statistic: 3.1, DF: 4, PValue: p}}
		m := &fitted.Model{Target: "y"}
		var out strings.Builder
		if err := report.Comparison(&out, c, m, m); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("p = %v: %s\nwant %q", p, out.String(), want)
		}
	}
}
