package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
)

// TestContenders: the distinct optima within the gap of the best, three at most.
// Over 1000 rows two are distinct if they differ by more than 0.0005.
func TestContenders(t *testing.T) {
	for name, c := range map[string]struct{ values, want []float64 }{
		"one":               {[]float64{1}, []float64{1}},
		"distinct":          {[]float64{1, 1.001, 1.002}, []float64{1, 1.001, 1.002}},
		"the same":          {[]float64{1, 1.0004, 1.001, 1.0014}, []float64{1, 1.001}},
		"from the last one": {[]float64{1, 1.0004, 1.0008, 1.0012}, []float64{1, 1.0008}},
		"the gap":           {[]float64{1, 1.0199, 1.0201}, []float64{1, 1.0199}},
		"three at most":     {[]float64{1, 1.001, 1.002, 1.003, 1.004}, []float64{1, 1.001, 1.002}},
		"failed":            {[]float64{1, math.Inf(1)}, []float64{1}},
	} {
		var all []*Candidate
		for _, v := range c.values {
			all = append(all, ended(v, optim.Converged, false))
		}
		var got []float64
		for _, c := range contenders(all, 1000) {
			got = append(got, c.Run.Value)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: contenders %v, want %v", name, got, c.want)
		}
	}
}

// pairs is a problem of three experts on two pairs of lines, at −11 and −9 and at
// 9 and 11. It has two maxima: one expert has a pair to itself, and two share
// the other, better the heavier one. Of the first rows, so many, the left pair
// has the share left, of the others the right pair the share right.
func pairs(t testing.TB, n, first int, left, right float64) (p *problem.Problem, shareLeft, shareRight *model.Params) {
	p = parallels(t, n, 3, func(row int) float64 {
		centre, share := -10.0, left
		if row >= first {
			centre, share = 10, right
		}
		if math.Mod(float64(row)*math.Phi, 1) >= share {
			centre = -centre
		}
		return centre + float64(1-2*(row%2))
	}, problem.Request{Noise: problem.PerExpert{}})
	return p, at(p, 0.5, -11, -9, 10), at(p, 0.5, -10, 9, 11)
}

// firstBlocks is the part of the rows in the first blocks.
func firstBlocks(p *problem.Problem, blocks int) *model.Data {
	all := p.Rows.(*model.Data)
	return &model.Data{N: blocks * model.BlockRows, D: all.D, Blocks: all.Blocks[:blocks]}
}

