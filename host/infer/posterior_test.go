package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
)

// TestSampleOfTwoNormals: draws from 0.7·N(0, S) + 0.3·N((6, 6, 6), T) have the shares, means and quantiles of that. The
// proposals know of the modes, and nothing of the shares but what a density at a maximum says. A thousand draws
// are worth at least 150 that are independent, as jumps are accepted in most cases: four standard errors.
func TestSampleOfTwoNormals(t *testing.T) {
	precisions := []*mat.SymDense{
		mat.NewSymDense(3, []float64{2, 0.9, 0, 0.9, 1, 0.2, 0, 0.2, 3}),
		mat.NewSymDense(3, []float64{0.5, 0, 0.1, 0, 4, -1, 0.1, -1, 1}),
	}
	centres, shares := [][]float64{{0, 0, 0}, {6, 6, 6}}, []float64{0.7, 0.3}
	part := func(grad, theta []float64, i int) float64 { // log density of one
		off := mat.NewVecDense(3, floats.SubTo(make([]float64, 3), theta, centres[i]))
		turned := mat.NewVecDense(3, nil)
		turned.MulVec(precisions[i], off)
		if grad != nil {
			floats.ScaleTo(grad, -1, turned.RawVector().Data)
		}
		det, _ := mat.LogDet(precisions[i])
		return math.Log(shares[i]) + det/2 - mat.Dot(off, turned)/2
	}
	log := func(grad, theta []float64) (float64, error) {
		var grads [2][]float64
		var logs [2]float64
		for i := range logs {
			grads[i] = make([]float64, 3)
			logs[i] = part(grads[i], theta, i)
		}
		total := floats.LogSumExp(logs[:])
		if grad != nil {
			clear(grad)
			for i := range logs {
				floats.AddScaled(grad, math.Exp(logs[i]-total), grads[i])
			}
		}
		return total, nil
	}
	var modes []Mode
	for i := range centres {
		modes = append(modes, Mode{centres[i], part(nil, centres[i], i), precisions[i]})
	}
	got, err := Sample(log, modes, rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if worth := 150.0; math.Abs(got.Shares[0]-0.7) > 4*math.Sqrt(0.7*0.3/worth) {
		t.Errorf("shares %v, want 0.7 and 0.3", got.Shares)
	}
	for j := range 3 {
		var first []float64
		for _, d := range got.Draws {
			if d[0]+d[1]+d[2] < 9 {
				first = append(first, d[j])
			}
		}
		var inverse mat.SymDense
		var chol mat.Cholesky
		chol.Factorize(precisions[0])
		if err := chol.InverseTo(&inverse); err != nil {
			t.Fatal(err)
		}
		want := math.Sqrt(inverse.At(j, j))
		if mean, sd := stat.MeanStdDev(first, nil); math.Abs(mean) > 4*want/math.Sqrt(100) || math.Abs(sd/want-1) > 4/math.Sqrt(200) {
			t.Errorf("coordinate %d: mean %.3f, standard deviation %.3f, want 0 and %.3f", j+1, mean, sd, want)
		}
	}
}

// TestSampleOfSkewDensity: of the logarithms of independent Gamma(2) variables, far from normal, the ends of the interval have
// the tails that they should by the distribution itself. The standard error of a tail of 2.5 % is 1 % by 250 independent draws.
func TestSampleOfSkewDensity(t *testing.T) {
	const d = 10
	log := func(grad, theta []float64) (v float64, _ error) {
		for i, x := range theta {
			v += 2*x - math.Exp(x)
			if grad != nil {
				grad[i] = 2 - math.Exp(x)
			}
		}
		return v, nil
	}
	mode := Mode{Theta: make([]float64, d), Bend: mat.NewSymDense(d, nil)}
	for i := range d {
		mode.Theta[i] = math.Log(2)
		mode.Bend.SetSym(i, i, 2)
	}
	mode.Log, _ = log(nil, mode.Theta)
	got, err := Sample(log, []Mode{mode}, rand.New(rand.NewPCG(2, 0)))
	if err != nil {
		t.Fatal(err)
	}
	law, off := distuv.Gamma{Alpha: 2, Beta: 1}, 0.0
	for i := range d {
		var column []float64
		for _, draw := range got.Draws {
			column = append(column, draw[i])
		}
		lower, upper := SampleInterval(column, 0.95)
		below, above := law.CDF(math.Exp(lower)), law.Survival(math.Exp(upper))
		if max(below, above) > 0.065 {
			t.Errorf("coordinate %d: %.3f below the interval and %.3f above, want 0.025", i+1, below, above)
		}
		off += (below + above - 0.05) / d
	}
	if math.Abs(off) > 4*0.014/math.Sqrt(d) {
		t.Errorf("the intervals leave %.4f more out than they should", off)
	}
}

// TestWeakPrior: the density is the same however experts are numbered, and its gradient is that by differences, up to
// their error of 1e-8.
func TestWeakPrior(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	b := model.Block{N: 40, X: make([]float64, 80), Y: make([]float64, 40)}
	for _, v := range [][]float64{b.X, b.Y} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	rows := &model.Data{N: b.N, D: 2, Blocks: []model.Block{b}}
	p := model.NewParams(3, 2)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, 3), make([]float64, 2)
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	p.Sigma = []float64{0.5, 0.7, 0.6}
	l := loss.NewLikelihood(rows, identity{}, p, loss.All, 1)
	prior := WeakPrior(l.Parameters(), 3, 1.5, math.Log(0.6))
	at := prior.Log(nil, l.Theta(p))
	for _, perm := range [][]int{{1, 2, 0}, {2, 1, 0}} {
		if other := prior.Log(nil, l.Theta(p.Relabel(perm))); math.Abs(other-at) > 1e-12*math.Abs(at) {
			t.Errorf("experts numbered %v: %v, want %v", perm, other, at)
		}
	}
	// By the definition: w_i of N(0, 2.5²) for three experts, given their differences, up to a constant.
	want := 0.0
	for _, v := range slices.Concat(p.Regressors, p.RegressorIntercepts) {
		want -= v * v / (2 * 2.5 * 1.5 * 2.5 * 1.5)
	}
	for _, s := range p.Sigma {
		want -= math.Pow(math.Log(s/0.6), 2) / 2
	}
	for _, w := range [][]float64{{p.Gating[0], p.Gating[2], 0}, {p.Gating[1], p.Gating[3], 0}, {p.GatingIntercepts[0], p.GatingIntercepts[1], 0}} {
		mean := floats.Sum(w) / 3
		for _, v := range w {
			want -= (v - mean) * (v - mean) / (2 * 2.5 * 2.5)
		}
	}
	if math.Abs(at-want) > 1e-12*math.Abs(want) {
		t.Errorf("log density %v, want %v", at, want)
	}
	o := Penalised{l, prior}
	theta, h := l.Theta(p), 1e-5
	grad, bend := make([]float64, o.Dim()), mat.NewSymDense(o.Dim(), nil)
	if _, err := o.Hessian(t.Context(), bend, grad, theta); err != nil {
		t.Fatal(err)
	}
	for i := range theta {
		values, slopes := [2]float64{}, [2][]float64{}
		for side, by := range []float64{h, -h} {
			moved := slices.Clone(theta)
			moved[i] += by
			slopes[side] = make([]float64, o.Dim())
			var err error
			if values[side], err = o.Grad(t.Context(), slopes[side], moved); err != nil {
				t.Fatal(err)
			}
		}
		if by := (values[0] - values[1]) / (2 * h); math.Abs(by-grad[i]) > 1e-8 {
			t.Errorf("coordinate %d: slope %v, by differences %v", i, grad[i], by)
		}
		for j := range theta {
			if by := (slopes[0][j] - slopes[1][j]) / (2 * h); math.Abs(by-bend.At(i, j)) > 1e-8 {
				t.Errorf("coordinates %d and %d: second derivative %v, by differences %v", i, j, bend.At(i, j), by)
			}
		}
	}
}

// TestWeights: they are what they are by definition where nothing overflows, and the same with 1e6 more
// log-likelihood, up to its rounding of 1e-10.
func TestWeights(t *testing.T) {
	l := []float64{-1.5, 0.25, math.Inf(-1), -4}
	sum := math.Exp(-1.5) + math.Exp(0.25) + math.Exp(-4)
	for i, w := range weights(l) {
		if want := math.Exp(l[i]) / sum; math.Abs(w-want) > 1e-15 {
			t.Errorf("weight %v, want %v", w, want)
		}
		l[i] += 1e6
	}
	for i, w := range weights(l) {
		if want := math.Exp(l[i]-1e6) / sum; math.Abs(w-want) > 1e-9 {
			t.Errorf("weight %v, want %v", w, want)
		}
	}
	if weights([]float64{math.Inf(-1)}) != nil {
		t.Error("optima without a weight have weights")
	}
}
