package newton

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/progress"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/kink"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/internal/numeric"
)

// A pass over all rows is one evaluation of the likelihood with its derivatives, and is
// dear. So a climb keeps the best point that it has seen, with score and information: where a
// step has led down the next pass takes a shorter one from there (Levenberg and Marquardt, as
// optim.Newton does it on one machine). All of that is in the model's file (progress.Climb).

const (
	// Where g has kinks the likelihood has some too, and its maximum may be at one. Steps go there by the rows next to
	// kinks; where parts do not bring them, as those of rows in groups, they leap over it. Then a climb ends if a step
	// changed the log-likelihood by less than
	// kinkSlack and kept less than half of a promise below that, as fits on one machine do; or
	// it lowered it by less, and an undamped one promised less than kinkPromise: twice that bounds the square
	// of every parameter's distance to the maximum in standard errors.
	kinkSlack   = 0.01
	kinkPromise = 0.05
	// leastDamping is the first where the information is not positive definite, or a step
	// without led down; below tenths of it there is none. From mostDamping on no step leads higher.
	leastDamping, mostDamping = 1e-3, 1e9
	// undamped is a damping that does not matter.
	undamped = 1e-6
	// rounding is that of a log-likelihood, relative to its size, between parts of different numbers.
	rounding = 1e-12
	// sameOptimum is a difference in log-likelihood below which no test could tell two optima
	// apart, samePoint the distance of parameters, as of a step, below which they are one.
	sameOptimum, samePoint = 0.5, 1e-3
	// mostClimbs are followed side by side.
	mostClimbs = 4
)

// climbsOf are the climbs of a model: those in its file, or the one that begins at it.
func climbsOf(m *fitted.Model) ([]progress.Climb, error) {
	p := m.Params()
	l := likelihoodOf(p, freeOf(m), nil)
	if m.Fit.Climbs == nil {
		e := evidenceOf(m)
		if m.Fit.Passes != nil { // of the fit that they began at
			e = m.Fit.Passes
		}
		return []progress.Climb{{At: l.Theta(p), Agreeing: e.Agreeing, Met: e.Met}}, nil
	}
	going := 0
	for i, c := range m.Fit.Climbs {
		if len(c.At) != l.Dim() {
			return nil, fmt.Errorf("fit.climbs[%d].at has %d parameters, the model %d", i, len(c.At), l.Dim())
		}
		if c.Ended == "" {
			going++
		}
	}
	if going == 0 || going > mostClimbs {
		return nil, fmt.Errorf("fit.climbs has %d that go on, want 1 to %d", going, mostClimbs)
	}
	return slices.Clone(m.Fit.Climbs), nil
}

// Optimum is one that a search on some of the rows has found beside the best.
type Optimum struct {
	Params   *model.Params // in the units of the data
	Agreeing int           // starts that ended at it
}

// SideBySide has the passes from m begin at other optima too, at most three, the first of others
// first. Trees and experts with an output scale have no passes.
func SideBySide(m *fitted.Model, others []Optimum) {
	if len(others) == 0 || m.Hierarchy != "" || m.Leaves != nil || m.OutputScale != nil {
		return
	}
	l, e := likelihoodOf(m.Params(), freeOf(m), nil), evidenceOf(m)
	m.Fit.Climbs = []progress.Climb{{At: l.Theta(m.Params()), Agreeing: e.Agreeing, Met: e.Met}}
	for _, o := range others[:min(len(others), mostClimbs-1)] {
		m.Fit.Climbs = append(m.Fit.Climbs, progress.Climb{At: l.Theta(o.Params), Agreeing: o.Agreeing})
	}
}

// moved is the model with its free parameters at theta.
func moved(m *fitted.Model, theta []float64) *fitted.Model {
	out := *m
	out.SetParams(likelihoodOf(m.Params(), freeOf(m), nil).Params(theta))
	return &out
}

