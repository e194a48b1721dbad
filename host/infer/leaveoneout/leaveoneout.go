// Package leaveoneout says what every row says of the fit to the others, from the fit to all.
package leaveoneout

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// Rows is what every row says of the fit to the others, to second order, in the order of the rows.
type Rows struct {
	Terms []float64 // w_t·(log p(y_t|x_t; θ̂) − log p(y_t|x_t; θ̂_−t)), θ̂_−t fitted to the other rows
	// Moves are (θ̂_−t − θ̂)ᵀ(V⁻¹ − H_t)(θ̂_−t − θ̂): about the squares of distances in standard errors.
	Moves []float64
	// Lost are the rows without which no maximum is near; θ̂_−t is of first order there, θ̂ − V·s_t.
	Lost []bool
}

// Each returns what each row says of the fit to the others. p is the maximum of l and v the inverse of the
// information there, with what a ridge adds; rows and columns of parameters that are held are 0. With s_t the score of
// row t and H_t its information, both times its weight, a Newton step goes from the one maximum to the other:
//
//	θ̂_−t ≈ θ̂ − (V⁻¹ − H_t)⁻¹·s_t
//
// A row depends on θ by its predictors η = J_tθ alone: those of the experts and of the gates, and the density's own
// log ψ, some 2k numbers. With C_t = J_t·V·J_tᵀ, and u_t and M_t the score and the information of the row by η,
//
//	η_−t ≈ η − C_t·(I − M_t·C_t)⁻¹·u_t
//
// and the row's density there is exact. kinks are those of g, as in [loss.Likelihood.Information]. It is nil where rows
// are in groups, and where means are c + s·g.
func Each(ctx context.Context, l *loss.Likelihood, p *model.Params, v *mat.SymDense, kinks []float64) (*Rows, error) {
	if l.InGroups() || p.HasOutput() {
		return nil, nil
	}
	n := l.N()
	out := &Rows{make([]float64, n), make([]float64, n), make([]bool, n)}
	err := l.EachPosterior(ctx, p, kinks, func() loss.Visitor {
		r := newLeaver(l, p, v)
		return func(block int, b *model.Block, seen *mixture.Posterior, bend []float64) error {
			from, to := block*model.BlockRows, block*model.BlockRows+b.N
			return r.block(ctx, seen, bend, b, Rows{out.Terms[from:to], out.Moves[from:to], out.Lost[from:to]})
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// predictor is one of a row's η: Σ_c θ_(at+c)·x_c over the features of its coefficients, or log ψ, which has none:
// θ_at.
type predictor struct {
	loss.Parameter // the first of them
	at             int
	features       []int   // D is the column of ones
	least, most    float64 // log ψ
}

// predictorsOf are those of a likelihood, in the order of θ.
func predictorsOf(l *loss.Likelihood) (out []predictor) {
	for at, q := range l.Parameters() {
		if q.Part == model.Noise {
			least, most := l.Ends(q)
			out = append(out, predictor{Parameter: q, at: at, least: least, most: most})
			continue
		}
		last := len(out) - 1
		if last < 0 || out[last].Part != q.Part || out[last].Index != q.Index {
			out = append(out, predictor{Parameter: q, at: at})
			last++
		}
		out[last].features = append(out[last].features, q.Feature)
	}
	return out
}

func (a predictor) argument() mixture.Argument {
	return mixture.Argument{Part: a.Part, Index: a.Index, Own: a.Own}
}

// wide is how many coefficients it has.
func (a predictor) wide() int { return max(1, len(a.features)) }

// leaver is where the rows of a block are left out, each with m predictors. Values are N where nothing else is
// said.
type leaver struct {
	act      model.Activation
	d        int // features
	of       []predictor
	between  [][]float64 // V_ab of all pairs, a before b or b: rows of a's coefficients
	x, inner []float64   // columns of one predictor, and as many rows
	ones     []float64

	score [][]float64 // u, of all m
	moved [][]float64 // η_−t − η, likewise
	info  [][]float64 // M, of all pairs
	cross [][]float64 // C, likewise
	term  []float64

	z, gates, mean, density []float64 // K rows, or one for each class of the gate
	loglik                  []float64
	psi                     []float64 // of an expert at a row

	step *step
}

func newLeaver(l *loss.Likelihood, p *model.Params, v *mat.SymDense) *leaver {
	const n = model.BlockRows
	r := &leaver{act: l.Activation(), d: p.D, of: predictorsOf(l), ones: make([]float64, n)}
	for t := range r.ones {
		r.ones[t] = 1
	}
	m := len(r.of)
	r.score, r.moved = numeric.Columns(m, n), numeric.Columns(m, n)
	r.info, r.cross = numeric.Columns(m*m, n), numeric.Columns(m*m, n)
	r.term, r.loglik = make([]float64, n), make([]float64, n)
	for _, room := range []*[]float64{&r.z, &r.gates, &r.mean, &r.density} {
		*room = make([]float64, p.Classes()*n)
	}
	r.step, r.between = newStep(m), make([][]float64, m*m)
	widest := 0
	for i, a := range r.of {
		widest = max(widest, a.wide())
		for j, b := range r.of[i:] {
			of := make([]float64, 0, a.wide()*b.wide())
			for at := range cap(of) {
				of = append(of, v.At(a.at+at/b.wide(), b.at+at%b.wide()))
			}
			r.between[i*m+i+j] = of
		}
	}
	r.x, r.inner = make([]float64, widest*n), make([]float64, widest*n)
	return r
}

// block writes what is said of the rows of a block that has been seen and differentiated.
func (r *leaver) block(ctx context.Context, seen *mixture.Posterior, bend []float64, b *model.Block, out Rows) error {
	for i, a := range r.of {
		seen.By(r.score[i][:b.N], a.argument())
		for j, c := range r.of[i:] {
			at := i*len(r.of) + i + j
			var bends []float64
			if bend != nil && a.Part == model.Expert {
				bends = bend[a.Index*b.N : (a.Index+1)*b.N]
			}
			seen.ByBoth(r.info[at][:b.N], a.argument(), c.argument(), bends)
		}
		r.spread(b, i)
	}
	for t := range b.N {
		out.Moves[t], out.Lost[t] = r.leave(t, b.Weight(t))
	}
	if err := r.observe(ctx, seen, b); err != nil {
		return err
	}
	constant := 0.0
	if mixture.Normal(seen.Density) { // which LogJoint lacks
		constant = -0.5 * math.Log(2*math.Pi)
	}
	for t := range b.N {
		if weight := b.Weight(t); weight > 0 {
			out.Terms[t] = weight * (seen.LogJoint[t] - seen.LogPrior[t] + constant - r.loglik[t])
		}
	}
	return nil
}

// spread writes the covariances of η_b and of it and those before it, x_aᵀ·V_ab·x_b, to their places in cross.
func (r *leaver) spread(rows *model.Block, to int) {
	b, m, n := r.of[to], len(r.of), rows.N
	x, moved := r.x[:b.wide()*n], r.inner
	for j := range b.wide() {
		copy(x[j*n:(j+1)*n], r.column(rows, b, j))
	}
	for from, a := range r.of[:to+1] {
		inner := moved[:a.wide()*n]
		kernel.Linear(inner, r.between[from*m+to], nil, x, b.wide(), n)
		dst := r.cross[from*m+to][:n]
		clear(dst)
		for i := range a.wide() {
			kernel.AddMul(dst, inner[i*n:(i+1)*n], r.column(rows, a, i))
		}
	}
}

// column is that of the block for place i of the predictor's coefficients: ones for an intercept and for log ψ.
func (r *leaver) column(b *model.Block, a predictor, i int) []float64 {
	if a.features == nil || a.features[i] == r.d {
		return r.ones[:b.N]
	}
	return b.Col(a.features[i])
}

// leave writes by how much the predictors of row t move where it is left out, and returns its move and whether it is
// lost, see [Rows].
func (r *leaver) leave(t int, weight float64) (move float64, lost bool) {
	m, row := len(r.of), r.step
	for i := range m {
		row.u[i] = weight * r.score[i][t]
		for j := i; j < m; j++ {
			row.c[i*m+j] = r.cross[i*m+j][t]
			info := weight * r.info[i*m+j][t]
			row.info[i*m+j], row.info[j*m+i] = info, info
		}
	}
	move, lost = row.take()
	for i, v := range row.u {
		r.moved[i][t] = -v
	}
	return move, lost
}

// observe makes loglik log p(y|x) at the predictors that the rows have moved to.
func (r *leaver) observe(ctx context.Context, seen *mixture.Posterior, b *model.Block) error {
	p, n, rows, classes := seen.P, b.N, seen.K*b.N, seen.P.Classes()*b.N
	z, gates, mean, density := r.z[:rows], r.gates[:classes], r.mean[:rows], r.density[:classes]
	p.Predictors(z, b)
	p.GateLogits(gates, b)
	for at, a := range r.of {
		switch a.Part {
		case model.Expert:
			floats.Add(z[a.Index*n:(a.Index+1)*n], r.moved[at][:n])
		case model.Gate:
			floats.Add(gates[a.Index*n:(a.Index+1)*n], r.moved[at][:n])
		}
	}
	if err := r.act.Eval(ctx, mean, z); err != nil {
		return err
	}
	seen.Gate.Scores(gates, p, n)
	model.SoftmaxShift(density, r.term[:n], gates, n)
	for t := range n {
		row := mixture.OfRow(seen.Density, t)
		for i := range seen.K {
			at := i*n + t
			row.LogDensity(density[at:at+1], gates[at:at+1], b.Y[t:t+1], mean[at:at+1], r.ownOf(p, i, t))
		}
		if p.Zero {
			density[rows+t] = gates[rows+t] + mixture.LogAtZero(b.Y[t])
		}
	}
	model.Softmax(density, r.loglik[:n], density, n)
	floats.Sub(r.loglik[:n], r.term[:n])
	return nil
}

// ownOf returns ψ of expert i at row t.
func (r *leaver) ownOf(p *model.Params, i, t int) []float64 {
	r.psi = p.OwnOf(r.psi[:0], i)
	for at, a := range r.of {
		if a.Part == model.Noise && a.Index == min(i, len(p.Sigma)-1) {
			r.psi[a.Own] = math.Exp(min(max(math.Log(r.psi[a.Own])+r.moved[at][t], a.least), a.most))
		}
	}
	return r.psi
}
