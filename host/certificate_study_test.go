package host

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/result"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/starts"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// studySets is how many data sets of each design the study of the certificate
// draws; without it two of each quick design of a right model are, and one of a wrong model. The table of
// docs/studies/certificate.md is what this prints:
//
//	go test ./host -run TestCertificateStudy -study 16 -timeout 60m
var studySets = flag.Int("study", 0, "data sets of each design in the study of the certificate")

var (
	tanh     = sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { t := math.Tanh(z); return 1 - t*t }}
	softplus = sdk.Func{
		Name: "softplus",
		G:    func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) },
		DG:   func(z float64) float64 { return 1 / (1 + math.Exp(-z)) },
	}
)

// studyFrom lets the study see data sets that no choice was made on.
var studyFrom = flag.Uint64("studyfrom", 1, "number of the first data set in the study of the certificate")

// studyDesign is a kind of data set and the model fitted to it.
type studyDesign struct {
	name       string
	truth      sdk.Activation
	k, d, n    int
	sigma      float64
	design     sample.Design
	intercepts bool
	inputs     string  // "" for N(0, I), "skewed", "uniform", "mixture"
	tails      float64 // degrees of freedom of the noise; 0 for Gaussian

	fitted sdk.Activation // nil for the truth
	fitK   int            // 0 for the truth
	quick  bool           // is part of every run of the tests
	starts int            // of a fit then, where the verdict on a wrong model needs no more; 0: the default's
	rows   int            // of a data set then, where so few tell a wrong model from the right one at 1e-9, or it is right; 0: n
	close  bool           // too close to the truth to be told from it by so few rows
}

func (s studyDesign) right() bool { return s.fitted == nil && s.fitK == 0 && s.tails != 5 }

func activation(f sdk.Family, p sdk.Params) sdk.Activation {
	a, err := f.Activation(p)
	if err != nil {
		panic(err)
	}
	return a
}

