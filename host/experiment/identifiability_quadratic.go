package experiment

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// The gates of the figure identifiability-quadratic, by which of them have terms of first and of second degree.
var quadraticGates = []struct {
	name          string
	first, second bool
}{{"linear", true, false}, {"quadratic polynomial", true, true}, {"quadratic monomial", false, true}}

// quadraticExperts are its experts, with derivatives.
var quadraticExperts = []struct {
	name      string
	g, dg, d2 func(z float64) float64
}{
	{"identity", func(z float64) float64 { return z }, func(float64) float64 { return 1 },
		func(float64) float64 { return 0 }},
	{"tanh", math.Tanh, func(z float64) float64 { return 1 - math.Pow(math.Tanh(z), 2) },
		func(z float64) float64 { return -2 * math.Tanh(z) * (1 - math.Pow(math.Tanh(z), 2)) }},
}

// What is asked of the figure identifiability-quadratic: a dependence of a gate's and an expert's parameter, or of an
// expert's on its own.
const (
	asSquares = "least squares"
	asDensity = "likelihood"

	leastValues = "gate and expert"
	ownSecond   = "expert alone"

	quadraticZero, quadraticClear = 1e-10, 1e-8
	quadraticLess                 = 1e-12 // less is rounding
)

// quadraticSpreads are the standard deviations of x.
var quadraticSpreads = []float64{.5, .7, 1, 1.4, 2}

// quadraticPoint is where the functions are looked at: two experts in d = 2, of which the second has no gate.
var quadraticPoint = struct {
	a     [2][2]float64
	t     [2]float64
	c     float64
	b     [2]float64
	q     [3]float64 // of x_1², x_1x_2 and x_2²
	sigma float64
}{a: [2][2]float64{{1.2, -.5}, {.3, .8}}, t: [2]float64{.5, .1}, c: .3, b: [2]float64{.7, -.4},
	q: [3]float64{.3, .2, -.4}, sigma: .5}

// identifiabilityQuadratic is which second derivatives of a mixture with a quadratic gate are among the first ones.
func identifiabilityQuadratic() *Figure {
	f := &Figure{
		ID:     "identifiability-quadratic",
		Title:  "Quadratic gates: what a gate's and an expert's parameters have in common",
		Source: "arXiv 2410.11222 (Akbarian, Nguyen, Han & Ho)",
		Claim: "A quadratic polynomial gate, as a linear one, interacts with its experts by a partial " +
			"differential equation, a second derivative by a gate's and an expert's parameter being a first one; " +
			"a quadratic monomial gate does not.",
		Settings: "By formulas. exp(c + ⟨b, x⟩ + ⟨x, Qx⟩)·φ(y; g(⟨a, x⟩ + t), v), or times g alone for least " +
			"squares: ∂²/∂b∂t = ∂/∂a, whatever g is; ∂²/∂Q∂t and ∂²/∂Q∂a have degree 2 and 3 in x, where first " +
			"derivatives by a and t have 1 and 0. Checked at two experts in d = 2 with σ = .5: all first " +
			"derivatives by both experts' parameters and the first's gate, and with them one second derivative by " +
			"one of the gate's parameters, but for c, and one of its expert's, each as a function of x (least " +
			"squares) or of x and y over the density (likelihood) at norm 1 under x ~ N(0, s²I), on 25 × 25 " +
			"points and multiples of σ. Drawn is the least singular value of these, the root of the least " +
			"eigenvalue of their Gram matrix, at the worst second derivative. 0 counts up to 1e−10, not 0 from " +
			"1e−8. What is measured says beside it whether a second derivative by an expert's parameters alone is " +
			"a first one. Only the source's abstract and the names of its gates could be read; its rates are not " +
			"judged. What is less than 1e−12 is rounding, and drawn there.",
		X: Axis{Label: "s", Log: true}, Y: Axis{Label: "least singular value", Log: true}, measure: leastValues,
		judge: judgeQuadratic,
	}
	for _, way := range []string{asSquares, asDensity} {
		f.Views = append(f.Views, View{Title: way, Part: way, Y: f.Y})
	}
	f.units = []unit{{key: fmt.Sprintf("identifiability quadratic gates %v", quadraticSpreads), run: quadraticRun}}
	return f
}

// quadraticSeries names a line.
func quadraticSeries(gate, expert, way string) string { return gate + ", " + expert + ", " + way }

