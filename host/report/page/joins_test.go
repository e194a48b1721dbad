package page

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	hostterms "github.com/gatedlearning/moe/host/terms"
)

// TestJoinSection: what a join saves is the parameters of an expert and its share of noise and gate, whatever the gate sees,
// and the section has a picture and a row for every join.
func TestJoinSection(t *testing.T) {
	const n, k = 2000, 4
	p := model.NewParams(k, 2)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma[0] = make([]float64, k), make([]float64, k-1), 0.3
	for i := range k - 1 {
		p.Gating[2*i+1], p.GatingIntercepts[i] = float64(i-k), 1
	}
	m := &fitted.Model{Activation: stated.Activation{Name: "identity", Version: "1"}, D: 2, K: k, Features: []string{"x", "v"},
		Target: "y", Proportions: []float64{0.25, 0.25, 0.25, 0.25}, Design: &hostterms.Design{}}
	m.SetParams(p)
	m.Fit.N = n
	joins := []diagnosis.Join{{Experts: [2][]int{{1}, {2}}, Cost: 1}, {Experts: [2][]int{{0}, {1, 2}}, Cost: 10}, {Experts: [2][]int{{0, 1, 2}, {3}}, Cost: 100}}
	if got := joined(joins[1]); got != "1 and 2+3" {
		t.Errorf("a join is %q", got)
	}
	m.Fit.AIC, m.Fit.BIC = 2*17, 17*math.Log(n) // 4·2 of experts, 3·2 of the gate, and sigma are 15
	if got := savedByJoin(m); got != (17-1+2)/4 {
		t.Errorf("a join saves %d parameters", got)
	}
	for _, c := range []struct {
		name string
		seen int // features of the gate, of ten
	}{{"a constant gate", 0}, {"a gate of two features", 2}, {"a gate of all", 10}} {
		other := *m
		other.Design, other.D, other.Gating = nil, 10, nil
		for range k - 1 {
			row := make([]float64, other.D)
			for j := range c.seen {
				row[j] = float64(j + 1)
			}
			other.Gating = append(other.Gating, row)
		}
		all := k*11 + (k-1)*(c.seen+1) + 1
		other.Fit.AIC, other.Fit.BIC = 2*float64(all), float64(all)*math.Log(n)
		if got, want := savedByJoin(&other), 11+c.seen+1; got != want {
			t.Errorf("%s: a join saves %d parameters, want %d", c.name, got, want)
		}
	}
	if got := observations(m); math.Abs(got-n) > 1e-6 {
		t.Errorf("%v observations, want %d", got, n)
	}
	if s := joinSection(m, joins); len(s.Pictures) != 1 || len(s.Tables[0].Rows) != k-1 {
		t.Errorf("the section is %+v", s)
	}
}
