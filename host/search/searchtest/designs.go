package searchtest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// Activations of designs.
var (
	Ident    = of(identity.Family, nil)
	Rectify  = of(relu.Family, nil)
	Logistic = of(sigmoid.Family, nil)
	Leaky    = of(leakyrelu.Family, sdk.Params{"slope": 0.1})
)

func of(f sdk.Family, p sdk.Params) sdk.Activation {
	a, err := f.Activation(p)
	if err != nil {
		panic(err)
	}
	return a
}

// Design is a kind of data set. The model fitted to it is the one that it was drawn from, unless Quadratic or Cells say
// otherwise.
type Design struct {
	Group, Name string
	Act         sdk.Activation
	K, D, N     int
	Sigma       float64
	PerExpert   bool    // noise of expert i is σ·(1 + i/2), and fitted per expert
	Intercept   bool    // in experts and gate
	Inputs      string  // "" for N(0, I), "correlated", "uniform", "binary", "levels" (rare ones), "counts", "mixed"
	Gate        float64 // norm of the gating vectors; 0 for 1
	Rare        int     // rows that expert 0 has in the mean; 0 for what comes
	Near        float64 // distance of the regressors of experts 0 and 1; 0 for what comes
	Quadratic   float64 // what the gate's first logit has of x1² − 1 besides; the fitted one has none
	Cells       string  // "argmax" of the gate's logits or "T" in the place of the softmax
}

