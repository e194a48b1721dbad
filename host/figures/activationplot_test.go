package figures

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/solver"
)

// TestDrawActivation: both formats, the same bytes on a rerun, no number that is none,
// also for curves that are flat; a condition that fails says so.
func TestDrawActivation(t *testing.T) {
	validation := solver.Validation{
		Sigma:     0.05,
		Transform: solver.Transform{Sigma: 0.05, Alpha: -5.25, Beta: 8, Gamma: -3.125, Delta: -1.5, C4: 0.5, C2: 0.375},
		Verdict: solver.Verdict{Valid: true, Checks: []solver.Check{
			{Name: "S4 has no He1 part", Value: -2e-14, Tolerance: 1e-9, Holds: true},
			{Name: "c4 is not zero", Value: 4.3125, Tolerance: 1e-9, Holds: true},
		}},
	}
	z := []float64{-3.5, -1, 0, 1, 3.5}
	spectrum := []float64{0, 0, 0, 0, .2, .5, .6, .3, -.2}
	flat := []float64{0, 0, 0, 0, 0, 0, 0, 0, 0}
	y := []float64{-1, 0, 1}
	transforms := [3]solver.TransformCurve{{Order: 2, Polynomial: y, Optimal: y}, {Order: 3, Optimal: y}, {Order: 4, Polynomial: []float64{-1e300, 0, 1e300}}}
	for _, c := range []struct {
		name   string
		curves solver.Curves
		fails  bool
	}{
		{"relu", solver.Curves{Z: z, G: []float64{0, 0, 0, 1, 3.5}, S4: []float64{0, 0, 0, .5, 9}, S2: []float64{0, 0, 0, -.5, 7}, Kinks: []float64{0}, Spectrum4: spectrum, Spectrum2: []float64{0, 0, .6, .5, 0, 0, 0, 0, 0}}, false},
		{"constant", solver.Curves{Z: z, G: []float64{7, 7, 7, 7, 7}, S4: z, S2: flat[:5], Spectrum4: flat, Spectrum2: flat}, true},
	} {
		c.curves.Y, c.curves.T = y, transforms
		draw := func(format string) []byte {
			var b bytes.Buffer
			if err := DrawActivation(&b, "relu", &validation, c.curves, format); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
		svg := string(draw("svg"))
		if svg != string(draw("svg")) || !bytes.Equal(draw("png"), draw("png")) {
			t.Errorf("%s: a rerun gives other bytes", c.name)
		}
		for _, bad := range []string{"NaN", "Inf"} {
			if strings.Contains(svg, bad) {
				t.Errorf("%s: the picture contains %s", c.name, bad)
			}
		}
		if strings.Contains(svg, "fails") != c.fails || !strings.Contains(svg, "= 0") {
			t.Errorf("%s: the conditions are not marked as they are", c.name)
		}
		if !bytes.HasPrefix(draw("png"), []byte("\x89PNG")) {
			t.Errorf("%s: no PNG", c.name)
		}
	}
	if err := DrawActivation(&bytes.Buffer{}, "relu", &validation, solver.Curves{Y: y, T: transforms}, "bmp"); err == nil {
		t.Error("an unknown format is drawn")
	}
}
