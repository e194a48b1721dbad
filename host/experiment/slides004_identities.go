package experiment

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/diverse"
)

// identities of 004 between quantities that are computed in ways of their own.
var identities = []string{
	"∂L/∂W = D·r",
	"G_n = DᵀD/n",
	"‖∂L/∂W‖² = n·rᵀG_n r",
	"L2² = (n−1)/n·R + 1/(4n) − E k²",
	"⟨∂R/∂w_k, w_k⟩ = 0",
}

const (
	// identical is the relative error of an identity that counts as rounding.
	identical = 1e-10
	// leastIdentity stands for all errors below it.
	leastIdentity = 1e-18
)

// identityFigure holds the identities that the rest of 004 is built on.
func identityFigure(z size) *Figure {
	f := &Figure{
		ID: "004-identities", Title: "Identities",
		Identity: true,
		Source:   "004, Key inequality; Bounding the second term; A regularization term",
		Claim: "∂L/∂W = D·r with DᵀD/n = G_n, so that ‖r‖ ≤ ‖∂L/∂W‖/s_m(D), and the regulariser is the " +
			"discrepancy but for constants.",
		Settings: fmt.Sprintf("The gradient by the network's own loss, D, G_n by the kernel's definition, R and L2 "+
			"each by its formula, on %d draws of points, weights, signs and normal targets, m = 20 points in ℝ¹⁰. r "+
			"has the loss's 1/m in it. Errors are relative to the larger side's largest entry; they must be below "+
			"1e−10. R does not change with a weight's length, which is the last identity. An error of 0 is drawn at "+
			"1e−18.", z.of(3, 20)),
		X: Axis{Label: "n", Log: true}, Y: Axis{Label: "relative error", Log: true}, Scatter: true,
		judge: judgeIdentities,
	}
	for run := range z.of(3, 20) {
		f.units = append(f.units, unit{key: fmt.Sprintf("identities run %d", run),
			run: func(ctx context.Context, seed uint64) (*output, error) {
				out := new(output)
				for i, n := range []int{10, 40, 160} {
					errors, err := identityErrors(ctx, diverse.NewDraw(seed+uint64(i), n, 20, 10))
					if err != nil {
						return nil, err
					}
					for j, e := range errors {
						// Side by side.
						out.point("", identities[j], run, float64(n)*math.Pow(1.06, float64(j-2)),
							max(e, leastIdentity))
					}
				}
				return out, nil
			}})
	}
	return f
}

// identityErrors are the errors of the identities on a draw.
func identityErrors(ctx context.Context, s *diverse.Draw) ([]float64, error) {
	m, _ := s.X.Dims()
	n, d := s.W.Dims()
	y := make([]float64, m)
	for l := range y {
		y[l] = s.Rng.NormFloat64()
	}
	flat := s.W.RawMatrix().Data
	o, err := diverse.NewObjective(s.X, y, s.V, 0)
	if err != nil {
		return nil, err
	}
	gradient := make([]float64, n*d)
	if _, err := o.Grad(ctx, gradient, flat); err != nil {
		return nil, err
	}
	extended := diverse.Extended(s.W, s.V, s.X)
	r := diverse.Residuals(s.W, s.V, s.X, y)
	floats.Scale(1/float64(m), r)
	var byD mat.VecDense
	byD.MulVec(extended, mat.NewVecDense(m, r))

	gram := diverse.GramOf(s.W, s.X)
	var byExtended mat.Dense
	byExtended.Mul(extended.T(), extended)
	byExtended.Scale(1/float64(n), &byExtended)

	quadratic := float64(n) * mat.Inner(mat.NewVecDense(m, r), gram, mat.NewVecDense(m, r))

	regulariser, pull := diverse.Regulariser{N: n, D: d}, make([]float64, n*d)
	value, err := regulariser.Grad(ctx, pull, flat)
	if err != nil {
		return nil, err
	}
	share := 1 / float64(n)
	byR := (1-share)*value + share/4 - diverse.MeanSquare(d)
	along := make([]float64, n)
	for k := range along {
		along[k] = floats.Dot(pull[k*d:(k+1)*d], flat[k*d:(k+1)*d])
	}
	return []float64{
		apart(gradient, byD.RawVector().Data),
		apart(mat.DenseCopyOf(gram).RawMatrix().Data, byExtended.RawMatrix().Data),
		apart([]float64{floats.Dot(gradient, gradient)}, []float64{quadratic}),
		apart([]float64{diverse.Discrepancy(s.W)}, []float64{byR}),
		floats.Norm(along, math.Inf(1)) / floats.Norm(pull, math.Inf(1)),
	}, nil
}

// apart is the largest difference of two vectors relative to their largest entry.
func apart(a, b []float64) float64 {
	return floats.Distance(a, b, math.Inf(1)) / max(floats.Norm(a, math.Inf(1)), floats.Norm(b, math.Inf(1)))
}

func judgeIdentities(o *Outcome) Verdict {
	var measured, wrong []string
	for _, name := range identities {
		worst := 0.0
		for _, c := range o.Of(name) {
			worst = max(worst, slices.Max(c.Y))
		}
		measured = append(measured, fmt.Sprintf("%s to %.1e", name, worst))
		if !(worst < identical) {
			wrong = append(wrong, name)
		}
	}
	v := Verdict{Measured: strings.Join(measured, "; "), Agrees: len(wrong) == 0}
	if !v.Agrees {
		v.Because = "these do not hold to 1e−10: " + strings.Join(wrong, ", ")
	}
	return v
}
