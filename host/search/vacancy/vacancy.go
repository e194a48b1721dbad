// Package vacancy looks for other places of a mixture's experts, one at a time: one is left out, or two become one, and
// another joins the mixture that is left, or one jumps while the others stay. So experts are placed anew of which the
// data hardly ask for one, and searches begin from fits of one expert less or more.
package vacancy

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
)

// vacancy is a mixture that one more expert may join, the others and their gate as they are. With
// p(y|x) its density and L(x) the log of the sum of its gate's exponentials, an expert of
// coefficients a, own parameters ψ and gate w gains
//
//	Σ_rows log(1 + exp(t)) − log(1 + exp(ρ)),  ρ = ⟨w,x⟩ − L(x),  t = ρ + log f(y; g(⟨a,x⟩), ψ) − log p(y|x),
//
// of log-likelihood: a mixture of two, of which one is known. Its maxima are found by EM at a small part of
// the price of those of all parameters, so that very many starts can be made.
type vacancy struct {
	problem *problem.Problem // of as many experts as there are with the one that joins
	rows    *partition.Table
	mixture *model.Params // the others

	laws          []mixture.Density // of the blocks of rows, with the trials of each
	x             [][]float64       // columns of the features, then ones
	experts, gate []int             // the columns that an expert and a gate see
	y, weight     []float64         // weight is nil where all are 1
	offset        []float64         // of the predictors; nil for none
	trials        []float64         // nil for none
	working       []float64         // what lines are fitted to: y, or see [problem.Link]
	density       []float64         // log p(y|x), of normal noise up to ½ log 2π
	logSum        []float64         // L(x)
	std           []float64         // (y − m_i)/σ_i of the most probable expert, or its standardised score
	whose         [][]float64       // posteriors of the others
	rms           float64
	rooms         sync.Pool
}

// newVacancy readies the rows of p for an expert that joins q.
func newVacancy(ctx context.Context, p *problem.Problem, rows *partition.Table, q *model.Params) (*vacancy, error) {
	n := rows.Data.N
	v := &vacancy{problem: p, rows: rows, mixture: q, rms: p.RMS()}
	v.whose, v.x = numeric.Columns(q.K, n), numeric.Columns(q.D+1, n)
	v.experts, v.gate = p.Shape.Free().Columns(p.Shape.Blank(1))
	if p.Shape.ConstantGate {
		v.gate = []int{q.D}
	}
	v.y, v.density, v.logSum, v.std = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	logits, std, at := make([]float64, q.K*model.BlockRows), make([]float64, q.K*model.BlockRows), 0
	err := mixture.EachPosterior(ctx, p.G, rows.Data, q, nil, func(b *model.Block, post *mixture.Posterior) {
		to := at + b.N
		for j := range q.D {
			copy(v.x[j][at:to], b.Col(j))
		}
		copy(v.y[at:to], b.Y)
		v.weight = append(v.weight, b.Role[model.Weights]...)
		v.offset = append(v.offset, b.Role[model.Offsets]...)
		v.trials = append(v.trials, b.Role[model.Trials]...)
		q.GateLogits(logits[:q.K*b.N], b)
		model.Softmax(logits[:q.K*b.N], v.logSum[at:to], logits[:q.K*b.N], b.N)
		floats.SubTo(v.density[at:to], post.LogJoint, post.LogPrior)
		for i := range q.K {
			post.Errors(std[i*b.N:(i+1)*b.N], i)
		}
		for r := range b.N {
			best := 0
			for i := range q.K {
				v.whose[i][at+r] = post.PostOf(i)[r]
				if post.PostOf(i)[r] > post.PostOf(best)[r] {
					best = i
				}
			}
			v.std[at+r] = std[best*b.N+r]
		}
		at = to
	})
	for r := range v.x[q.D] {
		v.x[q.D][r] = 1
	}
	for _, b := range blocks(n) {
		law := p.Shape.Density()
		if v.trials != nil {
			law = mixture.OfTrials(law, v.trials[b.from:b.to])
		}
		v.laws = append(v.laws, law)
	}
	for i := range rows.Working.Blocks {
		v.working = append(v.working, rows.Working.Blocks[i].Y...)
	}
	return v, err
}

// normal says whether the noise is.
func (v *vacancy) normal() bool { return mixture.Normal(v.laws[0]) }

// beside returns parameters of a shape with the experts of q, which has one less, behind a blank one.
func beside(shape problem.Shape, q *model.Params) *model.Params {
	out := shape.Blank(q.SigmaOf(0))
	for i := range q.K {
		out.CopyExpert(i+1, q, i)
	}
	copy(out.Gating[min(q.D, len(out.Gating)):], q.Gating)
	if out.GatingIntercepts != nil {
		copy(out.GatingIntercepts[1:], q.GatingIntercepts)
	}
	return out
}

