package moment

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/gaussians"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/sdk/gauss"
	"github.com/gatedlearning/moe/solver"
)

// planar is a mixture of three Gaussians in the plane.
func planar(t *testing.T) *gaussians.Mixture {
	t.Helper()
	law, ok := gaussians.New([]float64{.5, .3, .2}, [][]float64{{-1, .5}, {1, 0}, {.2, -1.5}},
		[]*mat.SymDense{mat.NewSymDense(2, []float64{.6, .2, .2, .5}), mat.NewSymDense(2, []float64{1, -.3, -.3, .7}),
			mat.NewSymDense(2, []float64{.4, 0, 0, .9})})
	if !ok {
		t.Fatal("no mixture")
	}
	return law
}

// scored is the score of a mixture whose targets are taken as they are.
func scored(law *gaussians.Mixture) *score {
	mean := mat.NewSymDense(law.D, nil)
	var scaled mat.SymDense
	for _, c := range law.Components {
		scaled.ScaleSym(c.Weight, c.Precision)
		mean.AddSym(mean, &scaled)
	}
	return &score{law: law, lift: power(mean, .5), inverse: power(mean, -1), about: make([]float64, len(law.Components))}
}

// rowsOf are rows with weights, in blocks.
func rowsOf(x [][]float64, y, w []float64) *model.Data {
	d := len(x[0])
	data := &model.Data{N: len(x), D: d}
	for at := 0; at < len(x); at += model.BlockRows {
		n := min(model.BlockRows, len(x)-at)
		b := model.Block{N: n, X: make([]float64, n*d), Y: y[at : at+n]}
		for i := range n {
			for j := range d {
				b.X[j*n+i] = x[at+i][j]
			}
		}
		b.Role[model.Weights] = w[at : at+n]
		data.Blocks = append(data.Blocks, b)
	}
	return data
}

// scoreAt are S_2, S_3 and S_4 at x, by the formula.
func scoreAt(t *testing.T, s *score, x []float64) (*mat.SymDense, *tensor.Sym3, *tensor.Sym4) {
	t.Helper()
	d := s.law.D
	two, three, four := mat.NewDense(d, d, nil), tensor.NewSym3(d), tensor.NewSym4(d)
	posterior := make([]float64, len(s.law.Components))
	s.law.LogDensity(posterior, x, 1)
	for c, one := range s.law.Components {
		root := power(one.Precision, .5)
		off := make([]float64, d)
		floats.SubTo(off, x, one.Mean)
		z := vector(root, off)
		h2, h3, h4 := hermite(z)
		var half, both mat.Dense
		half.Mul(root, h2)
		both.Mul(&half, root)
		both.Scale(posterior[c], &both)
		two.Add(two, &both)
		floats.AddScaled(three.Data, posterior[c], h3.Through(root).Data)
		floats.AddScaled(four.Data, posterior[c], h4.Through(root).Data)
	}
	out := mat.NewSymDense(d, nil)
	for i := range d {
		for j := i; j < d; j++ {
			out.SetSym(i, j, two.At(i, j))
		}
	}
	return out, three, four
}

// hermite are the Hermite tensors of a point in the plane, of standard coordinates: products of polynomials.
func hermite(z []float64) (*mat.SymDense, *tensor.Sym3, *tensor.Sym4) {
	he := func(n int, v float64) float64 { return [5]float64{1, v, v*v - 1, v*v*v - 3*v, v*v*v*v - 6*v*v + 3}[n] }
	entry := func(r, ones int) float64 { return he(r-ones, z[0]) * he(ones, z[1]) }
	two, three, four := mat.NewSymDense(2, nil), tensor.NewSym3(2), tensor.NewSym4(2)
	for ones := range 5 {
		if ones <= 2 {
			two.SetSym([]int{0, 0, 1}[ones], []int{0, 1, 1}[ones], entry(2, ones))
		}
		if ones <= 3 {
			three.Data[ones] = entry(3, ones)
		}
		four.Data[ones] = entry(4, ones)
	}
	return two, three, four
}

