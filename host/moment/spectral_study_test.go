package moment

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/metric"
	"github.com/gatedlearning/moe/host/problem"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/plugins/leakyrelu"
	"github.com/gatedlearning/moe/plugins/relu"
	"github.com/gatedlearning/moe/plugins/sigmoid"
	"github.com/gatedlearning/moe/sdk"
)

// studySets is the number of data sets of a study, 0 where none was asked for.
func studySets(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("MOE_STUDY"))
	if err != nil {
		t.Skip("a study: MOE_STUDY is the number of data sets")
	}
	return n
}

func activation(t testing.TB, f sdk.Family, params sdk.Params) sdk.Activation {
	t.Helper()
	act, err := f.Activation(params)
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// spectralRow is a setting with the median E_reg that a prototype reached over ten
// data sets with the cubic transform of minimum variance.
type spectralRow struct {
	family  sdk.Family
	params  sdk.Params
	k, d, n int
	sigma   float64
	printed float64
}

var spectralRows = []spectralRow{
	{relu.Family, nil, 2, 10, 5_000, .05, .012},
	{relu.Family, nil, 3, 10, 20_000, .05, .0067},
	{relu.Family, nil, 3, 10, 20_000, .3, .019},
	{relu.Family, nil, 4, 20, 20_000, .05, .026},
	{relu.Family, nil, 6, 20, 80_000, .05, .018},
	{leakyrelu.Family, sdk.Params{"slope": .1}, 3, 10, 10_000, .05, .0056},
	{identity.Family, nil, 4, 10, 10_000, .05, .0084},
	{identity.Family, nil, 8, 20, 20_000, .05, .045},
	{identity.Family, nil, 3, 10, 20_000, .5, .0038},
	{sigmoid.Family, nil, 3, 10, 10_000, .05, .0061},
}

func (r spectralRow) String() string {
	return fmt.Sprintf("%s k=%d d=%d n=%d σ=%v", r.family.Name, r.k, r.d, r.n, r.sigma)
}

// errorsOf are E_reg of an estimate on data set seed, 1 where there is none.
func (r spectralRow) errorOf(t testing.TB, seed uint64, w Want, known bool) float64 {
	t.Helper()
	return r.errorBy(t, seed, w, known, 0)
}

// errorBy is errorOf with a weight of L4.
func (r spectralRow) errorBy(t testing.TB, seed uint64, w Want, known bool, mu float64) float64 {
	t.Helper()
	act := activation(t, r.family, r.params)
	s, err := sample.New(sample.Config{Activation: act, K: r.k, D: r.d, N: r.n, Sigma: r.sigma, Design: sample.Paper, Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	request := problem.Request{K: r.k, Seed: seed, Threads: 1}
	if known {
		request.Noise = problem.Shared{Sigma: r.sigma}
	}
	p, err := problem.Load(t.Context(), s, act, request)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Measure(t.Context(), p, w)
	if err != nil {
		t.Fatal(err)
	}
	estimate := func() (*Estimate, string, error) { return EstimateParams(t.Context(), p, e, mu) }
	if w.Order == 3 {
		estimate = func() (*Estimate, string, error) { return EstimateSpectral(t.Context(), p, e) }
	}
	est, _, err := estimate()
	if err != nil {
		t.Fatal(err)
	}
	if est == nil {
		return 1
	}
	v, _ := metric.Ereg(est.Params, s.Truth)
	return v
}

func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// TestSpectralStudy holds the spectral estimate with transforms of minimum variance
// against the prototype's table: over 100 data sets a row the medians' geometric mean
// is at most 1.15 times the print and none above 1.6 times, and with σ estimated at
// most 1.4 times what they are with σ given. Fifteen minutes on one core:
//
//	MOE_STUDY=100 go test ./host/moment -run TestSpectralStudy -v -timeout 1h
func TestSpectralStudy(t *testing.T) {
	sets := studySets(t)
	ratios, logs := 0.0, 0.0
	for _, r := range spectralRows {
		var all [6][]float64
		for seed := range uint64(sets) {
			for i, w := range []Want{{Transform: Polynomial, Order: 4}, {Transform: Optimal, Order: 4}, {Transform: Polynomial, Order: 3}, {Transform: Optimal, Order: 3}} {
				all[i] = append(all[i], r.errorOf(t, seed+1, w, true))
			}
			all[4] = append(all[4], r.errorOf(t, seed+1, Want{Transform: Optimal, Order: 3}, false))
			all[5] = append(all[5], r.errorOf(t, seed+1, Want{Transform: Optimal, Order: 4}, false))
		}
		m := func(i int) float64 { return median(all[i]) }
		ratio := m(3) / r.printed
		ratios, logs = max(ratios, ratio), logs+math.Log(ratio)/float64(len(spectralRows))
		t.Logf("%v: polynomial quartic %.4f cubic %.4f; optimal quartic %.4f cubic %.4f (%.2f of the print); σ estimated: quartic %.4f, cubic %.4f (%.2f)",
			r, m(0), m(2), m(1), m(3), ratio, m(5), m(4), m(4)/m(3))
		if m(4) > 1.4*m(3) {
			t.Errorf("%v: %.4f with σ estimated, %.4f with σ known", r, m(4), m(3))
		}
	}
	t.Logf("geometric mean %.3f of the print, largest %.2f", math.Exp(logs), ratios)
	if math.Exp(logs) > 1.15 || ratios > 1.6 {
		t.Errorf("geometric mean %.3f of the print, largest %.2f; want at most 1.15 and 1.6", math.Exp(logs), ratios)
	}
}

// TestWrongNoiseStudy: the spectral estimate of ReLU, k = 2, d = 10, n = 20,000, noise of
// standard deviation .05, with the transforms made for another σ and with noise that is
// Laplace's or Student's t with five degrees of freedom. By the transform of minimum
// variance it is no worse, unless that is made for a fifth of σ. A minute:
//
//	MOE_STUDY=40 go test ./host/moment -run TestWrongNoiseStudy -v
func TestWrongNoiseStudy(t *testing.T) {
	sets := studySets(t)
	act := activation(t, relu.Family, nil)
	normal := func(rng *rand.Rand) float64 { return rng.NormFloat64() }
	laplace := func(rng *rand.Rand) float64 { return math.Copysign(rng.ExpFloat64(), rng.Float64()-.5) / math.Sqrt2 }
	student := func(rng *rand.Rand) float64 {
		var chi float64
		for range 5 {
			chi += math.Pow(rng.NormFloat64(), 2)
		}
		return rng.NormFloat64() / math.Sqrt(chi/5) / math.Sqrt(5./3)
	}
	for _, c := range []struct {
		name  string
		noise func(*rand.Rand) float64
		made  float64 // 0: estimated
	}{
		{"made for .05", normal, .05}, {"made for .01", normal, .01}, {"made for .02", normal, .02},
		{"made for .08", normal, .08}, {"made for .1", normal, .1}, {"made for .2", normal, .2}, {"σ estimated", normal, 0},
		{"Laplace, .05", laplace, .05}, {"Laplace, σ estimated", laplace, 0}, {"t(5), .05", student, .05}, {"t(5), σ estimated", student, 0},
	} {
		var errs [2][]float64
		for seed := range uint64(sets) {
			s, err := sample.New(sample.Config{Activation: act, K: 2, D: 10, N: 20_000, Sigma: 1e-12, Design: sample.Paper, Seed: seed + 1})
			if err != nil {
				t.Fatal(err)
			}
			data, err := dataset.Load(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(seed, 77))
			x, y := mat.NewDense(data.N, data.D, nil), make([]float64, 0, data.N)
			for i := range data.Blocks {
				b := &data.Blocks[i]
				for r := range b.N {
					for j := range data.D {
						x.Set(len(y), j, b.Col(j)[r])
					}
					y = append(y, b.Y[r]+.05*c.noise(rng))
				}
			}
			p, err := problem.Load(t.Context(), dataset.Matrix(x, y), act, problem.Request{K: 2, Threads: 1, Noise: problem.Shared{Sigma: c.made}})
			if err != nil {
				t.Fatal(err)
			}
			for i, transform := range Transforms() {
				e, err := Measure(t.Context(), p, Want{Transform: transform, Order: 3})
				if err != nil {
					t.Fatal(err)
				}
				est, _, err := EstimateSpectral(t.Context(), p, e)
				if err != nil {
					t.Fatal(err)
				}
				v := 1.0
				if est != nil {
					v, _ = metric.Ereg(est.Params, s.Truth)
				}
				errs[i] = append(errs[i], v)
			}
		}
		t.Logf("%s: median E_reg by the polynomial %.4f, by the transform of minimum variance %.4f", c.name, median(errs[0]), median(errs[1]))
		if c.made != .01 && median(errs[1]) > median(errs[0]) {
			t.Errorf("%s: the polynomial is the better one", c.name)
		}
	}
}
