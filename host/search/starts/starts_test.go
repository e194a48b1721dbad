package starts

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/moment"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/search/searchtest"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/tanh"
	"github.com/gatedlearning/moe/sdk"
)

// lines is a problem, of the identity if no other is given, with two experts over d standard normal features with
// regressors ±size·e_1 and noise size/10.
func lines(t *testing.T, d, k int, size float64, r problem.Request, of ...sdk.Family) *problem.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 7))
	x, y := mat.NewDense(800, d, nil), make([]float64, 800)
	for i := range y {
		for j := range d {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i] = size * (float64(1-2*(i%2))*x.At(i, 0) + 0.1*rng.NormFloat64())
	}
	r.K = k
	return searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, append(of, identity.Family)[0]), r)
}

// TestRandom: norms about the evidence's, e^{z/4} times as large with
// standard normal z, so that no two experts over a single feature are the same;
// directions of both signs; no gating, and noise as large as the target's rms. Of
// the features that experts do not see nothing. Bounds are four standard errors, 1
// in 16,000 for each.
func TestRandom(t *testing.T) {
	const draws, k = 200, 3
	for name, c := range map[string]struct {
		d    int
		size float64
		r    problem.Request
	}{
		"one feature":     {1, 1, problem.Request{}},
		"another scale":   {1, 30, problem.Request{}},
		"four features":   {4, 1, problem.Request{}},
		"part of them":    {4, 30, problem.Request{ExpertFeatures: []string{"x1", "x3"}}},
		"with intercepts": {2, 30, problem.Request{Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}}},
	} {
		p := lines(t, c.d, k, c.size, c.r)
		e := searchtest.Measure(t, p)
		if large := e.Norm > 10; large != (c.size > 10) {
			t.Fatalf("%s: norm %v", name, e.Norm)
		}
		start := Random(p, e)
		var logs, logs2, sign, squares float64
		for seed := range uint64(draws) {
			q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
			if err != nil {
				t.Fatal(err)
			}
			for i := range k {
				a := q.Regressor(i)
				z := math.Log(floats.Norm(a, 2) / e.Norm)
				logs, logs2 = logs+z, logs2+z*z
				sign += math.Copysign(1, a[0])
				for j, v := range a {
					if seen := c.r.ExpertFeatures == nil || j%2 == 0; seen != (v != 0) {
						t.Errorf("%s: regressor %v", name, a)
					}
				}
				for other := range i {
					if floats.Equal(q.Regressor(other), a) {
						t.Errorf("%s: experts %d and %d are the same: %v", name, other, i, a)
					}
				}
				if q.SigmaOf(i) != p.RMS() {
					t.Errorf("%s: noise level %v, the target's rms is %v", name, q.SigmaOf(i), p.RMS())
				}
			}
			squares += floats.Dot(q.RegressorIntercepts, q.RegressorIntercepts) / (p.RMS() * p.RMS())
			if floats.Norm(q.Gating, 2) != 0 || q.GatingIntercepts != nil && floats.Norm(q.GatingIntercepts, 2) != 0 {
				t.Errorf("%s: gating %v, %v", name, q.Gating, q.GatingIntercepts)
			}
		}
		const n = draws * k
		if mean := logs / n; math.Abs(mean) > 4*0.25/math.Sqrt(n) {
			t.Errorf("%s: norms %v times the scale on average", name, math.Exp(mean))
		}
		if spread := logs2 / n * 16; math.Abs(spread-1) > 4*math.Sqrt(2./n) {
			t.Errorf("%s: norms spread by e^{%v·z/4}", name, math.Sqrt(spread))
		}
		if math.Abs(sign/n) > 4/math.Sqrt(n) {
			t.Errorf("%s: signs are %v on average", name, sign/n)
		}
		if c.r.Intercepts == problem.BothIntercepts && math.Abs(squares/n-1) > 4*math.Sqrt(2./n) {
			t.Errorf("%s: intercepts of mean square %v, in units of the rms", name, squares/n)
		}
	}
}

