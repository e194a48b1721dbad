package experiment

import (
	"context"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

func softplus(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) }

// extra are activations of the table that are not built in.
var extra = []sdk.Func{
	{Name: "softplus", G: softplus},
	{Name: "GELU", G: func(z float64) float64 { return z * 0.5 * math.Erfc(-z/math.Sqrt2) }},
	{Name: "ELU", Kinks: []float64{0}, G: func(z float64) float64 {
		if z > 0 {
			return z
		}
		return math.Expm1(z)
	}},
	{Name: "erf", G: math.Erf},
	{Name: "z³", G: func(z float64) float64 { return z * z * z }},
	{Name: "|z|", Kinks: []float64{0}, G: math.Abs},
	{Name: "step", Kinks: []float64{0}, G: func(z float64) float64 {
		if z > 0 {
			return 1
		}
		return 0
	}},
}

// appendixB is 002 Appendix B as a table over activations, and a picture of what
// the misprint in Example 2 does.
func appendixB() *Figure {
	return &Figure{
		ID: "002-B", Title: "Output transforms, printed and right",
		Source: "002 Appendix B, Examples 1 and 2; 001 (sigmoid)",
		Claim: "Identity, ReLU, leaky ReLU and sigmoid are valid, with the transforms printed for identity and " +
			"ReLU in 002 and for the cubic system of the sigmoid in 001.",
		Settings: "σ = 0.05 in the table. Right: quadrature split at the kinks, solved by rank. Printed: the " +
			"matrices and right-hand sides of the sources as they stand. The curves show α and β of ReLU against σ².",
		X: Axis{Label: "σ²"}, Y: Axis{Label: "coefficient", Min: -40, Max: 40},
		Columns: []string{"g", "valid", "α", "β", "γ", "δ", "c4", "c2", "printed in the source"},
		units:   []unit{{key: "appendix B with right-hand sides, 251 points", run: tableB}}, judge: judgeB,
	}
}

const (
	rightAlpha, printedAlpha = "α, right", "α, printed"
	rightBeta, printedBeta   = "β, right", "β, printed"
)

