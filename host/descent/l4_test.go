package descent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/plugins/identity"
)

// oblique is a problem of two experts of shares 0.4 and 0.6 over features of which
// one is three times the size of the others, and its truth.
func oblique(t *testing.T, seed uint64) (*problem.Problem, *moment.Evidence, *model.Params) {
	t.Helper()
	act, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	const n = 20_000
	rng := rand.New(rand.NewPCG(seed, 5))
	x, y := mat.NewDense(n, 5, nil), make([]float64, n)
	truth := model.NewParams(2, 5)
	truth.Regressor(0)[0], truth.Regressor(1)[1] = 1./3, 1
	for i := range y {
		for j := range 5 {
			x.Set(i, j, rng.NormFloat64())
		}
		x.Set(i, 0, 3*x.At(i, 0))
		expert := 0
		if rng.Float64() < 0.6 {
			expert = 1
		}
		y[i] = floats.Dot(truth.Regressor(expert), x.RawRowView(i)) + 0.05*rng.NormFloat64()
	}
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, problem.Request{K: 2, Seed: seed, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := moment.Measure(t.Context(), p, moment.Want{Transform: moment.Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	return p, e, truth
}

// TestL4Fit: regressors and proportions near the truth, as the default descent
// leaves them, and a record of every setting. In ten other data sets E_reg was
// 0.026 at most, and the share of the larger expert, 0.6, from 0.569 to 0.598.
func TestL4Fit(t *testing.T) {
	p, e, truth := oblique(t, 20)
	var told []int
	d, err := L4{}.Fit(t.Context(), p, e, func(done, total int) {
		told = append(told, done)
		if total != 211 {
			t.Errorf("%d epochs in all, want 211", total)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	off, perm := metric.Ereg(p.Units.OutOf(d.Estimate.Params), truth)
	if share := d.Estimate.Proportions[slices.Index(perm, 1)]; off > 0.05 || math.Abs(share-0.6) > 0.06 {
		t.Errorf("E_reg %v, a share of %v, want 0.6", off, share)
	}
	for i := range 2 {
		if norm := floats.Norm(d.Estimate.Params.Regressor(i), 2); math.Abs(norm-1) > 1e-12 {
			t.Errorf("regressor %d has norm %v in units of the fit", i, norm)
		}
	}
	// 19 batches an epoch, and 4000 steps or a little more.
	r := d.Record
	if r.Loss != "l4" || r.Optimiser != "sgd" || r.Batch != 1024 || r.StepSize != 1e-3 || r.Schedule != (optim.Cosine{}) || r.Epochs != 211 || r.Steps != 211*19 || r.Made != r.Steps || r.Mu != 0.01 || r.Lambda != 10 || *r.Ridge != 2 {
		t.Errorf("record %+v", r)
	}
	if len(told) != 212 || told[0] != 0 || told[211] != 211 {
		t.Errorf("told of epochs %v", told)
	}
}

// TestL4Diverged: what is kept is the record of least movement, and the notes say
// which, and by what the target might be divided.
func TestL4Diverged(t *testing.T) {
	p, e, _ := oblique(t, 20)
	for norm, divide := range map[float64]bool{1: false, 3: true} {
		e.Norm = norm
		d, err := L4{MiniBatches: MiniBatches{StepSize: 1e3, Epochs: 3}}.Fit(t.Context(), p, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d.Status != optim.Diverged || d.Record.Made >= d.Record.Steps || len(d.Notes) != 1 || !strings.HasPrefix(d.Notes[0], fmt.Sprintf("L4 diverged after %d of 57 mini-batches", d.Record.Made)) || strings.Contains(d.Notes[0], "divide the target by about 3") != divide {
			t.Errorf("%v after %d of %d, notes %q", d.Status, d.Record.Made, d.Record.Steps, d.Notes)
		}
		if floats.HasNaN(d.Estimate.Params.Regressors) || math.IsInf(d.Record.Value, 0) || math.IsNaN(d.Record.Value) {
			t.Errorf("regressors %v, value %v", d.Estimate.Params.Regressors, d.Record.Value)
		}
	}
}
