package host

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// groupDesign is a kind of data set of the study of the certificate by groups.
// The model fitted to it is the one that it was drawn from, unless quadratic says
// otherwise.
type groupDesign struct {
	group, name string
	act         sdk.Activation
	k, d, n     int
	sigma       float64
	perExpert   bool    // noise of expert i is σ·(1 + i/2), and fitted per expert
	intercept   bool    // in experts and gate
	inputs      string  // "" for N(0, I), "correlated", "uniform", "binary", "levels" (rare ones), "counts", "mixed"
	gate        float64 // norm of the gating vectors; 0 for 1
	rare        int     // rows that expert 0 has in the mean; 0 for what comes
	near        float64 // distance of the regressors of experts 0 and 1; 0 for what comes
	quadratic   float64 // what the gate's first logit has of x1² − 1 besides; the fitted one has none
	cells       string  // "argmax" of the gate's logits or "T" in the place of the softmax
}

var (
	ident    = activation(identity.Family, nil)
	rectify  = activation(relu.Family, nil)
	logistic = activation(sigmoid.Family, nil)
	leaky    = activation(leakyrelu.Family, sdk.Params{"slope": 0.1})
)

// groupDesigns were written down before the first of them was run.
var groupDesigns = []groupDesign{
	{group: "right", name: "identity k=2", act: ident, k: 2, d: 5, n: 800, sigma: 0.3},
	{group: "right", name: "identity k=3 correlated", act: ident, k: 3, d: 6, n: 1500, sigma: 0.2, intercept: true, inputs: "correlated"},
	{group: "right", name: "identity k=3 uniform per expert", act: ident, k: 3, d: 4, n: 1200, sigma: 0.2, intercept: true, perExpert: true, inputs: "uniform"},
	{group: "right", name: "identity k=4", act: ident, k: 4, d: 8, n: 2000, sigma: 0.1},
	{group: "right", name: "identity k=2 near-collinear", act: ident, k: 2, d: 5, n: 2000, sigma: 0.3, near: 0.5},
	{group: "right", name: "relu k=2 near-collinear", act: rectify, k: 2, d: 4, n: 2000, sigma: 0.2, near: 0.5},
	{group: "right", name: "relu k=3", act: rectify, k: 3, d: 6, n: 2000, sigma: 0.1},
	{group: "right", name: "relu k=2 correlated", act: rectify, k: 2, d: 6, n: 1000, sigma: 0.2, intercept: true, inputs: "correlated"},
	{group: "right", name: "sigmoid k=2 uniform", act: logistic, k: 2, d: 4, n: 2000, sigma: 0.1, inputs: "uniform"},
	{group: "right", name: "leaky k=3 strong gate", act: leaky, k: 3, d: 6, n: 1500, sigma: 0.1, gate: 3},

	{group: "rare", name: "identity k=3 30 of 6000", act: ident, k: 3, d: 4, n: 6000, sigma: 0.2, intercept: true, rare: 30},
	{group: "rare", name: "identity k=2 30 of 20000", act: ident, k: 2, d: 4, n: 20000, sigma: 0.2, intercept: true, rare: 30},
	{group: "rare", name: "identity k=3 60 of 10000", act: ident, k: 3, d: 6, n: 10000, sigma: 0.1, intercept: true, rare: 60},
	{group: "rare", name: "identity k=3 100 of 12000 per expert", act: ident, k: 3, d: 5, n: 12000, sigma: 0.2, intercept: true, perExpert: true, rare: 100},
	{group: "rare", name: "relu k=2 160 of 20000", act: rectify, k: 2, d: 4, n: 20000, sigma: 0.1, intercept: true, rare: 160},
	{group: "rare", name: "relu k=3 80 of 8000", act: rectify, k: 3, d: 4, n: 8000, sigma: 0.1, intercept: true, rare: 80},
	{group: "rare", name: "leaky k=2 50 of 6000", act: leaky, k: 2, d: 6, n: 6000, sigma: 0.2, intercept: true, rare: 50},
	{group: "rare", name: "identity k=2 40 of 6000 uniform", act: ident, k: 2, d: 8, n: 6000, sigma: 0.3, intercept: true, inputs: "uniform", rare: 40},

	{group: "discrete", name: "identity k=2 binary", act: ident, k: 2, d: 8, n: 1000, sigma: 0.2, intercept: true, inputs: "binary"},
	{group: "discrete", name: "identity k=3 counts", act: ident, k: 3, d: 5, n: 1000, sigma: 0.2, intercept: true, inputs: "counts"},
	{group: "discrete", name: "relu k=3 binary", act: rectify, k: 3, d: 8, n: 1500, sigma: 0.1, intercept: true, inputs: "binary"},
	{group: "discrete", name: "relu k=4 binary", act: rectify, k: 4, d: 10, n: 2000, sigma: 0.1, intercept: true, inputs: "binary"},
	{group: "discrete", name: "relu k=3 binary no intercepts", act: rectify, k: 3, d: 8, n: 1000, sigma: 0.2, inputs: "binary"},
	{group: "discrete", name: "relu k=3 counts", act: rectify, k: 3, d: 5, n: 1200, sigma: 0.2, intercept: true, inputs: "counts"},
	{group: "discrete", name: "relu k=4 counts", act: rectify, k: 4, d: 6, n: 2000, sigma: 0.2, inputs: "counts"},
	{group: "discrete", name: "leaky k=3 mixed", act: leaky, k: 3, d: 6, n: 1200, sigma: 0.2, intercept: true, inputs: "mixed"},

	{group: "separating", name: "identity k=2 argmax", act: ident, k: 2, d: 3, n: 500, sigma: 0.2, intercept: true, cells: "argmax"},
	{group: "separating", name: "identity k=3 argmax", act: ident, k: 3, d: 4, n: 1500, sigma: 0.1, intercept: true, cells: "argmax"},
	{group: "separating", name: "identity k=3 T", act: ident, k: 3, d: 4, n: 1500, sigma: 0.2, intercept: true, cells: "T"},
	{group: "separating", name: "relu k=2 argmax", act: rectify, k: 2, d: 4, n: 1000, sigma: 0.1, intercept: true, cells: "argmax"},
	{group: "separating", name: "relu k=3 T", act: rectify, k: 3, d: 3, n: 1000, sigma: 0.3, intercept: true, cells: "T"},
	{group: "separating", name: "identity k=2 gate of norm 30", act: ident, k: 2, d: 5, n: 600, sigma: 0.05, intercept: true, gate: 30},

	{group: "small", name: "identity k=3 43 parameters n=200", act: ident, k: 3, d: 8, n: 200, sigma: 0.2, perExpert: false, intercept: true},
	{group: "small", name: "relu k=3 43 parameters n=200", act: rectify, k: 3, d: 8, n: 200, sigma: 0.2, intercept: true},
	{group: "small", name: "identity k=2 n=60", act: ident, k: 2, d: 3, n: 60, sigma: 0.3, intercept: true, perExpert: true},
	{group: "small", name: "identity k=2 n=100 d=8", act: ident, k: 2, d: 8, n: 100, sigma: 0.3, intercept: true},
	{group: "small", name: "relu k=2 n=100", act: rectify, k: 2, d: 5, n: 100, sigma: 0.2, intercept: true},
	{group: "small", name: "leaky k=3 n=150", act: leaky, k: 3, d: 4, n: 150, sigma: 0.2, intercept: true, perExpert: true},

	{group: "quadratic gates", name: "identity k=2 weak", act: ident, k: 2, d: 4, n: 1500, sigma: 0.3, intercept: true, quadratic: 0.3},
	{group: "quadratic gates", name: "identity k=2 strong", act: ident, k: 2, d: 4, n: 1500, sigma: 0.3, intercept: true, quadratic: 2},
	{group: "quadratic gates", name: "relu k=3 weak", act: rectify, k: 3, d: 5, n: 1500, sigma: 0.2, intercept: true, quadratic: 0.3},
	{group: "quadratic gates", name: "relu k=3 strong", act: rectify, k: 3, d: 5, n: 1500, sigma: 0.2, intercept: true, quadratic: 2},
}