// quadraticRun computes the least singular values.
func quadraticRun(context.Context, uint64) (*output, error) {
	out := new(output)
	for _, gate := range quadraticGates {
		for e, expert := range quadraticExperts {
			for _, way := range []string{asSquares, asDensity} {
				mixed, own := new(trace), math.Inf(1)
				for _, s := range quadraticSpreads {
					m, o := quadraticLeast(gate.first, gate.second, e, way == asDensity, s)
					mixed.add(s, max(m, quadraticLess))
					own = min(own, o)
				}
				out.reference(leastValues, quadraticSeries(gate.name, expert.name, way), mixed)
				out.point(ownSecond, quadraticSeries(gate.name, expert.name, way), 0, 0, own)
			}
		}
	}
	return out, nil
}

// quadraticNode has the values of what derivatives are made of, at a point with its weight's root.
type quadraticNode struct {
	root   float64
	x      [2]float64
	gate   float64    // of the first gate
	mean   [2]float64 // ∂/∂m of expert j
	twice  [2]float64 // ∂²/∂m²
	level  [2]float64 // ∂/∂v; 0 of least squares
	dg, d2 [2]float64
}

// quadraticLeast is the least singular value of the first derivatives with a second one, at the worst of those by a
// gate's and an expert's parameter, and of those by an expert's alone.
func quadraticLeast(first, second bool, expert int, density bool, s float64) (mixed, own float64) {
	nodes := quadraticAt(first, second, expert, density, s)
	type function = func(n quadraticNode) float64
	one := function(func(quadraticNode) float64 { return 1 })
	axes := []function{func(n quadraticNode) float64 { return n.x[0] }, func(n quadraticNode) float64 { return n.x[1] }}
	times := func(fs ...function) function {
		return func(n quadraticNode) float64 {
			p := 1.0
			for _, f := range fs {
				p *= f(n)
			}
			return p
		}
	}
	var features []function // of the gate, but for c
	if first {
		features = append(features, axes...)
	}
	if second {
		features = append(features, times(axes[0], axes[0]), times(axes[0], axes[1]), times(axes[1], axes[1]))
	}
	gate := function(func(n quadraticNode) float64 { return n.gate })
	firsts := []function{gate}
	for _, f := range features {
		firsts = append(firsts, times(gate, f))
	}
	inputs := append(slices.Clone(axes), one) // of a and t
	var mixes, owns []function
	for j := range 2 {
		mean := function(func(n quadraticNode) float64 { return n.mean[j] * n.dg[j] })
		level := function(func(n quadraticNode) float64 { return n.level[j] })
		twice := function(func(n quadraticNode) float64 { return n.twice[j]*n.dg[j]*n.dg[j] + n.mean[j]*n.d2[j] })
		var parts []function
		for i, in := range inputs {
			parts = append(parts, times(mean, in))
			for _, other := range inputs[i:] {
				owns = append(owns, times(twice, in, other))
			}
		}
		if density {
			parts = append(parts, level)
		}
		firsts = append(firsts, parts...)
		if j > 0 {
			continue // whose gate is 0
		}
		for _, f := range features {
			for _, p := range parts {
				mixes = append(mixes, times(p, f))
			}
		}
	}
	all := slices.Concat(firsts, mixes, owns)
	matrix, column := mat.NewDense(len(nodes), len(all), nil), make([]float64, len(nodes))
	for c, f := range all {
		for i, n := range nodes {
			column[i] = n.root * f(n)
		}
		if size := floats.Norm(column, 2); size > 0 {
			floats.Scale(1/size, column)
		}
		matrix.SetCol(c, column)
	}
	var qr mat.QR
	var r mat.Dense
	qr.Factorize(matrix)
	qr.RTo(&r) // whose columns have the singular values of the matrix's
	with := mat.NewDense(len(all), len(firsts)+1, nil)
	with.Copy(r.Slice(0, len(all), 0, len(firsts)))
	least := func(from, to int) float64 {
		worst := math.Inf(1)
		for c := from; c < to; c++ {
			with.SetCol(len(firsts), mat.Col(nil, c, r.Slice(0, len(all), 0, len(all))))
			var svd mat.SVD
			if !svd.Factorize(with, mat.SVDNone) {
				return math.NaN()
			}
			worst = min(worst, floats.Min(svd.Values(nil)))
		}
		return worst
	}
	return least(len(firsts), len(firsts)+len(mixes)), least(len(firsts)+len(mixes), len(all))
}

