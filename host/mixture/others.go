package mixture

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/internal/kernel"
)

// logOthers writes log(1 − s_i) to dst, with s the softmax of each column of v, k rows of n values: what the others
// have, to all digits also where s_i is next to 1. room has (k + 4)·n places, which has n.
//
// With the largest of a column M, the second m and f_j = exp(min(0, v_j − m)), which is 1 of the largest,
//
//	Σ exp(v_j − M) = 1 + exp(m − M)·F,   F = Σ f_j − 1.
//
// Without the largest the sum is exp(m − M)·F, and without another its f is not in F.
func logOthers(dst, v []float64, k, n int, room []float64, which []int) {
	dst = dst[:k*n]
	row := func(i int) []float64 { return room[i*n : (i+1)*n] }
	f, most, second, gap, sum := room[:k*n], row(k), row(k+1), row(k+2), row(k+3)
	for t := range n {
		most[t], second[t], sum[t] = math.Inf(-1), math.Inf(-1), -1
	}
	for i := range k {
		for t, x := range v[i*n : (i+1)*n] {
			second[t] = max(second[t], min(most[t], x))
			most[t] = max(most[t], x)
		}
	}
	for t, m := range second {
		gap[t] = m - most[t]
		if math.IsInf(m, -1) { // beside the largest the others are nothing
			second[t] = most[t]
		}
	}
	which = which[:n]
	for i := range k {
		own := row(i)
		for t, x := range v[i*n : (i+1)*n] {
			own[t] = min(0, x-second[t])
			at := which[t]
			if x >= most[t] { // of several that are the largest each has the same beside it
				at = i
			}
			which[t] = at
		}
	}
	kernel.Exp(f, f)
	share := second
	kernel.Exp(share, gap)
	for i := range k {
		floats.Add(sum, row(i))
	}
	for i := range k {
		to, own := dst[i*n:(i+1)*n], row(i)
		for t, x := range share {
			to[t] = 1 + x*(sum[t]-own[t])
		}
	}
	for t, i := range which {
		dst[i*n+t] = sum[t]
		sum[t] = 1 + share[t]*sum[t]
	}
	kernel.Log(dst, dst)
	kernel.Log(sum, sum)
	for i := range k {
		floats.Sub(dst[i*n:(i+1)*n], sum)
	}
	for t, i := range which {
		dst[i*n+t] += gap[t]
	}
}
