// Package vacancy looks for other places of a mixture's experts, one at a time: one is left out, or two become one, and
// another joins the mixture that is left, or one jumps while the others stay. So experts are placed anew of which the
// data hardly ask for one, and searches begin from fits of one expert less or more.
package vacancy

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/partition"
	"github.com/gatedlearning/moe/internal/kernel"
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

	law           mixture.Density // with the trials of the rows
	x             [][]float64     // columns of the features, then ones
	experts, gate []int           // the columns that an expert and a gate see
	y, weight     []float64       // weight is nil where all are 1
	offset        []float64       // of the predictors; nil for none
	trials        []float64       // nil for none
	working       []float64       // what lines are fitted to: y, or see [problem.Link]
	density       []float64       // log p(y|x), of normal noise up to ½ log 2π
	logSum        []float64       // L(x)
	std           []float64       // (y − m_i)/σ_i of the most probable expert, or its standardised score
	whose         [][]float64     // posteriors of the others
	rms           float64
	rooms         sync.Pool
}

// newVacancy readies the rows of p for an expert that joins q.
func newVacancy(ctx context.Context, p *problem.Problem, rows *partition.Table, q *model.Params) (*vacancy, error) {
	n := rows.Data.N
	v := &vacancy{problem: p, rows: rows, mixture: q, law: p.Shape.Density(), rms: p.RMS()}
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
	v.law = mixture.OfTrials(v.law, v.trials)
	for i := range rows.Working.Blocks {
		v.working = append(v.working, rows.Working.Blocks[i].Y...)
	}
	return v, err
}

// normal says whether the noise is.
func (v *vacancy) normal() bool { return mixture.Normal(v.law) }

// joiner is an expert that joins a vacancy, and what it gains there.
type joiner struct {
	a, w  []float64 // coefficients of the vacancy's columns
	own   []float64 // ψ
	gain  float64
	steps int
}

// vacancyRoom is what a run of EM needs.
type vacancyRoom struct {
	z, mean, slope, odds, prior, post, log, terms []float64
	e                                             []float64     // residuals of normal noise
	derived                                       mixture.Terms // of any other density
	two                                           []float64     // logits of two classes
	scaled                                        [][]float64
}

func (v *vacancy) room() *vacancyRoom {
	if r, ok := v.rooms.Get().(*vacancyRoom); ok {
		return r
	}
	n := len(v.y)
	c := numeric.Columns(9, n)
	r := &vacancyRoom{z: c[0], mean: c[1], slope: c[2], odds: c[3], prior: c[4], post: c[5], log: c[6], terms: c[7],
		e: c[8], two: make([]float64, 2*n), scaled: numeric.Columns(max(len(v.experts), len(v.gate)), n)}
	if !v.normal() {
		r.derived = mixture.TermsOf(n, len(v.law.Own()))
	}
	return r
}

const (
	// joinSteps of EM are made at most for an expert that joins, until one gains less than joinGain
	// units of log-likelihood. Maxima that are joinApart count as two.
	joinSteps, joinGain, joinApart = 60, 0.01, 0.1
	// joinRidge is the part of the mean diagonal that keeps a system invertible.
	joinRidge = 1e-6
	// joinGateRidge is the ridge on its gate.
	joinGateRidge = 1e-3
)

