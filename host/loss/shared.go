package loss

import (
	"math"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/kernel"
)

// sharedSums are the rows that the gate gives to two experts, k×k: Σ p_i·p_j, and under a
// tree, for leaves that part at the node v, Σ r_v·q_i·q_j, of the rows that are the node's by
// their posterior r_v, with q its leaves' share of it. An expert that is always 0 is one of the k.
type sharedSums struct{ prior []float64 }

func newSharedSums(o *layout) *sharedSums { return &sharedSums{make([]float64, o.classes*o.classes)} }

func (s *sharedSums) values() [][]float64 { return [][]float64{s.prior} }

func (s *sharedSums) block(w *work) {
	if w.P.Tree.Depth() <= 1 {
		w.addOverlap(s.prior, w.Prior, w.P.Classes())
		return
	}
	share := make([]float64, w.K)
	for _, v := range w.P.Tree.Gates() {
		for t := range w.N {
			mass := w.shares(share[v.From:v.To], v, t)
			for c, end := range v.Ends[:len(v.Ends)-1] {
				from, _ := v.Branch(c)
				for i := from; i < end; i++ {
					for j := end; j < v.To; j++ {
						s.prior[i*w.K+j] += mass * share[i] * share[j]
					}
				}
			}
		}
	}
}

// shares writes what of row t of node v's rows its leaves have by the gates, and returns the
// posterior that the row is the node's, times the row's weight.
func (w *work) shares(dst []float64, v model.GateNode, t int) (mass float64) {
	top := math.Inf(-1)
	for i := v.From; i < v.To; i++ {
		top = max(top, w.Scores[i*w.N+t])
		mass += w.Post[i*w.N+t]
	}
	sum := 0.0
	for i := range dst {
		dst[i] = math.Exp(w.Scores[(v.From+i)*w.N+t] - top)
		sum += dst[i]
	}
	for i := range dst {
		dst[i] /= sum
	}
	if w.Weight != nil {
		mass *= w.Weight[t]
	}
	return mass
}

// addOverlap adds Σ_rows v_i·v_j to the entries (i, j) of dst, for k rows of values v.
func (w *work) addOverlap(dst, v []float64, k int) {
	n := w.N
	weighted, rows := w.termsOf(k), w.ofClasses[:k]
	for i := range rows {
		rows[i] = v[i*n : (i+1)*n]
		copy(weighted[i], rows[i])
		w.WeighRows(weighted[i])
	}
	kernel.AddProducts(dst, weighted, rows)
}
