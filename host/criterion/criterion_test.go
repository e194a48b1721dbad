package criterion

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
)

// TestBICOfFewRows: the penalty 4·log 20 of 4 parameters and 20 rows becomes 20/14 of it; of 18 parameters it is infinite,
// and a penalty is as it was where no noise is estimated. McQuarrie (1999).
func TestBICOfFewRows(t *testing.T) {
	for _, c := range []struct {
		parameters int
		few, want  float64
	}{{4, Fewness(20, 4), 4*2.995732273553991*20/14 + 60}, {17, Fewness(20, 17), 17*2.995732273553991*20 + 60},
		{18, Fewness(20, 18), math.Inf(1)}, {40, Fewness(20, 40), math.Inf(1)}, {4, 1, 4*2.995732273553991 + 60}} {
		bic := float64(c.parameters)*2.995732273553991 + 60
		got := Fit{Few: c.few, Candidate: fitted.Candidate{LogLikelihood: -30, BIC: bic}}.BICc()
		if !(math.Abs(got-c.want) <= 1e-12*math.Abs(c.want) || got == c.want) {
			t.Errorf("%d parameters: %v, want %v", c.parameters, got, c.want)
		}
	}
}

// TestLeft: those from the bound on whose BIC is within 20 of the least, and larger ones whose log-likelihood pays 3 for each
// parameter more, of which every expert has three; of few rows both penalties are larger.
func TestLeft(t *testing.T) {
	r := Fits{}
	for k, loglik := range map[int]float64{1: -60, 2: -30, 3: -29, 4: -18.5, 5: -11.9, 6: math.NaN()} {
		r[k] = Fit{Few: 1, Parameters: 3 * k, Candidate: fitted.Candidate{K: k, LogLikelihood: loglik, BIC: 4*3*float64(k) - 2*loglik}}
	}
	// BIC is 132, 84, 94, 85, 83.8 and none
	for _, c := range []struct {
		bound *fitted.AtLeast
		want  []int
	}{{nil, []int{2, 3, 4, 5}}, {&fitted.AtLeast{K: 3}, []int{3, 4, 5}}, {&fitted.AtLeast{K: 5}, []int{5}},
		{&fitted.AtLeast{K: 6}, nil}} {
		if got := r.Left(c.bound); !slices.Equal(got, c.want) {
			t.Errorf("bound %v: %v, want %v", c.bound, got, c.want)
		}
	}
	// 14 parameters more cost 42 of twice the log-likelihood, and 84 of few rows; BIC is more than 20 above the least.
	for _, c := range []struct{ few, loglik float64 }{{1, -19}, {2, 2}} {
		for by, want := range map[float64][]int{0: {1, 2}, -.1: {1}, .1: {1, 2}} {
			r := Fits{1: {Few: c.few, Parameters: 20, Candidate: fitted.Candidate{K: 1, LogLikelihood: -40, BIC: 6*20 + 80}},
				2: {Few: c.few, Parameters: 34, Candidate: fitted.Candidate{K: 2, LogLikelihood: c.loglik + by, BIC: 6*34 - 2*(c.loglik+by)}}}
			if got := r.Left(nil); !slices.Equal(got, want) {
				t.Errorf("few rows %v, a log-likelihood of %v: %v, want %v", c.few, c.loglik+by, got, want)
			}
		}
	}
}

// TestFalls: a fall is said, rounding is none, and neither is one after a fit that did not converge.
func TestFalls(t *testing.T) {
	of := func(k int, loglik float64, converged bool) fitted.Candidate {
		return fitted.Candidate{K: k, LogLikelihood: loglik, Converged: converged}
	}
	if got := Falls([]fitted.Candidate{of(1, 5, true), of(2, 5-0.9e-6, true), of(3, 4, true), of(4, 9, false), of(5, 8, true)}); len(got) != 1 || !strings.HasPrefix(got[0], "k = 3 has a log-likelihood 1 below that of k = 2") {
		t.Errorf("%q", got)
	}
}

// TestPassedOver: that the least criterion is of a fit that has not converged is said, whichever of them it is; and nothing is
// where one that has converged has less, or the choice is by rows left out.
func TestPassedOver(t *testing.T) {
	of := func(bic2 float64, icl2 float64, by Choice, heldOut int) *fitted.Model {
		fits := Fits{}
		for k, bic := range map[int]float64{1: 1279.88, 2: bic2, 3: 890.46} {
			c := fitted.Candidate{K: k, BIC: bic, ICL: bic + 100, Converged: k != 2}
			if k == 2 {
				c.ICL = icl2
			}
			fits[k] = Fit{Few: 1, Candidate: c, Model: &fitted.Model{K: k, Fit: fitted.Fit{Status: "no progress"}}}
		}
		return by.Choose(fits, heldOut, nil)
	}
	for name, c := range map[string]struct {
		bic2, icl2 float64
		by         Choice
		heldOut    int
		want       string
	}{
		"BIC":     {842.89, 2000, ByBIC, 0, "k = 2 has not converged (no progress) and was passed over, though its BIC is 47.57 less than that of k = 3"},
		"default": {842.89, 2000, "", 0, "k = 2 has not converged (no progress) and was passed over, though its BIC is 47.57 less than that of k = 3"},
		"ICL":     {1000, 900, ByICL, 0, "k = 2 has not converged (no progress) and was passed over, though its ICL is 90.46 less than that of k = 3"},
		"worse":   {900, 900, ByBIC, 0, ""},
		"rows":    {842.89, 900, ByHeldOut, 3, ""},
	} {
		m := of(c.bic2, c.icl2, c.by, c.heldOut)
		said := strings.Join(m.Fit.Warnings, "; ")
		if m.K != 3 || !strings.HasPrefix(said, c.want) || c.want == "" && said != "" {
			t.Errorf("%s: k = %d, %q, want %q", name, m.K, said, c.want)
		}
	}
}
