package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

// crowded is a model of 10 features and 3 experts of which everything is to be said.
func crowded() *fitted.Model {
	const d, k = 10, 3
	matrix := func(rows int) (out [][]float64) {
		for i := range rows {
			out = append(out, make([]float64, d))
			for j := range d {
				out[i][j] = float64(i) - 0.1*float64(j)
			}
		}
		return out
	}
	m := &fitted.Model{
		Activation: stated.Activation{Name: "identity"}, D: d, K: k, Target: "y",
		Regressors: matrix(k), Gating: matrix(k - 1), RegressorIntercepts: []float64{1, 2, 3}, GatingIntercepts: []float64{1, 2},
		Sigma: fitted.Sigma{1, 2, 3}, Proportions: []float64{0.5, 0.3, 0.2},
		StandardErrors: &fitted.StandardErrors{Kind: "observed", Regressors: matrix(k), Gating: matrix(k - 1),
			RegressorIntercepts: []float64{1, 2, 3}, GatingIntercepts: []float64{1, 2}, Sigma: fitted.Sigma{0.1, 0.2, 0.3}},
		Fit: fitted.Fit{
			Method: "auto", N: 500, Dropped: 3, LogLikelihood: -700, Converged: true, Status: "gradient", Notes: []string{"a note", "another"},
			Certificate: &fitted.Certificate{
				Optimum: "suspect", Model: "suspect", PValue: 1e-9, Reason: "only 1 of 184 starts reached it, and tests of the model fail; better ones are likely",
				OptimumTry: "--starts 1000", Cause: "k too small", Try: "--k 4",
				Tests:   []fitted.CertificateTest{{Name: "residuals", Statistic: 69.1, DF: 5, PValue: 1e-9, Verdict: "suspect"}},
				NotMade: []fitted.TestNotMade{{Name: "dependence", Why: "rows are sorted"}},
			},
			Survey:     &fitted.Survey{Starts: 184, Kinds: []string{"random"}, Moves: 20, Optima: 9, Met: 1, Singles: 3, Unseen: 0.02},
			Separation: []fitted.Separation{{Above: []int{1}, Below: []int{2}, Coefficients: make([]float64, d), Margin: 0.1}},
		},
		Truth: &fitted.Recovery{EReg: 0.1, EGating: 0.2},
	}
	for j := range d {
		m.Features = append(m.Features, fmt.Sprintf("x%d", j+1))
	}
	for n := range 4 {
		m.Fit.Selection = append(m.Fit.Selection, fitted.Candidate{K: n + 1, BIC: 1500 - float64(n), Converged: true})
	}
	m.Fit.Warn(fitted.WarnLargerK, "k = 3, the largest that was fitted, has the least BIC: a larger k may have less")
	m.Fit.Warn(fitted.WarnErrors, "no standard errors: the information is singular")
	m.Fit.Warn(fitted.WarnTooMany, "k may be too large: expert 3 has 9 rows for 11 coefficients")
	m.Fit.Warn(fitted.WarnRange, "most of the target is out of reach")
	m.Fit.Warn(fitted.WarnTooMany, "k may be too large: experts 1 and 2 are nearly equal")
	return m
}

// TestScreenFits: the screen of 10 features and 3 experts, of which there is everything to be said, has 40 lines at most; the
// weightiest warnings are on it, none that another contradicts, and what it leaves out is counted.
func TestScreenFits(t *testing.T) {
	m := crowded()
	var out bytes.Buffer
	if err := Screen(&out, m, "model.json", false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if lines := strings.Count(text, "\n"); lines > 40 {
		t.Errorf("%d lines:\n%s", lines, text)
	}
	var warnings []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Warning: ") {
			warnings = append(warnings, strings.TrimSpace(line))
		}
	}
	if len(warnings) != 3 || !strings.Contains(warnings[0], "out of reach") || !strings.Contains(warnings[1], "expert 3") || !strings.Contains(warnings[2], "separates") {
		t.Errorf("warnings %q", warnings)
	}
	for _, want := range []string{
		"Optimum: suspect; only 1 of 184 starts reached it, and tests of the model fail; better ones are likely; try --starts 1000.\n",
		"(suspect below 0.001)", "(3 left out for missing cells)", "1497.00 for 4", "1498.00 for 3 (chosen)",
		"\n5 more: moe explain model.json\n", // five warnings, two notes and a boundary, less the three that are shown
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, not := range []string{"larger k may", "k too small", "--k 4", "Survey", "chi-squared"} {
		if strings.Contains(text, not) {
			t.Errorf("%q in\n%s", not, text)
		}
	}
	other := crowded()
	other.Fit.Certificate.Cause, other.Fit.Certificate.Try = "another gate, or k too small", "--formula 'y ~ . | .^2'"
	out.Reset()
	if err := Screen(&out, other, "", false); err != nil {
		t.Fatal(err)
	}
	if want := "which suggests another gate; try --formula"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out.String())
	}
	out.Reset()
	if err := Explain(&out, m); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"larger k may", "k too small", "Survey", "chi-squared", "a note", "The gate separates", "out of reach"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