// join returns the maximum to which an expert leads that begins at j with the posteriors of r: the best that it came
// by. One that falls behind an aim, by more than a hundred steps as good as its last, ends there.
func (v *vacancy) join(ctx context.Context, r *vacancyRoom, j *joiner, aim float64) (best joiner, err error) {
	best.gain = math.Inf(-1)
	if err := v.means(ctx, r, j); err != nil {
		return best, err
	}
	for last := math.Inf(-1); ; j.steps++ {
		v.stepGate(r, j)
		was := slices.Clone(j.a)
		if err := v.stepExpert(ctx, r, j); err != nil {
			return best, err
		}
		gain, err := v.observe(ctx, r, j)
		if err != nil {
			return best, err
		}
		for halvings := 0; gain < last && halvings < 3; halvings++ { // a step across a kink may lead down
			for c, a := range was {
				j.a[c] = (j.a[c] + a) / 2
			}
			if gain, err = v.observe(ctx, r, j); err != nil {
				return best, err
			}
		}
		if math.IsNaN(gain) {
			break
		}
		if gain > best.gain {
			best = joiner{slices.Clone(j.a), slices.Clone(j.w), slices.Clone(j.own), gain, j.steps}
		}
		if j.steps >= joinSteps || j.steps > 4 && (gain-last < joinGain || aim-gain > 100*(gain-last)) {
			break
		}
		last = gain
	}
	best.steps = j.steps
	return best, nil
}

// joiners makes so many, with random numbers of a use from an index on, and returns them, those that gain most
// first.
func (v *vacancy) joiners(ctx context.Context, n int, use stream.Use, index int,
	aim float64) (joined []*joiner, err error) {
	all, ends := make([]*search.Candidate, n), map[*search.Candidate]*joiner{}
	for i := range all {
		all[i] = &search.Candidate{}
		ends[all[i]] = new(joiner)
	}
	err = search.Draw(ctx, v.problem, all, use, index,
		func(ctx context.Context, c *search.Candidate, rng *rand.Rand) (err error) {
			r := v.room()
			defer v.rooms.Put(r)
			v.label(rng, r)
			*ends[c], err = v.join(ctx, r, v.begin(r), aim)
			return err
		})
	for _, c := range all {
		joined = append(joined, ends[c])
	}
	slices.SortStableFunc(joined, func(a, b *joiner) int { return cmp.Compare(b.gain, a.gain) })
	return joined, err
}

// means sets z, the means, the slopes and the residuals.
func (v *vacancy) means(ctx context.Context, r *vacancyRoom, j *joiner) error {
	v.linear(r.z, v.experts, j.a)
	if v.offset != nil {
		floats.Add(r.z, v.offset)
	}
	if err := v.problem.G.Eval(ctx, r.mean, r.z); err != nil {
		return err
	}
	floats.SubTo(r.e, v.y, r.mean)
	return v.problem.G.Deriv(ctx, r.slope, r.z)
}

func (v *vacancy) linear(dst []float64, columns []int, c []float64) {
	clear(dst)
	for i, col := range columns {
		floats.AddScaled(dst, c[i], v.x[col])
	}
}

// observe returns the gain at j, and leaves posteriors, priors and residuals.
func (v *vacancy) observe(ctx context.Context, r *vacancyRoom, j *joiner) (float64, error) {
	if err := v.means(ctx, r, j); err != nil {
		return 0, err
	}
	n := len(v.y)
	v.priors(r, j)
	gain := -v.sum(r.log)
	if v.normal() {
		norm := math.Log(j.own[0])
		inv := 1 / j.own[0]
		for t, e := range r.e {
			e *= inv
			r.two[t] = r.odds[t] - 0.5*e*e - norm - v.density[t]
		}
	} else {
		floats.SubTo(r.log, r.odds, v.density)
		v.law.LogDensity(r.two[:n], r.log, v.y, r.mean, j.own)
	}
	clear(r.two[n:])
	model.Softmax(r.two, r.log, r.two, n)
	copy(r.post, r.two[:n])
	return gain + v.sum(r.log), nil
}

func (v *vacancy) sum(a []float64) float64 {
	if v.weight == nil {
		return kernel.Sum(a)
	}
	return kernel.Dot(a, v.weight)
}

// stepGate is a Newton step of the logistic regression of the posteriors on the gate's columns.
func (v *vacancy) stepGate(r *vacancyRoom, j *joiner) {
	if len(v.gate) == 0 {
		return
	}
	for t, p := range r.prior {
		r.log[t] = max(p*(1-p), 1e-12)
		r.terms[t] = r.post[t] - p
	}
	if step := v.solve(r, v.gate, r.log, r.terms, j.w, joinGateRidge); step != nil {
		floats.Add(j.w, step)
	}
}

