package compare

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
)

// TestComparedGates: experts in another order have the same gates beside each other, since both are relative to the same pair; the
// standard error of a difference is √(V_ii + V_jj − 2V_ij).
func TestComparedGates(t *testing.T) {
	p := model.NewParams(3, 1)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = []float64{1, 5, 9}, []float64{0.4, -0.7}, []float64{1}
	copy(p.Regressors, []float64{1, -2, 3})
	copy(p.Gating, []float64{0.5, 1.5})
	a := &fitted.Model{Features: []string{"x"}, Target: "y"}
	a.SetParams(p)
	a.Fit.RowsDigest = "rows"
	a.Covariance = &fitted.Covariance{
		Parameters: []string{"gate1:x", "gate2:x", "gate1:(intercept)", "gate2:(intercept)"},
		Matrix:     [][]float64{{0.04, 0.01, 0, 0}, {0.01, 0.09, 0, 0}, {0, 0, 0.16, 0.02}, {0, 0, 0.02, 0.25}},
	}
	b := &fitted.Model{Features: []string{"x"}, Target: "y"}
	b.SetParams(p.Relabel([]int{2, 0, 1}))
	b.Fit.RowsDigest = "rows"
	c, err := Fits("a", a, "b", b)
	if err != nil {
		t.Fatal(err)
	}
	if *c.GateReference != [2]int{3, 2} || len(c.Gates) != 3 {
		t.Fatalf("gates %+v relative to %v, matched %v", c.Gates, *c.GateReference, c.Matched)
	}
	for at, g := range c.Gates {
		i := c.Matched[at][0] - 1
		w, v := append(p.Gating, 0), append(p.GatingIntercepts, 0)
		for name, of := range map[string]*ComparedGate{"a": g.A, "b": g.B} {
			if math.Abs(of.Coefficients["x"]-w[i]) > 1e-15 || math.Abs(*of.Intercept-v[i]) > 1e-15 { // a difference of numbers near 1
				t.Errorf("%s, expert %d: %v and %v, want %v and %v", name, i+1, of.Coefficients, *of.Intercept, w[i], v[i])
			}
		}
		if g.B.Errors != nil || g.B.InterceptError != nil {
			t.Error("standard errors of a gate without a covariance")
		}
	}
	against := comparedGates(a, 0)
	for i, want := range []float64{0, math.Sqrt(0.04 + 0.09 - 2*0.01), math.Sqrt(0.04)} {
		if got := against[i].Errors["x"]; math.Abs(got-want) > 1e-15 {
			t.Errorf("standard error of expert %d against the first %v, want %v", i+1, got, want)
		}
	}
	if got, want := *against[1].InterceptError, math.Sqrt(0.16+0.25-2*0.02); math.Abs(got-want) > 1e-15 {
		t.Errorf("of the intercept %v, want %v", got, want)
	}
	a.Hierarchy = "2x(1,2)"
	if gateReference(a, b, c.Matched) != nil {
		t.Error("the gates of a tree are compared")
	}
}