// quadraticAt are the nodes.
func quadraticAt(first, second bool, expert int, density bool, s float64) (nodes []quadraticNode) {
	p, e := quadraticPoint, quadraticExperts[expert]
	for i := range 25 {
		for k := range 25 {
			u := [2]float64{float64(i)/2 - 6, float64(k)/2 - 6}
			n := quadraticNode{x: [2]float64{s * u[0], s * u[1]}, root: math.Exp(-(u[0]*u[0] + u[1]*u[1]) / 4)}
			log := p.c
			if first {
				log += p.b[0]*n.x[0] + p.b[1]*n.x[1]
			}
			if second {
				log += p.q[0]*n.x[0]*n.x[0] + p.q[1]*n.x[0]*n.x[1] + p.q[2]*n.x[1]*n.x[1]
			}
			share := [2]float64{logistic(log), logistic(-log)}
			var mean [2]float64
			for j := range 2 {
				z := p.a[j][0]*n.x[0] + p.a[j][1]*n.x[1] + p.t[j]
				mean[j], n.dg[j], n.d2[j] = e.g(z), e.dg(z), e.d2(z)
			}
			if !density {
				n.mean, n.gate = share, share[0]*share[1]*(mean[0]-mean[1])
				nodes = append(nodes, n)
				continue
			}
			nodes = append(nodes, n.across(share, mean, p.sigma)...)
		}
	}
	return nodes
}

// across are the nodes at an x for y a multiple of σ, where functions are those of the density over the density.
func (n quadraticNode) across(share, mean [2]float64, sigma float64) (nodes []quadraticNode) {
	step, v := sigma, sigma*sigma
	lo, hi := min(mean[0], mean[1])-6*sigma, max(mean[0], mean[1])+6*sigma
	for y := math.Ceil(lo/step) * step; y <= hi; y += step {
		at, sum := n, 0.0
		var part, z [2]float64
		for j := range 2 {
			z[j] = (y - mean[j]) / sigma
			part[j] = share[j] * math.Exp(-z[j]*z[j]/2) / (sigma * math.Sqrt(2*math.Pi))
			sum += part[j]
		}
		if sum < 1e-12 {
			continue
		}
		at.root *= math.Sqrt(sum * step)
		at.gate = part[0]/sum - share[0]
		for j := range 2 {
			at.mean[j] = part[j] / sum * z[j] / sigma
			at.twice[j] = part[j] / sum * (z[j]*z[j] - 1) / v
			at.level[j] = at.twice[j] / 2
		}
		nodes = append(nodes, at)
	}
	return nodes
}

// judgeQuadratic asks for 0 where the gate has terms of first degree, and for more where it has not.
func judgeQuadratic(o *Outcome) Verdict {
	var not, clear, alike []string
	own := map[string]int{}
	dependent, least := 0.0, math.Inf(1)
	for _, gate := range quadraticGates {
		for _, expert := range quadraticExperts {
			for _, way := range []string{asSquares, asDensity} {
				series := quadraticSeries(gate.name, expert.name, way)
				v := o.computed(series).Y
				lo, hi := floats.Min(v), floats.Max(v)
				switch {
				case gate.first && !(hi <= quadraticZero):
					not = append(not, fmt.Sprintf("%s has %.1e", series, hi))
				case !gate.first && !(lo >= quadraticClear):
					not = append(not, fmt.Sprintf("%s has %.1e", series, lo))
				}
				if gate.first {
					dependent = max(dependent, hi)
				} else {
					least = min(least, lo)
					clear = append(clear, fmt.Sprintf("%s, %s %.1e", expert.name, way, lo))
				}
				if alone := o.beside(series); len(alone) == 1 && alone[0] <= quadraticZero {
					own[expert.name+", "+way]++
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		alike = append(alike, fmt.Sprintf("%s, under %d of %d gates", name, own[name], len(quadraticGates)))
	}
	return Verdict{Agrees: len(not) == 0, Because: strings.Join(not, "; "), Measured: fmt.Sprintf(
		"at most %.0e, which is 0, with terms of first degree; of the monomial gate at least %.1e (%s). A second "+
			"derivative of an expert alone is a first one, or 0, of %s", dependent, least, strings.Join(clear, "; "),
		strings.Join(alike, "; "))}
}
