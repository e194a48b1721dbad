package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distmv"

	"github.com/gatedlearning/moe/host/checkpoint"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/infer"
	"github.com/gatedlearning/moe/host/mixture/joint"
	"github.com/gatedlearning/moe/host/mixture/mixturetest"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
)

func init() { mixturetest.RegisterJoint() }

// jointCase is a density of several targets that is registered here, and nowhere else, drawn and fitted.
type jointCase struct {
	family  string
	targets int
	own     float64
	noise   Noise
	log     func(y, mean, scale []float64, own float64) float64 // log f, from gonum
}

var jointCases = map[string]jointCase{
	"exchangeable":                      {"exchangeable", 2, math.Atanh(0.6), nil, exchangeableLog},
	"exchangeable of three, per expert": {"exchangeable", 3, math.Atanh(0.4), PerExpert{}, exchangeableLog},
	"outlying":                          {"outlying", 2, math.Log(4), nil, outlyingLog},
}

func exchangeableLog(y, mean, scale []float64, own float64) float64 {
	cov := mat.NewSymDense(len(y), nil)
	for c, s := range scale {
		for b := range c {
			cov.SetSym(c, b, math.Tanh(own)*s*scale[b])
		}
		cov.SetSym(c, c, s*s)
	}
	law, _ := distmv.NewNormal(mean, cov, nil)
	return law.LogProb(y)
}

func outlyingLog(y, mean, scale []float64, own float64) float64 {
	cov := mat.NewSymDense(len(y), nil)
	for c, s := range scale {
		cov.SetSym(c, c, s*s)
	}
	law, _ := distmv.NewStudentsT(mean, cov, math.Exp(own), nil)
	return law.LogProb(y)
}

// likelihood is the log-likelihood of the tables' rows under a model, written out.
func (c jointCase) likelihood(t *testing.T, v *fitted.Vector, targets []Target) (sum float64) {
	t.Helper()
	var tables []*model.Data
	for _, of := range targets {
		data, err := dataset.Load(t.Context(), of.Source)
		if err != nil {
			t.Fatal(err)
		}
		tables = append(tables, data)
	}
	for at, b := range tables[0].Blocks {
		for r := range b.N {
			linear := func(coef []float64) (z float64) {
				for j, a := range coef {
					z += a * b.Col(j)[r]
				}
				return z
			}
			norm, density := 0.0, 0.0
			for i := range v.K {
				odds := 1.0
				if i < v.K-1 {
					odds = math.Exp(linear(v.Outputs[0].Gating[i]))
				}
				var y, mean, scale []float64
				level := min(i, len(v.Outputs[0].Sigma)-1)
				for j, o := range v.Outputs {
					y = append(y, tables[j].Blocks[at].Y[r])
					mean, scale = append(mean, linear(o.Regressors[i])), append(scale, o.Sigma[level])
				}
				own := 0.0
				for _, values := range v.SharedGate.Own {
					own = values[level]
				}
				norm += odds
				density += odds * math.Exp(c.log(y, mean, scale, own))
			}
			sum += math.Log(density / norm)
		}
	}
	return sum
}

