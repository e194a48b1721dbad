// Package losstest has mixtures and rows of them on which likelihoods, and what is made of these, are tested.
package losstest

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/gatedlearning/moe/host/model"
)

// Func is an activation from two functions: g and g′.
type Func struct{ G, DG func(float64) float64 }

// Eval writes g to dst.
func (f Func) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = f.G(v)
	}
	return nil
}

// Deriv writes g′ to dst.
func (f Func) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = f.DG(v)
	}
	return nil
}

// Activations; Bent has a kink at 0 and curvature on both sides of it.
var (
	Identity = Func{func(z float64) float64 { return z }, func(float64) float64 { return 1 }}
	Tanh     = Func{math.Tanh, func(z float64) float64 { t := math.Tanh(z); return 1 - t*t }}
	ReLU     = Func{func(z float64) float64 { return max(z, 0) }, func(z float64) float64 {
		if z > 0 {
			return 1
		}
		return 0
	}}
	Bent = Func{
		func(z float64) float64 {
			if z > 0 {
				return z + z*z/4
			}
			return math.Expm1(z) / 2
		},
		func(z float64) float64 {
			if z > 0 {
				return 1 + z/2
			}
			return math.Exp(z) / 2
		},
	}
)

// Exp is a mean of counts.
var Exp = Func{
	func(z float64) float64 { return math.Exp(z / 2) }, func(z float64) float64 { return math.Exp(z/2) / 2 },
}

// Leaves are the activations of a tree's leaves, in turn.
func Leaves(k int) (out model.PerExpert) {
	for i := range k {
		out = append(out, []Func{Identity, Tanh, ReLU}[i%3])
	}
	return out
}

// Trees are shapes of trees.
var Trees = []string{"2x2", "2x(1,2)", "3x(2,1,3)", "2x2x2"}

// Draw returns n rows of a mixture with parameters p.
func Draw(rng *rand.Rand, act Func, p *model.Params, n int) *model.Data {
	data := &model.Data{N: n, D: p.D}
	for left := n; left > 0; left -= model.BlockRows {
		m := min(left, model.BlockRows)
		b := model.Block{N: m, X: make([]float64, m*p.D), Y: make([]float64, m)}
		for i := range b.X {
			b.X[i] = rng.NormFloat64()
		}
		logits, z, lse := make([]float64, p.K*m), make([]float64, p.K*m), make([]float64, m)
		p.GateLogits(logits, &b)
		model.Softmax(logits, lse, logits, m)
		p.Predictors(z, &b)
		for t := range m {
			u, i := rng.Float64(), 0
			for ; i < p.K-1; i++ {
				if u -= logits[i*m+t]; u < 0 {
					break
				}
			}
			c, scale := p.OutputOf(i)
			b.Y[t] = c + scale*act.G(z[i*m+t]) + p.SigmaOf(i)*rng.NormFloat64()
		}
		data.Blocks = append(data.Blocks, b)
	}
	return data
}

