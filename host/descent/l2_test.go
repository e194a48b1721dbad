package descent

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/loss/minibatch"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// drawn is a problem of two experts over five features in the papers' design, with
// its evidence and its truth.
func drawn(t *testing.T, family sdk.Family, n int, r problem.Request) (*problem.Problem, *moment.Evidence, *model.Params) {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sample.New(sample.Config{Activation: act, K: 2, D: 5, N: n, Sigma: 0.1, Design: sample.Paper, Seed: 4})
	if err != nil {
		t.Fatal(err)
	}
	r.K, r.Seed, r.Threads = 2, 1, 1
	p, err := problem.Load(t.Context(), s, act, r)
	if err != nil {
		t.Fatal(err)
	}
	e, err := moment.Measure(t.Context(), p, moment.Want{Transform: moment.Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	return p, e, s.Truth
}

// TestByLoss: the least loss first, those that diverged behind the others, and
// last those without a likelihood.
func TestByLoss(t *testing.T) {
	candidate := func(loss float64, status optim.Status, value float64) *search.Candidate {
		return &search.Candidate{Loss: &loss, Run: &optim.Result{Status: status, Value: value}}
	}
	all := []*search.Candidate{
		candidate(0.1, optim.Converged, math.Inf(1)), candidate(0.2, optim.Diverged, 1), candidate(0.9, optim.Converged, 1),
		candidate(0.3, optim.Diverged, 1), candidate(0.5, optim.IterationLimit, 1), candidate(0.4, optim.Diverged, math.NaN()),
	}
	slices.SortStableFunc(all, byLoss)
	var got []float64
	for _, c := range all {
		got = append(got, *c.Loss)
	}
	if fmt.Sprint(got) != "[0.5 0.9 0.2 0.3 0.1 0.4]" {
		t.Errorf("losses %v", got)
	}
}

// TestUnitL2: ℓ2 and its gradient in units of a norm, against those of the target
// divided by it, where g is homogeneous; against differences where it is not; and
// parameters there and back.
func TestUnitL2(t *testing.T) {
	const k, d, norm = 2, 5, 40.0
	rng := rand.New(rand.NewPCG(3, 3))
	for _, family := range []sdk.Family{identity.Family, relu.Family, sigmoid.Family} {
		p, _, _ := drawn(t, family, 300, problem.Request{})
		rows := p.Rows.(*model.Data)
		large := &model.Data{N: rows.N, D: rows.D}
		for _, b := range rows.Blocks {
			b.Y = floats.ScaleTo(make([]float64, b.N), norm, b.Y)
			large.Blocks = append(large.Blocks, b)
		}
		theta := make([]float64, (2*k-1)*d)
		for i := range theta {
			theta[i] = rng.NormFloat64()
		}
		l := newUnitL2(k, d, p.G, norm)
		got, want, was := make([]float64, len(theta)), make([]float64, len(theta)), slices.Clone(theta)
		v, err := l.GradOn(t.Context(), got, theta, large)
		if err != nil || !slices.Equal(theta, was) {
			t.Fatalf("θ is now %v, error %v", theta, err)
		}
		if family.Name != sigmoid.Family.Name {
			u, err := minibatch.NewL2(k, d, p.G).GradOn(t.Context(), want, theta, rows)
			if err != nil || math.Abs(u-v) > 1e-12*u || !floats.EqualApprox(got, want, 1e-12) {
				t.Errorf("%s: value %v, in units of the norm %v; gradient %v and %v, error %v", family.Name, u, v, want, got, err)
			}
		}
		for i := range theta {
			const h = 1e-5
			var sides [2]float64
			for s, step := range []float64{h, -h} {
				moved := slices.Clone(theta)
				moved[i] += step
				if sides[s], err = l.GradOn(t.Context(), want, moved, large); err != nil {
					t.Fatal(err)
				}
			}
			// Central differences are off by h²/6 of a third derivative, of the size of
			// the value, and a kink that a row crosses by its share of the slope.
			if diff := (sides[0] - sides[1]) / (2 * h); math.Abs(diff-got[i]) > 1e-4*max(1, math.Abs(got[i])) {
				t.Errorf("%s: derivative %d is %v, by differences %v", family.Name, i, got[i], diff)
			}
		}
		q := l.params(theta)
		if !floats.EqualApprox(l.theta(q), theta, 1e-14) || math.Abs(q.Regressors[3]-norm*theta[3]) > 1e-12 || q.Gating[2] != theta[k*d+2] {
			t.Errorf("%s: θ = %v comes back as %v", family.Name, theta, l.theta(q))
		}
	}
}

// TestNoiseAlone: with one expert the noise of the maximum is the rms of the
// residuals; where it is known it stays; regressors and gating are held.
func TestNoiseAlone(t *testing.T) {
	for _, noise := range []problem.Noise{nil, problem.Shared{Sigma: 0.75}} {
		p, _, _ := drawn(t, identity.Family, 700, problem.Request{Noise: noise})
		p = p.With(1)
		q := model.NewParams(1, 5)
		copy(q.Regressors, []float64{0.5, 0.5, 0, 0, 0.1})
		c := &search.Candidate{Params: q, Run: &optim.Result{}}
		if err := noiseAlone(t.Context(), p, c); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, b := range p.Rows.(*model.Data).Blocks {
			for r, y := range b.Y {
				e := y - 0.5*b.Col(0)[r] - 0.5*b.Col(1)[r] - 0.1*b.Col(4)[r]
				sum += e * e
			}
		}
		sigma := math.Sqrt(sum / 700)
		if noise != nil {
			sigma = 0.75
		}
		value := math.Log(sigma*math.Sqrt(2*math.Pi)) + sum/700/(2*sigma*sigma)
		if math.Abs(c.Params.Sigma[0]-sigma) > 1e-6 || math.Abs(c.Run.Value-value) > 1e-9 || !slices.Equal(c.Params.Regressors, q.Regressors) {
			t.Errorf("noise %v, want %v; value %v, want %v", c.Params.Sigma, sigma, c.Run.Value, value)
		}
	}
}

// TestL2Fit: candidates in the order of their loss, which is that of all rows at
// their parameters; those agree whose regressors are the best's; and the record of
// the best.
func TestL2Fit(t *testing.T) {
	p, e, truth := drawn(t, identity.Family, 3000, problem.Request{})
	var all []*search.Candidate
	for i := range 5 {
		c := &search.Candidate{Kind: starts.KindRandom}
		if i == 4 {
			c.Kind = starts.KindOwn
		}
		all = append(all, c)
	}
	l := L2{MiniBatches: MiniBatches{Epochs: 200}}
	record, _, err := l.Fit(t.Context(), p, e, all, truth, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range all {
		whole := minibatch.NewL2(2, 5, p.G)
		v, err := whole.GradOn(t.Context(), make([]float64, whole.Dim()), slices.Concat(c.Params.Regressors, c.Params.Gating), p.Rows)
		if err != nil || math.Abs(v-*c.Loss) > 1e-12 || c.Rows != 3000 {
			t.Errorf("candidate %d has a loss of %v, its parameters %v, error %v", i, *c.Loss, v, err)
		}
		if i > 0 && *c.Loss < *all[i-1].Loss {
			t.Errorf("candidate %d has a loss of %v, the one before %v", i, *c.Loss, *all[i-1].Loss)
		}
		apart, _ := metric.Ereg(c.Params, all[0].Params)
		if c.Agrees != (c.Run.Status == optim.Converged && apart <= 0.02) {
			t.Errorf("candidate %d (%v) is %v from the best; it agrees: %v", i, c.Run.Status, apart, c.Agrees)
		}
	}
	if own := slices.IndexFunc(all, func(c *search.Candidate) bool { return c.Kind == starts.KindOwn }); !all[own].Agrees {
		t.Errorf("the start at the truth came to a loss of %v, the best to %v", *all[own].Loss, *all[0].Loss)
	}
	want := &Record{
		Loss: "l2", Optimiser: "sgd", MiniBatches: MiniBatches{Batch: 128, StepSize: 0.3, Schedule: optim.Cosine{}, Epochs: 200},
		Steps: 200 * 23, Made: 200 * 23, Value: *all[0].Loss,
	}
	if fmt.Sprint(record) != fmt.Sprint(want) {
		t.Errorf("record %+v, want %+v", record, want)
	}
}

// TestL2Diverged: from the truth a step that is far too long leaves for infinity,
// and the best point on record is the truth.
func TestL2Diverged(t *testing.T) {
	p, e, truth := drawn(t, identity.Family, 1000, problem.Request{})
	l := L2{MiniBatches: MiniBatches{Batch: 100, StepSize: 1e6, Schedule: optim.Constant{}, Epochs: 20}}
	c := &search.Candidate{Kind: starts.KindOwn}
	early, err := l.descend(t.Context(), p, e, c, optim.SGD, truth, rand.New(rand.NewPCG(1, 1)), func() {})
	if err != nil || early != "" || c.Run.Status != optim.Diverged || !slices.Equal(c.Params.Regressors, truth.Regressors) || !slices.Equal(c.Params.Gating, truth.Gating) {
		t.Errorf("%v at regressors %v, ended early %q, error %v", c.Run.Status, c.Params.Regressors, early, err)
	}
	all := []*search.Candidate{c, {Kind: starts.KindRandom}}
	record, notes, err := l.Fit(t.Context(), p, e, all, truth, nil)
	if err != nil || record.Made >= record.Steps || len(notes) != 1 && len(notes) != 2 || !strings.HasPrefix(notes[0], "l2 diverged from 2 of 2 starts") {
		t.Errorf("made %d of %d steps, notes %q, error %v", record.Made, record.Steps, notes, err)
	}
}

// TestL2Notes of what should be known of the starts.
func TestL2Notes(t *testing.T) {
	one := func(status optim.Status, agrees bool) *search.Candidate {
		return &search.Candidate{Run: &optim.Result{Status: status}, Agrees: agrees}
	}
	for name, c := range map[string]struct {
		all   []*search.Candidate
		k     int
		early string
		want  []string // beginnings
	}{
		"all well":       {[]*search.Candidate{one(optim.Converged, true), one(optim.Converged, true)}, 2, "", nil},
		"alone":          {[]*search.Candidate{one(optim.Converged, true), one(optim.Converged, false)}, 2, "", []string{"no other start"}},
		"the only start": {[]*search.Candidate{one(optim.Converged, true)}, 2, "", nil},
		"one expert":     {[]*search.Candidate{one(optim.Converged, true), one(optim.Converged, false)}, 1, "", nil},
		"one of three":   {[]*search.Candidate{one(optim.Converged, true), one(optim.Converged, true), one(optim.Diverged, false)}, 2, "", []string{"l2 diverged from 1 of 3 starts"}},
		"early":          {[]*search.Candidate{one(optim.IterationLimit, false), one(optim.IterationLimit, false)}, 2, "fell", []string{"the descent ended too early: its second half fell"}},
	} {
		got := l2Notes(c.all, c.k, c.early)
		if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
			t.Errorf("%s: notes %q, want %q", name, got, c.want)
		}
	}
}

// TestL2Refuses a table on which every start ends without a likelihood.
func TestL2Refuses(t *testing.T) {
	p, e, _ := drawn(t, identity.Family, 300, problem.Request{})
	q := *p
	q.G = native.Evaluator{Activation: infinite{}}
	all := []*search.Candidate{{Kind: starts.KindRandom}}
	_, _, err := L2{MiniBatches: MiniBatches{Epochs: 1}}.Fit(t.Context(), &q, e, all, nil, nil)
	if fault, ok := err.(*dataset.Error); !ok || !strings.Contains(fault.Msg, "finite likelihood") {
		t.Errorf("error %v", err)
	}
}

// infinite is an activation without a finite value.
type infinite struct{}

func (infinite) Eval(_ context.Context, dst, _ []float64) error {
	for i := range dst {
		dst[i] = math.Inf(1)
	}
	return nil
}

func (infinite) Deriv(_ context.Context, dst, _ []float64) error {
	clear(dst)
	return nil
}

// TestWhitenedStandard: rows that are N(0, I) stay as they are.
func TestWhitenedStandard(t *testing.T) {
	p, _, _ := drawn(t, identity.Family, 300, problem.Request{})
	if rows, err := whitened(t.Context(), p); err != nil || rows != p.Rows {
		t.Errorf("standard rows came back as others, error %v", err)
	}
}

// TestHeldNote counts the gating vectors that stand at the radius.
func TestHeldNote(t *testing.T) {
	q := model.NewParams(4, 2)
	copy(q.Gating, []float64{3, 4, 0, 5 * (1 - 1e-10), 4.99, 0})
	if got := heldNote(q, 5); !strings.HasPrefix(got, "2 of 3 gating vectors stand at the radius 5") {
		t.Errorf("note %q", got)
	}
	if got := heldNote(q, 5.01); got != "" {
		t.Errorf("note %q", got)
	}
}

// TestGateIsDescended within its radius to where Newton's steps end, with σ as
// given, from a gate of 0.
func TestGateIsDescended(t *testing.T) {
	for _, noise := range []problem.Noise{nil, problem.Shared{Sigma: 0.3}} {
		p, _, truth := drawn(t, identity.Family, 2000, problem.Request{Noise: noise})
		got, run, note, err := Gate(t.Context(), p, truth, 20)
		if err != nil || run.Status != optim.Converged || note != "" || !slices.Equal(got.Regressors, truth.Regressors) {
			t.Fatalf("%v, note %q, error %v", run.Status, note, err)
		}
		l := loss.NewLikelihood(p.Rows, p.G, got, loss.Free{Gating: true, Sigma: noise == nil}, 1)
		grad := make([]float64, l.Dim())
		// Steps of 1e−7 that shrink by a tenth leave 1e−6 of the way, and a slope of
		// that times a curvature of one at most.
		if v, err := l.Grad(t.Context(), grad, l.Theta(got)); err != nil || floats.Norm(grad, 2) > 1e-5 || math.Abs(v-run.Value) > 1e-9 {
			t.Errorf("noise %v: gradient %v, value %v of %v, error %v", noise, grad, run.Value, v, err)
		}
		if noise != nil && got.Sigma[0] != 0.3 {
			t.Errorf("noise %v, want 0.3", got.Sigma)
		}
		if got, _, note, err = Gate(t.Context(), p, truth, 0.25); err != nil || math.Abs(floats.Norm(got.Gating, 2)-0.25) > 1e-9 || note == "" {
			t.Errorf("gating of norm %v within 0.25, note %q, error %v", floats.Norm(got.Gating, 2), note, err)
		}
	}
}

// TestBoundOfDescent: logits of the user's own start are brought to where those of every fit are held, and stay there: also of
// a descent that diverges, of which the best point on record is kept.
func TestBoundOfDescent(t *testing.T) {
	p, e, truth := drawn(t, identity.Family, 1000, problem.Request{})
	start := truth.Clone()
	floats.Scale(1e18, start.Gating)
	most := 0.0
	for j, w := range start.Gating {
		largest := 0.0
		for _, b := range p.Rows.(*model.Data).Blocks {
			largest = max(largest, floats.Norm(b.Col(j), math.Inf(1)))
		}
		most += math.Abs(w) * largest
	}
	bound := 1e-6 / 0x1p-53 / 5 // five terms, of which each is rounded by 2⁻⁵³ of r(W)
	for _, step := range []float64{1e-9, 1e6} {
		l := L2{MiniBatches: MiniBatches{Batch: 100, StepSize: step, Schedule: optim.Constant{}, Epochs: 2}}
		c := &search.Candidate{Kind: starts.KindOwn}
		if _, err := l.descend(t.Context(), p, e, c, optim.SGD, start, rand.New(rand.NewPCG(1, 1)), func() {}); err != nil {
			t.Fatal(err)
		}
		// The start in the direction that it had, at the bound.
		for j, w := range start.Gating {
			if want := w / most * bound; math.Abs(c.Params.Gating[j]-want) > 1e-6*math.Abs(want) {
				t.Errorf("step %g: gate %v, want %v at %d", step, c.Params.Gating[j], want, j)
			}
		}
	}
}