// TestJointDensities: a density of several targets that is registered here goes through samples, fit, standard errors, certificate, file,
// predictions, evaluation, checkpoints and crossvalidation. Its likelihood is held against the density of gonum, written out; its own parameter ends where
// the sample has it.
func TestJointDensities(t *testing.T) {
	testslow.Mark(t)
	act := activation(identity.Family, nil)
	for name, c := range jointCases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			normal, err := sample.NewVector(sample.Config{Activation: act, K: 2, D: 3, N: 1200, Sigma: 0.3, Design: sample.Separated, Seed: 5},
				c.targets, 0)
			if err != nil {
				t.Fatal(err)
			}
			s, err := normal.Under(c.family, []float64{c.own})
			if err != nil {
				t.Fatal(err)
			}
			targets := sampledTargets(t, s)
			var kept [][]byte
			cfg := Config{K: 2, Seed: 1, Family: c.family, Noise: c.noise, Method: Auto{Starts: 8}, Errors: []infer.Kind{infer.Observed, infer.Dependent},
				Checkpoint: func(save func() (*Checkpoint, error)) {
					state, err := save()
					if err != nil {
						t.Fatal(err)
					}
					text, err := json.Marshal(state)
					if err != nil {
						t.Fatal(err)
					}
					kept = append(kept, text)
				}}
			v, err := FitSharedGate(ctx, act, targets, Diagonal, cfg)
			if err != nil {
				t.Fatal(err)
			}
			fit := v.SharedGate.Fit
			if !fit.Converged || fit.Certificate == nil || fit.Certificate.Model == infer.Suspect {
				t.Errorf("status %s, notes %q, certificate %+v", fit.Status, fit.Notes, fit.Certificate)
			}
			if want := c.likelihood(t, v, targets); math.Abs(fit.LogLikelihood-want) > 1e-8*math.Abs(want) {
				t.Errorf("the log-likelihood is %v, written out %v", fit.LogLikelihood, want)
			}
			for own, values := range v.SharedGate.Own {
				for i, value := range values {
					// Five standard errors: one false alarm in a million.
					if se := v.SharedGate.OwnErrors[own][i]; !(se > 0) || math.Abs(value-c.own) > 5*se || !(v.SharedGate.OwnHACErrors[own][i] > 0) {
						t.Errorf("%s is %v ± %v, want %v", own, value, se, c.own)
					}
				}
			}
			if v.SharedGate.Covariance == nil || !slices.ContainsFunc(v.SharedGate.Covariance.Parameters, func(p string) bool {
				return strings.HasPrefix(p, joint.Of(c.family).Own(2)[0].Name)
			}) {
				t.Error("the covariance does not name the own parameter")
			}

			whole, err := v.JSON()
			if err != nil {
				t.Fatal(err)
			}
			for i, data := range kept {
				from := new(Checkpoint)
				if err := json.Unmarshal(data, from); err != nil {
					t.Fatal(err)
				}
				again := cfg
				again.Checkpoint, again.Resume, again.Threads = nil, from, 1+i%2
				resumed, err := FitSharedGate(ctx, act, targets, Diagonal, again)
				if err != nil {
					t.Fatalf("checkpoint %d: %v", i+1, err)
				}
				if got, err := resumed.JSON(); err != nil || !bytes.Equal(got, whole) {
					t.Errorf("from checkpoint %d of %d another file, error %v", i+1, len(kept), err)
				}
				other := map[string]string{"exchangeable": "outlying", "outlying": "exchangeable"} // of as many parameters
				again.Family = other[c.family]
				if fault := (*checkpoint.Error)(nil); i == 0 {
					if _, err := FitSharedGate(ctx, act, targets, Diagonal, again); !errors.As(err, &fault) {
						t.Errorf("under another density: %v", err)
					}
				}
			}
			if len(kept) == 0 {
				t.Error("no checkpoints")
			}

			file := filepath.Join(t.TempDir(), "m.json")
			if err := v.Write(ctx, file); err != nil {
				t.Fatal(err)
			}
			read, err := fitted.ReadVector(file)
			if err != nil {
				t.Fatal(err)
			}
			var tables []dataset.Source
			for _, of := range targets {
				tables = append(tables, of.Source)
			}
			loglik, err := predict.JointLogLikelihood(ctx, read, act, tables)
			if err != nil || math.Abs(loglik-fit.LogLikelihood) > 1e-6 {
				t.Errorf("the file has the log-likelihood %v, its fit %v, error %v", loglik, fit.LogLikelihood, err)
			}
			alone := 0.0
			for j := range read.Outputs {
				e, err := predict.EvaluateModel(ctx, read.Model(j), act, tables[j])
				if err != nil {
					t.Fatal(err)
				}
				alone += e.LogLikelihood
			}
			if !(alone < loglik) { // a row's expert is that of all its targets
				t.Errorf("the targets' log-likelihoods are %v in sum, of all together %v", alone, loglik)
			}
			predicted, err := predict.JointOutputs(read, act, tables, 0.9)
			if err != nil {
				t.Fatal(err)
			}
			truth, err := dataset.Load(ctx, tables[0])
			if err != nil {
				t.Fatal(err)
			}
			held, block, m := 0, 0, c.targets
			err = predicted.Read(ctx, func(b *model.Block) error {
				for r, y := range truth.Blocks[block].Y {
					if lower, upper := b.Col(m + 4)[r], b.Col(m + 5)[r]; lower <= y && y <= upper {
						held++
					}
				}
				block++
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			judged := cfg
			judged.Checkpoint = nil
			crossed, err := Alternative{Activation: act, Targets: targets, Covariance: Diagonal, From: 2, To: 2, Config: judged}.CrossValidate(ctx, 2)
			if err != nil {
				t.Fatal(err)
			}
			// By Akaike as many as there are parameters below the fit, twice that by halves; by normal noise far below.
			if lost := fit.LogLikelihood - crossed[0].LogLikelihood; lost < 0 || lost > 80 || len(crossed[0].Targets) != c.targets {
				t.Errorf("held out rows have %+v, the fit %v", crossed[0], fit.LogLikelihood)
			}
			// Of 1200 rows a tenth outside: four standard errors are 0.035.
			if share := float64(held) / 1200; math.Abs(share-0.9) > 0.035 {
				t.Errorf("intervals of 90 %% hold %v of the rows", share)
			}
		})
	}
}