func (g groupDesign) config() Config {
	cfg := Config{K: g.k, Seed: 1, Intercepts: InterceptsOf(g.intercept, g.intercept)}
	if g.perExpert {
		cfg.Noise = PerExpert{}
	}
	return cfg
}

// draw returns data and the parameters that they were drawn from.
func (g groupDesign) draw(t testing.TB, seed uint64) (dataset.Source, *model.Params) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1010))
	rows := make([]float64, g.n*g.d)
	for r := range g.n {
		g.features(rows[r*g.d:(r+1)*g.d], rng)
	}
	p := g.truth(rows, rng)
	y := make([]float64, g.n)
	means := make([]float64, g.k)
	for r := range y {
		b := &model.Block{N: 1, X: rows[r*g.d : (r+1)*g.d]}
		p.Predictors(means, b)
		if err := g.act.Eval(t.Context(), means, means); err != nil {
			t.Fatal(err)
		}
		i := g.expert(p, b, rng)
		y[r] = means[i] + p.SigmaOf(i)*rng.NormFloat64()
	}
	return dataset.Matrix(mat.NewDense(g.n, g.d, rows), y), p
}

// features draws the features of a row.
func (g groupDesign) features(x []float64, rng *rand.Rand) {
	const shared = 0.7 // of the variance: correlations of 0.7
	common := rng.NormFloat64()
	for j := range x {
		z := rng.NormFloat64()
		switch {
		case g.inputs == "correlated":
			x[j] = math.Sqrt(shared)*common + math.Sqrt(1-shared)*z
		case g.inputs == "uniform":
			x[j] = math.Sqrt(3) * (2*rng.Float64() - 1)
		case g.inputs == "binary", g.inputs == "mixed" && j%3 == 0:
			x[j] = float64(rng.IntN(2))
		case g.inputs == "levels":
			x[j] = 0
			if rng.Float64() < []float64{0.4, 0.05, 0.04, 0.03}[j%4] {
				x[j] = 1
			}
		case g.inputs == "counts", g.inputs == "mixed" && j%3 == 1:
			x[j] = poisson(1.5, rng)
		default:
			x[j] = z
		}
	}
}