// climb is a climb in the middle of a step.
type climb struct {
	progress.Climb
	l     *loss.Likelihood // that knows θ and the gate's bound
	score []float64
	h     *mat.SymDense
	kinks *beside // of the best point; nil where they are not seen
	size  float64 // of the step to the trial
	gain  float64 // of the step to the best point; 0 where that is the one before
}

// ascend is the climb behind a pass that has summed at its point: the damping falls and
// rises with the share of the promise that the step has kept (Nielsen 1999), and rises to where
// the step is shorter where it led down.
func ascend(c progress.Climb, at point, l *loss.Likelihood, kinks []float64) (*climb, error) {
	out := &climb{Climb: c, l: l}
	first, noise := c.Trial == nil, rounding*math.Abs(at.sums[0])
	gain, kept := at.sums[0]-c.LogLikelihood, 1.0
	if c.Promise > noise {
		kept = gain / c.Promise
	}
	up, beyond := first || gain >= -noise, false
	if up {
		out.accept(at)
		beyond = out.project(out.At) // where it began, or as the experts' order has the gate
	} else if err := out.unpack(); err != nil {
		return nil, err
	}
	if !first && len(kinks) > 0 && out.kinks == nil && math.Abs(gain) < kinkSlack && kept < 0.5 &&
		(c.Promise < kinkSlack || !up &&
			c.Promise < kinkPromise && c.Damping <= leastDamping) {
		out.size = optim.Largest(floats.SubTo(make([]float64, len(c.At)), c.Trial, c.At), c.At)
		out.Fell, out.Squares = max(0, -gain), cmp.Or(out.Squares, squaresAt(at))
		out.end(progress.AtKink)
		return out, nil
	}
	switch {
	case first && beyond:
		// It begins at its bound, of which the next pass has the sums.
		out.size, out.Damping = optim.Largest(floats.SubTo(make([]float64, len(c.At)), out.At, c.At), out.At),
			leastDamping
		return out, nil
	case first:
	case up:
		out.gain = gain
		out.LogLikelihood = max(c.LogLikelihood, out.LogLikelihood) // the same but for rounding
		out.Damping *= max(0.1, min(10, 1-math.Pow(2*kept-1, 3)))
		if kept > 0.9 {
			out.Damping = 0.03 * c.Damping
		}
		if out.Damping < leastDamping/10 {
			out.Damping = 0
		}
	default:
		return out, out.shorten(gain)
	}
	return out, out.step(math.Inf(1))
}

// shorten takes a shorter step from the best point, behind one that has led down: the
// length at which the parabola through the slope there and the fall is highest, a tenth to a half of it.
func (c *climb) shorten(gain float64) error {
	move := floats.SubTo(make([]float64, len(c.At)), c.Trial, c.At)
	slope := floats.Dot(move, c.score)
	c.Refused++
	if c.kinks == nil { // from here on steps do not go to the other sides of kinks, and may be short enough
		c.Damping = max(leastDamping, 4*c.Damping)
	}
	return c.step(max(0.1, min(0.5, slope/(2*(slope-gain)))) * c.length(move))
}

// length is the length of a step in units of the information's diagonal.
func (c *climb) length(move []float64) float64 {
	sum := 0.0
	for i, s := range c.scales() {
		sum += move[i] / s * move[i] / s
	}
	return math.Sqrt(sum)
}

// accept makes the point that was summed the best.
func (c *climb) accept(at point) {
	c.At = slices.Clone(c.Point())
	k := c.l.Params(c.At).K
	c.LogLikelihood, c.Refused = at.sums[0], 0
	c.Proportions = slices.Clone(at.sums[2 : 2+k])
	numeric.Shares(c.Proportions, at.sums[1])
	c.Squares = squaresAt(at)
	c.load(at.sums[2+k:])
	c.kinks = at.kinks
	c.sort()
}

