package host

import (
	"context"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"

	"github.com/gatedlearning/moe/host/crossvalidation"
	"github.com/gatedlearning/moe/host/dataset"
	"github.com/gatedlearning/moe/host/fitted"
	"github.com/gatedlearning/moe/host/model"
	"github.com/gatedlearning/moe/host/predict"
	"github.com/gatedlearning/moe/host/sample"
	"github.com/gatedlearning/moe/host/search/penalty"
	"github.com/gatedlearning/moe/internal/testslow"
	"github.com/gatedlearning/moe/plugins/identity"
	"github.com/gatedlearning/moe/sdk"
)

// TestCrossValidateTargets: the scores of several targets are those of fits by hand: of every part the fit to the other rows, as
// [FitTargets] and [FitSharedGate] make it, measured on the part's rows as [predict.EvaluateModel] and [predict.JointLogLikelihood] do. Rows
// have weights. Densities of several targets that tests register are among them.
func TestCrossValidateTargets(t *testing.T) {
	testslow.Mark(t)
	const n, k, folds = 300, 2, 3
	act := activation(identity.Family, nil)
	s, err := sample.NewVector(sample.Config{Activation: act, K: k, D: 2, N: n, Sigma: 0.3, Design: sample.Separated, Seed: 5}, 2, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	weight := make([]float64, n)
	for r := range weight {
		weight[r] = 1 + float64(r%3)/2
	}
	var targets []Target
	var tables []dataset.Loaded
	for _, of := range sampledTargets(t, s) {
		src := of.Source.(*dataset.Table).With(model.Weights, "w", weight)
		data, err := dataset.Load(t.Context(), src)
		if err != nil {
			t.Fatal(err)
		}
		targets, tables = append(targets, Target{Source: src}), append(tables, dataset.InMemory(src.Schema(), data))
	}
	part := penalty.Folds(n, folds, 1)
	where := func(keep func(row int) bool) (out []Target, sources []dataset.Source) {
		for _, table := range tables {
			rows := table.Where(keep)
			out, sources = append(out, Target{Source: rows}), append(sources, rows)
		}
		return out, sources
	}
	for name, c := range map[string]struct {
		noise  NoiseCovariance
		family string
		of     Noise
	}{
		"gates of their own":             {},
		"gates of their own, per expert": {of: PerExpert{}},
		"diagonal":                       {noise: Diagonal},
		"diagonal, per expert":           {noise: Diagonal, of: PerExpert{}},
		"full":                           {noise: Full},
		"full, per expert":               {noise: Full, of: PerExpert{}},
		"exchangeable":                   {noise: Diagonal, family: "exchangeable"},
		"outlying, per expert":           {noise: Diagonal, family: "outlying", of: PerExpert{}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			cfg := Config{K: k, Seed: 1, Method: Auto{Starts: 4}, Family: c.family, Noise: c.of}
			all := Alternative{Activation: act, Targets: targets, Covariance: c.noise, From: 1, To: k, Config: cfg}
			found, err := all.CrossValidate(ctx, folds)
			if err != nil {
				t.Fatal(err)
			}
			got := found[k-1]
			var want crossvalidation.HeldOut
			var predictive, weights float64
			sse, alone := make([]float64, 2), make([]float64, 2)
			for fold := range folds {
				rest, _ := where(func(row int) bool { return part[row] != fold })
				_, left := where(func(row int) bool { return part[row] == fold })
				fit := FitTargets
				if c.noise != "" {
					fit = func(ctx context.Context, act sdk.Activation, targets []Target, cfg Config) (*fitted.Vector, error) {
						return FitSharedGate(ctx, act, targets, c.noise, cfg)
					}
				}
				v, err := fit(ctx, act, rest, cfg)
				if err != nil {
					t.Fatal(err)
				}
				for j, src := range left {
					e, err := predict.EvaluateModel(ctx, v.Model(j), act, src)
					if err != nil {
						t.Fatal(err)
					}
					alone[j] += e.LogLikelihood
					sse[j] += e.RMSE * e.RMSE * e.Weight
					if j == 0 {
						weights += e.Weight
					}
					if c.noise == "" {
						want.LogLikelihood += e.LogLikelihood
						predictive += *e.Predictive
					}
				}
				if c.noise != "" {
					joint, err := predict.JointLogLikelihood(ctx, v, act, left)
					if err != nil {
						t.Fatal(err)
					}
					want.LogLikelihood += joint
				}
			}
			// Both searches end at the same maximum, by steps of their own.
			near := func(what string, got, want float64) {
				if math.Abs(got-want) > 1e-6*math.Abs(want) {
					t.Errorf("%s is %v, by hand %v", what, got, want)
				}
			}
			near("the log-likelihood", got.LogLikelihood, want.LogLikelihood)
			near("the RMSE", got.RMSE, math.Sqrt(floats.Sum(sse)/weights))
			for j, of := range got.Targets {
				near("a target's log-likelihood", of.LogLikelihood, alone[j])
				near("a target's RMSE", of.RMSE, math.Sqrt(sse[j]/weights))
			}
			if len(got.Targets) != 2 || got.Converged != folds || !(got.StandardError > 0) || !(found[0].LogLikelihood < got.LogLikelihood) {
				t.Errorf("%+v beside one expert's %+v", got, found[0])
			}
			if (got.Predictive == nil) != (c.noise != "") {
				t.Fatalf("predictive log-likelihood %v", got.Predictive)
			}
			if got.Predictive != nil {
				near("the predictive log-likelihood", *got.Predictive, predictive)
			}
		})
	}
}

// TestCrossValidateTargetsRefusals: other rows of another target, ks that rows without a part do not determine, and what no fit of several
// targets is made of.
func TestCrossValidateTargetsRefusals(t *testing.T) {
	act := activation(identity.Family, nil)
	s, err := sample.NewVector(sample.Config{Activation: act, K: 1, D: 2, N: 12, Sigma: 0.3, Design: sample.Separated, Seed: 5}, 2, 0)
	if err != nil {
		t.Fatal(err)
	}
	targets := sampledTargets(t, s)
	data, err := dataset.Load(t.Context(), targets[1].Source)
	if err != nil {
		t.Fatal(err)
	}
	fewer := dataset.InMemory(targets[1].Source.Schema(), data).Where(func(row int) bool { return row != 3 })
	for what, a := range map[string]Alternative{
		"the rows with all cells are others":  {Targets: []Target{targets[0], {Source: fewer}}, From: 1, To: 1},
		"the rows with all cells are others ": {Targets: []Target{targets[0], {Source: fewer}}, From: 1, To: 1, Covariance: Full},
		"knows normal noise alone":            {Targets: targets, From: 1, To: 1, Config: Config{Family: "exchangeable"}},
		"noise covariance":                    {Targets: targets, From: 1, To: 1, Covariance: "round"},
		"cannot determine":                    {Targets: targets, From: 3, To: 3, Covariance: Full},
		"want 1 or more":                      {Targets: targets, From: 2, To: 1},
	} {
		a.Activation = act
		if _, err := a.CrossValidate(t.Context(), 3); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(what)) {
			t.Errorf("error %v, want one that says %q", err, what)
		}
	}
	for _, noise := range []NoiseCovariance{"", Full} { // one of three is too many for 8 rows of 12
		found, err := Alternative{Activation: act, Targets: targets, Covariance: noise, From: 1, To: 3, Config: Config{Method: Auto{Starts: 1}}}.CrossValidate(t.Context(), 3)
		if err != nil || len(found) == 0 || len(found) == 3 {
			t.Errorf("%v: %d numbers of experts, error %v", noise, len(found), err)
		}
	}
}
