package searchtest

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
)

// WideTree is a kind of small tables with lines under a tree of gates, both with intercepts and all coefficients of
// N(0, 1), gates of 1.5 times as much, and noise about as wide as the lines are apart.
type WideTree struct {
	Name, Shape string
	Rows        int
	sigma       float64
	feature     func(rng *rand.Rand, column int) float64
}

// WideTrees are those of the study of small trees.
var WideTrees = []WideTree{
	{"uniform", "2x2", 400, .7, func(rng *rand.Rand, _ int) float64 { return 4*rng.Float64() - 2 }},
	{"normal", "2x2", 200, .4, func(rng *rand.Rand, _ int) float64 { return rng.NormFloat64() }},
	{"levels", "2x(1,2)", 400, .3, func(rng *rand.Rand, column int) float64 { return float64(rng.IntN(2 + 2*column)) }},
}

// Draw draws a table of so many rows.
func (w WideTree) Draw(seed uint64, rows int) dataset.Source {
	const d = 2
	rng := rand.New(rand.NewPCG(seed, uint64(len(w.Name))))
	normal := func(n int, scale float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = scale * rng.NormFloat64()
		}
		return out
	}
	var lines, gates [][]float64
	for range 4 {
		lines, gates = append(lines, normal(d+1, 1)), append(gates, append(normal(d, 1.5), normal(1, .6)...))
	}
	x, y := mat.NewDense(rows, d, nil), make([]float64, rows)
	for r := range rows {
		at := func(c []float64) float64 {
			v := c[d]
			for j := range d {
				v += c[j] * x.At(r, j)
			}
			return v
		}
		for j := range d {
			x.Set(r, j, w.feature(rng, j))
		}
		left := func(gate int) bool { return rng.Float64() < 1/(1+math.Exp(-at(gates[gate]))) }
		of := 0
		if !left(0) {
			if of = 2; !left(1) {
				of = 3
			}
		} else if w.Shape == "2x2" && !left(2) {
			of = 1
		}
		y[r] = at(lines[of]) + w.sigma*rng.NormFloat64()
	}
	return dataset.Matrix(x, y)
}
