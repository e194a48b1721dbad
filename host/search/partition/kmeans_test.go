package partition

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// inMemory are rows of a matrix.
func inMemory(t *testing.T, x *mat.Dense, y []float64) *model.Data {
	t.Helper()
	data, err := dataset.Load(t.Context(), dataset.Matrix(x, y))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestStandardised: every column has mean 0 and unit variance, to rounding, over
// more than one block; a constant one stays constant.
func TestStandardised(t *testing.T) {
	const n = 512 // a power of two, so that the mean of the constant column is exact
	rng := rand.New(rand.NewPCG(2, 2))
	x, y := mat.NewDense(n, 3, nil), make([]float64, n)
	for i := range y {
		x.SetRow(i, []float64{7 + 1e-3*rng.NormFloat64(), 4, 100 * rng.ExpFloat64()})
		y[i] = 1e5 * rng.Float64()
	}
	m := standardised(inMemory(t, x, y))
	for j, column := range [][]float64{mat.Col(nil, 0, x), nil, mat.Col(nil, 2, x), y} {
		got := mat.Col(nil, j, m)
		if column == nil {
			for _, v := range got {
				if v != 4 {
					t.Fatalf("the constant column has %v", v)
				}
			}
			continue
		}
		if mean, variance := floats.Sum(got)/n, floats.Dot(got, got)/n; math.Abs(mean) > 1e-10 || math.Abs(variance-1) > 1e-10 {
			t.Errorf("column %d: mean %v, mean square %v", j, mean, variance)
		}
		for i, v := range got { // in the order of the rows, and growing with them
			if (v > got[0]) != (column[i] > column[0]) {
				t.Fatalf("column %d: row %d is out of order", j, i)
			}
		}
	}
}

// TestStandardisedTargets: each of several targets is a column of its own.
func TestStandardisedTargets(t *testing.T) {
	data := &model.Data{N: 4, D: 1, Blocks: []model.Block{{N: 4, X: []float64{1, 1, 3, 3}, Y: []float64{5, 7, 7, 5, 20, 10, 10, 20}}}}
	want := mat.NewDense(4, 3, []float64{-1, -1, 1, -1, 1, -1, 1, 1, -1, 1, -1, 1})
	if got := standardised(data); !mat.EqualApprox(got, want, 1e-15) {
		t.Errorf("%v, want %v", mat.Formatted(got), mat.Formatted(want))
	}
}

// islands are rows about the three corners of a very long triangle: 0, and 10
// and 11, a third each, in this order.
func islands(n int) *mat.Dense {
	rng := rand.New(rand.NewPCG(3, 3))
	m := mat.NewDense(n, 2, nil)
	for i := range n {
		m.SetRow(i, []float64{[]float64{0, 10, 11}[3*i/n] + 0.1*rng.NormFloat64(), 0.1 * rng.NormFloat64()})
	}
	return m
}

// TestKMeansSeeds: seeds that are spread by their squared distances find the
// islands; the first rows, or rows drawn evenly, leave Lloyd's iterations with two
// of the islands in one. The last seed hits the island that is left unless it
// falls within the others, whose squares about their seeds are 0.04 beside its 1
// for every row: 1 time in 13 or less, and more than 20 of 100 times once in
// 50,000. Rows drawn evenly hit three islands 2 times in 9.
func TestKMeansSeeds(t *testing.T) {
	rows := islands(150)
	found := 0
	for seed := range uint64(100) {
		label := kmeans(rand.New(rand.NewPCG(seed, 0)), rows, 3)
		whole := label[0] != label[50] && label[0] != label[100] && label[50] != label[100]
		for i, c := range label {
			whole = whole && c == label[i/50*50]
		}
		if whole {
			found++
		}
	}
	if found < 80 {
		t.Errorf("the islands were found %d times of 100", found)
	}
}

// TestKMeansIsAtRest: every row belongs to the cluster whose mean is nearest, on
// rows that have no islands and take many iterations.
func TestKMeansIsAtRest(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	rows := mat.NewDense(400, 3, nil)
	for i := range 400 {
		for j := range 3 {
			rows.Set(i, j, rng.NormFloat64())
		}
	}
	label := kmeans(rand.New(rand.NewPCG(1, 0)), rows, 4)
	means, count := mat.NewDense(4, 3, nil), make([]float64, 4)
	for i, c := range label {
		floats.Add(means.RawRowView(c), rows.RawRowView(i))
		count[c]++
	}
	for c, n := range count {
		floats.Scale(1/n, means.RawRowView(c))
	}
	for i, c := range label {
		for other := range 4 {
			if near := floats.Distance(rows.RawRowView(i), means.RawRowView(other), 2); near < floats.Distance(rows.RawRowView(i), means.RawRowView(c), 2)-1e-12 {
				t.Fatalf("row %d of cluster %d is nearer to the mean of %d", i, c, other)
			}
		}
	}
}

// TestLeastSquares against the QR decomposition of the rows of the cluster above
// those of the ridge, with and without an intercept; other experts are left
// alone, and an empty cluster's is 0.
func TestLeastSquares(t *testing.T) {
	const n, d = 600, 3
	rng := rand.New(rand.NewPCG(5, 5))
	x, y, label := mat.NewDense(n, d, nil), make([]float64, n), make([]int, n)
	for i := range y {
		x.SetRow(i, []float64{rng.NormFloat64(), 3 * rng.NormFloat64(), 1 + rng.NormFloat64()})
		label[i] = rng.IntN(2) * 2
		y[i] = 1 + float64(label[i])*x.At(i, 1) - x.At(i, 2) + rng.NormFloat64()
	}
	data := inMemory(t, x, y)
	for _, intercept := range []bool{false, true} {
		p := problem.Shape{K: 4, D: d, Intercept: intercept, GateIntercept: intercept}.Blank(1)
		columns := d
		if intercept {
			columns++
		}
		for _, i := range []int{0, 1, 2} {
			leastSquares(p, i, data, label)
		}
		for _, i := range []int{0, 2} {
			var rows, target []float64
			squares := make([]float64, columns)
			for r := range n {
				if label[r] == i {
					row := append(mat.Row(nil, r, x), 1)[:columns]
					rows, target = append(rows, row...), append(target, y[r])
					for j, v := range row {
						squares[j] += v * v
					}
				}
			}
			for j, s := range squares {
				row := make([]float64, columns)
				row[j] = math.Sqrt(1e-3 * (1 + s))
				rows, target = append(rows, row...), append(target, 0)
			}
			var want mat.VecDense
			if err := want.SolveVec(mat.NewDense(len(target), columns, rows), mat.NewVecDense(len(target), target)); err != nil {
				t.Fatal(err)
			}
			got := append([]float64(nil), p.Regressor(i)...)
			if intercept {
				got = append(got, p.RegressorIntercepts[i])
			}
			if !floats.EqualApprox(got, want.RawVector().Data, 1e-10) {
				t.Errorf("intercept %v, expert %d: %v, want %v", intercept, i, got, want.RawVector().Data)
			}
		}
		for _, i := range []int{1, 3} {
			if floats.Norm(p.Regressor(i), 2) != 0 || intercept && p.RegressorIntercepts[i] != 0 {
				t.Errorf("expert %d without rows is %v", i, p.Regressor(i))
			}
		}
	}
}