// project brings θ within the gate's bound, and says whether it was beyond it.
func (c *climb) project(theta []float64) bool {
	before := slices.Clone(theta)
	c.l.Project(theta)
	return !slices.Equal(before, theta)
}

// held is the climb with the score and the information of a gate that is held at its bound, if it is there and
// is pulled outwards.
func (c *climb) held() *climb {
	out := *c
	out.score, out.h = slices.Clone(c.score), mat.NewSymDense(len(c.score), nil)
	out.h.CopySym(c.h)
	floats.Scale(-1, out.score)
	c.l.Hold(out.score, out.h, c.At)
	floats.Scale(-1, out.score)
	return &out
}

// squaresAt are the squares that were summed at a point; nil for none.
func squaresAt(at point) *progress.Squares {
	if s := at.squares; s != nil {
		return &progress.Squares{Rows: s.Rows, Z: s.Z, Logits: s.Logits, Features: s.X}
	}
	return nil
}

// pack and unpack write score and information as the file has them.
func (c *climb) pack() {
	q := len(c.score)
	v := slices.Clone(c.score)
	for i := range q {
		for j := i; j < q; j++ {
			v = append(v, c.h.At(i, j))
		}
	}
	c.Curvature, c.Kinks = numeric.AppendFloats(nil, v), nil
	if c.kinks != nil && c.Ended == "" {
		c.Kinks = numeric.AppendFloats([]byte{}, kink.Pack(c.kinks.rows))
	}
}

func (c *climb) unpack() error {
	v := make([]float64, len(c.Curvature)/8)
	numeric.ReadFloats(v, c.Curvature)
	c.load(v)
	if c.Kinks == nil {
		return nil
	}
	v = make([]float64, len(c.Kinks)/8)
	numeric.ReadFloats(v, c.Kinks)
	rows, ok := kink.Unpack(v, len(c.Proportions), len(kink.Columns(c.l)))
	if !ok {
		return errors.New("fit.climbs has kinks of other experts")
	}
	c.kinks = &beside{rows}
	return nil
}

// load reads score and upper triangle of the information.
func (c *climb) load(v []float64) {
	q := len(c.At)
	c.score, c.h = slices.Clone(v[:q]), mat.NewSymDense(q, nil)
	numeric.SetTriangle(c.h, v[q:])
}

// sort puts the largest expert first, and so on: the parameters are then others, linear in
// those before, θ = Mθ′, of which score and information are Mᵀs and MᵀHM.
func (c *climb) sort() {
	if inOrder(c.Proportions) {
		return
	}
	k, q := len(c.Proportions), len(c.At)
	from := make([]int, k)
	for i := range from {
		from[i] = i
	}
	slices.SortStableFunc(from, func(i, j int) int { return cmp.Compare(c.Proportions[j], c.Proportions[i]) })
	to, proportions := make([]int, k), make([]float64, k)
	for rank, i := range from {
		to[i], proportions[rank] = rank, c.Proportions[i]
	}
	squares := *cmp.Or(c.Squares, new(progress.Squares))
	if c.Squares != nil {
		squares.Z, squares.Logits = model.Permuted(squares.Z, to), model.Permuted(squares.Logits, to)
		c.Squares = &squares
	}
	if c.kinks != nil {
		rows := slices.Clone(c.kinks.rows)
		for i := range rows {
			rows[i].Expert = to[rows[i].Expert]
		}
		c.kinks = &beside{rows}
	}
	linear := func(theta []float64, to []int) []float64 { return c.l.Theta(c.l.Params(theta).Relabel(to)) }
	back := mat.NewDense(q, q, nil)
	origin := linear(make([]float64, q), from)
	for j := range q {
		unit := make([]float64, q)
		unit[j] = 1
		for i, v := range linear(unit, from) {
			back.Set(i, j, math.Round(v-origin[i]))
		}
	}
	var score mat.VecDense
	score.MulVec(back.T(), mat.NewVecDense(q, c.score))
	var half, h mat.Dense
	half.Mul(c.h, back)
	h.Mul(back.T(), &half)
	c.At, c.Proportions, c.score, c.h = linear(c.At, to), proportions, score.RawVector().Data, numeric.Symmetric(&h)
}

