package search

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
)

// table is rows in memory. Lines are fitted to working, the rows with working predictors for targets, see
// [problem.Link]; z is its rows (x, y), of which every column has mean 0 and unit variance.
type table struct {
	data, working *model.Data // the same where the noise is normal
	z             *mat.Dense
}

func newTable(ctx context.Context, p *problem.Problem, rows model.Rows) (*table, error) {
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
	return &table{data, working, standardised(working)}, nil
}

// surveyStarts are the kinds of starts of a survey of a small table, in turn.
func surveyStarts(p *problem.Problem, e *moment.Evidence, t *table) []Start {
	random := Random(p, e)
	kind := func(name string, label func(*rand.Rand, *table, int) []int) Start {
		return Start{Kind: name, Draw: func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
			return linesOf(p, rng, t.working, label(rng, t, p.Shape.K)), nil
		}}
	}
	return []Start{
		random,
		kind(KindKMeans, scaledClusters),
		kind(KindPartition, cuts),
		kind(KindResiduals, residualClusters),
		random,
		kind(KindPartition, cuts),
		kind(KindTrimmed, neighbourhoods),
		kind(KindRows, handfuls),
	}
}

// linesOf are experts that are the least squares lines of the rows with their label, with
// a gate of 0; of outputs c + s·g a random one is taken off.
func linesOf(p *problem.Problem, rng *rand.Rand, data *model.Data, label []int) *model.Params {
	q := p.Shape.Blank(p.RMS() / 2)
	if o := p.Shape.Output; o != nil {
		o.Draw(rng, q)
	}
	for i := range q.K {
		lineOf(p, q, i, data, label)
	}
	p.Shape.MaskExperts(q.Regressors)
	return q
}

// lineOf makes expert i of q the least squares line of the rows with label i.
func lineOf(p *problem.Problem, q *model.Params, i int, data *model.Data, label []int) {
	leastSquares(q, i, data, label)
	if o := p.Shape.Output; o != nil {
		o.Bend(q, i)
	}
}

// scaledClusters are k-means clusters of (x, y) with columns of random scales.
func scaledClusters(rng *rand.Rand, t *table, k int) []int {
	_, columns := t.z.Dims()
	scale := make([]float64, columns)
	for j := range scale {
		scale[j] = math.Exp(rng.NormFloat64())
	}
	z := mat.DenseCopyOf(t.z)
	z.Apply(func(_, j int, v float64) float64 { return v * scale[j] }, z)
	return kmeans(rng, z, k)
}

