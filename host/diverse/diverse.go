// Package diverse is about networks whose own weights make them easy to train
// (004): f(x) = Σ_k v_k·max(⟨w_k, x⟩, 0) with v_k = ±1 and ‖x‖ = 1. It has the Gram
// matrices that say so, the discrepancy of the weights, the regulariser that lowers
// it, and the eigenvalues of the kernel behind them.
package diverse

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/network"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/sdk/gauss"
)

// ReLU is max(z, 0), with derivative 0 at 0.
type ReLU struct{}

// Eval writes max(z_i, 0) to dst_i.
func (ReLU) Eval(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = max(v, 0)
	}
	return nil
}

// Deriv writes 1 to dst_i where z_i > 0, else 0.
func (ReLU) Deriv(_ context.Context, dst, z []float64) error {
	for i, v := range z {
		dst[i] = 0
		if v > 0 {
			dst[i] = 1
		}
	}
	return nil
}

// Kernel is k(u) = ½ − arccos(u)/2π, the probability that two unit vectors with inner
// product u are both on the positive side of a random hyperplane.
func Kernel(u float64) float64 { return 0.5 - math.Acos(max(-1, min(1, u)))/(2*math.Pi) }

// products is X·Xᵀ of the rows of X.
func products(x *mat.Dense) *mat.SymDense {
	m, _ := x.Dims()
	out := mat.NewSymDense(m, nil)
	out.SymOuterK(1, x)
	return out
}

// Gram returns G with G_ij = k(⟨x_i,x_j⟩)·⟨x_i,x_j⟩ for the m unit rows of x (m×d):
// the expectation of [GramOf] over w ~ N(0, I) (004, Bounding the first term).
func Gram(x *mat.Dense) *mat.SymDense {
	g := products(x)
	m := g.SymmetricDim()
	for i := range m {
		g.SetSym(i, i, g.At(i, i)/2) // arccos loses half the digits near 1
		for j := i + 1; j < m; j++ {
			g.SetSym(i, j, Kernel(g.At(i, j))*g.At(i, j))
		}
	}
	return g
}

// GramOf returns G_n = DᵀD/n for the n rows of w, D the matrix of [Extended]:
// ⟨x_i,x_j⟩ times the share of weights on whose positive side both lie.
func GramOf(w, x *mat.Dense) *mat.SymDense {
	n, _ := w.Dims()
	m, _ := x.Dims()
	var active mat.Dense
	active.Mul(x, w.T())
	active.Apply(func(_, _ int, v float64) float64 {
		if v > 0 {
			return 1
		}
		return 0
	}, &active)
	g, both := products(x), mat.NewSymDense(m, nil)
	both.SymOuterK(1/float64(n), &active)
	for i := range m {
		for j := i; j < m; j++ {
			g.SetSym(i, j, g.At(i, j)*both.At(i, j))
		}
	}
	return g
}

// Extended returns D, nd×m: column l holds v_k·1(⟨w_k,x_l⟩ > 0)·x_l for every k, so that
// ∂L/∂W = D·r with r = (f(x_l) − y_l)/m (004, Structure of the gradient).
func Extended(w *mat.Dense, v []float64, x *mat.Dense) *mat.Dense {
	n, d := w.Dims()
	m, _ := x.Dims()
	out := mat.NewDense(n*d, m, nil)
	for k := range n {
		for l := range m {
			if floats.Dot(w.RawRowView(k), x.RawRowView(l)) > 0 {
				for j := range d {
					out.Set(k*d+j, l, v[k]*x.At(l, j))
				}
			}
		}
	}
	return out
}

