package loss

import (
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
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
	w.writeScores(out, o)
	for _, score := range out {
		w.WeighRows(score)
	}
	return out
}

// writeScores writes the scores of the rows, without their weights, to out.
func (w *work) writeScores(out [][]float64, o *layout) {
	w.differentiate()
	w.DifferentiateNoise()
	for at, q := range o.parameters {
		dst := out[at][:w.N]
		if q.Part == model.Offset || q.Part == model.Scale {
			w.scoreOutput(dst, q, len(w.P.Offset))
			continue
		}
		w.By(dst, mixture.Argument{Part: q.Part, Index: q.Index, Own: q.Own})
		if q.Feature >= 0 {
			kernel.Mul(dst, dst, w.Cols[q.Feature])
		}
	}
}

// differentiate readies the second derivatives of the rows.
func (w *work) differentiate() {
	if w.vectorWork == nil {
		w.Differentiate(w.dg)
		return
	}
	o := w.vectorWork.o
	w.DifferentiateBy(w.Experts, w.LinearScores(), o.m, o.own, o.levels)
}

// scoreOf returns ∂log f_i/∂z_ia in place i·M + a.
func (w *work) scoreOf(at int) []float64 { return w.row(w.vectorWork.LinearScores(), at) }

// complete are the derivatives of the experts' log-densities.
func (w *work) complete() mixture.Complete {
	if w.vectorWork == nil {
		return w.Single()
	}
	return w.Experts
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