// Groups are the designs of the study of the certificate by groups. They were written down before the first of them was
// run.
var Groups = []Design{
	{Group: "right", Name: "identity k=2", Act: Ident, K: 2, D: 5, N: 800, Sigma: 0.3},
	{Group: "right", Name: "identity k=3 correlated", Act: Ident, K: 3, D: 6, N: 1500, Sigma: 0.2, Intercept: true,
		Inputs: "correlated"},
	{Group: "right", Name: "identity k=3 uniform per expert", Act: Ident, K: 3, D: 4, N: 1200, Sigma: 0.2,
		Intercept: true, PerExpert: true, Inputs: "uniform"},
	{Group: "right", Name: "identity k=4", Act: Ident, K: 4, D: 8, N: 2000, Sigma: 0.1},
	{Group: "right", Name: "identity k=2 near-collinear", Act: Ident, K: 2, D: 5, N: 2000, Sigma: 0.3, Near: 0.5},
	{Group: "right", Name: "relu k=2 near-collinear", Act: Rectify, K: 2, D: 4, N: 2000, Sigma: 0.2, Near: 0.5},
	{Group: "right", Name: "relu k=3", Act: Rectify, K: 3, D: 6, N: 2000, Sigma: 0.1},
	{Group: "right", Name: "relu k=2 correlated", Act: Rectify, K: 2, D: 6, N: 1000, Sigma: 0.2, Intercept: true,
		Inputs: "correlated"},
	{Group: "right", Name: "sigmoid k=2 uniform", Act: Logistic, K: 2, D: 4, N: 2000, Sigma: 0.1, Inputs: "uniform"},
	{Group: "right", Name: "leaky k=3 strong gate", Act: Leaky, K: 3, D: 6, N: 1500, Sigma: 0.1, Gate: 3},

	{Group: "rare", Name: "identity k=3 30 of 6000", Act: Ident, K: 3, D: 4, N: 6000, Sigma: 0.2, Intercept: true,
		Rare: 30},
	{Group: "rare", Name: "identity k=2 30 of 20000", Act: Ident, K: 2, D: 4, N: 20000, Sigma: 0.2, Intercept: true,
		Rare: 30},
	{Group: "rare", Name: "identity k=3 60 of 10000", Act: Ident, K: 3, D: 6, N: 10000, Sigma: 0.1, Intercept: true,
		Rare: 60},
	{Group: "rare", Name: "identity k=3 100 of 12000 per expert", Act: Ident, K: 3, D: 5, N: 12000, Sigma: 0.2,
		Intercept: true, PerExpert: true, Rare: 100},
	{Group: "rare", Name: "relu k=2 160 of 20000", Act: Rectify, K: 2, D: 4, N: 20000, Sigma: 0.1, Intercept: true,
		Rare: 160},
	{Group: "rare", Name: "relu k=3 80 of 8000", Act: Rectify, K: 3, D: 4, N: 8000, Sigma: 0.1, Intercept: true,
		Rare: 80},
	{Group: "rare", Name: "leaky k=2 50 of 6000", Act: Leaky, K: 2, D: 6, N: 6000, Sigma: 0.2, Intercept: true,
		Rare: 50},
	{Group: "rare", Name: "identity k=2 40 of 6000 uniform", Act: Ident, K: 2, D: 8, N: 6000, Sigma: 0.3,
		Intercept: true, Inputs: "uniform", Rare: 40},

	{Group: "discrete", Name: "identity k=2 binary", Act: Ident, K: 2, D: 8, N: 1000, Sigma: 0.2, Intercept: true,
		Inputs: "binary"},
	{Group: "discrete", Name: "identity k=3 counts", Act: Ident, K: 3, D: 5, N: 1000, Sigma: 0.2, Intercept: true,
		Inputs: "counts"},
	{Group: "discrete", Name: "relu k=3 binary", Act: Rectify, K: 3, D: 8, N: 1500, Sigma: 0.1, Intercept: true,
		Inputs: "binary"},
	{Group: "discrete", Name: "relu k=4 binary", Act: Rectify, K: 4, D: 10, N: 2000, Sigma: 0.1, Intercept: true,
		Inputs: "binary"},
	{Group: "discrete", Name: "relu k=3 binary no intercepts", Act: Rectify, K: 3, D: 8, N: 1000, Sigma: 0.2,
		Inputs: "binary"},
	{Group: "discrete", Name: "relu k=3 counts", Act: Rectify, K: 3, D: 5, N: 1200, Sigma: 0.2, Intercept: true,
		Inputs: "counts"},
	{Group: "discrete", Name: "relu k=4 counts", Act: Rectify, K: 4, D: 6, N: 2000, Sigma: 0.2, Inputs: "counts"},
	{Group: "discrete", Name: "leaky k=3 mixed", Act: Leaky, K: 3, D: 6, N: 1200, Sigma: 0.2, Intercept: true,
		Inputs: "mixed"},

	{Group: "separating", Name: "identity k=2 argmax", Act: Ident, K: 2, D: 3, N: 500, Sigma: 0.2, Intercept: true,
		Cells: "argmax"},
	{Group: "separating", Name: "identity k=3 argmax", Act: Ident, K: 3, D: 4, N: 1500, Sigma: 0.1, Intercept: true,
		Cells: "argmax"},
	{Group: "separating", Name: "identity k=3 T", Act: Ident, K: 3, D: 4, N: 1500, Sigma: 0.2, Intercept: true,
		Cells: "T"},
	{Group: "separating", Name: "relu k=2 argmax", Act: Rectify, K: 2, D: 4, N: 1000, Sigma: 0.1, Intercept: true,
		Cells: "argmax"},
	{Group: "separating", Name: "relu k=3 T", Act: Rectify, K: 3, D: 3, N: 1000, Sigma: 0.3, Intercept: true,
		Cells: "T"},
	{Group: "separating", Name: "identity k=2 gate of norm 30", Act: Ident, K: 2, D: 5, N: 600, Sigma: 0.05,
		Intercept: true, Gate: 30},

	{Group: "small", Name: "identity k=3 43 parameters n=200", Act: Ident, K: 3, D: 8, N: 200, Sigma: 0.2,
		PerExpert: false, Intercept: true},
	{Group: "small", Name: "relu k=3 43 parameters n=200", Act: Rectify, K: 3, D: 8, N: 200, Sigma: 0.2,
		Intercept: true},
	{Group: "small", Name: "identity k=2 n=60", Act: Ident, K: 2, D: 3, N: 60, Sigma: 0.3, Intercept: true,
		PerExpert: true},
	{Group: "small", Name: "identity k=2 n=100 d=8", Act: Ident, K: 2, D: 8, N: 100, Sigma: 0.3, Intercept: true},
	{Group: "small", Name: "relu k=2 n=100", Act: Rectify, K: 2, D: 5, N: 100, Sigma: 0.2, Intercept: true},
	{Group: "small", Name: "leaky k=3 n=150", Act: Leaky, K: 3, D: 4, N: 150, Sigma: 0.2, Intercept: true,
		PerExpert: true},

	{Group: "quadratic gates", Name: "identity k=2 weak", Act: Ident, K: 2, D: 4, N: 1500, Sigma: 0.3, Intercept: true,
		Quadratic: 0.3},
	{Group: "quadratic gates", Name: "identity k=2 strong", Act: Ident, K: 2, D: 4, N: 1500, Sigma: 0.3,
		Intercept: true, Quadratic: 2},
	{Group: "quadratic gates", Name: "relu k=3 weak", Act: Rectify, K: 3, D: 5, N: 1500, Sigma: 0.2, Intercept: true,
		Quadratic: 0.3},
	{Group: "quadratic gates", Name: "relu k=3 strong", Act: Rectify, K: 3, D: 5, N: 1500, Sigma: 0.2, Intercept: true,
		Quadratic: 2},
}

