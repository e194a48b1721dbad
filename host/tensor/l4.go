package tensor

import (
	"context"
	"errors"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// L4 is the loss for the regressors (002 Eq. 7). With T2 and T4 already divided
// by c2 and c4 and the rows a_i of A, k×m,
//
//	L4(A) = Σ_{i≠j} T4(a_i,a_i,a_j,a_j) − Mu·Σ_i T4(a_i,a_i,a_i,a_i)
//	      + Lambda·Σ_i (T2(a_i,a_i) − 1)² + (Ridge/2)·‖A‖²_F
//
// At the minima of its population value (A†)ᵀ = P·D·Γ·A*: the regressors are
// the rows of the pseudo-inverse's transpose (002 Theorem 1).
//
// From a finite sample L4 is unbounded below in ℝ^d wherever a direction has
// Lambda·T2(u,u)² < Mu·T4(u,u,u,u). On the reduced problem, where T2 = I, set
// Unit: the rows are then constrained to unit norm, the limit Lambda → ∞, and
// the loss is bounded.
type L4 struct {
	K                 int // rows of A
	M                 int // columns of A
	Mu, Lambda, Ridge float64
	Unit              bool

	t2    *mat.SymDense // m×m
	pairs *mat.SymDense // m²×m²

	rows, grad []float64
	outer, b   []float64 // k×m²: a_i⊗a_i, and T4 applied to it
	total      []float64
}

// NewL4 returns the loss of k rows for T2/c2 and T4/c4.
func NewL4(k int, t2 *mat.SymDense, t4 *Sym4, mu, lambda, ridge float64) *L4 {
	m := t4.M
	return &L4{
		K: k, M: m, Mu: mu, Lambda: lambda, Ridge: ridge, t2: t2, pairs: t4.Pairs(),
		rows: make([]float64, k*m), grad: make([]float64, k*m),
		outer: make([]float64, k*m*m), b: make([]float64, k*m*m), total: make([]float64, m*m),
	}
}

// NewUnitL4 returns the loss of k rows of unit norm for a T4/c4 in coordinates
// where T2/c2 is the identity.
func NewUnitL4(k int, t4 *Sym4, mu float64) *L4 {
	l := NewL4(k, nil, t4, mu, 0, 0)
	l.Unit = true
	return l
}

// Dim returns k·m.
func (l *L4) Dim() int { return l.K * l.M }

// Value returns L4(A), A in rows.
func (l *L4) Value(ctx context.Context, a []float64) (float64, error) { return l.Grad(ctx, l.grad, a) }

// Grad writes ∇L4(A) to dst and returns L4(A). With B_i = T4(·,·,a_i,a_i):
//
//	∂/∂a_i = 4·(Σ_{j≠i} B_j − Mu·B_i)·a_i + 4·Lambda·(T2(a_i,a_i)−1)·T2·a_i + Ridge·a_i
func (l *L4) Grad(_ context.Context, dst, a []float64) (float64, error) {
	rows := l.rows
	copy(rows, a)
	if l.Unit {
		for i := range l.K {
			floats.Scale(1/floats.Norm(l.row(rows, i), 2), l.row(rows, i))
		}
	}
	value := l.quartic(dst, rows)
	if l.Unit {
		// d/da of f(a/|a|) = (I − uuᵀ)∇f/|a|
		for i := range l.K {
			u, g := l.row(rows, i), l.row(dst, i)
			floats.AddScaled(g, -floats.Dot(u, g), u)
			floats.Scale(1/floats.Norm(l.row(a, i), 2), g)
		}
		return value, nil
	}
	return value + l.quadratic(dst, rows), nil
}

func (l *L4) row(a []float64, i int) []float64 { return a[i*l.M : (i+1)*l.M] }

// quartic writes the gradient of the terms in T4 to dst and returns them.
func (l *L4) quartic(dst, rows []float64) float64 {
	mm := l.M * l.M
	clear(l.total)
	for i := range l.K {
		u, o, b := l.row(rows, i), l.outer[i*mm:(i+1)*mm], l.b[i*mm:(i+1)*mm]
		for r, v := range u {
			floats.ScaleTo(o[r*l.M:(r+1)*l.M], v, u)
		}
		bv := mat.NewVecDense(mm, b)
		bv.MulVec(l.pairs, mat.NewVecDense(mm, o))
		floats.Add(l.total, b)
	}
	value := 0.0
	for i := range l.K {
		u, o, b := l.row(rows, i), l.outer[i*mm:(i+1)*mm], l.b[i*mm:(i+1)*mm]
		self := floats.Dot(o, b)
		value += floats.Dot(o, l.total) - (1+l.Mu)*self
		g := l.row(dst, i)
		for r := range g {
			g[r] = 4 * (floats.Dot(l.total[r*l.M:(r+1)*l.M], u) - (1+l.Mu)*floats.Dot(b[r*l.M:(r+1)*l.M], u))
		}
	}
	return value
}

// quadratic adds the gradient of the terms in T2 and the ridge to dst and
// returns them.
func (l *L4) quadratic(dst, rows []float64) float64 {
	value := l.Ridge / 2 * floats.Dot(rows, rows)
	t2u := mat.NewVecDense(l.M, nil)
	for i := range l.K {
		u, g := l.row(rows, i), l.row(dst, i)
		t2u.MulVec(l.t2, mat.NewVecDense(l.M, u))
		excess := floats.Dot(u, t2u.RawVector().Data) - 1
		value += l.Lambda * excess * excess
		floats.AddScaled(g, 4*l.Lambda*excess, t2u.RawVector().Data)
		floats.AddScaled(g, l.Ridge, u)
	}
	return value
}

var errRank = errors.New("tensor: the rows are linearly dependent")

// PseudoInverseRows returns (A†)ᵀ, k×m, for A k×m of rank k: at a minimum of L4
// its rows are √p_i·a_i*.
func PseudoInverseRows(a *mat.Dense) (*mat.Dense, error) {
	k, m := a.Dims()
	gram := mat.NewSymDense(k, nil)
	gram.SymOuterK(1, a)
	var chol mat.Cholesky
	if !chol.Factorize(gram) {
		return nil, errRank
	}
	out := mat.NewDense(k, m, nil)
	if err := chol.SolveTo(out, a); err != nil && math.IsInf(chol.Cond(), 1) {
		return nil, errRank
	}
	return out, nil
}