// grid are the points and weights f(x) of a product rule over a square that holds a mixture.
func grid(law *gaussians.Mixture) (x [][]float64, w []float64) {
	nodes, weights := gauss.Legendre(200)
	const half = 10
	for i, a := range nodes {
		for j, b := range nodes {
			at := []float64{half * a, half * b}
			f := math.Exp(law.LogDensity(make([]float64, len(law.Components)), at, 1)[0])
			x, w = append(x, at), append(w, half*half*weights[i]*weights[j]*f)
		}
	}
	return x, w
}

// TestScoreTensors: S_r(x)·f(x) = (−1)^r ∇^r f(x), by differences of the density along lines, and of a mixture of one
// Gaussian N(0, I) it is Hermite's.
func TestScoreTensors(t *testing.T) {
	law := planar(t)
	s := scored(law)
	density := func(x ...float64) float64 { return math.Exp(law.LogDensity(make([]float64, 3), x, 1)[0]) }
	central := map[int][]float64{2: {-1. / 12, 4. / 3, -5. / 2, 4. / 3, -1. / 12},
		3: {1. / 8, -1, 13. / 8, 0, -13. / 8, 1, -1. / 8}, 4: {-1. / 6, 2, -13. / 2, 28. / 3, -13. / 2, 2, -1. / 6}}
	const h = .02
	for _, x := range [][]float64{{0, 0}, {.7, -.4}, {-1.2, 1}, {.3, -1.8}} {
		t2, t3, t4 := scoreAt(t, s, x)
		for _, u := range [][]float64{{1, 0}, {0, 1}, {.6, .8}} {
			v := mat.NewVecDense(2, u)
			var fourth float64
			pairs := t4.Pairs()
			uu := mat.NewVecDense(4, []float64{u[0] * u[0], u[0] * u[1], u[1] * u[0], u[1] * u[1]})
			fourth = mat.Inner(uu, pairs, uu)
			for r, have := range map[int]float64{2: mat.Inner(v, t2, v), 3: t3.Along(u), 4: fourth} {
				want, half := 0., len(central[r])/2
				for i, c := range central[r] {
					step := float64(i-half) * h
					want += c * density(x[0]+step*u[0], x[1]+step*u[1])
				}
				want *= math.Pow(-1, float64(r)) / math.Pow(h, float64(r)) / density(x...)
				if math.Abs(have-want) > 1e-4*(1+math.Abs(want)) {
					t.Errorf("S_%d at %v along %v is %.8g, differences %.8g", r, x, u, have, want)
				}
			}
		}
	}
}

// TestScoreOfOne: the sums of a mixture of one Gaussian are those of the whitened features, whose tensors are Hermite's.
func TestScoreOfOne(t *testing.T) {
	cov := mat.NewSymDense(2, []float64{2, .7, .7, .5})
	law, ok := gaussians.New([]float64{1}, [][]float64{{.3, -1}}, []*mat.SymDense{cov})
	if !ok {
		t.Fatal("no mixture")
	}
	s, rng := scored(law), rand.New(rand.NewPCG(1, 2))
	var x [][]float64
	var y, w []float64
	for range 700 {
		x = append(x, []float64{rng.NormFloat64(), rng.NormFloat64()})
		y, w = append(y, rng.NormFloat64()), append(w, rng.Float64())
	}
	rows := rowsOf(x, y, w)
	of := s.data(rows)
	t2, err := s.second(t.Context(), of, 1)
	if err != nil {
		t.Fatal(err)
	}
	white := mat.DenseCopyOf(power(cov, -.5))
	sum := func(r int) *tensor.Transformed {
		sums, err := tensor.SumTransformed(t.Context(), rows, powers{}, r, white, law.Components[0].Mean, 1)
		if err != nil {
			t.Fatal(err)
		}
		return sums
	}
	u := &Subspace{Basis: mat.DenseCopyOf(s.lift), Values: []float64{1, 1}}
	t3, err := s.third(t.Context(), of, u, 1)
	if err != nil {
		t.Fatal(err)
	}
	t4, err := s.fourth(t.Context(), of, u, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2][]float64{
		"T2": {t2.RawSymmetric().Data, sum(2).T2().RawSymmetric().Data},
		"T3": {t3.Data, sum(3).T3().Data}, "T4": {t4.Data, sum(4).T4().Data},
	} {
		for i := range c[0] {
			if name == "T2" && i == 2 {
				continue // below the diagonal
			}
			if math.Abs(c[0][i]-c[1][i]) > 1e-9 {
				t.Errorf("%s: entry %d is %g, Hermite's %g", name, i, c[0][i], c[1][i])
			}
		}
	}
}

