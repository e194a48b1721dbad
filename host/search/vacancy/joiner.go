package vacancy

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/internal/kernel"
	"github.com/gatedlearning/moe/internal/numeric"
	"github.com/gatedlearning/moe/internal/stream"
)

// joiner is an expert that joins a vacancy, and what it gains there.
type joiner struct {
	a, w  []float64 // coefficients of the vacancy's columns
	own   []float64 // ψ
	gain  float64
	steps int
}

// joinRoom is what a run of EM needs: the posteriors of all rows, and what a pass makes of one block of them after the
// other and adds up, which is all that a step needs.
type joinRoom struct {
	post []float64

	z, mean, slope, e, odds, prior, log []float64
	t                                   []float64     // as the vacancy's comment has it
	h, score                            []float64     // what a row adds to a system
	ones                                []float64     // what normal noise expects, in units of its variance
	derived                             mixture.Terms // of a density that is not normal
	columns, scaled                     [][]float64

	expert, gate          system
	ownScore, ownExpected []float64
}

// span is the rows of a block, from one up to another.
type span struct{ from, to int }

func (b span) rows() int { return b.to - b.from }

// blocks are those of n rows, in order.
func blocks(n int) func(yield func(int, span) bool) {
	return func(yield func(int, span) bool) {
		for i, from := 0, 0; from < n; i, from = i+1, from+model.BlockRows {
			if !yield(i, span{from, min(from+model.BlockRows, n)}) {
				return
			}
		}
	}
}

