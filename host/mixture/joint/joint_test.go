package joint_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
)

func init() { mixturetest.RegisterJoint() }

// noise is one of a family, of m targets.
func noise(family string, m int, rng *rand.Rand) model.VectorNoise {
	n := model.VectorNoise{Scale: make([]float64, m)}
	for c := range n.Scale {
		n.Scale[c] = math.Exp(rng.NormFloat64() / 2)
	}
	joint.Begin(&n, family, true)
	for l := range n.Others() {
		n.Others()[l] += 0.3 * rng.NormFloat64()
	}
	return n
}

// gonumLog is the density of gonum at a noise.
func gonumLog(t *testing.T, family string, n model.VectorNoise, y, mean []float64) float64 {
	t.Helper()
	m := len(y)
	cov := mat.NewSymDense(m, nil)
	if family == "outlying" {
		for c, s := range n.Scale {
			cov.SetSym(c, c, s*s)
		}
		d, ok := distmv.NewStudentsT(mean, cov, math.Exp(n.Own[0]), nil)
		if !ok {
			t.Fatal("no t law")
		}
		return d.LogProb(y)
	}
	if family == "exchangeable" {
		for c, s := range n.Scale {
			for b := range c {
				cov.SetSym(c, b, math.Tanh(n.Own[0])*s*n.Scale[b])
			}
			cov.SetSym(c, c, s*s)
		}
	} else {
		cov = model.VectorNoise{Scale: n.Scale, Lower: n.Others()}.Covariance()
	}
	d, ok := distmv.NewNormal(mean, cov, nil)
	if !ok {
		t.Fatal("no covariance")
	}
	return d.LogProb(y)
}

// TestDerive: densities are those of gonum, and the derivatives of all of them, of built-in normal noise as those that tests register,
// are the limits of differences, entry by entry.
func TestDerive(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 73))
	for _, family := range append(joint.Families(), "") {
		for m := 1; m <= 3; m++ {
			if m == 1 && family == "exchangeable" {
				continue
			}
			n, d := noise(family, m, rng), joint.Of(family)
			y, mean := make([]float64, m), make([]float64, m)
			for c := range y {
				y[c], mean[c] = 2*rng.NormFloat64(), rng.NormFloat64()
			}
			q := m + len(n.Others())
			at := func(mean []float64, n model.VectorNoise) *joint.Terms {
				out := joint.NewTerms(m, q)
				d.At(n).Derive(out, y, mean)
				return out
			}
			if got, want := d.At(n).LogDensity(y, mean), gonumLog(t, family, n, y, mean); math.Abs(got-want) > 1e-12*(1+math.Abs(want)) {
				t.Errorf("%q of %d: log f = %v, gonum has %v", family, m, got, want)
			}
			const h = 1e-5
			moved := func(a int, by float64) []float64 {
				out := slices.Clone(mean)
				out[a] += by
				return out
			}
			changed := func(l int, by float64) model.VectorNoise {
				out := model.VectorNoise{Scale: slices.Clone(n.Scale), Lower: slices.Clone(n.Lower), Own: slices.Clone(n.Own)}
				if l < m {
					out.Scale[l] *= math.Exp(by)
				} else {
					out.Others()[l-m] += by
				}
				return out
			}
			check := func(what string, got, up, down float64) {
				t.Helper()
				if want := (up - down) / (2 * h); math.Abs(got-want) > 2e-6*(1+math.Abs(want)) { // h² and rounding over h
					t.Errorf("%q of %d: %s is %v, differences say %v", family, m, what, got, want)
				}
			}
			terms := at(mean, n)
			for a := range m {
				up, down := at(moved(a, h), n), at(moved(a, -h), n)
				check("a score", terms.Score[a], d.At(n).LogDensity(y, moved(a, h)), d.At(n).LogDensity(y, moved(a, -h)))
				for b := range m {
					check("information", terms.Information[mixture.OwnAt(a, b)], -up.Score[b], -down.Score[b])
				}
			}
			for l := range q {
				up, down := at(mean, changed(l, h)), at(mean, changed(l, -h))
				check("an own score", terms.OwnScore[l], d.At(changed(l, h)).LogDensity(y, mean), d.At(changed(l, -h)).LogDensity(y, mean))
				for a := range m {
					check("a cross derivative", terms.Cross[a*q+l], -up.Score[a], -down.Score[a])
				}
				for p := range q {
					check("own information", terms.OwnInformation[mixture.OwnAt(l, p)], -up.OwnScore[p], -down.OwnScore[p])
				}
			}
		}
	}
}

// TestDraws: targets that are drawn have the scores' mean 0, and of their information the expected one; a target alone has its marginal
// law.
func TestDraws(t *testing.T) {
	const draws, m = 40000, 2
	rng := rand.New(rand.NewPCG(2, 73))
	for _, family := range append(joint.Families(), "") {
		n := noise(family, m, rng)
		if family == "outlying" {
			n.Own[0] = math.Log(6)
		}
		law, q := joint.Of(family).At(n), m+len(n.Others())
		mean, y := []float64{1, -2}, make([]float64, m)
		means := func(what string, sum, squares []float64) {
			for l, s := range sum {
				mean := s / draws
				if se := math.Sqrt((squares[l]/draws - mean*mean) / draws); !(math.Abs(mean) <= 4.5*se+1e-12) { // 1 in 150,000
					t.Errorf("%q: the mean of %s %d is %v ± %v, want 0", family, what, l, mean, se)
				}
			}
		}
		sum, squares := make([]float64, 2*m+q+m*(m+1)/2), make([]float64, 2*m+q+m*(m+1)/2)
		for range draws {
			law.Draw(rng, y, mean)
			terms := joint.NewTerms(m, q)
			law.Derive(terms, y, mean)
			values := slices.Concat(terms.Score, terms.OwnScore)
			for p, v := range terms.Information {
				values = append(values, v-terms.Expected[p])
			}
			for c := range m {
				of, psi := law.Marginal(c)
				values = append(values, mixture.DensityOf(of).CDF(y[c], mean[c], psi)-0.5)
			}
			for l, v := range values {
				sum[l] += v
				squares[l] += v * v
			}
		}
		means("a score or what is expected", sum, squares)
	}
}

type badly struct {
	joint.Gaussian
	name string
	own  []joint.Parameter
}

func (b badly) Name() string              { return b.name }
func (b badly) Own(int) []joint.Parameter { return b.own }

// TestRegisterRefuses: names that are taken, also by a density of one target, and own parameters without a place to begin.
func TestRegisterRefuses(t *testing.T) {
	for what, d := range map[string]badly{
		"no name":             {},
		"the normal one":      {name: "gaussian"},
		"one target's":        {name: "poisson"},
		"lognormal":           {name: "lognormal"},
		"taken":               {name: "full"},
		"sigma":               {name: "a", own: []joint.Parameter{{Name: "sigma", Least: -1, Most: 1}}},
		"twice":               {name: "a", own: []joint.Parameter{{Name: "b", Least: -1, Most: 1}, {Name: "b", Least: -1, Most: 1}}},
		"a start at the end":  {name: "a", own: []joint.Parameter{{Name: "b", Most: 1}}},
		"a name of two words": {name: "a", own: []joint.Parameter{{Name: "b c", Least: -1, Most: 1}}},
	} {
		t.Run(what, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("registered")
				}
			}()
			joint.Register(d)
		})
	}
	if joint.Known("nothing") || !joint.Known("") || !joint.Known("full") {
		t.Error("what is known is not what is registered")
	}
}
