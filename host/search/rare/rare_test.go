package rare

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/optim"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search"
	"github.com/gatedlearning/moe/host/search/climb"
	"github.com/gatedlearning/moe/host/search/separation"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

func activation(t testing.TB, family sdk.Family) sdk.Activation {
	t.Helper()
	act, err := family.Activation(nil)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

func likelihood(p *problem.Problem) *loss.Likelihood {
	return loss.NewLikelihood(p.Rows, p.G, p.Shape.Blank(1), p.Shape.Free(), 1)
}

// farKink is a problem of two ReLU experts, too large for a survey, with its truth. The second has one row
// in 200 and a kink that leaves a fifth of them on the side on which it is not 0.
func farKink(t testing.TB, n int) (p *problem.Problem, truth *model.Params) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for r := range y {
		u, v := rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(r, []float64{u, v})
		z := 1 + u
		if r%200 == 0 {
			z = 3*v - 2.5
		}
		y[r] = max(z, 0) + 0.1*rng.NormFloat64()
	}
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), activation(t, relu.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts, Seed: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	q := p.Shape.Blank(0.1)
	copy(q.Regressors, []float64{1, 0, 0, 3})
	copy(q.RegressorIntercepts, []float64{1, -2.5})
	q.GatingIntercepts[0] = math.Log(199)
	return p, p.Shape.Adopt(p.Units.Into(q))
}

// TestOpeningIsTheLikelihood: with all rows open, its value is the log-likelihood up to a constant, as that of all
// rows computes it; and a climb never ends below where it began.
func TestOpeningIsTheLikelihood(t *testing.T) {
	p, truth := farKink(t, 4000)
	all, err := openings(t.Context(), p, truth, p.N(), math.Inf(-1))
	if err != nil || len(all) != 2 {
		t.Fatalf("%d openings, %v", len(all), err)
	}
	l := likelihood(p)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, o := range all {
		constant := math.NaN()
		for range 5 {
			a := []float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
			v, err := o.value(t.Context(), p.G, a)
			if err != nil {
				t.Fatal(err)
			}
			want, err := l.LogLikelihood(t.Context(), o.with(truth, a))
			if err != nil {
				t.Fatal(err)
			}
			if math.IsNaN(constant) {
				constant = v - want
			}
			if math.Abs(v-want-constant) > 1e-8*math.Abs(want) { // rounding of 4,000 terms
				t.Errorf("expert %d at %.2f: %.9g, the likelihood %.9g", o.expert, a, v, want+constant)
			}
			if after, err := o.climb(t.Context(), p.G, a); err != nil || after < v {
				t.Errorf("expert %d: a climb from %.6g ends at %.6g, %v", o.expert, v, after, err)
			}
		}
	}
}

// TestPlaceRare: an expert of few rows that is 0 at all of them has no gradient, and is placed where the truth
// leads to; there it stays, to the byte.
func TestPlaceRare(t *testing.T) {
	p, truth := farKink(t, 20_500)
	dead := truth.Clone()
	clear(dead.Regressor(1))
	dead.RegressorIntercepts[1] = -1
	l := likelihood(p)
	ends := func(q *model.Params) *search.Candidate {
		run, err := climb.Climb(t.Context(), l, l.Theta(q), nil)
		if err != nil || run.Status != optim.Converged {
			t.Fatal(run.Status, err)
		}
		return &search.Candidate{Run: run, Params: l.Params(run.X), Rows: p.N()}
	}
	c, best := ends(dead), ends(truth)
	n := float64(p.N())
	if below := n * (c.Run.Value - best.Run.Value); below < 20 {
		t.Fatalf("the dead expert is only %.3g below the best: the test shows nothing", below)
	}
	task, step, was := &search.Task{Problem: p}, []search.Step{Places()}, c.Run.Value
	c, err := search.Make(t.Context(), task, step, c, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Gains) != 1 || c.Gains[0].Step != "rare experts" || c.Gains[0].LogLikelihood != n*(was-c.Run.Value) {
		t.Errorf("from %v to %v the record is %+v", was, c.Run.Value, c.Gains)
	}
	const slack = 0.01 // of the total log-likelihood, to which a climb goes
	if below := n * (c.Run.Value - best.Run.Value); below > slack {
		t.Errorf("placed %.3g below the best", below)
	}
	there := slices.Clone(best.Run.X)
	if best, err = search.Make(t.Context(), task, step, best, 0); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(there, best.Run.X) && !(best.Run.Value < c.Run.Value) {
		t.Error("the best has moved and gained nothing")
	}
}

