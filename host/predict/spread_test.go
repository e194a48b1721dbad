package predict

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/native"
	"github.com/gatedlearning/moe/internal/testslow"
)

// sigmoidal is [logistic] with its slope.
type sigmoidal struct{ logistic }

func (s sigmoidal) Deriv(ctx context.Context, dst, z []float64) error {
	if err := s.Eval(ctx, dst, z); err != nil {
		return err
	}
	for i, v := range dst {
		dst[i] = v * (1 - v)
	}
	return nil
}

// ofFamily is a model of experts over one feature with intercepts, and own parameters of every expert.
func ofFamily(family string, k int, zero bool, own ...[]float64) *fitted.Model {
	p := model.NewParams(k, 1)
	p.Family, p.Sigma = family, nil
	p.RegressorIntercepts = []float64{0.9, 0.1, -0.4}[:k]
	copy(p.Regressors, []float64{0.5, -0.6, 0.2})
	if zero {
		p.AddZero()
	}
	p.GatingIntercepts = []float64{0.2, -0.3, 0.1}[:p.Gates()]
	copy(p.Gating, []float64{0.8, -0.5, 0.3})
	if len(own) > 0 {
		p.Sigma, p.Own = own[0], own[1:]
	}
	m := &fitted.Model{Activation: stated.Activation{Name: "exp"}, Features: []string{"x"}, Target: "y"}
	m.SetParams(p)
	return m
}

// lawOf is the predicted law of a row of a model, with the parameters' uncertainty or without.
func lawOf(t *testing.T, m *fitted.Model, act model.Activation, x float64, u *Uncertainty) *mixture.Distribution {
	t.Helper()
	predictor := NewPredictor(m.Params(), act, "rows").With(u)
	pred, err := predictor.Predict(t.Context(), &model.Block{N: 2, X: []float64{x + 1, x}})
	if err != nil {
		t.Fatal(err)
	}
	return predictor.Law(pred, 1)
}

func logGamma(v float64) float64 {
	lg, _ := math.Lgamma(v)
	return lg
}

// poissonAt and negativeBinomialAt are probabilities written out.
func poissonAt(y int, mean float64) float64 {
	return math.Exp(float64(y)*math.Log(mean) - mean - logGamma(float64(y)+1))
}

func negativeBinomialAt(y int, mean, theta float64) float64 {
	v := float64(y)
	return math.Exp(logGamma(v+theta) - logGamma(theta) - logGamma(v+1) - theta*math.Log1p(mean/theta) +
		v*math.Log(mean/(theta+mean)))
}

// dense is the mean of f over N(0, 1), by so many steps.
func dense(steps int, f func(t float64) float64) (sum float64) {
	const reach = 8.
	for j := range steps + 1 {
		t := reach * (2*float64(j)/float64(steps) - 1)
		sum += math.Exp(-t*t/2) / math.Sqrt(2*math.Pi) * f(t) * 2 * reach / float64(steps)
	}
	return sum
}

// TestPredictivePoisson: of one expert with the logarithmic link the probability of y is the mean of e^−m·m^y/y! with
// log m of N(z, xᵀCx), by 1,000 steps, a fifth as wide as the narrowest of the probabilities. Three nodes leave some 1e-4
// of all of them together where the counts tell half of what is known of their mean; of more nodes the error is 1e-5 of
// every probability in the middle, but where there would have to be more than 81 of them, which are the most.
func TestPredictivePoisson(t *testing.T) {
	testslow.Mark(t)
	for _, c := range []struct{ intercept, size, within float64 }{
		{0.9, 0.05, 1e-6}, {0.9, 0.2, 3e-4}, {0.9, 0.6, 1e-5}, {5, 0.02, 3e-5}, {5, 0.3, 1e-5}, {5, 0.7, 1e-3},
	} {
		m := ofFamily("poisson", 1, false)
		m.RegressorIntercepts[0] = c.intercept
		v := c.size * c.size
		m.Covariance = &fitted.Covariance{Parameters: []string{"expert1:x", "expert1:(intercept)"},
			Matrix: [][]float64{{v, -v / 3}, {-v / 3, v / 2}}}
		const x = -0.4
		z, deviation := c.intercept+0.5*x, math.Sqrt(v*x*x-2*v/3*x+v/2)
		law := lawOf(t, m, mixturetest.Exp{}, x, UncertaintyOf(m))
		off, moved, total := 0.0, 0.0, 0.0
		for y := range int(math.Exp(z+6*deviation)) + 60 {
			want := dense(1000, func(t float64) float64 { return poissonAt(y, math.Exp(z+deviation*t)) })
			got := law.Density(float64(y))
			off += math.Abs(got - want)
			moved += math.Abs(want - poissonAt(y, math.Exp(z)))
			total += got
		}
		t.Logf("log mean %.2f ± %.3f: %d laws, off by %.2g, with the parameters as they are by %.2g", z, deviation, len(law.P), off, moved)
		if off > c.within || moved < 10*off {
			t.Errorf("log mean %.2f ± %.3f: off by %.2g, want %.2g; the parameters as they are by %.2g", z, deviation, off, c.within, moved)
		}
		if math.Abs(total-1) > 1e-5 { // of counts beyond six deviations
			t.Errorf("probabilities add up to %v", total)
		}
	}
}