// step chooses the point of the next pass, no farther than that length, or ends the climb.
func (c *climb) step(most float64) error {
	held := c.held()
	move, used := held.move(c.Damping)
	for move != nil && held.length(move) > most {
		move, used = held.move(max(leastDamping, 4*used))
	}
	if move == nil {
		c.end(progress.Stalled)
		return nil
	}
	trial := floats.AddTo(make([]float64, len(c.At)), c.At, move)
	if c.project(trial) {
		floats.SubTo(move, trial, c.At)
	}
	c.size = optim.Largest(move, c.At)
	c.Damping = used
	var hm mat.VecDense
	hm.MulVec(held.h, mat.NewVecDense(len(move), move))
	promise := floats.Dot(move, held.score) - floats.Dot(move, hm.RawVector().Data)/2
	if c.kinks != nil {
		promise -= optim.Bend(kink.Hinges(c.kinks.rows, 1), move)
	}
	switch {
	case c.size <= SmallStep && used <= undamped:
		c.At = trial
		c.end(progress.Converged)
	case c.size <= SmallStep, !numeric.Finite(trial...), !numeric.Finite(promise):
		c.end(progress.Stalled)
	default:
		c.Trial, c.Promise = trial, promise
		c.pack()
	}
	return nil
}

func (c *climb) end(why string) {
	c.Ended, c.Trial, c.Promise = why, nil, 0
	c.pack() // for the standard errors
}

// scales are 1/√|h_ii|, bounded where a diagonal entry is next to nothing.
func (c *climb) scales() []float64 {
	most := 0.0
	for i := range c.score {
		most = max(most, math.Abs(c.h.At(i, i)))
	}
	scale := make([]float64, len(c.score))
	for i := range scale {
		scale[i] = 1 / math.Sqrt(max(math.Abs(c.h.At(i, i)), 1e-24*most, math.SmallestNonzeroFloat64))
	}
	return scale
}

// move is the step with a damping: that of newton, or to the maximum of the quadratic model and the kinks next to the
// point; behind one that led down it stays on their sides where these do not hold it.
func (c *climb) move(damping float64) ([]float64, float64) {
	if c.kinks == nil {
		return c.newton(damping)
	}
	worth := kink.OtherSide
	if c.Refused > 0 {
		worth = math.Inf(1)
	}
	falls := floats.ScaleTo(make([]float64, len(c.score)), -1, c.score)
	for ; damping < mostDamping; damping = max(leastDamping, 10*damping) {
		move, used := optim.HingedStep(c.h, falls, kink.Hinges(c.kinks.rows, 1), damping, worth)
		if move != nil {
			return move, used
		}
		damping = max(damping, used)
	}
	return nil, damping
}

// newton returns (h + damping·D)⁻¹·score with D the diagonal of h, and the damping that was
// needed for a matrix that is positive definite; nil where mostDamping was not enough.
func (c *climb) newton(damping float64) (move []float64, used float64) {
	q, scale := len(c.score), c.scales()
	right := mat.NewVecDense(q, nil)
	for i, v := range scale {
		right.SetVec(i, v*c.score[i])
	}
	scaled := mat.NewSymDense(q, nil)
	for i := range q {
		for j := i; j < q; j++ {
			scaled.SetSym(i, j, scale[i]*c.h.At(i, j)*scale[j])
		}
	}
	damped := mat.NewSymDense(q, nil)
	for ; damping < mostDamping; damping = max(leastDamping, 10*damping) {
		damped.CopySym(scaled)
		for i := range q {
			damped.SetSym(i, i, scaled.At(i, i)+damping)
		}
		var chol mat.Cholesky
		var x mat.VecDense
		if !chol.Factorize(damped) || chol.SolveVecTo(&x, right) != nil {
			continue
		}
		out := slices.Clone(x.RawVector().Data)
		floats.Mul(out, scale)
		return out, damping
	}
	return nil, damping
}

