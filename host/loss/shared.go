package loss

import "github.com/gatedlearning/moe/internal/kernel"

// sharedSums are the rows that the gate gives to two experts: k×k, Σ p_i·p_j.
type sharedSums struct{ prior []float64 }

func newSharedSums(o *layout) *sharedSums { return &sharedSums{make([]float64, o.k*o.k)} }

func (s *sharedSums) values() [][]float64 { return [][]float64{s.prior} }

func (s *sharedSums) block(w *work) { w.addOverlap(s.prior, w.Prior) }

// addOverlap adds Σ_rows v_i·v_j to the entries (i, j) of dst, for K rows of values v.
func (w *work) addOverlap(dst, v []float64) {
	k, n := w.K, w.N
	weighted, rows := w.termsOf(k), w.ofExperts[:k]
	for i := range rows {
		rows[i] = v[i*n : (i+1)*n]
		copy(weighted[i], rows[i])
		w.weigh(weighted[i])
	}
	kernel.AddProducts(dst, weighted, rows)
}
