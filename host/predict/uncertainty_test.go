package predict

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/fitted/stated"
	"github.com/gatedlearning/moe/host/model"
)

// uncertain is a model of two experts with intercepts, an output scale and a covariance that names the parameters
// in an order of its own.
func uncertain(rng *rand.Rand, size float64) *fitted.Model {
	p := model.NewParams(2, 2)
	p.RegressorIntercepts, p.GatingIntercepts = make([]float64, 2), make([]float64, 1)
	for _, v := range [][]float64{p.Regressors, p.Gating, p.RegressorIntercepts, p.GatingIntercepts} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	p.Sigma[0] = 0.3
	p.SetOutput(true, 0.2, 1.4)
	m := &fitted.Model{Activation: stated.Activation{Name: "tanh"}, Features: []string{"a", "b:c"}, Target: "y"}
	m.SetParams(p)
	m.StandardErrors = &fitted.StandardErrors{SigmaCorrected: fitted.Sigma{0.33}}
	return covaried(m, rng, size, "gate1:a", "expert2:b:c", "sigma", "expert1:a", "expert1:(intercept)", "offset1", "expert2:a", "scale2", "expert1:b:c", "offset2", "expert2:(intercept)", "scale1", "gate1:(intercept)")
}

// threeLevels is a model of three experts without intercepts, each with noise of its own.
func threeLevels(rng *rand.Rand, size float64) *fitted.Model {
	p := model.NewParams(3, 2)
	for _, v := range [][]float64{p.Regressors, p.Gating} {
		for i := range v {
			v[i] = rng.NormFloat64()
		}
	}
	p.Sigma = []float64{0.3, 0.5, 0.4}
	m := &fitted.Model{Activation: stated.Activation{Name: "tanh"}, Features: []string{"a", "b:c"}, Target: "y"}
	m.SetParams(p)
	m.StandardErrors = &fitted.StandardErrors{SigmaCorrected: fitted.Sigma{0.32, 0.51, 0.45}}
	return covaried(m, rng, size, "sigma2", "gate2:a", "expert3:a", "gate1:b:c", "expert1:a", "expert1:b:c", "sigma1", "gate1:a", "expert2:a", "gate2:b:c", "expert2:b:c", "sigma3", "expert3:b:c")
}

// covaried gives a model a covariance of parameters of these names, of size² times their number.
func covaried(m *fitted.Model, rng *rand.Rand, size float64, names ...string) *fitted.Model {
	root := mat.NewDense(len(names), len(names), nil)
	for i := range names {
		for j := range names {
			root.Set(i, j, size*rng.NormFloat64())
		}
	}
	return rooted(m, root, names)
}

// rooted gives a model the covariance root·rootᵀ of parameters of these names.
func rooted(m *fitted.Model, root *mat.Dense, names []string) *fitted.Model {
	var cov mat.Dense
	cov.Mul(root, root.T())
	m.Covariance = &fitted.Covariance{Parameters: names}
	for i := range names {
		m.Covariance.Matrix = append(m.Covariance.Matrix, slices.Clone(cov.RawRowView(i)))
	}
	return m
}

// shift moves the parameter of a model that a name of its covariance says.
func shift(m *fitted.Model, p *model.Params, name string, by float64) {
	places := map[string]*float64{}
	for i := range p.K {
		for j, f := range m.Features {
			places[fmt.Sprintf("expert%d:%s", i+1, f)] = &p.Regressor(i)[j]
			if i < p.K-1 {
				places[fmt.Sprintf("gate%d:%s", i+1, f)] = &p.Gate(i)[j]
			}
		}
		if p.RegressorIntercepts != nil {
			places[fmt.Sprintf("expert%d:(intercept)", i+1)] = &p.RegressorIntercepts[i]
		}
		if p.GatingIntercepts != nil && i < p.K-1 {
			places[fmt.Sprintf("gate%d:(intercept)", i+1)] = &p.GatingIntercepts[i]
		}
		if p.HasOutput() {
			places[fmt.Sprintf("offset%d", i+1)], places[fmt.Sprintf("scale%d", i+1)] = &p.Offset[i], &p.Scale[i]
		}
		if len(p.Sigma) > 1 {
			places[fmt.Sprintf("sigma%d", i+1)] = &p.Sigma[i]
		} else {
			places["sigma"] = &p.Sigma[0]
		}
	}
	*places[name] += by
}

