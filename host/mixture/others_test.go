package mixture

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLogOthers: log(1 − s_i) is the difference of two log-sum-exps, of all but i and of all, whatever the size of the
// logits: to rounding of the logits, which such differences have.
func TestLogOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 14))
	lse := func(v []float64, but int) float64 {
		most := math.Inf(-1)
		for i, x := range v {
			if i != but {
				most = max(most, x)
			}
		}
		sum := 0.0
		for i, x := range v {
			if i != but && x > math.Inf(-1) {
				sum += math.Exp(x - most)
			}
		}
		return most + math.Log(sum)
	}
	for _, k := range []int{2, 3, 8} {
		for _, scale := range []float64{0, 1e-9, 1, 30, 700, 1e5, 1e200} {
			const n = 37
			v, dst, room := make([]float64, k*n), make([]float64, k*n), make([]float64, (k+4)*n)
			for i := range v {
				v[i] = scale * rng.NormFloat64()
			}
			if scale > 0 {
				v[0] = math.Inf(-1)         // an expert that cannot be
				v[1], v[n+1] = scale, scale // two are the largest
			}
			logOthers(dst, v, k, n, room, make([]int, n))
			for row := range n {
				column, size := make([]float64, k), 4.0
				for i := range column {
					column[i] = v[i*n+row]
					if !math.IsInf(column[i], 0) {
						size = max(size, math.Abs(column[i]))
					}
				}
				for i := range column {
					got, want := dst[i*n+row], lse(column, i)-lse(column, -1)
					if math.IsInf(want, -1) && got == want {
						continue
					}
					if !(math.Abs(got-want) <= 4e-16*size) {
						t.Errorf("k=%d scale %g, row %d: log(1 − s_%d) is %.17g, want %.17g", k, scale, row, i, got, want)
					}
				}
			}
		}
	}
}

func BenchmarkLogOthers(b *testing.B) {
	rng := rand.New(rand.NewPCG(3, 15))
	const k, n = 3, 256
	v, dst, room := make([]float64, k*n), make([]float64, k*n), make([]float64, (k+4)*n)
	for i := range v {
		v[i] = 10 * rng.NormFloat64()
	}
	which := make([]int, n)
	for b.Loop() {
		logOthers(dst, v, k, n, room, which)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/row")
}
