package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

func init() { mixturetest.RegisterJoint() }

// under returns parameters with noise of a family in the place of theirs, whose scales it has.
func under(rng *rand.Rand, p *model.VectorParams, family string) *model.VectorParams {
	p = p.Clone()
	p.Family = family
	for i := range p.Noise {
		n := model.VectorNoise{Scale: p.Noise[i].Scale}
		joint.Begin(&n, family, false)
		for l := range n.Own {
			n.Own[l] += 0.2 * rng.NormFloat64()
		}
		p.Noise[i] = n
	}
	return p
}

// TestRegisteredNormal: correlated normal noise that is registered is the built-in one: value, gradient, Hessian, products of scores,
// structure, what is said of rows, and the step of EM but for the noise.
func TestRegisteredNormal(t *testing.T) {
	ctx := t.Context()
	for _, c := range vectorCases {
		if !c.full {
			continue
		}
		rng := rand.New(rand.NewPCG(7, 51))
		data := drawVector(rng, c.act, c.params(rng, 0.7), 500, c.general)
		p := c.params(rng, 0.9)
		q := under(rng, p, "full")
		for i := range q.Noise {
			copy(q.Noise[i].Own, p.Noise[i].Lower)
		}
		one, other := NewVector(data, c.act, p, All, 1), NewVector(data, c.act, q, All, 2)
		theta, dim := one.Theta(p), one.Dim()
		near := func(what string, got, want []float64) {
			t.Helper()
			if !floats.EqualApprox(got, want, 1e-9) {
				t.Errorf("%s: %s is %v, built in %v", c.name, what, got, want)
			}
		}
		near("θ", other.Theta(q), theta)
		h, want, g, gw := mat.NewSymDense(dim, nil), mat.NewSymDense(dim, nil), make([]float64, dim), make([]float64, dim)
		v, err := other.Exact(nil).Hessian(ctx, h, g, theta)
		if err != nil {
			t.Fatal(err)
		}
		vw, _ := one.Exact(nil).Hessian(ctx, want, gw, theta)
		near("the value", []float64{v}, []float64{vw})
		near("the gradient", g, gw)
		near("the Hessian", h.RawSymmetric().Data, want.RawSymmetric().Data)
		other.EMStep(ctx, g, theta)
		one.EMStep(ctx, gw, theta)
		if !floats.EqualApprox(g[:one.atNoise], gw[:one.atNoise], 1e-7) { // a ridge of 1e−10 on systems in other units
			t.Errorf("%s: a step to %v, built in %v", c.name, g, gw)
		}
		s, _ := other.Structure(ctx, q)
		sw, _ := one.Structure(ctx, p)
		near("mass", s.Mass, sw.Mass)
		near("rss", s.RSS, sw.RSS)
		for i, axis := range s.Axes {
			if !floats.EqualApprox(axis, sw.Axes[i], 1e-6) { // an eigenvector
				t.Errorf("%s: axis %v, built in %v", c.name, axis, sw.Axes[i])
			}
		}
	}
}

// TestRegisteredDerivatives: those of densities that tests register are the limits of differences.
func TestRegisteredDerivatives(t *testing.T) {
	for _, c := range vectorCases {
		for _, family := range []string{"exchangeable", "outlying"} {
			if c.m == 1 && family == "exchangeable" {
				continue
			}
			rng := rand.New(rand.NewPCG(8, 51))
			data := drawVector(rng, c.act, c.params(rng, 0.7), 400, c.general)
			c.name += " " + family
			checkDerivatives(t, c, data, under(rng, c.params(rng, 0.9), family))
		}
	}
}

// TestRegisteredEM: EM rises to the maximum of Newton's method under a density that is registered, and the own parameters end within
// what they may be: of normal rows a t law has its most degrees of freedom, all but the likelihood of normal noise.
func TestRegisteredEM(t *testing.T) {
	ctx := t.Context()
	for family, c := range map[string]vectorCase{
		"exchangeable": {"", identity, "3", 3, 3, 2, true, false, true},
		"outlying":     {"", identity, "2", 2, 3, 3, false, true, true},
	} {
		rng := rand.New(rand.NewPCG(4, 51))
		truth := c.params(rng, 0.2)
		data := drawVector(rng, c.act, truth, 2000, true)
		p := under(rng, truth, family)
		l := NewVector(data, c.act, p, All, 2)
		run, err := optim.EM(ctx, l, l.Theta(p), optim.Settings{Iterations: 3000, Tolerance: 1e-12})
		if err != nil {
			t.Fatal(err)
		}
		best, err := optim.Newton(ctx, l, run.X, optim.Settings{})
		if err != nil || best.Status != optim.Converged || !(run.Value < run.Trace[0]) || run.Value-best.Value > 1e-6 { // of what the rows hardly tell, as ν
			t.Errorf("%s: EM from %v ends at %v, Newton at %v (%v), error %v", family, run.Trace[0], run.Value, best.Value, best.Status, err)
		}
		at := l.Params(best.X)
		normal := NewVector(data, c.act, truth, All, 2)
		maximum, err := optim.Newton(ctx, normal, normal.Theta(truth), optim.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		// Of two targets the common correlation is any; a t law of 1000 degrees of freedom is normal to (2+M)²/1000 in a row.
		if family == "exchangeable" && math.Abs(best.Value-maximum.Value) > 1e-9 {
			t.Errorf("%s: the maximum is %v, of correlated noise %v", family, best.Value, maximum.Value)
		}
		if family == "outlying" && (math.Abs(best.Value-maximum.Value) > 0.01 || at.Noise[0].Own[0] < math.Log(20)) {
			t.Errorf("%s: the maximum is %v with ν = %v, of normal noise %v", family, best.Value, math.Exp(at.Noise[0].Own[0]), maximum.Value)
		}
	}
}

// TestRegisteredFar: of rows so far that every density is 0 it is the nearest expert's, in units of its scales; own parameters beyond what
// they may be are held there.
func TestRegisteredFar(t *testing.T) {
	p := model.NewVectorParams(2, 1, 2, false)
	p.Noise = []model.VectorNoise{{Scale: []float64{1, 1}, Own: []float64{0}}, {Scale: []float64{1e-3, 10}, Own: []float64{0}}}
	p.Family = "full"
	rows := NewVectorRows(identity, p, All)
	// In units of its scales the first row is nearer to the first expert, the second to the other.
	if err := rows.Observe(t.Context(), &model.Block{N: 2, X: []float64{0, 0}, Y: []float64{1e200, 1, 1e200, 1e200}}); err != nil {
		t.Fatal(err)
	}
	if got := rows.Posterior(0); got[0] != 1 || got[1] != 0 {
		t.Errorf("posterior %v of the first expert", got)
	}
	p.Family = "outlying"
	data := drawVector(rand.New(rand.NewPCG(9, 51)), identity, p, 50, false)
	l := NewVector(data, identity, p, All, 1)
	theta := l.Theta(p)
	theta[len(theta)-1], theta[len(theta)-4] = 100, -100
	if q := l.Params(theta); q.Noise[1].Own[0] != math.Log(1000) || q.Noise[0].Own[0] != 0 {
		t.Errorf("own parameters %v and %v", q.Noise[0].Own, q.Noise[1].Own)
	}
}