// poisson draws a count by the product of uniform numbers.
func poisson(mean float64, rng *rand.Rand) float64 {
	count := 0.0
	for p := rng.Float64(); p > math.Exp(-mean); p *= rng.Float64() {
		count++
	}
	return count
}

// truth draws the parameters, the gate of a rare expert such that it has its
// share of these rows.
func (g groupDesign) truth(rows []float64, rng *rand.Rand) *model.Params {
	p := model.NewParams(g.k, g.d)
	copy(p.Regressors, model.RandomDirections(rng, g.k, g.d))
	copy(p.Gating, model.RandomDirections(rng, g.k-1, g.d))
	if g.near > 0 {
		floats.AddScaledTo(p.Regressor(1), p.Regressor(0), g.near, model.RandomDirections(rng, 1, g.d))
	}
	if g.gate > 0 {
		floats.Scale(g.gate, p.Gating)
	}
	p.Sigma[0] = g.sigma
	if g.perExpert {
		p.Sigma = make([]float64, g.k)
		for i := range p.Sigma {
			p.Sigma[i] = g.sigma * (1 + float64(i)/2)
		}
	}
	if !g.intercept {
		return p
	}
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, g.k), make([]float64, g.k-1)
	for i := range p.RegressorIntercepts {
		p.RegressorIntercepts[i] = rng.NormFloat64()
	}
	for i := range p.GatingIntercepts {
		p.GatingIntercepts[i] = rng.NormFloat64() / 2
	}
	if g.rare > 0 {
		g.makeRare(p, rows)
	}
	if g.cells == "T" { // {x1 > ½}, {x2 > 0} of the rest, the rest: at two scales
		clear(p.Gating)
		p.Gate(0)[0], p.GatingIntercepts[0] = 60, -30
		p.Gate(1)[1], p.GatingIntercepts[1] = 6, 0
	}
	return p
}

