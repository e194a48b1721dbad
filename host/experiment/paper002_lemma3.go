package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/minibatch"
	"github.com/gatedlearning/moe/host/model"
)

// perturbation is Lemma 3: κ against its bound.
func perturbation(z size) *Figure {
	f := &Figure{
		ID: "002-L3", Title: "How regressors' errors enter the gating step", Source: "002 Lemma 3",
		Claim: "‖G(W,A) − G(W,A*)‖ ≤ κε when ‖a_i − a_i*‖ = σ²ε, with κ ≤ (k−1)√(6(2+σ²))/2 for linear, sigmoid " +
			"and ReLU.",
		Settings: fmt.Sprintf("k = 2, d = 10, step 1 without the projection, which brings no two points farther "+
			"apart; ε = 0.1 and 1, the largest of %d draws of W in the unit ball and of the errors' directions; %d "+
			"rows in place of the population. Directed errors, at %d further W, at W* and at 0: both regressors "+
			"along w, along W, to and from each other, longer and shorter, turned in their plane, with signs alike "+
			"and opposite; and the pair that moves the step most to first order, from its derivative by all "+
			"coordinates of the regressors.", z.of(6, 30), z.of(8000, 30000), z.of(3, 10)),
		X: Axis{Label: "σ", Log: true}, Y: Axis{Label: "κ", Log: true}, judge: judgePerturbation,
	}
	for _, g := range []string{"identity", "relu", "sigmoid"} {
		f.units = append(f.units, perturbationUnit(paper(g, 2), z.of(8000, 30000), z.of(6, 30)))
	}
	for _, g := range []string{"identity", "relu", "sigmoid"} {
		f.units = append(f.units, directedUnit(paper(g, 2), z.of(4000, 30000), z.of(3, 10)))
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

// kappaUnit is κ against σ, of a data set of n rows at each.
func kappaUnit(s setting, key, series string, n int,
	kappa func(context.Context, *study, *model.Data) (float64, error)) unit {
	return unit{key: key, run: func(ctx context.Context, seed uint64) (*output, error) {
		t := new(trace)
		for _, sigma := range rateSigmas {
			s.sigma = sigma
			st, data, err := s.openTable(ctx, seed, n)
			if err != nil {
				return nil, err
			}
			k, err := kappa(ctx, st, data)
			if err != nil {
				return nil, err
			}
			t.add(sigma, k)
		}
		out := new(output)
		out.add("", series, 0, t)
		return out, nil
	}}
}

func perturbationUnit(s setting, n, draws int) unit {
	key := fmt.Sprintf("perturbation %s n %d draws %d", s.g, n, draws)
	return kappaUnit(s, key, s.g, n, func(ctx context.Context, st *study, data *model.Data) (kappa float64, err error) {
		for i := range draws {
			epsilon := []float64{0.1, 1}[i%2]
			w, off := st.unitRows(1), st.unitRows(2)
			intoBall(st, w)
			moved := st.truth.Clone()
			floats.AddScaled(moved.Regressors, st.sigma*st.sigma*epsilon, off)
			g, err := gateGradient(ctx, st, data, moved, w)
			if err != nil {
				return 0, err
			}
			gTrue, err := gateGradient(ctx, st, data, st.truth, w)
			if err != nil {
				return 0, err
			}
			kappa = max(kappa, floats.Distance(g, gTrue, 2)/epsilon)
		}
		return kappa, nil
	})
}

// intoBall brings a unit vector to a random length, so that it is uniform in the ball.
func intoBall(st *study, w []float64) {
	floats.Scale(math.Pow(st.rng.Float64(), 1/float64(st.d)), w)
}

// gateGradient is G(W,A) over a table, for the regressors of p.
func gateGradient(ctx context.Context, st *study, data *model.Data, p *model.Params, w []float64) ([]float64, error) {
	g := make([]float64, st.d)
	_, err := minibatch.NewGate(st.act, p).GradOn(ctx, g, w, data)
	return g, err
}

func directed(g string) string { return g + ", directed" }

// directedUnit is perturbationUnit for errors in directions that the mixture has, and in
// the worst to first order.
func directedUnit(s setting, n, draws int) unit {
	key := fmt.Sprintf("perturbation directed %s n %d draws %d", s.g, n, draws)
	return kappaUnit(s, key, directed(s.g), n,
		func(ctx context.Context, st *study, data *model.Data) (kappa float64, err error) {
			gates := [][]float64{make([]float64, s.d), slices.Clone(st.truth.Gating)}
			for range draws {
				w := st.unitRows(1)
				intoBall(st, w)
				gates = append(gates, w)
			}
			for _, w := range gates {
				k, err := directedKappa(ctx, st, data, w)
				if err != nil {
					return 0, err
				}
				kappa = max(kappa, k)
			}
			return kappa, nil
		})
}

// directedKappa is the largest ‖G(W,A) − G(W,A*)‖/ε over directed errors, at one W.
func directedKappa(ctx context.Context, st *study, data *model.Data, w []float64) (float64, error) {
	base, err := gateGradient(ctx, st, data, st.truth, w)
	if err != nil {
		return 0, err
	}
	change := func(direction []float64, epsilon float64) ([]float64, error) {
		moved := st.truth.Clone()
		floats.AddScaled(moved.Regressors, st.sigma*st.sigma*epsilon, direction)
		g, err := gateGradient(ctx, st, data, moved, w)
		if err != nil {
			return nil, err
		}
		floats.Sub(g, base)
		return g, nil
	}
	derivative := mat.NewDense(2*st.d, st.d, nil) // row r: by coordinate r of the regressors
	const small = 0.01
	for r := range 2 * st.d {
		unit := make([]float64, 2*st.d)
		unit[r] = 1
		g, err := change(unit, small)
		if err != nil {
			return 0, err
		}
		floats.Scale(1/small, g)
		derivative.SetRow(r, g)
	}
	kappa := 0.0
	for _, direction := range append(structured(st.truth, w), worstPair(derivative)) {
		for _, epsilon := range []float64{0.1, 1} {
			g, err := change(direction, epsilon)
			if err != nil {
				return 0, err
			}
			kappa = max(kappa, floats.Norm(g, 2)/epsilon)
		}
	}
	return kappa, nil
}

// structured are pairs of unit directions that two regressors may err in: along the gate,
// along W, to each other, along themselves, turned, each with signs alike and opposite.
func structured(truth *model.Params, w []float64) (out [][]float64) {
	d := truth.D
	a1, a2 := truth.Regressor(0), truth.Regressor(1)
	between := make([]float64, d)
	floats.SubTo(between, a2, a1)
	for _, pair := range [][2][]float64{{truth.Gating, truth.Gating}, {w, w}, {between, between}, {a1, a2}, {a2, a1}} {
		for _, sign := range []float64{1, -1} {
			both := slices.Concat(pair[0], pair[1])
			if one, two := floats.Norm(both[:d], 2), floats.Norm(both[d:], 2); one > 0 && two > 0 {
				floats.Scale(1/one, both[:d])
				floats.Scale(sign/two, both[d:])
				out = append(out, both)
			}
		}
	}
	return out
}

// worstPair is the pair of unit directions whose sum of derivatives is longest, from rows of
// derivatives by the coordinates of the one and of the other: each in turn along what the
// sum has of it.
func worstPair(derivative *mat.Dense) []float64 {
	rows, d := derivative.Dims()
	out := make([]float64, rows)
	for r := range out {
		out[r] = 1 / math.Sqrt(float64(d))
	}
	x := mat.NewVecDense(rows, out)
	for range 100 {
		var sum, next mat.VecDense
		sum.MulVec(derivative.T(), x)
		next.MulVec(derivative, &sum)
		copy(out, next.RawVector().Data)
		for from := 0; from < rows; from += rows / 2 {
			if norm := floats.Norm(out[from:from+rows/2], 2); norm > 0 {
				floats.Scale(1/norm, out[from:from+rows/2])
			}
		}
	}
	return out
}

func judgePerturbation(o *Outcome) Verdict {
	v := Verdict{Agrees: true}
	var measured []string
	for _, g := range []string{"identity", "relu", "sigmoid"} {
		random, aimed := overBound(o.Of(g)[0]), overBound(o.Of(directed(g))[0])
		measured = append(measured, fmt.Sprintf("%s %.2g with random and %.2g with directed errors", g, random, aimed))
		if max(random, aimed) > 1 {
			v.Agrees, v.Because = false, "the bound is exceeded for "+g
		}
	}
	v.Measured = "largest κ over its bound: " + strings.Join(measured, ", ")
	return v
}

// overBound is the largest κ of a curve over σ, over its bound.
func overBound(c Curve) float64 {
	ratio := 0.0
	for i, sigma := range c.X {
		ratio = max(ratio, c.Y[i]/kappaBound(sigma))
	}
	return ratio
}