// TestUncertaintyByDifferences compares F(y|x) with the mean of Σ p_i·Φ((y − m_i)/σ_i) over parameters of the
// covariance, to second order: half of the second differences along its axes, with means, logits and log σ linear in the
// parameters by central differences of the predictor's own. What is of fourth order is below 1e-6 here, what the parameters'
// uncertainty does above 1e-5, and what that of gate and noise does likewise.
func TestUncertaintyByDifferences(t *testing.T) {
	for name, m := range map[string]*fitted.Model{"one level": uncertain(rand.New(rand.NewPCG(41, 1)), 0.002), "three levels": threeLevels(rand.New(rand.NewPCG(41, 3)), 0.002)} {
		b := &model.Block{N: 3, X: []float64{0.3, -1.2, 0.8, 1.1, 0.2, -0.4}}
		k, names := m.K, m.Covariance.Parameters
		numbers := func(p *model.Params) (out []float64) { // means, logits of the gate, logs of σ: 3·K rows of N
			pred, err := NewPredictor(p, tanh{}, "").Predict(context.Background(), b)
			if err != nil {
				t.Fatal(err)
			}
			out = slices.Clone(pred.Experts)
			for i := range k {
				for r := range b.N {
					out = append(out, math.Log(pred.Gate[i*b.N+r]/pred.Gate[(k-1)*b.N+r]))
				}
			}
			for i := range k {
				for range b.N {
					out = append(out, math.Log(p.SigmaOf(i)))
				}
			}
			return out
		}
		at, h := numbers(m.Params()), 1e-5
		gradient := mat.NewDense(len(at), len(names), nil)
		for c, name := range names {
			up, down := m.Params(), m.Params()
			shift(m, up, name, h)
			shift(m, down, name, -h)
			above, below := numbers(up), numbers(down)
			for i := range above {
				gradient.Set(i, c, (above[i]-below[i])/(2*h))
			}
		}
		cov, variance := mat.NewSymDense(len(names), nil), make([]float64, len(m.Sigma))
		ratio := func(i int) float64 { // of the corrected σ that a parameter is of to that of the maximum
			if strings.HasPrefix(names[i], "gate") {
				return 1
			}
			of := 0
			for l := range m.Sigma {
				if head, _, _ := strings.Cut(names[i], ":"); strings.HasSuffix(head, fmt.Sprint(l+1)) {
					of = l
				}
			}
			v := m.StandardErrors.SigmaCorrected[of] / m.Sigma[of]
			if strings.HasPrefix(names[i], "sigma") {
				variance[of] = m.Covariance.Matrix[i][i] * v * v / m.Sigma[of] / m.Sigma[of]
			}
			return v
		}
		for i, row := range m.Covariance.Matrix {
			for j, v := range row {
				cov.SetSym(i, j, v*ratio(i)*ratio(j))
			}
		}
		for i := range k {
			for r := range b.N {
				of := min(i, len(m.Sigma)-1)
				corrected := m.StandardErrors.SigmaCorrected[of]
				at[(2*k+i)*b.N+r] = math.Log(corrected) + variance[of] // E log σ of a χ²
			}
		}
		var eigen mat.EigenSym
		if !eigen.Factorize(cov, true) {
			t.Fatal("no eigenvalues")
		}
		var axes mat.Dense
		eigen.VectorsTo(&axes)
		below := func(y float64, r int, numbers []float64) (f float64) {
			sum := 0.0
			for i := range k {
				p := math.Exp(numbers[(k+i)*b.N+r])
				f += p * distuv.UnitNormal.CDF((y-numbers[i*b.N+r])/math.Exp(numbers[(2*k+i)*b.N+r]))
				sum += p
			}
			return f / sum
		}
		predictor := NewPredictor(m.Params(), tanh{}, "").With(UncertaintyOf(m))
		pred, err := predictor.Predict(context.Background(), b)
		if err != nil {
			t.Fatal(err)
		}
		most, ofGate := 0.0, 0.0
		for r := range b.N {
			for _, y := range []float64{-0.7, 0.2, 0.9} {
				want := below(y, r, at)
				plain, without := want, want
				for l, lambda := range eigen.Values(nil) {
					for _, sign := range []float64{-1, 1} {
						moved, fixed := slices.Clone(at), slices.Clone(at)
						for i := range moved {
							by := 0.0
							for c := range names {
								by += gradient.At(i, c) * axes.At(c, l)
							}
							moved[i] += sign * math.Sqrt(max(0, lambda)) * by
							if i < k*b.N {
								fixed[i] = moved[i]
							}
						}
						want += (below(y, r, moved) - plain) / 2
						without += (below(y, r, fixed) - plain) / 2
					}
				}
				most, ofGate = max(most, math.Abs(want-plain)), max(ofGate, math.Abs(want-without))
				if got := predictor.distribution(pred, r).CDF(y); math.Abs(got-want) > 1e-6 {
					t.Errorf("%s, row %d: F(%v) = %.9f, by differences %.9f, with the parameters as they are %.9f", name, r+1, y, got, want, plain)
				}
			}
		}
		if most < 1e-5 || ofGate < 1e-5 {
			t.Errorf("%s: the uncertainty moves F by %.2g, the gate's and the noise's by %.2g: nothing is tested", name, most, ofGate)
		}
	}
}