// Params returns parameters with standard normal entries; general adds
// intercepts and noise per expert.
func Params(rng *rand.Rand, k, d int, sigma float64, general bool) *model.Params {
	p := model.NewParams(k, d)
	fill := func(v []float64) []float64 {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	fill(p.Regressors)
	fill(p.Gating)
	p.Sigma[0] = sigma
	if general {
		p.RegressorIntercepts = fill(make([]float64, k))
		p.GatingIntercepts = fill(make([]float64, k-1))
		p.Sigma = make([]float64, k)
		for i := range p.Sigma {
			p.Sigma[i] = sigma * (1 + rng.Float64())
		}
	}
	return p
}

// Row is row r of data alone.
func Row(data *model.Data, r int) *model.Data {
	b := data.Blocks[r/model.BlockRows]
	r %= model.BlockRows
	row := model.Block{N: 1, Y: b.Y[r : r+1]}
	for j := range data.D {
		row.X = append(row.X, b.Col(j)[r])
	}
	for role, values := range b.Role {
		if values != nil {
			row.Role[role] = values[r : r+1]
		}
	}
	return &model.Data{N: 1, D: data.D, Blocks: []model.Block{row}}
}

// Free is which parameters vary, as loss.Free says it.
type Free struct {
	Regressors, Gating, Sigma  bool
	ExpertColumns, GateColumns []int
}

// All is every parameter.
var All = Free{Regressors: true, Gating: true, Sigma: true}

// Shape is one of mixtures, and how many rows of it there are.
type Shape struct {
	Name    string
	Act     Func
	K, D, N int
	General bool // intercepts and noise per expert
	Free    Free
	Weights bool // rows have them
}

// Shapes are of all kinds.
var Shapes = []Shape{
	{"one expert", Identity, 1, 3, 100, false, All, false},
	{"linear", Identity, 3, 4, 700, false, All, false},
	{"tanh", Tanh, 2, 5, 300, false, All, false},
	{"relu", ReLU, 3, 3, 600, false, All, false},
	{"intercepts and noise per expert", Tanh, 3, 3, 600, true, All, false},
	{"gating only", Tanh, 3, 3, 300, true, Free{Gating: true}, false},
	{"noise and gating", ReLU, 3, 3, 300, false, Free{Gating: true, Sigma: true}, true},
	{"regressors only", Tanh, 2, 3, 300, false, Free{Regressors: true}, false},
	{"weights", Identity, 2, 3, 300, false, All, true},
	{"weights and noise per expert", Identity, 3, 3, 300, true, All, true},
	{"columns of their own", Identity, 3, 4, 300, true, Free{Regressors: true, Gating: true, Sigma: true,
		ExpertColumns: []int{0, 2}, GateColumns: []int{1, 2, 3}}, false},
	{"constant gate", Identity, 3, 3, 300, true, Free{Regressors: true, Gating: true, Sigma: true,
		GateColumns: []int{}}, true},
}

// Elsewhere returns rows that random parameters made, and others to look at their likelihood from.
func (s Shape) Elsewhere(rng *rand.Rand) (*model.Data, *model.Params) {
	data := s.Data(rng, Params(rng, s.K, s.D, 0.7, s.General), s.N)
	return data, Params(rng, s.K, s.D, 0.9, s.General)
}

// Data draws the shape's rows, with weights where it has them.
func (s Shape) Data(rng *rand.Rand, p *model.Params, n int) *model.Data {
	data := Draw(rng, s.Act, p, n)
	for i := range data.Blocks {
		if b := &data.Blocks[i]; s.Weights {
			b.Role[model.Weights] = make([]float64, b.N)
			for t := range b.Role[model.Weights] {
				b.Role[model.Weights][t] = rng.ExpFloat64()
			}
		}
	}
	return data
}

// Kinks are those of the shape's activation.
func (s Shape) Kinks() []float64 {
	if s.Act.G(-1) == 0 || s.Act.G(1) == 1.25 {
		return []float64{0}
	}
	return nil
}

// ZeroCases are mixtures of counts with a zero expert: parameters and
// rows of weights, of one expert and of two.
func ZeroCases(rng *rand.Rand) (names []string, all []*model.Params, tables []*model.Data) {
	for _, family := range []string{"poisson", "negative-binomial"} {
		for _, k := range []int{1, 2} {
			p := Params(rng, k, 3, 0.8, true)
			data := Draw(rng, Tanh, p, 300)
			p.AddZero()
			p.GatingIntercepts = make([]float64, k)
			for _, v := range [][]float64{p.Gating, p.GatingIntercepts} {
				for i := range v {
					v[i] = rng.NormFloat64()
				}
			}
			if p.Family = family; family == "poisson" {
				p.Sigma = nil
			}
			for i := range data.Blocks {
				b := &data.Blocks[i]
				b.Role[model.Weights] = make([]float64, b.N)
				for r := range b.Y {
					b.Y[r] = math.Round(3 * math.Abs(b.Y[r]) * float64(rng.IntN(2)))
					b.Role[model.Weights][r] = 0.5 + rng.Float64()
				}
			}
			names, all, tables = append(names, family), append(all, p), append(tables, data)
		}
	}
	return names, all, tables
}