// stepExpert is a step of Fisher's scoring for the coefficients, weighted by the posteriors, and one for the own
// parameters: Gauss–Newton's and the variance of normal noise.
func (v *vacancy) stepExpert(ctx context.Context, r *vacancyRoom, j *joiner) error {
	if !v.normal() {
		v.law.Derive(r.derived, v.y, r.mean, j.own)
	}
	for t, p := range r.post {
		expected, score := 1.0, r.e[t]
		if !v.normal() {
			expected, score = r.derived.Expected[t], r.derived.Score[t]
		}
		r.log[t], r.terms[t] = 0, 0
		if p > 0 { // else the derivatives may be no numbers
			r.log[t] = p * r.slope[t] * r.slope[t] * expected
			r.terms[t] = p * r.slope[t] * score
		}
	}
	if step := v.solve(r, v.experts, r.log, r.terms, nil, 0); step != nil {
		floats.Add(j.a, step)
	}
	switch {
	case !v.problem.Shape.PerExpert || v.problem.Shape.Sigma > 0:
		return nil
	case !v.normal():
		v.stepOwn(r, j)
		return nil
	}
	if err := v.means(ctx, r, j); err != nil {
		return err
	}
	for t, p := range r.post {
		r.log[t] = p * r.e[t] * r.e[t]
	}
	mass := v.sum(r.post)
	if s := math.Sqrt(v.sum(r.log) / max(mass, 1e-300)); s > 0 && !math.IsInf(s, 0) {
		j.own[0] = max(s, j.own[0]/2, leastJoining*v.rms)
	}
	return nil
}

// stepOwn is a Newton step for the logarithm of each own parameter that is estimated, alone, of at most its half or
// double.
func (v *vacancy) stepOwn(r *vacancyRoom, j *joiner) {
	own := v.law.Own()
	for q := range own[:len(own)-v.problem.Shape.Free().GivenOwn] {
		for t, p := range r.post {
			r.terms[t], r.log[t] = 0, 0
			if p > 0 {
				r.terms[t], r.log[t] = p*r.derived.OwnScore[q][t], p*r.derived.OwnInformation[mixture.OwnAt(q, q)][t]
			}
		}
		step := v.sum(r.terms) / math.Abs(v.sum(r.log))
		if math.IsNaN(step) {
			continue
		}
		step = min(max(step, -math.Ln2), math.Ln2)
		least := own[q].Least
		if q == 0 && v.law.Domain().Scale {
			least = leastJoining * v.rms
		}
		j.own[q] = min(max(j.own[q]*math.Exp(step), least), own[q].Most)
	}
}

// leastJoining is the least noise of an expert that joins, as a part of the target's root mean square.
const leastJoining = 0.002

// solve returns (Σ h·x·xᵀ + ridge)⁻¹·(Σ s·x − ridge·at) over the columns, nil where it cannot.
func (v *vacancy) solve(r *vacancyRoom, columns []int, h, s, at []float64, ridge float64) []float64 {
	d := len(columns)
	if v.weight != nil {
		kernel.Mul(h, h, v.weight)
		kernel.Mul(s, s, v.weight)
	}
	gram, right := mat.NewSymDense(d, nil), make([]float64, d)
	for i, col := range columns {
		kernel.Mul(r.scaled[i], h, v.x[col])
		for l := 0; l <= i; l++ {
			gram.SetSym(l, i, kernel.Dot(r.scaled[i], v.x[columns[l]]))
		}
		right[i] = kernel.Dot(s, v.x[col])
	}
	small := joinRidge * mat.Trace(gram) / float64(d)
	if !(small > 0) || math.IsInf(small, 0) {
		return nil
	}
	for i := range d {
		gram.SetSym(i, i, gram.At(i, i)+ridge+small)
		if at != nil {
			right[i] -= ridge * at[i]
		}
	}
	// The ridge bounds the condition number by 1 + d/joinRidge: it need not be looked at.
	u, ok := lapack64.Potrf(gram.RawSymmetric())
	if !ok {
		return nil
	}
	return numeric.SolveCholesky(u, right)
}

