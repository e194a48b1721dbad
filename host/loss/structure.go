package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/internal/numeric"
)

// Structure shows where a local optimum has merged experts that should be two,
// and keeps two where one would do.
type Structure struct {
	Mass []float64 // Σ r_i
	// Σ r_i·(y−g_i)²; of densities other than normal Σ r_i·u_i·e_i, e_i of [mixture.Posterior.ResidualOf]
	RSS     []float64
	Overlap []float64 // k×k: Σ r_i·r_j
	// Axes holds, for each expert, the direction in which its squared residuals
	// grow fastest: an expert that covers two true ones, a and a′, has
	// residuals ±⟨a−a′, x⟩/2, and its axis is a−a′. Unit rows of D values, and
	// one more for the intercept; of several targets such a row for each, one after the other, in units of
	// their own (see [Vector.Structure]).
	Axes [][]float64
}

// structureSums are the posteriors that the experts have in common, and for each expert the Gram
// matrices with weights r·g′² and r·g′²·u²; u is y − g where the noise is normal, ∂log f/∂m of other densities, r·g′²
// then that of [mixture.Posterior.Complete].
type structureSums struct {
	grams
	overlap []float64 // k×k: Σ r_i·r_j
}

func newStructureSums(o *layout) *structureSums {
	return &structureSums{grams: newGrams(o, 2*o.k), overlap: make([]float64, o.k*o.k)}
}

func (s *structureSums) values() [][]float64 { return [][]float64{s.Sums, s.overlap} }

func (s *structureSums) block(w *work) {
	n := w.N
	g := s.Begin(&w.Design)
	w.addOverlap(s.overlap, w.Post, s.k)
	for i := range s.k {
		ri := w.PostOf(i)
		dg, res := w.dg[i*n:(i+1)*n], w.ScoreOf(i)
		w.Complete(g.Terms, i, dg)
		g.Next()
		for t, e := range res {
			g.Terms[t] = ri[t] * dg[t] * dg[t] * e * e
		}
		g.Next()
	}
}

// read returns the structure that the sums show.
func (s *structureSums) read(g *gradientSums) *Structure {
	out := &Structure{
		Mass:    append([]float64(nil), g.mass...),
		RSS:     append([]float64(nil), g.deviance...),
		Overlap: append([]float64(nil), s.overlap...),
		Axes:    make([][]float64, s.k),
	}
	for i := range s.k {
		out.Axes[i] = make([]float64, s.d+1)
		for c, v := range s.axis(i) {
			out.Axes[i][s.expert[c]] = v
		}
	}
	return out
}

// axis returns that of expert i by its Gram matrices.
func (s *structureSums) axis(i int) []float64 {
	g, ge := mat.NewSymDense(s.da, nil), mat.NewSymDense(s.da, nil)
	s.Put(g, 2*i, 0, 0, s.expert, s.expert, 1)
	s.Put(ge, 2*i+1, 0, 0, s.expert, s.expert, 1)
	return leading(g, ge)
}

// leading returns the leading generalised eigenvector of ge relative to g, of unit length. A ridge is added to g.
func leading(g, ge *mat.SymDense) []float64 {
	n := g.SymmetricDim()
	axis := make([]float64, n)
	axis[0] = 1
	ridge := 1e-8*mat.Trace(g)/float64(n) + math.SmallestNonzeroFloat64
	for j := range n {
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
	var eig mat.EigenSym
	if !eig.Factorize(numeric.Symmetric(&both), true) {
		return axis
	}
	var v mat.Dense
	eig.VectorsTo(&v)
	var out mat.VecDense
	if out.SolveVec(lower.T(), v.ColView(n-1)) != nil {
		return axis
	}
	copy(axis, out.RawVector().Data)
	floats.Scale(1/floats.Norm(axis, 2), axis)
	return axis
}
