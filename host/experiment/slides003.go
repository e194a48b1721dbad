package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver/properties"
)

// slides003 are the claims of 003 that can be measured.
func slides003(z size) []*Figure {
	return []*Figure{rhoTable(), hessians(z), recoveries(z), descents(z), rowsByDimension(z),
		rowsByUnits(z), rowsByCondition(z), rowsByPrecision(z)}
}

func logistic(z float64) float64 { return 1 / (1 + math.Exp(-z)) }

func above(z, below float64) float64 {
	if z > 0 {
		return 1
	}
	return below
}

// hidden are the activations of 003 and four more, with ρ as slide 13 prints it.
var hidden = []struct {
	sdk.Func
	printed string     // "" where it prints nothing
	at      [3]float64 // what that says at the scales of rhoScales
}{
	{sdk.Func{Name: "ReLU", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0) },
		DG: func(z float64) float64 { return above(z, 0) }}, "0.091", [3]float64{.091, .091, .091}},
	{sdk.Func{Name: "leaky ReLU (0.01)", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0.01*z) },
		DG: func(z float64) float64 { return above(z, 0.01) }}, "0.089", [3]float64{.089, .089, .089}},
	{sdk.Func{Name: "squared ReLU", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0) * max(z, 0) },
		DG: func(z float64) float64 { return 2 * max(z, 0) }}, "0.27σ", [3]float64{.027, .27, 2.7}},
	{sdk.Func{Name: "∫exp(−t²)", G: func(z float64) float64 { return math.Sqrt(math.Pi) / 2 * math.Erf(z) },
		DG: func(z float64) float64 { return math.Exp(-z * z) }}, "1.9e−4, 5.2e−2, 2.5e−5", [3]float64{1.9e-4, 5.2e-2,
		2.5e-5}},
	{sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { t := math.Tanh(z); return 1 - t*t }},
		"1.8e−4, 4.9e−2, 5.1e−5", [3]float64{1.8e-4, 4.9e-2, 5.1e-5}},
	{sdk.Func{Name: "z", G: func(z float64) float64 { return z }, DG: func(float64) float64 { return 1 }}, "0",
		[3]float64{}},
	{sdk.Func{Name: "z²", G: func(z float64) float64 { return z * z }, DG: func(z float64) float64 { return 2 * z }},
		"0", [3]float64{}},
	{sdk.Func{Name: "sigmoid", G: logistic, DG: func(z float64) float64 { return logistic(z) * logistic(-z) }}, "",
		[3]float64{}},
	{sdk.Func{Name: "softplus", G: softplus, DG: logistic}, "", [3]float64{}},
	{sdk.Func{Name: "ELU", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0) + math.Expm1(min(z, 0)) },
		DG: func(z float64) float64 { return math.Exp(min(z, 0)) }}, "", [3]float64{}},
	{sdk.Func{Name: "leaky ReLU (0.1)", Kinks: []float64{0}, G: func(z float64) float64 { return max(z, 0.1*z) },
		DG: func(z float64) float64 { return above(z, 0.1) }}, "", [3]float64{}},
}

// hiddenNamed is the activation of that name.
func hiddenNamed(name string) sdk.Func {
	for _, h := range hidden {
		if h.Name == name {
			return h.Func
		}
	}
	panic("experiment: no activation " + name)
}

// rhoTable is the table of slide 13.
func rhoTable() *Figure {
	return &Figure{
		ID: "003-rho", Title: "ρ against the scale of the weights", Source: "003 slide 13",
		Claim: "ρ(σ) is .091 for ReLU, .089 for leaky ReLU, 0.27σ for squared ReLU, 0 for linear and quadratic " +
			"activations, and at σ = 0.1, 1, 10 1.9e−4, 5.2e−2, 2.5e−5 for erf and 1.8e−4, 4.9e−2, 5.1e−5 for tanh.",
		Settings: "ρ = min{α₂₀ − α₁₀² − α₁₁², α₂₂ − α₁₁² − α₁₂², α₁₀α₁₂ − α₁₁²}, α_ij = E[φ′(σZ)^i·Z^j], by " +
			"quadrature split at the kinks. The slide's numbers are those of leaky ReLU with slope 0.01, and of erf " +
			"as the integral of exp(−t²). The last four activations are not on it. The picture leaves out z and z², " +
			"of which ρ is not above 0. Nothing is random.",
		X: Axis{Label: "σ", Log: true}, Y: Axis{Label: "ρ(σ)", Log: true},
		Columns: []string{"φ", "ρ(0.1)", "ρ(1)", "ρ(10)", "printed"},
		units:   []unit{{key: "rho of 11 activations", run: rhoUnit}}, judge: judgeRho,
	}
}

var rhoScales = []float64{0.1, 1, 10}

func rhoUnit(ctx context.Context, _ uint64) (*output, error) {
	out := new(output)
	for _, h := range hidden {
		row := []string{h.Name}
		for _, s := range rhoScales {
			rho, _, err := properties.RhoOf(ctx, h.Func, s)
			if err != nil {
				return nil, err
			}
			row = append(row, fmt.Sprintf("%.5g", rho))
		}
		out.Rows = append(out.Rows, append(row, cmp.Or(h.printed, "–")))
		t := new(trace)
		for i := range 21 {
			s := 0.1 * math.Pow(100, float64(i)/20)
			rho, _, err := properties.RhoOf(ctx, h.Func, s)
			if err != nil {
				return nil, err
			}
			if rho > 0 {
				t.add(s, rho)
			}
		}
		if t.n() > 0 {
			out.add("", h.Name, 0, t)
		}
	}
	return out, nil
}

