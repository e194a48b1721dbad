package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// LeftOut is what every row says of the fit to the others, to second order, in the order of the rows.
type LeftOut struct {
	Terms []float64 // w_t·(log p(y_t|x_t; θ̂) − log p(y_t|x_t; θ̂_−t)), θ̂_−t fitted to the other rows
	// Moves are (θ̂_−t − θ̂)ᵀ(V⁻¹ − H_t)(θ̂_−t − θ̂): about the squares of distances in standard errors.
	Moves []float64
	// Lost are the rows without which no maximum is near; θ̂_−t is of first order there, θ̂ − V·s_t.
	Lost []bool
}

// LeaveOneOut returns what each row says of the fit to the others. p is the maximum of l and v the inverse of the
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
// and the row's density there is exact. kinks are those of g, as in [Likelihood.Information]. It is nil where rows are
// in groups, and where means are c + s·g.
func LeaveOneOut(ctx context.Context, l *Likelihood, p *model.Params, v *mat.SymDense, kinks []float64) (*LeftOut,
	error) {
	if l.groups != nil || l.outputs > 0 {
		return nil, nil
	}
	if l.unread != nil {
		return nil, l.unread
	}
	l.kinks = kinks
	l.unpack(l.here, l.Theta(p))
	rooms, n := make([]*leftOutRows, l.passes.workers), l.N()
	out := &LeftOut{make([]float64, n), make([]float64, n), make([]bool, n)}
	if err := model.Each(ctx, l.rows, len(rooms), func(worker, chunk, block int, b *model.Block) error {
		w := l.workOf(worker)
		if err := l.observe(ctx, w, l.cur, block, b); err != nil {
			return err
		}
		if err := l.slopes(ctx, w, l.cur, b, ofInformation|withBend); err != nil {
			return err
		}
		if rooms[worker] == nil {
			rooms[worker] = newLeftOutRows(l, v)
		}
		from, to := block*model.BlockRows, block*model.BlockRows+b.N
		return rooms[worker].block(ctx, w, b, LeftOut{out.Terms[from:to], out.Moves[from:to], out.Lost[from:to]})
	}); err != nil {
		return nil, err
	}
	return out, nil
}

// predictor is one of a row's η: Σ_c θ_(at+c)·x_c over the columns named, or log ψ, where there are none: θ_at.
type predictor struct {
	part    model.ParamPart
	index   int // of the expert, the row of the gate, or the place of ψ
	at      int
	columns []int
}

// leftOutRows is where the rows of a block are left out, each with m predictors. Values are N where nothing else is
// said.
type leftOutRows struct {
	l        *Likelihood
	of       []predictor
	between  [][]float64 // V_ab of all pairs, a before b or b: rows of a's coefficients
	x, inner []float64   // columns of one predictor, and as many rows

	score [][]float64 // u, of all m
	moved [][]float64 // η_−t − η, likewise
	info  [][]float64 // M, of all pairs
	cross [][]float64 // C, likewise
	term  []float64

	z, gates, mean, density []float64 // K rows, or one for each class of the gate
	loglik                  []float64
	psi                     []float64 // of an expert at a row

	row *leftOutRow
}