// TestOwn: the user's start, in the units of the fit, predicts what it did in the
// user's. Its noise is a tenth of the target's rms at least; what the shape does
// not have is left out; the start itself is not changed.
func TestOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	x, y := mat.NewDense(500, 2, nil), make([]float64, 500)
	for i := range y {
		x.SetRow(i, []float64{50 + 7*rng.NormFloat64(), 1e-3 * rng.ExpFloat64()})
		y[i] = x.At(i, 0) + rng.NormFloat64()
	}
	p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts, Noise: problem.PerExpert{}, Gate: problem.Softmax{Features: []string{"x2"}}})
	own := p.Shape.Blank(0)
	copy(own.Regressors, []float64{1, -200, 0.5, 300})
	copy(own.Gating, []float64{9, 400})
	copy(own.RegressorIntercepts, []float64{3, -4})
	copy(own.GatingIntercepts, []float64{0.5})
	copy(own.Sigma, []float64{1e-3, 40})
	was := own.Clone()
	q, err := Own(p, own).Draw(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(own) != fmt.Sprint(was) {
		t.Errorf("the start is now %v", own)
	}
	if got, want := q.Sigma[0], p.RMS()/10; math.Abs(got-want) > 1e-12*want || q.Sigma[1] != 40 {
		t.Errorf("noise levels %v, want %v and 40", q.Sigma, want)
	}
	if q.Gating[0] != 0 || q.Gating[1] == 0 {
		t.Errorf("gating %v of a gate that sees x2", q.Gating)
	}
	plain := lines(t, 2, 2, 1, problem.Request{})
	own2 := plain.Shape.Blank(1e-3)
	if q, err := Own(plain, own2).Draw(t.Context(), nil); err != nil || q.Sigma[0] == 1e-3 || own2.Sigma[0] != 1e-3 {
		t.Errorf("noise %v of a start in the fit's own units, now %v, error %v", q.Sigma, own2.Sigma, err)
	}
	b, err := p.Rows.Block(1, new(model.Room))
	if err != nil {
		t.Fatal(err)
	}
	for r := range b.N {
		for i := range 2 {
			in := q.RegressorIntercepts[i] + q.Regressor(i)[0]*b.Col(0)[r] + q.Regressor(i)[1]*b.Col(1)[r]
			row := x.RawRowView(256 + r)
			if out := own.RegressorIntercepts[i] + floats.Dot(own.Regressor(i), row); math.Abs(in-out) > 1e-10*math.Abs(out) {
				t.Fatalf("row %d, expert %d: %v in the fit's units, %v in the user's", 256+r, i, in, out)
			}
		}
	}
}