// residualClusters are k-means clusters of x and the residual of the least squares line
// of all rows, which weighs as much as all features or more.
func residualClusters(rng *rand.Rand, t *table, k int) []int {
	n, columns := t.z.Dims()
	z := mat.DenseCopyOf(t.z)
	all := model.NewParams(1, columns-1)
	all.RegressorIntercepts = make([]float64, 1)
	leastSquares(all, 0, t.working, make([]int, n))
	residual := make([]float64, n)
	at := 0
	for i := range t.working.Blocks {
		b := &t.working.Blocks[i]
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

// cuts are the cells of k−1 random hyperplanes, each through a row of the largest cell.
func cuts(rng *rand.Rand, t *table, k int) []int {
	n, columns := t.z.Dims()
	label, size := make([]int, n), make([]int, k)
	size[0] = n
	for next := 1; next < k; next++ {
		of := slices.Index(size, slices.Max(size))
		w := model.RandomDirections(rng, 1, columns-1)
		through := rng.IntN(n)
		for label[through] != of {
			through = rng.IntN(n)
		}
		at := floats.Dot(w, t.z.RawRowView(through)[:columns-1])
		for r := range label {
			if label[r] == of && floats.Dot(w, t.z.RawRowView(r)[:columns-1]) > at {
				label[r] = next
				size[next]++
				size[of]--
			}
		}
	}
	return label
}

// unlabelled are n rows without a label.
func unlabelled(n int) []int { return slices.Repeat([]int{-1}, n) }

// neighbourhoods are the rows near k random ones, those that fit the line of the others
// worst left out.
func neighbourhoods(rng *rand.Rand, t *table, k int) []int {
	n, _ := t.z.Dims()
	label := unlabelled(n)
	for i := range k {
		for _, r := range t.near(rng.IntN(n), max(n/(2*k), 1)) {
			label[r] = i
		}
	}
	t.trim(label, k)
	return label
}

// near returns the m rows nearest to one in the features.
func (t *table) near(row, m int) []int {
	n, columns := t.z.Dims()
	distance, order := make([]float64, n), make([]int, n)
	for r := range distance {
		distance[r] = floats.Distance(t.z.RawRowView(r)[:columns-1], t.z.RawRowView(row)[:columns-1], 2)
	}
	floats.Argsort(distance, order)
	return order[:min(m, n)]
}

// trimmed is the share of the rows of each label that are left out.
const trimmed = 0.3

// trim takes the label off the rows that fit the line of their label worst.
func (t *table) trim(label []int, k int) {
	_, columns := t.z.Dims()
	q := model.NewParams(k, columns-1)
	q.RegressorIntercepts = make([]float64, k)
	for i := range k {
		leastSquares(q, i, t.working, label)
	}
	type row struct {
		at   int
		miss float64
	}
	of := make([][]row, k)
	at := 0
	for m := range t.working.Blocks {
		b := &t.working.Blocks[m]
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

// handfuls are so few random rows each that their lines differ much.
func handfuls(rng *rand.Rand, t *table, k int) []int {
	n, columns := t.z.Dims()
	label := unlabelled(n)
	order := rng.Perm(n)
	m := min(columns+2, n/k)
	for i := range k {
		for _, r := range order[i*m : (i+1)*m] {
			label[r] = i
		}
	}
	return label
}

// softest is the norm to which the steepest row of a gate is brought down before a move,
// and steepness that of the hyperplane of a split.
const (
	softest   = 3
	steepness = 3
)

// fromOneOf is a random move from one of the optima, the first of them most often: an
// expert is given up, and takes over one side of another's cell, or the rows near a
// random one.
func (s *surveyor) fromOneOf(from []*Candidate) func(context.Context, *rand.Rand) (*model.Params, error) {
	return func(_ context.Context, rng *rand.Rand) (*model.Params, error) {
		at := 0
		for at < len(from)-1 && coin(rng) {
			at++
		}
		t, q := s.rows, soften(from[at].Params)
		if s.problem.Shape.Density().Domain().Scale {
			for i, sigma := range q.Sigma {
				q.Sigma[i] = min(1.5*sigma, s.problem.RMS())
			}
		}
		drop := rng.IntN(q.K)
		split := (drop + 1 + rng.IntN(q.K-1)) % q.K
		q.ShareGate(drop, split)
		q.CopyOwn(drop, split)
		q.CopyOutput(drop, split)
		if coin(rng) && !s.problem.Shape.ConstantGate {
			copy(q.Regressor(drop), q.Regressor(split))
			if q.RegressorIntercepts != nil {
				q.RegressorIntercepts[drop] = q.RegressorIntercepts[split]
			}
			s.part(rng, t, q, split, drop)
			return q, nil
		}
		n, columns := t.z.Dims()
		label := unlabelled(n)
		for _, r := range t.near(rng.IntN(n), max(2*columns, n/(2*q.K))) {
			label[r] = drop
		}
		t.trim(label, q.K)
		lineOf(s.problem, q, drop, t.working, label)
		s.problem.Shape.MaskExperts(q.Regressors)
		return q, nil
	}
}

// coin is true in half of the draws.
func coin(rng *rand.Rand) bool { return rng.Uint64()&1 == 0 }

// soften returns p with a gate that is no steeper than softest.
func soften(p *model.Params) *model.Params {
	q, steepest := p.Clone(), 0.0
	for i := range q.Gates() {
		steepest = max(steepest, floats.Norm(q.Gate(i), 2))
	}
	if steepest > softest {
		floats.Scale(softest/steepest, q.Gating)
		floats.Scale(softest/steepest, q.GatingIntercepts)
	}
	return q
}

// part tells the gates of two experts that are alike apart, by a hyperplane through a
// random row of theirs.
func (s *surveyor) part(rng *rand.Rand, t *table, q *model.Params, a, b int) {
	x := t.rowOf(rng, q, a, b)
	w := make([]float64, q.D)
	for _, j := range s.problem.Shape.GateFeatures() {
		w[j] = rng.NormFloat64()
	}
	norm := floats.Norm(w, 2)
	if norm == 0 {
		return
	}
	floats.Scale(steepness/norm/2, w)
	v := -floats.Dot(w, x)
	q.Tilt(a, w, v, 1)
	q.Tilt(b, w, v, -1)
}

// rowOf returns the features of a random row to which the gate of q gives expert a or b,
// or of any where it is hard to find one.
func (t *table) rowOf(rng *rand.Rand, q *model.Params, a, b int) []float64 {
	x := make([]float64, q.D)
	for range 10 * q.K {
		r := rng.IntN(t.data.N)
		block := &t.data.Blocks[r/model.BlockRows]
		for j := range x {
			x[j] = block.Col(j)[r%model.BlockRows]
		}
		top, best := q.K-1, 0.0
		for i := range q.Gates() {
			v := floats.Dot(q.Gate(i), x)
			if q.GatingIntercepts != nil {
				v += q.GatingIntercepts[i]
			}
			if v > best {
				top, best = i, v
			}
		}
		if top == a || top == b {
			break
		}
	}
	return x
}
