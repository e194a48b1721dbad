package host

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/probit"
	"github.com/gatedlearning/moe/plugins/sigmoid"
)

// TestTrialsByR: one expert is R's glm(cbind(y, n − y) ~ …, binomial), log-likelihood, coefficients and standard errors,
// and two are at least flexmix's best of 20 starts with FLXMRglm(family = "binomial") and minprior 0, of esoph, which
// comes with R, and of flexmix's tribolium. Of esoph the search finds a better one, in which a gate and an expert separate
// rows; flexmix's is where EM from eight starts ends.
func TestTrialsByR(t *testing.T) {
	testslow.Mark(t)
	act := activation(sigmoid.Family, nil)
	for name, c := range map[string]struct {
		table, formula, trials string
		k                      int
		logLik                 float64
		coefficients, errors   []float64 // of the first expert, the intercept last
	}{
		"esoph, glm": {"esoph.csv", "cbind(ncases, ncontrols) ~ age + alc + tob", "", 1, -111.91672945106,
			[]float64{0.74375136, 1.10255472, 0.43085076, -7.16395276}, []float64{0.0817868, 0.1031689, 0.0939367, 0.5093146}},
		"esoph, glm with the probit link": {"esoph.csv", "cbind(ncases, ncontrols) ~ age + alc + tob", "", 1, -109.58176299666,
			[]float64{0.4281324, 0.6399518, 0.2492580, -4.1483857}, nil},
		"tribolium, glm": {"tribolium.csv", "Remaining ~ Species + factor(Replicate)", "Total", 1, -82.497683571901,
			[]float64{-0.78462058, -0.27455359, -0.13798487, -0.67458349, 0.23333474}, []float64{0.1403466, 0.1355125, 0.1356957, 0.1403412, 0.1236758}},
		"esoph, flexmix": {"esoph.csv", "cbind(ncases, ncontrols) ~ age + alc + tob", "", 2, -99.607141220917,
			[]float64{1.14715626, 1.42200390, 0.21220627, -8.82735053}, nil},
		"tribolium, flexmix": {"tribolium.csv", "Remaining ~ 1 | Species", "Total", 2, -82.725026724087, nil, nil},
	} {
		src, cfg := byFormula(t, c.table, c.formula, dataset.Roles{model.Trials: c.trials}, Config{K: c.k, Family: "binomial"})
		g := act
		if strings.Contains(name, "probit") {
			g = activation(probit.Family, nil)
		}
		m, err := Fit(t.Context(), g, src, cfg)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name == "esoph, flexmix" {
			if got := m.Fit.LogLikelihood; got < -98.22 {
				t.Errorf("%s: log-likelihood %v, want -98.22", name, got)
			}
			cfg.Method = EM{}
			if m, err = Fit(t.Context(), g, src, cfg); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if got := m.Fit.LogLikelihood; got < c.logLik-1e-6 || got > c.logLik+1e-5 {
			t.Errorf("%s: log-likelihood %v, want %v", name, got, c.logLik)
		}
		near := func(what string, got, want float64) {
			within := 1e-4
			if c.k > 1 { // flexmix ends before the maximum
				within = 3e-3
			}
			if math.Abs(got-want) > within*math.Abs(want) {
				t.Errorf("%s: %s is %v, R has %v", name, what, got, want)
			}
		}
		for j, want := range c.coefficients {
			if last := j == len(c.coefficients)-1; last {
				near("the intercept", m.RegressorIntercepts[0], want)
			} else {
				near(m.Features[j], m.Regressors[0][j], want)
			}
		}
		for j, want := range c.errors {
			if last := j == len(c.errors)-1; last {
				near("its standard error", m.StandardErrors.RegressorIntercepts[0], want)
			} else {
				near("the standard error of "+m.Features[j], m.StandardErrors.Regressors[0][j], want)
			}
		}
	}
}

// withTrials are rows of so many trials from two experts.
func withTrials(t *testing.T, trials, n int) *model.Data {
	t.Helper()
	src, err := sample.New(sample.Config{Activation: actOf(t, sigmoid.Family), Family: "binomial", Trials: trials, K: 2, D: 3, N: n, Design: sample.Random, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	return mustLoad(t, src)
}

// TestTrialsAreRows: y successes of n trials are n rows of 0 and 1 in a group, which have one expert: the same
// maximum, less Σ log n!/(y!(n − y)!), the same standard errors.
func TestTrialsAreRows(t *testing.T) {
	testslow.Mark(t)
	data := withTrials(t, 4, 400)
	schema := dataset.Names(3, true)
	schema.Roles[model.Trials] = "n"
	g := activation(sigmoid.Family, nil)
	cfg := Config{K: 2, Family: "binomial", Method: Auto{Starts: 2}}
	m, err := Fit(t.Context(), g, dataset.InMemory(schema, data), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var x, y, id []float64
	choose := 0.0
	for _, b := range data.Blocks {
		for r := range b.N {
			for j := range 4 {
				for f := range 3 {
					x = append(x, b.Col(f)[r])
				}
				hit := 0.0
				if float64(j) < b.Y[r] {
					hit = 1
				}
				y, id = append(y, hit), append(id, float64(len(id)/4))
			}
			up, _ := math.Lgamma(b.Y[r] + 1)
			rest, _ := math.Lgamma(5 - b.Y[r])
			choose += math.Log(24) - up - rest
		}
	}
	rows := dataset.Matrix(mat.NewDense(len(y), 3, x), y).With(model.Groups, "id", id)
	apart, err := Fit(t.Context(), g, rows, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Fit.LogLikelihood, apart.Fit.LogLikelihood+choose; math.Abs(got-want) > 1e-6 {
		t.Errorf("log-likelihood %v, of rows in groups %v", got, want)
	}
	for i := range m.K {
		for j := range 3 {
			if got, want := m.Regressors[i][j], apart.Regressors[i][j]; math.Abs(got-want) > 1e-5 {
				t.Errorf("regressor %v, of rows in groups %v", got, want)
			}
			if got, want := m.StandardErrors.Regressors[i][j], apart.StandardErrors.Regressors[i][j]; math.Abs(got-want) > 1e-5 {
				t.Errorf("standard error %v, of rows in groups %v", got, want)
			}
		}
	}
}

// TestTrialsPredicted: with trials a mean is of the successes and the log-likelihood that of the fit, without them it is
// a probability, and targets without trials are refused.
func TestTrialsPredicted(t *testing.T) {
	data := withTrials(t, 7, 600)
	schema := dataset.Names(3, true)
	schema.Roles[model.Trials] = "n"
	m, err := Fit(t.Context(), activation(sigmoid.Family, nil), dataset.InMemory(schema, data), Config{K: 2, Family: "binomial"})
	if err != nil {
		t.Fatal(err)
	}
	if m.Roles["trials"] != "n" {
		t.Errorf("roles %v", m.Roles)
	}
	p := predict.New(m, actOf(t, sigmoid.Family))
	e, err := p.Evaluate(t.Context(), dataset.InMemory(schema, data))
	if err != nil || math.Abs(e.LogLikelihood-m.Fit.LogLikelihood) > 1e-9*math.Abs(m.Fit.LogLikelihood) {
		t.Errorf("evaluated to %+v, error %v; fitted to %v", e, err, m.Fit.LogLikelihood)
	}
	means := func(s dataset.Schema, data *model.Data) (mean, upper []float64) {
		t.Helper()
		if err := p.Table(dataset.InMemory(s, data), predict.Extras{Interval: 0.9, Experts: true}).Read(t.Context(), func(b *model.Block) error {
			mean, upper = append(mean, b.Col(0)...), append(upper, b.Col(len(b.X)/b.N-1)...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return mean, upper
	}
	counts, upper := means(schema, data)
	bare := &model.Data{N: data.N, D: data.D}
	for _, b := range data.Blocks {
		bare.Blocks = append(bare.Blocks, model.Block{N: b.N, X: b.X})
	}
	shares, one := means(dataset.Names(3, false), bare)
	for r := range counts {
		if math.Abs(counts[r]-7*shares[r]) > 1e-12 || one[r] > 1 || upper[r] > 7 || upper[r] < math.Floor(counts[r]) {
			t.Fatalf("row %d: mean %v up to %v of 7 trials, %v up to %v of one", r+1, counts[r], upper[r], shares[r], one[r])
		}
	}
	without := schema
	without.Roles = dataset.Roles{}
	if _, err := p.Evaluate(t.Context(), dataset.InMemory(without, data)); err == nil || !strings.Contains(err.Error(), "no column of trials, and the model has n") {
		t.Errorf("targets without trials: error %v", err)
	}
}

// TestTrialsRefused: what cannot be trials is refused with its row, in fits and in evaluations.
func TestTrialsRefused(t *testing.T) {
	for want, c := range map[string]struct{ y, n float64 }{
		"row 3: the trials are 0, want whole numbers from 1":                                           {0, 0},
		"row 3: the target is 6 of 5 trials, and the family binomial takes whole numbers from 0 to 5":  {6, 5},
		"row 3: the target is -1 of 5 trials, and the family binomial takes whole numbers from 0 to 5": {-1, 5},
		"row 3: the target is 0.5 of 5 trials, and the family binomial takes":                          {0.5, 5},
		"not a whole number of trials":                                                                 {1, 2.5},
	} {
		x, y, n := mat.NewDense(6, 1, []float64{1, 2, 3, 4, 5, 6}), []float64{1, 2, c.y, 3, 1, 0}, []float64{4, 4, c.n, 4, 4, 4}
		src := dataset.Matrix(x, y).With(model.Trials, "n", n)
		_, err := Fit(t.Context(), activation(sigmoid.Family, nil), src, Config{K: 1, Family: "binomial"})
		if bad := (*dataset.Error)(nil); !errors.As(err, &bad) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("y %v of %v: error %v", c.y, c.n, err)
		}
	}
	src := dataset.Matrix(mat.NewDense(2, 1, []float64{1, 2}), []float64{1, 2}).With(model.Trials, "n", []float64{3, 3})
	if _, err := Fit(t.Context(), activation(sigmoid.Family, nil), src, Config{K: 1}); err == nil || !strings.Contains(err.Error(), "the trials n are for the family binomial") {
		t.Errorf("normal noise with trials: error %v", err)
	}
}
