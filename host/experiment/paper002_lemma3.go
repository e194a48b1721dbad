package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss"
)

// perturbation is Lemma 3: κ against its bound.
func perturbation(z size) *Figure {
	f := &Figure{
		ID: "002-L3", Title: "How regressors' errors enter the gating step", Source: "002 Lemma 3",
		Claim:    "‖G(W,A) − G(W,A*)‖ ≤ κε when ‖a_i − a_i*‖ = σ²ε, with κ ≤ (k−1)√(6(2+σ²))/2 for linear, sigmoid and ReLU.",
		Settings: fmt.Sprintf("k = 2, d = 10, step 1 without the projection, which brings no two points farther apart; ε = 0.1 and 1, the largest of %d draws of W in the unit ball and of the errors' directions; %d rows in place of the population.", z.of(6, 30), z.of(8000, 30000)),
		X:        Axis{Label: "σ", Log: true}, Y: Axis{Label: "κ", Log: true}, judge: judgePerturbation,
	}
	for _, g := range []string{"identity", "relu", "sigmoid"} {
		f.units = append(f.units, perturbationUnit(paper(g, 2), z.of(8000, 30000), z.of(6, 30)))
	}
	f.units = append(f.units, unit{key: "perturbation bound", run: func(context.Context, uint64) (*output, error) {
		t := new(trace)
		for _, sigma := range rateSigmas {
			t.add(sigma, kappaBound(sigma))
		}
		out := new(output)
		out.reference("", "bound", t)
		return out, nil
	}})
	return f
}

// kappaBound is the bound on κ, of two experts.
func kappaBound(sigma float64) float64 { return math.Sqrt(6*(2+sigma*sigma)) / 2 }

func perturbationUnit(s setting, n, draws int) unit {
	return unit{key: fmt.Sprintf("perturbation %s n %d draws %d", s.g, n, draws), run: func(ctx context.Context, seed uint64) (*output, error) {
		t := new(trace)
		for _, sigma := range rateSigmas {
			s.sigma = sigma
			st, data, err := s.openTable(ctx, seed, n)
			if err != nil {
				return nil, err
			}
			kappa := 0.0
			for i := range draws {
				epsilon := []float64{0.1, 1}[i%2]
				w, off := st.unitRows(1), st.unitRows(2)
				floats.Scale(math.Pow(st.rng.Float64(), 1/float64(s.d)), w)
				moved := st.truth.Clone()
				floats.AddScaled(moved.Regressors, sigma*sigma*epsilon, off)
				g, gTrue := make([]float64, s.d), make([]float64, s.d)
				if _, err := loss.NewGateOn(st.act, moved).GradOn(ctx, g, w, data); err != nil {
					return nil, err
				}
				if _, err := loss.NewGateOn(st.act, st.truth).GradOn(ctx, gTrue, w, data); err != nil {
					return nil, err
				}
				kappa = max(kappa, floats.Distance(g, gTrue, 2)/epsilon)
			}
			t.add(sigma, kappa)
		}
		out := new(output)
		out.add("", s.g, 0, t)
		return out, nil
	}}
}

func judgePerturbation(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured []string
	for _, g := range []string{"identity", "relu", "sigmoid"} {
		c := o.Of(g)[0]
		ratio := 0.0
		for i, sigma := range c.X {
			ratio = max(ratio, c.Y[i]/kappaBound(sigma))
		}
		measured = append(measured, fmt.Sprintf("%s %.2g", g, ratio))
		if ratio > 1 {
			v.Agrees, v.Because = false, "the bound is exceeded for "+g
		}
	}
	v.Measured = "largest κ over its bound: " + strings.Join(measured, ", ")
	return v
}
