package host

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
)

// Optimisers of method l2.
const (
	OptimiserSGD  = "sgd"
	OptimiserAdam = "adam"
)

// Optimisers lists the optimisers of method l2 by name.
func Optimisers() []string { return []string{OptimiserSGD, OptimiserAdam} }

// Schedules lists the schedules of the step size of methods l2 and l4 by name.
func Schedules() []string { return optim.Schedules() }

// Descent says how methods l2 and l4 descend by mini-batches. The zero value
// asks for the defaults, which for paper-like data of 1,000 rows and more end
// within a second or two.
type Descent struct {
	Optimiser string   // of method l2, one of [Optimisers]; "" is sgd
	Batch     int      // rows in a mini-batch; 0: 128 for l2, 1024 for l4, at most all rows
	StepSize  float64  // of the first step; 0: 0.3 for l2, 0.01 for l2 by adam, 1e−3 for l4
	Schedule  string   // of the step size, one of [Schedules]; "" is cosine
	Epochs    int      // passes over the rows; 0: as many as give 10,000 mini-batches for l2, 4,000 for l4
	Lambda    float64  // weight λ of the terms in T2 of L4 (002 Eq. 7); 0: 10
	Ridge     *float64 // weight of ½‖A‖² in L4 (δ in 002 Eq. 7), at least 0; nil: 2
}

// Defaults of the descents. Those of l4 were chosen on tables of the papers'
// design with 1e4 and 1e5 rows: without a ridge nothing but the noise of
// mini-batches keeps A inside the span of the regressors.
const (
	l2Batch    = 128
	l2Step     = 0.3
	l2AdamStep = 0.01
	l2Steps    = 10_000

	l4Batch       = 1024
	l4Step        = 1e-3
	l4Steps       = 4_000
	l4Lambda      = 10
	l4Ridge       = 2
	descentMu     = 0.01 // as small as the theory of 002 wants it: 1 leads to infinity
	defaultRadius = 10
)

// check refuses values that no method can use.
func (d Descent) check() error {
	positive := func(v float64) bool { return v >= 0 && !math.IsInf(v, 0) }
	switch {
	case d.Optimiser != "" && !slices.Contains(Optimisers(), d.Optimiser):
		return &RequestError{fmt.Sprintf("unknown optimiser %q; there are %v", d.Optimiser, Optimisers())}
	case !optim.Schedule(d.Schedule).Valid():
		return &RequestError{fmt.Sprintf("unknown schedule %q; there are %v", d.Schedule, Schedules())}
	case d.Batch < 0:
		return &RequestError{fmt.Sprintf("batch = %d, want at least 1", d.Batch)}
	case d.Epochs < 0 || d.Epochs > mostEpochs:
		return &RequestError{fmt.Sprintf("epochs = %d, want 1 to %d", d.Epochs, mostEpochs)}
	case !positive(d.StepSize):
		return &RequestError{fmt.Sprintf("step-size = %v, want a finite number above 0", d.StepSize)}
	case !positive(d.Lambda):
		return &RequestError{fmt.Sprintf("lambda = %v, want a finite number above 0", d.Lambda)}
	case d.Ridge != nil && !positive(*d.Ridge):
		return &RequestError{fmt.Sprintf("ridge = %v, want a finite number of at least 0", *d.Ridge)}
	}
	return nil
}

// mostEpochs bounds the epochs, so that no count of mini-batches overflows.
const mostEpochs = 1_000_000_000

// of fills in what the method takes by default on n rows. It is an error if a
// batch is larger than that.
func (d Descent) of(method string, n int) (Descent, error) {
	batch, step, steps := l2Batch, l2Step, l2Steps
	switch method {
	case MethodL2:
		d.Optimiser = cmp.Or(d.Optimiser, OptimiserSGD)
		if d.Optimiser == OptimiserAdam {
			step = l2AdamStep
		}
	case MethodL4:
		batch, step, steps = l4Batch, l4Step, l4Steps
		d.Optimiser = OptimiserSGD
		d.Lambda = cmp.Or(d.Lambda, l4Lambda)
		if d.Ridge == nil {
			ridge := float64(l4Ridge)
			d.Ridge = &ridge
		}
	default:
		return Descent{}, nil
	}
	if d.Batch > n {
		return d, &RequestError{fmt.Sprintf("batch = %d for %d rows; choose at most as many", d.Batch, n)}
	}
	d.Batch = cmp.Or(d.Batch, min(batch, n))
	d.StepSize = cmp.Or(d.StepSize, step)
	d.Schedule = cmp.Or(d.Schedule, string(optim.Cosine))
	perEpoch := n / d.Batch
	d.Epochs = cmp.Or(d.Epochs, (steps+perEpoch-1)/perEpoch)
	return d, nil
}

