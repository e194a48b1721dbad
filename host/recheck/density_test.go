package recheck

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/model"
)

type identity struct{}

func (identity) Eval(_ context.Context, dst, z []float64) error { copy(dst, z); return nil }

func (identity) Deriv(_ context.Context, dst, _ []float64) error {
	for i := range dst {
		dst[i] = 1
	}
	return nil
}

// sized draws a number of either sign of which every size from 10^from to 10^to is as likely.
func sized(rng *rand.Rand, from, to float64) float64 {
	v := math.Pow(10, from+(to-from)*rng.Float64())
	if rng.IntN(2) == 0 {
		v = -v
	}
	return v
}

// gates are those that the densities go through, by their shapes.
var gates = []string{"1", "2", "4", "2x2", "2x(1,2)", "3x(2,1,3)", "2x(2x(1,3x(1,2,1)),1)"}

// extreme draws a mixture and a row at the ends of what numbers reach. Means are the
// intercepts, and so are logits; with terms these are what three terms leave of each other.
func extreme(rng *rand.Rand, shape string, terms bool) (*model.Params, *model.Block) {
	h, err := model.ParseHierarchy(shape)
	if err != nil {
		panic(err)
	}
	k := h.Leaves()
	p := model.NewParams(k, 2)
	x := []float64{1.1, 0.7}
	if p.Tree = h; h.Depth() <= 1 {
		p.Tree = model.Hierarchy{}
	}
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, k), make([]float64, k-1)
	if rng.IntN(2) == 0 {
		p.Sigma = make([]float64, k)
	}
	most := []float64{1, 10, 20, 300}[rng.IntN(4)]
	for i := range p.GatingIntercepts {
		p.GatingIntercepts[i] = sized(rng, -2, most)
		if i > 0 && rng.IntN(4) == 0 { // experts that share what is beyond the others' reach
			p.GatingIntercepts[i] = p.GatingIntercepts[i-1] + rng.NormFloat64()
		}
		if terms { // the logit is what is left of them
			w := p.Gate(i)
			w[0], w[1] = p.GatingIntercepts[i], p.GatingIntercepts[i]*rng.NormFloat64()
			p.GatingIntercepts[i] = -(w[0]*x[0] + w[1]*x[1])
		}
	}
	scale := []float64{0, 6, 300}[rng.IntN(3)]
	for i := range p.RegressorIntercepts {
		p.RegressorIntercepts[i] = sized(rng, scale-1, scale)
	}
	for i := range p.Sigma {
		switch rng.IntN(3) {
		case 0:
			p.Sigma[i] = math.Abs(sized(rng, -150, 150))
		case 1:
			p.Sigma[i] = math.Abs(sized(rng, scale-2, scale))
		default:
			p.Sigma[i] = 1e-150
		}
	}
	y := sized(rng, scale-1, scale)
	if rng.IntN(3) == 0 {
		y = p.RegressorIntercepts[0] * (1 + float64(rng.IntN(3))*0x1p-52)
	}
	return p, &model.Block{N: 1, X: x, Y: []float64{y}}
}

// near says whether a log-density is that in many digits, to 1e−12.
func near(got, want float64) bool {
	return got == want || math.Abs(got-want) <= 1e-12*max(1, math.Abs(want))
}