// with returns the mixture with the expert that joins, before the others.
func (v *vacancy) with(j *joiner) *model.Params {
	q := v.mixture
	out := beside(v.problem.Shape, q)
	if len(out.Sigma) > 1 {
		out.Sigma[0] = j.own[0]
		for i, values := range out.Own {
			values[0] = j.own[1+i]
		}
	}
	for c, col := range v.experts {
		if col < q.D {
			out.Regressor(0)[col] = j.a[c]
		} else {
			out.RegressorIntercepts[0] = j.a[c]
		}
	}
	for c, col := range v.gate {
		if col < q.D {
			out.Gate(0)[col] = j.w[c]
		} else {
			out.GatingIntercepts[0] = j.w[c]
		}
	}
	return out
}

// label writes to r.post which rows an expert that joins begins with: those of a random place, of a random
// kind of place.
func (v *vacancy) label(rng *rand.Rand, post []float64) {
	const sure = 0.9
	clear(post)
	n, d := len(v.y), v.mixture.D
	row := rng.IntN(n)
	if stream.Coin(rng) { // one that is explained badly
		for range 8 {
			if o := rng.IntN(n); math.Abs(v.std[o]) > math.Abs(v.std[row]) {
				row = o
			}
		}
	}
	width := len(v.experts)
	few := func(most int) int { // a size between a handful and most
		least := float64(2 * width)
		return int(least * math.Exp(rng.Float64()*math.Log(max(float64(most)/least, 1))))
	}
	side := func() []float64 { // of a random hyperplane through the row
		w := model.RandomDirections(rng, 1, d)
		if stream.Coin(rng) { // levels of factors
			clear(w)
			w[rng.IntN(d)] = 1 - 2*float64(rng.IntN(2))
		}
		at := floats.Dot(w, v.rows.Z.RawRowView(row)[:d])
		on := make([]float64, n)
		for t := range on {
			if floats.Dot(w, v.rows.Z.RawRowView(t)[:d]) >= at {
				on[t] = 1
			}
		}
		return on
	}
	expert := v.whose[rng.IntN(len(v.whose))]
	switch rng.IntN(6) {
	case 0: // the rows near it
		for _, t := range v.rows.Near(row, few(n/4)) {
			post[t] = sure
		}
	case 1: // one side of an expert's cell
		for t, on := range side() {
			post[t] = sure * on * expert[t]
		}
	case 2: // those of an expert above or below its mean, on one side
		sign := 1.0
		if stream.Coin(rng) {
			sign = -1
		}
		for t, on := range side() {
			if v.std[t]*sign > 0 {
				post[t] = sure * on * expert[t]
			}
		}
	case 3: // far from, or near, the means that there are
		far, bound := stream.Coin(rng), 0.3+1.5*rng.Float64()
		for t, e := range v.std {
			if (math.Abs(e) > bound) == far {
				post[t] = sure
			}
		}
		if stream.Coin(rng) {
			floats.Mul(post, side())
		}
	case 4: // the outermost in a random direction
		w := model.RandomDirections(rng, 1, d)
		at := make([]float64, n)
		for t := range at {
			at[t] = -floats.Dot(w, v.rows.Z.RawRowView(t)[:d])
		}
		for _, t := range partition.Least(at, few(n/4)) {
			post[t] = sure
		}
	default: // as near as can be to the plane of a handful near each other
		v.alongPlane(rng, post, v.rows.Near(row, min(n, 4*width)))
	}
}

// alongPlane labels the rows by how near they are to the plane through a handful of some rows, in
// the target as a straight line has it.
func (v *vacancy) alongPlane(rng *rand.Rand, post []float64, from []int) {
	n, d := len(v.y), len(v.experts)
	m := min(d+1, len(from))
	x, y := mat.NewDense(m, d, nil), mat.NewVecDense(m, nil)
	for i, at := range rng.Perm(len(from))[:m] {
		for c, col := range v.experts {
			x.Set(i, c, v.x[col][from[at]])
		}
		y.SetVec(i, v.working[from[at]])
	}
	var a mat.VecDense
	if a.SolveVec(x, y) != nil {
		return
	}
	miss := make([]float64, n)
	v.linear(miss, v.experts, a.RawVector().Data, span{0, n})
	for t, z := range miss {
		miss[t] = math.Abs(v.working[t] - z)
	}
	for _, t := range partition.Least(miss, max(4*d, n/50)) {
		post[t] = 0.9
	}
}