// Intercepts are those of the fitted model.
func (g Design) Intercepts() problem.Intercepts {
	return problem.InterceptsOf(g.Intercept, g.Intercept)
}

// Noise is that of the fitted model.
func (g Design) Noise() problem.Noise {
	if g.PerExpert {
		return problem.PerExpert{}
	}
	return nil
}

// Draw returns data and the parameters that they were drawn from.
func (g Design) Draw(seed uint64) (dataset.Source, *model.Params) {
	rng := rand.New(rand.NewPCG(seed, 1010))
	rows := make([]float64, g.N*g.D)
	for r := range g.N {
		g.Features(rows[r*g.D:(r+1)*g.D], rng)
	}
	p := g.Truth(rows, rng)
	y := make([]float64, g.N)
	means := make([]float64, g.K)
	for r := range y {
		b := &model.Block{N: 1, X: rows[r*g.D : (r+1)*g.D]}
		p.Predictors(means, b)
		if err := g.Act.Eval(context.Background(), means, means); err != nil {
			panic(err) // of no activation above
		}
		i := g.Expert(p, b, rng)
		y[r] = means[i] + p.SigmaOf(i)*rng.NormFloat64()
	}
	return dataset.Matrix(mat.NewDense(g.N, g.D, rows), y), p
}

// Features draws the features of a row.
func (g Design) Features(x []float64, rng *rand.Rand) {
	const shared = 0.7 // of the variance: correlations of 0.7
	common := rng.NormFloat64()
	for j := range x {
		z := rng.NormFloat64()
		switch {
		case g.Inputs == "correlated":
			x[j] = math.Sqrt(shared)*common + math.Sqrt(1-shared)*z
		case g.Inputs == "uniform":
			x[j] = math.Sqrt(3) * (2*rng.Float64() - 1)
		case g.Inputs == "binary", g.Inputs == "mixed" && j%3 == 0:
			x[j] = float64(rng.IntN(2))
		case g.Inputs == "levels":
			x[j] = 0
			if rng.Float64() < []float64{0.4, 0.05, 0.04, 0.03}[j%4] {
				x[j] = 1
			}
		case g.Inputs == "counts", g.Inputs == "mixed" && j%3 == 1:
			x[j] = Count(1.5, rng)
		default:
			x[j] = z
		}
	}
}

// Count draws a count by the product of uniform numbers.
func Count(mean float64, rng *rand.Rand) float64 {
	count := 0.0
	for p := rng.Float64(); p > math.Exp(-mean); p *= rng.Float64() {
		count++
	}
	return count
}

// Truth draws the parameters, the gate of a rare expert such that it has its
// share of these rows.
func (g Design) Truth(rows []float64, rng *rand.Rand) *model.Params {
	p := model.NewParams(g.K, g.D)
	copy(p.Regressors, model.RandomDirections(rng, g.K, g.D))
	copy(p.Gating, model.RandomDirections(rng, g.K-1, g.D))
	if g.Near > 0 {
		floats.AddScaledTo(p.Regressor(1), p.Regressor(0), g.Near, model.RandomDirections(rng, 1, g.D))
	}
	if g.Gate > 0 {
		floats.Scale(g.Gate, p.Gating)
	}
	p.Sigma[0] = g.Sigma
	if g.PerExpert {
		p.Sigma = make([]float64, g.K)
		for i := range p.Sigma {
			p.Sigma[i] = g.Sigma * (1 + float64(i)/2)
		}
	}
	if !g.Intercept {
		return p
	}
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, g.K), make([]float64, g.K-1)
	for i := range p.RegressorIntercepts {
		p.RegressorIntercepts[i] = rng.NormFloat64()
	}
	for i := range p.GatingIntercepts {
		p.GatingIntercepts[i] = rng.NormFloat64() / 2
	}
	if g.Rare > 0 {
		g.makeRare(p, rows)
	}
	if g.Cells == "T" { // {x1 > ½}, {x2 > 0} of the rest, the rest: at two scales
		clear(p.Gating)
		p.Gate(0)[0], p.GatingIntercepts[0] = 60, -30
		p.Gate(1)[1], p.GatingIntercepts[1] = 6, 0
	}
	return p
}

