package diagnosis_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/report/diagnosis"
	"github.com/gatedlearning/moe/host/report/page"
)

// power is exp(z), or z where it is the identity.
type power struct{ line bool }

func (p power) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		if dst[i] = v; !p.line {
			dst[i] = math.Exp(v)
		}
	}
	return nil
}

func (p power) Deriv(_ context.Context, dst, z []float64) error { panic("no slopes are asked for") }

// TestCalibration: the rootogram of counts has what is seen and Σ P(y = j|x) as the laws written out have it, of bars as wide as they must be, a zero expert
// in it; and the histogram of F(y|x) that by which each row is evenly between P(Y < y|x) and F(y|x). Of right models it is level: no bar is beyond four standard
// errors, which of twenty is so in 1 of 800 runs. The page shows both, and of normal noise the histogram alone.
func TestCalibration(t *testing.T) {
	const n = 3000
	rng := rand.New(rand.NewPCG(33, 5))
	for _, c := range []struct {
		name  string
		level float64 // of the experts' intercepts
		zero  bool
	}{{"counts", 0.5, false}, {"counts with a zero expert", 0.5, true}, {"large counts", 4.5, false}, {"normal", 0, false}} {
		m := &fitted.Model{
			Activation: stated.Activation{Name: "exp"}, D: 1, K: 2, Features: []string{"x"}, Target: "y", Family: "poisson",
			Regressors: [][]float64{{0.4}, {-0.2}}, RegressorIntercepts: []float64{c.level, c.level + 1}, Gating: [][]float64{{0.7}},
			Proportions: []float64{0.5, 0.5}, Fit: fitted.Fit{Method: "auto", N: n, Converged: true},
		}
		normal := c.name == "normal"
		if normal {
			m.Activation.Name, m.Family, m.Sigma = "identity", "", fitted.Sigma{0.5}
		}
		if c.zero {
			m.ZeroExpert, m.Gating, m.Proportions = true, [][]float64{{0.7}, {-0.3}}, []float64{0.3, 0.3}
		}
		// What is expected is of all probabilities of a row, in the order of experts and zero.
		shares := func(x float64) []float64 {
			p := []float64{0, 0}
			for i, w := range m.Gating {
				p[i] = w[0] * x
			}
			if c.zero {
				p = append(p, 0)
			}
			norm := floats.LogSumExp(p)
			for i := range p {
				p[i] = math.Exp(p[i] - norm)
			}
			return p
		}
		x, y := mat.NewDense(n, 1, nil), make([]float64, n)
		for r := range y {
			x.Set(r, 0, rng.NormFloat64())
			z, u := 0, rng.Float64()
			p := shares(x.At(r, 0))
			for ; z < len(p)-1 && u >= p[z]; z++ {
				u -= p[z]
			}
			if z == 2 {
				continue
			}
			at := m.RegressorIntercepts[z] + m.Regressors[z][0]*x.At(r, 0)
			if y[r] = at + 0.5*rng.NormFloat64(); !normal {
				y[r] = distuv.Poisson{Lambda: math.Exp(at), Src: rng}.Rand()
			}
		}
		d, err := diagnosis.Of(t.Context(), m, power{normal}, dataset.Matrix(x, y))
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := page.Fits(&out, nil, page.Fitted{Model: m, Diagnosis: d}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "F(y|x) of the rows</title>") || strings.Contains(out.String(), "rootogram</title>") == normal {
			t.Errorf("%s: the page has not the pictures that it is to have", c.name)
		}
		transformBins := len(d.Calibration.Transform)
		for b, share := range d.Calibration.Transform {
			if z := (share - 1/float64(transformBins)) * math.Sqrt(n*float64(transformBins)/(1-1/float64(transformBins))); math.Abs(z) > 4 {
				t.Errorf("%s: bar %d has %v of the rows, %.1f standard errors off", c.name, b, share, z)
			}
		}
		if normal {
			continue
		}
		counts := d.Calibration.Counts
		largest := int(floats.Max(y))
		if width := largest/40 + 1; counts.Width != width || counts.Rows != n || (width > 1) != (c.level > 1) {
			t.Fatalf("%s: %d rows in bars of %d, want %d", c.name, counts.Rows, counts.Width, width)
		}
		observed, expected, transform := make([]float64, len(counts.Observed)), make([]float64, len(counts.Observed)), make([]float64, transformBins)
		for r, v := range y {
			observed[int(v)/counts.Width]++
			before, upto, sum := 0.0, 0.0, 0.0
			for j := range counts.Width * len(expected) {
				p := 0.0
				for i, share := range shares(x.At(r, 0)) {
					switch {
					case i < 2:
						p += share * math.Exp(distuv.Poisson{Lambda: math.Exp(m.RegressorIntercepts[i] + m.Regressors[i][0]*x.At(r, 0))}.LogProb(float64(j)))
					case j == 0:
						p += share
					}
				}
				expected[j/counts.Width] += p
				if sum += p; j == int(v) {
					before, upto = sum-p, sum
				}
			}
			for b := range transform {
				lo, hi := max(before, float64(b)/float64(transformBins)), min(upto, float64(b+1)/float64(transformBins))
				transform[b] += max(0, hi-lo) / (upto - before) / n
			}
		}
		if !floats.EqualApprox(observed, counts.Observed, 0) || !floats.EqualApprox(expected, counts.Expected, 1e-8) {
			t.Errorf("%s: observed %v, want %v; expected %v, want %v", c.name, counts.Observed, observed, counts.Expected, expected)
		}
		if !floats.EqualApprox(transform, d.Calibration.Transform, 1e-9) {
			t.Errorf("%s: F(y|x) has %v, want %v", c.name, d.Calibration.Transform, transform)
		}
	}
}