// judgeRho holds every column of the slide against what is measured: two digits are
// printed, of which the last may be cut off instead of rounded.
func judgeRho(o *Outcome) Verdict {
	var wrong []string
	columns := 0
	for i, h := range hidden {
		if h.printed == "" {
			continue
		}
		columns++
		right := true
		for s, want := range h.at {
			got, err := strconv.ParseFloat(o.Rows[i][s+1], 64)
			right = right && err == nil && math.Abs(got-want) <= 0.04*want
		}
		if !right {
			wrong = append(wrong, fmt.Sprintf("ρ of %s is %s, %s and %s, printed %s", h.Name, o.Rows[i][1],
				o.Rows[i][2], o.Rows[i][3], h.printed))
		}
	}
	return Verdict{
		Measured: fmt.Sprintf("%d of the %d columns are as printed at σ = 0.1, 1 and 10", columns-len(wrong), columns),
		Agrees:   len(wrong) == 0,
		Because:  strings.Join(wrong, "; "),
	}
}

// hessians are slides 9 to 11: the least eigenvalue at W = I.
func hessians(z size) *Figure {
	f := &Figure{
		ID: "003-hessian", Title: "The Hessian of the expected loss at W = I", Source: "003 slides 9 to 11 and 13",
		Identity: true,
		Claim: "At W = I the Hessian of the expected loss is singular for φ = z, with all a_1, …, a_d of Σ a_j = " +
			"0 as null vectors, and for φ = z², with all antisymmetric A; it is positive definite where P1 to P3 " +
			"hold, as for ReLU and leaky ReLU.",
		Settings: "v = 1, k = d; quadrature in the plane of two units. An eigenvalue below 1e−10 of the largest " +
			"counts as 0. The slides give the null vectors; that the least eigenvalue is ρ(1) for (leaky) ReLU and " +
			"that there are d(d−1) and d(d−1)/2 null vectors and no others is ours, and part of the verdict. Nothing " +
			"is random.",
		X: Axis{Label: "d"}, Y: Axis{Label: "least eigenvalue", Min: 0, Max: 0.12}, measure: "least",
		judge:   judgeHessians,
		Columns: []string{"φ", "d", "least eigenvalue", "ρ(1)", "null space", "expected"},
	}
	for _, name := range hessianOf {
		f.units = append(f.units, hessianUnit(name, z.of(4, 8)))
	}
	return f
}

// kinked are the activations of which the least eigenvalue is ρ(1), hessianOf all of
// the figure.
var (
	kinked    = []string{"ReLU", "leaky ReLU (0.1)"}
	hessianOf = append(slices.Clone(kinked), "z", "z²")
)

func rhoOf(name string) string { return "ρ(1) of " + name }

func hessianUnit(name string, most int) unit {
	return unit{key: fmt.Sprintf("hessian %s d to %d", name, most),
		run: func(ctx context.Context, _ uint64) (*output, error) {
			act, out := hiddenNamed(name), new(output)
			rho, _, err := properties.RhoOf(ctx, act, 1)
			if err != nil {
				return nil, err
			}
			least, ideal, null := new(trace), new(trace), new(trace)
			for d := 2; d <= most; d++ {
				h, _, err := network.PopulationHessian(ctx, act, network.Orthonormal(d))
				if err != nil {
					return nil, err
				}
				s, err := network.SpectrumOf(h)
				if err != nil {
					return nil, err
				}
				want := 0
				switch name {
				case "z":
					want = d * (d - 1)
				case "z²":
					want = d * (d - 1) / 2
				}
				x := float64(d)
				least.add(x, s.Least())
				null.add(x, math.Abs(float64(s.Null-want))+notNull(s, name, d))
				ideal.add(x, rho)
				out.Rows = append(out.Rows, []string{name, fmt.Sprint(d), fmt.Sprintf("%.8g", s.Least()),
					fmt.Sprintf("%.8g", rho), fmt.Sprint(s.Null), fmt.Sprint(want)})
			}
			out.add("least", name, 0, least)
			out.add("null", name, 0, null)
			if slices.Contains(kinked, name) {
				out.reference("least", rhoOf(name), ideal)
			}
			return out, nil
		}}
}

// notNull is how far the null vectors of a spectrum are from what the slides say of
// them.
func notNull(s *network.Spectrum, name string, d int) float64 {
	worst := 0.0
	for col := range s.Null {
		a := s.Vector.ColView(col)
		for p := range d {
			sum := 0.0
			for j := range d {
				sum += a.AtVec(j*d + p)
				if name == "z²" {
					worst = max(worst, math.Abs(a.AtVec(j*d+p)+a.AtVec(p*d+j)))
				}
			}
			if name == "z" {
				worst = max(worst, math.Abs(sum))
			}
		}
	}
	return worst
}

func judgeHessians(o *Outcome) Verdict {
	apart, null, least := 0.0, 0.0, math.Inf(1)
	var measured []string
	for _, name := range hessianOf {
		null = max(null, worst(o.beside(name)))
	}
	for _, name := range kinked {
		rho := o.computed(rhoOf(name))
		for i, v := range o.values(name) {
			apart, least = max(apart, math.Abs(v-rho.Y[i])), min(least, v)
		}
		measured = append(measured, fmt.Sprintf("%.6f for %s", o.values(name)[0], name))
	}
	v := Verdict{
		Measured: fmt.Sprintf("the least eigenvalue is %s at every d from 2 to %d, within %.1g of ρ(1); the null "+
			"spaces of φ = z and z² have d(d−1) and d(d−1)/2 dimensions and the null vectors of the slides, to %.1g",
			strings.Join(measured, " and "), 1+len(o.values(kinked[0])), apart, null),
		Agrees: least > 0 && apart < 1e-10 && null < 1e-8,
	}
	if !v.Agrees {
		v.Because = "the least eigenvalue is not ρ(1), or the null spaces are others"
	}
	return v
}