// settledAngle is the E_reg between two sets of regressors below which a
// descent counts them as the same. The noise that mini-batches leave is of that
// order.
const settledAngle = 0.02

// settledFall is a share of the whole fall of a loss, and settledNoise a share of
// the loss, that the second half of a descent may take and count as done.
const (
	settledFall  = 0.005
	settledNoise = 0.02
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

// descend takes f.descent's steps on l from x0 over the mini-batches of data. It
// calls epoch after every epoch.
func (f *fit) descend(ctx context.Context, l loss.OnData, data *model.Data, x0 []float64, rng *rand.Rand, bound float64, epoch func()) (*track, error) {
	how := f.descent
	batches := loss.NewEpochs(data, how.Batch, rng)
	perEpoch := batches.Steps()
	t := &track{steps: how.Epochs * perEpoch}
	every := max(1, t.steps/records)
	minimise := optim.SGD
	if how.Optimiser == OptimiserAdam {
		minimise = optim.Adam
	}
	var err error
	t.Result, err = minimise(ctx, loss.Batched{Loss: l, Batches: batches}, x0, optim.StochasticSettings{
		Steps: t.steps, StepSize: how.StepSize, Schedule: optim.Schedule(how.Schedule), Bound: bound, Every: 1,
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

// unsettled marks a run that ended too early, and says why; "" for others. In the
// second half of its steps, over which a cosine takes a sixth of the way, the
// regressors turned by more than settledAngle, or the loss of all rows fell by
// more than settledFall of its whole fall. A plateau looks like an end to both.
func (t *track) unsettled(ctx context.Context, loss optim.Objective, regressors func(x []float64) *model.Params) (string, error) {
	if t.Status != optim.Converged {
		return "", nil
	}
	half := t.halfway()
	if turned, _ := metric.Ereg(regressors(half), regressors(t.X)); turned > settledAngle {
		t.Status = optim.IterationLimit
		return fmt.Sprintf("turned the regressors by an E_reg of %.2g, want at most %g", turned, settledAngle), nil
	}
	var v [3]float64
	for i, x := range [][]float64{t.points[0], half, t.X} {
		var err error
		if v[i], err = loss.Value(ctx, x); err != nil {
			return "", err
		}
	}
	start, middle, end := v[0], v[1], v[2]
	if fall := middle - end; fall > settledFall*(start-end) && fall > settledNoise*math.Abs(end) {
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

// epochs returns a function to be called after every epoch of several runs side
// by side, that shows how many of all are done.
func (f *fit) epochs(runs int) func() {
	var mu sync.Mutex
	done, total := 0, runs*f.descent.Epochs
	f.progress(StageDescent, 0, total)
	return func() {
		mu.Lock()
		defer mu.Unlock()
		done++
		f.progress(StageDescent, done, total)
	}
}

// record writes down how the descent went that made so many steps of all, and the
// loss of all rows where it ended.
func (f *fit) record(name string, made, steps int, value float64) {
	how := f.descent
	f.descended = &fitted.Descent{
		Loss: name, Optimiser: how.Optimiser, Batch: how.Batch, StepSize: how.StepSize, Schedule: how.Schedule,
		Epochs: how.Epochs, Steps: steps, Made: made, Value: finiteOrNil(&value),
	}
}

// unitRows draws m random directions in ℝ^d, as rows.
func unitRows(rng *rand.Rand, m, d int) []float64 {
	a := make([]float64, m*d)
	for i := range m {
		row := a[i*d : (i+1)*d]
		for j := range row {
			row[j] = rng.NormFloat64()
		}
		floats.Scale(1/floats.Norm(row, 2), row)
	}
	return a
}
