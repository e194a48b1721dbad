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
	rows := w.scoresOf(s.layout)
	kernel.AddGram(s.packed, rows, rows)
}

// write writes the sums to m.
func (s *productSums) write(m *mat.SymDense) { numeric.SetTriangle(m, s.packed) }

// scoresOf returns the weighted scores of the rows, N values for every parameter.
func (w *work) scoresOf(o *layout) [][]float64 {
	if w.scores == nil {
		w.scores = numeric.Columns(len(o.parameters), model.BlockRows)
	}
	out := numeric.FirstOf(w.scores, w.N)
	if w.vectorWork != nil {
		w.derivatives.scores(out)
	} else {
		w.scoresOfOne(o.parameters, out)
	}
	for _, score := range out {
		w.WeighRows(score)
	}
	return out
}

// scoresOfOne writes the scores of the rows with one target to out.
func (w *work) scoresOfOne(parameters []Parameter, out [][]float64) {
	n := w.N
	for at, q := range parameters {
		dst := out[at]
		switch q.Part {
		case model.Expert:
			w.MeanScore(dst, q.Index)
			inv, dg := 1/w.ScaleOf(q.Index), w.dg[q.Index*n:(q.Index+1)*n]
			for t, x := range w.Cols[q.Feature] {
				dst[t] = dst[t] * dg[t] * inv * x
			}
		case model.Gate:
			w.GateScore(dst, q.Index)
			kernel.Mul(dst, dst, w.Cols[q.Feature])
		case model.Noise:
			w.NoiseScore(dst, q.Own*len(w.P.Sigma)+q.Index)
		case model.Offset, model.Scale:
			w.scoreOutput(dst, q, len(w.P.Offset))
		}
	}
}

// addGateScores adds Σ ∂log p/∂η_j·x of the gate's rows to dst, where the gate is free.
func (w *work) addGateScores(o *layout, dst []float64) {
	if !o.free.Gating || o.gates == 0 {
		return
	}
	terms := w.termsOf(o.gates)
	for j, wt := range terms {
		w.GateScore(wt, j)
		w.WeighRows(wt)
	}
	w.AddColumns(dst, terms, o.gate)
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