// step makes the steps of all climbs behind a pass.
func step(m *fitted.Model, all *Sums) (*Step, error) {
	l := likelihoodOf(m.Params(), freeOf(m), all.largest)
	before, err := climbsOf(m)
	if err != nil {
		return nil, err
	}
	var climbs []*climb
	points := all.points
	for _, c := range before {
		if c.Ended != "" {
			climbs = append(climbs, &climb{Climb: c})
			continue
		}
		next, err := ascend(c, points[0], l, all.Kinks)
		if err != nil {
			return nil, err
		}
		climbs, points = append(climbs, next), points[1:]
	}
	s := &Step{Model: m, Pass: 1}
	if m.Fit.Method == Method {
		s.Pass = m.Fit.Iterations + 1
	}
	last := s.Pass%MostPasses == 0
	if c := climbs[0]; last && len(all.Kinks) > 0 && c.Ended == "" && c.gain < kinkSlack && c.Promise < kinkPromise &&
		c.size < samePoint {
		c.end(progress.AtKink)
	}
	climbs = standing(climbs, last)
	s.Size = climbs[0].size
	for _, c := range climbs {
		if c.Ended == "" {
			s.Climbs++
		}
	}
	s.Converged = s.Climbs == 0 && climbs[0].Ended != progress.Stalled
	s.AtKink = s.Converged && climbs[0].Ended == progress.AtKink
	return s, s.write(m, l, climbs, all)
}

// standing are the climbs that may still lead to the highest maximum, the best first: of those to one
// maximum the first, and none that converges below the best. Behind one that has converged
// the others are given up where as many passes as there are would not bring them there, as
// their next step promises; in the last pass all are.
func standing(climbs []*climb, last bool) []*climb {
	slices.SortStableFunc(climbs, func(a, b *climb) int { return cmp.Compare(b.LogLikelihood, a.LogLikelihood) })
	best := climbs[0]
	there := best.Ended == progress.Converged || best.Ended == progress.AtKink
	out := climbs[:1]
	for _, c := range climbs[1:] {
		apart := make([]float64, len(c.At))
		floats.SubTo(apart, c.At, best.At)
		behind := best.LogLikelihood - c.LogLikelihood - sameOptimum
		switch {
		case behind < 0 && (best.Ended != "" && c.Ended != "" || optim.Largest(apart, best.At) < samePoint):
			best.Agreeing += c.Agreeing
			best.Met += c.Met
		case c.Ended != "", c.Damping <= undamped && behind > 4*c.Promise, there &&
			(last || behind > MostPasses*c.Promise):
		default:
			out = append(out, c)
		}
	}
	return out
}

// heldNote is of a gate at its bound. What that costs takes passes of its own to tell.
const heldNote = "the gate is held where the rounding of its logits stays below 1e-6; passes do not tell what that " +
	"costs of the log-likelihood"

