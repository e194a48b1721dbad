package host_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host"
	"github.com/gatedlearning/moe/host/catalog"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/scaling"
	"github.com/gatedlearning/moe/internal/testslow"
)

// TestTargetScale: a fit of h(y) is that of a table whose target is h(y), to the byte, but for likelihoods, which are of y:
// Σ log |h′(y)| more, and BIC and AIC −2 times that.
func TestTargetScale(t *testing.T) {
	testslow.Mark(t)
	const n = 400
	rng := rand.New(rand.NewPCG(5, 8))
	x, y := mat.NewDense(n, 2, nil), make([]float64, n)
	for i := range y {
		a, b := rng.NormFloat64(), rng.NormFloat64()
		x.SetRow(i, []float64{a, b})
		mean := 3 + 0.5*a
		if rng.Float64() < 1/(1+math.Exp(-2*b)) {
			mean = 2 - 0.4*a
		}
		y[i] = math.Exp((mean + 0.1*rng.NormFloat64()) / 2)
	}
	identity, err := catalog.Open(t.Context(), "identity", nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := host.Config{K: 2, Intercepts: host.BothIntercepts, Seed: 1, Method: host.EM{Starts: 4}}
	itself, err := host.Fit(t.Context(), identity.Activation, dataset.Matrix(x, y), cfg)
	if err != nil {
		t.Fatal(err)
	}
	for scale, slope := range map[scaling.Scale]func(y float64) float64{
		scaling.Log:        func(y float64) float64 { return 1 / y },
		scaling.Sqrt:       func(y float64) float64 { return 1 / (2 * math.Sqrt(y)) },
		scaling.Reciprocal: func(y float64) float64 { return 1 / (y * y) },
	} {
		h, jacobian := make([]float64, n), 0.0
		for i, v := range y {
			h[i] = map[scaling.Scale]float64{scaling.Log: math.Log(v), scaling.Sqrt: math.Sqrt(v), scaling.Reciprocal: 1 / v}[scale]
			jacobian += math.Log(slope(v))
		}
		near := func(what string, got, want float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-9*math.Abs(jacobian) { // rounding
				t.Errorf("%s: %s is %v, want %v", scale, what, got, want)
			}
		}
		table := dataset.Scaled(dataset.Matrix(x, y), scale)
		got, err := host.Fit(t.Context(), identity.Activation, table, cfg)
		if err != nil {
			t.Fatal(err)
		}
		want, err := host.Fit(t.Context(), identity.Activation, dataset.Matrix(x, h), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Params(), want.Params()) || !reflect.DeepEqual(got.StandardErrors, want.StandardErrors) || !reflect.DeepEqual(got.Fit.Certificate, want.Fit.Certificate) {
			t.Errorf("%s: other parameters, standard errors or another certificate than of h(y)", scale)
		}
		if *got.Fit.LogLikelihoodTransformed != want.Fit.LogLikelihood {
			t.Errorf("%s: log-likelihood of h(y) %v, want %v", scale, *got.Fit.LogLikelihoodTransformed, want.Fit.LogLikelihood)
		}
		near("the log-likelihood", got.Fit.LogLikelihood, want.Fit.LogLikelihood+jacobian)
		near("BIC", got.Fit.BIC, want.Fit.BIC-2*jacobian)
		near("AIC", got.Fit.AIC, want.Fit.AIC-2*jacobian)
		for i := range got.Fit.Starts {
			near("a start's log-likelihood", got.Fit.Starts[i].LogLikelihood, want.Fit.Starts[i].LogLikelihood+jacobian)
		}
		if got.Format != fitted.FormatV4 || got.TargetScale != scale || got.Fit.RowsDigest != itself.Fit.RowsDigest || got.Fit.RowsDigest == want.Fit.RowsDigest {
			t.Errorf("%s: format %s, scale %s, or the rows are not those of the fit of y", scale, got.Format, got.TargetScale)
		}
		if err := got.Validate(); err != nil {
			t.Error(err)
		}

		ranges, err := host.FitRange(t.Context(), identity.Activation, table, 1, 2, cfg)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := host.FitRange(t.Context(), identity.Activation, dataset.Matrix(x, h), 1, 2, cfg)
		if err != nil {
			t.Fatal(err)
		}
		near("the range's log-likelihood", ranges.Fit.LogLikelihood, plain.Fit.LogLikelihood+jacobian)
		for i, c := range ranges.Fit.Selection {
			near("a candidate's log-likelihood", c.LogLikelihood, plain.Fit.Selection[i].LogLikelihood+jacobian)
			near("a candidate's BIC", c.BIC, plain.Fit.Selection[i].BIC-2*jacobian)
			near("a candidate's ICL", c.ICL, plain.Fit.Selection[i].ICL-2*jacobian)
		}

		held, err := host.CrossValidate(t.Context(), identity.Activation, table, 1, 1, 4, cfg)
		if err != nil {
			t.Fatal(err)
		}
		of, err := host.CrossValidate(t.Context(), identity.Activation, dataset.Matrix(x, h), 1, 1, 4, cfg)
		if err != nil {
			t.Fatal(err)
		}
		near("the held-out log-likelihood", held[0].LogLikelihood, of[0].LogLikelihood+jacobian)
	}

	// Several targets have none, nor have rows beyond the domain.
	scaled := dataset.Scaled(dataset.Matrix(x, y), scaling.Log)
	targets := []host.Target{{Source: scaled}, {Source: dataset.Matrix(x, y).Named([]string{"x1", "x2"}, "z")}}
	if _, err := host.FitTargets(t.Context(), identity.Activation, targets, cfg); err == nil {
		t.Error("several targets with a scale are fitted")
	}
	if _, err := host.FitSharedGate(t.Context(), identity.Activation, targets, host.Diagonal, host.Config{K: 2}); err == nil {
		t.Error("targets under one gate with a scale are fitted")
	}
	y[7] = 0
	_, err = host.Fit(t.Context(), identity.Activation, dataset.Scaled(dataset.Matrix(x, y), scaling.Sqrt), cfg)
	if want := `matrix: row 8: column "y" is 0, and sqrt(y) needs values above 0; leave such rows out, or fit another side of the formula`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
