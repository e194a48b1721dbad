package experiment

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/stream"
)

// TestSlidesL4 holds the loss against the slide that writes it out, whose last term must be λ·Σ(‖â_j‖² − 1)²: as
// printed, of the regressors ‖a_j‖ = 1, it is 0 everywhere.
func TestSlidesL4(t *testing.T) {
	rng := stream.New(1, stream.Study, 3)
	for _, c := range flatCases() {
		l, x := c.loss(), make([]float64, c.k*c.d)
		for range 5 {
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			printed, right := 0.0, 0.0
			for j := range c.k {
				row := x[j*c.d : (j+1)*c.d]
				for i := range c.k { // ⟨a_i,â_j⟩ is the i-th entry
					printed -= 12 * slidesMu * math.Pow(row[i], 4)
					for m := range c.k {
						if m != j {
							printed += 12 * math.Pow(row[i]*x[m*c.d+i], 2)
						}
					}
				}
				right += slidesLambda * math.Pow(floats.Dot(row, row)-1, 2)
			}
			got, err := l.Value(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			if right += printed; math.Abs(got-right) > 1e-9*math.Abs(right) || math.Abs(got-printed) < 0.01 {
				t.Errorf("%s: L4 is %g, with the term in ‖â_j‖ %g, as printed %g", c.series(), got, right, printed)
			}
		}
	}
}

// TestHermiteSlide: with both indicators at ⟨a_1,x⟩, as printed, E[y³ − 3y|x] has no a_2 in it; with ⟨a_2,x⟩ in the second
// it is what the slide has next, Σ_i f(⟨w_i,x⟩)·H_3(⟨a_i,x⟩).
func TestHermiteSlide(t *testing.T) {
	h3 := func(z float64) float64 { return z*z*z - 3*z }
	const first, second, gate = 0.7, -1.9, 0.4 // ⟨a_1,x⟩, ⟨a_2,x⟩, ⟨w,x⟩
	mean := func(of, other float64) float64 { return logistic(gate)*h3(of) + (1-logistic(gate))*h3(other) }
	next := logistic(gate)*h3(first) + logistic(-gate)*h3(second)
	if right := mean(first, second); math.Abs(right-next) > 1e-15 {
		t.Errorf("with ⟨a_2,x⟩ the mean is %g, want %g", right, next)
	}
	if printed := mean(first, first); math.Abs(printed-next) < 0.1 {
		t.Errorf("as printed the mean is %g, as the slide goes on %g: they should differ", printed, next)
	}
}
