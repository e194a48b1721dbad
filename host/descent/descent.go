// Package descent is the papers' own methods, which descend a loss by
// mini-batches over the rows of a table: ℓ2 over regressors and gate together
// (002 §3.1), L4 over the regressors in ℝ^d, and the gate by projected gradient
// descent (002 §3.2). They are there to be compared with.
package descent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/loss/minibatch"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
)

// MiniBatches says how a loss is descended by mini-batches. The zero value asks
// for the defaults of the method, which for paper-like data of 1,000 rows and
// more end within a second or two.
type MiniBatches struct {
	Batch    int            // rows in a mini-batch; 0: 128 for l2, 1024 for l4, at most all rows
	StepSize float64        // of the first step; 0: 0.3 for l2, 0.01 for l2 by Adam, 1e−3 for l4
	Schedule optim.Schedule // of the step size; nil is cosine
	Epochs   int            // passes over the rows; 0: as many as give 10,000 mini-batches for l2, 4,000 for l4
}

// mostEpochs bounds the epochs, so that no count of mini-batches overflows.
const mostEpochs = 1_000_000_000

func positive(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }

func (m MiniBatches) check() error {
	switch {
	case m.Batch < 0:
		return problem.Refuse("batch = %d, want at least 1", m.Batch)
	case m.Epochs < 0 || m.Epochs > mostEpochs:
		return problem.Refuse("epochs = %d, want 1 to %d", m.Epochs, mostEpochs)
	case !positive(m.StepSize):
		return problem.Refuse("step-size = %v, want a finite number above 0", m.StepSize)
	}
	return nil
}

// over fills in the defaults on n rows. It is an error if a batch is larger than
// that.
func (m MiniBatches) over(n, batch int, step float64, steps int) (MiniBatches, error) {
	if m.Batch > n {
		return m, problem.Refuse("batch = %d for %d rows; choose at most as many", m.Batch, n)
	}
	m.Batch = cmp.Or(m.Batch, min(batch, n))
	m.StepSize = cmp.Or(m.StepSize, step)
	if m.Schedule == nil {
		m.Schedule = optim.Cosine{}
	}
	perEpoch := n / m.Batch
	m.Epochs = cmp.Or(m.Epochs, (steps+perEpoch-1)/perEpoch)
	return m, nil
}

// sameAngle is the E_reg between two sets of regressors below which a
// descent counts them as the same. The noise that mini-batches leave is of that
// order.
const sameAngle = 0.02

// lateFall is a share of the whole fall of a loss, and lateNoise a share of
// the loss, that the second half of a descent may take and count as done.
const (
	lateFall  = 0.005
	lateNoise = 0.02
)

// records is the number of points of a descent that are kept.
const records = 50

// track is a descent with the points on record: the first is the start.
type track struct {
	*optim.Result
	steps  int   // of which Result.Iterations were made
	at     []int // the step of each record
	points [][]float64
}

// minimiser is [optim.SGD] or [optim.Adam].
type minimiser func(context.Context, optim.Stochastic, []float64, optim.StochasticSettings) (*optim.Result, error)

// descend takes the steps of how on l from x0 over the mini-batches of rows, each of which project, if it is
// not nil, brings within bounds. It calls epoch after every epoch.
func descend(ctx context.Context, how MiniBatches, minimise minimiser, l minibatch.Loss, rows model.Rows, x0 []float64,
	rng *rand.Rand, bound float64, project func(x []float64), epoch func()) (*track, error) {
	batches := minibatch.NewEpochs(rows, how.Batch, rng)
	perEpoch := batches.Steps()
	t := &track{steps: how.Epochs * perEpoch}
	every := max(1, t.steps/records)
	var err error
	t.Result, err = minimise(ctx, minibatch.Batched{Loss: l, Batches: batches}, x0, optim.StochasticSettings{
		Steps: t.steps, StepSize: how.StepSize, Schedule: how.Schedule, Bound: bound, Project: project, Every: 1,
		Watch: func(step int, x []float64) bool {
			if step%every == 0 {
				t.at, t.points = append(t.at, step), append(t.points, slices.Clone(x))
			}
			if step > 0 && step%perEpoch == 0 {
				epoch()
			}
			return false
		},
	})
	t.Trace = nil // the losses of single batches
	return t, err
}

// halfway is the record nearest to half of the steps.
func (t *track) halfway() []float64 {
	i, _ := slices.BinarySearch(t.at, t.steps/2)
	return t.points[min(i, len(t.points)-1)]
}

// endedEarly marks a run that ended too early, and says why; "" for others. In the
// second half of its steps, over which a cosine takes a sixth of the way, the
// regressors turned by more than sameAngle, or the loss of all rows fell by
// more than lateFall of its whole fall. A plateau looks like an end to both.
func (t *track) endedEarly(ctx context.Context, loss optim.Objective,
	regressors func(x []float64) *model.Params) (string, error) {
	if t.Status != optim.Converged {
		return "", nil
	}
	half := t.halfway()
	if turned, _ := metric.Ereg(regressors(half), regressors(t.X)); turned > sameAngle {
		t.Status = optim.IterationLimit
		return fmt.Sprintf("turned the regressors by an E_reg of %.2g, want at most %g", turned, sameAngle), nil
	}
	var v [3]float64
	for i, x := range [][]float64{t.points[0], half, t.X} {
		var err error
		if v[i], err = loss.Value(ctx, x); err != nil {
			return "", err
		}
	}
	start, middle, end := v[0], v[1], v[2]
	if fall := middle - end; fall > lateFall*(start-end) && fall > lateNoise*math.Abs(end) {
		t.Status = optim.IterationLimit
		return fmt.Sprintf("lowered the loss from %.4g to %.4g", middle, end), nil
	}
	return "", nil
}

// stillest is the record that the run came to with the least movement since the
// one before: where a run that diverged was nearest to an optimum.
func (t *track) stillest() (at int, x []float64) {
	best, least := 0, math.Inf(1)
	for i := 1; i < len(t.points); i++ {
		if d := floats.Distance(t.points[i], t.points[i-1], 2); d < least {
			best, least = i, d
		}
	}
	return t.at[best], t.points[best]
}

// Progress is told how many epochs of all are done, from one goroutine at a
// time; nil is nobody.
type Progress func(done, total int)

// epochs returns a function to be called after every epoch of several runs side
// by side, that shows how many of all are done.
func (show Progress) epochs(total int) func() {
	if show == nil {
		return func() {}
	}
	var mu sync.Mutex
	done := 0
	show(0, total)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		show(done, total)
	}
}

// Record says how a descent went.
type Record struct {
	Loss, Optimiser string
	MiniBatches
	Steps int     // mini-batches in all epochs
	Made  int     // of them, fewer where it diverged
	Value float64 // the loss of all rows where it ended

	// Of l4 alone: the weights of its terms.
	Mu, Lambda float64
	Ridge      *float64
	Penalty    string // "" for that of 002 Eq. 7
}

// endedEarly says that a descent ended too early.
func endedEarly(why string) string {
	return "the descent ended too early: its second half " + why + "; try more epochs, or larger batches"
}
