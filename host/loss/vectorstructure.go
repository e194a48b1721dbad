package loss

import (
	"context"
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// vectorStructure are the posteriors that the experts have in common, and for each expert and each two of its
// coordinates a ≤ b the Gram matrix with weights r·u_a·u_b, u_c its ∂log f/∂z_c.
type vectorStructure struct {
	grams
	overlap []float64 // k×k: Σ r_i·r_j
}

func newVectorStructure(o *layout) *vectorStructure {
	return &vectorStructure{newGrams(o, o.k*o.m*(o.m+1)/2), make([]float64, o.k*o.k)}
}

func (s *vectorStructure) values() [][]float64 { return [][]float64{s.Sums, s.overlap} }

func (s *vectorStructure) block(w *work) {
	w.addOverlap(s.overlap, w.Post, s.k)
	g, m := s.Begin(&w.Design), s.m
	ru := w.more[:w.N]
	for i := range s.k {
		for a := range m {
			kernel.Mul(ru, w.PostOf(i), w.scoreOf(i*m+a))
			for b := a; b < m; b++ {
				kernel.Mul(g.Terms, ru, w.scoreOf(i*m+b))
				g.Next()
			}
		}
	}
}

// Structure sums over the data at p, with residuals in units of their root mean square over all experts, a unit for
// each target.
func (l *Vector) Structure(ctx context.Context, p *model.VectorParams) (*Structure, error) {
	s, err := l.under(ctx, p, ofGradient|ofExperts|ofStructure)
	if err != nil {
		return nil, err
	}
	out := &Structure{Mass: append([]float64(nil), s.several.gradient.mass...), RSS: make([]float64, l.k),
		Overlap: append([]float64(nil), s.several.structure.overlap...)}
	units := make([]float64, l.m)
	of := func(i, c int) float64 { return s.several.gradient.scatter[(i*l.m+c)*l.m+c] }
	for c := range units {
		sum := 0.0
		for i := range l.k {
			sum += of(i, c)
		}
		if units[c] = 1; sum > 0 {
			units[c] = math.Sqrt(sum / l.n)
		}
		for i := range l.k {
			out.RSS[i] += of(i, c) / units[c] / units[c]
		}
	}
	for i := range l.k {
		out.Axes = append(out.Axes, l.axis(s, i, units))
	}
	return out, nil
}

// axis is that of expert i, as steps of its coefficients: of unit length where those of each target are in its unit.
func (l *Vector) axis(s *sums, i int, units []float64) []float64 {
	m, da := l.m, l.da
	g, ge := mat.NewSymDense(m*da, nil), mat.NewSymDense(m*da, nil)
	weight := l.several.noises[min(i, l.levels-1)].Weight
	for p, of := range l.joined {
		a, b := of[0], of[1]
		s.several.experts.Put(g, i*len(l.joined)+p, a*da, b*da, l.expert, l.expert,
			weight[a*m+b]*units[a]*units[b])
	}
	at := i * m * (m + 1) / 2
	for a := range m {
		for b := a; b < m; b++ {
			s.several.structure.Put(ge, at, a*da, b*da, l.expert, l.expert, units[a]*units[b])
			at++
		}
	}
	axis := make([]float64, m*(l.d+1))
	for at, v := range leading(g, ge) {
		c := at / da
		axis[c*(l.d+1)+l.expert[at%da]] = units[c] * v
	}
	return axis
}