func newLeftOutRows(l *Likelihood, v *mat.SymDense) *leftOutRows {
	r := &leftOutRows{l: l}
	add := func(free bool, part model.ParamPart, many, at int, columns []int) {
		for i := range many {
			if free {
				r.of = append(r.of, predictor{part, i, at + i*max(1, len(columns)), columns})
			}
		}
	}
	add(l.free.Regressors, model.Expert, l.k, 0, l.expert)
	add(l.free.Gating, model.Gate, l.gates, l.atGate, l.gate)
	add(l.free.Sigma, model.Noise, l.noises, l.atNoise, nil)
	const n = model.BlockRows
	m := len(r.of)
	r.score, r.moved = numeric.Columns(m, n), numeric.Columns(m, n)
	r.info, r.cross = numeric.Columns(m*m, n), numeric.Columns(m*m, n)
	r.term, r.loglik = make([]float64, n), make([]float64, n)
	for _, room := range []*[]float64{&r.z, &r.gates, &r.mean, &r.density} {
		*room = make([]float64, l.classes*n)
	}
	r.row, r.between = newLeftOutRow(m), make([][]float64, m*m)
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

// block writes what is said of the rows of a block that has been observed.
func (r *leftOutRows) block(ctx context.Context, w *work, b *model.Block, out LeftOut) error {
	w.Differentiate(w.dg)
	w.DifferentiateNoise()
	for i, a := range r.of {
		r.differentiate(r.score[i][:b.N], w, a)
		for j, c := range r.of[i:] {
			at := i*len(r.of) + i + j
			differentiateTwice(r.info[at][:b.N], w, a, c)
		}
		r.spread(w, i)
	}
	for t := range b.N {
		out.Moves[t], out.Lost[t] = r.leave(t, b.Weight(t))
	}
	if err := r.observe(ctx, w, b); err != nil {
		return err
	}
	constant := 0.0
	if r.l.normal { // which LogJoint lacks
		constant = -0.5 * math.Log(2*math.Pi)
	}
	for t := range b.N {
		if weight := b.Weight(t); weight > 0 {
			out.Terms[t] = weight * (w.LogJoint[t] - w.LogPrior[t] + constant - r.loglik[t])
		}
	}
	return nil
}

// differentiate writes ∂log p(y|x)/∂η to dst.
func (r *leftOutRows) differentiate(dst []float64, w *work, a predictor) {
	switch a.part {
	case model.Expert:
		kernel.Mul(dst, w.PostOf(a.index), w.LinearScore(a.index))
	case model.Gate:
		w.GateScore(dst, a.index)
	default:
		w.NoiseScore(dst, a.index)
	}
}

// differentiateTwice writes −∂²log p(y|x)/∂η_a∂η_b to dst, b not before a.
func differentiateTwice(dst []float64, w *work, a, b predictor) {
	switch {
	case b.part == model.Expert:
		var bend []float64
		if w.bend != nil {
			bend = w.bend[a.index*w.N : (a.index+1)*w.N]
		}
		w.ExpertExpert(dst, a.index, b.index, bend)
	case b.part == model.Gate && a.part == model.Expert:
		w.ExpertGate(dst, a.index, b.index)
	case b.part == model.Gate:
		w.GateGate(dst, a.index, b.index)
	case a.part == model.Expert:
		w.NoiseExpert(dst, b.index, a.index)
	case a.part == model.Gate:
		w.NoiseGate(dst, b.index, a.index)
	default:
		w.NoiseNoise(dst, a.index, b.index)
	}
}

// spread writes the covariances of η_b and of it and those before it, x_aᵀ·V_ab·x_b, to their places in cross.
func (r *leftOutRows) spread(w *work, to int) {
	b, m, n := r.of[to], len(r.of), w.N
	x, moved := r.x[:b.wide()*n], r.inner
	for j := range b.wide() {
		copy(x[j*n:(j+1)*n], b.column(w, j))
	}
	for from, a := range r.of[:to+1] {
		inner := moved[:a.wide()*n]
		kernel.Linear(inner, r.between[from*m+to], nil, x, b.wide(), n)
		dst := r.cross[from*m+to][:n]
		clear(dst)
		for i := range a.wide() {
			kernel.AddMul(dst, inner[i*n:(i+1)*n], a.column(w, i))
		}
	}
}

// wide is how many coefficients it has.
func (a predictor) wide() int { return max(1, len(a.columns)) }

// column is that of the block for place i of the coefficients: ones for log ψ.
func (a predictor) column(w *work, i int) []float64 {
	if a.columns == nil {
		return w.Ones[:w.N]
	}
	return w.Cols[a.columns[i]]
}

// leave writes by how much the predictors of row t move where it is left out, and returns its move and whether it is
// lost, see [LeftOut].
func (r *leftOutRows) leave(t int, weight float64) (move float64, lost bool) {
	m, row := len(r.of), r.row
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
func (r *leftOutRows) observe(ctx context.Context, w *work, b *model.Block) error {
	l, n, rows, classes := r.l, b.N, r.l.k*b.N, r.l.classes*b.N
	z, gates, mean, density := r.z[:rows], r.gates[:classes], r.mean[:rows], r.density[:classes]
	l.cur.Predictors(z, b)
	l.cur.GateLogits(gates, b)
	for at, a := range r.of {
		switch a.part {
		case model.Expert:
			floats.Add(z[a.index*n:(a.index+1)*n], r.moved[at][:n])
		case model.Gate:
			floats.Add(gates[a.index*n:(a.index+1)*n], r.moved[at][:n])
		}
	}
	if err := l.act.Eval(ctx, mean, z); err != nil {
		return err
	}
	w.Gate.Scores(gates, l.cur, n)
	model.SoftmaxShift(density, r.term[:n], gates, n)
	for t := range n {
		row := mixture.OfRow(mixture.OfTrials(l.mix.Density, b.Role[model.Trials]), t)
		for i := range l.k {
			at := i*n + t
			row.LogDensity(density[at:at+1], gates[at:at+1], b.Y[t:t+1], mean[at:at+1], r.ownOf(i, t))
		}
		if l.cur.Zero {
			density[rows+t] = gates[rows+t] + mixture.LogAtZero(b.Y[t])
		}
	}
	model.Softmax(density, r.loglik[:n], density, n)
	floats.Sub(r.loglik[:n], r.term[:n])
	return nil
}

// ownOf returns ψ of expert i at row t.
func (r *leftOutRows) ownOf(i, t int) []float64 {
	l := r.l
	r.psi = l.cur.OwnOf(r.psi[:0], i)
	for at, a := range r.of {
		if a.part != model.Noise || a.index%l.levels != min(i, l.levels-1) {
			continue
		}
		q := a.index / l.levels
		r.psi[q] = math.Exp(l.ends[q].hold(math.Log(r.psi[q]) + r.moved[at][t]))
	}
	return r.psi
}
