package descent

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/tensor"
	"github.com/gatedlearning/moe/plugins/identity"
)

// TestStillest: of a run that left, the record with the shortest way to it; of one
// that left at once, the start.
func TestStillest(t *testing.T) {
	left := &track{at: []int{0, 10, 20, 30, 40}, points: [][]float64{{0, 1}, {3, 1}, {3, 1.5}, {3, 3}, {90, 3}}}
	if at, x := left.stillest(); at != 20 || x[1] != 1.5 {
		t.Errorf("record of step %d, %v", at, x)
	}
	if at, x := (&track{at: []int{0}, points: [][]float64{{7}}}).stillest(); at != 0 || x[0] != 7 {
		t.Errorf("record of step %d, %v", at, x)
	}
}

func sums(t *testing.T, rows model.Rows) *tensor.Second {
	t.Helper()
	s, err := tensor.SumSecond(t.Context(), rows, 1)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGateStep: λ_max(E[xxᵀ]) of features that are not standard.
func TestGateStep(t *testing.T) {
	x := mat.NewDense(4, 2, []float64{3, 0, -3, 0, 0, 1, 0, -1})
	data, err := dataset.Load(t.Context(), dataset.Matrix(x, []float64{1, 2, 3, 4}))
	if err != nil {
		t.Fatal(err)
	}
	p := &problem.Problem{Second: sums(t, data), Shape: problem.Shape{K: 2, D: 2}}
	if step, err := gateStep(p); err != nil || math.Abs(step-2/4.5) > 1e-12 {
		t.Errorf("step %v, want 2/4.5, error %v", step, err)
	}
}

// TestWhitened: mean 0 and covariance I to rounding, of features that are
// neither.
func TestWhitened(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	x, y := mat.NewDense(500, 3, nil), make([]float64, 500)
	for i := range 500 {
		u, v, w := rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(i, []float64{2 + u, 3*u + v, w - v})
		y[i] = u
	}
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, problem.Request{K: 1})
	if err != nil || p.Inputs.Standard() {
		t.Fatalf("inputs pass as standard, error %v", err)
	}
	rows, err := whitened(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	s := sums(t, rows)
	cov := s.Covariance()
	for i, m := range s.Mean() {
		for j := range 3 {
			want := 0.0
			if i == j {
				want = 1
			}
			if math.Abs(m) > 1e-12 || math.Abs(cov.At(i, j)-want) > 1e-12 {
				t.Fatalf("mean %v, covariance %v", s.Mean(), mat.Formatted(cov))
			}
		}
	}
}

// TestMiniBatchesOver: the defaults on tables above and below the size of a batch;
// what is given stays; more rows in a batch than there are is refused.
func TestMiniBatchesOver(t *testing.T) {
	for name, c := range map[string]struct {
		how, want MiniBatches
		n         int
	}{
		"many rows":        {MiniBatches{}, MiniBatches{128, 0.3, optim.Cosine{}, 129}, 10_000}, // 78 batches an epoch
		"a row less":       {MiniBatches{}, MiniBatches{127, 0.3, optim.Cosine{}, 10_000}, 127},
		"a batch":          {MiniBatches{}, MiniBatches{128, 0.3, optim.Cosine{}, 10_000}, 128},
		"two batches":      {MiniBatches{}, MiniBatches{128, 0.3, optim.Cosine{}, 5_000}, 256},
		"one row":          {MiniBatches{}, MiniBatches{1, 0.3, optim.Cosine{}, 10_000}, 1},
		"more than enough": {MiniBatches{}, MiniBatches{128, 0.3, optim.Cosine{}, 1}, 2_000_000},
		"all given":        {MiniBatches{7, 2, optim.Constant{}, 3}, MiniBatches{7, 2, optim.Constant{}, 3}, 100},
		"batch given":      {MiniBatches{Batch: 100}, MiniBatches{100, 0.3, optim.Cosine{}, 1000}, 1000},
	} {
		if got, err := c.how.over(c.n, 128, 0.3, 10_000); err != nil || got != c.want {
			t.Errorf("%s: %+v, want %+v, error %v", name, got, c.want, err)
		}
	}
	var request *problem.RequestError
	if _, err := (MiniBatches{Batch: 11}).over(10, 128, 0.3, 10); !errors.As(err, &request) || !strings.Contains(err.Error(), "batch = 11 for 10 rows") {
		t.Errorf("error %v", err)
	}
}

// TestChecks: settings that no data could be fitted with, by name.
func TestChecks(t *testing.T) {
	nan, below := math.NaN(), -1.0
	for want, err := range map[string]error{
		"batch = -1":          L2{MiniBatches: MiniBatches{Batch: -1}}.Check(),
		"epochs = -1":         L2{MiniBatches: MiniBatches{Epochs: -1}}.Check(),
		"epochs = 1000000001": L4{MiniBatches: MiniBatches{Epochs: 1_000_000_001}}.Check(),
		"step-size = NaN":     L2{MiniBatches: MiniBatches{StepSize: nan}}.Check(),
		"step-size = +Inf":    L4{MiniBatches: MiniBatches{StepSize: math.Inf(1)}}.Check(),
		"mu = -1":             L4{Mu: below}.Check(),
		"lambda = NaN":        L4{Lambda: nan}.Check(),
		"ridge = -1":          L4{Ridge: &below}.Check(),
	} {
		if request := (*problem.RequestError)(nil); !errors.As(err, &request) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	zero := 0.0
	for _, err := range []error{L2{}.Check(), L4{}.Check(), L4{Ridge: &zero}.Check(), L2{MiniBatches: MiniBatches{1, 1, optim.Inverse{}, 1_000_000_000}}.Check()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// TestHalfway is the record at half of the steps, the next where there is none,
// and the last where the run ended before.
func TestHalfway(t *testing.T) {
	for _, c := range []struct {
		steps int
		at    []int
		want  float64
	}{
		{40, []int{0, 10, 20, 30, 40}, 2},
		{41, []int{0, 10, 20, 30, 40}, 2},
		{50, []int{0, 10, 20, 30, 40, 50}, 3},
		{100, []int{0, 10}, 1},
		{3, []int{0, 1, 2, 3}, 1},
	} {
		tr := &track{steps: c.steps, at: c.at}
		for i := range c.at {
			tr.points = append(tr.points, []float64{float64(i)})
		}
		if got := tr.halfway(); got[0] != c.want {
			t.Errorf("%d steps, records at %v: record %v, want %v", c.steps, c.at, got[0], c.want)
		}
	}
}

// bowl is x_0², and what is asked of its length.
type bowl struct{}

func (bowl) Dim() int { return 2 }

func (bowl) Value(_ context.Context, x []float64) (float64, error) { return x[0] * x[0], nil }

func (bowl) Grad(context.Context, []float64, []float64) (float64, error) { panic("not asked for") }

// TestEndedEarly: a run that ended otherwise is not looked at; of one that made all
// steps the second half may neither turn the regressors by more than an E_reg of
// 0.02 nor lower the loss by more than 0.5 % of its fall, noise of 2 % apart.
func TestEndedEarly(t *testing.T) {
	// The second number of a point is the regressor's angle.
	regressors := func(x []float64) *model.Params {
		p := model.NewParams(1, 2)
		p.Regressors[0], p.Regressors[1] = math.Cos(x[1]), math.Sin(x[1])
		return p
	}
	root := math.Sqrt
	for name, c := range map[string]struct {
		status               optim.Status
		start, halfway, ends []float64
		want                 string // the beginning; "" for a run that has converged
		ended                optim.Status
	}{
		"at its end":               {optim.Converged, []float64{root(10), 2}, []float64{root(1.01), 0.1}, []float64{1, 0.1}, "", optim.Converged},
		"turned":                   {optim.Converged, []float64{root(10), 2}, []float64{1, 0.1}, []float64{1, 0.32}, "turned the regressors by an E_reg of 0.024", optim.IterationLimit}, // 1 − cos 0.22
		"turned a little":          {optim.Converged, []float64{root(10), 2}, []float64{1, 0.1}, []float64{1, 0.28}, "", optim.Converged},                                                // 1 − cos 0.18 = 0.016
		"turned round":             {optim.Converged, []float64{root(10), 2}, []float64{1, 0.1}, []float64{1, 0.1 + math.Pi}, "", optim.Converged},                                       // signs are free
		"fell":                     {optim.Converged, []float64{root(10), 2}, []float64{root(1.06), 0}, []float64{1, 0}, "lowered the loss from 1.06 to 1", optim.IterationLimit},
		"fell by a small share":    {optim.Converged, []float64{10, 2}, []float64{root(1.06), 0}, []float64{1, 0}, "", optim.Converged}, // 0.06 of 99
		"fell within the noise":    {optim.Converged, []float64{root(3), 2}, []float64{root(1.019), 0}, []float64{1, 0}, "", optim.Converged},
		"rose":                     {optim.Converged, []float64{root(10), 2}, []float64{1, 0}, []float64{root(1.5), 0}, "", optim.Converged},
		"diverged":                 {optim.Diverged, []float64{root(10), 2}, []float64{5, 0}, []float64{1, 1}, "", optim.Diverged},
		"turned and fell, by turn": {optim.Converged, []float64{root(10), 2}, []float64{2, 1}, []float64{1, 0}, "turned", optim.IterationLimit},
	} {
		tr := &track{
			Result: &optim.Result{X: c.ends, Status: c.status}, steps: 20,
			at: []int{0, 10, 20}, points: [][]float64{c.start, c.halfway, c.ends},
		}
		why, err := tr.endedEarly(t.Context(), bowl{}, regressors)
		if err != nil || (why == "") != (c.want == "") || !strings.HasPrefix(why, c.want) || tr.Status != c.ended {
			t.Errorf("%s: %q (%v), want %q (%v), error %v", name, why, tr.Status, c.want, c.ended, err)
		}
	}
}

// TestDescend: about fifty points of a run are on record, the start and the end
// among them where the steps divide, and every epoch is told.
func TestDescend(t *testing.T) {
	p, _, truth := drawn(t, identity.Family, 1000, problem.Request{})
	for _, c := range []struct{ epochs, batch, every int }{{10, 100, 2}, {3, 300, 1}, {20, 1000, 1}, {7, 64, 2}} {
		l, told := newUnitL2(2, 5, p.G, 1), 0
		how, err := MiniBatches{Batch: c.batch, Epochs: c.epochs}.over(1000, 128, 0.1, 10)
		if err != nil {
			t.Fatal(err)
		}
		x0 := l.theta(truth)
		tr, err := descend(t.Context(), how, optim.SGD, l, p.Rows, x0, rand.New(rand.NewPCG(1, 1)), 0, nil, func() { told++ })
		if err != nil {
			t.Fatal(err)
		}
		steps := c.epochs * (1000 / c.batch)
		if tr.steps != steps || tr.Iterations != steps || told != c.epochs || tr.Trace != nil {
			t.Errorf("%+v: %d of %d steps, want %d; told of %d epochs", c, tr.Iterations, tr.steps, steps, told)
		}
		if len(tr.at) != steps/c.every+1 || !slices.Equal(tr.points[0], x0) || steps%c.every == 0 && !slices.Equal(tr.points[len(tr.points)-1], tr.X) {
			t.Errorf("%+v: %d records from %v to %v", c, len(tr.at), tr.points[0], tr.points[len(tr.points)-1])
		}
		for i, at := range tr.at {
			if at != i*c.every {
				t.Errorf("%+v: record %d is of step %d", c, i, at)
			}
		}
		if tr.points[0][0] == tr.points[1][0] && tr.points[1][0] == tr.points[2][0] {
			t.Errorf("%+v: records share their memory", c)
		}
	}
}

// TestEpochs of several runs side by side are told in order, each once, from none
// on; nobody need listen.
func TestEpochs(t *testing.T) {
	var told []int
	epoch := Progress(func(done, total int) {
		told = append(told, done)
		if total != 300 {
			t.Errorf("%d epochs in all, want 300", total)
		}
	}).epochs(300)
	var runs sync.WaitGroup
	for range 3 {
		runs.Go(func() {
			for range 100 {
				epoch()
			}
		})
	}
	runs.Wait()
	for i, done := range told {
		if done != i {
			t.Fatalf("told %v", told)
		}
	}
	if len(told) != 301 {
		t.Errorf("told %d times", len(told))
	}
	Progress(nil).epochs(3)()
}
