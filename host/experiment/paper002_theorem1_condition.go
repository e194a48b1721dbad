package experiment

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	seriesSlack  = "measured"
	seriesRemark = "ε of Remark 2"
	seriesAway   = "starts that end elsewhere"
	seriesSaddle = "curvature of the flattest saddle over τ/2"
)

// landscapes are the mixtures of 002-T1-condition, of which the condition numbers of M go from the least that the
// proportions allow to the largest, on a logarithmic scale. Each is the first of its draws within 5 % of its number.
func landscapes(number int) (out []landscapeMix) {
	const least, most = 2.5, 51.0
	rng := stream.New(22, stream.Study, 1)
	for i := range number {
		want := least * math.Pow(most/least, float64(i)/float64(number-1))
		for {
			rows := mat.NewDense(3, 7, nil)
			normalRows(rows, rng, 30*math.Pow(rng.Float64(), 3))
			if m := newLandscapeMix(rows); math.Abs(m.condition/want-1) < 0.05 {
				out = append(out, m)
				break
			}
		}
	}
	return out
}

// landscapeCondition is Theorem 1 over mixtures, with approximate local minima.
func landscapeCondition(z size) *Figure {
	number, starts := z.of(4, 14), 20
	mixtures := landscapes(number)
	f := &Figure{
		ID: "002-T1-condition", Title: "How small the gradient of L4 must be", Source: "002 Theorem 1 and Remark 2",
		Claim: "Every approximate local minimum, ‖∇L4‖ ≤ ε with curvature of at least −τ/2, has (A†)ᵀ within ε₀ of " +
			"P·D·Γ·A*.",
		Settings: fmt.Sprintf("As 002-T1, for %d sets of regressors of which M = Σp_i·a_i·a_iᵀ has condition numbers "+
			"from 2.5, the least with these proportions, to 51; %d random starts each. μ, λ, the ridge, τ and ε are "+
			"the bounds of Remark 2 with its c = 0.01 and ε₀ = %g. Measured: from a minimum along every eigenvector "+
			"of the Hessian and 20 random directions, both ways, to where the largest entry of (A†)ᵀ − PΓA* comes to "+
			"ε₀; the least ‖∇L4‖ of those places is the largest ε that the theorem could have near that minimum. "+
			"Elsewhere a point passes for a minimum where the flattest saddle has a curvature above −τ/2.",
			number, starts, landscapeError),
		X: Axis{Label: "condition number of M", Log: true}, Y: Axis{Label: "norm of the gradient of L4", Log: true},
		Columns: []string{"condition number", "starts that end elsewhere", "least curvature of a minimum",
			"largest entry of E", "curvature of the flattest saddle", "−τ/2", "‖∇L4‖ at E = ε₀", "ε of Remark 2"},
		measure: "gradient", judge: judgeLandscapeCondition,
	}
	var line trace
	for _, m := range mixtures {
		line.add(m.condition, m.gradient)
	}
	for i, m := range mixtures {
		f.units = append(f.units, unit{key: fmt.Sprintf("landscape of condition %.6g", m.condition),
			run: func(ctx context.Context, seed uint64) (*output, error) {
				out, err := m.overStarts(ctx, i, seed)
				if err == nil && i == 0 {
					out.reference("gradient", seriesRemark, &line)
				}
				return out, err
			}})
	}
	return f
}

// overStarts is what the starts of 002-T1 say of the mixture, and how small its gradient must be.
func (m landscapeMix) overStarts(ctx context.Context, run int, seed uint64) (*output, error) {
	met, err := m.run(ctx, run, seed)
	if err != nil {
		return nil, err
	}
	values := func(series string) (v []float64) {
		for _, c := range met.Curves {
			if c.Series == series {
				v = append(v, c.Y...)
			}
		}
		return v
	}
	heights := values(seriesHeight)
	far, flat := len(heights)-below(heights, lowestHeight), slices.Max(values(seriesFlat))
	gradient, err := m.slack(ctx, seed)
	if err != nil {
		return nil, err
	}
	out, entry := new(output), worst(values(seriesPseudo))
	out.point("gradient", seriesSlack, run, m.condition, gradient)
	out.point("beside", seriesAway, run, m.condition, float64(far))
	out.point("beside", seriesStrict, run, m.condition, slices.Min(values(seriesStrict)))
	out.point("beside", seriesPseudo, run, m.condition, entry)
	out.point("beside", seriesSaddle, run, m.condition, -flat/(m.tau/2))
	out.Rows = [][]string{{fmt.Sprintf("%.3g", m.condition), fmt.Sprintf("%d of %d", far, len(heights)),
		g2(slices.Min(values(seriesStrict))), g2(entry), g2(flat), g2(-m.tau / 2), g2(gradient), g2(m.gradient)}}
	return out, nil
}

