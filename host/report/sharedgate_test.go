package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
)

// TestFamilyOfSeveral: of a density of several targets that is registered the name is said, and what it has beside the scales, with its
// standard errors, of every expert where each has its own.
func TestFamilyOfSeveral(t *testing.T) {
	mixturetest.RegisterJoint()
	p := model.NewVectorParams(2, 1, 2, false)
	p.Family = "outlying"
	p.Noise = []model.VectorNoise{{Scale: []float64{1, 2}, Own: []float64{1.25}}, {Scale: []float64{3, 4}, Own: []float64{2.5}}}
	v := fitted.NewSharedGate(p, []string{"u"}, []string{"y", "z"}, []stated.Activation{{Name: "identity"}, {Name: "identity"}})
	v.SharedGate.Proportions, v.SharedGate.Fit = []float64{0.5, 0.5}, &fitted.Fit{N: 10, Converged: true}
	v.SharedGate.OwnErrors = fitted.Own{"log_dof": {0.5, 0.25}}
	if err := v.Validate(); err != nil {
		t.Fatal(err)
	}
	if m := v.Model(1); m.Family != "student-t" || m.Sigma[1] != 4 || m.Own["dof"][0] != math.Exp(1.25) {
		t.Errorf("output 2 alone is %s with sigma %v and own %v", m.Family, m.Sigma, m.Own)
	}
	var out bytes.Buffer
	if err := Outputs(&out, v, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"outlying noise", "log_dof", "1.25", "± 0.5", "2.5", "± 0.25"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
