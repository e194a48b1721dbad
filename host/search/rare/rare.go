// Package rare is the step of a search that looks for better places of experts of few rows, where the activation has
// kinks.
package rare

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/survey"
	"github.com/gatedlearning/moe/internal/stream"
)

const (
	// mostOpen is the most rows that may be open to an expert for it to be placed anew, and
	// leastOdds those of a row that is open to it, a logarithm: see [opening].
	mostOpen, leastOdds = 500, 0
	// placings are the places that are tried on the open rows, mostPlaced of which go on to all
	// rows, and placingRounds how often an expert may be placed anew.
	placings, mostPlaced, placingRounds = 200, 12, 6
	// placingSteps of EM are made on the open rows at most, until one gains less than
	// placingGain units of log-likelihood. Optima that are placesApart count as two.
	placingSteps, placingGain, placesApart = 40, 0.01, 0.1
)

// opening is an expert and the rows that are open to it, the other experts and the gate as they are:
// those of which it would have half or more, did it fit them exactly. As a function of the
// expert's coefficients a the log-likelihood is
//
//	Σ_rows log(1 + exp(odds − (y − g(⟨a,x⟩))²/2σ²))
//
// up to a constant, odds being the log of the gate's share for the expert times its highest density, over what the
// others have. Rows that are not open add next to nothing. So the maxima for one expert can be
// looked for on its few rows, at a price that does not matter.
type opening struct {
	expert  int
	columns []int // of the design that the expert sees; D for the ones
	sigma   float64
	x       *mat.Dense // columns of the open rows
	y       []float64
	weight  []float64
	odds    []float64
	chance  []float64 // running sums of the weights times the posterior were the fit exact

	z, mean, slope, post []float64
	scaled               *mat.Dense
	h                    *mat.SymDense
	score, step          *mat.VecDense
	chol                 mat.Cholesky
}