// Least returns the least eigenvalue of a symmetric matrix.
func Least(m *mat.SymDense) (float64, error) {
	v, err := values(m)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// Norm returns the spectral norm of a symmetric matrix.
func Norm(m *mat.SymDense) (float64, error) {
	v, err := values(m)
	if err != nil {
		return 0, err
	}
	return max(math.Abs(v[0]), math.Abs(v[len(v)-1])), nil
}

func values(m *mat.SymDense) ([]float64, error) {
	var eig mat.EigenSym
	if !eig.Factorize(m, false) {
		return nil, fmt.Errorf("the eigenvalues of a Gram matrix cannot be computed")
	}
	return eig.Values(nil), nil
}

// Discrepancy returns L2² = mean_ij k(⟨ŵ_i,ŵ_j⟩)² − E k², over all pairs of the
// rows of w (n×d), ŵ = w/‖w‖ (004, Bounding the second term).
func Discrepancy(w *mat.Dense) float64 {
	unit := units(w)
	t := products(unit)
	n, d := w.Dims()
	sum := 0.0
	for i := range n {
		for j := range n {
			k := 0.5
			if i != j {
				k = Kernel(t.At(i, j))
			}
			sum += k * k
		}
	}
	return sum/float64(n*n) - MeanSquare(d)
}

// units is w with its rows scaled to norm 1.
func units(w *mat.Dense) *mat.Dense {
	out := mat.DenseCopyOf(w)
	n, _ := w.Dims()
	for i := range n {
		row := out.RawRowView(i)
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	return out
}

// MeanSquare is E k(⟨u,w⟩)² over u and w uniform on the unit sphere of ℝ^d, d ≥ 2:
// 1/16 + Var(θ)/4π² for the angle θ between them, whose density is proportional to
// sin^{d−2}. With I_n = ∫u²cosⁿu and J_n = ∫cosⁿu over (−π/2, π/2), n = d−2,
// Var θ = I_n/J_n, I_n = (n−1)/n·I_{n−2} − 2/n²·J_n and J_n = (n−1)/n·J_{n−2}.
func MeanSquare(d int) float64 {
	if d < 2 {
		panic(fmt.Sprintf("diverse: d = %d", d))
	}
	i, j := math.Pi*math.Pi*math.Pi/12, math.Pi
	n := 0
	if d%2 == 1 {
		i, j, n = math.Pi*math.Pi/2-4, 2, 1
	}
	for n += 2; n <= d-2; n += 2 {
		f := float64(n)
		j *= (f - 1) / f
		i = (f-1)/f*i - 2/(f*f)*j
	}
	return 1.0/16 + i/j/(4*math.Pi*math.Pi)
}

// Regulariser is R(W) = mean_{i≠j} k(⟨ŵ_i,ŵ_j⟩)² over n rows of d weights (004, A
// regularization term); for unit rows
// L2² = (n−1)/n·R + 1/(4n) − E k².
type Regulariser struct{ N, D int }

// Dim returns N·D.
func (r Regulariser) Dim() int { return r.N * r.D }

// Value returns R.
func (r Regulariser) Value(ctx context.Context, w []float64) (float64, error) {
	return r.Grad(ctx, make([]float64, len(w)), w)
}

// Grad writes ∂R/∂w_i = 4/(n(n−1))·Σ_{j≠i} k(t)·k′(t)·(ŵ_j − t·ŵ_i)/‖w_i‖ to dst, t the
// inner product and k′ = 1/(2π√(1−t²)), and returns R. Rows that are parallel have no
// direction to part in and add nothing.
func (r Regulariser) Grad(_ context.Context, dst, w []float64) (float64, error) {
	unit := units(mat.NewDense(r.N, r.D, w))
	t := products(unit)
	clear(dst)
	pairs := float64(r.N * (r.N - 1))
	coef := mat.NewDense(r.N, r.N, nil)
	sum := 0.0
	for i := range r.N {
		norm := floats.Norm(w[i*r.D:(i+1)*r.D], 2)
		for j := range r.N {
			if i == j {
				continue
			}
			c := t.At(i, j)
			k := Kernel(c)
			sum += k * k
			if s := (1 - c) * (1 + c); s > 1e-14 {
				g := 4 / pairs * k / (2 * math.Pi * math.Sqrt(s)) / norm
				coef.Set(i, j, g)
				coef.Set(i, i, coef.At(i, i)-g*c)
			}
		}
	}
	mat.NewDense(r.N, r.D, dst).Mul(coef, unit)
	return sum / pairs, nil
}

// Objective is L + λ·R with L = 1/(2m)·Σ (y_l − f(x_l))², on the weights alone.
type Objective struct {
	Loss   *network.Loss
	Lambda float64
	R      Regulariser
	grad   []float64
}

// NewObjective returns the objective of networks with output weights v on the m rows
// of x with targets y.
func NewObjective(x *mat.Dense, y, v []float64, lambda float64) (*Objective, error) {
	rows := table(x, y)
	l, err := network.NewLoss(ReLU{}, rows, len(v), v, 1)
	if err != nil {
		return nil, err
	}
	o := &Objective{Loss: l, Lambda: lambda, R: Regulariser{len(v), rows.D}}
	o.grad = make([]float64, o.Dim())
	return o, nil
}

// table is a matrix with its targets as rows.
func table(x *mat.Dense, y []float64) *model.Data {
	m, d := x.Dims()
	out := &model.Data{N: m, D: d}
	for at := 0; at < m; at += model.BlockRows {
		n := min(model.BlockRows, m-at)
		b := model.Block{N: n, X: make([]float64, n*d), Y: append([]float64(nil), y[at:at+n]...)}
		for i := range n {
			for j := range d {
				b.X[j*n+i] = x.At(at+i, j)
			}
		}
		out.Blocks = append(out.Blocks, b)
	}
	return out
}

// Dim returns the number of weights.
func (o *Objective) Dim() int { return o.R.Dim() }

// Value returns L + λR.
func (o *Objective) Value(ctx context.Context, w []float64) (float64, error) {
	return o.Grad(ctx, make([]float64, len(w)), w)
}

// Grad writes the gradient to dst and returns L + λR.
func (o *Objective) Grad(ctx context.Context, dst, w []float64) (float64, error) {
	value, err := o.Loss.Grad(ctx, dst, w)
	if err != nil || o.Lambda == 0 {
		return value, err
	}
	r, err := o.R.Grad(ctx, o.grad, w)
	if err != nil {
		return 0, err
	}
	floats.AddScaled(dst, o.Lambda, o.grad)
	return value + o.Lambda*r, nil
}

var _ optim.Objective = (*Objective)(nil)

// Residuals returns f(x_l) − y_l.
func Residuals(w *mat.Dense, v []float64, x *mat.Dense, y []float64) []float64 {
	var z mat.Dense
	z.Mul(x, w.T())
	out := make([]float64, len(y))
	for l := range out {
		for k, s := range v {
			out[l] += s * max(z.At(l, k), 0)
		}
		out[l] -= y[l]
	}
	return out
}

// Level is an eigenvalue of the kernel κ(x, y) = k(⟨x,y⟩)·⟨x,y⟩ on the unit sphere of
// ℝ^d, for the uniform distribution: of the spherical harmonics of a degree.
type Level struct {
	Degree       int
	Multiplicity float64
	Value        float64
}

// Levels returns the eigenvalues of the degrees 0 to most, by Funk and Hecke:
// E[κ(t)·P_ℓ(t)] over the inner product t of two points, P_ℓ the Gegenbauer
// polynomial with P_ℓ(1) = 1. Those of odd degree from 3 on are 0, and
// Σ multiplicity·value = κ(1) = ½.
func Levels(d, most int) []Level {
	out := make([]Level, most+1)
	for l := range out {
		value := gauss.Sphere(d, func(t float64) float64 { return Kernel(t) * t * gegenbauer(d, l, t) })
		if l >= 3 && l%2 == 1 {
			value = 0
		}
		out[l] = Level{Degree: l, Multiplicity: multiplicity(d, l), Value: value}
	}
	return out
}

// gegenbauer is P_ℓ in d dimensions, by its recurrence
// (ℓ+d−2)·P_{ℓ+1} = (2ℓ+d−2)·t·P_ℓ − ℓ·P_{ℓ−1}.
func gegenbauer(d, degree int, t float64) float64 {
	before, p := 1.0, t
	if degree == 0 {
		return 1
	}
	for l := 1; l < degree; l++ {
		f := float64(l)
		before, p = p, ((2*f+float64(d)-2)*t*p-f*before)/(f+float64(d)-2)
	}
	return p
}

// multiplicity is the dimension of the spherical harmonics of a degree in ℝ^d,
// C(ℓ+d−1, ℓ) − C(ℓ+d−3, ℓ−2).
func multiplicity(d, l int) float64 {
	out := choose(l+d-1, l)
	if l >= 2 {
		out -= choose(l+d-3, l-2)
	}
	return out
}

func choose(n, k int) float64 {
	out := 1.0
	for i := 1; i <= k; i++ {
		out = out * float64(n-k+i) / float64(i)
	}
	return math.Round(out)
}

// mostDegree is how far [Gamma] looks.
const mostDegree = 24

// Gamma returns γ_1 ≥ γ_2 ≥ … ≥ γ_m, the m largest eigenvalues of the kernel with
// their multiplicities.
func Gamma(d, m int) []float64 {
	levels := Levels(d, mostDegree)
	out := make([]float64, 0, m)
	for len(out) < m {
		best := 0
		for l := range levels {
			if levels[l].Value > levels[best].Value {
				best = l
			}
		}
		for range int(min(levels[best].Multiplicity, float64(m-len(out)))) {
			out = append(out, levels[best].Value)
		}
		levels[best].Value = math.Inf(-1)
	}
	return out
}