// TestDensitiesEverywhere: for logits to ±1e300, σ to 1e−150 and y to 1e300, under all gates,
// the log-densities of the likelihood, of predictions, of several targets and of the second
// computation are those in many digits, to 1e−12; −Inf where that is below the smallest number;
// no posterior is NaN, and they add up to 1.
func TestDensitiesEverywhere(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 2))
	finite, infinite := 0, 0
	for n := range 1500 {
		shape := gates[n%len(gates)]
		p, b := extreme(rng, shape, false)
		want, err := Of(p).exactly(ctx, identity{}, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		if math.IsInf(want, -1) {
			infinite++
		} else {
			finite++
		}
		check := func(what string, got float64) {
			t.Helper()
			if !near(got, want) {
				t.Fatalf("%s under %s: log density %v, want %v\n%+v y %v", what, shape, got, want, *p, b.Y)
			}
		}
		rows := &model.Data{N: 1, D: 2, Blocks: []model.Block{*b}}
		got, err := loss.NewLikelihood(rows, identity{}, p, loss.All, 1).LogLikelihood(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		check("likelihood", got)
		r := newRoom(Of(p), nil)
		if err := r.take(ctx, identity{}, b, false); err != nil {
			t.Fatal(err)
		}
		check("second computation", r.term(b, 0))
		post := mixture.NewPosterior(mixture.Mixture{}, p.K)
		post.Given(p, b)
		post.Predict(b.Y, p.RegressorIntercepts)
		check("prediction", post.LogJoint[0])
		proper(t, post)
		res := make([]float64, p.K)
		for i, m := range p.RegressorIntercepts {
			res[i] = b.Y[0] - m
		}
		post.Given(p, b)
		post.Observe(res, 0)
		proper(t, post)
	}
	if finite < 150 || infinite < 150 {
		t.Errorf("%d finite and %d infinite densities: the draws have lost one kind", finite, infinite)
	}
}

func proper(t *testing.T, post *mixture.Posterior) {
	t.Helper()
	sum := 0.0
	for _, v := range post.Post {
		sum += v
	}
	if !(math.Abs(sum-1) < 1e-12) {
		t.Fatalf("posteriors %v", post.Post)
	}
}

// TestDensitiesOfSeveralTargets is TestDensitiesEverywhere of two targets under one gate. With
// correlated noise the regressions on the other coordinate stay small: the rounding of what
// they cancel is no matter of the likelihood's.
func TestDensitiesOfSeveralTargets(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 3))
	for n := range 600 {
		shape := gates[n%len(gates)]
		p, b := extreme(rng, shape, false)
		q, other := extreme(rng, shape, false)
		noise := make([]model.VectorNoise, len(p.Sigma))
		for i := range noise {
			noise[i] = model.VectorNoise{Scale: []float64{p.Sigma[i], q.SigmaOf(i % len(q.Sigma))}}
			if rng.IntN(2) == 0 {
				noise[i].Lower = []float64{0}
			}
		}
		for i := range noise { // all or none
			noise[i].Lower = noise[0].Lower
		}
		v := model.JoinCoordinates([]*model.Params{p, q}, noise)
		b.Y = append(b.Y, other.Y...)
		want, err := OfVector(v, nil).exactly(ctx, identity{}, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		rows := &model.Data{N: 1, D: 2, Blocks: []model.Block{*b}}
		got, err := loss.NewVector(rows, identity{}, v, loss.All, 1).LogLikelihood(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		if !near(got, want) {
			t.Fatalf("under %s: log density %v, want %v\n%+v y %v", shape, got, want, *v, b.Y)
		}
		post := loss.NewVectorRows(identity{}, v, loss.All)
		if err := post.Observe(ctx, b); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for i := range v.K {
			sum += post.Posterior(i)[0]
		}
		if !(math.Abs(sum-1) < 1e-12) {
			t.Fatalf("posteriors add up to %v", sum)
		}
	}
}

// TestLogitsThatCancel: where the terms of a logit cancel, predictions have what is left of
// them: the density of the parameters as they are.
func TestLogitsThatCancel(t *testing.T) {
	ctx := context.Background()
	rng := rand.New(rand.NewPCG(1, 4))
	lost := 0
	for n := range 600 {
		shape := gates[1+n%(len(gates)-1)]
		p, b := extreme(rng, shape, true)
		want, err := Of(p).exactly(ctx, identity{}, b, 0)
		if err != nil {
			t.Fatal(err)
		}
		post := mixture.NewPosterior(mixture.Mixture{}, p.K)
		post.Given(p, b)
		post.Predict(b.Y, p.RegressorIntercepts)
		if !near(post.LogJoint[0], want) {
			lost++
		}
		post.Exact = true
		post.Given(p, b)
		post.Predict(b.Y, p.RegressorIntercepts)
		if !near(post.LogJoint[0], want) {
			t.Fatalf("under %s: log density %v, want %v\n%+v y %v", shape, post.LogJoint[0], want, *p, b.Y)
		}
	}
	if lost == 0 {
		t.Error("no logit was rounded where it mattered: the draws test nothing")
	}
}
