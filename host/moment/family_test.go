package moment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/mixture"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/sdk"
	"github.com/gatedlearning/moe/solver"
)

// familyCell is a setting with the median E_reg that a prototype reached over ten data sets with the cubic transform of
// minimum variance, at n = 20,000 and 50,000, of k = 3 experts over 10 features.
type familyCell struct {
	family  string
	act     sdk.Activation
	sigma   float64
	own     []float64
	printed [2]float64
}

func (c familyCell) String() string {
	return strings.TrimRight(fmt.Sprint(c.family, " ", c.act.Info().Name, " ", c.sigma, " ", c.own), " 0[]")
}

func function(name string, g, dg func(z float64) float64, kinks ...float64) sdk.Func {
	return sdk.Func{Name: name, G: g, DG: dg, Kinks: kinks}
}

func familyCells(t testing.TB) []familyCell {
	expo := function("exp", math.Exp, math.Exp)
	shifted := function("exp1", func(z float64) float64 { return math.Exp(1 + z) },
		func(z float64) float64 { return math.Exp(1 + z) })
	softplus := function("softplus3", func(z float64) float64 { return 3 * math.Log1p(math.Exp(z+.5)) },
		func(z float64) float64 { return 3 / (1 + math.Exp(-z-.5)) })
	lifted := function("relu5", func(z float64) float64 { return 5*max(z, 0) + .1 },
		func(z float64) float64 {
			if z > 0 {
				return 5
			}
			return 0
		}, 0)
	return []familyCell{
		{"poisson", expo, 0, nil, [2]float64{.0099, .0048}},
		{"poisson", shifted, 0, nil, [2]float64{.0052, .0021}},
		{"negative-binomial", shifted, 2, nil, [2]float64{.0091, .0038}},
		{"poisson", softplus, 0, nil, [2]float64{.0129, .0037}},
		{"poisson", lifted, 0, nil, [2]float64{.0143, .0068}},
		{"gamma", expo, 3, nil, [2]float64{.0049, .0020}},
		{"student-t", activation(t, identity.Family, nil), .1, []float64{3}, [2]float64{.0028, .0011}},
		{"student-t", activation(t, identity.Family, nil), .1, []float64{1}, [2]float64{.0036, .0012}},
		{"student-t", activation(t, relu.Family, nil), .05, []float64{3}, [2]float64{.0110, .0035}},
	}
}