func (v *vacancy) room() *joinRoom {
	if r, ok := v.rooms.Get().(*joinRoom); ok {
		return r
	}
	const n = model.BlockRows
	c, most := numeric.Columns(10, n), max(len(v.experts), len(v.gate))
	r := &joinRoom{
		post: make([]float64, len(v.y)),
		z:    c[0], mean: c[1], slope: c[2], e: c[3], odds: c[4], prior: c[5], log: c[6], h: c[7], score: c[8],
		t: c[9], ones: slices.Repeat([]float64{1}, n),
		columns: make([][]float64, most), scaled: numeric.Columns(most, n),
		expert: newSystem(len(v.experts)), gate: newSystem(len(v.gate)),
	}
	if !v.normal() {
		own := len(v.laws[0].Own())
		r.derived = mixture.NewTerms(own)
		r.ownScore, r.ownExpected = make([]float64, own), make([]float64, own)
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
func (v *vacancy) join(ctx context.Context, r *joinRoom, j *joiner, aim float64) (best joiner, err error) {
	best.gain = math.Inf(-1)
	if _, err := v.pass(ctx, r, j, true); err != nil {
		return best, err
	}
	for last := math.Inf(-1); ; j.steps++ {
		r.stepGate(j)
		was := slices.Clone(j.a)
		if err := v.stepExpert(ctx, r, j); err != nil {
			return best, err
		}
		gain, err := v.pass(ctx, r, j, false)
		if err != nil {
			return best, err
		}
		for halvings := 0; gain < last && halvings < 3; halvings++ { // a step across a kink may lead down
			for c, a := range was {
				j.a[c] = (j.a[c] + a) / 2
			}
			if gain, err = v.pass(ctx, r, j, false); err != nil {
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
			v.label(rng, r.post)
			*ends[c], err = v.join(ctx, r, v.begin(r), aim)
			return err
		})
	for _, c := range all {
		joined = append(joined, ends[c])
	}
	slices.SortStableFunc(joined, func(a, b *joiner) int { return cmp.Compare(b.gain, a.gain) })
	return joined, err
}

// pass returns the gain at j, and leaves the posteriors and the systems of the next step. Where it begins it takes the
// posteriors that are there.
func (v *vacancy) pass(ctx context.Context, r *joinRoom, j *joiner, begins bool) (gain float64, err error) {
	r.gate.clear()
	r.expert.clear()
	clear(r.ownScore)
	clear(r.ownExpected)
	for i, b := range blocks(len(v.y)) {
		gain -= v.priors(r, j, b)
		if err := v.means(ctx, r, j, b); err != nil {
			return 0, err
		}
		if !begins {
			gain += v.posteriors(r, j, i, b)
		}
		v.addGate(r, b)
		if err := v.addExpert(ctx, r, j, i, b); err != nil {
			return 0, err
		}
	}
	return gain, nil
}

// linear writes ⟨c,x⟩ over the columns, for the rows of a block.
func (v *vacancy) linear(dst []float64, columns []int, c []float64, b span) {
	clear(dst)
	for i, col := range columns {
		floats.AddScaled(dst, c[i], v.x[col][b.from:b.to])
	}
}

// predictors writes z of j to dst, and logits writes ρ.
func (v *vacancy) predictors(dst []float64, j *joiner, b span) {
	v.linear(dst, v.experts, j.a, b)
	if v.offset != nil {
		floats.Add(dst, v.offset[b.from:b.to])
	}
}

func (v *vacancy) logits(dst []float64, j *joiner, b span) {
	v.linear(dst, v.gate, j.w, b)
	floats.Sub(dst, v.logSum[b.from:b.to])
}

// means sets z, the means and the residuals of a block.
func (v *vacancy) means(ctx context.Context, r *joinRoom, j *joiner, b span) error {
	n := b.rows()
	v.predictors(r.z[:n], j, b)
	if err := v.problem.G.Eval(ctx, r.mean[:n], r.z[:n]); err != nil {
		return err
	}
	kernel.Sub(r.e[:n], v.y[b.from:b.to], r.mean[:n])
	return nil
}

// priors sets the odds and priors of j in a block, and returns the sum of log(1 + exp(ρ)).
func (v *vacancy) priors(r *joinRoom, j *joiner, b span) float64 {
	n := b.rows()
	v.logits(r.odds[:n], j, b)
	kernel.Logistic(r.prior[:n], r.log[:n], r.odds[:n])
	return v.sum(r.log[:n], b)
}

// posteriors sets those of block i, and returns the sum of log(1 + exp(t)).
func (v *vacancy) posteriors(r *joinRoom, j *joiner, i int, b span) float64 {
	n := b.rows()
	kernel.Sub(r.log[:n], r.odds[:n], v.density[b.from:b.to])
	if v.normal() {
		kernel.Gaussian(r.t[:n], r.h[:n], r.log[:n], r.e[:n], 1/j.own[0], math.Log(j.own[0]))
	} else {
		v.laws[i].LogDensity(r.t[:n], r.log[:n], v.y[b.from:b.to], r.mean[:n], j.own)
	}
	kernel.Logistic(r.postOf(b), r.log[:n], r.t[:n])
	return v.sum(r.log[:n], b)
}

// postOf returns the posteriors of a block.
func (r *joinRoom) postOf(b span) []float64 { return r.post[b.from:b.to] }

// sum is that of a, of the rows of a block, by their weights.
func (v *vacancy) sum(a []float64, b span) float64 {
	if v.weight == nil {
		return kernel.Sum(a)
	}
	return kernel.Dot(a, v.weight[b.from:b.to])
}

// addGate adds a block to the Newton step of the logistic regression of the posteriors on the gate's columns.
func (v *vacancy) addGate(r *joinRoom, b span) {
	n := b.rows()
	for t, p := range r.prior[:n] {
		r.h[t] = max(p*(1-p), 1e-12)
	}
	kernel.Sub(r.score[:n], r.postOf(b), r.prior[:n])
	v.add(&r.gate, r, v.gate, b)
}

// addExpert adds block i to the step of Fisher's scoring for the coefficients, weighted by the posteriors, and to those
// of the own parameters of a density that is not normal.
func (v *vacancy) addExpert(ctx context.Context, r *joinRoom, j *joiner, i int, b span) error {
	n := b.rows()
	if err := v.problem.G.Deriv(ctx, r.slope[:n], r.z[:n]); err != nil {
		return err
	}
	post, expected, score := r.postOf(b), r.ones[:n], r.e[:n] // of normal noise, times its variance
	if !v.normal() {
		r.derived = r.derived.First(n)
		v.laws[i].Derive(r.derived, v.y[b.from:b.to], r.mean[:n], j.own)
		expected, score = r.derived.Expected, r.derived.Score
		v.addOwn(r, b)
	}
	for t, p := range post {
		r.h[t], r.score[t] = 0, 0
		if p > 0 { // else the others may be no numbers
			s := p * r.slope[t]
			r.h[t], r.score[t] = s*r.slope[t]*expected[t], s*score[t]
		}
	}
	v.add(&r.expert, r, v.experts, b)
	return nil
}

// addOwn adds a block to the steps of the own parameters.
func (v *vacancy) addOwn(r *joinRoom, b span) {
	n := b.rows()
	for q := range r.ownScore {
		for t, p := range r.postOf(b) {
			r.h[t], r.score[t] = 0, 0
			if p > 0 {
				r.h[t], r.score[t] = p*r.derived.OwnInformation[mixture.OwnAt(q, q)][t], p*r.derived.OwnScore[q][t]
			}
		}
		r.ownExpected[q] += v.sum(r.h[:n], b)
		r.ownScore[q] += v.sum(r.score[:n], b)
	}
}

// add adds what h and score are of the rows of a block to a system of some columns.
func (v *vacancy) add(to *system, r *joinRoom, columns []int, b span) {
	n := b.rows()
	h, score := r.h[:n], r.score[:n]
	if v.weight != nil {
		kernel.Mul(h, h, v.weight[b.from:b.to])
		kernel.Mul(score, score, v.weight[b.from:b.to])
	}
	x, scaled := r.columns[:len(columns)], r.scaled[:len(columns)]
	for c, col := range columns {
		x[c], scaled[c] = v.x[col][b.from:b.to], scaled[c][:n]
		kernel.Mul(scaled[c], h, x[c])
		to.right[c] += kernel.Dot(score, x[c])
	}
	kernel.AddGram(to.gram, scaled, x)
}

// stepGate is the Newton step of the gate.
func (r *joinRoom) stepGate(j *joiner) {
	if step := r.gate.solve(j.w, joinGateRidge); step != nil {
		floats.Add(j.w, step)
	}
}

// stepExpert is the step of the coefficients, and one for the own parameters: Gauss–Newton's and the variance of normal
// noise.
func (v *vacancy) stepExpert(ctx context.Context, r *joinRoom, j *joiner) error {
	if step := r.expert.solve(nil, 0); step != nil {
		floats.Add(j.a, step)
	}
	switch {
	case !v.problem.Shape.PerExpert || v.problem.Shape.Sigma > 0:
		return nil
	case !v.normal():
		v.stepOwn(r, j)
		return nil
	}
	squares, mass := 0.0, 0.0
	for _, b := range blocks(len(v.y)) {
		if err := v.means(ctx, r, j, b); err != nil {
			return err
		}
		n, post := b.rows(), r.postOf(b)
		kernel.MulSquare(r.h[:n], post, r.e[:n])
		squares += v.sum(r.h[:n], b)
		mass += v.sum(post, b)
	}
	if s := math.Sqrt(squares / max(mass, 1e-300)); s > 0 && !math.IsInf(s, 0) {
		j.own[0] = max(s, j.own[0]/2, leastJoining*v.rms)
	}
	return nil
}

// stepOwn is a Newton step for the logarithm of each own parameter that is estimated, alone, of at most its half or
// double.
func (v *vacancy) stepOwn(r *joinRoom, j *joiner) {
	law := v.laws[0]
	own := law.Own()
	for q := range own[:len(own)-v.problem.Shape.Free().GivenOwn] {
		step := r.ownScore[q] / math.Abs(r.ownExpected[q])
		if math.IsNaN(step) {
			continue
		}
		step = min(max(step, -math.Ln2), math.Ln2)
		least := own[q].Least
		if q == 0 && law.Domain().Scale {
			least = leastJoining * v.rms
		}
		j.own[q] = min(max(j.own[q]*math.Exp(step), least), own[q].Most)
	}
}

// leastJoining is the least noise of an expert that joins, as a part of the target's root mean square.
const leastJoining = 0.002

// system is the normal equations of a Newton step.
type system struct {
	gram  []float64 // Σ h·x·xᵀ, an upper triangle in rows
	right []float64 // Σ s·x
}

func newSystem(d int) system { return system{make([]float64, d*(d+1)/2), make([]float64, d)} }

func (s *system) clear() {
	clear(s.gram)
	clear(s.right)
}

// solve returns (Σ h·x·xᵀ + ridge)⁻¹·(Σ s·x − ridge·at), nil where it cannot.
func (s *system) solve(at []float64, ridge float64) []float64 {
	d := len(s.right)
	if d == 0 {
		return nil
	}
	gram := mat.NewSymDense(d, nil)
	numeric.SetTriangle(gram, s.gram)
	small := joinRidge * mat.Trace(gram) / float64(d)
	if !(small > 0) || math.IsInf(small, 0) {
		return nil
	}
	right := slices.Clone(s.right)
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
func (v *vacancy) begin(r *joinRoom) *joiner {
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
		r.gate.clear()
		for _, b := range blocks(len(v.y)) {
			v.priors(r, j, b)
			v.addGate(r, b)
		}
		r.stepGate(j)
	}
	return j
}

// beginningSteps of Newton's method bring a gate near to posteriors that begin a run.
const beginningSteps = 3
