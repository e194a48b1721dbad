package loss

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/losstest"
	"github.com/gatedlearning/moe/host/model"
)

// grouped gives rows groups of about so many, in any order and over the ends of blocks, whose gate's columns and weights
// are those of a group's first row.
func grouped(rng *rand.Rand, data *model.Data, gate []int, size int) {
	type first struct {
		x []float64
		w float64
	}
	of := map[float64]first{}
	for i := range data.Blocks {
		b := &data.Blocks[i]
		b.Role[model.Groups] = make([]float64, b.N)
		for t := range b.N {
			id := float64(rng.IntN(data.N/size)) - 3
			f, known := of[id]
			if !known {
				f.w = b.Weight(t)
				for _, j := range gate {
					f.x = append(f.x, b.Col(j)[t])
				}
				of[id] = f
			}
			b.Role[model.Groups][t] = id
			for c, j := range gate {
				b.Col(j)[t] = f.x[c]
			}
			if b.Role[model.Weights] != nil {
				b.Role[model.Weights][t] = f.w
			}
		}
	}
}

// groupedDensity is Σ_g w_g·log Σ_i P(z=i|x_g)·Π_t f written out, each f by [logDensity] of one row under one expert.
func groupedDensity(act fn, p *model.Params, data *model.Data) float64 {
	type group struct {
		w    float64
		gate []float64
		logf []float64
	}
	of := map[float64]*group{}
	for _, b := range data.Blocks {
		for t, id := range b.Role[model.Groups] {
			row := model.Block{N: 1, Y: b.Y[t : t+1]}
			for j := range data.D {
				row.X = append(row.X, b.Col(j)[t])
			}
			g := of[id]
			if g == nil {
				g = &group{b.Weight(t), make([]float64, p.K), make([]float64, p.K)}
				of[id] = g
				for i := range p.K - 1 {
					g.gate[i] = floats.Dot(p.Gate(i), row.X)
					if p.GatingIntercepts != nil {
						g.gate[i] += p.GatingIntercepts[i]
					}
				}
			}
			for i := range p.K {
				one := model.NewParams(1, p.D)
				copy(one.Regressors, p.Regressor(i))
				if p.RegressorIntercepts != nil {
					one.RegressorIntercepts = p.RegressorIntercepts[i : i+1]
				}
				one.Sigma[0] = p.SigmaOf(i)
				g.logf[i] += logDensity(act, one, &model.Data{N: 1, D: data.D, Blocks: []model.Block{row}})
			}
		}
	}
	sum := 0.0
	for _, g := range of {
		norm := floats.LogSumExp(g.gate)
		floats.Add(g.gate, g.logf)
		sum += g.w * (floats.LogSumExp(g.gate) - norm)
	}
	return sum
}