// errorOf is E_reg of the cubic estimate from n rows, 1 where there is none, and the median that is predicted.
func (c familyCell) errorOf(t testing.TB, n int, seed uint64, given bool) (ereg, predicted float64) {
	t.Helper()
	s, err := sample.New(sample.Config{
		Activation: c.act, K: 3, D: 10, N: n, Sigma: c.sigma, Own: c.own, Family: c.family, Design: sample.Paper, Seed: seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := problem.Load(t.Context(), s, c.act, problem.Request{K: 3, Family: c.family, Seed: seed, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Measure(t.Context(), p, Want{Order: 3})
	if err != nil {
		t.Fatal(err)
	}
	if given {
		e.Marginal = &Marginal{Norm: 1, Own: s.Truth.OwnOf(nil, 0)}
		if e, err = e.With(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	est, why, err := EstimateSpectral(t.Context(), p, e)
	if err != nil {
		t.Fatal(err)
	}
	if est == nil {
		t.Log(c, why)
		return 1, 0
	}
	ereg, _ = metric.Ereg(est.Params, s.Truth)
	rows := e.Optimal.Noise.Samples(solver.Design{K: 3, D: 10, Order: 3}, .01)
	return ereg, .01 * rows / float64(n)
}

// TestFamilyStudy holds the spectral estimate by transforms of minimum variance for any density against the prototype's
// table: over 20 data sets a cell the medians' geometric mean is at most 1.2 times the print and none is above twice of it,
// and none is farther than 2.5 times from what [solver.Noise.Samples] predicts,
// both with the density's own parameters and the regressors' norm told by the values of y and with the true ones given.
//
//	MOE_STUDY=20 go test ./host/moment -run TestFamilyStudy -v -timeout 1h
//
// In pieces it is TestFamilyStudy/poisson//given, TestFamilyStudy//20000/told and so on. Without the variable it is three
// data sets of three cells, whose medians are within 2.5 times of the print: of three data sets a median has a log-sd of
// .35, so that one of three is beyond in 1 of 70, were the seeds not fixed.
func TestFamilyStudy(t *testing.T) {
	testslow.Mark(t)
	sets, ns, knowing := 3, []int{20_000}, []string{"told"}
	study := os.Getenv("MOE_STUDY") != ""
	if study {
		sets, ns, knowing = studySets(t), []int{20_000, 50_000}, []string{"told", "given"}
	}
	logs, count := 0.0, 0.0
	for i, c := range familyCells(t) {
		if !study && i%3 != 0 {
			continue
		}
		for j, n := range ns {
			for _, known := range knowing {
				t.Run(fmt.Sprintf("%v/%d/%s", c, n, known), func(t *testing.T) {
					var errs, predicted []float64
					for seed := range uint64(sets) {
						v, p := c.errorOf(t, n, seed+1, known == "given")
						errs, predicted = append(errs, v), append(predicted, p)
					}
					if by := median(errs) / median(predicted); !(by > 1/2.5 && by < 2.5) {
						t.Errorf("%.4f, predicted %.4f", median(errs), median(predicted))
					}
					ratio := median(errs) / c.printed[j]
					logs, count = logs+math.Log(ratio), count+1
					t.Logf("%.4f, %.2f of the print %.4f, predicted %.4f", median(errs), ratio, c.printed[j], median(predicted))
					if ratio > 2.5 || study && ratio > 2 {
						t.Errorf("%.4f, the print is %.4f", median(errs), c.printed[j])
					}
				})
			}
		}
	}
	mean := math.Exp(logs / count)
	t.Logf("geometric mean %.3f of the print", mean)
	if study && mean > 1.2 {
		t.Errorf("geometric mean %.3f of the print, want at most 1.2", mean)
	}
}

// TestBegin: of correlated features with means, and an intercept, parameters begin near the truth: regressors within a
// quarter of their norms of .8, the intercept within .2 of 1, with their signs, by either order.
func TestBegin(t *testing.T) {
	const n, d, k = 20_000, 6, 2
	rng := rand.New(rand.NewPCG(3, 9))
	turn := mat.NewDense(d, d, nil)
	turn.Apply(func(i, j int, _ float64) float64 {
		if i == j {
			return 2
		}
		return .5 * rng.NormFloat64()
	}, turn)
	x, y := mat.NewDense(n, d, nil), make([]float64, n)
	truth := mat.NewDense(k, d, nil) // of the features before they are turned
	truth.Set(0, 0, .8)
	truth.Set(1, 1, -.8)
	for i := range n {
		z := make([]float64, d)
		for j := range z {
			z[j] = rng.NormFloat64()
		}
		at := 0
		if rng.Float64() > 1/(1+math.Exp(z[2])) {
			at = 1
		}
		y[i] = mixture.FromNormal(mixture.DensityOf("poisson"), math.Exp(1+floats.Dot(z, truth.RawRowView(at))), nil, rng.NormFloat64())
		for j := range d {
			x.Set(i, j, 3+floats.Dot(turn.RawRowView(j), z))
		}
	}
	expo := function("exp", math.Exp, math.Exp)
	p, err := problem.Load(t.Context(), dataset.Matrix(x, y), expo,
		problem.Request{K: k, Family: "poisson", Threads: 1, Intercepts: problem.BothIntercepts})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Measure(t.Context(), p, Want{})
	if err != nil {
		t.Fatal(err)
	}
	quartic, why, err := EstimateParams(t.Context(), p, e, 0)
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	cubic, why, err := EstimateSpectral(t.Context(), p, e)
	if err != nil || why != "" {
		t.Fatal(why, err)
	}
	var back mat.Dense // of regressors for x to those for z
	for name, est := range map[string]*Estimate{"quartic": quartic, "cubic": cubic} {
		q := p.Units.OutOf(Begin(p, e, est))
		back.Mul(mat.NewDense(k, d, q.Regressors), turn)
		for i := range k {
			row := back.RawRowView(i)
			off := math.Inf(1)
			for j := range k {
				off = min(off, floats.Distance(row, truth.RawRowView(j), 2))
			}
			if off > .2 {
				t.Errorf("%s: regressor %v is %.2g from those of the truth", name, row, off)
			}
			if b := q.RegressorIntercepts[i] + 3*floats.Sum(q.Regressor(i)); math.Abs(b-1) > .2 {
				t.Errorf("%s: the predictors' mean is %.3g, want 1", name, b)
			}
		}
	}
}
