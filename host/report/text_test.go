package report

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestText(t *testing.T) {
	plain := &fitted.Model{
		Activation: stated.Activation{Name: "leakyrelu", Params: map[string]float64{"slope": 0.1}},
		D:          3, K: 2, Features: []string{"x1", "income (€)", "line\nbreak"}, Target: "y",
		Regressors:  [][]float64{{1, -0.00001, 0.25}, {-12.5, 1.5e7, 0}},
		Gating:      [][]float64{{0.5, -1, 2}},
		Sigma:       fitted.Sigma{0.0500312},
		Proportions: []float64{0.25, 0.75},
		Fit: fitted.Fit{
			Method: "auto", N: 1234, LogLikelihood: -1234.5678, BIC: 2500.123, AIC: 2490.1, Converged: true, Status: "gradient",
			Starts: []fitted.Start{{Kind: "moments", LogLikelihood: -1234.5678, Converged: true, Agrees: true, Rows: 2048}, {Kind: "random", LogLikelihood: -9999.1, Rows: 2048}},
			Notes:  []string{"d = 3 is not above 2k − 1 = 3: moments were not used"},
		},
		Truth: &fitted.Recovery{EReg: 3.25e-6, EGating: 0.0123},
	}
	per := *plain
	per.Sigma = fitted.Sigma{0.05, 0.5}
	per.RegressorIntercepts, per.GatingIntercepts = []float64{1, 2}, []float64{-3}
	per.Fit.Converged, per.Fit.Status = false, "iteration limit"
	per.Fit.Starts, per.Fit.Notes, per.Truth = nil, nil, nil
	errors := per
	errors.StandardErrors = &fitted.StandardErrors{
		Kind: "robust", Regressors: [][]float64{{0.01, 0.00002, 0}, {1.234, 5e5, 0.0351}}, Gating: [][]float64{{0.1, 0.25, 123}},
		RegressorIntercepts: []float64{0.1, 0.2}, GatingIntercepts: []float64{0.3}, Sigma: fitted.Sigma{0.001, 0.02},
	}
	per.Fit.Warnings = []string{"k may be too large: expert 2 has 9 rows for 4 coefficients"}
	per.Fit.Certificate = &fitted.Certificate{
		Optimum: "suspect", Model: "suspect", PValue: 1.25e-9, Reason: "the tests fail and 2 of 32 starts agree on it", Cause: "k too small",
		Tests: []fitted.CertificateTest{
			{Name: "residuals", Statistic: 69.1, DF: 5, PValue: 1.25e-10, Verdict: "suspect", Cause: "k too small"},
			{Name: "gate", Statistic: 2.3, DF: 4, PValue: 0.68, Verdict: "pass"},
		},
		Untested: []fitted.UntestedExpert{{Expert: 2, Rows: 5.4, Coefficients: 4}},
	}
	one := *plain
	one.StandardErrors = &fitted.StandardErrors{Kind: "observed", Regressors: [][]float64{{0.01, 0.00002, 0.3}}, Sigma: fitted.Sigma{0.00123}, SigmaCorrected: fitted.Sigma{0.05071}, SigmaInterval: [][]float64{{0.04912, 0.05234}}}
	one.K, one.Regressors, one.Gating, one.Proportions = 1, one.Regressors[:1], nil, []float64{1}
	many := one
	many.StandardErrors = nil
	many.D, many.Features, many.Regressors = 45, nil, [][]float64{make([]float64, 45)}
	for j := range many.D {
		many.Features = append(many.Features, fmt.Sprintf("x%d", j+1))
	}
	for name, m := range map[string]*fitted.Model{"plain": plain, "per-expert": &per, "errors": &errors, "one": &one, "many": &many} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Text(&got, m, false); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLargestFirst: of more features than fit, the last among them being the only
// ones that matter, those are shown, by their t and not by their size; all of them
// are shown in the file's order.
func TestLargestFirst(t *testing.T) {
	const d = 50
	m := &fitted.Model{K: 1, D: d, Regressors: [][]float64{make([]float64, d)}, Proportions: []float64{1}, Sigma: fitted.Sigma{1},
		StandardErrors: &fitted.StandardErrors{Regressors: [][]float64{make([]float64, d)}, Gating: [][]float64{}}}
	for j := range d {
		m.Features = append(m.Features, fmt.Sprintf("x%d", j+1))
		m.Regressors[0][j], m.StandardErrors.Regressors[0][j] = 100, 100 // t = 1
	}
	m.Regressors[0][49], m.StandardErrors.Regressors[0][49] = 0.5, 0.01 // 50
	m.Regressors[0][47], m.StandardErrors.Regressors[0][47] = -3, 0.1   // −30
	table := Experts(m, MaxFeatures)
	if a, b, last := table[2][0], table[3][0], table[len(table)-1][0]; a != "x50" || b != "x48" || last != "… 10 features more in the model file, of smaller |t|" {
		t.Errorf("first %s and %s, last %q", a, b, last)
	}
	if table := Experts(m, d); len(table) != 2+d || table[2][0] != "x1" {
		t.Errorf("%d rows, the first %s", len(table), table[2][0])
	}
}

// TestPlausible: the numbers of experts that the data leave, in a line.
func TestPlausible(t *testing.T) {
	for want, f := range map[string]fitted.Fit{
		"": {},
		"How many: at least 2 experts, with 95% confidence; the data leave k = 2 alone.": {
			AtLeast: &fitted.AtLeast{K: 2, Level: 0.95}, KSet: []int{2}},
		"How many: the data leave k = 2, 3 and 5.": {KSet: []int{2, 3, 5}},
	} {
		if got := Plausible(&fitted.Model{Fit: f}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