// makeRare bisects for the gate's intercept that gives expert 0 its rows.
func (g Design) makeRare(p *model.Params, rows []float64) {
	lo, hi := -30.0, 30.0
	for range 60 {
		p.GatingIntercepts[0] = (lo + hi) / 2
		sum := 0.0
		for r := range g.N {
			sum += gateAt(p, &model.Block{N: 1, X: rows[r*g.D : (r+1)*g.D]})[0]
		}
		if sum > float64(g.Rare) {
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

// Expert draws the expert of a row.
func (g Design) Expert(p *model.Params, b *model.Block, rng *rand.Rand) int {
	switch g.Cells {
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
	logits[0] += g.Quadratic * (b.X[0]*b.X[0] - 1)
	model.Softmax(logits, make([]float64, 1), logits, 1)
	u := rng.Float64()
	for i, prior := range logits {
		if u -= prior; u < 0 {
			return i
		}
	}
	return p.K - 1
}

// Arranged is a design of experts of shares as the intercepts of the gate have them.
type Arranged struct {
	Name       string
	D          int
	Sigma      float64
	Intercepts []float64 // of the gate, k−1
	Uniform    bool
}

// Draw draws n rows of three experts.
func (c Arranged) Draw(n int, seed uint64) (dataset.Source, *model.Params) {
	rng := rand.New(rand.NewPCG(seed, 3))
	p := model.NewParams(len(c.Intercepts)+1, c.D)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, p.K), c.Intercepts
	for i := range p.Regressors {
		p.Regressors[i] = rng.NormFloat64() / math.Sqrt(float64(c.D))
	}
	for i := range p.Gating {
		p.Gating[i] = rng.NormFloat64()
	}
	p.Sigma[0] = c.Sigma
	x, y := mat.NewDense(n, c.D, nil), make([]float64, n)
	for r := range n {
		row := x.RawRowView(r)
		for j := range row {
			if row[j] = rng.NormFloat64(); c.Uniform {
				row[j] = math.Sqrt(3) * (2*rng.Float64() - 1)
			}
		}
		z := gated(p, row, rng.Float64())
		for j, a := range p.Regressor(z) {
			y[r] += a * row[j]
		}
		y[r] += c.Sigma * rng.NormFloat64()
	}
	return dataset.Matrix(x, y), p
}

// gated is the expert that u between 0 and 1 says, by a gate with intercepts.
func gated(p *model.Params, x []float64, u float64) int {
	weights, sum := make([]float64, p.K), 1.0
	weights[p.K-1] = 1
	for i := range p.K - 1 {
		weights[i] = math.Exp(floats.Dot(p.Gate(i), x) + p.GatingIntercepts[i])
		sum += weights[i]
	}
	for i, w := range weights {
		if u -= w / sum; u < 0 {
			return i
		}
	}
	return p.K - 1
}

// Spare is table seed of the study of fits whose k is too large, and how many experts more than it has are fitted to
// it.
func Spare(seed uint64) (Design, int) {
	rng := rand.New(rand.NewPCG(seed, 2929))
	acts := []sdk.Activation{Ident, Rectify, of(tanh.Family, nil), Logistic}
	act := acts[rng.IntN(len(acts))]
	g := Design{Group: "spare", Act: act, K: 1 + rng.IntN(3), D: 2 + rng.IntN(9)}
	g.N = int(math.Round(600 * math.Exp(rng.Float64()*math.Log(20000./600))))
	g.Sigma = []float64{.1, .2, .3, .5}[rng.IntN(4)]
	g.PerExpert = rng.IntN(2) == 1
	g.Intercept = rng.IntN(3) > 0
	extra := 1 + rng.IntN(2)
	g.Name = fmt.Sprintf("%s k=%d+%d d=%d n=%d sigma=%g own=%v intercepts=%v", act.Info().Name, g.K, extra, g.D, g.N,
		g.Sigma, g.PerExpert, g.Intercept)
	return g, extra
}

// NestedPieces are n rows of two features, uniform on (−2, 2)², whose target is one of four lines by two cuts, the
// second another on each side of the first, plus noise of 0.2.
func NestedPieces(seed uint64, n int) dataset.Loaded {
	rng := rand.New(rand.NewPCG(seed, 13))
	d := &model.Data{N: n, D: 2}
	for at := 0; at < n; at += model.BlockRows {
		b := model.Block{N: min(model.BlockRows, n-at)}
		x, z := make([]float64, b.N), make([]float64, b.N)
		for r := range b.N {
			x[r], z[r] = 4*rng.Float64()-2, 4*rng.Float64()-2
			m := x[r]/2 - 2*z[r]
			switch {
			case x[r] > 0 && z[r] > 0:
				m = 1 + 2*x[r]
			case x[r] > 0:
				m = -1 - x[r]
			case z[r] > 0.5:
				m = 2 - x[r] + z[r]
			}
			b.Y = append(b.Y, m+0.2*rng.NormFloat64())
		}
		b.X = append(x, z...)
		d.Blocks = append(d.Blocks, b)
	}
	return dataset.InMemory(dataset.Schema{Name: "pieces", Features: []string{"x", "z"}, Target: "y"}, d)
}