// makeRare bisects for the gate's intercept that gives expert 0 its rows.
func (g groupDesign) makeRare(p *model.Params, rows []float64) {
	lo, hi := -30.0, 30.0
	for range 60 {
		p.GatingIntercepts[0] = (lo + hi) / 2
		sum := 0.0
		for r := range g.n {
			sum += gateAt(p, &model.Block{N: 1, X: rows[r*g.d : (r+1)*g.d]})[0]
		}
		if sum > float64(g.rare) {
			hi = p.GatingIntercepts[0]
		} else {
			lo = p.GatingIntercepts[0]
		}
	}
}

func gateAt(p *model.Params, b *model.Block) []float64 {
	logits := make([]float64, p.K)
	p.GateLogits(logits, b)
	model.Softmax(logits, make([]float64, 1), logits, 1)
	return logits
}

// expert draws the expert of a row.
func (g groupDesign) expert(p *model.Params, b *model.Block, rng *rand.Rand) int {
	switch g.cells {
	case "T":
		switch {
		case b.X[0] > 0.5:
			return 0
		case b.X[1] > 0:
			return 1
		}
		return 2
	case "argmax":
		return floats.MaxIdx(gateAt(p, b))
	}
	logits := make([]float64, p.K)
	p.GateLogits(logits, b)
	logits[0] += g.quadratic * (b.X[0]*b.X[0] - 1)
	model.Softmax(logits, make([]float64, 1), logits, 1)
	u := rng.Float64()
	for i, prior := range logits {
		if u -= prior; u < 0 {
			return i
		}
	}
	return p.K - 1
}

// climbFrom takes parameters in the user's units to a maximum on all rows.
func climbFrom(t testing.TB, p *problem.Problem, q *model.Params) (*model.Params, float64) {
	t.Helper()
	q = p.Shape.Adopt(p.Units.Into(q))
	l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
	r, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l.Params(r.X), -r.Value * float64(p.N())
}

// TestRareExperts: right models with an expert that has 30 to 160 of 6,000 to
// 20,000 rows, at the maximum that the truth leads to. Of 16 right models two
// are called suspect with probability 1e-4 at a level of 0.001.
func TestRareExperts(t *testing.T) {
	testslow.Mark(t)
	suspect, fits := 0, 0
	for _, g := range groupDesigns {
		if g.group != "rare" {
			continue
		}
		for seed := uint64(1); seed <= 2; seed++ {
			src, truth := g.draw(t, seed)
			_, p, err := load(t.Context(), g.act, src, g.config())
			if err != nil {
				t.Fatal(err)
			}
			q, _ := climbFrom(t, p, truth)
			c := certificate(t, p, q)
			fits++
			if c.Model == infer.Suspect {
				suspect++
				t.Logf("%s, seed %d: p = %.2g %v", g.name, seed, c.PValue, short(c.Tests))
			}
		}
	}
	t.Logf("%d of %d right models suspect", suspect, fits)
	if suspect > 1 {
		t.Errorf("%d of %d right models with a rare expert are suspect", suspect, fits)
	}
}

// TestRareExpertsWithKinks: the fit of data on which all starts agree on an optimum 6.6 below that of the truth comes
// to within 1 of it, by placing the rare expert anew.
func TestRareExpertsWithKinks(t *testing.T) {
	for _, g := range groupDesigns {
		if g.name != "relu k=2 160 of 20000" {
			continue
		}
		src, truth := g.draw(t, 203)
		p, _, _, m := fitInSteps(t, g.act, src, g.config())
		if _, want := climbFrom(t, p, truth); m.Fit.LogLikelihood < want-1 {
			t.Errorf("log-likelihood %.3f, from the truth %.3f", m.Fit.LogLikelihood, want)
		}
	}
}
