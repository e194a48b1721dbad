package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss/gram"
	"github.com/gatedlearning/moe/host/model"
)

// Pooled is a likelihood whose EM steps take the curvatures of the experts' M-steps from all rows together,
//
//	Σ r_i·g′_i²·x·xᵀ ≈ Σ r_i·g′_i² · mean(x·xᵀ)
//
// which is exact where posteriors and slopes do not depend on x. Scores are as they are, and so are the points where
// steps end; a step costs a row k·d, where that with the Gram matrix of every expert costs it k·d². Gates stay.
type Pooled struct {
	*Likelihood
	squares *gram.System // mean(x·xᵀ) over the experts' columns
}

// NewPooled returns l with such steps, where it has no ties and the means are g.
func NewPooled(ctx context.Context, l *Likelihood) (*Pooled, error) {
	squares, err := squaresOf(ctx, l.passes, l.expert)
	squares.H.ScaleSym(1/l.n, squares.H)
	squares.Factorize()
	return &Pooled{l, squares}, err
}

// EMStep writes the next iterate after θ to dst and returns L(θ), as [Likelihood.EMStep] does.
func (l *Pooled) EMStep(ctx context.Context, dst, theta []float64) (float64, error) {
	copy(dst, theta)
	s, err := l.at(ctx, theta, ofGradient|ofLevers)
	if err != nil {
		return math.NaN(), err
	}
	for i, lever := range s.levers {
		if !(lever > 0) {
			continue
		}
		at, score := l.regressor(i), s.gradient.ofExpert(i)
		step := l.squares.Solve(score)
		floats.Scale(1/lever, step)
		floats.Add(dst[at:at+l.da], step)
		s.gradient.deviance[i] = max(0, s.gradient.deviance[i]-floats.Dot(step, score))
	}
	if l.free.Sigma {
		s.gradient.stepNoise(dst, l.cur, l.mix.Density)
	}
	return l.objective(s.loglik, theta), nil
}

// leverSums are Σ r_i·g′_i² of every expert.
type leverSums []float64

func (s leverSums) values() [][]float64 { return [][]float64{s} }

func (s leverSums) block(w *work) {
	n := w.N
	for i := range s {
		w.Complete(w.terms[:n], i, w.dg[i*n:(i+1)*n])
		s[i] += w.Sum(w.terms[:n])
	}
}

// squaresOf returns Σ x·xᵀ over the columns named.
func squaresOf(ctx context.Context, s *passes, named []int) (*gram.System, error) {
	w, squares := s.workOf(0), gram.New(s.width, 1)
	err := model.InOrder(ctx, s.rows, func(b *model.Block) error {
		w.Take(b)
		g := squares.Begin(&w.Design)
		for t := range g.Terms {
			g.Terms[t] = 1
		}
		g.Next()
		return nil
	})
	out := gram.NewSystem(len(named))
	squares.Put(out.H, 0, 0, 0, named, named, 1)
	return out, err
}