// slack is the least ‖∇L4‖ at E = ε₀, over directions from a minimum.
func (m landscapeMix) slack(ctx context.Context, seed uint64) (float64, error) {
	l, rng := m.loss(), stream.New(seed, stream.Study, 3)
	x, err := m.minimum(ctx, l, seed)
	if err != nil {
		return 0, err
	}
	_, directions, ok := eigenpairs(hessian(ctx, l, x))
	if !ok {
		return 0, errors.New("the Hessian at a minimum has no eigenvalues")
	}
	for range 20 {
		v := make([]float64, l.Dim())
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(v, 2), v)
		directions = append(directions, v)
	}
	least, g, at := math.Inf(1), make([]float64, l.Dim()), make([]float64, l.Dim())
	for _, v := range directions {
		for _, way := range []float64{-1, 1} {
			near, far := 0.0, 1.0
			for range 60 { // E is above ε₀ at far
				r := (near + far) / 2
				floats.AddScaledTo(at, x, way*r, v)
				e, err := m.entry(at)
				if err != nil {
					return 0, err
				}
				if e < landscapeError {
					near = r
				} else {
					far = r
				}
			}
			if _, err := l.Grad(ctx, g, at); err != nil {
				return 0, err
			}
			least = min(least, floats.Norm(g, 2))
		}
	}
	return least, nil
}

// minimum is the lowest of ten starts' ends.
func (m landscapeMix) minimum(ctx context.Context, l *tensor.L4, seed uint64) ([]float64, error) {
	rng, best := stream.New(seed, stream.Study, 4), &optim.Result{Value: math.Inf(1)}
	for range 10 {
		x := make([]float64, l.Dim())
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		r, err := optim.LBFGS(ctx, l, x, optim.Settings{Iterations: 5000, Tolerance: 1e-9})
		if err != nil {
			return nil, err
		}
		if r.Value < best.Value {
			best = r
		}
	}
	if at, ok := stationary(ctx, l, best.X); ok {
		return at, nil
	}
	return best.X, nil
}

// entry is the largest entry of (A†)ᵀ − PΓA*.
func (m landscapeMix) entry(x []float64) (float64, error) {
	k := len(m.p)
	rows, err := tensor.PseudoInverseRows(mat.NewDense(k, k, slices.Clone(x)))
	if err != nil {
		return 0, err
	}
	e, _ := farthest(rows, m.p, m.regressors)
	return e, nil
}

func judgeLandscapeCondition(o *Outcome) Verdict {
	measured, remark := o.Of(seriesSlack), o.computed(seriesRemark)
	least, most := math.Inf(1), 0.0
	for _, c := range measured {
		by := c.Y[0] / remark.Y[slices.Index(remark.X, c.X[0])]
		least, most = min(least, by), max(most, by)
	}
	far, strict := o.beside(seriesAway), o.beside(seriesStrict)
	entries, flat := o.beside(seriesPseudo), o.beside(seriesSaddle)
	v := Verdict{Measured: fmt.Sprintf("over %d matrices %.0f starts end above the lowest value; minima have "+
		"curvatures of at least %s; the largest entry of E is %s; the flattest saddles have negative curvatures of %s "+
		"to %s times τ/2; near the minima E comes to ε₀ at gradients %s to %s times Remark 2's ε", len(measured),
		floats.Sum(far), g2(slices.Min(strict)), g2(worst(entries)), g2(slices.Min(flat)), g2(slices.Max(flat)),
		g2(least), g2(most))}
	switch {
	case floats.Sum(far) > 0:
		v.Because = "a start ended in another minimum"
	case slices.Min(strict) <= 0:
		v.Because = "a minimum is not strict"
	case slices.Min(flat) <= 1:
		v.Because = "a saddle passes for an approximate local minimum"
	case worst(entries) > landscapeError:
		v.Because = "at a minimum the rows of (A†)ᵀ are not those of ΓA*"
	case least < 1:
		v.Because = "a point of so small a gradient has an E above ε₀"
	default:
		v.Agrees, v.Because = true, "with much to spare: ε need not be so small"
	}
	return v
}