// TestPredictiveDispersion: of one negative binomial expert the mean is over 1/θ too, which is normal, and which the
// predictor is correlated with: (z, 1/θ) of N((z, 1/θ̂), Σ), by steps along both. The cubature leaves terms of fourth order in the
// deviation of 1/θ, which is a quarter of it.
func TestPredictiveDispersion(t *testing.T) {
	const x, theta = 0.7, 2.5
	m := ofFamily("negative-binomial", 1, false, []float64{theta})
	deviationOfTheta := theta * theta * 0.1 // of 1/θ = 0.4 it is 0.1
	m.Covariance = &fitted.Covariance{Parameters: []string{"theta", "expert1:(intercept)"},
		Matrix: [][]float64{{deviationOfTheta * deviationOfTheta, 0.5 * deviationOfTheta * 0.2}, {0.5 * deviationOfTheta * 0.2, 0.04}}}
	law := lawOf(t, m, mixturetest.Exp{}, x, UncertaintyOf(m))
	off, moved := 0.0, 0.0
	z := 0.9 + 0.5*x
	for y := range 120 {
		// 1/θ falls as θ rises.
		want := dense(200, func(s float64) float64 {
			shape := 1 / max(1/theta-0.1*s, 1e-8)
			mean := 0.0
			for j := range 81 {
				u := float64(j-40) / 8
				mean += math.Exp(-u*u/2) / math.Sqrt(2*math.Pi) / 8 * negativeBinomialAt(y, math.Exp(z+0.2*(0.5*s+math.Sqrt(0.75)*u)), shape)
			}
			return mean
		})
		off += math.Abs(law.Density(float64(y)) - want)
		moved += math.Abs(negativeBinomialAt(y, math.Exp(z), theta) - want)
	}
	if t.Logf("off by %.2g, with the parameters as they are by %.2g", off, moved); off > 5e-4 || moved < 10*off {
		t.Errorf("off by %.2g, with the parameters as they are by %.2g", off, moved)
	}
}

// TestPredictiveMixture: two negative binomial experts, each with θ of its own, and their gate, all uncertain and correlated:
// the law is near the mean over 400,000 draws of all parameters, whose standard error is below 1e-4 in every probability's sum
// to there. With the parameters as they are it is more than ten times as far.
func TestPredictiveMixture(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 1))
	m := ofFamily("negative-binomial", 2, false, []float64{2, 4})
	names := []string{"expert1:x", "theta2", "gate1:(intercept)", "expert2:x", "expert1:(intercept)", "gate1:x", "theta1", "expert2:(intercept)"}
	root := mat.NewDense(len(names), len(names), nil)
	for i, name := range names {
		size := map[string]float64{"theta1": 4 * 0.03, "theta2": 16 * 0.03}[name]
		if size == 0 {
			size = 0.1
		}
		for j := range names {
			root.Set(i, j, size*rng.NormFloat64())
		}
	}
	rooted(m, root, names)
	const x, most, draws = 0.6, 60, 400_000
	law, plain := lawOf(t, m, mixturetest.Exp{}, x, UncertaintyOf(m)), lawOf(t, m, mixturetest.Exp{}, x, nil)
	want := make([]float64, most)
	off := make([]float64, len(names))
	theta := func(of, by float64) float64 { return 1 / max(1/of-by/(of*of), 1e-8) }
	for range draws {
		clear(off)
		for j := range names {
			n := rng.NormFloat64()
			for i := range names {
				off[i] += root.At(i, j) * n
			}
		}
		means := [2]float64{math.Exp(0.9 + off[4] + (0.5+off[0])*x), math.Exp(0.1 + off[7] + (-0.6+off[3])*x)}
		gate := 1 / (1 + math.Exp(-(0.2 + off[2] + (0.8+off[5])*x)))
		thetas := [2]float64{theta(2, off[6]), theta(4, off[1])}
		for i, p := range [2]float64{gate, 1 - gate} { // f(y) from f(y−1)
			at := p * math.Pow(thetas[i]/(thetas[i]+means[i]), thetas[i])
			for y := range want {
				want[y] += at / draws
				at *= means[i] / (thetas[i] + means[i]) * (float64(y) + thetas[i]) / float64(y+1)
			}
		}
	}
	upto, far, without := 0.0, 0.0, 0.0
	for y, p := range want {
		upto += p
		far = max(far, math.Abs(law.CDF(float64(y))-upto))
		without = max(without, math.Abs(plain.CDF(float64(y))-upto))
	}
	if t.Logf("F is off by %.2g, of the parameters as they are by %.2g", far, without); far > 5e-4 || without < 10*far {
		t.Errorf("F is off by %.2g, of the parameters as they are by %.2g", far, without)
	}
}

