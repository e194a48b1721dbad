package loss

import (
	"context"
	"math"

	"github.com/gatedlearning/moe/host/model"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// Structure shows where a local optimum has merged experts that should be two,
// and keeps two where one would do.
type Structure struct {
	Mass    []float64 // Σ r_i
	RSS     []float64 // Σ r_i·(y−g_i)²
	Overlap []float64 // k×k: Σ r_i·r_j
	// Axes holds, for each expert, the direction in which its squared residuals
	// grow fastest: an expert that covers two true ones, a and a′, has
	// residuals ±⟨a−a′, x⟩/2, and its axis is a−a′. Unit rows of D values, and
	// one more for the intercept.
	Axes [][]float64
}

// Structure sums over the data at p.
func (l *Likelihood) Structure(ctx context.Context, p *model.Params) (*Structure, error) {
	s, err := l.pass(ctx, p, wantStructure)
	if err != nil {
		return nil, err
	}
	out := &Structure{
		Mass:    append([]float64(nil), s.mass...),
		RSS:     append([]float64(nil), s.rss...),
		Overlap: append([]float64(nil), s.overlap...),
		Axes:    make([][]float64, l.k),
	}
	for i := range l.k {
		out.Axes[i] = make([]float64, l.d+1)
		for c, v := range s.axis(i) {
			out.Axes[i][l.expert[c]] = v
		}
	}
	return out, nil
}

// addStructure adds the overlaps, and for each expert the Gram matrices with
// weights r·g′² and r·g′²·(y−g)².
func (l *Likelihood) addStructure(w *scratch, s *sums, n int) {
	for i := range l.k {
		ri := w.PostOf(i)
		for j := i; j < l.k; j++ {
			floats.MulTo(w.w[:n], ri, w.PostOf(j))
			v := w.sum(w.w[:n])
			s.overlap[i*l.k+j] += v
			if j > i {
				s.overlap[j*l.k+i] += v
			}
		}
		wt := w.w[:n]
		dg, res := w.dg[i*n:(i+1)*n], w.res[i*n:(i+1)*n]
		for t, r := range ri {
			wt[t] = r * dg[t] * dg[t]
		}
		w.gram(s.gram(2*i), wt)
		for t, e := range res {
			wt[t] = ri[t] * dg[t] * dg[t] * e * e
		}
		w.gram(s.gram(2*i+1), wt)
	}
}

// axis returns the leading generalised eigenvector of expert i's second Gram
// matrix relative to its first.
func (s *sums) axis(i int) []float64 {
	g, ge := mat.NewSymDense(s.da, nil), mat.NewSymDense(s.da, nil)
	s.place(g, s.gram(2*i), 0, 0, s.experts, s.experts, 1)
	s.place(ge, s.gram(2*i+1), 0, 0, s.experts, s.experts, 1)
	axis := make([]float64, s.da)
	axis[0] = 1
	ridge := 1e-8*mat.Trace(g)/float64(s.da) + math.SmallestNonzeroFloat64
	for j := range s.da {
		g.SetSym(j, j, g.At(j, j)+ridge)
	}
	var chol mat.Cholesky
	if !chol.Factorize(g) {
		return axis
	}
	var lower mat.TriDense
	chol.LTo(&lower)
	var left, both mat.Dense
	if left.Solve(&lower, ge) != nil || both.Solve(&lower, left.T()) != nil {
		return axis
	}
	sym := mat.NewSymDense(s.da, nil)
	for r := range s.da {
		for c := r; c < s.da; c++ {
			sym.SetSym(r, c, (both.At(r, c)+both.At(c, r))/2)
		}
	}
	var eig mat.EigenSym
	if !eig.Factorize(sym, true) {
		return axis
	}
	var v mat.Dense
	eig.VectorsTo(&v)
	var out mat.VecDense
	if out.SolveVec(lower.T(), v.ColView(s.da-1)) != nil {
		return axis
	}
	copy(axis, out.RawVector().Data)
	floats.Scale(1/floats.Norm(axis, 2), axis)
	return axis
}
