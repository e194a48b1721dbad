package predict

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/scaling"
)

// scaleModel has two experts of intercepts alone, 2 and 3.5 with σ of 0.3 and 0.5, and a gate of the feature.
func scaleModel(s scaling.Scale) *fitted.Model {
	p := model.NewParams(2, 1)
	p.RegressorIntercepts, p.GatingIntercepts, p.Sigma = []float64{2, 3.5}, []float64{0.2}, []float64{0.3, 0.5}
	p.Gate(0)[0] = 1
	m := &fitted.Model{Format: fitted.FormatV4, TargetScale: s, Activation: stated.Activation{Name: "identity"}, Target: "y", Features: []string{"x1"}}
	m.SetParams(p)
	return m
}

// TestOwnScale: the density of y is that of h(y) times |h′(y)|, and integrates to 1; means are the sums that they are in words; the
// median and the interval's ends have as much below them as they should, by the normal distributions written out.
func TestOwnScale(t *testing.T) {
	x := mat.NewDense(3, 1, []float64{-1, 0, 2})
	for scale, h := range map[scaling.Scale]func(float64) float64{
		scaling.Log: math.Log, scaling.Sqrt: math.Sqrt, scaling.Reciprocal: func(y float64) float64 { return 1 / y },
	} {
		m := New(scaleModel(scale), identity{})
		y := []float64{4, 9, 0.4}
		r, err := m.Matrix(t.Context(), x, y, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		means, sigmas := []float64{2, 3.5}, []float64{0.3, 0.5}
		for row := range 3 {
			p := 1 / (1 + math.Exp(-(0.2 + x.At(row, 0))))
			share := []float64{p, 1 - p}
			below := func(v float64) (f float64) { // of h(y)
				for i := range share {
					f += share[i] * distuv.Normal{Mu: means[i], Sigma: sigmas[i]}.CDF(v)
				}
				return f
			}
			cdf := func(y float64) float64 {
				if scale == scaling.Reciprocal {
					return 1 - below(h(y))
				}
				return below(h(y))
			}
			for q, end := range map[float64]float64{0.1: r.Lower[row], 0.5: r.Median[row], 0.9: r.Upper[row]} {
				if got := cdf(end); math.Abs(got-q) > 1e-9 { // a quantile has 14 digits
					t.Errorf("%s: below %v is %v, want %v", scale, end, got, q)
				}
			}
			const d = 1e-6
			slope := (cdf(y[row]+d*y[row]) - cdf(y[row]-d*y[row])) / (2 * d * y[row])
			if got := math.Exp(r.LogDensity[row]); math.Abs(got-slope) > 1e-7*(1+slope) { // differences of second order
				t.Errorf("%s: density %v at %v, want %v", scale, got, y[row], slope)
			}
			mean := 0.0
			for i := range share {
				own := math.Exp(means[i] + sigmas[i]*sigmas[i]/2)
				switch scale {
				case scaling.Sqrt:
					own = means[i]*means[i] + sigmas[i]*sigmas[i]
				case scaling.Reciprocal:
					own = 1 / means[i]
				}
				if got := r.Experts.At(row, i); math.Abs(got-own) > 1e-12*own {
					t.Errorf("%s: expert %d is %v, want %v", scale, i+1, got, own)
				}
				mean += share[i] * own
			}
			if scale == scaling.Reciprocal {
				if r.Mean != nil {
					t.Errorf("the reciprocal has means %v", r.Mean)
				}
			} else if got := r.Mean[row]; math.Abs(got-mean) > 1e-12*mean {
				t.Errorf("%s: mean %v, want %v", scale, got, mean)
			}
		}

		e, err := m.Evaluate(t.Context(), dataset.Matrix(x, y))
		if err != nil {
			t.Fatal(err)
		}
		sum, sse, transformed := 0.0, 0.0, 0.0
		for row, v := range y {
			point := r.Median[row]
			if r.Mean != nil {
				point = r.Mean[row]
			}
			sum, sse = sum+r.LogDensity[row], sse+(v-point)*(v-point)
			transformed += r.LogDensity[row] - scale.LogSlope(h(v))
		}
		if math.Abs(e.LogLikelihood-sum) > 1e-12*math.Abs(sum) || math.Abs(e.RMSE-math.Sqrt(sse/3)) > 1e-12*e.RMSE || math.Abs(*e.LogLikelihoodTransformed-transformed) > 1e-9 {
			t.Errorf("%s: %+v, want log-likelihood %v and rmse %v", scale, e, sum, math.Sqrt(sse/3))
		}
	}
}

// TestBeyondScale: half of the noise of a mean of 0 is below it: no median of the reciprocal, an upper end that is empty, and 0 of the
// square root.
func TestBeyondScale(t *testing.T) {
	x := mat.NewDense(1, 1, []float64{0})
	for _, scale := range []scaling.Scale{scaling.Sqrt, scaling.Reciprocal} {
		f := scaleModel(scale)
		f.RegressorIntercepts = []float64{-1, -1}
		r, err := New(f, identity{}).Matrix(t.Context(), x, nil, 0.5)
		if err != nil {
			t.Fatal(err)
		}
		if scale == scaling.Sqrt && (r.Lower[0] != 0 || r.Median[0] != 0 || r.Upper[0] != 0) {
			t.Errorf("sqrt: %v to %v, median %v, want 0", r.Lower, r.Upper, r.Median)
		}
		if scale == scaling.Reciprocal && !(math.IsNaN(r.Median[0]) && math.IsNaN(r.Upper[0]) && math.IsNaN(r.Experts.At(0, 0))) {
			t.Errorf("reciprocal: to %v, median %v, experts %v, want none", r.Upper, r.Median, r.Experts)
		}
	}
}