// TestPredictiveLaws: of every family, with a zero expert and with trials, the law is one: probabilities add up to 1, F
// rises to 1 by the density's integral, and quantiles invert it. As the covariance tends to nothing it is the law of the
// parameters, and the mean over many rows of a covariance is not.
func TestPredictiveLaws(t *testing.T) {
	testslow.Mark(t)
	rng := rand.New(rand.NewPCG(51, 3))
	for name, c := range map[string]struct {
		m      *fitted.Model
		act    model.Activation
		names  []string
		trials float64
	}{
		"poisson":                     {m: ofFamily("poisson", 3, false), act: mixturetest.Exp{}},
		"poisson, zero expert":        {m: ofFamily("poisson", 2, true), act: mixturetest.Exp{}, names: []string{"gate2:x", "gate2:(intercept)"}},
		"negative-binomial":           {m: ofFamily("negative-binomial", 2, false, []float64{3}), act: mixturetest.Exp{}, names: []string{"theta"}},
		"negative-binomial, one zero": {m: ofFamily("negative-binomial", 1, true, []float64{3}), act: mixturetest.Exp{}, names: []string{"theta"}},
		"gamma":                       {m: ofFamily("gamma", 2, false, []float64{3, 5}), act: mixturetest.Exp{}, names: []string{"shape2", "shape1"}},
		"student-t":                   {m: ofFamily("student-t", 2, false, []float64{0.4, 0.8}, []float64{9, 5}), act: identity{}, names: []string{"sigma1", "dof2", "sigma2", "dof1"}},
		"binomial":                    {m: ofFamily("binomial", 2, false), act: sigmoidal{}},
		"binomial of trials":          {m: ofFamily("binomial", 2, false), act: sigmoidal{}, trials: 12},
	} {
		names := c.names
		for i := range c.m.K {
			names = append(names, fmt.Sprintf("expert%d:x", i+1), fmt.Sprintf("expert%d:(intercept)", i+1))
			if i < c.m.K-1 || c.m.ZeroExpert && i == 0 {
				names = append(names, fmt.Sprintf("gate%d:x", i+1), fmt.Sprintf("gate%d:(intercept)", i+1))
			}
		}
		of := func(size float64, with bool) *mixture.Distribution {
			m := covaried(c.m, rng, size, names...)
			u := UncertaintyOf(m)
			if !with {
				u = nil
			}
			predictor := NewPredictor(m.Params(), c.act, "rows").With(u)
			b := &model.Block{N: 1, X: []float64{0.3}}
			if c.trials > 0 {
				b.Role[model.Trials] = []float64{c.trials}
			}
			pred, err := predictor.Predict(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			return predictor.distribution(pred, 0).Clone()
		}
		law, plain, near := of(0.1, true), of(0.1, false), of(1e-8, true)
		if total := floats.Sum(law.P); !c.m.ZeroExpert && math.Abs(total-1) > 1e-13 {
			t.Errorf("%s: the laws' probabilities add up to %v", name, total)
		}
		whole := mixture.DensityOf(c.m.Family).Domain().Whole
		sum, apart := 0.0, 0.0
		for y := -40.0; y < 80; {
			step := 1.0
			if !whole {
				step = 1. / 64
				sum += law.Density(y+step/2) * step
			} else if y >= 0 {
				sum += law.Density(y)
			}
			below := law.CDF(y)
			if !whole {
				below = law.CDF(y + step)
			}
			// The midpoint rule misses step²/24 = 1e-5 times the density's slope; a t law has 1e-5 below −40.
			if within := map[bool]float64{true: 1e-12, false: 5e-5}[whole]; math.Abs(below-sum) > within {
				t.Fatalf("%s: F(%v) = %v, and the density adds up to %v", name, y, below, sum)
			}
			if got, want := near.CDF(y), plain.CDF(y); math.Abs(got-want) > 1e-12 {
				t.Fatalf("%s: F(%v) = %v of a covariance of 1e-16, want %v", name, y, got, want)
			}
			apart = max(apart, math.Abs(law.CDF(y)-plain.CDF(y)))
			y += step
		}
		if apart < 1e-4 {
			t.Errorf("%s: the uncertainty moves F by %v: nothing is tested", name, apart)
		}
		lower, upper := law.Interval(0.9)
		for y, q := range map[float64]float64{lower: 0.05, upper: 0.95} {
			if got := law.CDF(y); got < q-1e-12 || whole && law.CDF(y-1) >= q || !whole && got > q+1e-9 {
				t.Errorf("%s: F(%v) = %v, want %v", name, y, got, q)
			}
		}
	}
}

// TestPredictiveOfFamilies: evaluate sums up the logs of the law that intervals are of, trials and all; without a covariance
// there is none. Probabilities of single values are of the same law.
func TestPredictiveOfFamilies(t *testing.T) {
	rng := rand.New(rand.NewPCG(51, 5))
	m := covaried(ofFamily("binomial", 2, false), rng, 0.2, "expert1:x", "expert2:x", "gate1:x", "expert2:(intercept)")
	x, y, trials := make([]float64, 40), make([]float64, 40), make([]float64, 40)
	for r := range x {
		x[r], trials[r] = rng.NormFloat64(), float64(1+rng.IntN(9))
		y[r] = float64(rng.IntN(int(trials[r]) + 1))
	}
	src := dataset.Matrix(mat.NewDense(len(x), 1, x), y).With(model.Trials, "n", trials)
	e, err := EvaluateModel(t.Context(), m, sigmoidal{}, src)
	if err != nil {
		t.Fatal(err)
	}
	of := Predictions(m.Params(), sigmoidal{}, src, Extras{Values: []float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Uncertainty: UncertaintyOf(m)})
	want, first := 0.0, len(of.Schema().Features)-10
	for r := range y {
		want += math.Log(column(t, of, first+int(y[r]))[r])
	}
	if e.Predictive == nil || math.Abs(*e.Predictive-want) > 1e-9 || math.Abs(*e.Predictive-e.LogLikelihood) < 0.1 {
		t.Errorf("predictive log-likelihood %v, want %v; at the parameters %v", e.Predictive, want, e.LogLikelihood)
	}
	m.Covariance = nil
	if e, err = EvaluateModel(t.Context(), m, sigmoidal{}, src); err != nil || e.Predictive != nil {
		t.Errorf("%v without a covariance, error %v", e.Predictive, err)
	}
}

// upTo2 knows exp below 2 alone.
type upTo2 struct{ mixturetest.Exp }

func (u upTo2) Eval(ctx context.Context, dst, z []float64) error {
	if v := slices.Max(z); v >= 2 {
		return &native.OutsideError{Z: v, Lo: -10, Hi: 2}
	}
	return u.Exp.Eval(ctx, dst, z)
}

func (u upTo2) Deriv(ctx context.Context, dst, z []float64) error { return u.Eval(ctx, dst, z) }

// TestPredictiveBeyondAnApproximation: where a file has an approximation of g alone, what a mean may be ends where that does.
func TestPredictiveBeyondAnApproximation(t *testing.T) {
	m := covaried(ofFamily("poisson", 1, false), rand.New(rand.NewPCG(51, 7)), 0.5, "expert1:x", "expert1:(intercept)")
	law := lawOf(t, m, upTo2{}, 0.2, UncertaintyOf(m))
	if most := slices.Max(law.Mean); math.Abs(most-math.Exp(2)) > 1e-12 || len(law.P) < 9 {
		t.Errorf("%d laws, the largest mean is %v", len(law.P), most)
	}
}

// TestPredictiveHugeCounts: where a count tells far more of its mean than is known of it there are too few nodes for its
// law, 81 lumps: the density is that of the mean then. Against 40,000 steps, of which a count of 1e8 is some three wide.
// What is left out is 1/ρ² of it, ρ from 42 to 420.
func TestPredictiveHugeCounts(t *testing.T) {
	for _, mean := range []float64{1e6, 1e8} {
		const deviation = 0.042
		m := ofFamily("poisson", 1, false)
		m.RegressorIntercepts[0] = math.Log(mean)
		m.Covariance = &fitted.Covariance{Parameters: []string{"expert1:(intercept)"},
			Matrix: [][]float64{{deviation * deviation}}}
		predictor := NewPredictor(m.Params(), mixturetest.Exp{}, "rows").With(UncertaintyOf(m))
		pred, err := predictor.Predict(t.Context(), &model.Block{N: 2, X: []float64{1, 0}})
		if err != nil {
			t.Fatal(err)
		}
		for _, off := range []float64{0, 0.0004, -0.0029, 0.031, 0.08, -0.1} {
			y := math.Round(mean * (1 + off))
			want := math.Log(dense(40000, func(s float64) float64 {
				return poissonAt(int(y), math.Exp(math.Log(mean)+deviation*s))
			}))
			if got := predictor.LogPredictive(pred, 1, y); math.Abs(got-want) > 0.01 {
				t.Errorf("mean %g, y %+.4f of it off: %.4f, want %.4f", mean, off, got, want)
			}
		}
		values := make([]float64, 1000)
		for i := range values {
			values[i] = math.Round(mean) + float64(i)
		}
		sum := 0.0
		for i, p := range predictor.probabilities(nil, pred, values) {
			sum += p * float64(i%2) // of the second row
		}
		if want := 1000 / (mean * deviation * math.Sqrt(2*math.Pi)); math.Abs(sum/want-1) > 0.01 {
			t.Errorf("mean %g: a thousand counts have %g, want %g", mean, sum, want)
		}
	}
}

// TestCutIntervals: with a slope of standard deviation 1 a predictor is known to ±|x|, and the upper end of an interval of
// level .9 to 1.645·|x|. It is cut where that is more than 20 beyond the predicted mean, or beyond 1 if that is less.
func TestCutIntervals(t *testing.T) {
	m := ofFamily("poisson", 1, false) // of log mean 0.9 + 0.5·x
	m.Covariance = &fitted.Covariance{Parameters: []string{"expert1:x"}, Matrix: [][]float64{{1}}}
	x := []float64{1, 11, -13, 13, 30, -30}
	for level, want := range map[float64]int{0.9: 3, 0.6: 1} { // .84·30 = 25.2, to −30 it is 34.1
		cut := 0
		table := Predictions(m.Params(), mixturetest.Exp{}, dataset.Matrix(mat.NewDense(len(x), 1, x), nil),
			Extras{Interval: level, Uncertainty: UncertaintyOf(m), Cut: &cut})
		upper := column(t, table, 3)
		if cut != want {
			t.Errorf("level %v: %d intervals are cut, want %d: %v", level, cut, want, upper)
		}
		if end := math.Exp(20 + 0.9 + 0.5*30); math.Abs(upper[4]/end-1) > 1e-3 { // ± the root of so many
			t.Errorf("level %v: a cut interval ends at %v, want %v", level, upper[4], end)
		}
	}
}

// TestPredictiveOfCorrected: where the first own parameter is corrected the law is that of a model that has it at its
// maximum, with the coefficients' covariance as that goes with it: as 1/ν of a gamma law's, as σ² of a t law's. The
// logarithm of the parameter has the same errors.
func TestPredictiveOfCorrected(t *testing.T) {
	for _, c := range []struct {
		family       string
		act          model.Activation
		own          [][]float64
		name         string
		now, widened float64
	}{
		{"gamma", mixturetest.Exp{}, [][]float64{{3.2}}, "shape", 2.5, 3.2 / 2.5},
		{"student-t", model.Activation(identity{}), [][]float64{{0.5}, {4}}, "sigma", 0.6, 1.44},
	} {
		of := func(psi, widened float64) *fitted.Model {
			m := ofFamily(c.family, 1, false, append([][]float64{{psi}}, c.own[1:]...)...)
			v, e := 0.03*widened, 0.2*psi
			m.Covariance = &fitted.Covariance{Parameters: []string{"expert1:x", "expert1:(intercept)", c.name},
				Matrix: [][]float64{{v, -v / 3, 0}, {-v / 3, v / 2, 0}, {0, 0, e * e}}}
			return m
		}
		corrected, want := of(c.own[0][0], 1), of(c.now, c.widened)
		corrected.StandardErrors = &fitted.StandardErrors{DispersionCorrected: fitted.Sigma{c.now}}
		a, b := lawOf(t, corrected, c.act, 0.7, UncertaintyOf(corrected)), lawOf(t, want, c.act, 0.7, UncertaintyOf(want))
		plain := of(c.own[0][0], 1)
		before := lawOf(t, plain, c.act, 0.7, UncertaintyOf(plain))
		for _, y := range []float64{0.2, 1, 2, 5} {
			if x, z := a.Density(y), b.Density(y); math.Abs(x/z-1) > 1e-12 || math.Abs(before.Density(y)/z-1) < 1e-3 {
				t.Errorf("%s at %v: %v, want %v; not corrected %v", c.family, y, x, z, before.Density(y))
			}
		}
	}
}
