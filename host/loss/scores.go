package loss

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
)

// productSums are the sums of the products of all pairs of a row's scores, times
// its weight: the middle of the sandwich covariance.
type productSums struct {
	*layout
	packed []float64 // the upper triangle, in rows
}

func newProductSums(o *layout) *productSums {
	n := len(o.parameters)
	return &productSums{layout: o, packed: make([]float64, n*(n+1)/2)}
}

func (s *productSums) values() [][]float64 { return [][]float64{s.packed} }

func (s *productSums) block(w *work) {
	rows := w.scoresOf(s.parameters)
	kernel.AddGram(s.packed, rows, rows)
}

// write writes the sums to m.
func (s *productSums) write(m *mat.SymDense) {
	at := 0
	for i := range s.parameters {
		for j := i; j < len(s.parameters); j++ {
			m.SetSym(i, j, s.packed[at])
			at++
		}
	}
}

// scoresOf returns the weighted scores of the rows, N values for every parameter.
func (w *work) scoresOf(parameters []Parameter) [][]float64 {
	if w.scores == nil {
		w.scores = numeric.Columns(len(parameters), model.BlockRows)
	}
	n := w.N
	out := make([][]float64, len(parameters))
	for at, q := range parameters {
		dst := w.scores[at][:n]
		switch q.Part {
		case model.Expert:
			w.MeanScore(dst, q.Index)
			inv, dg := 1/w.ScaleOf(q.Index), w.dg[q.Index*n:(q.Index+1)*n]
			for t, x := range w.cols[q.Feature] {
				dst[t] = dst[t] * dg[t] * inv * x
			}
		case model.Gate:
			w.GateScore(dst, q.Index)
			kernel.Mul(dst, dst, w.cols[q.Feature])
		case model.Noise:
			w.NoiseScore(dst, q.Own*len(w.P.Sigma)+q.Index)
		case model.Offset, model.Scale:
			w.scoreOutput(dst, q, len(w.P.Offset))
		}
		w.weigh(dst)
		out[at] = dst
	}
	return out
}

// scoreOutput writes ∂log p/∂c_m, or ∂s_m, to dst.
func (w *work) scoreOutput(dst []float64, q Parameter, outputs int) {
	clear(dst)
	each := w.terms[:w.N]
	for i := range w.K {
		if outputs > 1 && i != q.Index {
			continue
		}
		w.MeanScore(each, i)
		floats.Scale(1/w.ScaleOf(i), each)
		if q.Part == model.Scale {
			kernel.Mul(each, each, w.gOf(i))
		}
		floats.Add(dst, each)
	}
}
