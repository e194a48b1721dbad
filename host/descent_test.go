package host

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatedlearning/moe/host/descent"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/testslow"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// paperCell is the design of 002 Section 4.
func paperCell(g sdk.Family, n int) cell { return cell{g, nil, 2, 10, n, 0.05, sample.Paper} }

func fitted4(t *testing.T, c cell, seed uint64, cfg Config) *fitted.Model {
	t.Helper()
	act, src, truth := c.draw(t, seed)
	cfg.K, cfg.Truth = c.k, truth
	m, err := Fit(t.Context(), act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func hasNote(m *fitted.Model, text string) bool {
	for _, n := range m.Fit.Notes {
		if strings.Contains(n, text) {
			return true
		}
	}
	return false
}

// TestL2: from the truth ℓ2 stays near it; of random starts some get stuck, at a
// larger ℓ2, and the least is kept. Seeds are fixed. In 32 runs 13 got stuck, so
// that of 8 none would in one seed out of 70.
func TestL2(t *testing.T) {
	testslow.Mark(t)
	c := paperCell(identity.Family, 10_000)
	random := fitted4(t, c, 1, Config{Method: L2{}})
	stuck := 0
	for i, s := range random.Fit.Starts {
		if i > 0 && *s.Loss < *random.Fit.Starts[i-1].Loss {
			t.Errorf("start %d has ℓ2 %v, the one before %v: not the least first", i, *s.Loss, *random.Fit.Starts[i-1].Loss)
		}
		if !s.Agrees && *s.Loss > *random.Fit.Starts[0].Loss+1e-3 {
			stuck++
		}
	}
	if stuck == 0 || stuck == 8 {
		t.Errorf("%d of 8 random starts are stuck", stuck)
	}
	_, _, truth := c.draw(t, 1)
	own := fitted4(t, c, 1, Config{Method: L2{Starts: 1}, Start: truth})
	for name, m := range map[string]*fitted.Model{"random": random, "own": own} {
		// ℓ2's own error at n = 1e4: at most 0.017 in the seeds tried.
		if !m.Fit.Converged || m.Truth.EReg > 0.03 {
			t.Errorf("%s: %s, E_reg %v", name, m.Fit.Status, m.Truth.EReg)
		}
	}
	if own.Fit.Starts[0].Kind != starts.KindOwn {
		t.Errorf("start of kind %s", own.Fit.Starts[0].Kind)
	}
}

// TestL2IsTheMeanSquaredError, and σ is the likelihood's maximum with the rest
// held.
func TestL2IsTheMeanSquaredError(t *testing.T) {
	c := paperCell(sigmoid.Family, 3000)
	m := fitted4(t, c, 2, Config{Method: L2{Starts: 2}})
	act, src, _ := c.draw(t, 2)
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	sum, p := 0.0, m.Params()
	predictor := predict.NewPredictor(p, act, "")
	for i := range data.Blocks {
		b := &data.Blocks[i]
		pred, err := predictor.Predict(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for r, y := range b.Y {
			sum += (y - pred.Mean[r]) * (y - pred.Mean[r])
		}
	}
	if want := sum / float64(data.N); math.Abs(*m.Fit.Descent.Value-want) > 1e-12 {
		t.Errorf("ℓ2 %v, mean squared error %v", *m.Fit.Descent.Value, want)
	}
	l := loss.NewLikelihood(data, act, p, loss.All, 1)
	if v, err := l.LogLikelihood(t.Context(), p); err != nil || math.Abs(v-m.Fit.LogLikelihood) > 1e-9*math.Abs(v) { // two orders of summation
		t.Errorf("log-likelihood %v, the fit's is %v, error %v", v, m.Fit.LogLikelihood, err)
	}
	for _, factor := range []float64{0.99, 1.01} {
		q := p.Clone()
		q.Sigma[0] *= factor
		if v, err := l.LogLikelihood(t.Context(), q); err != nil || v >= m.Fit.LogLikelihood {
			t.Errorf("σ·%v has the log-likelihood %v, the fit %v", factor, v, m.Fit.LogLikelihood)
		}
	}
}

// TestL2InAnyUnit: a target in thousands has a thousandth's ℓ2 of the same
// landscape. The two descents differ in their last digits and in the share of
// random starts that get stuck; the least of 8 is the same optimum.
func TestL2InAnyUnit(t *testing.T) {
	testslow.Mark(t)
	act, src, _ := paperCell(identity.Family, 5000).draw(t, 1)
	var losses []float64
	for _, unit := range []float64{1, 1000, 1e-60} {
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Fit(t.Context(), act, scaledRows(data, 1, unit), Config{K: 2, Method: L2{}})
		if err != nil {
			t.Fatal(err)
		}
		if !m.Fit.Converged {
			t.Errorf("unit %g: %s", unit, m.Fit.Status)
		}
		losses = append(losses, *m.Fit.Descent.Value/unit/unit)
	}
	for _, v := range losses[1:] {
		if math.Abs(v/losses[0]-1) > 1e-3 {
			t.Errorf("ℓ2 over the unit's square: %v", losses)
		}
	}
}

// scaledRows is the table with features and target multiplied.
func scaledRows(data *model.Data, unitX, unitY float64) dataset.Source {
	x, y := mat.NewDense(data.N, data.D, nil), make([]float64, 0, data.N)
	for i := range data.Blocks {
		b := &data.Blocks[i]
		for r := range b.N {
			for j := range data.D {
				x.Set(len(y), j, unitX*b.Col(j)[r])
			}
			y = append(y, unitY*b.Y[r])
		}
	}
	return dataset.Matrix(x, y)
}

// TestL4: on 1e5 rows of the papers' design the default descent stays within
// bounds and recovers regressors and gate. Over 10 other seeds the largest E_reg
// was 0.0024 for the identity and 0.0019 for the sigmoid.
func TestL4(t *testing.T) {
	testslow.Mark(t)
	for _, g := range []sdk.Family{identity.Family, sigmoid.Family} {
		m := fitted4(t, paperCell(g, 100_000), 3, Config{Method: L4{}})
		d := m.Fit.Descent
		if !m.Fit.Converged || m.Truth.EReg > 0.02 || m.Truth.EGating > 0.02 || d.Made != d.Steps {
			t.Errorf("%s: %s after %d of %d, E_reg %v, E_gating %v", g.Name, m.Fit.Status, d.Made, d.Steps, m.Truth.EReg, m.Truth.EGating)
		}
		for i, a := range m.Regressors {
			if norm := floats.Norm(a, 2); math.Abs(norm-1) > 1e-12 {
				t.Errorf("%s: regressor %d has norm %v", g.Name, i+1, norm)
			}
			if p := m.Fit.MomentsEstimate.Proportions[i]; math.Abs(p-0.5) > 0.05 {
				t.Errorf("%s: proportion %d is %v, want a half", g.Name, i+1, p)
			}
		}
	}
}

// TestGateWithin: projected gradient descent ends at the gate of EM and Newton
// where the radius does not bind, with σ free, given, and per expert, and never
// lowers the likelihood; where it binds, at a point of the ball where the
// gradient is normal to it.
func TestGateWithin(t *testing.T) {
	for name, cfg := range map[string]Config{
		"free":       {},
		"given":      {Noise: Shared{Sigma: 0.3}},
		"per expert": {Noise: PerExpert{}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg.Method = Moments{}
			newton := fitted4(t, paperCell(identity.Family, 20_000), 5, cfg)
			cfg.Method = Moments{Radius: 50}
			within := fitted4(t, paperCell(identity.Family, 20_000), 5, cfg)
			// Steps of 1e−7 that shrink by a tenth leave 1e−6; Newton and EM leave a
			// likelihood within 0.01 of the maximum, 1e−3 standard errors: 3e−5.
			for j, w := range within.Gating[0] {
				if math.Abs(w-newton.Gating[0][j]) > 1e-4 {
					t.Errorf("gate %v, by Newton %v", within.Gating[0], newton.Gating[0])
					break
				}
			}
			if !within.Fit.Converged || math.Abs(within.Fit.LogLikelihood-newton.Fit.LogLikelihood) > 0.02 {
				t.Errorf("%s, log-likelihood %v, by Newton %v", within.Fit.Status, within.Fit.LogLikelihood, newton.Fit.LogLikelihood)
			}
			path := within.Fit.Starts[0].Path
			for i := 1; i < len(path); i++ {
				if path[i] < path[i-1]-2e-6 { // they have six decimals
					t.Fatalf("step %d lowers the likelihood from %v to %v", i, path[i-1], path[i])
				}
			}
		})
	}
	bound := fitted4(t, paperCell(identity.Family, 20_000), 5, Config{Method: Moments{Radius: 0.4}})
	w := bound.Gating[0]
	if norm := floats.Norm(w, 2); math.Abs(norm-0.4) > 1e-6 || !hasNote(bound, "stand at the radius 0.4") {
		t.Errorf("|w| = %v, notes %q", norm, bound.Fit.Notes)
	}
	act, src, _ := paperCell(identity.Family, 20_000).draw(t, 5)
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	l := loss.Log(data, act, bound.Params(), 1)
	grad := make([]float64, l.Dim())
	if _, err := l.Grad(t.Context(), grad, w); err != nil {
		t.Fatal(err)
	}
	if cos := floats.Dot(grad, w) / floats.Norm(grad, 2) / floats.Norm(w, 2); cos > -1+1e-6 {
		t.Errorf("gradient and w at the radius have cosine %v, want −1", cos)
	}
}

// TestScaledFeatures: features of three times the size are brought back to
// unit variance first, and the regressors are a third.
func TestScaledFeatures(t *testing.T) {
	testslow.Mark(t)
	c := paperCell(sigmoid.Family, 30_000)
	act, src, truth := c.draw(t, 1)
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []Method{L2{}, L4{}} {
		m, err := Fit(t.Context(), act, scaledRows(data, 3, 1), Config{K: 2, Method: method, Truth: truth})
		if err != nil {
			t.Fatal(err)
		}
		// The error of L4 at n = 1e4 was at most 0.094 in ten seeds, at 1e5 0.002.
		if norm := floats.Norm(m.Regressors[0], 2); m.Truth.EReg > 0.05 || math.Abs(norm-1./3) > 0.05 {
			t.Errorf("%s: E_reg %v, norm %v", method.Name(), m.Truth.EReg, norm)
		}
	}
}

// TestDivergence: descents that leave for infinity say so, and leave a model of
// finite numbers.
func TestDivergence(t *testing.T) {
	none := 0.0
	for name, cfg := range map[string]Config{
		"l4, unbounded":      {Method: L4{Mu: 1, Lambda: 1, Ridge: &none}},
		"l4, long step":      {Method: L4{MiniBatches: MiniBatches{StepSize: 1e6}}},
		"l4, longest step":   {Method: L4{MiniBatches: MiniBatches{StepSize: 1e300}}},
		"l2, long step":      {Method: L2{Starts: 2, MiniBatches: MiniBatches{StepSize: 1e6}}},
		"l2, longest step":   {Method: L2{Starts: 2, MiniBatches: MiniBatches{StepSize: 1e300}}},
		"l2, adam":           {Method: L2{Starts: 2, MiniBatches: MiniBatches{StepSize: 1e6}, Optimiser: descent.Adam{}}},
		"l4, σ per expert":   {Method: L4{MiniBatches: MiniBatches{StepSize: 0.3}}, Noise: PerExpert{}},
		"l2, σ given":        {Method: L2{Starts: 2, MiniBatches: MiniBatches{StepSize: 1e6}}, Noise: Shared{Sigma: 1}},
		"l4, enormous ridge": {Method: L4{Ridge: new(float64(1e6))}},
	} {
		t.Run(name, func(t *testing.T) {
			m := fitted4(t, paperCell(identity.Family, 4000), 1, cfg)
			d := m.Fit.Descent
			if m.Fit.Converged || m.Fit.Status != "diverged" || d.Made >= d.Steps || !hasNote(m, "diverged") {
				t.Errorf("%s after %d of %d, notes %q", m.Fit.Status, d.Made, d.Steps, m.Fit.Notes)
			}
			sound(t, m)
		})
	}
}

// TestDivergedModelIsFromBefore: L4 of polynomials with μ = 1 comes by the regressors on its way
// to infinity, and the model is from there. Of these 12 runs 8 diverged, with a
// median E_reg of 0.13 where they moved least, 0.57 at the last record, 0.42 at the
// first. Seeds are fixed.
func TestDivergedModelIsFromBefore(t *testing.T) {
	testslow.Mark(t)
	var errs []float64
	for seed := range uint64(12) {
		m := fitted4(t, paperCell(identity.Family, 10_000), seed+1, Config{Method: L4{Mu: 1}, Transform: Polynomial, Seed: seed})
		if m.Fit.Status == "diverged" {
			errs = append(errs, m.Truth.EReg)
		}
	}
	slices.Sort(errs)
	if len(errs) < 4 || errs[len(errs)/2] > 0.25 {
		t.Errorf("E_reg of %d diverged runs: %.2f", len(errs), errs)
	}
}

// sound says whether a model can be written and holds finite numbers only.
func sound(t *testing.T, m *fitted.Model) {
	t.Helper()
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	text, err := m.JSON()
	if err != nil {
		t.Error(err)
	}
	if bytes.Contains(text, []byte("NaN")) || bytes.Contains(text, []byte("Inf")) {
		t.Errorf("model file %s", text)
	}
}

// TestHardCases: whatever activation and data, a descent ends in a sound model or
// in an error about the request or the data.
func TestHardCases(t *testing.T) {
	testslow.Mark(t)
	_, src, _ := paperCell(identity.Family, 2000).draw(t, 1)
	data, err := dataset.Load(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	exp := sdk.Func{Name: "exp", G: math.Exp, DG: math.Exp}
	cube := sdk.Func{Name: "cube", G: func(z float64) float64 { return z * z * z }, DG: func(z float64) float64 { return 3 * z * z }}
	line, err := identity.Family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		act          sdk.Activation
		unitX, unitY float64
		how          MiniBatches
	}{
		"overflow":        {exp, 1, 1, MiniBatches{StepSize: 100}},
		"large features":  {exp, 1e70, 1, MiniBatches{}},
		"cubes":           {cube, 1, 1, MiniBatches{StepSize: 10}},
		"large target":    {line, 1, 1e70, MiniBatches{}},
		"small target":    {line, 1, 1e-70, MiniBatches{}},
		"both":            {cube, 1e-70, 1e70, MiniBatches{StepSize: 1e6}},
		"too large":       {line, 1e150, 1, MiniBatches{}},
		"one row a batch": {line, 1, 1, MiniBatches{Batch: 1, Epochs: 2}},
		"all rows":        {exp, 1, 1, MiniBatches{Batch: 2000, Epochs: 20, StepSize: 1e9}},
	} {
		for _, method := range []Method{L2{MiniBatches: c.how, Starts: 2}, L4{MiniBatches: c.how}} {
			t.Run(name+" "+method.Name(), func(t *testing.T) {
				cfg := Config{K: 2, Method: method}
				m, err := Fit(t.Context(), c.act, scaledRows(data, c.unitX, c.unitY), cfg)
				var request *RequestError
				var fault *dataset.Error
				switch {
				case errors.As(err, &request), errors.As(err, &fault):
					t.Log(err)
				case err != nil:
					t.Error(err)
				default:
					t.Log(m.Fit.Status)
					sound(t, m)
				}
			})
		}
	}
}

// TestTooFewEpochs: a descent that was still on its way is not converged.
func TestTooFewEpochs(t *testing.T) {
	for _, method := range []Method{L2{MiniBatches: MiniBatches{Epochs: 1}}, L4{MiniBatches: MiniBatches{Epochs: 60}}} {
		m := fitted4(t, paperCell(identity.Family, 10_000), 1, Config{Method: method})
		if m.Fit.Converged || m.Fit.Status != "iteration limit" || !hasNote(m, "ended too early") {
			t.Errorf("%s: %s, notes %q", method.Name(), m.Fit.Status, m.Fit.Notes)
		}
	}
}

// TestDescentsAreReproducible: the same file at any number of threads, another
// one at another seed.
func TestDescentsAreReproducible(t *testing.T) {
	few := MiniBatches{Epochs: 5}
	for _, method := range []Method{L2{MiniBatches: few}, L4{MiniBatches: few}} {
		var files [][]byte
		for _, cfg := range []Config{{Threads: 1}, {Threads: 3}, {Threads: 1, Seed: 7}} {
			cfg.Method = method
			text, err := fitted4(t, paperCell(identity.Family, 6000), 1, cfg).JSON()
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, text)
		}
		if !bytes.Equal(files[0], files[1]) || bytes.Equal(files[0], files[2]) {
			t.Errorf("%s: equal at 1 and 3 threads: %v, at two seeds: %v", method.Name(), bytes.Equal(files[0], files[1]), bytes.Equal(files[0], files[2]))
		}
	}
}

// TestEpochsAreShown, from the first to the last and in order.
func TestEpochsAreShown(t *testing.T) {
	four := MiniBatches{Epochs: 4}
	for method, total := range map[Method]int{L2{MiniBatches: four, Starts: 3}: 3 * 4, L4{MiniBatches: four}: 4} {
		cfg := Config{Method: method}
		next := 0
		cfg.Progress = func(stage Stage, done, of int) {
			if stage == StageDescent {
				if done != next || of != total {
					t.Errorf("%s: %d of %d epochs, want %d of %d", method.Name(), done, of, next, total)
				}
				next++
			}
		}
		fitted4(t, paperCell(identity.Family, 3000), 1, cfg)
		if next != total+1 {
			t.Errorf("%s: told of %d epochs, want %d", method.Name(), next-1, total)
		}
	}
}

// TestStartsOfEMAreShown, from none to all and in order, whatever the number of threads.
func TestStartsOfEMAreShown(t *testing.T) {
	for _, threads := range []int{1, 2} {
		var told []int
		fitted4(t, paperCell(identity.Family, 3000), 1, Config{Method: EM{Starts: 3}, Threads: threads,
			Progress: func(stage Stage, done, of int) {
				if stage == StageScreening && of == 3 {
					told = append(told, done)
				}
			}})
		if !slices.Equal(told, []int{0, 1, 2, 3}) {
			t.Errorf("%d threads: told of %d of 3 starts", threads, told)
		}
	}
}

// TestCanceledDescent ends with the context's error.
func TestCanceledDescent(t *testing.T) {
	act, src, _ := paperCell(identity.Family, 3000).draw(t, 1)
	for _, method := range []Method{L2{}, L4{}} {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Fit(ctx, act, src, Config{K: 2, Method: method, Progress: func(stage Stage, done, _ int) {
			if stage == StageDescent && done == 3 {
				cancel()
			}
		}})
		if cancel(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", method.Name(), err)
		}
	}
}

// TestDescentsRefuse what they cannot do.
func TestDescentsRefuse(t *testing.T) {
	act, src, _ := paperCell(identity.Family, 1000).draw(t, 1)
	negative, nan := -1.0, math.NaN()
	for want, cfg := range map[string]Config{
		"batch = 1001 for 1000 rows":               {Method: L2{MiniBatches: MiniBatches{Batch: 1001}}},
		"batch = -1":                               {Method: L2{MiniBatches: MiniBatches{Batch: -1}}},
		"epochs = -1":                              {Method: L4{MiniBatches: MiniBatches{Epochs: -1}}},
		"epochs = 2000000000":                      {Method: L4{MiniBatches: MiniBatches{Epochs: 2_000_000_000}}},
		"step-size = NaN":                          {Method: L4{MiniBatches: MiniBatches{StepSize: nan}}},
		"step-size = -1":                           {Method: L2{MiniBatches: MiniBatches{StepSize: -1}}},
		"mu = -1":                                  {Method: L4{Mu: -1}},
		"lambda = +Inf":                            {Method: L4{Lambda: math.Inf(1)}},
		"ridge = -1":                               {Method: L4{Ridge: &negative}},
		"ridge = NaN":                              {Method: L4{Ridge: &nan}},
		"radius = NaN":                             {Method: L4{Radius: nan}},
		"starts = -1":                              {Method: L2{Starts: -1}},
		"robust has no effect on method l4":        {Method: L4{}, Errors: []ErrorKind{Robust}},
		"robust has no effect on method l2":        {Method: L2{}, Errors: []ErrorKind{Robust}},
		"start has no effect on method l4":         {Method: L4{}, Start: model.NewParams(2, 10)},
		"intercept has no effect on method l2":     {Method: L2{}, Intercepts: BothIntercepts},
		"constant gate has no effect on method l4": {Method: L4{}, Gate: Constant{}},
		"d = 10 is not above 2k-1 = 11":            {Method: L4{}, K: 6},
	} {
		if cfg.K == 0 {
			cfg.K = 2
		}
		var request *RequestError
		if _, err := Fit(t.Context(), act, src, cfg); !errors.As(err, &request) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestL4InBothSpaces: methods l4 and moments minimise the L4 of the same rows,
// one in ℝ^d with a ridge, the other in the span with the constraint held. On 1e5
// rows each is within E_reg 0.005 of the truth, which makes angles of 0.1 add up to
// an E_reg of 0.02 at most.
func TestL4InBothSpaces(t *testing.T) {
	testslow.Mark(t)
	c := paperCell(identity.Family, 100_000)
	a, b := fitted4(t, c, 4, Config{Method: L4{}}), fitted4(t, c, 4, Config{Method: Moments{}})
	if e, _ := metric.Ereg(a.Params(), b.Params()); e > 0.02 {
		t.Errorf("L4 in ℝ^d and in the span differ by E_reg %v", e)
	}
}
