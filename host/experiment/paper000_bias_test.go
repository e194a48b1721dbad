package experiment

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/tensor"
)

// TestMixtureTensors holds the computed tensors against the means over 300 000 rows of what they are means of, at
// random directions: within five standard errors each, 40 of them, a false alarm in one of 40 000 seeds. The seed is
// fixed.
func TestMixtureTensors(t *testing.T) {
	const rows = 300000
	for _, c := range []struct{ norm, p float64 }{{1, .1}, {2, .3}} {
		s := paper("identity", 2)
		s.inputs = sample.Inputs{Mixture: true, P: c.p, Norm: c.norm}
		st, data, err := s.openTable(t.Context(), 1, rows)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMixtureTensors(t.Context(), c.p, st.sampler.Mean(), st.out)
		if err != nil {
			t.Fatal(err)
		}
		of := func(l *tensor.L4, a []float64) float64 { v, _ := l.Value(t.Context(), a); return v }
		m2, m4 := 0.0, 0.0
		for _, b := range data.Blocks {
			for _, y := range b.Y {
				m2 += st.out.Q2(y) / rows
				m4 += st.out.Q4(y) / rows
			}
		}
		for range 10 {
			a := st.unitRows(2)
			between, shift := floats.Dot(a[:10], a[10:]), floats.Dot(a[:10], st.sampler.Mean())
			directions := model.NewParams(2, 10)
			copy(directions.Regressors, a)
			var sum, squares [2]float64
			add := func(i int, v float64) { sum[i] += v / rows; squares[i] += v * v / rows }
			for i := range data.Blocks {
				b := &data.Blocks[i]
				u := make([]float64, 2*b.N)
				directions.Predictors(u, b)
				for r, y := range b.Y {
					x, z := u[r], u[b.N+r]
					add(0, (st.out.Q4(y)-m4)/st.out.C4*(x*x*z*z-x*x-z*z-4*between*x*z+1+2*between*between))
					q := (st.out.Q2(y) - m2) / st.out.C2 * (x*x - 1 - shift*shift)
					add(1, q*q)
				}
			}
			t2 := 0.0
			for i := range 10 {
				for j := range 10 {
					t2 += m.t2.At(i, j) * a[i] * a[j]
				}
			}
			for i, want := range []float64{
				of(tensor.NewL4(2, m.t2, m.t4, 0, 0, 0), a) / 2,
				of(tensor.NewL4(1, m.t2, m.variance, -1, 0, 0), a[:10]) + t2*t2,
			} {
				if off := math.Abs(sum[i] - want); off > 5*math.Sqrt((squares[i]-sum[i]*sum[i])/rows) {
					t.Errorf("‖μ‖ = %g, p = %g: mean %d over the rows is %g, computed %g", c.norm, c.p, i, sum[i], want)
				}
			}
		}
	}
}

// TestBatchL4: its value is that of its gradient, and without a mixture its minimum is at the truth.
func TestBatchL4(t *testing.T) {
	st, err := paper("identity", 2).open(t.Context(), 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMixtureTensors(t.Context(), .3, make([]float64, 10), st.out)
	if err != nil {
		t.Fatal(err)
	}
	l := m.loss(2, l4Descent(1))
	a := st.unitRows(2)
	g := make([]float64, len(a))
	if _, err := l.Grad(t.Context(), g, a); err != nil {
		t.Fatal(err)
	}
	for i, v := range a {
		const h = 1e-4
		a[i] = v + h
		up, _ := l.Value(t.Context(), a)
		a[i] = v - h
		down, _ := l.Value(t.Context(), a)
		a[i] = v
		if d := (up - down) / (2 * h); math.Abs(d-g[i]) > 1e-5*max(1, math.Abs(d)) {
			t.Errorf("∂/∂a_%d is %g, by differences %g", i, g[i], d)
		}
	}
	for _, f := range []optim.Objective{l, l.L4} {
		if e, err := lowestEreg(t.Context(), st, f); err != nil || e > 1e-9 {
			t.Errorf("with inputs N(0, I) E_reg at the minimum is %g, %v; want 0", e, err)
		}
	}
}
