// Package network learns networks with one hidden layer,
//
//	y = Σ_i v_i·φ(⟨w_i, x⟩) + noise,  x ~ N(0, I)
//
// (003): the conditions on φ, the population Hessian at given weights, the
// squared loss, tensor initialisation, and the fit.
package network

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// Loss is the squared loss of a network on rows (003 slide 7),
//
//	f(θ) = 1/(2n)·Σ (Σ_i v_i·φ(⟨w_i, x⟩) − y)²
//
// a row of weight w counting as w rows. Its argument θ holds the k×d weights in
// rows, and where v is free the k output weights behind them. With FreeOutput the
// units see x by ŵ_i = w_i/‖w_i‖ alone, and ¼·Σ(‖w_i‖² − 1)² holds the norms,
// which nothing else does, at 1.
type Loss struct {
	act    model.Activation
	rows   model.Rows
	k, d   int
	output []float64 // v where it is given, nil where it is free
	n      float64   // Σ of the rows' weights

	workers int
}

// NewLoss returns the loss of networks with output weights v, of k units where v
// is nil: then v is free and the rows w_i count as unit vectors.
func NewLoss(act model.Activation, rows model.Rows, k int, v []float64, workers int) (*Loss, error) {
	_, d := rows.Dims()
	if v != nil && len(v) != k {
		panic(fmt.Sprintf("network: %d output weights for %d units", len(v), k))
	}
	t, err := model.TotalsOf(rows)
	return &Loss{act: act, rows: rows, k: k, d: d, output: v, n: t.Weight, workers: model.Workers(workers)}, err
}

// Dim returns k·d, and k more where v is free.
func (l *Loss) Dim() int {
	if l.output == nil {
		return l.k * (l.d + 1)
	}
	return l.k * l.d
}

// Network returns the network at θ, without its noise.
func (l *Loss) Network(theta []float64) *model.Network {
	n := model.NewNetwork(l.k, l.d)
	copy(n.Weights, theta)
	if l.output != nil {
		copy(n.Output, l.output)
		return n
	}
	copy(n.Output, theta[l.k*l.d:])
	for i := range l.k {
		w := n.Unit(i)
		floats.Scale(1/floats.Norm(w, 2), w)
	}
	return n
}

// Theta returns the θ of a network, whose v is that of the loss where it is
// given.
func (l *Loss) Theta(n *model.Network) []float64 {
	theta := append([]float64(nil), n.Weights...)
	if l.output == nil {
		theta = append(theta, n.Output...)
	}
	return theta
}

// Value returns f(θ).
func (l *Loss) Value(ctx context.Context, theta []float64) (float64, error) {
	return l.at(ctx, theta, nil, nil)
}

// Grad writes ∇f to dst and returns f.
func (l *Loss) Grad(ctx context.Context, dst, theta []float64) (float64, error) {
	return l.at(ctx, theta, dst, nil)
}

// Hessian writes the Gauss–Newton matrix mean J·Jᵀ to h, J the gradient of a
// row's prediction: the Hessian where the residuals are 0, and positive
// semidefinite everywhere (Levenberg–Marquardt). It writes ∇f to grad and
// returns f.
func (l *Loss) Hessian(ctx context.Context, h *mat.SymDense, grad, theta []float64) (float64, error) {
	return l.at(ctx, theta, grad, h)
}

// at evaluates f, and the gradient and the curvature that are not nil.
func (l *Loss) at(ctx context.Context, theta, grad []float64, h *mat.SymDense) (float64, error) {
	s, err := l.pass(ctx, l.Network(theta), grad != nil, h != nil)
	if err != nil {
		return 0, err
	}
	value := s.squares / (2 * l.n)
	if grad != nil {
		floats.ScaleTo(grad, 1/l.n, s.grad)
	}
	if h != nil {
		size := l.Dim()
		for i := range size {
			for j := i; j < size; j++ {
				h.SetSym(i, j, s.gram[i*size+j]/l.n)
			}
		}
	}
	if l.output == nil {
		value += l.onSphere(theta, grad, h)
	}
	return value, nil
}

// onSphere turns derivatives in ŵ_i into those in w_i,
// ∂ŵ/∂w = (I − ŵŵᵀ)/‖w‖, and adds ¼·Σ(‖w_i‖² − 1)² with its own.
func (l *Loss) onSphere(theta, grad []float64, h *mat.SymDense) float64 {
	size, penalty := l.Dim(), 0.0
	turn := mat.NewDense(size, size, nil)
	for i := range l.k {
		turn.Set(l.k*l.d+i, l.k*l.d+i, 1)
		w := theta[i*l.d : (i+1)*l.d]
		norm2 := floats.Dot(w, w)
		penalty += (norm2 - 1) * (norm2 - 1) / 4
		norm := floats.Norm(w, 2)
		for a := range w {
			for b := range w {
				v := -w[a] * w[b] / norm2
				if a == b {
					v++
				}
				turn.Set(i*l.d+a, i*l.d+b, v/norm)
			}
		}
	}
	if grad != nil {
		g := mat.NewVecDense(size, append([]float64(nil), grad...))
		mat.NewVecDense(size, grad).MulVec(turn, g)
	}
	if h != nil {
		var half, both mat.Dense
		half.Mul(turn, h)
		both.Mul(&half, turn)
		for i := range size {
			for j := i; j < size; j++ {
				h.SetSym(i, j, (both.At(i, j)+both.At(j, i))/2)
			}
		}
	}
	for i := range l.k {
		w := theta[i*l.d : (i+1)*l.d]
		norm2 := floats.Dot(w, w)
		for a := range w {
			if grad != nil {
				grad[i*l.d+a] += (norm2 - 1) * w[a]
			}
			for b := a; h != nil && b < l.d; b++ {
				h.SetSym(i*l.d+a, i*l.d+b, h.At(i*l.d+a, i*l.d+b)+2*w[a]*w[b])
			}
		}
	}
	return penalty
}

