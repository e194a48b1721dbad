package problem

import (
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestNoteOfFeaturesFarFromZero: features whose mean is many standard deviations from 0
// are named where the experts have no intercept, and nowhere else.
func TestNoteOfFeaturesFarFromZero(t *testing.T) {
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		means [3]float64
		r     Request
		want  string // "" for no note
	}{
		{"near", [3]float64{0, 2, -2}, Request{}, ""},
		{"far", [3]float64{4, 0, -9}, Request{}, "feature x3 is 8.78 of"},
		{"far, the first", [3]float64{-9, 0, 4}, Request{}, "feature x1 is"},
		{"an intercept", [3]float64{4, 0, -9}, Request{Intercepts: BothIntercepts}, ""},
		{"of the gate alone", [3]float64{4, 0, -9}, Request{Intercepts: GateIntercepts}, "feature x3"},
		{"not seen", [3]float64{0, 0, -9}, Request{ExpertFeatures: []string{"x1", "x2"}}, ""},
	} {
		rng := rand.New(rand.NewPCG(3, 15))
		x, y := mat.NewDense(400, 3, nil), make([]float64, 400)
		for i := range y {
			for j, m := range c.means {
				x.Set(i, j, m+rng.NormFloat64())
			}
			y[i] = x.At(i, 0) + rng.NormFloat64()
		}
		c.r.K = 1
		p, err := Load(t.Context(), dataset.Matrix(x, y), act, c.r)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		notes := strings.Join(p.Notes, "\n")
		if noted := strings.Contains(notes, "--intercept"); noted != (c.want != "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: notes %q, want %q", c.name, notes, c.want)
		}
	}
}
