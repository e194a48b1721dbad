// Package partition divides the rows of a table among experts at random, for fits to begin from: into clusters, cells,
// neighbourhoods and handfuls, each with the least squares line of its rows.
package partition

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
)

// Table is rows in memory. Lines are fitted to Working, the rows with working predictors for targets, see
// [problem.Link]; Z is its rows (x, y), of which every column has mean 0 and unit variance.
type Table struct {
	Data, Working *model.Data // the same where the noise is normal
	Z             *mat.Dense
}

// New is the table of rows of a problem.
func New(ctx context.Context, p *problem.Problem, rows model.Rows) (*Table, error) {
	data, err := model.InMemory(ctx, rows, 1)
	if err != nil {
		return nil, err
	}
	working := data
	if p.Link != nil {
		if working, err = model.InMemory(ctx, p.Link.Working(data), 1); err != nil {
			return nil, err
		}
	}
	return &Table{data, working, standardised(working)}, nil
}

// Of is the table of rows to whose targets lines are fitted as they are.
func Of(data *model.Data) *Table { return &Table{data, data, standardised(data)} }

// Targets returns the tables of every one of m targets, with the features of data.
func Targets(data *model.Data, m int) []*model.Data {
	out := make([]*model.Data, m)
	for c := range out {
		one := &model.Data{N: data.N, D: data.D, Blocks: slices.Clone(data.Blocks)}
		for i, b := range data.Blocks {
			one.Blocks[i].Y = b.Y[c*b.N : (c+1)*b.N]
		}
		out[c] = one
	}
	return out
}

// Clusters are k-means clusters of (x, y).
func (t *Table) Clusters(rng *rand.Rand, k int) []int { return kmeans(rng, t.Z, k) }

// Lines are experts that are the least squares lines of the rows with their label, with
// a gate of 0; of outputs c + s·g a random one is taken off.
func Lines(p *problem.Problem, rng *rand.Rand, data *model.Data, label []int) *model.Params {
	q := p.Shape.Blank(p.RMS() / 2)
	if o := p.Shape.Output; o != nil {
		o.Draw(rng, q)
	}
	for i := range q.K {
		Line(p, q, i, data, label)
	}
	p.Shape.MaskExperts(q.Regressors)
	return q
}

// Line makes expert i of q the least squares line of the rows with label i.
func Line(p *problem.Problem, q *model.Params, i int, data *model.Data, label []int) {
	leastSquares(q, i, data, label)
	if o := p.Shape.Output; o != nil {
		o.Bend(q, i)
	}
}

// ScaledClusters are k-means clusters of (x, y) with columns of random scales.
func (t *Table) ScaledClusters(rng *rand.Rand, k int) []int {
	_, columns := t.Z.Dims()
	scale := make([]float64, columns)
	for j := range scale {
		scale[j] = math.Exp(rng.NormFloat64())
	}
	z := mat.DenseCopyOf(t.Z)
	z.Apply(func(_, j int, v float64) float64 { return v * scale[j] }, z)
	return kmeans(rng, z, k)
}

// ResidualClusters are k-means clusters of x and the residual of the least squares line
// of all rows, which weighs as much as all features or more.
func (t *Table) ResidualClusters(rng *rand.Rand, k int) []int {
	n, columns := t.Z.Dims()
	z := mat.DenseCopyOf(t.Z)
	all := model.NewParams(1, columns-1)
	all.RegressorIntercepts = make([]float64, 1)
	leastSquares(all, 0, t.Working, make([]int, n))
	residual := make([]float64, n)
	at := 0
	for i := range t.Working.Blocks {
		b := &t.Working.Blocks[i]
		for r := range b.N {
			v := b.Y[r] - all.RegressorIntercepts[0]
			for j, a := range all.Regressor(0) {
				v -= a * b.Col(j)[r]
			}
			residual[at] = v
			at++
		}
	}
	weight := math.Sqrt(float64(columns)) * math.Exp(rng.NormFloat64()) / max(floats.Norm(residual,
		2)/math.Sqrt(float64(n)), math.SmallestNonzeroFloat64)
	for r, v := range residual {
		z.Set(r, columns-1, v*weight)
	}
	return kmeans(rng, z, k)
}

// Cuts are the cells of k−1 random hyperplanes, each through a row of the largest cell.
func (t *Table) Cuts(rng *rand.Rand, k int) []int {
	n, columns := t.Z.Dims()
	label, size := make([]int, n), make([]int, k)
	size[0] = n
	for next := 1; next < k; next++ {
		of := slices.Index(size, slices.Max(size))
		w := model.RandomDirections(rng, 1, columns-1)
		through := rng.IntN(n)
		for label[through] != of {
			through = rng.IntN(n)
		}
		at := floats.Dot(w, t.Z.RawRowView(through)[:columns-1])
		for r := range label {
			if label[r] == of && floats.Dot(w, t.Z.RawRowView(r)[:columns-1]) > at {
				label[r] = next
				size[next]++
				size[of]--
			}
		}
	}
	return label
}

// Unlabelled are n rows without a label.
func Unlabelled(n int) []int { return slices.Repeat([]int{-1}, n) }

// Neighbourhoods are the rows near k random ones, those that fit the line of the others
// worst left out.
func (t *Table) Neighbourhoods(rng *rand.Rand, k int) []int {
	n, _ := t.Z.Dims()
	label := Unlabelled(n)
	for i := range k {
		for _, r := range t.Near(rng.IntN(n), max(n/(2*k), 1)) {
			label[r] = i
		}
	}
	t.Trim(label, k)
	return label
}

// Near returns the m rows nearest to one in the features.
func (t *Table) Near(row, m int) []int {
	n, columns := t.Z.Dims()
	distance := make([]float64, n)
	for r := range distance {
		distance[r] = squaredDistance(t.Z.RawRowView(r)[:columns-1], t.Z.RawRowView(row)[:columns-1])
	}
	return Least(distance, m)
}

// trimmed is the share of the rows of each label that are left out.
const trimmed = 0.3

// Trim takes the label off the rows that fit the line of their label worst.
func (t *Table) Trim(label []int, k int) {
	_, columns := t.Z.Dims()
	q := model.NewParams(k, columns-1)
	q.RegressorIntercepts = make([]float64, k)
	for i := range k {
		leastSquares(q, i, t.Working, label)
	}
	type row struct {
		at   int
		miss float64
	}
	of := make([][]row, k)
	at := 0
	for m := range t.Working.Blocks {
		b := &t.Working.Blocks[m]
		for r := range b.N {
			if i := label[at+r]; i >= 0 {
				v := b.Y[r] - q.RegressorIntercepts[i]
				for j, a := range q.Regressor(i) {
					v -= a * b.Col(j)[r]
				}
				of[i] = append(of[i], row{at + r, math.Abs(v)})
			}
		}
		at += b.N
	}
	for _, rows := range of {
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.miss, b.miss) })
		for _, r := range rows[int(math.Ceil((1-trimmed)*float64(len(rows)))):] {
			label[r.at] = -1
		}
	}
}

// Handfuls are so few random rows each that their lines differ much.
func (t *Table) Handfuls(rng *rand.Rand, k int) []int {
	n, columns := t.Z.Dims()
	label := Unlabelled(n)
	order := rng.Perm(n)
	m := min(columns+2, n/k)
	for i := range k {
		for _, r := range order[i*m : (i+1)*m] {
			label[r] = i
		}
	}
	return label
}