// TestGroups: of rows in groups the log-likelihood is what it is written out, the score its differences, the
// information those of the score, the products of scores those of the groups, each alone, and no step of EM goes down.
func TestGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(34, 2))
	ctx := t.Context()
	some := Free{Regressors: true, Gating: true, Sigma: true, GateColumns: []int{1}}
	for _, s := range append(shapes,
		shape{"one column of the gate", identity, 3, 3, 600, false, some, true},
		shape{"one column of the gate, noise per expert", tanh, 3, 3, 600, true, some, true},
		shape{"many rows a group", identity, 2, 3, 2000, true, some, false},
		shape{"curved with a kink", bent, 2, 3, 300, true, some, true}) {
		data, p := s.elsewhere(rng)
		_, gate := s.free.Columns(p)
		if s.general {
			gate = gate[:len(gate)-1]
		}
		clearOthers(p, gate)
		grouped(rng, data, gate, 6)
		l := NewLikelihood(data, s.act, p, s.free, 2)
		got, err := l.LogLikelihood(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		if want := groupedDensity(s.act, p, data); !(math.Abs(got-want) <= 1e-11*math.Abs(want)) {
			t.Errorf("%s: log-likelihood %v, want %v", s.name, got, want)
		}
		theta, dim := l.Theta(p), l.Dim()
		grad, up, down := make([]float64, dim), make([]float64, dim), make([]float64, dim)
		h := mat.NewSymDense(dim, nil)
		if err := l.Information(ctx, h, grad, p, kinksOf(s)); err != nil {
			t.Fatal(err)
		}
		floats.Scale(-1/l.Rows(), grad)
		const step = 1e-6
		for i := range theta {
			x := append([]float64(nil), theta...)
			x[i] = theta[i] + step
			above, _ := l.Grad(ctx, up, x)
			x[i] = theta[i] - step
			below, _ := l.Grad(ctx, down, x)
			// Of values of order 1, 1e−15 over the step, and kinks of single rows.
			if want := (above - below) / (2 * step); math.Abs(grad[i]-want) > 1e-7*max(1, math.Abs(want)) {
				t.Errorf("%s: place %d of the gradient %v, want %v", s.name, i, grad[i], want)
			}
			for j := range theta {
				if want := (up[j] - down[j]) / (2 * step); math.Abs(h.At(i, j)/l.Rows()-want) > 5e-7*max(1, math.Abs(want)) {
					t.Errorf("%s: information of %d and %d per row %v, want %v", s.name, i, j, h.At(i, j)/l.Rows(), want)
				}
			}
		}
		value, err := l.EMStep(ctx, up, theta)
		next, _ := l.Value(ctx, up)
		if err != nil || next > value+1e-12 {
			t.Errorf("%s: a step of EM goes from %v to %v, %v", s.name, value, next, err)
		}
		checkGroupProducts(t, s, data, p, l)
	}
}

// clearOthers takes coefficients of the gate off the columns that it does not see.
func clearOthers(p *model.Params, gate []int) {
	for i := range p.K - 1 {
		row := append([]float64(nil), p.Gate(i)...)
		clear(p.Gate(i))
		for _, j := range gate {
			p.Gate(i)[j] = row[j]
		}
	}
}

// checkGroupProducts compares the products of scores with those of tables of one group.
func checkGroupProducts(t *testing.T, s shape, data *model.Data, p *model.Params, l *Likelihood) {
	t.Helper()
	got, want := mat.NewSymDense(l.Dim(), nil), mat.NewSymDense(l.Dim(), nil)
	if err := l.ScoreProducts(t.Context(), got, p); err != nil {
		t.Fatal(err)
	}
	of := map[float64]*model.Data{}
	for i := range data.Blocks {
		b := &data.Blocks[i]
		for r, id := range b.Role[model.Groups] {
			if of[id] == nil {
				of[id] = &model.Data{D: data.D}
			}
			of[id].Blocks = append(of[id].Blocks, losstest.Row(data, i*model.BlockRows+r).Blocks...)
			of[id].N++
		}
	}
	for _, alone := range of {
		one := NewLikelihood(together(alone), s.act, p, s.free, 1)
		grad := make([]float64, one.Dim())
		if _, err := one.Grad(t.Context(), grad, one.Theta(p)); err != nil {
			t.Fatal(err)
		}
		want.SymRankOne(want, one.Rows()*one.Rows(), mat.NewVecDense(len(grad), grad))
	}
	if !mat.EqualApprox(got, want, 1e-9*max(1, mat.Max(want))) {
		t.Errorf("%s: products of scores differ from those of the groups one by one", s.name)
	}
}

// together puts rows that are blocks of their own into one block.
func together(rows *model.Data) *model.Data {
	b := model.Block{N: rows.N}
	for j := range rows.D {
		for _, r := range rows.Blocks {
			b.X = append(b.X, r.X[j])
		}
	}
	for _, r := range rows.Blocks {
		b.Y = append(b.Y, r.Y[0])
		for role, v := range r.Role {
			if v != nil {
				b.Role[role] = append(b.Role[role], v[0])
			}
		}
	}
	return &model.Data{N: rows.N, D: rows.D, Blocks: []model.Block{b}}
}