// draw returns the data and the start at the truth.
func (s studyDesign) draw(t testing.TB, seed uint64) dataset.Source {
	t.Helper()
	sampler, err := sample.New(sample.Config{Activation: s.truth, K: s.k, D: s.d, N: s.n, Sigma: s.sigma, Design: s.design, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	p := sampler.Truth
	rng := rand.New(rand.NewPCG(seed, 77))
	if s.intercepts {
		p.RegressorIntercepts, p.GatingIntercepts = make([]float64, s.k), make([]float64, s.k-1)
		for i := range p.RegressorIntercepts {
			p.RegressorIntercepts[i] = rng.NormFloat64()
		}
		for i := range p.GatingIntercepts {
			p.GatingIntercepts[i] = rng.NormFloat64() / 2
		}
	}
	x, y := make([]float64, s.n*s.d), make([]float64, s.n)
	for i := range x {
		x[i] = s.input(rng)
	}
	for r := range y {
		y[r] = s.target(t.Context(), p, x[r*s.d:(r+1)*s.d], rng)
	}
	return dataset.Matrix(mat.NewDense(s.n, s.d, x), y)
}

func (s studyDesign) input(rng *rand.Rand) float64 {
	z := rng.NormFloat64()
	switch s.inputs {
	case "uniform":
		return 4*rng.Float64() - 1
	case "skewed":
		return z*z/2 + 1
	case "mixture":
		if rng.Float64() < 0.3 {
			return z + 1.5
		}
		return z - 0.5
	}
	return z
}

func (s studyDesign) target(ctx context.Context, p *model.Params, x []float64, rng *rand.Rand) float64 {
	b := &model.Block{N: 1, X: x}
	logits, lse := make([]float64, p.K), make([]float64, 1)
	p.GateLogits(logits, b)
	model.Softmax(logits, lse, logits, 1)
	z, below, u := 0, logits[0], rng.Float64()
	for z < p.K-1 && u >= below {
		z++
		below += logits[z]
	}
	predictors := make([]float64, p.K)
	p.Predictors(predictors, b)
	if err := s.truth.Eval(ctx, predictors, predictors); err != nil {
		panic(err)
	}
	return predictors[z] + s.sigma*s.noise(rng)
}

// noise has variance 1.
func (s studyDesign) noise(rng *rand.Rand) float64 {
	if s.tails == 0 {
		return rng.NormFloat64()
	}
	return math.Sqrt((s.tails-2)/s.tails) * distuv.StudentsT{Nu: s.tails, Sigma: 1, Src: rng}.Rand()
}

var studyDesigns = []studyDesign{
	{name: "identity k=2", quick: true, truth: activation(identity.Family, nil), k: 2, d: 10, n: 2000, sigma: 0.05},
	{name: "identity k=3 n=1e4", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.05},
	{name: "identity k=3 sigma=.5", truth: activation(identity.Family, nil), k: 3, d: 10, n: 4000, sigma: 0.5},
	{name: "identity k=5", truth: activation(identity.Family, nil), k: 5, d: 20, n: 1000, sigma: 0.05},
	{name: "identity k=5 d=12", quick: true, truth: activation(identity.Family, nil), k: 5, d: 12, n: 1500, sigma: 0.2, design: sample.Random},
	{name: "identity k=8", truth: activation(identity.Family, nil), k: 8, d: 20, n: 2000, sigma: 0.05},
	{name: "relu k=2", truth: activation(relu.Family, nil), k: 2, d: 10, n: 3000, sigma: 0.1},
	{name: "relu k=4", quick: true, truth: activation(relu.Family, nil), k: 4, d: 10, n: 2000, sigma: 0.05},
	{name: "relu k=6", truth: activation(relu.Family, nil), k: 6, d: 20, n: 5000, sigma: 0.05},
	{name: "sigmoid k=2", truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 4000, sigma: 0.05},
	{name: "leaky k=5", truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 5, d: 12, n: 3000, sigma: 0.05, design: sample.Random},
	{name: "identity k=3 intercepts", quick: true, truth: activation(identity.Family, nil), k: 3, d: 5, n: 2000, sigma: 0.2, design: sample.Random, intercepts: true, inputs: "skewed"},
	{name: "relu k=3 intercepts", truth: activation(relu.Family, nil), k: 3, d: 6, n: 4000, sigma: 0.1, design: sample.Random, intercepts: true, inputs: "uniform"},
	{name: "leaky k=2 mixture", quick: true, truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 2, d: 8, n: 2000, sigma: 0.3, inputs: "mixture"},

	{name: "t(10) identity k=3", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.1, tails: 10},
	{name: "t(10) relu k=3", truth: activation(relu.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.1, tails: 10},
	{name: "t(10) identity sigma=.5", truth: activation(identity.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.5, tails: 10},
	{name: "t(10) sigmoid k=2", quick: true, rows: 4000, truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.1, tails: 10},
	{name: "t(10) leaky k=4 intercepts", truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 4, d: 6, n: 5000, sigma: 0.1, design: sample.Random, intercepts: true, tails: 10},

	{name: "wrong: identity 3 as 2", quick: true, starts: 3, rows: 3000, truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, fitK: 2},
	{name: "wrong: relu 3 as 2", truth: activation(relu.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, fitK: 2},
	{name: "wrong: sigmoid 3 as 2", truth: activation(sigmoid.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.05, fitK: 2},
	{name: "wrong: sigmoid 3 as 2 sigma=.3", truth: activation(sigmoid.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, fitK: 2},
	{name: "wrong: identity 5 as 4", truth: activation(identity.Family, nil), k: 5, d: 10, n: 10000, sigma: 0.3, fitK: 4},
	{name: "wrong: relu as identity", truth: activation(relu.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.3, fitted: activation(identity.Family, nil)},
	{name: "wrong: softplus as relu", quick: true, starts: 3, rows: 3000, truth: softplus, k: 2, d: 10, n: 10000, sigma: 0.3, fitted: activation(relu.Family, nil)},
	{name: "wrong: sigmoid as identity", quick: true, starts: 2, rows: 5000, truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.5, fitted: activation(identity.Family, nil)},
	{name: "wrong: sigmoid as tanh", truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.3, fitted: tanh},
	{name: "wrong: t(5) noise", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, tails: 5},
	{name: "wrong: t(5) noise relu", quick: true, starts: 3, rows: 3000, truth: activation(relu.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.05, tails: 5},

	{name: "close: sigmoid as tanh", close: true, truth: activation(sigmoid.Family, nil), k: 2, d: 5, n: 1000, sigma: 0.5, design: sample.Random, intercepts: true, fitted: tanh},
	{name: "close: sigmoid as identity", close: true, truth: activation(sigmoid.Family, nil), k: 2, d: 5, n: 1000, sigma: 0.5, design: sample.Random, intercepts: true, fitted: activation(identity.Family, nil)},
	{name: "close: sigmoid 3 as 2", close: true, truth: activation(sigmoid.Family, nil), k: 3, d: 10, n: 1000, sigma: 0.3, fitK: 2},
	{name: "close: leaky .1 as relu", close: true, truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 2, d: 5, n: 1000, sigma: 0.5, fitted: activation(relu.Family, nil)},
}

// tally counts the verdicts on fits, and on local optima at least 0.05 per row
// below the best.
type tally struct {
	fits, optimumSuspect, modelSuspect int
	locals, localsSuspect              int
	starts                             int
	small                              int // p-values below 0.05, of tests
	tests                              int
}

func (n *tally) add(o tally) {
	n.fits += o.fits
	n.optimumSuspect += o.optimumSuspect
	n.modelSuspect += o.modelSuspect
	n.locals += o.locals
	n.localsSuspect += o.localsSuspect
	n.starts += o.starts
	n.small += o.small
	n.tests += o.tests
}

// row is a line of the table of docs/studies/certificate.md.
func (n *tally) row(name string) string {
	locals := "–"
	if n.locals > 0 {
		locals = fmt.Sprintf("%d of %d (≥ %.3f)", n.localsSuspect, n.locals, 1-atMost(n.locals-n.localsSuspect, n.locals))
	}
	return fmt.Sprintf("| %s | %d | %d (≤ %.3f) | %d (≥ %.3f, ≤ %.3f) | %s | %.3f | %.1f |", name, n.fits,
		n.optimumSuspect, atMost(n.optimumSuspect, n.fits),
		n.modelSuspect, 1-atMost(n.fits-n.modelSuspect, n.fits), atMost(n.modelSuspect, n.fits),
		locals, float64(n.small)/float64(max(n.tests, 1)), float64(n.starts)/float64(n.fits))
}

// atMost is the one-sided 95 % Clopper–Pearson bound on the probability of what
// happened so many times of n.
func atMost(times, n int) float64 {
	if times >= n {
		return 1
	}
	return distuv.Beta{Alpha: float64(times + 1), Beta: float64(n - times)}.Quantile(0.95)
}

// TestCertificateStudy draws data sets of every design, fits them, and holds the
// verdicts to what docs/studies/certificate.md claims. The quick designs, which always
// run, have 10 right fits with Gaussian noise: a false alarm, which fails the
// test, has probability at most 10·Level = 1 % for another seed.
func TestCertificateStudy(t *testing.T) {
	testslow.Mark(t)
	var right, tailed, wrong tally
	for _, s := range studyDesigns {
		if *studySets == 0 && !s.quick {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			var n tally
			sets := max(2, uint64(*studySets))
			if *studySets == 0 && !s.right() {
				sets = 1
			}
			for seed := range sets {
				s.try(t, *studyFrom+seed, &n)
			}
			if *studySets > 0 {
				fmt.Println(n.row(s.name))
			}
			switch {
			case s.close:
			case !s.right():
				wrong.add(n)
				if float64(n.modelSuspect) < 0.95*float64(n.fits) {
					t.Errorf("model suspect in %d of %d fits of a wrong model", n.modelSuspect, n.fits)
				}
			case s.tails > 0:
				tailed.add(n)
			default:
				right.add(n)
			}
		})
	}
	if *studySets > 0 {
		fmt.Println(right.row("all right, Gaussian noise"))
		fmt.Println(tailed.row("all right, t(10) noise"))
		fmt.Println(wrong.row("all wrong"))
	}
	right.hold(t, "Gaussian noise", true)
	tailed.hold(t, "t(10) noise", false)
}

// hold checks the claims on right models: the optimum in doubt at the best in
// at most 2 %, at local optima in at least 99 %, and with Gaussian noise the
// model in at most 2 %.
func (n *tally) hold(t *testing.T, what string, gaussian bool) {
	t.Helper()
	if float64(n.optimumSuspect) > 0.02*float64(n.fits) {
		t.Errorf("%s: optimum suspect at the best in %d of %d fits", what, n.optimumSuspect, n.fits)
	}
	if float64(n.localsSuspect) < 0.99*float64(n.locals) || gaussian && n.locals == 0 {
		t.Errorf("%s: %d of %d local optima called suspect", what, n.localsSuspect, n.locals)
	}
	if gaussian && float64(n.modelSuspect) > 0.02*float64(n.fits) {
		t.Errorf("%s: model suspect in %d of %d fits", what, n.modelSuspect, n.fits)
	}
}

// try fits one data set and counts the verdicts.
func (s studyDesign) try(t *testing.T, seed uint64, n *tally) {
	cfg := Config{K: s.k, Seed: 1, Intercepts: InterceptsOf(s.intercepts, s.intercepts)}
	if *studySets == 0 && s.starts > 0 {
		cfg.Method = Auto{Starts: s.starts}
	}
	if s.fitK > 0 {
		cfg.K = s.fitK
	}
	act := s.truth
	if s.fitted != nil {
		act = s.fitted
	}
	if *studySets == 0 && s.rows > 0 {
		s.n = s.rows
	}
	src := s.draw(t, seed)
	p, e, out, m := fitInSteps(t, act, src, cfg)
	c := out.Certificate
	n.fits++
	n.starts += len(m.Fit.Starts)
	if c.Optimum == infer.Suspect {
		n.optimumSuspect++
	}
	if c.Model == infer.Suspect {
		n.modelSuspect++
	}
	for _, test := range c.Tests {
		n.tests++
		if test.PValue < 0.05 {
			n.small++
		}
	}
	t.Logf("seed %d: optimum %s, model %s, p %.2g (%s) %v", seed, c.Optimum, c.Model, c.PValue, c.Reason, short(c.Tests))
	if s.right() {
		s.locals(t, p, e, m.Fit.LogLikelihood, n)
	}
}

// fitInSteps returns a fit by method auto with what each step gave.
func fitInSteps(t testing.TB, act sdk.Activation, src dataset.Source, cfg Config) (*problem.Problem, *moment.Evidence, *result.Outcome, *fitted.Model) {
	t.Helper()
	cfg, p, err := load(t.Context(), act, src, cfg)
	if err != nil {
		t.Fatal(err)
	}
	e, err := moment.Measure(t.Context(), p, moment.Want{Transform: moment.Polynomial})
	if err != nil {
		t.Fatal(err)
	}
	out, err := cfg.Method.fit(t.Context(), p, e, run{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	m, err := result.Model(t.Context(), p, e, out, cfg.written())
	if err != nil {
		t.Fatal(err)
	}
	return p, e, out, m
}

// certificate is that of parameters in the units of the fit, as if one start had
// ended there.
func certificate(t testing.TB, p *problem.Problem, q *model.Params) *infer.Certificate {
	t.Helper()
	c := &search.Candidate{Params: q, Run: new(optim.Result), Agrees: true}
	got, _, err := search.Certify(t.Context(), p, c, []*search.Candidate{c}, search.Seen{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestCertificateOfAnyOrder: how the experts are numbered at the end of a run
// does not matter to the tests.
func TestCertificateOfAnyOrder(t *testing.T) {
	s := studyDesign{truth: activation(identity.Family, nil), k: 3, d: 5, n: 2000, sigma: 0.3}
	p, _, _, m := fitInSteps(t, s.truth, s.draw(t, 1), Config{K: 3, Threads: 1})
	var want []infer.Test
	for _, order := range [][]int{{0, 1, 2}, {2, 0, 1}, {1, 0, 2}} {
		got := certificate(t, p, m.Params().Relabel(order)).Tests
		if want == nil {
			want = got
		}
		// The gates are differences of others: rounding apart the numbers are the same.
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-6, 0)); diff != "" {
			t.Errorf("order %v: %s", order, diff)
		}
	}
}

// BenchmarkCertificate is the certificate of one optimum.
func BenchmarkCertificate(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("identity k=3 d=10 n=%d", n), func(b *testing.B) {
			s := studyDesign{truth: activation(identity.Family, nil), k: 3, d: 10, n: n, sigma: 0.05}
			p, _, _, m := fitInSteps(b, s.truth, s.draw(b, 1), Config{K: 3, Threads: 1})
			for b.Loop() {
				certificate(b, p, m.Params())
			}
		})
	}
}

func short(tests []infer.Test) (out []string) {
	for _, x := range tests {
		out = append(out, fmt.Sprintf("%s %.1f/%d p=%.2g", x.Name, x.Statistic, x.DF, x.PValue))
	}
	return out
}

// locals climbs from single random starts without moves, on all rows, and
// certifies where those end that end below the best. All but the first begin
// with a small σ, from which more of them get stuck.
func (s studyDesign) locals(t *testing.T, p *problem.Problem, e *moment.Evidence, best float64, n *tally) {
	for stream := range uint64(s.k + 2) {
		q, err := starts.Random(p, e).Draw(t.Context(), rand.New(rand.NewPCG(99, stream)))
		if err != nil {
			t.Fatal(err)
		}
		if stream > 0 {
			floats.Scale(0.1, q.Sigma)
		}
		l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 0)
		run, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
		if err != nil {
			t.Fatal(err)
		}
		gap := best/float64(p.N()) + run.Value
		if gap < 0.05 || run.Status != optim.Converged {
			continue
		}
		c := certificate(t, p, l.Params(run.X))
		n.locals++
		if c.Optimum == infer.Suspect {
			n.localsSuspect++
		}
		t.Logf("  local, %.3f per row below: optimum %s, p %.2g %v", gap, c.Optimum, c.PValue, short(c.Tests))
	}
}