// TestStein: E[m(x)·S_r(x)] = E[∇^r m(x)], by a product rule over the mixture, with m the ridge function
// e^{−⟨a,x⟩²/4}. The sums are those that a fit makes.
func TestStein(t *testing.T) {
	law := planar(t)
	s := scored(law)
	x, w := grid(law)
	a := []float64{.8, -.6}
	// m(x) = φ(⟨a,x⟩), so that E[∇^r m] = E[φ^{(r)}]·a^{⊗r}.
	ridge := func(z float64) [5]float64 { // φ and its derivatives, φ = e^{−z²/4}
		v := math.Exp(-z * z / 4)
		return [5]float64{v, -z / 2 * v, (z*z/4 - .5) * v, (.75*z - z*z*z/8) * v, (.75 - .75*z*z + z*z*z*z/16) * v}
	}
	y, means, total := make([]float64, len(x)), [5]float64{}, floats.Sum(w)
	if math.Abs(total-1) > 1e-9 {
		t.Fatalf("the rule has ∫f = %.12g", total)
	}
	for i := range x {
		d := ridge(floats.Dot(a, x[i]))
		y[i] = d[0]
		for r := range d {
			means[r] += w[i] * d[r]
		}
	}
	rows := rowsOf(x, y, w)
	of := func(int) part { return part{rows, given{}} }
	plane := mat.NewDense(2, 2, []float64{1, 0, 0, 1})
	u := &Subspace{Basis: plane, Values: []float64{1, 1}}
	t3, err := s.third(t.Context(), of, u, 1)
	if err != nil {
		t.Fatal(err)
	}
	t4, err := s.fourth(t.Context(), of, u, 1)
	if err != nil {
		t.Fatal(err)
	}
	want3, want4 := tensor.NewSym3(2), tensor.NewSym4(2)
	want3.AddRankOne(means[3], a)
	want4.AddRankOne(means[4], a)
	for i := range t3.Data {
		if math.Abs(t3.Data[i]-want3.Data[i]) > 1e-8 {
			t.Errorf("E[m·S_3] has entry %d %.10g, E[∇³m] %.10g", i, t3.Data[i], want3.Data[i])
		}
	}
	for i := range t4.Data {
		if math.Abs(t4.Data[i]-want4.Data[i]) > 1e-8 {
			t.Errorf("E[m·S_4] has entry %d %.10g, E[∇⁴m] %.10g", i, t4.Data[i], want4.Data[i])
		}
	}
	t2, err := s.second(t.Context(), of, 1)
	if err != nil {
		t.Fatal(err)
	}
	down := vector(power(s.inverse, .5), a) // in the coordinates v
	for i := range 2 {
		for j := i; j < 2; j++ {
			if want := means[2] * down[i] * down[j]; math.Abs(t2.At(i, j)-want) > 1e-8 {
				t.Errorf("E[m·S_2] has entry %d,%d %.10g, E[∇²m] %.10g", i, j, t2.At(i, j), want)
			}
		}
	}
}

// TestPowersMeans: E[T_r(m + σN)] up to a constant, by Hermite's rule.
func TestPowersMeans(t *testing.T) {
	o := powers{About: .7, Sigma: .4}
	var _ solver.Outputs = o
	x, w := gauss.Legendre(80)
	for r := 2; r <= 4; r++ {
		at := []float64{-1, 0, .3, 2}
		have := make([]float64, len(at))
		o.Means(r)(have, at)
		for i, m := range at {
			var want [2]float64
			for of, centre := range [2]float64{m, o.About} {
				for q := range x {
					e := 8 * x[q]
					v := []float64{0}
					o.Apply(r, v, []float64{centre + o.Sigma*e})
					want[of] += 8 * w[q] * math.Exp(-e*e/2) / math.Sqrt(2*math.Pi) * v[0]
				}
			}
			if math.Abs(have[i]-(want[0]-want[1])) > 1e-10 {
				t.Errorf("order %d at %g: %.12g, want %.12g", r, m, have[i], want[0]-want[1])
			}
		}
	}
}