func tableB(ctx context.Context, _ uint64) (*output, error) {
	out := new(output)
	const sigma = 0.05
	for _, f := range catalog.Builtins() {
		slopes := []float64{0}
		switch f.Name {
		case "exp", "probit", "softplus": // for other densities than the normal one of the table
			continue
		case "leakyrelu":
			slopes = []float64{0.01, 0.1, 0.5}
		}
		for _, slope := range slopes {
			name, params := f.Name, sdk.Params(nil)
			if slope > 0 {
				name, params = fmt.Sprintf("%s(%g)", f.Name, slope), sdk.Params{"slope": slope}
			}
			act, err := f.Activation(params)
			if err != nil {
				return nil, err
			}
			if err := out.row(ctx, name, act, sigma); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range extra {
		if err := out.row(ctx, f.Name, f, sigma); err != nil {
			return nil, err
		}
	}
	return out, out.misprint(ctx)
}

func (o *output) row(ctx context.Context, name string, act sdk.Activation, sigma float64) error {
	m, err := sdk.Quadrature(ctx, act)
	if err != nil {
		return err
	}
	t, v := solver.Solve(m, m.System(sigma), sigma)
	row := []string{name, "yes"}
	if !v.Valid {
		row[1] = "no"
	} else if !v.SignsIdentifiable {
		row[1] = "up to signs"
	}
	for _, c := range []float64{t.Alpha, t.Beta, t.Gamma, t.Delta, t.C4, t.C2} {
		if math.Abs(c) < 1e-9 {
			c = 0
		}
		row = append(row, fmt.Sprintf("%.7g", c))
	}
	s := sigma * sigma
	printed := "–"
	switch name {
	case "identity":
		printed = fmt.Sprintf("β = %.7g, right", -6*(1+s))
	case "relu":
		a, b, g := printedReLU(s)
		printed = fmt.Sprintf("α = %.7g, β = %.7g, γ = %.7g: σ² in the β column is wrong", a, b, g)
	case "sigmoid":
		// The right-hand side is affine in σ²: its values at 0 and 1 tell all of it.
		at0, at1 := m.System(0).Cubic, m.System(1).Cubic
		printed = "cubic only: [0.2067 0.2066; 0.0624 −0.0001], right-hand side −0.1755 − 0.6199σ², −0.0936; right: " +
			strings.ReplaceAll(
				fmt.Sprintf("[%.6f %.6f; %.6f %.6f], %.6f − %.6fσ², %.6f", at0.Matrix[0][0], at0.Matrix[0][1],
					at0.Matrix[1][0], math.Abs(at0.Matrix[1][1]),
					at0.RHS[0], at0.RHS[0]-at1.RHS[0], at0.RHS[1]), "-", "−")
	}
	o.Rows = append(o.Rows, append(row, printed))
	return nil
}

// printedReLU solves the system of 002 Example 2 as it is printed, at s = σ².
func printedReLU(s float64) (alpha, beta, gamma float64) {
	r := math.Sqrt(2 / math.Pi)
	a := mat.NewDense(3, 3, []float64{
		1.5 + 1.5*s, r + s, 0.5,
		3 * r * (1 + s/2), 1 + s, r / 2,
		3, r + s, 0,
	})
	var x mat.VecDense
	if err := x.SolveVec(a, mat.NewVecDense(3, []float64{-r * (4 + 6*s), -(6 + 6*s), -r * (12 + 6*s)})); err != nil {
		return math.Inf(1), math.Inf(1), math.Inf(1)
	}
	return x.AtVec(0), x.AtVec(1), x.AtVec(2)
}

func (o *output) misprint(ctx context.Context) error {
	plugin, err := catalog.Open(ctx, "relu", nil)
	if err != nil {
		return err
	}
	m, err := sdk.MomentsOf(ctx, plugin.Activation)
	if err != nil {
		return err
	}
	curves := map[string]*trace{}
	names := []string{rightAlpha, printedAlpha, rightBeta, printedBeta}
	for _, n := range names {
		curves[n] = new(trace)
	}
	for i := range 251 { // so fine that beside the pole both sides are off the axis
		s := float64(i) / 1000
		t, _ := solver.Solve(m, m.System(math.Sqrt(s)), math.Sqrt(s))
		a, b, _ := printedReLU(s)
		for name, y := range map[string]float64{rightAlpha: t.Alpha, printedAlpha: a, rightBeta: t.Beta,
			printedBeta: b} {
			curves[name].add(s, y)
		}
	}
	for _, n := range names {
		o.add("", n, 0, curves[n])
	}
	return nil
}

func judgeB(o *Outcome) Verdict {
	valid := map[string]bool{}
	for _, r := range o.Rows {
		valid[r[0]] = r[1] == "yes"
	}
	right, printed := o.lasts(rightAlpha)[0], o.lasts(printedAlpha)[0]
	v := Verdict{Measured: fmt.Sprintf("of %d activations; for ReLU at σ² = 0.25 the printed system gives α = %.4g, "+
		"the right one %.4g; at σ = 0 they agree to %.1g",
		len(o.Rows), printed, right, math.Abs(o.Of(rightAlpha)[0].Y[0]-o.Of(printedAlpha)[0].Y[0]))}
	for _, name := range []string{"identity", "relu", "leakyrelu(0.01)", "sigmoid"} {
		if !valid[name] {
			v.Because = name + " is not valid"
			return v
		}
	}
	if math.Abs(right-printed) > 1e-6 {
		v.Because = "the matrix printed for ReLU has a σ² in its β column that does not belong there (E[Z] = E[He2] " +
			"= E[He3] = 0); the four are valid with the right one"
		return v
	}
	v.Agrees = true
	return v
}