// TestAppliesWhere there is one gate with normal noise, g has kinks, and the table is too large for a survey and not for places.
func TestAppliesWhere(t *testing.T) {
	p, _ := farKink(t, 20_500)
	c := &search.Candidate{}
	small, _ := farKink(t, 4000)
	smooth, tree, one, scaled, linked := *p, *p, *p, *p, *p
	smooth.Activation = activation(t, tanh.Family)
	binary, err := model.ParseHierarchy("2x2")
	if err != nil {
		t.Fatal(err)
	}
	tree.Shape.Tree = binary
	one.Shape.K = 1
	scaled.Shape.Output = new(problem.Output)
	linked.Link = new(problem.Link)
	for name, of := range map[string]struct {
		p    *problem.Problem
		want bool
	}{"kinks and rows": {p, true}, "few rows": {small, false}, "smooth": {&smooth, false}, "a tree": {&tree, false}, "one expert": {&one, false}, "an output": {&scaled, false}, "a density": {&linked, false}} {
		if got := applies(&search.Task{Problem: of.p}, c); got != of.want {
			t.Errorf("%s: %v, want %v", name, got, of.want)
		}
	}
	c.Groups = new(separation.Groups)
	if applies(&search.Task{Problem: p}, c) {
		t.Error("applies where a gate separates")
	}
}

// openRows is an opening of expert 0 of an identity or another g: rows of two features and ones, with weights, and odds
// from −3 to 3.
func openRows(n int, seed uint64) *opening {
	rng := rand.New(rand.NewPCG(seed, 7))
	o := &opening{columns: []int{0, 1, 2}, sigma: 0.5}
	x := mat.NewDense(n, 3, nil)
	for r := range n {
		x.SetRow(r, []float64{rng.NormFloat64(), rng.NormFloat64(), 1})
		o.y = append(o.y, x.At(r, 0)/2+0.4*rng.NormFloat64())
		o.weight, o.odds = append(o.weight, 0.5+rng.Float64()), append(o.odds, 6*rng.Float64()-3)
	}
	o.prepare(x)
	return o
}

// ridgedLines are the coefficients of least squares of rows times root on right, with the ridge of an opening, by QR.
func ridgedLines(t *testing.T, x *mat.Dense, root, right []float64) []float64 {
	t.Helper()
	n, d := x.Dims()
	rows, target := mat.NewDense(n+d, d, nil), mat.NewVecDense(n+d, nil)
	trace := 0.0
	for r := range n {
		for j := range d {
			v := root[r] * x.At(r, j)
			rows.Set(r, j, v)
			trace += v * v
		}
		target.SetVec(r, right[r])
	}
	for j := range d {
		rows.Set(n+j, j, math.Sqrt(placingRidge*trace/float64(d)))
	}
	var out mat.VecDense
	if err := out.SolveVec(rows, target); err != nil {
		t.Fatal(err)
	}
	return out.RawVector().Data
}

// TestOpeningSteps: the posteriors are those of two, the expert and the rest, the step is that of least squares with g as
// its tangent, and a climb ends at the best of its path, where a step gains nothing that counts.
func TestOpeningSteps(t *testing.T) {
	const n = 40
	for _, family := range []sdk.Family{identity.Family, tanh.Family} {
		act := activation(t, family)
		for seed := range uint64(4) {
			o := openRows(n, seed)
			a := []float64{0.4, -0.3, 0.2}
			before, err := o.value(t.Context(), act, a)
			if err != nil {
				t.Fatal(err)
			}
			root, right, sum := make([]float64, n), make([]float64, n), 0.0
			for r := range n {
				z := floats.Dot(a, o.x.RawRowView(r))
				g, slope := []float64{z}, []float64{1}
				if err := errors.Join(act.Eval(t.Context(), g, []float64{z}), act.Deriv(t.Context(), slope, []float64{z})); err != nil {
					t.Fatal(err)
				}
				e := (o.y[r] - g[0]) / o.sigma
				post := math.Exp(o.odds[r]-e*e/2) / (1 + math.Exp(o.odds[r]-e*e/2))
				if math.Abs(o.post[r]-post) > 1e-12 {
					t.Errorf("posterior %v of row %d, want %v", o.post[r], r, post)
				}
				root[r] = math.Sqrt(o.weight[r]*post) * slope[0]
				right[r] = math.Sqrt(o.weight[r]*post) * (o.y[r] - g[0])
				sum += o.weight[r] / (1 + math.Exp(-o.odds[r]))
				if math.Abs(o.chance[r]-sum) > 1e-12 {
					t.Errorf("chances up to row %d are %v, want %v", r, o.chance[r], sum)
				}
			}
			if len(o.chance) != n {
				t.Errorf("%d chances", len(o.chance))
			}
			if none, err := o.maximise(t.Context(), act); none || err != nil {
				t.Fatalf("none %v, error %v", none, err)
			}
			if got, want := o.step.RawVector().Data, ridgedLines(t, o.x, root, right); !floats.EqualApprox(got, want, 1e-10) {
				t.Errorf("step %v, want %v", got, want)
			}
			top, err := o.climb(t.Context(), act, a)
			if err != nil {
				t.Fatal(err)
			}
			there, err := o.value(t.Context(), act, a)
			if err != nil || there != top || top <= before {
				t.Errorf("from %v to %v, said %v, error %v", before, there, top, err)
			}
			if none, err := o.maximise(t.Context(), act); none || err != nil {
				t.Fatalf("none %v, error %v", none, err)
			}
			floats.Add(a, o.step.RawVector().Data)
			if next, err := o.value(t.Context(), act, a); err != nil || next-top >= placingGain {
				t.Errorf("another step leads from %v to %v, error %v", top, next, err)
			}
		}
	}
	flat := openRows(n, 1)
	flat.x.Zero()
	if _, err := flat.value(t.Context(), activation(t, identity.Family), []float64{1, 1, 1}); err != nil {
		t.Fatal(err)
	}
	if none, err := flat.maximise(t.Context(), activation(t, identity.Family)); !none || err != nil {
		t.Errorf("a step where no feature varies, error %v", err)
	}
}