// TestUncertaintyOfManyRows: with the covariance of many rows the intervals are those of the parameters as they are
// with σ corrected; what is asked of a model without a covariance is the same to the bit.
func TestUncertaintyOfManyRows(t *testing.T) {
	x := mat.NewDense(2, 2, []float64{0.3, 1, -0.5, 0.2})
	m := uncertain(rand.New(rand.NewPCG(41, 2)), 1e-7)
	read := func(m *fitted.Model, u *Uncertainty) [][]float64 {
		src := Predictions(m.Params(), tanh{}, dataset.Matrix(x, nil), Extras{Interval: 0.9, Uncertainty: u})
		return [][]float64{column(t, src, 3), column(t, src, 4)}
	}
	with := read(m, UncertaintyOf(m))
	m.Sigma = m.StandardErrors.SigmaCorrected
	plain := read(m, nil)
	for i := range with {
		for r := range with[i] {
			if math.Abs(with[i][r]-plain[i][r]) > 1e-11 { // variances of 1e-13
				t.Errorf("end %d of row %d: %v, want %v", i, r, with[i][r], plain[i][r])
			}
		}
	}
	if m.Covariance = nil; UncertaintyOf(m) != nil {
		t.Error("a model without a covariance has an uncertainty")
	}
}

// TestPredictiveLogLikelihood is the sum of the logs of the slope of F(y|x), by central differences of the predictor's
// transform, and is not the likelihood of the parameters as they are; it is nil where a model has no covariance.
func TestPredictiveLogLikelihood(t *testing.T) {
	for name, m := range map[string]*fitted.Model{"one level": uncertain(rand.New(rand.NewPCG(43, 1)), 0.05), "three levels": threeLevels(rand.New(rand.NewPCG(43, 3)), 0.05)} {
		rng := rand.New(rand.NewPCG(43, 5))
		x, y := mat.NewDense(40, 2, nil), make([]float64, 40)
		for r := range y {
			x.SetRow(r, []float64{rng.NormFloat64(), rng.NormFloat64()})
			y[r] = rng.NormFloat64()
		}
		src := dataset.Matrix(x, y)
		e, err := EvaluateModel(t.Context(), m, tanh{}, src)
		if err != nil {
			t.Fatal(err)
		}
		want, predictor := 0.0, NewPredictor(m.Params(), tanh{}, "").With(UncertaintyOf(m))
		if err := src.Read(t.Context(), func(b *model.Block) error {
			pred, err := predictor.Predict(t.Context(), b)
			if err != nil {
				return err
			}
			for r, y := range b.Y {
				const h = 1e-4
				_, up := predictor.Transform(pred, r, y+h)
				_, down := predictor.Transform(pred, r, y-h)
				want += math.Log((up - down) / (2 * h))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		// Differences are off by h²/6 times the third derivative, and 1e-16/h, of each row.
		if e.Predictive == nil || !(math.Abs(*e.Predictive-want) < 1e-5) {
			t.Errorf("%s: predictive log-likelihood %v, want %v", name, e.Predictive, want)
		} else if math.Abs(*e.Predictive-e.LogLikelihood) < 0.1 {
			t.Errorf("%s: predictive log-likelihood %v is that without uncertainty, %v", name, *e.Predictive, e.LogLikelihood)
		}
		m.Covariance = nil
		if e, err = EvaluateModel(t.Context(), m, tanh{}, src); err != nil || e.Predictive != nil {
			t.Errorf("%s: %v without a covariance, error %v", name, e.Predictive, err)
		}
	}
}

// TestStudent: for one linear expert the law of a new row is Student's t of n − q degrees of freedom around ⟨b, x⟩, of
// scale s·√(1 + xᵀ(XᵀX)⁻¹x). Intervals have the level by it that they are asked for, and are wider than with the variances of
// the maximum and a normal log σ; the density is that of t where it matters, and integrates to one.
func TestStudent(t *testing.T) {
	rng := rand.New(rand.NewPCG(47, 1))
	for _, c := range []struct {
		n, q int
		most float64 // an interval's level is off by, of the rule for σ
	}{{8, 5, 0.01}, {12, 7, 2e-3}, {12, 4, 6e-4}, {20, 9, 4e-4}, {30, 10, 2e-4}, {200, 3, 5e-5}} {
		x := mat.NewDense(c.n, c.q, nil)
		x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
		var square, inverse mat.Dense
		square.Mul(x.T(), x)
		if err := inverse.Inverse(&square); err != nil {
			t.Fatal(err)
		}
		n, freedom := float64(c.n), float64(c.n-c.q)
		const sigma = 0.7
		s := sigma * math.Sqrt(n/freedom)
		p := model.NewParams(1, c.q)
		p.Sigma[0] = sigma
		m := &fitted.Model{Activation: stated.Activation{Name: "identity"}, Target: "y"}
		names := []string{}
		for j := range c.q {
			p.Regressors[j] = rng.NormFloat64()
			m.Features = append(m.Features, fmt.Sprint("x", j))
			names = append(names, "expert1:"+m.Features[j])
		}
		m.SetParams(p)
		m.StandardErrors = &fitted.StandardErrors{SigmaCorrected: fitted.Sigma{s}}
		m.Covariance = &fitted.Covariance{Parameters: append(names, "sigma")}
		for i := range c.q + 1 {
			row := make([]float64, c.q+1)
			if i == c.q {
				row[i] = sigma * sigma / (2 * n)
			} else {
				for j := range c.q {
					row[j] = sigma * sigma * inverse.At(i, j)
				}
			}
			m.Covariance.Matrix = append(m.Covariance.Matrix, row)
		}
		b := &model.Block{N: 1, X: make([]float64, c.q)}
		for range 5 {
			for j := range b.X {
				b.X[j] = rng.NormFloat64()
			}
			at := mat.NewVecDense(c.q, b.X)
			h := mat.Inner(at, &inverse, at)
			predictor := NewPredictor(p, identity{}, "").With(UncertaintyOf(m))
			pred, err := predictor.Predict(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			want := distuv.StudentsT{Mu: pred.Mean[0], Sigma: s * math.Sqrt(1+h), Nu: freedom}
			for _, level := range []float64{0.5, 0.8, 0.9, 0.95, 0.99} {
				lower, upper := []float64{0}, []float64{0}
				if err := predictor.Intervals(lower, upper, pred, level); err != nil {
					t.Fatal(err)
				}
				if got := want.CDF(upper[0]) - want.CDF(lower[0]); math.Abs(got-level) > c.most {
					t.Errorf("%d rows, %d coefficients: the %v interval has level %v", c.n, c.q, level, got)
				}
				before, up := 0.0, math.Sqrt(3/(2*n)) // probability of the interval
				for i, w := range []float64{2. / 3, 1. / 6, 1. / 6} {
					law := distuv.Normal{Mu: want.Mu, Sigma: math.Hypot(s*math.Exp(up*[]float64{0, 1, -1}[i]), sigma*math.Sqrt(h))}
					before += w * (law.CDF(upper[0]) - law.CDF(lower[0]))
				}
				if !(before >= level) {
					t.Errorf("%d rows, %d coefficients: the %v interval is narrower than it was: %v", c.n, c.q, level, before)
				}
			}
			sum, step := 0.0, want.Sigma/50
			for i := -5000; i <= 5000; i++ { // 100 scales to either side, of laws a third as wide at least
				sum += math.Exp(predictor.LogPredictive(pred, 0, want.Mu+float64(i)*step)) * step
			}
			if math.Abs(sum-1) > 1e-9 {
				t.Errorf("%d rows, %d coefficients: the density integrates to %v", c.n, c.q, sum)
			}
		}
	}
}