// TestJointIsCorrelated: two normal targets with any correlation are those of full noise: the same maximum.
func TestJointIsCorrelated(t *testing.T) {
	act := activation(identity.Family, nil)
	s, err := sample.NewVector(sample.Config{Activation: act, K: 2, D: 2, N: 400, Sigma: 0.3, Design: sample.Separated, Seed: 3}, 2, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	targets := sampledTargets(t, s)
	full, err := FitSharedGate(t.Context(), act, targets, Full, Config{K: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	v, err := FitSharedGate(t.Context(), act, targets, Diagonal, Config{K: 2, Seed: 1, Family: "exchangeable"})
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-5*(1+math.Abs(want)) { // where either search ends
			t.Errorf("%s is %v, of full noise %v", what, got, want)
		}
	}
	near("the log-likelihood", v.SharedGate.Fit.LogLikelihood, full.SharedGate.Fit.LogLikelihood)
	rho := math.Tanh(v.SharedGate.Own["z"][0])
	near("the correlation", rho, full.SharedGate.Correlations[0][1][0])
	near("its standard error", v.SharedGate.OwnErrors["z"][0]*(1-rho*rho), full.SharedGate.CorrelationErrors[0][1][0])
	for j, o := range v.Outputs {
		near("sigma", o.Sigma[0], full.Outputs[j].Sigma[0])
		near("its standard error", o.StandardErrors.Sigma[0], full.Outputs[j].StandardErrors.Sigma[0])
	}
}

// TestJointRefusals: what knows no density of several targets says so in a line.
func TestJointRefusals(t *testing.T) {
	testslow.Mark(t)
	act := activation(identity.Family, nil)
	s, err := sample.NewVector(sample.Config{Activation: act, K: 2, D: 2, N: 100, Sigma: 0.3, Design: sample.Separated, Seed: 3}, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	targets := sampledTargets(t, s)
	cfg := Config{K: 2, Family: "exchangeable"}
	for what, fit := range map[string]func() error{
		"of normal noise":          func() error { _, err := FitSharedGate(t.Context(), act, targets, Full, cfg); return err },
		"knows normal noise alone": func() error { _, err := FitTargets(t.Context(), act, targets, cfg); return err },
		"there are":                func() error { _, err := Fit(t.Context(), act, targets[0].Source, cfg); return err },
		"there are exchangeable": func() error {
			_, err := FitSharedGate(t.Context(), act, targets, Diagonal, Config{K: 2, Family: "poisson"})
			return err
		},
	} {
		if err := fit(); err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one that says %q", err, what)
		}
	}
	if _, err := s.Under("exchangeable", nil); err == nil {
		t.Error("drawn without its own parameter")
	}
	v, err := FitSharedGate(t.Context(), act, targets, Diagonal, cfg)
	if err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(s *fitted.SharedGate){
		"not known here":       func(s *fitted.SharedGate) { s.Family = "unknown" },
		"beside the family":    func(s *fitted.SharedGate) { s.Noise = Diagonal },
		"own has 2 parameters": func(s *fitted.SharedGate) { s.Own = fitted.Own{"z": s.Own["z"], "b": s.Own["z"]} },
		"own.z":                func(s *fitted.SharedGate) { s.Own = fitted.Own{"z": {9}} },
		"standard errors of z": func(s *fitted.SharedGate) { s.OwnErrors = fitted.Own{"z": {1, 2}} },
	} {
		spoiled, shared := *v, *v.SharedGate
		spoiled.SharedGate = &shared
		spoil(&shared)
		if err := spoiled.Validate(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want one that says %q", err, what)
		}
	}
}

// TestJointCertificate: fits under the density that the rows are drawn from pass the certificate's tests, and normal noise, correlated or
// not, of rows that are outliers as a whole does not.
func TestJointCertificate(t *testing.T) {
	testslow.Mark(t)
	act := activation(identity.Family, nil)
	for seed := range uint64(10) {
		for family, own := range map[string]float64{"exchangeable": math.Atanh(0.5), "outlying": math.Log(3)} {
			normal, err := sample.NewVector(sample.Config{Activation: act, K: 2, D: 2, N: 600, Sigma: 0.3, Design: sample.Separated, Seed: 40 + seed},
				2, 0)
			if err != nil {
				t.Fatal(err)
			}
			s, err := normal.Under(family, []float64{own})
			if err != nil {
				t.Fatal(err)
			}
			fit := func(noise NoiseCovariance, family string) *fitted.Certificate {
				v, err := FitSharedGate(t.Context(), act, sampledTargets(t, s), noise, Config{K: 2, Seed: 1, Family: family, Method: Auto{Starts: 4}})
				if err != nil {
					t.Fatal(err)
				}
				return v.SharedGate.Fit.Certificate
			}
			// The level is 0.001: one of twenty fits is suspect in 2 % of such tests.
			if c := fit(Diagonal, family); c == nil || c.Model != infer.Pass {
				t.Errorf("seed %d: %s has the certificate %+v", seed, family, c)
			}
			if c := fit(Full, ""); family == "outlying" && c.Model != infer.Suspect {
				t.Errorf("seed %d: normal noise of outlying rows has p = %v", seed, c.PValue)
			}
		}
	}
}
