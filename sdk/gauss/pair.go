package gauss

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
)

const (
	// pairRange is the half-width of the range of each variable in the plane: what
	// lies beyond has a density below e^−72, and derivatives of activations grow
	// slowly.
	pairRange = 12
	// pairRounds bounds how often the panels of the plane are halved.
	pairRounds = 5
	pairAgree  = 1e-12 // of two rules, relative to the integral of the absolute value
)

// Pair are the moments of two functions of correlated standard normals,
//
//	Value[a][b] = E[f(U)·h(V)·Z^a·W^b],  a + b ≤ 2,
//
// with U = Z and V = c·Z + √(1−c²)·W, where Z and W are independent N(0,1).
// Error is the largest difference from a rule of half as many panels, which as
// a rule overstates the error.
type Pair struct {
	Value [3][3]float64
	Error float64
}

// NewPair computes the moments of f and h, smooth between their kinks, at the
// correlation −1 ≤ c ≤ 1. The rule is Gauss–Legendre on panels of both
// variables: those of Z are split at the kinks of f and where a kink of h comes
// into reach, those of W at the kinks of h for every Z.
func NewPair(ctx context.Context, f Func, kinksF []float64, h Func, kinksH []float64, c float64) (Pair, error) {
	if !(c >= -1 && c <= 1) {
		panic(fmt.Sprintf("gauss: correlation %v", c))
	}
	var out Pair
	for round := range pairRounds {
		p := plane{f: f, h: h, kinksF: kinksF, kinksH: kinksH, c: c, s: math.Sqrt((1 - c) * (1 + c)),
			width: 1 / float64(int(1)<<round)}
		value, size, err := p.moments(ctx)
		if err != nil {
			return Pair{}, err
		}
		diff, scale := 0.0, 0.0
		for a := range 3 {
			for b := range 3 - a {
				diff = max(diff, math.Abs(value[a][b]-out.Value[a][b]))
				scale = max(scale, size[a][b])
			}
		}
		out = Pair{Value: value, Error: diff}
		if round > 0 && diff <= pairAgree*scale {
			break
		}
	}
	return out, nil
}

// plane is one rule for the plane of Z and W.
type plane struct {
	f, h           Func
	kinksF, kinksH []float64
	c, s, width    float64
}

// near is the √(1−c²) below which U and ±V count as one variable.
const near = 1e-7

func (p *plane) moments(ctx context.Context) (value, size [3][3]float64, err error) {
	outer := p.panels(p.outerCuts())
	f := make([]float64, len(outer.z))
	if err := p.f(ctx, f, outer.z); err != nil {
		return value, size, err
	}
	for i, z := range outer.z {
		if f[i] == 0 {
			continue
		}
		inner, err := p.given(ctx, z)
		if err != nil {
			return value, size, err
		}
		t := outer.w[i] * f[i]
		for a := range 3 {
			for b := range 3 - a {
				value[a][b] += t * inner[b]
				size[a][b] += math.Abs(t * inner[b])
			}
			t *= z
		}
	}
	return value, size, nil
}

// given returns E[h(c·z + s·W)·W^b] for b ≤ 2.
func (p *plane) given(ctx context.Context, z float64) (out [3]float64, err error) {
	if p.s < near {
		v := []float64{p.c * z}
		if err := p.h(ctx, v, v); err != nil {
			return out, err
		}
		return [3]float64{v[0], 0, v[0]}, nil // E W = 0, E W² = 1
	}
	var cuts []float64
	for _, k := range p.kinksH {
		cuts = append(cuts, (k-p.c*z)/p.s)
	}
	r := p.panels(cuts)
	for i, w := range r.z {
		r.g[i] = p.c*z + p.s*w
	}
	if err := p.h(ctx, r.g, r.g); err != nil {
		return out, err
	}
	for i, w := range r.z {
		t := r.w[i] * r.g[i]
		out[0] += t
		out[1] += t * w
		out[2] += t * w * w
	}
	return out, nil
}

// outerCuts are where E[f(Z)·h(V) | Z = z] is not smooth in z, or changes on the
// scale s of W that is left: at the kinks of f, and around those of h.
func (p *plane) outerCuts() []float64 {
	cuts := slices.Clone(p.kinksF)
	for _, k := range p.kinksH {
		if p.c == 0 {
			break
		}
		cuts = append(cuts, k/p.c)
		if p.s < near {
			continue
		}
		for j := 1.0; j <= pairRange; j++ {
			cuts = append(cuts, (k-j*p.s)/p.c, (k+j*p.s)/p.c)
		}
	}
	return cuts
}

// panels returns the rule on panels of at most the plane's width between the cuts.
func (p *plane) panels(cuts []float64) rule {
	edges := []float64{-pairRange, pairRange}
	for _, c := range cuts {
		if math.Abs(c) < pairRange {
			edges = append(edges, c)
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	var all [][2]float64
	for i, a := range edges[:len(edges)-1] {
		b := edges[i+1]
		all = append(all, divide(a, b, int(math.Ceil((b-a)/p.width)))...)
	}
	return nodes(all)
}

// Sphere returns E[f(⟨x, y⟩)] for x and y uniform on the unit sphere of ℝ^d,
// d ≥ 2, where f is smooth in the angle between them: the density of the angle
// is proportional to sin^{d−2}.
func Sphere(d int, f func(t float64) float64) float64 {
	if d < 2 {
		panic(fmt.Sprintf("gauss: a sphere in %d dimensions", d))
	}
	var x, w [order]float64
	quad.Legendre{}.FixedLocations(x[:], w[:], -1, 1)
	const panels = 64
	var sum, mass float64
	for _, e := range divide(0, math.Pi, panels) {
		mid, half := (e[0]+e[1])/2, (e[1]-e[0])/2
		for i := range x {
			angle := mid + half*x[i]
			t := w[i] * math.Pow(math.Sin(angle), float64(d-2))
			mass += t
			sum += t * f(math.Cos(angle))
		}
	}
	return sum / mass
}