// begin is an expert that begins as the most probable one of the rows with these posteriors, which are r.post.
func (v *vacancy) begin(r *vacancyRoom) *joiner {
	of, most := 0, -1.0
	for i, whose := range v.whose {
		if mass := kernel.Dot(whose, r.post); mass > most {
			of, most = i, mass
		}
	}
	q := v.mixture
	j := &joiner{a: make([]float64, len(v.experts)), w: make([]float64, len(v.gate)), own: q.OwnOf(nil, of)}
	for c, col := range v.experts {
		if col < q.D {
			j.a[c] = q.Regressor(of)[col]
		} else {
			j.a[c] = q.RegressorIntercepts[of]
		}
	}
	// The gate begins where the one of that expert is, for the share of the rows.
	for c, col := range v.gate {
		switch {
		case of == q.K-1:
		case col < q.D:
			j.w[c] = q.Gate(of)[col]
		default:
			j.w[c] = q.GatingIntercepts[of]
		}
	}
	for range beginningSteps {
		v.priors(r, j)
		v.stepGate(r, j)
	}
	v.priors(r, j)
	return j
}

// beginningSteps of Newton's method bring a gate near to posteriors that begin a run.
const beginningSteps = 3

// priors sets the odds and priors of j, and the log of the sum of their exponentials.
func (v *vacancy) priors(r *vacancyRoom, j *joiner) {
	v.linear(r.odds, v.gate, j.w)
	floats.Sub(r.odds, v.logSum)
	n := len(v.y)
	copy(r.two[:n], r.odds)
	clear(r.two[n:])
	model.Softmax(r.two, r.log, r.two, n)
	copy(r.prior, r.two[:n])
}

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
func (v *vacancy) label(rng *rand.Rand, r *vacancyRoom) {
	const sure = 0.9
	clear(r.post)
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
			r.post[t] = sure
		}
	case 1: // one side of an expert's cell
		for t, on := range side() {
			r.post[t] = sure * on * expert[t]
		}
	case 2: // those of an expert above or below its mean, on one side
		sign := 1.0
		if stream.Coin(rng) {
			sign = -1
		}
		for t, on := range side() {
			if v.std[t]*sign > 0 {
				r.post[t] = sure * on * expert[t]
			}
		}
	case 3: // far from, or near, the means that there are
		far, bound := stream.Coin(rng), 0.3+1.5*rng.Float64()
		for t, e := range v.std {
			if (math.Abs(e) > bound) == far {
				r.post[t] = sure
			}
		}
		if stream.Coin(rng) {
			floats.Mul(r.post, side())
		}
	case 4: // the outermost in a random direction
		w := model.RandomDirections(rng, 1, d)
		at, order := make([]float64, n), make([]int, n)
		for t := range at {
			at[t] = -floats.Dot(w, v.rows.Z.RawRowView(t)[:d])
		}
		floats.Argsort(at, order)
		for _, t := range order[:min(few(n/4), n)] {
			r.post[t] = sure
		}
	default: // as near as can be to the plane of a handful near each other
		v.alongPlane(rng, r, v.rows.Near(row, min(n, 4*width)))
	}
}

// alongPlane labels the rows by how near they are to the plane through a handful of some rows, in
// the target as a straight line has it.
func (v *vacancy) alongPlane(rng *rand.Rand, r *vacancyRoom, from []int) {
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
	v.linear(r.z, v.experts, a.RawVector().Data)
	miss, order := make([]float64, n), make([]int, n)
	for t, z := range r.z {
		miss[t] = math.Abs(v.working[t] - z)
	}
	floats.Argsort(miss, order)
	for _, t := range order[:min(n, max(4*d, n/50))] {
		r.post[t] = 0.9
	}
}
