package moment

import (
	"cmp"
	"math"
	"math/cmplx"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"

	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

// planeMap is the population of two ReLU experts along e_1 and e_2 under a gating vector in their plane, with noise .05:
// the map of a round of corrections, of the angles of two regressors. By symmetry they stay in the plane, and no other
// direction matters.
type planeMap struct {
	w       [2]float64
	sigma   float64
	outputs interface {
		solver.Outputs
		Means(int) func(dst, m []float64)
	}
}

// node is a point of a rule over the plane, in polar coordinates, with the weight of N(0, I).
type node struct {
	x      [2]float64
	weight float64
}

// rule is one split at the angles where g of a regressor has its kink, and where two of them have the same.
func rule(angles []float64) (out []node) {
	edges := []float64{}
	add := func(v float64) { edges = append(edges, math.Mod(math.Mod(v, 2*math.Pi)+2*math.Pi, 2*math.Pi)) }
	for i := range 24 {
		add(2 * math.Pi * float64(i) / 24)
	}
	for i, a := range angles {
		add(a + math.Pi/2)
		add(a - math.Pi/2)
		for _, b := range angles[:i] {
			add((a + b) / 2)
			add((a+b)/2 + math.Pi)
		}
	}
	slices.Sort(edges)
	edges = append(edges, edges[0]+2*math.Pi)
	t, wt := gauss.Legendre(8)
	for e, lo := range edges[:len(edges)-1] {
		half := (edges[e+1] - lo) / 2
		if half < 1e-9 {
			continue
		}
		for i := range t {
			phi := lo + half*(1+t[i])
			for _, panel := range [][2]float64{{0, 1.2}, {1.2, 3}, {3, 7}} {
				wide := (panel[1] - panel[0]) / 2
				for j := range t {
					r := panel[0] + wide*(1+t[j])
					out = append(out, node{[2]float64{r * math.Cos(phi), r * math.Sin(phi)},
						half * wt[i] * wide * wt[j] * r * math.Exp(-r*r/2) / (2 * math.Pi)})
				}
			}
		}
	}
	return out
}

func (l planeMap) prior(w, x [2]float64) float64 { return 1 / (1 + math.Exp(-w[0]*x[0]-w[1]*x[1])) }

func heights(angles [2]float64, x [2]float64) (g [2]float64) {
	for i, a := range angles {
		g[i] = math.Max(math.Cos(a)*x[0]+math.Sin(a)*x[1], 0)
	}
	return g
}

var right = [2]float64{0, math.Pi / 2} // the truth

// gate is the gating vector of the largest mean log-likelihood, σ fitted with it, from 0 and σ as large as y's rms.
func (l planeMap) gate(t *testing.T, angles [2]float64, nodes []node) (w [2]float64) {
	t.Helper()
	noise, weight := gauss.Legendre(10)
	var e, we []float64
	total := 0.
	for i, v := range noise {
		v *= 4
		e, we = append(e, v), append(we, weight[i]*math.Exp(-v*v/2))
		total += we[i]
	}
	square := 0.
	for _, n := range nodes {
		p, g := l.prior(l.w, n.x), heights(right, n.x)
		square += n.weight * (p*g[0]*g[0] + (1-p)*g[1]*g[1])
	}
	// value is −E log f(y|x), and its gradient in w and log σ.
	value := func(grad, at []float64) float64 {
		var sum float64
		var slope [3]float64
		v, s := [2]float64{at[0], at[1]}, math.Exp(at[2])
		for _, n := range nodes {
			if n.weight < 1e-10 {
				continue
			}
			p, g, q, h := l.prior(l.w, n.x), heights(right, n.x), l.prior(v, n.x), heights(angles, n.x)
			for of := range 2 {
				for i := range e {
					y := g[of] + l.sigma*e[i]
					f := n.weight * [2]float64{p, 1 - p}[of] * we[i] / total
					a, b := (y-h[0])/s, (y-h[1])/s
					la, lb := math.Log(q)-a*a/2, math.Log1p(-q)-b*b/2
					most := max(la, lb)
					both := most + math.Log(math.Exp(la-most)+math.Exp(lb-most))
					r := math.Exp(la - both)
					sum += f * (both - at[2])
					slope[0] += f * (r - q) * n.x[0]
					slope[1] += f * (r - q) * n.x[1]
					slope[2] += f * (r*a*a + (1-r)*b*b - 1)
				}
			}
		}
		for i := range grad {
			grad[i] = -slope[i]
		}
		return -sum
	}
	var seen, slope [3]float64
	var last float64
	at := func(x []float64) float64 {
		if [3]float64(x) != seen || last == 0 {
			seen = [3]float64(x)
			last = value(slope[:], x)
		}
		return last
	}
	found, err := optimize.Minimize(optimize.Problem{Func: at,
		Grad: func(grad, x []float64) { at(x); copy(grad, slope[:]) }}, []float64{0, 0, math.Log(square) / 2},
		&optimize.Settings{GradientThreshold: 1e-9, MajorIterations: 60}, &optimize.BFGS{})
	if found == nil {
		t.Fatal(err)
	}
	return [2]float64{found.X[0], found.X[1]}
}

// round is the map: the gate fitted to regressors of these angles, what it has in the tensors taken off, and the angles
// of the regressors of what is left; not ok where T_2 has not two positive eigenvalues.
func (l planeMap) round(t *testing.T, angles [2]float64) (next, w [2]float64, ok bool) {
	t.Helper()
	nodes := rule([]float64{right[0], right[1], angles[0], angles[1]})
	w = l.gate(t, angles, nodes)
	t2, t3, share := mat.NewSymDense(2, nil), tensor.NewSym3(2), 0.
	of2, of3 := l.outputs.Means(2), l.outputs.Means(3)
	g, two, three := make([]float64, 4), make([]float64, 4), make([]float64, 4)
	for _, n := range nodes {
		p, q := l.prior(l.w, n.x), l.prior(w, n.x)
		truth, own := heights(right, n.x), heights(angles, n.x)
		copy(g, truth[:])
		copy(g[2:], own[:])
		of2(two, g)
		of3(three, g)
		share += n.weight * q
		f2 := n.weight * (p*two[0] + (1-p)*two[1] - q*two[2] - (1-q)*two[3])
		f3 := n.weight * (p*three[0] + (1-p)*three[1] - q*three[2] - (1-q)*three[3])
		h2, h3, _ := hermite(n.x[:])
		for i := range 2 {
			for j := i; j < 2; j++ {
				t2.SetSym(i, j, t2.At(i, j)+f2*h2.At(i, j))
			}
		}
		for i, v := range h3.Data {
			t3.Data[i] += f3 * v
		}
	}
	for i, a := range angles {
		v := []float64{math.Cos(a), math.Sin(a)}
		p := [2]float64{share, 1 - share}[i]
		t2.SymRankOne(t2, p, mat.NewVecDense(2, v))
		t3.AddRankOne(p, v)
	}
	next, ok = l.decomposed(t2, t3, angles)
	return next, w, ok
}

// decomposed are the angles of the regressors of tensors, in the order of those of others.
func (l planeMap) decomposed(t2 *mat.SymDense, t3 *tensor.Sym3, near [2]float64) (out [2]float64, ok bool) {
	s, err := leadingSubspace(t2, new(problem.Inputs), 2)
	if err != nil || !s.positive() {
		return near, false
	}
	reduced := t3.Through(s.Basis.T())
	reduced.ScaleModes(s.whitening())
	est := s.estimate(reduced.Orthogonal(rand.New(rand.NewPCG(1, 1)), restarts).Vectors, 0)
	for i := range 2 {
		a := est.Params.Regressor(i)
		out[i] = math.Atan2(a[1], a[0])
	}
	if apart(out[0], near[0])+apart(out[1], near[1]) > apart(out[1], near[0])+apart(out[0], near[1]) {
		out[0], out[1] = out[1], out[0]
	}
	return out, true
}

func apart(a, b float64) float64 { return math.Abs(math.Remainder(a-b, 2*math.Pi)) }

// wrong is E_reg of angles, against the truth.
func wrong(angles [2]float64) float64 {
	one := max(1-math.Abs(math.Cos(apart(angles[0], right[0]))), 1-math.Abs(math.Cos(apart(angles[1], right[1]))))
	other := max(1-math.Abs(math.Cos(apart(angles[0], right[1]))), 1-math.Abs(math.Cos(apart(angles[1], right[0]))))
	return min(one, other)
}

// slopes are the eigenvalues of the map's Jacobian, by central differences.
func (l planeMap) slopes(t *testing.T, at [2]float64) []complex128 {
	const h = 1e-3
	j := mat.NewDense(2, 2, nil)
	for c := range 2 {
		up, down := at, at
		up[c] += h
		down[c] -= h
		a, _, _ := l.round(t, up)
		b, _, _ := l.round(t, down)
		for r := range 2 {
			j.Set(r, c, math.Remainder(a[r]-b[r], 2*math.Pi)/(2*h))
		}
	}
	var eig mat.Eigen
	eig.Factorize(j, mat.EigenNone)
	values := eig.Values(nil)
	slices.SortFunc(values, func(a, b complex128) int { return cmp.Compare(cmplx.Abs(b), cmplx.Abs(a)) })
	return values
}

// planeMaps are the map with the transforms of least variance and with the polynomials, under w = (e_1 + e_2)/√2.
func planeMaps(t *testing.T) (least, polynomial planeMap) {
	t.Helper()
	act := activation(t, relu.Family, nil)
	m, err := sdk.MomentsOf(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	law, err := solver.NewLaw(t.Context(), act)
	if err != nil {
		t.Fatal(err)
	}
	const sigma = .05
	w := [2]float64{math.Sqrt(.5), math.Sqrt(.5)}
	q, _ := solver.Solve(m, m.System(sigma), sigma)
	return planeMap{w, sigma, law.Optimal(sigma, 2)}, planeMap{w, sigma, q}
}

// TestCorrectionsOfThePopulation: the truth is a fixed point of the population's map under a gate between the regressors,
// and attracts: the eigenvalues of the map's Jacobian there are below 1, and rounds from afar end there.
func TestCorrectionsOfThePopulation(t *testing.T) {
	testslow.Mark(t)
	least, polynomial := planeMaps(t)
	for _, c := range []struct {
		planeMap
		want [2]float64
	}{{least, [2]float64{-.45, .38}}, {polynomial, [2]float64{-.77, .69}}} {
		if next, w, ok := c.round(t, right); !ok || wrong(next) > 1e-8 ||
			math.Hypot(w[0]-c.w[0], w[1]-c.w[1]) > 1e-3 {
			t.Errorf("the truth goes to %v with gate %v", next, w)
		}
		have := c.slopes(t, right)
		for i, want := range c.want {
			if cmplx.Abs(have[i]-complex(want, 0)) > .01 {
				t.Errorf("eigenvalue %.4f, want %.2f", have[i], want)
			}
		}
	}
	at := [2]float64{-.8, 2.2}
	for range 4 {
		at, _, _ = least.round(t, at)
	}
	if e := wrong(at); e > 1e-4 {
		t.Errorf("E_reg %.3g after four rounds", e)
	}
}

// TestOtherFixedPoints: from a grid of angles, where do ten rounds of the population's map end?
//
//	MOE_STUDY=1 go test ./host/moment -run TestOtherFixedPoints -v -timeout 1h
func TestOtherFixedPoints(t *testing.T) {
	studySets(t)
	const steps = 8
	least, polynomial := planeMaps(t)
	for name, l := range map[string]planeMap{"least variance": least, "polynomials": polynomial} {
		starts, none, there, most := 0, 0, 0, 0.
		for i := range steps {
			for j := range i {
				at, ok := [2]float64{2 * math.Pi * float64(i) / steps, 2 * math.Pi * float64(j) / steps}, true
				if (i-j)*2 == steps {
					continue // opposite ones have no T2 of rank two
				}
				starts++
				for r := 0; r < 10 && ok; r++ {
					at, _, ok = l.round(t, at)
				}
				switch e := wrong(at); {
				case !ok:
					none++
				case e < .01:
					there, most = there+1, max(most, e)
				default:
					t.Logf("%s: from %d, %d to %.4f, E_reg %.3g", name, i, j, at, e)
				}
			}
		}
		t.Logf("%s: of %d starts %d end at the truth, E_reg at most %.2g, and %d have no estimate", name, starts, there, most, none)
	}
}

// TestOtherFixedPoint: the map has a second fixed point, near e_1 and −e_2, and another by symmetry, which attract too.
func TestOtherFixedPoint(t *testing.T) {
	testslow.Mark(t)
	if testing.Short() {
		t.Skip("half a minute")
	}
	l, _ := planeMaps(t)
	at := [2]float64{-.0692, -1.7215}
	var w [2]float64
	for range 5 {
		at, w, _ = l.round(t, at)
	}
	next, _, ok := l.round(t, at)
	slopes := l.slopes(t, at)
	t.Logf("at %.4f, gate %.4f, E_reg %.4f, a round turns it by %.2g, eigenvalues %.3f", at, w, wrong(at),
		apart(next[0], at[0])+apart(next[1], at[1]), slopes)
	if !ok || apart(next[0], at[0])+apart(next[1], at[1]) > 1e-4 || math.Abs(wrong(at)-.0113) > 5e-5 ||
		cmplx.Abs(slopes[0]) >= 1 {
		t.Errorf("no fixed point that attracts")
	}
}
