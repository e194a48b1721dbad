package partition

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
)

// standardised returns the rows (x, y), of one target or several, with every column at mean 0
// and unit variance; a column that is constant stays constant.
func standardised(data *model.Data) *mat.Dense {
	columns := data.D + len(data.Blocks[0].Y)/data.Blocks[0].N
	m := mat.NewDense(data.N, columns, nil)
	at := 0
	for i := range data.Blocks {
		b := &data.Blocks[i]
		for r := range b.N {
			for j := range data.D {
				m.Set(at+r, j, b.Col(j)[r])
			}
			for j := data.D; j < columns; j++ {
				m.Set(at+r, j, b.Y[(j-data.D)*b.N+r])
			}
		}
		at += b.N
	}
	for j := range columns {
		mean, squares := 0.0, 0.0
		for r := range data.N {
			mean += m.At(r, j) / float64(data.N)
		}
		for r := range data.N {
			squares += (m.At(r, j) - mean) * (m.At(r, j) - mean)
		}
		if sd := math.Sqrt(squares / float64(data.N)); sd > 0 {
			for r := range data.N {
				m.Set(r, j, (m.At(r, j)-mean)/sd)
			}
		}
	}
	return m
}

// kmeans returns the cluster of each row: k-means++ seeds, then Lloyd's
// iterations until nothing moves, 50 at most.
func kmeans(rng *rand.Rand, rows *mat.Dense, k int) []int {
	n, d := rows.Dims()
	centres := mat.NewDense(k, d, nil)
	near := make([]float64, n)
	for i := range near {
		near[i] = math.Inf(1)
	}
	centres.SetRow(0, rows.RawRowView(rng.IntN(n)))
	for c := 1; c < k; c++ {
		for r := range n {
			near[r] = min(near[r], squaredDistance(rows.RawRowView(r), centres.RawRowView(c-1)))
		}
		pick, u := 0, rng.Float64()*floats.Sum(near)
		for ; pick < n-1 && u >= near[pick]; pick++ {
			u -= near[pick]
		}
		centres.SetRow(c, rows.RawRowView(pick))
	}
	label, count := make([]int, n), make([]int, k)
	for range 50 {
		moved := false
		for r := range n {
			best, nearest := 0, math.Inf(1)
			for c := range k {
				if d := squaredDistance(rows.RawRowView(r), centres.RawRowView(c)); d < nearest {
					best, nearest = c, d
				}
			}
			moved = moved || best != label[r]
			label[r] = best
		}
		if !moved {
			break
		}
		clear(count)
		centres.Zero()
		for r, c := range label {
			floats.Add(centres.RawRowView(c), rows.RawRowView(r))
			count[c]++
		}
		for c, m := range count {
			floats.Scale(1/float64(max(m, 1)), centres.RawRowView(c))
		}
	}
	return label
}

func squaredDistance(a, b []float64) (sum float64) {
	b = b[:len(a)]
	for i, v := range a {
		e := v - b[i]
		sum += float64(e * e)
	}
	return sum
}

// leastSquares sets regressor i of p to that of y on x over the rows with label
// i, with a small ridge.
func leastSquares(p *model.Params, i int, data *model.Data, label []int) {
	d := data.D
	gram, rhs := mat.NewSymDense(d+1, nil), mat.NewVecDense(d+1, nil)
	x := make([]float64, d+1)
	at := 0
	for t := range data.Blocks {
		b := &data.Blocks[t]
		for r := range b.N {
			if label[at+r] != i {
				continue
			}
			for j := range d {
				x[j] = b.Col(j)[r]
			}
			if p.RegressorIntercepts != nil {
				x[d] = 1
			}
			v := mat.NewVecDense(d+1, x)
			gram.SymRankOne(gram, 1, v)
			rhs.AddScaledVec(rhs, b.Y[r], v)
		}
		at += b.N
	}
	for j := range d + 1 {
		gram.SetSym(j, j, gram.At(j, j)+1e-3*(1+gram.At(j, j)))
	}
	var chol mat.Cholesky
	var solution mat.VecDense
	if !chol.Factorize(gram) || chol.SolveVecTo(&solution, rhs) != nil {
		return
	}
	copy(p.Regressor(i), solution.RawVector().Data[:d])
	if p.RegressorIntercepts != nil {
		p.RegressorIntercepts[i] = solution.AtVec(d)
	}
}