// TestMomentsStart: the estimate's regressors, as long as the target asks for,
// and the gate and the noise that fit them best on the part.
func TestMomentsStart(t *testing.T) {
	for _, r := range []problem.Request{{}, {Gate: problem.Softmax{Features: []string{"x3", "x4"}}}} {
		p, truth := searchtest.Drawn(t, identity.Family, 2, 5, 4000, 0.1, 2, r)
		e := searchtest.Measure(t, p)
		e.Norm = 1.5
		est, obstacle, err := moment.EstimateParams(t.Context(), p, e, 0)
		if est == nil {
			t.Fatalf("no moment estimate: %s, error %v", obstacle, err)
		}
		part := model.Part(p.Rows, 1000)
		was := est.Params.Clone()
		q, err := Moments(p, e, KindMoments, est, part).Draw(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(est.Params) != fmt.Sprint(was) {
			t.Error("the estimate has changed")
		}
		for i, v := range q.Regressors {
			if v != 1.5*was.Regressors[i] {
				t.Errorf("regressors %v, estimated %v", q.Regressors, was.Regressors)
				break
			}
		}
		free := loss.Free{Gating: true, Sigma: true, GateColumns: p.Shape.Gate}
		l := loss.NewLikelihood(part, p.G, q, free, 1)
		l.PenaliseGate(ScreenRidge)
		grad := make([]float64, l.Dim())
		value, err := l.Grad(t.Context(), grad, l.Theta(q))
		if err != nil || floats.Norm(grad, 2) > 1e-6 { // Newton's last step leaves less
			t.Errorf("gradient %v at the gate, error %v", grad, err)
		}
		none := p.Shape.Adopt(q)
		clear(none.Gating)
		if flat, err := l.Value(t.Context(), l.Theta(none)); err != nil || flat < value+0.01 {
			t.Errorf("value %v, without a gate %v, error %v", value, flat, err)
		}
		if r.Gate != nil && (q.Gating[0] != 0 || q.Gating[1] != 0 || q.Gating[4] != 0) {
			t.Errorf("gating %v of a gate that sees x3 and x4", q.Gating)
		}
		_, perm := metric.Ereg(q, truth)
		if e := metric.Egating(q, truth, perm); e > 0.1 { // of directions over 1000 rows
			t.Errorf("the gate is off by %v", e)
		}
	}
}

// TestFitGate begins with a gate of 0 and noise as large as the target's rms,
// whatever it is given.
func TestFitGate(t *testing.T) {
	p, truth := searchtest.Drawn(t, identity.Family, 3, 6, 1000, 0.1, 2, problem.Request{})
	q := truth.Clone()
	q.Sigma[0] = 123
	clear(q.Gating)
	was := q.Clone()
	got, run, err := FitGate(t.Context(), p, p.Rows, q, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(q) != fmt.Sprint(was) || !floats.Equal(got.Regressors, truth.Regressors) {
		t.Error("the regressors have changed, or what was given")
	}
	begin := q.Clone()
	begin.Sigma[0] = p.RMS()
	l := loss.NewLikelihood(p.Rows, p.G, begin, loss.All, 1)
	if v, err := l.Value(t.Context(), l.Theta(begin)); err != nil || math.Abs(v-run.Trace[0]) > 1e-12 {
		t.Errorf("begins at %v, want %v, error %v", run.Trace[0], v, err)
	}
	// The truth is 15 standard errors or less from the maximum: χ²₁₁/2 is above 25
	// once in 1e6 times.
	top, err := l.Value(t.Context(), l.Theta(truth))
	if err != nil || run.Value > top || run.Value < top-25./1000 {
		t.Errorf("ends at %v, the truth is at %v, error %v", run.Value, top, err)
	}
}

// TestSubspaceStart: a start lies in the subspace, so that its likelihood is that
// of what it is of the projected rows, and it is fitted there: EM crawls, and so
// it is far above a start that is not, and regressors are near the truth in some.
func TestSubspaceStart(t *testing.T) {
	const k, d = 3, 9
	p, truth := searchtest.Drawn(t, identity.Family, k, d, 4000, 0.1, 3, problem.Request{Intercepts: problem.BothIntercepts})
	e := searchtest.Measure(t, p)
	part := model.Part(p.Rows, 1500)
	projected, err := model.InMemory(t.Context(), e.Subspace.Project(part), 1)
	if err != nil {
		t.Fatal(err)
	}
	start := Subspace(p, e, projected)
	near := 0
	for seed := range uint64(10) {
		q, err := start.Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		small := model.NewParams(k, k)
		small.RegressorIntercepts, small.GatingIntercepts, small.Sigma = q.RegressorIntercepts, q.GatingIntercepts, q.Sigma
		for what, rows := range map[string][2][]float64{"regressors": {q.Regressors, small.Regressors}, "gating": {q.Gating, small.Gating}} {
			var b mat.Dense
			full := mat.NewDense(len(rows[1])/k, d, rows[0])
			if err := b.Solve(e.Subspace.Basis, full.T()); err != nil {
				t.Fatal(err)
			}
			copy(rows[1], mat.DenseCopyOf(b.T()).RawMatrix().Data)
			var back mat.Dense
			back.Mul(e.Subspace.Basis, &b)
			if !mat.EqualApprox(&back, full.T(), 1e-12) {
				t.Errorf("%s %v do not lie in the subspace", what, rows[0])
			}
		}
		lifted, below := loss.NewLikelihood(part, p.G, q, loss.All, 1), loss.NewLikelihood(projected, p.G, small, loss.All, 1)
		v, err := lifted.Value(t.Context(), lifted.Theta(q))
		if err != nil {
			t.Fatal(err)
		}
		next := make([]float64, below.Dim())
		u, err := below.EMStep(t.Context(), next, below.Theta(small))
		if err != nil || math.Abs(u-v) > 1e-10 {
			t.Errorf("value %v, of the projected rows %v, error %v", v, u, err)
		}
		// An iteration of EM gained less than 1e−4; those after it gain less and
		// less, but for the ends of plateaus.
		if w, err := below.Value(t.Context(), next); err != nil || u-w > 1e-3 {
			t.Errorf("another iteration of EM in the subspace gains %v, error %v", u-w, err)
		}
		if e, _ := metric.Ereg(q, truth); e < 0.05 {
			near++
		}
	}
	// Directions that are not fitted are all within 0.05 of three orthogonal ones
	// once in some 300 times.
	if near < 5 {
		t.Errorf("%d of 10 starts are near the truth", near)
	}
}

// TestSubspaceOfMany: of ten experts with 500 parameters moves carry on the small mixture. Three of three starts are then higher, by more
// than .01 in the mean log-likelihood, than by the EM alone that fewer parameters have.
func TestSubspaceOfMany(t *testing.T) {
	testslow.Mark(t)
	p, _ := searchtest.Drawn(t, relu.Family, 10, 27, 4000, 0.05, 3, problem.Request{})
	if !Costly(p) {
		t.Fatalf("%d parameters", p.Shape.Parameters())
	}
	e := searchtest.Measure(t, p)
	projected, err := model.InMemory(t.Context(), e.Subspace.Project(p.Rows), 1)
	if err != nil {
		t.Fatal(err)
	}
	few := *p
	few.Shape.Gate = []int{0} // too few parameters for moves
	for seed := range uint64(3) {
		value := func(of *problem.Problem) float64 {
			q, err := Subspace(of, e, projected).Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
			if err != nil {
				t.Fatal(err)
			}
			q = p.Shape.Adopt(q)
			l := loss.NewLikelihood(p.Rows, p.G, q, p.Shape.Free(), 1)
			v, err := l.Value(t.Context(), l.Theta(q))
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		if carried, not := value(p), value(&few); carried > not-0.01 {
			t.Errorf("seed %d: %v with moves, %v without", seed, carried, not)
		}
	}
}

// TestRandomOutput: of means c + s·g intercepts are in units of the predictor, which the
// regressors' norm tells, and not of y. The bound is four standard errors.
func TestRandomOutput(t *testing.T) {
	const draws, k = 300, 2
	p := lines(t, 2, k, 30, problem.Request{Intercepts: problem.BothIntercepts, Output: problem.SharedScale}, tanh.Family)
	e := searchtest.Measure(t, p)
	if ratio := p.RMS() / e.Norm; math.Abs(ratio-1) < 0.3 {
		t.Fatalf("rms %v, norm %v: the units decide nothing", p.RMS(), e.Norm)
	}
	squares := 0.0
	for seed := range uint64(draws) {
		q, err := Random(p, e).Draw(t.Context(), rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		squares += floats.Dot(q.RegressorIntercepts, q.RegressorIntercepts) / (e.Norm * e.Norm)
	}
	if mean := squares / (draws * k); math.Abs(mean-1) > 4*math.Sqrt(2./(draws*k)) {
		t.Errorf("intercepts of mean square %v, in units of the norm", mean)
	}
}

// TestSpread: directions are orthogonal where the subspace is whitened, and have the norm that is asked for.
func TestSpread(t *testing.T) {
	const k, norm = 4, 2.5
	values := []float64{9, 4, 1, 0.01}
	for seed := range uint64(3) {
		rows := mat.NewDense(k, k, spread(rand.New(rand.NewPCG(seed, 0)), values, norm))
		for i := range k {
			if got := floats.Norm(rows.RawRowView(i), 2); math.Abs(got-norm) > 1e-12 {
				t.Errorf("direction %d is of norm %v, want %v", i, got, norm)
			}
			for other := range i {
				dot, a, b := 0.0, 0.0, 0.0
				for j, v := range values {
					x, y := rows.At(i, j), rows.At(other, j)
					dot, a, b = dot+x*y/v, a+x*x/v, b+y*y/v
				}
				if math.Abs(dot) > 1e-10*math.Sqrt(a*b) {
					t.Errorf("whitened directions %d and %d have the product %v", i, other, dot)
				}
			}
		}
	}
}

// TestKMeansStart: the rows fall into two clusters by their first feature, with
// lines of opposite slopes over the second; the target is in units of a
// thousandth, of one and of a thousand. Not brought to one size, k-means would
// cluster on the largest, and a line over rows of both clusters has slope 0.
// Features that experts do not see have no coefficient.
func TestKMeansStart(t *testing.T) {
	const n = 600
	rng := rand.New(rand.NewPCG(6, 6))
	for _, unit := range []float64{1e-3, 1, 1e3} {
		x, y := mat.NewDense(n, 3, nil), make([]float64, n)
		for i := range y {
			side := float64(1 - 2*(i%2))
			x.SetRow(i, []float64{side + 0.1*rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
			y[i] = unit * (side*x.At(i, 1) + 0.1*rng.NormFloat64())
		}
		for _, seen := range [][]string{nil, {"x2"}} {
			p := searchtest.Load(t, dataset.Matrix(x, y), searchtest.Activation(t, identity.Family), problem.Request{K: 2, Intercepts: problem.BothIntercepts, ExpertFeatures: seen})
			start := KMeans(p, p.Rows)
			slopes := 0
			for seed := range uint64(10) {
				q, err := start.Draw(context.Background(), rand.New(rand.NewPCG(seed, 0)))
				if err != nil {
					t.Fatal(err)
				}
				if a, b := q.Regressor(0), q.Regressor(1); math.Abs(math.Abs(a[1]-b[1])/(2*unit)-1) < 0.05 && math.Abs(a[1]+b[1]) < 0.05*unit {
					slopes++
				}
				for i := range 2 {
					if a := q.Regressor(i); seen != nil && (a[0] != 0 || a[2] != 0) {
						t.Errorf("regressor %v of experts that see %v", a, seen)
					}
				}
				if got, want := q.Sigma[0], p.RMS()/2; got != want || floats.Norm(q.Gating, 2) != 0 {
					t.Errorf("noise level %v, want %v; gating %v, want none", got, want, q.Gating)
				}
			}
			// Of 10 draws k-means may come to rest elsewhere once or twice.
			if slopes < 8 {
				t.Errorf("unit %g: the clusters' lines were found by %d of 10 draws", unit, slopes)
			}
		}
	}
}
