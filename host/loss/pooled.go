package loss

import (
	"context"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// pooledCurvature steps the experts by curvatures of their M-steps from the mean of an expert's rows and the covariance
// of all:
//
//	Σ r_i·g′_i²·x·xᵀ ≈ M_i·(cov x + m_i·m_iᵀ),  M_i = Σ r_i·g′_i²,  m_i = Σ r_i·g′_i²·x/M_i
//
// as linear discriminants do. For normal x that is near under a softmax gate, which moves the mean of an expert's rows
// and leaves their covariance. Scores are as they are, and so are the points where steps end; a step costs a row k·d,
// where that with the Gram matrix of every expert costs it k·d².
type pooledCurvature struct {
	cov    *mat.SymDense
	system *gram.System // room
}

// step adds the experts' steps to θ, and lowers the deviances by what they gain where g is linear.
func (c *pooledCurvature) step(theta []float64, s *sums) {
	m := s.moments
	for i, mass := range m.mass {
		if !(mass > 0) {
			continue
		}
		mean := m.sum[i*m.da : (i+1)*m.da]
		c.system.H.SymRankOne(c.cov, 1/(mass*mass), mat.NewVecDense(m.da, mean))
		if !c.system.Factorize() {
			continue
		}
		at, score := m.regressor(i), s.gradient.ofExpert(i)
		step := c.system.Solve(score)
		floats.Scale(1/mass, step)
		floats.Add(theta[at:at+m.da], step)
		s.gradient.deviance[i] = max(0, s.gradient.deviance[i]-floats.Dot(step, score))
	}
}

// momentSums are Σ r_i·g′_i² of every expert, and Σ r_i·g′_i²·x.
type momentSums struct {
	*layout
	mass, sum []float64
}

func (s *momentSums) values() [][]float64 { return [][]float64{s.mass, s.sum} }

func (s *momentSums) block(w *work) {
	terms := w.termsOf(s.k)
	for i, wt := range terms {
		w.Complete(wt, i, w.row(w.dg, i))
		w.WeighRows(wt)
		s.mass[i] += kernel.Sum(wt)
	}
	w.AddColumns(s.sum, terms, s.expert)
}

// squaresOf returns Σ x·xᵀ and Σ x over the columns named.
func squaresOf(ctx context.Context, s *passes, named []int) (*gram.System, []float64, error) {
	w, squares, sum := s.workOf(0), gram.New(s.width, 1), make([]float64, len(named))
	err := model.InOrder(ctx, s.rows, func(b *model.Block) error {
		w.Take(b)
		g, ones := squares.Begin(&w.Design), w.terms[:b.N]
		for t := range ones {
			ones[t], g.Terms[t] = 1, 1
		}
		w.AddWeighted(sum, ones, named)
		g.Next()
		return nil
	})
	out := gram.NewSystem(len(named))
	squares.Put(out.H, 0, 0, 0, named, named, 1)
	return out, sum, err
}