// TestOpeningDraws: over one feature and ones a draw is the line of the rows from one row on, to one of both sides, each with
// its chance; the row is never one that has none, and that with half of all in half of the draws, within four standard errors.
func TestOpeningDraws(t *testing.T) {
	const n, draws = 12, 200
	rng := rand.New(rand.NewPCG(3, 7))
	o := &opening{columns: []int{0, 1}, sigma: 0.5}
	x := mat.NewDense(n, 2, nil)
	for r := range n {
		x.SetRow(r, []float64{float64(r) + 0.3*rng.Float64(), 1})
		o.y = append(o.y, rng.NormFloat64())
		o.weight, o.odds = append(o.weight, 1), append(o.odds, 40)
	}
	o.odds[3], o.odds[7] = -60, -60
	o.weight[5] = n - 3
	o.prepare(x)
	sides := map[[2]int][]float64{}
	for r := range n {
		for _, up := range []int{0, 1} {
			root, right := make([]float64, n), make([]float64, n)
			for i := range n {
				if (up == 1 && i >= r || up == 0 && i <= r) && i != 3 && i != 7 {
					root[i] = math.Sqrt(o.weight[i])
					right[i] = root[i] * o.y[i]
				}
			}
			sides[[2]int{r, up}] = ridgedLines(t, x, root, right)
		}
	}
	heavy := 0
	for range draws {
		a := o.draw(rng)
		found := [2]int{-1, -1}
		for side, want := range sides {
			if side[0] != 3 && side[0] != 7 && floats.EqualApprox(a, want, 1e-6) {
				found = side
			}
		}
		if found[0] < 0 {
			t.Fatalf("%v is the line of no side", a)
		}
		if found[0] == 5 {
			heavy++
		}
	}
	if math.Abs(float64(heavy)-draws/2) > 4*math.Sqrt(draws)/2 {
		t.Errorf("the heavy row was drawn %d times of %d", heavy, draws)
	}
}

// TestPlaces of an expert whose open rows lie on two lines: both are found, the one of more rows first, and no two places
// are the same optimum.
func TestPlaces(t *testing.T) {
	const n = 60
	rng := rand.New(rand.NewPCG(4, 7))
	o := &opening{columns: []int{0, 1}, sigma: 0.1}
	x := mat.NewDense(n, 2, nil)
	for r := range n {
		x.SetRow(r, []float64{1.2*rng.Float64() - 1, 1})
		y := 3 + x.At(r, 0)
		if r%3 == 0 {
			x.Set(r, 0, 0.4+0.6*rng.Float64())
			y = -3 - 2*x.At(r, 0)
		}
		o.y = append(o.y, y+0.1*rng.NormFloat64())
		o.weight, o.odds = append(o.weight, 1), append(o.odds, 4)
	}
	o.prepare(x)
	places, err := o.places(t.Context(), activation(t, identity.Family), rng)
	if err != nil || len(places) < 2 || len(places) > mostPlaced {
		t.Fatalf("%v, error %v", places, err)
	}
	for i, p := range places {
		if v, err := o.value(t.Context(), activation(t, identity.Family), p.a); err != nil || v != p.value {
			t.Errorf("place %d has %v, said %v, error %v", i, v, p.value, err)
		}
		if i > 0 && p.value >= places[i-1].value-placesApart {
			t.Errorf("place %d at %v after %v", i, p.value, places[i-1].value)
		}
	}
	// Four standard errors of slope and level from 20 rows over 0.6 are 0.5 and 0.4, from 40 over 1.2 less.
	if !floats.EqualApprox(places[0].a, []float64{1, 3}, 0.5) || !slices.ContainsFunc(places, func(p place) bool { return floats.EqualApprox(p.a, []float64{-2, -3}, 0.5) }) {
		t.Errorf("places %+v", places)
	}
}
