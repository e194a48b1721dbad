package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/loss"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/exp"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// TestTied: coefficients that are the same in all experts are so to the bit, in features far from 0 too; the fit is at a
// maximum along them, and the covariance is the inverse of the likelihood's second differences in the parameters that
// there are, whose number BIC counts. By EM alone the fit is the same.
func TestTied(t *testing.T) {
	for _, c := range []struct {
		name  string
		tied  []string
		noise Noise
		by    densityCase
	}{
		{"a slope", []string{"a"}, nil, densityCase{act: activation(identity.Family, nil)}},
		{"the intercept", []string{model.InterceptName}, nil, densityCase{act: activation(identity.Family, nil)}},
		{"both, noise per expert", []string{"b", model.InterceptName}, PerExpert{},
			densityCase{act: activation(identity.Family, nil)}},
		{"poisson", []string{"a"}, nil, densityCase{family: "poisson", act: activation(exp.Family, nil)}},
	} {
		src := tiedRows(c.by)
		cfg := Config{K: 2, Family: c.by.family, Intercepts: BothIntercepts, Noise: c.noise, Tied: c.tied, Gate: Constant{}}
		m, err := Fit(t.Context(), c.by.act, src, cfg)
		if err != nil || !m.Fit.Converged || m.Covariance == nil {
			t.Fatalf("%s: %v, %+v", c.name, err, m)
		}
		for _, name := range c.tied {
			j := slices.Index(m.Features, name)
			if j >= 0 && m.Regressors[0][j] != m.Regressors[1][j] ||
				j < 0 && m.RegressorIntercepts[0] != m.RegressorIntercepts[1] {
				t.Errorf("%s: %s is %v and %v", c.name, name, m.Regressors, m.RegressorIntercepts)
			}
		}
		free := 2*3 + 1 + len(m.Sigma) - len(c.tied)
		if bic := float64(free)*math.Log(400) - 2*m.Fit.LogLikelihood; math.Abs(m.Fit.BIC-bic) > 1e-9 {
			t.Errorf("%s: BIC %v, want %v of %d parameters", c.name, m.Fit.BIC, bic, free)
		}
		checkTiedCovariance(t, c.name, m, src, c.by, c.tied)
		cfg.Method = EM{Starts: 8}
		by, err := Fit(t.Context(), c.by.act, src, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(by.Fit.LogLikelihood-m.Fit.LogLikelihood) > 1e-5 {
			t.Errorf("%s: log-likelihood %v, by EM %v", c.name, m.Fit.LogLikelihood, by.Fit.LogLikelihood)
		}
	}
}

// tiedRows are rows of two experts of two features, one of them far from 0.
func tiedRows(c densityCase) dataset.Source {
	rng := rand.New(rand.NewPCG(34, 3))
	x, y := mat.NewDense(400, 2, nil), make([]float64, 400)
	for r := range y {
		a, b := 5+0.7*rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(r, []float64{a, b})
		i := rng.IntN(2)
		z := 0.3*a + []float64{0.5, -1}[i] + []float64{0.8, -0.6}[i]*b
		if c.family == "" {
			y[r] = z + 0.4*rng.NormFloat64()
		} else {
			y[r] = c.target(rng, z)
		}
	}
	return dataset.Matrix(x, y).Named([]string{"a", "b"}, "y")
}

// checkTiedCovariance compares the covariance with second differences in the parameters that there are.
func checkTiedCovariance(t *testing.T, name string, m *fitted.Model, src dataset.Source, c densityCase, tied []string) {
	t.Helper()
	data := mustLoad(t, src)
	at := m.Params()
	l := loss.NewLikelihood(data, c.act, at, loss.Free{Regressors: true, Gating: true, Sigma: true, GateColumns: []int{}}, 1)
	theta := l.Theta(at)
	all := l.Parameters()
	var places [][]int // of every parameter that there is
	for i, q := range all {
		feature := model.InterceptName
		if q.Feature >= 0 && q.Feature < at.D {
			feature = m.Features[q.Feature]
		}
		one := slices.IndexFunc(places, func(of []int) bool {
			return q.Part == model.Expert && slices.Contains(tied, feature) && all[of[0]].Part == q.Part &&
				all[of[0]].Feature == q.Feature
		})
		if one < 0 {
			places = append(places, []int{i})
		} else {
			places[one] = append(places[one], i)
		}
	}
	const step = 1e-4
	value := func(moves map[int]float64) float64 {
		x := slices.Clone(theta)
		for p, by := range moves {
			for _, i := range places[p] {
				x[i] += by
			}
		}
		v, err := l.Value(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		return v * l.Rows()
	}
	n := len(places)
	info := mat.NewSymDense(n, nil)
	for i := range n {
		if slope := (value(map[int]float64{i: step}) - value(map[int]float64{i: -step})) / (2 * step); math.Abs(slope) > 1e-2 {
			t.Errorf("%s: a slope of %v along parameter %d", name, slope, i)
		}
		for j := range i + 1 {
			move := func(a, b float64) float64 {
				if i == j {
					return value(map[int]float64{i: a + b})
				}
				return value(map[int]float64{i: a, j: b})
			}
			info.SetSym(i, j, (move(step, step)-move(step, -step)-move(-step, step)+move(-step, -step))/(4*step*step))
		}
	}
	var cov mat.SymDense
	var chol mat.Cholesky
	if !chol.Factorize(info) || chol.InverseTo(&cov) != nil {
		t.Fatalf("%s: second differences are not positive definite", name)
	}
	for p, of := range places {
		for _, i := range of {
			q, called := all[i], ""
			switch {
			case q.Part == model.Noise && len(m.Sigma) == 1:
				called = "sigma"
			case q.Part == model.Noise:
				called = fmt.Sprintf("sigma%d", q.Index+1)
			default:
				called = fmt.Sprintf("%s%d:%s", [...]string{model.Expert: "expert", model.Gate: "gate"}[q.Part], q.Index+1,
					append(slices.Clone(m.Features), model.InterceptName)[q.Feature])
			}
			place := slices.Index(m.Covariance.Parameters, called)
			if place < 0 {
				t.Fatalf("%s: no %s among %v", name, called, m.Covariance.Parameters)
			}
			want := cov.At(p, p)
			if q.Part == model.Noise { // of σ, not of log σ
				want *= *q.In(at) * *q.In(at)
			}
			if got := m.Covariance.Matrix[place][place]; math.Abs(got/want-1) > 1e-3 {
				t.Errorf("%s: variance of %s %v, want %v", name, called, got, want)
			}
		}
	}
}

// TestPublishedTied: log-likelihoods of flexmix 2.3 with coefficients of all components (FLXMRglmfix), by trials one by
// one where they are of binomials, see [TestPublishedGroups]:
//
//	betablocker   k = 3, cbind(Deaths, Total - Deaths) ~ 1 | Center, fixed ~ Treatment     −159.3605
//	fabricfault   k = 2, Faults ~ 1, fixed ~ log(Length), Poisson                          −86.33119
//	tribolium     k = 2, cbind(Remaining, Total - Remaining) ~ 1, fixed ~ I(Species == "Confusum"),
//	              concomitant ~ I(Replicate == 3)                                          −79.8254
//	trypanosome   k = 2, cbind(Dead, 1 - Dead) ~ 1, fixed ~ log(Dose)                      −177.3686
func TestPublishedTied(t *testing.T) {
	testslow.Mark(t)
	check := func(name string, m *fitted.Model, err error, constant, want float64, parameters int) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		got := m.Fit.LogLikelihood + constant
		t.Logf("%s: %.5f, published %v", name, got, want)
		if got < want-5e-4 {
			t.Errorf("%s: log-likelihood %v, published %v", name, got, want)
		}
		if aic := 2*float64(parameters) - 2*m.Fit.LogLikelihood; math.Abs(m.Fit.AIC-aic) > 1e-9 {
			t.Errorf("%s: AIC %v, want %v of %d parameters", name, m.Fit.AIC, aic, parameters)
		}
	}
	src, constant := betablocker.rows()
	logit := activation(sigmoid.Family, nil)
	m, err := Fit(t.Context(), logit, src, Config{K: 3, Family: "binomial", Intercepts: BothIntercepts, Tied: []string{"x1"}, Method: Auto{Starts: 2}, unjudged: true})
	check("betablocker", m, err, constant, -159.3605, 6)

	length := []float64{551, 651, 832, 375, 715, 868, 271, 630, 491, 372, 645, 441, 895, 458, 642, 492, 543, 842, 905, 542,
		522, 122, 657, 170, 738, 371, 735, 749, 495, 716, 952, 417}
	faults := []float64{6, 4, 17, 9, 14, 8, 5, 7, 7, 7, 6, 8, 28, 4, 10, 4, 8, 9, 23, 9, 6, 1, 9, 4, 9, 14, 17, 10, 7, 3, 9, 2}
	for i, v := range length {
		length[i] = math.Log(v)
	}
	m, err = Fit(t.Context(), activation(exp.Family, nil), dataset.Matrix(mat.NewDense(len(length), 1, length), faults),
		Config{K: 2, Family: "poisson", Intercepts: BothIntercepts, Gate: Constant{}, Tied: []string{"x1"}, unjudged: true})
	check("fabricfault", m, err, 0, -86.33119, 4)

	remaining := []int{25, 26, 26, 29, 28, 27, 26, 20, 14, 24, 14, 24, 14, 13, 19, 10, 7, 14, 15, 26, 32, 32, 19, 16, 13, 15,
		23}
	var rows, y, ids []float64
	constant = 0
	for r, of := range remaining {
		for trial := range 50 {
			confusum, third, one := 0.0, 0.0, 0.0
			if r/9 == 1 {
				confusum = 1
			}
			if r/3%3 == 2 {
				third = 1
			}
			if trial < of {
				one = 1
			}
			rows, y, ids = append(rows, confusum, third), append(y, one), append(ids, float64(r))
		}
		constant += logChoose(50, of)
	}
	src = dataset.Matrix(mat.NewDense(len(y), 2, rows), y).Named([]string{"confusum", "third"}, "y").
		With(model.Groups, "row", ids)
	m, err = Fit(t.Context(), logit, src, Config{K: 2, Family: "binomial", Intercepts: BothIntercepts,
		ExpertFeatures: []string{"confusum"}, Gate: Softmax{Features: []string{"third"}}, Tied: []string{"confusum"}, unjudged: true})
	check("tribolium", m, err, constant, -79.8254, 5)

	var dose, dead []float64
	for d, counts := range [][2]int{{55, 0}, {41, 8}, {42, 18}, {37, 18}, {31, 22}, {16, 37}, {4, 47}, {0, 50}} {
		for i := range counts[0] + counts[1] {
			dose, dead = append(dose, math.Log(4.7+0.1*float64(d))), append(dead, 0)
			if i >= counts[0] {
				dead[len(dead)-1] = 1
			}
		}
	}
	m, err = Fit(t.Context(), logit, dataset.Matrix(mat.NewDense(len(dose), 1, dose), dead),
		Config{K: 2, Family: "binomial", Intercepts: BothIntercepts, Gate: Constant{}, Tied: []string{"x1"}, unjudged: true})
	check("trypanosome", m, err, 0, -177.3686, 4)
}
