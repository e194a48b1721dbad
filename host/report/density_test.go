package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
)

// TestOwnParameters: the own parameters of a density stand beside sigma, with their errors: shared ones in the first line and that of the
// errors, those of each expert in the table.
func TestOwnParameters(t *testing.T) {
	shared := &fitted.Model{
		Activation: stated.Activation{Name: "identity"}, D: 1, K: 2, Features: []string{"x1"}, Target: "y",
		Regressors: [][]float64{{1}, {-2}}, Gating: [][]float64{{0.5}}, Family: "student-t", Sigma: fitted.Sigma{0.25}, Own: fitted.Own{"dof": {4.5}},
		Proportions: []float64{0.25, 0.75}, Fit: fitted.Fit{Method: "auto", N: 1234, Converged: true},
		StandardErrors: &fitted.StandardErrors{
			Kind: "observed", Regressors: [][]float64{{0.1}, {0.1}}, Gating: [][]float64{{0.1}}, Sigma: fitted.Sigma{0.01}, Own: fitted.Own{"dof": {0.75}},
		},
	}
	each, errors := *shared, *shared.StandardErrors
	each.Sigma, each.Own, each.StandardErrors = fitted.Sigma{0.25, 0.5}, fitted.Own{"dof": {4.5, 8.25}}, &errors
	errors.Sigma, errors.Own = fitted.Sigma{0.01, 0.02}, fitted.Own{"dof": {0.75, 0}}
	end := *shared
	end.StandardErrors = &fitted.StandardErrors{
		Kind: "observed", Regressors: [][]float64{{0.1}, {0.1}}, Gating: [][]float64{{0.1}}, Sigma: fitted.Sigma{0.01}, Own: fitted.Own{"dof": {0}},
	}
	for _, c := range []struct {
		m    *fitted.Model
		want []string
	}{
		{shared, []string{"family student-t, sigma 0.25, dof 4.5,", "Sigma 0.25 ± 0.01, dof 4.5 ± 0.75."}},
		{&each, []string{"dof         4.5 ± 0.75  8.25"}},
		{&end, []string{"Sigma 0.25 ± 0.01, dof 4.5."}},
	} {
		var out bytes.Buffer
		if err := Text(&out, c.m, false); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range c.want {
			if !strings.Contains(text, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("%q is not in\n%s", want, out.String())
			}
		}
	}
}