// TestRefineTakesTheBestOfAllRows: of two maxima the better one on the part is
// not the better one on all rows.
func TestRefineTakesTheBestOfAllRows(t *testing.T) {
	p, shareLeft, shareRight := pairs(t, 2048, 512, 0.43, 0.56)
	part := firstBlocks(p, 2)
	onPart := [2]*optim.Result{climbed(t, p, part, shareLeft), climbed(t, p, part, shareRight)}
	onAll := [2]*optim.Result{climbed(t, p, p.Rows, shareLeft), climbed(t, p, p.Rows, shareRight)}
	if gap := onPart[1].Value - onPart[0].Value; gap < SameOptimum(512) || gap > ContenderGap || onAll[0].Value < onAll[1].Value+SameOptimum(2048) {
		t.Fatalf("on the part %v and %v, on all rows %v and %v: the data decide nothing", onPart[0].Value, onPart[1].Value, onAll[0].Value, onAll[1].Value)
	}
	l := likelihood(p, part)
	var all []*Candidate
	for _, r := range onPart {
		all = append(all, &Candidate{Run: r, Params: l.Params(r.X), Rows: part.N})
	}
	kept := copies(all)
	task := &Task{Steps: coreSteps(), Problem: p, Part: part}
	var told []string
	task.Refining = func(done, total int) { told = append(told, fmt.Sprintf("%d of %d", done, total)) }
	best, err := task.refine(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if best != all[1].refined || best.Rows != 2048 || best.Run.Status != optim.Converged || math.Abs(best.Run.Value-onAll[1].Value) > 1e-9 {
		t.Errorf("best on all rows: %v (%v), want %v", best.Run.Value, best.Run.Status, onAll[1].Value)
	}
	if other := all[0].refined; other == nil || math.Abs(other.Run.Value-onAll[0].Value) > 1e-9 {
		t.Errorf("the other contender: %+v, want value %v", other, onAll[0].Value)
	}
	if fmt.Sprint(told) != "[0 of 2 1 of 2]" {
		t.Errorf("told of contenders %v", told)
	}
	for i, c := range all { // more may join them there
		if c.Run.Value != kept[i].Run.Value || c.Rows != kept[i].Rows || c.Params != all[i].Params || fmt.Sprint(c.Params) != fmt.Sprint(kept[i].Params) {
			t.Errorf("candidate %d on the part: value %v on %d rows, was %v on %d", i, c.Run.Value, c.Rows, kept[i].Run.Value, kept[i].Rows)
		}
	}
}

// TestRefineByLevels: of two maxima within the gap on the part one is left behind
// on 16 times as many rows, and not taken to all of them.
func TestRefineByLevels(t *testing.T) {
	const part, level, n = 256, 16 * 256, 24 * 1024
	p, shareLeft, shareRight := pairs(t, n, part, 0.42, 0.56)
	on := firstBlocks(p, 1)
	l := likelihood(p, on)
	task := &Task{Steps: coreSteps(), Problem: p, Part: on}
	var all []*Candidate
	for _, q := range []*model.Params{shareLeft, shareRight} {
		r := climbed(t, p, on, q)
		all = append(all, &Candidate{Run: r, Params: l.Params(r.X), Rows: part})
	}
	slices.SortFunc(all, Compare)
	if gap := all[1].Run.Value - all[0].Run.Value; gap < SameOptimum(part) || gap > ContenderGap {
		t.Fatalf("a gap of %v on the part: the data decide nothing", gap)
	}
	best, err := task.refine(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	want := climbed(t, p, p.Rows, shareRight).Value
	if best.Rows != n || math.Abs(best.Run.Value-want) > 1e-9 {
		t.Errorf("best: %v on %d rows, want %v on %d", best.Run.Value, best.Rows, want, n)
	}
	for _, c := range all {
		if c.refined == nil {
			t.Error("a contender was not refined")
			continue
		}
		if c.refined == best {
			continue
		}
		want := climbed(t, p, model.Part(p.Rows, level), shareLeft).Value
		if c.refined.Rows != level || math.Abs(c.refined.Run.Value-want) > 1e-9 {
			t.Errorf("the one left behind: %v on %d rows, want %v on %d", c.refined.Run.Value, c.refined.Rows, want, level)
		}
	}
}

// TestRefineOnThePart: a candidate that converged on all rows is taken as it is;
// one that did not climbs on.
func TestRefineOnThePart(t *testing.T) {
	p, truth := drawn(t, identity.Family, 2, 4, 600, 0.2, 1, problem.Request{})
	l := likelihood(p, p.Rows)
	r := climbed(t, p, p.Rows, truth)
	for _, status := range []optim.Status{optim.Converged, optim.IterationLimit} {
		was := *r
		was.Status = status
		c := &Candidate{Run: &was, Params: l.Params(r.X), Rows: 600}
		best, err := (&Task{Steps: coreSteps(), Problem: p, Part: p.Rows}).refine(t.Context(), []*Candidate{c})
		if err != nil {
			t.Fatal(err)
		}
		if taken := best.Run == &was; taken != (status == optim.Converged) || best.Run.Status != optim.Converged || best.Run.Value > r.Value {
			t.Errorf("%v on all rows: taken as it is %v, value %v of %v", status, taken, best.Run.Value, r.Value)
		}
	}
}

// TestRefineWithKnownNoise: candidates climb with the noise free; the best ends
// at the maximum with the noise as given.
func TestRefineWithKnownNoise(t *testing.T) {
	for _, noise := range []problem.Noise{problem.Shared{Sigma: 0.5}, problem.PerExpert{Sigma: 0.5}} {
		p, truth := drawn(t, identity.Family, 2, 4, 600, 0.2, 1, problem.Request{Noise: noise})
		r := climbed(t, p, p.Rows, p.Shape.Adopt(truth))
		l := likelihood(p, p.Rows)
		best, err := (&Task{Steps: coreSteps(), Problem: p, Part: p.Rows}).refine(t.Context(), []*Candidate{{Run: r, Params: l.Params(r.X), Rows: 600}})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range best.Params.Sigma {
			if s != 0.5 {
				t.Errorf("%s: noise levels %v, want 0.5", noise.Name(), best.Params.Sigma)
			}
		}
		held := loss.NewLikelihood(p.Rows, p.G, best.Params, loss.Free{Regressors: true, Gating: true}, 1)
		grad := make([]float64, held.Dim())
		if v, err := held.Grad(t.Context(), grad, held.Theta(best.Params)); err != nil || v != best.Run.Value || floats.Norm(grad, 2) > 1e-6 || best.Run.Status != optim.Converged {
			t.Errorf("%s: value %v, want %v; gradient %v, %v, error %v", noise.Name(), best.Run.Value, v, floats.Norm(grad, 2), best.Run.Status, err)
		}
	}
}

// TestPerturb: where g has a kink so has the likelihood, and the maximum next to
// the truth is not the highest nearby: a search by hand among a hundred points
// about it finds one that is higher by 0.2 in the total, and so do the
// restarts. Where g has none they leave the run alone.
func TestPerturb(t *testing.T) {
	p, truth := drawn(t, relu.Family, 2, 4, 200, 0.5, 4, problem.Request{})
	l := likelihood(p, p.Rows)
	r := climbed(t, p, p.Rows, truth)
	rng, highest := rand.New(rand.NewPCG(1, 2)), r.Value
	for range 100 {
		theta := slices.Clone(r.X)
		for i := range theta {
			theta[i] += 0.07 * rng.NormFloat64() // about σ/√(n/4), a standard error
		}
		near, err := climb.Climb(t.Context(), l, theta, nil)
		if err != nil {
			t.Fatal(err)
		}
		highest = min(highest, near.Value)
	}
	const gain = 0.2 / 200
	if highest > r.Value-gain {
		t.Fatalf("the highest maximum nearby is %v, that next to the truth %v", highest, r.Value)
	}
	all := []*Candidate{{Run: r, Params: l.Params(r.X), Rows: 200}}
	best, err := (&Task{Steps: coreSteps(), Problem: p, Part: p.Rows}).refine(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	if best.Run.Value > r.Value-gain || best.Run.Iterations <= r.Iterations || best.Run.Status != optim.Converged {
		t.Errorf("value %v (%v) after %d iterations, want %v or less", best.Run.Value, best.Run.Status, best.Run.Iterations, r.Value-gain)
	}
	if !floats.EqualApprox(l.Theta(best.Params), best.Run.X, 1e-12) || !slices.Equal(best.Run.Trace[:len(r.Trace)], r.Trace) {
		t.Errorf("parameters %v and path %v of a run that ended at %v", best.Params, best.Run.Trace, best.Run.X)
	}

	smooth, truth := drawn(t, identity.Family, 2, 4, 200, 0.5, 4, problem.Request{})
	l = likelihood(smooth, smooth.Rows)
	r = climbed(t, smooth, smooth.Rows, truth)
	all = []*Candidate{{Run: r, Params: l.Params(r.X), Rows: 200}}
	if best, err = (&Task{Steps: coreSteps(), Problem: smooth, Part: smooth.Rows}).refine(t.Context(), all); err != nil || best.Run != r {
		t.Errorf("a likelihood without kinks: %+v, error %v", best.Run, err)
	}
}

// TestErrorStep: the covariance of the steps is the inverse of the information, of
// one that is far from diagonal. Bounds are four standard errors of a covariance
// over so many draws, √((c_ij² + c_ii·c_jj)/n).
func TestErrorStep(t *testing.T) {
	const n = 20_000
	information := mat.NewSymDense(3, []float64{4, 3, 0, 3, 9, -20, 0, -20, 100})
	var chol mat.Cholesky
	if !chol.Factorize(information) {
		t.Fatal("not positive definite")
	}
	var lower mat.TriDense
	chol.LTo(&lower)
	var want mat.Dense
	if err := want.Inverse(information); err != nil {
		t.Fatal(err)
	}
	rng, got := rand.New(rand.NewPCG(11, 0)), mat.NewSymDense(3, nil)
	for range n {
		got.SymRankOne(got, 1./n, mat.NewVecDense(3, errorStep(&lower, rng)))
	}
	for i := range 3 {
		for j := range 3 {
			c := want.At(i, j)
			if se := math.Sqrt((c*c + want.At(i, i)*want.At(j, j)) / n); math.Abs(got.At(i, j)-c) > 4*se {
				t.Errorf("covariance %d, %d is %v, want %v ± %v", i, j, got.At(i, j), c, se)
			}
		}
	}
	if step := errorStep(mat.NewTriDense(2, mat.Lower, []float64{1, 0, 1, 0}), rng); step != nil {
		t.Errorf("a step of %v where the information is singular", step)
	}
}

// TestOthersCompete: what was found otherwise is the best where it is higher, and only there.
func TestOthersCompete(t *testing.T) {
	p, top, merged := stuck(t)
	candidate := func(r *optim.Result) *Candidate {
		return &Candidate{Run: r, Params: likelihood(p, p.Rows).Params(r.X), Rows: 900}
	}
	for _, c := range []struct{ screened, other *optim.Result }{{merged, top}, {top, merged}} {
		all, others := []*Candidate{candidate(c.screened)}, []*Candidate{candidate(c.other)}
		best, err := (&Task{Steps: coreSteps(), Problem: p, Part: p.Rows, Others: others}).refine(t.Context(), all)
		if err != nil || math.Abs(best.Run.Value-top.Value) > 1e-9 || (best == others[0].refined) != (c.other == top) || others[0].refined == nil {
			t.Errorf("best %v of %v and %v, error %v", best.Run.Value, c.screened.Value, c.other.Value, err)
		}
	}
}

// TestOverlooked: of those that were not refined, the ones that stand higher on all rows than the best are; neither those
// that do not, nor any that failed or shrank.
func TestOverlooked(t *testing.T) {
	p, top, merged := stuck(t)
	l := likelihood(p, p.Rows)
	near := l.Params(top.X)
	near.RegressorIntercepts[0] += 0.05
	far := l.Params(merged.X)
	far.RegressorIntercepts[0] += 0.05
	candidate := func(q *model.Params, value float64) *Candidate {
		return &Candidate{Run: &optim.Result{X: l.Theta(q), Value: value}, Params: q, Rows: 512}
	}
	best := &Candidate{Run: merged, Params: l.Params(merged.X), Rows: 900}
	was := candidate(near, 0)
	was.refined = best
	higher, lower, shrunk, failed := candidate(near, 5), candidate(far, -5), candidate(near, 0), candidate(near, math.NaN())
	shrunk.Degenerate = true
	got, err := (&Task{Steps: coreSteps(), Problem: p, Part: firstBlocks(p, 2)}).overlooked(t.Context(), []*Candidate{was, lower, shrunk, failed, higher}, best)
	if err != nil || got != higher.refined || math.Abs(got.Run.Value-top.Value) > 1e-9 || got.Rows != 900 {
		t.Fatalf("%+v, error %v", got, err)
	}
	if was.refined != best || lower.refined != nil || shrunk.refined != nil || failed.refined != nil || was.Whole != nil || shrunk.Whole != nil || failed.Whole != nil {
		t.Error("others were looked at")
	}
	for _, c := range []*Candidate{higher, lower} {
		v, err := l.Value(t.Context(), l.Theta(c.Params))
		if err != nil || c.Whole == nil || *c.Whole != v {
			t.Errorf("on all rows %v, want %v, error %v", c.Whole, v, err)
		}
	}
	// The best stays where none is higher.
	stays := &Candidate{Run: top, Params: l.Params(top.X), Rows: 900}
	if got, err := (&Task{Steps: coreSteps(), Problem: p, Part: firstBlocks(p, 2)}).overlooked(t.Context(), []*Candidate{candidate(far, 0)}, stays); err != nil || got != stays {
		t.Errorf("%v, error %v", got, err)
	}
}

// TestExactNewton: where g is smooth and the climb gave up before, the best goes on until the gradient is rounding.
// Everything else stays as it is: what has settled, or a gate that separates or is held, what shrank or
// failed, and what is of other rows.
func TestExactNewton(t *testing.T) {
	p, truth := drawn(t, tanh.Family, 2, 4, 300, 0.3, 4, problem.Request{})
	short := func(p *problem.Problem, q *model.Params) *Candidate {
		l := likelihood(p, p.Rows)
		r, err := climb.Approach(t.Context(), l, l.Theta(q), nil)
		if err != nil {
			t.Fatal(err)
		}
		return &Candidate{Run: r, Params: l.Params(r.X), Rows: 300}
	}
	norm := func(c *Candidate) float64 {
		l := likelihood(p, p.Rows)
		grad := make([]float64, l.Dim())
		if _, err := l.Grad(t.Context(), grad, l.Theta(c.Params)); err != nil {
			t.Fatal(err)
		}
		return floats.Norm(grad, 2)
	}
	for name, c := range map[string]struct {
		p  *problem.Problem
		q  *model.Params
		is func(c *Candidate)
	}{
		"on its way":   {p, truth, nil},
		"settled":      {p, truth, func(c *Candidate) { c.Run.Settled = true }},
		"separates":    {p, truth, func(c *Candidate) { c.Groups = separation.UnderOne([]int{0, 1}) }},
		"held":         {p, truth, func(c *Candidate) { c.Ridge = 1e-3 }},
		"degenerate":   {p, truth, func(c *Candidate) { c.Degenerate = true }},
		"failed":       {p, truth, func(c *Candidate) { c.Run.Value = math.Inf(1) }},
		"of some rows": {p, truth, func(c *Candidate) { c.Rows = 256 }},
	} {
		got := short(c.p, c.q)
		if c.is != nil {
			c.is(got)
		}
		was := *got
		if err := (&Task{Steps: coreSteps(), Problem: c.p, Part: c.p.Rows}).exactNewton(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if stays := got.Run == was.Run && got.Params == was.Params; stays != (c.is != nil) {
			t.Errorf("%s: stays %v", name, stays)
		}
		if c.is != nil {
			continue
		}
		if before, after := norm(&was), norm(got); after > 1e-9 || before < 1e-6 {
			t.Errorf("gradient %v, was %v", after, before)
		}
		if got.Run.Iterations <= was.Run.Iterations || !slices.Equal(got.Run.Trace[:len(was.Run.Trace)], was.Run.Trace) || got.Run.Status != optim.Converged {
			t.Errorf("%d iterations after %d, %v", got.Run.Iterations, was.Run.Iterations, got.Run.Status)
		}
	}
}

// TestExactNewtonAtKinks: where g has kinks the best goes on to a maximum, from which no short step leads up, in any of
// many directions. What is there stays, to the byte.
func TestExactNewtonAtKinks(t *testing.T) {
	rng, below := rand.New(rand.NewPCG(2, 3)), 0
	for seed := range uint64(4) {
		p, truth := drawn(t, relu.Family, 2, 3, 400, 1, seed, problem.Request{})
		l := likelihood(p, p.Rows)
		r, err := climb.Climb(t.Context(), l, l.Theta(p.Shape.Adopt(truth)), nil)
		if err != nil {
			t.Fatal(err)
		}
		up := func(c *Candidate) bool {
			x, most := l.Theta(c.Params), 0.0
			here, err := l.LogLikelihood(t.Context(), c.Params)
			for range 300 {
				near := slices.Clone(x)
				for j := range near {
					near[j] += 1e-6 * rng.NormFloat64()
				}
				v, e := l.LogLikelihood(t.Context(), l.Params(near))
				most, err = max(most, v-here), errors.Join(err, e)
			}
			if err != nil {
				t.Fatal(err)
			}
			return most > 1e-13*math.Abs(here)
		}
		got := &Candidate{Run: r, Params: l.Params(r.X), Rows: 400}
		if up(got) {
			below++
		}
		task := &Task{Steps: coreSteps(), Problem: p, Part: p.Rows}
		if err := task.exactNewton(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		if got.Run.Status != optim.Converged || got.Run.Value > r.Value || up(got) {
			t.Errorf("seed %d: %v, from %v to %v, a step leads up %v", seed, got.Run.Status, r.Value, got.Run.Value, up(got))
		}
		was := *got
		if err := task.exactNewton(t.Context(), got); err != nil || got.Run != was.Run || got.Params != was.Params {
			t.Errorf("seed %d: it does not stay, error %v", seed, err)
		}
	}
	if below == 0 {
		t.Error("all climbs have ended at a maximum: that tells nothing")
	}
}

// TestPerturbable: where g has kinks, of up to restartRows rows.
func TestPerturbable(t *testing.T) {
	kinked, _ := drawn(t, relu.Family, 2, 3, 50, 0.1, 1, problem.Request{})
	smooth, _ := drawn(t, tanh.Family, 2, 3, 50, 0.1, 1, problem.Request{})
	for n, want := range map[int]bool{50: true, restartRows: true, restartRows + 1: false} {
		of := *kinked
		of.Rows = &model.Data{N: n, D: 3}
		if got := Kinked(&of); got != want {
			t.Errorf("%d rows: %v", n, got)
		}
	}
	if Kinked(smooth) {
		t.Error("maxima next to each other where g is smooth")
	}
}

// TestConcur: what agrees are those that became the best, or as good, on all rows, and those that ended on the part where
// these did, by the likelihood of both; not those that ended there as high at another place.
func TestConcur(t *testing.T) {
	p, shareLeft, shareRight := pairs(t, 900, 300, 1, 1.3)
	part := firstBlocks(p, 1)
	task := &Task{Steps: coreSteps(), Problem: p, Part: part}
	n, _ := part.Dims()
	on := func(q *model.Params, value float64) *Candidate {
		return &Candidate{Params: q, Rows: n, Run: &optim.Result{Value: value, Status: optim.Converged}}
	}
	l := loss.NewLikelihood(p.Rows, p.G, shareLeft, p.Shape.Free(), 1)
	best := ended(-2, optim.Converged, false)
	first := on(shareLeft, 1)
	first.refined = best
	equal := on(shareRight, 3)
	equal.refined = ended(-2+SameOptimum(p.Count()), optim.Converged, false)
	lower := on(shareRight, 1)
	lower.refined = ended(-2+1.01*SameOptimum(p.Count()), optim.Converged, false)
	shrunk := on(shareLeft, 1)
	shrunk.refined = ended(-2, optim.Converged, true)
	again, elsewhere, above := on(shareLeft.Clone(), 1+SameOptimum(float64(n))), on(anywhere(p, rand.New(rand.NewPCG(1, 1))), 1), on(shareLeft, 1+1.01*SameOptimum(float64(n)))
	slow := on(shareLeft, 1)
	slow.Run.Status = optim.IterationLimit
	all := []*Candidate{first, equal, lower, shrunk, again, elsewhere, above, slow}
	for _, c := range all[:4] {
		c.refined.Rows = p.N()
	}
	dropped := on(shareLeft, 1) // on some of the rows, of which the value says nothing
	dropped.refined = ended(5, optim.Converged, false)
	all = append(all, dropped)
	for _, c := range all {
		c.Agrees = true // on the part
	}
	if err := task.concur(t.Context(), all, best); err != nil {
		t.Fatal(err)
	}
	var got []bool
	for _, c := range all {
		got = append(got, c.Agrees)
	}
	if want := []bool{true, true, false, false, true, false, false, false, true}; !slices.Equal(got, want) {
		t.Errorf("agree %v, want %v", got, want)
	}
	if !best.Agrees || lower.refined.Agrees {
		t.Error("what became of them is not marked as they are")
	}
	if v, err := l.Value(t.Context(), l.Theta(shareLeft)); err != nil || again.Whole == nil || *again.Whole != v {
		t.Errorf("of all rows %v, want %v, %v", again.Whole, v, err)
	}
}

// TestAttempts: four that gain nothing end them, counted anew after a gain.
func TestAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		gains []int // attempts that gain
		made  int
		first []int
	}{
		"no gain":      {nil, 4, []int{1}},
		"the first":    {[]int{1}, 5, []int{1, 2}},
		"the last":     {[]int{4}, 8, []int{1, 5}},
		"two":          {[]int{3, 4}, 8, []int{1, 4, 5}},
		"one too late": {[]int{5}, 4, []int{1}},
	} {
		made := 0
		var first []int
		for try := (attempts{most: 4}); try.more(); {
			made++
			if try.first() {
				first = append(first, made)
			}
			if slices.Contains(c.gains, made) {
				try.gained()
			}
		}
		if made != c.made || !slices.Equal(first, c.first) {
			t.Errorf("%s: %d made, of which %v first, want %d and %v", name, made, first, c.made, c.first)
		}
	}
	if none := (attempts{}); none.more() {
		t.Error("an attempt of none")
	}
}
