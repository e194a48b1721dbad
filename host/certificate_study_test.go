package host

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// studySets is how many data sets of each design the study of the certificate
// draws. The table of docs/certificate.md comes from
//
//	go test ./host -run TestCertificateStudy -study 30 -v -timeout 60m
var studySets = flag.Int("study", 1, "data sets of each design in the study of the certificate")

var studyOnly = flag.String("designs", "", "study the designs whose name contains this")

var (
	tanh     = sdk.Func{Name: "tanh", G: math.Tanh, DG: func(z float64) float64 { t := math.Tanh(z); return 1 - t*t }}
	softplus = sdk.Func{
		Name: "softplus",
		G:    func(z float64) float64 { return math.Log1p(math.Exp(-math.Abs(z))) + math.Max(z, 0) },
		DG:   func(z float64) float64 { return 1 / (1 + math.Exp(-z)) },
	}
)

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
	locals int            // random starts for local optima
}

func (s studyDesign) right() bool { return s.fitted == nil && s.fitK == 0 }

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
	{name: "identity k=2", truth: activation(identity.Family, nil), k: 2, d: 10, n: 2000, sigma: 0.05, locals: 3},
	{name: "identity k=3 n=1e4", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.05, locals: 2},
	{name: "identity k=3 sigma=.5", truth: activation(identity.Family, nil), k: 3, d: 10, n: 4000, sigma: 0.5, locals: 3},
	{name: "identity k=5", truth: activation(identity.Family, nil), k: 5, d: 20, n: 1000, sigma: 0.05, locals: 3},
	{name: "identity k=8", truth: activation(identity.Family, nil), k: 8, d: 20, n: 2000, sigma: 0.05, locals: 2},
	{name: "relu k=2", truth: activation(relu.Family, nil), k: 2, d: 10, n: 3000, sigma: 0.1, locals: 3},
	{name: "relu k=4", truth: activation(relu.Family, nil), k: 4, d: 10, n: 2000, sigma: 0.05, locals: 3},
	{name: "relu k=6", truth: activation(relu.Family, nil), k: 6, d: 20, n: 5000, sigma: 0.05, locals: 2},
	{name: "sigmoid k=2", truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 4000, sigma: 0.05, locals: 3},
	{name: "leaky k=5", truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 5, d: 12, n: 3000, sigma: 0.05, design: sample.Random, locals: 2},
	{name: "identity k=3 intercepts", truth: activation(identity.Family, nil), k: 3, d: 5, n: 2000, sigma: 0.2, design: sample.Random, intercepts: true, inputs: "skewed", locals: 3},
	{name: "relu k=3 intercepts", truth: activation(relu.Family, nil), k: 3, d: 6, n: 4000, sigma: 0.1, design: sample.Random, intercepts: true, inputs: "uniform", locals: 3},
	{name: "leaky k=2 mixture", truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 2, d: 8, n: 2000, sigma: 0.3, inputs: "mixture", locals: 3},

	{name: "t(10) identity k=3", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.1, tails: 10, locals: 2},
	{name: "t(10) relu k=3", truth: activation(relu.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.1, tails: 10, locals: 2},
	{name: "t(10) identity sigma=.5", truth: activation(identity.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.5, tails: 10, locals: 2},
	{name: "t(10) sigmoid k=2", truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.1, tails: 10, locals: 2},
	{name: "t(10) leaky k=4 intercepts", truth: activation(leakyrelu.Family, sdk.Params{"slope": 0.1}), k: 4, d: 6, n: 5000, sigma: 0.1, design: sample.Random, intercepts: true, tails: 10, locals: 2},

	{name: "wrong: identity 3 as 2", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, fitK: 2},
	{name: "wrong: relu 3 as 2", truth: activation(relu.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, fitK: 2},
	{name: "wrong: sigmoid 3 as 2", truth: activation(sigmoid.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.05, fitK: 2},
	{name: "wrong: sigmoid 3 as 2 sigma=.3", truth: activation(sigmoid.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, fitK: 2},
	{name: "wrong: identity 5 as 4", truth: activation(identity.Family, nil), k: 5, d: 10, n: 10000, sigma: 0.3, fitK: 4},
	{name: "wrong: relu as identity", truth: activation(relu.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.3, fitted: activation(identity.Family, nil)},
	{name: "wrong: softplus as relu", truth: softplus, k: 2, d: 10, n: 10000, sigma: 0.3, fitted: activation(relu.Family, nil)},
	{name: "wrong: sigmoid as identity", truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.5, fitted: activation(identity.Family, nil)},
	{name: "wrong: sigmoid as tanh", truth: activation(sigmoid.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.3, fitted: tanh},
	{name: "wrong: t(5) noise", truth: activation(identity.Family, nil), k: 3, d: 10, n: 10000, sigma: 0.3, tails: 5, fitK: 3},
	{name: "wrong: t(5) noise relu", truth: activation(relu.Family, nil), k: 2, d: 10, n: 10000, sigma: 0.05, tails: 5, fitK: 2},
}

// tally counts the verdicts on the fits of one design.
type tally struct {
	fits, optimumSuspect, modelSuspect int
	locals, localsSuspect              int
	starts                             int
	worst                              float64 // the largest p of a local optimum or a wrong model, the smallest of a right one
}

func TestCertificateStudy(t *testing.T) {
	for _, s := range studyDesigns {
		if !strings.Contains(s.name, *studyOnly) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			var n tally
			for seed := range uint64(*studySets) {
				s.try(t, seed+1, &n)
			}
			fmt.Fprintf(os.Stderr, "%-32s fits %d, optimum suspect %d, model suspect %d; locals %d, suspect %d; starts %d\n", s.name, n.fits, n.optimumSuspect, n.modelSuspect, n.locals, n.localsSuspect, n.starts)
		})
	}
}

// try fits one data set and counts the verdicts.
func (s studyDesign) try(t *testing.T, seed uint64, n *tally) {
	cfg := Config{K: s.k, Seed: 1, Intercept: s.intercepts}
	if s.fitK > 0 {
		cfg.K = s.fitK
	}
	act := s.truth
	if s.fitted != nil {
		act = s.fitted
	}
	src := s.draw(t, seed)
	f := &fit{cfg: cfg.withDefaults(), sdk: act, act: act, schema: src.Schema()}
	if err := f.load(t.Context(), src); err != nil {
		t.Fatal(err)
	}
	if err := f.firstPass(t.Context()); err != nil {
		t.Fatal(err)
	}
	m, err := f.byEverything(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := f.certificate
	n.fits++
	n.starts += len(m.Fit.Starts)
	if c.Optimum == infer.Suspect {
		n.optimumSuspect++
	}
	if c.Model == infer.Suspect {
		n.modelSuspect++
	}
	if testing.Verbose() {
		t.Logf("seed %d: optimum %s, model %s, p %.2g (%s) %v", seed, c.Optimum, c.Model, c.PValue, c.Reason, short(c.Tests))
	}
	for i := range s.locals {
		s.local(t, f, m.Fit.LogLikelihood, uint64(i), n)
	}
}

func short(tests []infer.Test) (out []string) {
	for _, x := range tests {
		out = append(out, fmt.Sprintf("%s %.1f/%d p=%.2g", x.Name, x.Statistic, x.DF, x.PValue))
	}
	return out
}

// local climbs from one random start without moves and certifies where it ends.
func (s studyDesign) local(t *testing.T, f *fit, best float64, stream uint64, n *tally) {
	c := &climber{kind: KindRandom}
	rng := rand.New(rand.NewPCG(99, stream))
	if err := f.climb(t.Context(), f.data, c, rng, math.Inf(1)); err != nil {
		t.Fatal(err)
	}
	gap := best/float64(f.data.N) + c.run.Value
	if gap < 0.05 {
		return
	}
	c.agrees = true
	if err := f.certify(t.Context(), c, []*climber{c}); err != nil {
		t.Fatal(err)
	}
	n.locals++
	if f.certificate.Optimum == infer.Suspect {
		n.localsSuspect++
	}
	if testing.Verbose() {
		t.Logf("  local, %.3f per row below: optimum %s, p %.2g %v", gap, f.certificate.Optimum, f.certificate.PValue, short(f.certificate.Tests))
	}
}