// openings are those of experts of q to which some rows are open, of at least these odds (a logarithm), but not more
// than most.
func openings(ctx context.Context, p *problem.Problem, q *model.Params, most int, least float64) ([]*opening, error) {
	columns, _ := p.Shape.Free().Columns(q)
	all, x := make([]*opening, q.K), make([][]float64, q.K)
	for i := range all {
		all[i] = &opening{expert: i, columns: columns, sigma: q.SigmaOf(i)}
	}
	room := make([]float64, q.K)
	err := mixture.EachPosterior(ctx, p.G, p.Rows, q, nil, func(b *model.Block, post *mixture.Posterior) {
		for i, o := range all {
			if len(o.y) > most {
				continue
			}
			for r := range b.N {
				odds := oddsOf(post, i, r, room)
				if !(odds >= least) {
					continue
				}
				for _, j := range columns {
					v := 1.0
					if j < q.D {
						v = b.Col(j)[r]
					}
					x[i] = append(x[i], v)
				}
				o.y, o.weight, o.odds = append(o.y, b.Y[r]), append(o.weight, b.Weight(r)), append(o.odds, odds)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	var out []*opening
	for i, o := range all {
		if n := len(o.y); len(columns) <= n && n <= most {
			o.prepare(mat.NewDense(n, len(columns), x[i]))
			out = append(out, o)
		}
	}
	return out, nil
}

// oddsOf are the odds, as a logarithm, of row r for expert i; room is for as many values as there are other experts.
func oddsOf(post *mixture.Posterior, i, r int, room []float64) float64 {
	room = room[:0]
	for j := range post.K {
		if j != i {
			e := post.StdOf(j)[r]
			room = append(room, post.Scores[j*post.N+r]-math.Log(post.P.SigmaOf(j))-e*e/2)
		}
	}
	return post.Scores[i*post.N+r] - math.Log(post.P.SigmaOf(i)) - floats.LogSumExp(room)
}

func (o *opening) prepare(x *mat.Dense) {
	n, d := x.Dims()
	room := make([]float64, 5*n)
	o.x, o.z, o.mean, o.slope, o.post, o.chance = x, room[:n], room[n:2*n], room[2*n:3*n], room[3*n:4*n], room[4*n:]
	o.scaled, o.h = mat.NewDense(n, d, nil), mat.NewSymDense(d, nil)
	o.score, o.step = mat.NewVecDense(d, nil), mat.NewVecDense(d, nil)
	for r, v := range o.odds {
		o.chance[r] = o.weight[r] / (1 + math.Exp(-v))
	}
	floats.CumSum(o.chance, o.chance)
}

// value returns the log-likelihood at a, up to a constant, and leaves the posteriors.
func (o *opening) value(ctx context.Context, g model.Activation, a []float64) (sum float64, err error) {
	mat.NewVecDense(len(o.z), o.z).MulVec(o.x, mat.NewVecDense(len(a), a))
	if err := g.Eval(ctx, o.mean, o.z); err != nil {
		return 0, err
	}
	for r, y := range o.y {
		e := (y - o.mean[r]) / o.sigma
		v := o.odds[r] - e*e/2
		sum += o.weight[r] * (max(v, 0) + math.Log1p(math.Exp(-math.Abs(v))))
		o.post[r] = 1 / (1 + math.Exp(-v))
	}
	return sum, nil
}

// climb takes a to a maximum by EM and returns the value there: the best that it came by, since a step across a kink
// may lead down.
func (o *opening) climb(ctx context.Context, g model.Activation, a []float64) (float64, error) {
	highest, best := math.Inf(-1), slices.Clone(a)
	for steps, last := 0, highest; ; steps++ {
		v, err := o.value(ctx, g, a)
		if err != nil {
			return 0, err
		}
		if v > highest {
			highest = v
			copy(best, a)
		}
		done := steps == placingSteps || !(v-last >= placingGain) && steps > 2
		if !done {
			last = v
			if done, err = o.maximise(ctx, g); err != nil {
				return 0, err
			}
		}
		if done {
			copy(a, best)
			return highest, nil
		}
		floats.Add(a, o.step.RawVector().Data)
	}
}

// maximise sets the step to the Gauss–Newton step of the M-step, weighted least squares, after value, and says
// whether there is none.
func (o *opening) maximise(ctx context.Context, g model.Activation) (none bool, err error) {
	if err := g.Deriv(ctx, o.slope, o.z); err != nil {
		return true, err
	}
	for r := range o.post {
		w := o.weight[r] * o.post[r]
		o.mean[r] = w * o.slope[r] * (o.y[r] - o.mean[r])
		o.post[r] = math.Sqrt(w) * o.slope[r]
	}
	return !o.solve(o.post, o.mean), nil
}

// placingRidge is the part of the mean diagonal that keeps a system invertible where few rows are on
// the side of the kink on which g has a slope.
const placingRidge = 1e-6

// solve sets the step to (Σ root²·x·xᵀ)⁻¹·Σ right·x over the open rows, and says whether it could.
func (o *opening) solve(root, right []float64) bool {
	for r, v := range root {
		floats.ScaleTo(o.scaled.RawRowView(r), v, o.x.RawRowView(r))
	}
	o.h.SymOuterK(1, o.scaled.T())
	o.score.MulVec(o.x.T(), mat.NewVecDense(len(right), right))
	d := o.h.SymmetricDim()
	ridge := placingRidge * mat.Trace(o.h) / float64(d)
	for j := range d {
		o.h.SetSym(j, j, o.h.At(j, j)+ridge)
	}
	return ridge > 0 && o.chol.Factorize(o.h) && o.chol.SolveVecTo(o.step, o.score) == nil
}

// draw returns the coefficients of the least squares plane of the open rows on one side of a random hyperplane through
// one of them, drawn by its chance of being the expert's. A kink far out has few of the expert's rows on the other side
// of it, and the optima with such kinks differ in which.
func (o *opening) draw(rng *rand.Rand) []float64 {
	n, d := o.x.Dims()
	through, _ := slices.BinarySearch(o.chance, rng.Float64()*o.chance[n-1])
	w := model.RandomDirections(rng, 1, d)
	bar := floats.Dot(w, o.x.RawRowView(min(through, n-1)))
	for r, odds := range o.odds {
		chance := 0.0
		if floats.Dot(w, o.x.RawRowView(r)) >= bar {
			chance = o.weight[r] / (1 + math.Exp(-odds))
		}
		o.post[r], o.mean[r] = math.Sqrt(chance), chance*o.y[r]
	}
	if !o.solve(o.post, o.mean) {
		return make([]float64, d)
	}
	return slices.Clone(o.step.RawVector().Data)
}

// place is where an expert may stand, and the log-likelihood of its opening there.
type place struct {
	a     []float64
	value float64
}

// places returns the best distinct maxima for an expert.
func (o *opening) places(ctx context.Context, g model.Activation, rng *rand.Rand) ([]place, error) {
	var all []place
	for range placings {
		a := o.draw(rng)
		v, err := o.climb(ctx, g, a)
		if err != nil {
			return nil, err
		}
		if !math.IsNaN(v) {
			all = append(all, place{a, v})
		}
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(b.value, a.value) })
	var out []place
	for _, c := range all {
		if len(out) == mostPlaced {
			break
		}
		if len(out) == 0 || c.value < out[len(out)-1].value-placesApart {
			out = append(out, c)
		}
	}
	return out, nil
}

// with returns q with the expert at a.
func (o *opening) with(q *model.Params, a []float64) *model.Params {
	q = q.Clone()
	for c, j := range o.columns {
		if j < q.D {
			q.Regressor(o.expert)[j] = a[c]
		} else {
			q.RegressorIntercepts[o.expert] = a[c]
		}
	}
	return q
}

// Places is the step that looks for a better place of each expert that has few rows, where g has kinks and the table is
// too large for a survey. Which of its few rows are on which side of a kink makes for optima some units apart, and
// starts on all rows seldom come to another: what an expert of 1 % of the rows gains or loses
// is nothing beside the rest.
func Places() search.Step {
	return search.Step{Name: "rare experts", Applies: applies,
		Try: func(ctx context.Context, t *search.Task, best *search.Candidate, when search.Occasion) (*search.Candidate,
			error) {
			return best, improve(ctx, t.Problem, best, when)
		}}
}

func applies(t *search.Task, c *search.Candidate) bool {
	p := t.Problem
	one := p.Shape.K > 1 && p.OneGate() && p.Shape.Kinds == nil && p.Shape.Output == nil && p.Link == nil
	return one && search.Kinked(p) && !survey.Surveyable(p) && c.Groups == nil
}

// improve takes c to better maxima as long as places lead to one.
func improve(ctx context.Context, p *problem.Problem, c *search.Candidate, when search.Occasion) error {
	l := loss.NewLikelihood(p.Rows, p.G, c.Params, p.Shape.Free(), p.Threads)
	if !l.Dense() {
		return nil
	}
	rng := stream.New(p.Seed, stream.Placing, int(when))
	for range placingRounds {
		gained, err := placeAnew(ctx, p, c, l, rng)
		if err != nil || !gained {
			return err
		}
	}
	return nil
}

// placeAnew takes c to the first better maximum on all rows that places of its experts lead to, and says
// whether there was one.
func placeAnew(ctx context.Context, p *problem.Problem, c *search.Candidate, l *loss.Likelihood,
	rng *rand.Rand) (gained bool, err error) {
	all, err := openings(ctx, p, c.Params, mostOpen, leastOdds)
	if err != nil {
		return false, err
	}
	for _, o := range all {
		places, err := o.places(ctx, p.G, rng)
		if err != nil {
			return false, err
		}
		for _, at := range places {
			run, err := climb.Climb(ctx, l, l.Theta(o.with(c.Params, at.a)), climb.TooFarBehind(c.Run.Value))
			if err != nil {
				return false, err
			}
			if !climb.Superior(run.Value, c.Run.Value, l.Rows()) {
				continue
			}
			trial := *c
			run.After(c.Run)
			trial.Run, trial.Params = run, l.Params(run.X)
			if err := trial.MarkDegenerate(ctx, l); err != nil {
				return false, err
			}
			if !trial.Degenerate {
				*c = trial
				return true, nil
			}
		}
	}
	return false, nil
}