// sums are those of a pass, over rows of weight w with residual e = f − y.
type sums struct {
	squares float64   // Σ w·e²
	grad    []float64 // Σ w·e·J
	gram    []float64 // Σ w·J·Jᵀ, upper triangle of a full matrix
}

// room is what one worker needs.
type room struct {
	z, phi, slope []float64 // k rows of a block's values
	e, scale      []float64
	jacobian      []float64 // Dim rows
}

func (l *Loss) newRoom(jacobian bool) *room {
	const n = model.BlockRows
	r := &room{
		z: make([]float64, l.k*n), phi: make([]float64, l.k*n), slope: make([]float64, l.k*n),
		e: make([]float64, n), scale: make([]float64, n),
	}
	if jacobian {
		r.jacobian = make([]float64, l.Dim()*n)
	}
	return r
}

// pass sums over the rows, the same at any number of workers.
func (l *Loss) pass(ctx context.Context, net *model.Network, grad, gram bool) (*sums, error) {
	size := l.Dim()
	parts := make([]sums, model.Chunks(l.rows))
	rooms := make([]*room, l.workers)
	err := model.Each(ctx, l.rows, l.workers, func(worker, chunk, _ int, b *model.Block) error {
		if rooms[worker] == nil {
			rooms[worker] = l.newRoom(gram)
		}
		p := &parts[chunk]
		if grad && p.grad == nil {
			p.grad = make([]float64, size)
		}
		if gram && p.gram == nil {
			p.gram = make([]float64, size*size)
		}
		return l.block(ctx, p, net, rooms[worker], b)
	})
	if err != nil {
		return nil, err
	}
	total := &parts[0]
	for _, p := range parts[1:] {
		total.squares += p.squares
		if grad {
			floats.Add(total.grad, p.grad)
		}
		if gram {
			floats.Add(total.gram, p.gram)
		}
	}
	return total, nil
}

// residuals writes e = f − y to the room, with z and φ(z).
func (l *Loss) residuals(ctx context.Context, net *model.Network, r *room, b *model.Block) error {
	n := b.N
	model.Linear(r.z[:l.k*n], net.Weights, nil, b)
	if err := l.act.Eval(ctx, r.phi[:l.k*n], r.z[:l.k*n]); err != nil {
		return err
	}
	for t := range n {
		r.e[t] = -b.Y[t]
	}
	for i, v := range net.Output {
		floats.AddScaled(r.e[:n], v, r.phi[i*n:(i+1)*n])
	}
	return nil
}

func (l *Loss) block(ctx context.Context, s *sums, net *model.Network, r *room, b *model.Block) error {
	if err := l.residuals(ctx, net, r, b); err != nil {
		return err
	}
	n := b.N
	e, slope := r.e[:n], r.slope[:l.k*n]
	weighted := e
	if b.Role[model.Weights] != nil {
		weighted = floats.MulTo(r.scale[:n], e, b.Role[model.Weights])
	}
	s.squares += floats.Dot(weighted, e)
	if s.grad == nil {
		return nil
	}
	if err := l.act.Deriv(ctx, slope, r.z[:l.k*n]); err != nil {
		return err
	}
	for i, v := range net.Output {
		floats.Scale(v, slope[i*n:(i+1)*n])
	}
	if s.gram == nil {
		l.addGrad(s.grad, weighted, r, b)
		return nil
	}
	l.addCurvature(s, weighted, r, b)
	return nil
}

// addGrad adds Σ e·J without forming J. It spoils z.
func (l *Loss) addGrad(grad, e []float64, r *room, b *model.Block) {
	n := b.N
	for i := range l.k {
		t := floats.MulTo(r.z[:n], e, r.slope[i*n:(i+1)*n])
		for j := range l.d {
			grad[i*l.d+j] += floats.Dot(t, b.Col(j))
		}
	}
	for i := l.k * l.d; i < len(grad); i++ {
		unit := i - l.k*l.d
		grad[i] += floats.Dot(e, r.phi[unit*n:(unit+1)*n])
	}
}

// addCurvature adds Σ e·J and Σ J·Jᵀ.
func (l *Loss) addCurvature(s *sums, e []float64, r *room, b *model.Block) {
	n, size := b.N, l.Dim()
	row := func(i int) []float64 { return r.jacobian[i*n : (i+1)*n] }
	for i := range l.k {
		for j := range l.d {
			floats.MulTo(row(i*l.d+j), r.slope[i*n:(i+1)*n], b.Col(j))
		}
	}
	for i := l.k * l.d; i < size; i++ {
		copy(row(i), r.phi[(i-l.k*l.d)*n:])
	}
	for i := range size {
		s.grad[i] += floats.Dot(e, row(i))
	}
	j := blas64.General{Rows: size, Cols: n, Stride: n, Data: r.jacobian[:size*n]}
	c := blas64.Symmetric{N: size, Stride: size, Data: s.gram, Uplo: blas.Upper}
	if b.Role[model.Weights] == nil {
		blas64.Syrk(blas.NoTrans, 1, j, 1, c)
		return
	}
	for i := range size { // J·W·Jᵀ, row by row
		t := floats.MulTo(r.scale[:n], row(i), b.Role[model.Weights])
		for m := i; m < size; m++ {
			s.gram[i*size+m] += floats.Dot(t, row(m))
		}
	}
}