// write writes the best point and what the next pass needs into the model.
func (s *Step) write(m *fitted.Model, l *loss.Likelihood, climbs []*climb, all *Sums) error {
	best := climbs[0]
	passes, uncertified := all.passes(moved(m, best.At), best)
	n, q, loglik := all.points[0].sums[1], float64(l.Dim()), best.LogLikelihood
	if m.Fit.N != all.Table.Rows {
		m.Baselines = nil // of other rows
	}
	after := l.Params(best.At)
	m.SetParams(after)
	m.Proportions = best.Proportions
	m.Fit = fitted.Fit{
		Method: Method, Seed: m.Fit.Seed, SigmaGiven: m.Fit.SigmaGiven, OwnGiven: m.Fit.OwnGiven, N: all.Table.Rows,
		LogLikelihood: loglik,
		BIC:           q*math.Log(n) - 2*loglik, AIC: 2*q - 2*loglik,
		Converged: s.Converged, Status: fmt.Sprintf("the step of pass %d is %.2g", s.Pass, s.Size), Iterations: s.Pass,
		Starts: []fitted.Start{}, Notes: []string{}, Passes: passes, Prints: m.Fit.Prints,
		RowsDigest: m.Fit.Prints.Digest(),
	}
	if uncertified != "" {
		m.Fit.Notes = append(m.Fit.Notes, "no certificate: "+uncertified)
	}
	if l.AtBound(after) {
		m.Fit.Notes = append(m.Fit.Notes, heldNote)
	}
	m.StandardErrors, m.Covariance, m.HAC, m.Arrangements, m.Penalised, m.Truth = nil, nil, nil, nil, nil, nil
	if all.Table.Weights != "" {
		m.Fit.Weight, m.Fit.WeightColumn = n, all.Table.Weights
		if all.groups != nil {
			m.Fit.Weight = all.weight
		}
	}
	if s.AtKink {
		m.Fit.Notes = append(m.Fit.Notes,
			fmt.Sprintf("the maximum is at a kink of the likelihood: the last step lowered its logarithm by %.2g",
				best.Fell))
	}
	if s.Converged {
		m.Fit.Status = "converged"
		return s.conclude(m, l, best, n, all.Kinks)
	}
	if s.Climbs > 0 {
		for _, c := range climbs {
			m.Fit.Climbs = append(m.Fit.Climbs, c.Climb)
		}
	}
	if !s.GoOn() {
		s.Reason = reason(climbs[0], l)
		m.Fit.Status = fmt.Sprintf("not converged after %d passes: %s", s.Pass, s.Reason)
	}
	return nil
}

// conclude adds to a model that has converged its standard errors.
func (s *Step) conclude(m *fitted.Model, l *loss.Likelihood, best *climb, n float64, kinks []float64) error {
	if m.Fit.Passes == nil {
		m.Fit.Prints = nil // no further pass
	} else {
		m.Fit.Notes = append(m.Fit.Notes, notYet)
	}
	if best.h == nil { // it had converged before others were given up
		if err := best.unpack(); err != nil {
			return err
		}
	}
	after := m.Params()
	c, err := infer.FromInformation(best.h, best.score, l.Parameters(), after, n, kinks)
	if err != nil {
		m.Fit.Notes = append(m.Fit.Notes, "no standard errors: "+err.Error())
		return nil
	}
	m.StandardErrors = fitted.NewStandardErrors(string(infer.Observed), c.Errors(after), freeOf(m).Sigma)
	return nil
}

// reason says why passes from a climb have not converged.
func reason(c *climb, l *loss.Likelihood) string {
	if c.Ended == progress.Stalled {
		return "no step from there raises the log-likelihood, and the information is not that of a maximum; begin at " +
			"a fit of more rows, or with fewer experts"
	}
	if c.Trial == nil {
		return "it was begun beyond the gate's bound: make more passes from this model"
	}
	gate, most := 0.0, 0.0
	for i, p := range l.Parameters() {
		move := math.Abs(c.Trial[i]-c.At[i]) / max(1, math.Abs(c.At[i]))
		if most = max(most, move); p.Part == model.Gate {
			gate = max(gate, move)
		}
	}
	switch {
	case gate == most && c.Promise < 1 && most > 0.01:
		return fmt.Sprintf("the gate's coefficients grow, for %.2g of log-likelihood in the next step: it may "+
			"separate the rows, and then there is no finite maximum", c.Promise)
	case c.Promise >= 1:
		return fmt.Sprintf("the next step still promises %.3g of log-likelihood: make more passes from this model, "+
			"or begin at a fit of more rows", c.Promise)
	}
	return fmt.Sprintf("steps are still above %.0e, for %.2g of log-likelihood in the next one: make more passes "+
		"from this model", SmallStep, c.Promise)
}
