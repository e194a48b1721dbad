package solver_test

import (
	"math"
	"testing"

	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

func noise(t testing.TB, act sdk.Activation, sigma float64) (solver.Noise, solver.Transform) {
	t.Helper()
	tr, _ := solve(t, act, sigma)
	n, err := solver.NoiseOf(t.Context(), act, tr)
	if err != nil {
		t.Fatal(err)
	}
	return n, tr
}

// TestNoiseOfIdentity: at σ = 0 Q4(y) − E Q4(y) = He4(Z), so
// V4 = E[He4⁴]/24² − 1 = 368064/576 − 1 and V2 = E[He2⁴]/4 − 1 = 60/4 − 1.
func TestNoiseOfIdentity(t *testing.T) {
	n, _ := noise(t, identity, 0)
	if !near(n.V4, 638, 1e-12) || !near(n.V2, 14, 1e-12) {
		t.Errorf("V4 = %v, V2 = %v, want 638 and 14", n.V4, n.V2)
	}
}

// TestNoiseByDefinition: V4 and V2 with the noise in y averaged over explicitly.
func TestNoiseByDefinition(t *testing.T) {
	for _, act := range []sdk.Func{identity, relu, leaky(.1), sigmoid, gelu, absolute} {
		for _, sigma := range []float64{0.05, 0.5} {
			n, tr := noise(t, act, sigma)
			grid, err := gauss.NewGrid(t.Context(), act.Eval, act.Kinks)
			if err != nil {
				t.Fatal(err)
			}
			variance := func(q func(float64) float64, order int, c float64) float64 {
				mean, _ := grid.Expect(func(_, g float64) float64 {
					return overNoise(func(e float64) float64 { return q(g + sigma*e) })
				})
				square, _ := grid.Expect(func(z, g float64) float64 {
					return overNoise(func(e float64) float64 { return math.Pow((q(g+sigma*e)-mean)/c*gauss.Hermite(order, z), 2) })
				})
				return square - 1
			}
			if want := variance(tr.Q4, 4, tr.C4); !near(n.V4, want, 1e-9) {
				t.Errorf("%s at σ = %v: V4 = %v, want %v", act.Name, sigma, n.V4, want)
			}
			if want := variance(tr.Q2, 2, tr.C2); !near(n.V2, want, 1e-9) {
				t.Errorf("%s at σ = %v: V2 = %v, want %v", act.Name, sigma, n.V2, want)
			}
		}
	}
}

// TestNoiseTable: known values at σ = 0.05, two digits.
func TestNoiseTable(t *testing.T) {
	for _, c := range []struct {
		act  sdk.Func
		want float64
	}{{relu, 4.6e4}, {leaky(.1), 8.5e3}, {sigmoid, 83}} {
		if n, _ := noise(t, c.act, 0.05); !near(n.V4, c.want, 0.012) {
			t.Errorf("%s: V4 = %v, want %v", c.act.Name, n.V4, c.want)
		}
	}
}

// TestNoiseIsAffine: the noise factors and the sample size do not change when
// y becomes a·y + b, σ with it.
func TestNoiseIsAffine(t *testing.T) {
	want, _ := noise(t, sigmoid, 0.05)
	got, _ := noise(t, fn("affine", func(z float64) float64 { return 3 - 20*logistic(z) }, nil), 1)
	design := solver.Design{K: 3, D: 12, Proportions: []float64{.5, .3, .2}}
	if !near(got.V4, want.V4, 1e-8) || !near(got.V2, want.V2, 1e-8) || !near(got.Samples(design, .01), want.Samples(design, .01), 1e-8) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestSamplesOfOneExpert: with k = 1 only T̂2's leading eigenvector errs, each of
// d−1 directions with variance E[q2²·Z²]; the median of χ² with 9 degrees of
// freedom is 8.343.
func TestSamplesOfOneExpert(t *testing.T) {
	n, tr := noise(t, identity, 0)
	// Q2(y) − E = He2(Z): E[He2²Z²]/4 = (E Z⁶ − 2E Z⁴ + E Z²)/4 = 10/4.
	want := 10.0 / 4 * 8.343 / (2 * 0.01)
	if got := n.Samples(solver.Design{K: 1, D: 10}, 0.01); !near(got, want, 0.02) { // of 20 000 draws
		t.Errorf("%v rows, want %v (c2 = %v)", got, want, tr.C2)
	}
}

// TestSamplesScale: the prediction is inversely proportional to the target, and
// grows with d, with k and with imbalance.
func TestSamplesScale(t *testing.T) {
	n, _ := noise(t, sigmoid, 0.05)
	base := solver.Design{K: 2, D: 10}
	rows := func(d solver.Design) float64 { return n.Samples(d, 0.01) }
	if !near(n.Samples(base, 0.001), 10*rows(base), 1e-12) {
		t.Error("the target does not scale the prediction")
	}
	for _, larger := range []solver.Design{{K: 2, D: 20}, {K: 3, D: 10}, {K: 2, D: 10, Proportions: []float64{.8, .2}}, {K: 2, D: 10, Mu: .01}} {
		if rows(larger) <= rows(base) {
			t.Errorf("%+v takes %v rows, %+v takes %v", larger, rows(larger), base, rows(base))
		}
	}
}

// TestSpectralError: for the noiseless identity T3 and T2 are He3/6 and He2/2, whose
// expectations are Hermite linearisations: E[He3²He2²] = 372, E[He3²Z²] = 42,
// E[He2²Z²] = 10. The q2·q3 terms of the two experts cancel.
func TestSpectralError(t *testing.T) {
	n, _ := noise(t, identity, 0)
	const d, k = 10, 2
	outside := k * (d - k) * (.5*10/4 + .5*2/4) / (.5 * .5) // Σ_i (D−K)·E[q2²·b²]/p²
	a := (372. + 2*42) / 36                                 // both experts of the pair see it
	inside := 2 * (a + 10./4) / (4 * .5 * .5)
	if got, want := n.MeanError(solver.Design{K: k, D: d, Order: 3}), (outside+inside)/2; !near(got, want, 1e-12) {
		t.Errorf("%v, want %v", got, want)
	}
	even, _ := noise(t, absolute, 0)
	if !math.IsInf(even.MeanError(solver.Design{K: k, D: d, Order: 3}), 1) || !math.IsInf(even.Samples(solver.Design{K: k, D: d, Order: 3}, .01), 1) {
		t.Error("an even g has a prediction of order 3")
	}
}

// TestOptimalHasSmallerErrors: of the predicted errors, which weigh more than the one
// contraction that a transform is best for, in every setting of the table.
func TestOptimalHasSmallerErrors(t *testing.T) {
	for _, act := range []sdk.Func{identity, relu, leaky(.1), sigmoid} {
		for _, sigma := range []float64{.05, .3, 1} {
			n, _ := noise(t, act, sigma)
			for _, k := range []int{2, 3, 6} {
				o := optimal(t, act, sigma, k)
				for _, order := range []int{3, 4} {
					design := solver.Design{K: k, D: 2*k + 6, Order: order}
					if a, b := o.Noise.MeanError(design), n.MeanError(design); !(a < b) {
						t.Errorf("%s at σ = %v, %+v: %v, polynomial %v", act.Name, sigma, design, a, b)
					}
				}
			}
		}
	}
}

func TestNoiseRefusesZero(t *testing.T) {
	if _, err := solver.NoiseOf(t.Context(), sign, solver.Transform{}); err == nil {
		t.Error("c4 = 0 gives a noise factor")
	}
}

// TestCurves: the spectrum of the identity's S4 is He4 alone, that of a valid
// activation lacks orders 1 to 3, and squares add up to no more than 1 (to 1e−6:
// an offset of 50 costs ten digits of g⁴).
func TestCurves(t *testing.T) {
	for _, act := range []sdk.Func{identity, relu, sigmoid, gelu, absolute, offset, constant, sign, step} {
		tr, v := solve(t, act, 0.05)
		c, err := solver.CurvesOf(t.Context(), act, tr, optimal(t, act, .05, 2))
		if err != nil {
			t.Fatal(err)
		}
		var total float64
		for q := 1; q < len(c.Spectrum4); q++ {
			total += c.Spectrum4[q] * c.Spectrum4[q]
			if q <= 3 && math.Abs(c.Spectrum4[q]) > 1e-6 {
				t.Errorf("%s: order %d of S4 is %v", act.Name, q, c.Spectrum4[q])
			}
		}
		if math.Abs(c.Spectrum2[1]) > 1e-6 || !(total <= 1+1e-6) {
			t.Errorf("%s: spectra %v, %v", act.Name, c.Spectrum4, c.Spectrum2)
		}
		if v.Valid != (math.Abs(c.Spectrum4[4]) > 1e-3) {
			t.Errorf("%s: order 4 of S4 is %v", act.Name, c.Spectrum4[4])
		}
		if act.Name == "identity" && !near(c.Spectrum4[4], 1, 1e-12) {
			t.Errorf("identity: order 4 of S4 is %v", c.Spectrum4[4])
		}
		for i, z := range c.Z {
			if c.G[i] != act.G(z) || !near(c.S2[i], overNoise(func(e float64) float64 { return tr.Q2(c.G[i] + .05*e) }), 1e-12) ||
				!near(c.S4[i], overNoise(func(e float64) float64 { return tr.Q4(c.G[i] + .05*e) }), 1e-12) {
				t.Fatalf("%s at z = %v: g %v, S4 %v, S2 %v", act.Name, z, c.G[i], c.S4[i], c.S2[i])
			}
		}
	}
}
